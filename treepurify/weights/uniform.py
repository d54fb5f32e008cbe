"""Uniform weighting: equal mass per cell, or mass by length."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from treepurify.arguments import check_choice, check_flag
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Grid, Subset
from treepurify.typing import Array
from treepurify.weights.cell_counts import RowsOnGrid
from treepurify.weights.weighting import MassTables, Weighting, normalised, outer_product

__all__ = ["Uniform"]


@dataclass(frozen=True)
class Uniform(Weighting):
    """Independent features, each uniformly distributed (Lengerich et al. 2020, section 5.2).

    Parameters
    ----------
    by : {"cell", "length"}
        ``"cell"``: every interval or category has the same mass, as in the paper;
        ``"length"``: intervals weigh by their length between the smallest and the largest
        value of the data, categories equally.
    missing : bool
        Whether to give mass also to missing values and unseen categories.

    See Also
    --------
    treepurify.weights.Independent : Features independent, each with its own distribution.

    Examples
    --------
    >>> import treepurify as tp
    >>> tp.weights.Uniform(by="length").describe()
    'uniform by length'
    """

    by: Literal["cell", "length"] = "cell"
    missing: bool = False
    name: ClassVar[str] = "uniform"
    is_product: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_choice("by", self.by, ("cell", "length"))
        check_flag("missing", self.missing)

    def tables(self, grid: Grid, rows: RowsOnGrid | None, subsets: Sequence[Subset]) -> MassTables:
        """Return the mass of the cells of each subset."""
        margins = {j: self._margin(grid.axes[j]) for subset in subsets for j in subset}
        return {subset: outer_product([margins[j] for j in subset]) for subset in subsets}

    def describe(self) -> str:
        """Return the distribution in words."""
        return self.name + (" by length" if self.by == "length" else "")

    def _margin(self, axis: FeatureAxis) -> Array:
        margin = np.zeros(axis.n_cells)
        if self.by == "cell":
            margin[: axis.n_regular] = 1.0
        elif axis.bounds is None and axis.cuts is not None and len(axis.cuts):
            raise InvalidInputError(
                f'Uniform(by="length") needs the range of feature {axis.name!r}: pass X'
            )
        else:
            margin[:] = axis.lengths()
        if self.missing:
            margin[axis.n_regular :] = margin[: axis.n_regular].mean()
        return normalised(margin, f"the uniform weights of feature {axis.name!r}")
