"""The weighting whose smoothing is chosen by leave-one-out log-likelihood."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from treepurify.errors import InvalidInputError, MemoryBudgetError
from treepurify.grids.grid import Grid, Subset
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import RowWeights, effective_rows
from treepurify.weights.cell_counts import RowsOnGrid
from treepurify.weights.empirical import Empirical
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
# Fewer say nothing of how much to smooth; what is so small is an example, or a full design.
_FEW = 30


@dataclass(frozen=True)
class Auto(Weighting):
    """The rows, smoothed by the amount with the best leave-one-out log-likelihood.

    No smoothing, kernels and the Gaussian copula are compared for every pair of features, by the
    leave-one-out log-likelihood of the table of the pair, and each feature is smoothed as much as
    its pairs allow (`Smoothed`). Numbers whose repeated values have a meaning, such as the amounts
    of a tax table, are not smoothed. With fewer than 30 rows, or 32 768 and more, nothing is
    compared and the rows are used as they are. ``Decomposition.measure`` is then
    ``"empirical"``, and ``"smoothed rows"`` otherwise; ``diagnostics["measure"]`` says how much
    they were smoothed.

    See Also
    --------
    treepurify.weights.Empirical : The rows as they are.
    treepurify.weights.Smoothed : The rows, smoothed by an amount of your choice.

    Examples
    --------
    >>> import treepurify as tp
    >>> tp.weights.Auto().describe()
    'auto'
    """

    name: ClassVar[str] = "auto"
    needs_rows: ClassVar[bool] = True

    @property
    def needs_values(self) -> bool:
        """True: rows are shifted, which requires their values."""
        return True

    @property
    def plenty(self) -> int:
        """Effective number of rows at and above which rows are used as they are."""
        return _PLENTY

    def of_many_rows(self) -> FittedMeasure:
        """Return the rows as they are."""
        facts = {"picked": "empirical", "reason": f"there are {_PLENTY} rows or more"}
        return FittedMeasure(Empirical(), None, None, facts)

    def without_rows(self) -> Weighting:
        """Return the empirical weighting, which takes the bin weights of an EBM as they are."""
        return Empirical()

    def fitted(
        self, columns: Columns, row_weights: RowWeights, memory_budget: int
    ) -> FittedMeasure:
        """Return the rows, smoothed by the chosen amount."""
        effective = effective_rows(columns.n_rows, row_weights)
        if effective >= _PLENTY:
            return replace(self.of_many_rows(), columns=columns, row_weights=row_weights)
        as_they_are = FittedMeasure(Empirical(), columns, row_weights, {"picked": "empirical"})
        if effective < _FEW:
            return as_they_are
        try:
            return self._smoothed(columns, row_weights, memory_budget)
        except MemoryBudgetError as error:
            note = f"The rows were not smoothed because of the memory budget: {error}"
            return replace(as_they_are, note=note)

    def _smoothed(
        self, columns: Columns, row_weights: RowWeights, memory_budget: int
    ) -> FittedMeasure:
        latent = latent_rows(columns, row_weights, memory_budget)
        choice = choose_smoothing(latent, None, None)
        if choice.is_rows:
            facts = {"picked": "empirical", **choice.facts(latent)}
            note = (
                f"The {latent.n_rows} rows were not smoothed, since this would not predict "
                "held-out rows better."
            )
            return FittedMeasure(Empirical(), columns, row_weights, facts, note)
        measure = smoothed_measure(latent, choice, USUAL_POINTS, memory_budget)
        picked = "copula" if choice.is_copula else "smoothed"
        note = (
            f"The {latent.n_rows} rows were smoothed by the amount that best predicts held-out "
            "rows, since effects averaged over so few rows would be noisy. "
            f'{measure.note} weights="empirical" uses the rows as they are.'
        )
        facts = {"picked": picked, **measure.facts}
        return replace(measure, weighting=Points("smoothed rows"), facts=facts, note=note)

    def tables(self, grid: Grid, rows: RowsOnGrid | None, subsets: Sequence[Subset]) -> MassTables:
        """Raise an error: cells do not show the values of the rows within them."""
        raise InvalidInputError(needs_values(self.name))
