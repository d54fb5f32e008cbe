"""What the routes for deep ensembles work on."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from treepurify.columns import Columns
from treepurify.effects.accumulate import LeafBoxes
from treepurify.engines.common.assemble import Setting
from treepurify.engines.common.model_check import ModelCheck
from treepurify.grids.grid import EncodedRows, Grid, Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.progress import ProgressReport
from treepurify.weights import Weighting

__all__ = ["DeepModel"]


@dataclass(frozen=True, eq=False)
class DeepModel:
    """An ensemble on its union grid, with the measure and what the caller asked for.

    Parameters
    ----------
    model : TreeEnsemble
        The parsed model.
    grid : Grid
        The union grid.
    boxes : LeafBoxes
        The leaves on that grid.
    rows : EncodedRows, optional
        The rows on that grid, with their weights.
    columns : Columns, optional
        The rows as the model reads them.
    weighting : Weighting
        The measure.
    order : int, optional
        Largest order kept apart; all that occur by default.
    interactions : collection of tuple of int, optional
        The subsets of two or more features that are kept apart; all by default.
    memory_budget : int
        Bytes that tables may take.
    report : callable
        Progress.
    setting : Setting
        Names, link and measure; the routes fill in tensors, masses and axes.
    check : ModelCheck, optional
        The parsed model beside its library.
    facts : dict
        Diagnostics.
    """

    model: TreeEnsemble
    grid: Grid
    boxes: LeafBoxes
    rows: EncodedRows | None
    columns: Columns | None
    weighting: Weighting
    order: int | None
    interactions: Collection[Subset] | None
    memory_budget: int
    report: ProgressReport
    setting: Setting
    check: ModelCheck | None
    facts: dict[str, Any]

    @property
    def depth(self) -> int:
        """Largest number of features on a path."""
        return max((len(subset) for subset in self.boxes.subsets), default=0)

    @property
    def kept_order(self) -> int:
        """Largest order that is kept apart and occurs."""
        return self.depth if self.order is None else min(self.order, self.depth)

    @property
    def leaves_something_above(self) -> bool:
        """Whether components that are not kept apart can occur."""
        return self.interactions is not None or self.kept_order < self.depth

    def row_shares(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return the share of each row in the empirical measure."""
        n_rows = 0 if self.rows is None else self.rows.n_rows
        weights = None if self.rows is None else self.rows.weights
        return np.full(n_rows, 1.0 / max(n_rows, 1)) if weights is None else weights / weights.sum()
