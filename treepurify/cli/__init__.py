"""The command line: ``treepurify demo | info | purify | compare | audit | report | export``."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and leave with its exit code."""
    try:
        from treepurify.cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        sys.exit('the command line needs typer and rich: pip install "treepurify[cli]"')

    app(prog_name="treepurify")
