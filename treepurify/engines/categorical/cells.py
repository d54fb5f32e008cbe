"""The cells of subsets of features by number, and the mass of every two of them together."""

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from treepurify.budget import check_budget
from treepurify.engines.categorical.common_counts import Bits, CommonMass, common_mass
from treepurify.engines.categorical.indicators import CellNumbers
from treepurify.engines.categorical.observations import Observations
from treepurify.grids.grid import Subset

__all__ = ["NumberedCells", "start_numbering"]

Array = npt.NDArray[np.float64]
Places = tuple[npt.NDArray[np.intp], ...]

# Its mass and its number; and while it is numbered, a sum, a mark and where it stands.
_BYTES_HELD_A_CELL = 16
_BYTES_MEANWHILE_A_CELL = 24


@dataclass(eq=False)
class NumberedCells:
    """Cells of the subsets seen so far; it grows and belongs to one selection alone.

    Parameters
    ----------
    common : CommonMass
        Mass of every two cells together.
    levels : dict of int to ndarray of uint64
        The bits of each level of each feature with more than one.
    reference : dict of int to int
        Most frequent level of each of them: its cells are one minus the others and have no
        number.
    numbers : dict
        Number of each cell of each subset; -1 for those with a reference level or no mass.
    mass : dict
        Mass of each cell of each subset.
    n_table_cells : int
        Number of cells in all these tables.
    """

    common: CommonMass
    levels: dict[int, Bits]
    reference: dict[int, int]
    numbers: CellNumbers = field(default_factory=lambda: {(): np.zeros((), dtype=np.int64)})
    mass: dict[Subset, Array] = field(default_factory=dict)
    n_table_cells: int = 0

    def references(self, subset: Subset) -> tuple[int, ...]:
        """Return the reference level of each feature of a subset."""
        return tuple(self.reference[j] for j in subset)

    def add(
        self, observations: Observations, subset: Subset
    ) -> tuple[Places, npt.NDArray[np.int64]]:
        """Number the cells of a subset.

        Returns
        -------
        cells : tuple of ndarray of int
            The levels of each cell with mass and without a reference level.
        numbers : ndarray of int
            The number of each; cells that hold the same rows share one.

        Raises
        ------
        MemoryBudgetError
            If the tables of all subsets so far would not fit.
        """
        self._check_memory(observations.shape(subset))
        mass = self.mass[subset] = observations.margin(subset)
        cells = _cells_apart(mass, self.references(subset))
        bits = self.levels[subset[0]][cells[0]]
        for j, own in zip(subset[1:], cells[1:], strict=True):
            bits = bits & self.levels[j][own]
        numbers = self.common.add(bits)
        table = np.full(mass.shape, -1, dtype=np.int64)
        table[cells] = numbers
        self.numbers[subset] = table
        self.n_table_cells += table.size
        return cells, numbers

    def _check_memory(self, shape: tuple[int, ...]) -> None:
        new = math.prod(shape)
        tables = _BYTES_HELD_A_CELL * (self.n_table_cells + new) + _BYTES_MEANWHILE_A_CELL * new
        check_budget(
            tables + self.common.together.nbytes + self.common.bits.nbytes,
            self.common.memory_budget,
            f"tables of {len(self.mass) + 1} terms, the last of {new} cells,",
            "Pass a smaller order or fewer bins, or a larger memory_budget.",
        )


def start_numbering(observations: Observations, memory_budget: int) -> NumberedCells:
    """Return the table with the constant alone."""
    common, levels = common_mass(observations, memory_budget)
    reference = {j: int(np.argmax(observations.level_mass[j])) for j in levels}
    return NumberedCells(common, levels, reference)


def _cells_apart(mass: Array, reference: tuple[int, ...]) -> Places:
    """Return the cells with mass in which no feature has its reference level."""
    apart = mass > 0
    for axis, level in enumerate(reference):
        place: list[slice | int] = [slice(None)] * mass.ndim
        place[axis] = level
        apart[tuple(place)] = False
    return np.nonzero(apart)
