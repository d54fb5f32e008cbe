"""The weighting whose smoothing is chosen by leave-one-out log-likelihood."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Grid, Subset
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import RowWeights
from treepurify.weights.cell_counts import RowsOnGrid
from treepurify.weights.latent_rows import latent_rows
from treepurify.weights.smoothing import (
    USUAL_POINTS,
    Points,
    choose_smoothing,
    needs_values,
    smoothed_measure,
)
from treepurify.weights.weighting import FittedMeasure, MassTables, Weighting

__all__ = ["Auto"]

# As many rows as there would be points: what is left to smooth is then hardly worth their draw.
_PLENTY = USUAL_POINTS


@dataclass(frozen=True)
class Auto(Weighting):
    """The rows, smoothed by the amount of best leave-one-out log-likelihood.

    Tries no smoothing, kernels, and the Gaussian copula for every pair of features, by the
    leave-one-out log-likelihood of its table, and smooths each feature as much as its pairs allow
    (`Kernel`). Numbers whose shared values mean something of their own, such as the amounts of a
    tax table, stay as they are. From 32 768 rows on nothing is tried: there
    the rows themselves are the measure. ``diagnostics["measure"]`` says what was taken, and by
    how much.

    Examples
    --------
    >>> Auto().describe()
    'auto'
    """

    name: ClassVar[str] = "auto"
    needs_rows: ClassVar[bool] = True

    @property
    def needs_values(self) -> bool:
        """True: it moves rows."""
        return True

    def fitted(
        self, columns: Columns, row_weights: RowWeights, memory_budget: int
    ) -> FittedMeasure:
        """Return what was picked."""
        if columns.n_rows >= _PLENTY:
            facts = {"picked": "empirical", "reason": f"there are {_PLENTY} rows or more"}
            words = f"auto: empirical ({_PLENTY} rows or more)"
            return FittedMeasure(Points(words), columns, row_weights, facts)
        latent = latent_rows(columns, row_weights, memory_budget)
        choice = choose_smoothing(latent, None, None)
        if choice.is_rows:
            facts = {"picked": "empirical", **choice.facts(latent)}
            return FittedMeasure(Points("auto: empirical"), columns, row_weights, facts)
        name = "copula" if choice.is_copula else "kernel"
        measure = smoothed_measure(latent, choice, f"auto: {name}", USUAL_POINTS, memory_budget)
        return replace(measure, facts={"picked": name, **measure.facts})

    def tables(self, grid: Grid, rows: RowsOnGrid | None, subsets: Sequence[Subset]) -> MassTables:
        """Refuse: a grid and the cells of rows do not say where rows lie within them."""
        raise InvalidInputError(needs_values(self.name))
