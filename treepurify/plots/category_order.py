"""In which order the categories of a feature are drawn."""

import re
from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from treepurify.components import tabulate
from treepurify.decomposition import Decomposition
from treepurify.grids.axis import FeatureAxis
from treepurify.typing import Array, Indices

__all__ = [
    "given_order",
    "left_out",
    "main_effect_of",
    "order_categories",
    "order_of_labels",
]

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
    most: int | None = None,
    *,
    ordered_labels: Sequence[Hashable] = (),
    by_name: bool = False,
) -> Indices:
    """Return the cells of the categories of an axis from first to last.

    In the order that categories have by themselves; without one, the largest effect first.

    Parameters
    ----------
    axis : FeatureAxis
        The axis, of categories.
    effects, mass : ndarray of float64, shape (n_cells,)
        Effect and mass of each cell. Where an effect is not known, NaN.
    most : int, optional
        Most categories; those of largest mass. Those without a known label are then left out.
    ordered_labels : sequence of hashable
        The order that the column of the data has; see `FeatureSpec`.
    by_name : bool
        Whether categories without an order are sorted by their names, which several models share;
        numbers within names count as numbers.
    """
    cells = np.arange(axis.n_regular)
    if most is not None:
        cells = np.delete(cells, np.array(axis.unnamed, dtype=int))
        heaviest = cells[np.argsort(-mass[cells], kind="stable")]
        cells = np.sort(heaviest[:most])
    given = given_order(axis.categories, ordered_labels)
    if given is not None:
        cells = cells[np.argsort(given[cells], kind="stable")]
    elif by_name:
        cells = np.array(sorted(cells, key=lambda cell: _natural(axis.categories[cell])), dtype=int)
    else:
        cells = cells[np.argsort(-effects[cells], kind="stable")]
    return cells.astype(np.intp)


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


def order_of_labels(d: Decomposition, feature: int) -> tuple[Hashable, ...]:
    """Return the order that the categories of a feature have in the data; empty without one."""
    return d.inputs.features[feature].ordered_labels


def left_out(axis: FeatureAxis, cells: Indices) -> str:
    """Return how many of the categories are drawn, in brackets; empty where all are."""
    n_shown = int(np.sum(cells < axis.n_regular))
    n_named = axis.n_regular - len(axis.unnamed)
    shown = f"{n_shown} of {n_named} categories" if n_shown < n_named else ""
    if axis.unnamed:
        *_, merged = axis.with_unnamed_merged.categories
        shown = f"{shown or f'{n_shown} categories'}, without {merged}"
    return f" ({shown})" if shown else ""


def main_effect_of(d: Decomposition, feature: int, axis: FeatureAxis, output: int) -> Array:
    """Return the main effect on each cell of an axis of categories; NaN where it is not known."""
    main = d.components.get((feature,))
    table = None if main is None else tabulate(main, d.inputs)
    if table is None:
        return np.full(axis.n_cells, np.nan)
    known = dict(zip(table.axes[0].labels(), table.values[:, output], strict=True))
    return np.array([known.get(label, np.nan) for label in axis.labels()])


def _place_among(names: Sequence[str], label: str) -> int | None:
    """Return the position of a name, whole or abbreviated; None where it is none of them."""
    word = label.strip().rstrip(".").lower()
    for place, name in enumerate(names):
        is_short = _SHORTEST <= len(word) <= _LONGEST_SHORT and name.startswith(word)
        if word == name or is_short:
            return place
    return None


def _natural(category: Hashable) -> list[tuple[int, float, str]]:
    """Return a key that puts ``"2nd"`` before ``"10th"``."""
    parts = re.split(r"(\d+)", str(category))
    return [(0, float(part), "") if part.isdecimal() else (1, 0.0, part) for part in parts if part]


def _numbers(categories: Iterable[Hashable]) -> Array | None:
    """Return categories that are all numbers as such; None where one is not."""
    try:
        return np.array([float(str(category)) for category in categories])
    except ValueError:
        return None
