"""The one place where matplotlib is imported, and the sizes of texts, which follow its settings."""

from importlib import import_module
from typing import Any

from treepurify.errors import MissingDependencyError

__all__ = ["LABEL_SIZE", "SMALL_SIZE", "import_matplotlib", "points_of", "text_size"]

# Relative to the setting font.size.
LABEL_SIZE = "medium"
SMALL_SIZE = "small"


def import_matplotlib(module: str) -> Any:
    """Return a module of matplotlib, such as ``"pyplot"``.

    Raises
    ------
    MissingDependencyError
        If matplotlib is not installed; names the extra.
    """
    try:
        return import_module(f"matplotlib.{module}")
    except ImportError as error:
        raise MissingDependencyError(
            'figures need matplotlib: pip install "treepurify[plots]"'
        ) from error


def text_size(setting: str, usual: str) -> str | float:
    """Return the size of a kind of text: that of matplotlib's settings where a user changed it.

    Parameters
    ----------
    setting : str
        Such as ``"xtick.labelsize"``.
    usual : str
        The size by default, relative to ``"font.size"``.
    """
    library = import_module("matplotlib")
    chosen: str | float = library.rcParams[setting]
    return usual if chosen == library.rcParamsDefault[setting] else chosen


def points_of(size: str | float) -> float:
    """Return the size of a text in points."""
    properties = import_matplotlib("font_manager").FontProperties
    return float(properties(size=size).get_size_in_points())
