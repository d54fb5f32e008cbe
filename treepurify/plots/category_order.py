"""The order in which the categories of a feature are drawn."""

import re
from collections.abc import Hashable, Sequence
from typing import Literal, get_args

import numpy as np

from treepurify.arguments import check_choice
from treepurify.components import tabulate
from treepurify.decomposition import Decomposition
from treepurify.grids.axis import FeatureAxis
from treepurify.typing import Array, Indices

__all__ = ["CategoryOrder", "left_out", "main_effect_of", "order_categories"]

CategoryOrder = Literal["effect", "mass", "name"]


def order_categories(
    axis: FeatureAxis, effects: Array, mass: Array, sort: CategoryOrder, most: int | None = None
) -> Indices:
    """Return the cells of the categories of an axis from first to last.

    Categories that are numbers keep their order under ``"effect"``. Numbers within names count
    as numbers.

    Parameters
    ----------
    axis : FeatureAxis
        The axis, of categories.
    effects, mass : ndarray of float64, shape (n_cells,)
        Effect and mass of each cell; the largest come first. Where an effect is not known, NaN.
    sort : {"effect", "mass", "name"}
        What decides.
    most : int, optional
        Most categories; those of largest mass.

    Raises
    ------
    InvalidInputError
        If `sort` is unknown.
    """
    check_choice("sort", sort, get_args(CategoryOrder))
    cells = np.arange(axis.n_regular)
    if most is not None and len(cells) > most:
        heaviest = np.argsort(-mass[: axis.n_regular], kind="stable")
        cells = np.sort(heaviest[:most])
    if sort == "mass":
        cells = cells[np.argsort(-mass[cells], kind="stable")]
    elif sort == "name":
        cells = np.array(sorted(cells, key=lambda cell: _natural(axis.categories[cell])), dtype=int)
    elif not _are_numbers([axis.categories[cell] for cell in cells]):
        cells = cells[np.argsort(-effects[cells], kind="stable")]
    return cells.astype(np.intp)


def left_out(axis: FeatureAxis, cells: Indices) -> str:
    """Return how many of the categories are drawn, in brackets; empty where all are."""
    n_shown = int(np.sum(cells < axis.n_regular))
    return f" ({n_shown} of {axis.n_regular} categories)" if n_shown < axis.n_regular else ""


def main_effect_of(d: Decomposition, feature: int, axis: FeatureAxis, output: int) -> Array:
    """Return the main effect on each cell of an axis of categories; NaN where it is not known."""
    main = d.components.get((feature,))
    table = None if main is None else tabulate(main, d.inputs)
    if table is None:
        return np.full(axis.n_cells, np.nan)
    known = dict(zip(table.axes[0].labels(), table.values[:, output], strict=True))
    return np.array([known.get(label, np.nan) for label in axis.labels()])


def _natural(category: Hashable) -> list[tuple[int, float, str]]:
    """Return a key that puts ``"2nd"`` before ``"10th"``."""
    parts = re.split(r"(\d+)", str(category))
    return [(0, float(part), "") if part.isdecimal() else (1, 0.0, part) for part in parts if part]


def _are_numbers(categories: Sequence[Hashable]) -> bool:
    try:
        for category in categories:
            float(str(category))
    except ValueError:
        return False
    return True
