"""End without a traceback on Ctrl-C while the command is still loading."""

import sys
from pathlib import Path
from types import TracebackType

EXIT_CODE = 130
"""What shells report for a program that Ctrl-C ended."""


def end_quietly_as_command() -> None:
    """Let Ctrl-C end the process with exit code 130 and no traceback, where it is our command.

    Loading takes a second or two, before the command line itself is there to catch anything.
    In a program that imports the package nothing changes.
    """
    # "-m" stands there while `python -m treepurify` still looks for what it runs.
    called = Path(sys.argv[0]).name if sys.argv else ""
    if called in ("treepurify", "treepurify.exe", "-m"):
        sys.excepthook = _leave


def _leave(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        raise SystemExit(EXIT_CODE)
    sys.__excepthook__(kind, error, trace)


# On import, since importing the rest is what takes so long.
end_quietly_as_command()
