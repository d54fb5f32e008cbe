"""Terms of two features of an ensemble: tables that are built when they are asked for."""

from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.budget import DEFAULT_BUDGET
from treepurify.components import ModelInputs, TensorComponent
from treepurify.engines.partial_dependence.pattern_component import PatternComponent
from treepurify.engines.partial_dependence.pattern_shares import term_table
from treepurify.errors import SavedFileError
from treepurify.saving import savable
from treepurify.weights import Empirical

__all__ = ["PatternTensor"]

Array = npt.NDArray[np.float64]


def _check(loaded: "PatternTensor") -> None:
    """Refuse background rows outside the grid, which compiled code would count elsewhere."""
    rows, grid = loaded.term.background, loaded.term.grid
    fits = (
        rows.codes.ndim == 2
        and rows.codes.dtype.kind == "u"
        and len(rows.codes) == grid.n_features
        and all(rows.codes[j].max(initial=0) < grid.axes[j].n_cells for j in loaded.features)
        and (rows.weights is None or rows.weights.shape == (rows.n_rows,))
    )
    if not fits:
        raise SavedFileError("the background rows in the file do not fit its grid: it is damaged")


@savable("table of leaves", arguments=("term", "inputs"), check=_check)
class PatternTensor(TensorComponent):
    """A term of partial dependence as a table that its leaves are added up to when it is read.

    All tables of a deep ensemble together can take more memory than its leaves and the values
    of its terms on the rows, so none is kept. `stored` keeps those of one term that are read
    often.

    Parameters
    ----------
    term : PatternComponent
        The leaves and the background.
    inputs : ModelInputs
        How the columns of a table are read.
    memory_budget : int
        Bytes that a table may take.
    """

    term: PatternComponent
    memory_budget: int

    def __init__(
        self, term: PatternComponent, inputs: ModelInputs, memory_budget: int = DEFAULT_BUDGET
    ) -> None:
        own = {"features": term.features, "axes": term.axes, "inputs": inputs, "raw": None}
        self.__dict__.update(own, term=term, memory_budget=memory_budget)

    @property
    def values(self) -> Array:
        """Effect on the margin scale, shape (cells..., n_outputs); a new array every time."""
        term = self.term
        return term_table(term.shares, term.grid, term.features, term.n_outputs, self.memory_budget)

    @property
    def mass(self) -> Array:
        """Share of the background rows in each cell, shape (cells...); a new array every time."""
        term = self.term
        tables = Empirical().tables(term.grid, term.background, [term.features])
        return tables[term.features]

    def stored(self) -> TensorComponent:
        """Return the same term with its tables in memory."""
        return TensorComponent(self.features, self.axes, self.values, self.mass, self.inputs)

    def on_cells(self, cells: npt.NDArray[Any]) -> Array:
        """Return the values in cells (n_features, n_rows), shape (n_rows, n_outputs).

        A few rows are less work for the leaves than the table is.
        """
        n_leaves = len(self.term.shares.boxes.leaves_with(self.features))
        if n_leaves * cells.shape[1] < self.n_cells:
            return self.term.on_cells(cells)
        return super().on_cells(cells)
