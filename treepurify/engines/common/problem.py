"""What a model is purified for: the model on its grid, the measure, and what is wanted of it."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from treepurify.effects.accumulate import LeafBoxes
from treepurify.engines.common.functions import ParsedFunction
from treepurify.engines.common.layout import Layout
from treepurify.grids.grid import EncodedRows, Grid, Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.progress import ProgressReport
from treepurify.rows.columns import Columns
from treepurify.weights import Weighting

__all__ = ["Problem", "Wanted"]


@dataclass(frozen=True, eq=False)
class Wanted:
    """Which effects are kept apart; those of one feature always are.

    Parameters
    ----------
    order : int, optional
        Largest number of features of a component; all by default.
    interactions : collection of tuple of int, optional
        Subsets of two or more features; all by default.
    """

    order: int | None = None
    interactions: Collection[Subset] | None = None

    def keeps(self, subset: Subset) -> bool:
        """Return whether the effect of a subset is kept apart."""
        is_named = self.interactions is None or subset in self.interactions
        return len(subset) == 1 or (is_named and len(subset) <= (self.order or len(subset)))


@dataclass(frozen=True, eq=False)
class Problem:
    """A model on its grid, the measure, and what the caller wants: what every route reads.

    Parameters
    ----------
    model : TreeEnsemble or AdditiveTables
        The parsed model.
    layout : Layout
        Its grids with the rows on them; an EBM as effect tensors, an ensemble as leaf boxes.
    columns : Columns, optional
        The rows as the model reads them.
    weighting : Weighting
        The measure.
    wanted : Wanted
        Which effects are kept apart.
    memory_budget : int
        Bytes that tables may take.
    report : callable
        Progress.
    """

    model: Model
    layout: Layout
    columns: Columns | None
    weighting: Weighting
    wanted: Wanted
    memory_budget: int
    report: ProgressReport

    @property
    def ensemble(self) -> TreeEnsemble:
        """The model, where it is an ensemble."""
        if not isinstance(self.model, TreeEnsemble):
            raise TypeError("an additive model of tables has no trees")
        return self.model

    @property
    def function(self) -> ParsedFunction:
        """The margin of the model."""
        return ParsedFunction(self.model)

    @property
    def grid(self) -> Grid:
        """The union grid."""
        return self.layout.union_grid

    @property
    def boxes(self) -> LeafBoxes:
        """The leaves of an ensemble on the union grid."""
        return self.layout.leaf_boxes

    @property
    def rows(self) -> EncodedRows | None:
        """The rows on the union grid, with their weights."""
        return self.layout.rows.get(1)

    @property
    def depth(self) -> int:
        """Largest number of features on a path."""
        return max((len(subset) for subset in self.boxes.subsets), default=0)

    @property
    def kept_order(self) -> int:
        """Largest order that is kept apart and occurs."""
        return self.depth if self.wanted.order is None else min(self.wanted.order, self.depth)

    @property
    def leaves_something_above(self) -> bool:
        """Whether components that are not kept apart can occur."""
        return self.wanted.interactions is not None or self.kept_order < self.depth

    def row_shares(self) -> npt.NDArray[np.float64]:
        """Return the share of each row in the empirical measure."""
        rows = self.rows
        return np.zeros(0) if rows is None else rows.shares
