"""A component of any order under independent features, evaluated from leaf boxes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify._kernels.conditional import evaluate_boxes
from treepurify.components import locate_cells
from treepurify.effects.accumulate import LeafBoxes
from treepurify.grids.grid import Grid, Subset
from treepurify.rows.table_reader import read_columns

__all__ = ["BoxComponent"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class BoxComponent:
    """The sum over leaves of ``v * prod_{i in S} (1_i - p_i) * prod_{j not in S} p_j``.

    It needs no table over the cells of its features, so there is one for every subset that
    occurs on a path, at any order.

    Parameters
    ----------
    features : tuple of int
        Positions of the features S, increasing.
    grid : Grid
        The union grid.
    boxes : LeafBoxes
        The leaves of the ensemble.
    probability : ndarray of float64
        Probability of each entry of `boxes`.
    variance : ndarray of float64, shape (n_outputs,)
        Variance under the measure.
    """

    features: Subset
    grid: Grid
    boxes: LeafBoxes
    probability: Array
    variance: Array

    def __repr__(self) -> str:
        """Return the features."""
        names = " & ".join(self.grid.axes[j].name for j in self.features)
        return f"BoxComponent({names})"

    def evaluate(self, X: Any) -> Array:
        """Return the values on the rows of `X`, shape (n_rows, n_outputs)."""
        columns = read_columns(
            X, self.grid.features, match_names=self.grid.match_names, only=self.features
        )
        cells = np.stack(
            [locate_cells(columns, j, self.grid.axes[j]) for j in self.features], axis=1
        )
        total = np.zeros((columns.n_rows, len(self.variance)))
        boxes = self.boxes
        evaluate_boxes(
            cells,
            np.array(self.features, dtype=np.int64),
            boxes.leaves_with(self.features),
            boxes.entry_ptr,
            boxes.entry_feature,
            self.probability,
            boxes.run_ptr,
            boxes.run_start,
            boxes.run_stop,
            boxes.values,
            boxes.output,
            total,
        )
        return total
