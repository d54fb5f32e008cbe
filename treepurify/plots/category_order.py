"""In which order the categories of a feature are drawn."""

from collections.abc import Hashable, Sequence

import numpy as np

from treepurify.grids.axis import FeatureAxis
from treepurify.typing import Array, Indices

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SHORTEST, _LONGEST_SHORT = 3, 5


def order_categories(
    axis: FeatureAxis,
    effects: Array,
    mass: Array,
    most: int,
    ordered_labels: Sequence[Hashable] = (),
) -> Indices:
    """Return the cells of the heaviest categories of an axis from first to last.

    In the order that categories have by themselves; without one, the largest effect first.

    Parameters
    ----------
    axis : FeatureAxis
        The axis, of categories.
    effects, mass : ndarray of float64, shape (n_cells,)
        Effect and mass of each cell. Where an effect is not known, NaN.
    most : int
        Most categories; those without a known label are left out.
    ordered_labels : sequence of hashable
        The order that the column of the data has; see `FeatureSpec`.
    """
    cells = np.delete(np.arange(axis.n_regular), np.array(axis.unnamed, dtype=int))
    cells = np.sort(cells[np.argsort(-mass[cells], kind="stable")][:most])
    given = given_order(axis.categories, ordered_labels)
    keys = -effects if given is None else given
    return cells[np.argsort(keys[cells], kind="stable")].astype(np.intp)


def given_order(
    categories: Sequence[Hashable], ordered_labels: Sequence[Hashable] = ()
) -> Indices | None:
    """Return the place of each category in the order that all of them have; None without one.

    The order is that of the column in the data, of numbers, or of the months or weekdays by their
    English names.

    Parameters
    ----------
    categories : sequence of hashable
        The categories.
    ordered_labels : sequence of hashable
        The order of the column, where it has one.

    Examples
    --------
    >>> given_order(["Apr", "Feb", "Jan"]).tolist(), given_order(["red", "green"])
    ([3, 1, 0], None)
    """
    if len(ordered_labels):
        place = {str(label): k for k, label in enumerate(ordered_labels)}
        return np.array([place.get(str(each), len(place)) for each in categories], dtype=np.intp)
    numbers = _numbers(categories)
    if numbers is not None:
        return np.argsort(np.argsort(numbers, kind="stable"), kind="stable")
    for names in (_MONTHS, _WEEKDAYS):
        places = [_place_among(names, str(each)) for each in categories]
        if len(places) > 1 and None not in places and len(set(places)) == len(places):
            return np.array(places, dtype=np.intp)
    return None


def left_out(axis: FeatureAxis, n_shown: int | None = None) -> str:
    """Return how many of the categories are drawn, in brackets; empty where all are."""
    n_named = axis.n_regular - len(axis.unnamed)
    is_part = n_shown is not None and n_shown < n_named
    shown = f"{n_shown} of {n_named} categories" if is_part else ""
    if axis.unnamed:
        *_, merged = axis.with_unnamed_merged.categories
        shown = f"{shown or f'{n_named} categories'}, without {merged}"
    return f" ({shown})" if shown else ""


def _place_among(names: Sequence[str], label: str) -> int | None:
    """Return the position of a name, whole or abbreviated; None where it is none of them."""
    word = label.strip().rstrip(".").lower()
    for place, name in enumerate(names):
        is_short = _SHORTEST <= len(word) <= _LONGEST_SHORT and name.startswith(word)
        if word == name or is_short:
            return place
    return None


def _numbers(categories: Sequence[Hashable]) -> Array | None:
    """Return categories that are all numbers as such; None where one is not."""
    try:
        return np.array([float(str(category)) for category in categories])
    except ValueError:
        return None
