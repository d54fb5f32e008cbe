"""The command line: ``treepurify demo | info | purify | compare | audit | report``."""

__all__ = ["main"]


def main() -> None:
    """Run the command line and leave with its exit code."""
    from treepurify.cli.app import app

    app(prog_name="treepurify")
