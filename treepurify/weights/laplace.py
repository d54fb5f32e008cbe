"""Laplace weighting: between the empirical and the uniform distribution."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from treepurify.arguments import check_choice, check_number
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Grid, Subset
from treepurify.weights.cell_counts import RowsOnGrid, count_rows
from treepurify.weights.empirical import Empirical
from treepurify.weights.points import MeasurePoints
from treepurify.weights.uniform import Uniform
from treepurify.weights.weighting import MassTables, Weighting, normalised

__all__ = ["Laplace"]


@dataclass(frozen=True)
class Laplace(Weighting):
    """A mixture of the empirical and the uniform distribution (Lengerich et al. 2020, 5.2).

    Parameters
    ----------
    smoothing : float
        Share of the uniform part in the mixture, from 0 to 1; 0.5 in the paper.
    variant : {"mixture", "plus-one"}
        ``"mixture"``: ``(1 - smoothing) * empirical + smoothing * uniform``, a mixture of two
        joint distributions, so all tables come from one joint distribution.
        ``"plus-one"``: one added to the count of every cell of every table, as in the code that
        the paper's authors published; `smoothing` is not used. These tables do NOT
        come from one joint distribution (if the table of a pair is summed over a feature, each
        cell has one added count for every cell of that feature), so the result is not a
        functional ANOVA of any distribution. Use it only for comparison with published figures.

    See Also
    --------
    treepurify.weights.Empirical : Without added mass.
    treepurify.weights.Uniform : The added mass alone.

    Examples
    --------
    >>> from treepurify.weights import Laplace
    >>> Laplace(0.25).describe()
    'laplace (uniform share 0.25)'
    """

    smoothing: float = 0.5
    variant: Literal["mixture", "plus-one"] = "mixture"
    name: ClassVar[str] = "laplace"
    needs_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_choice("variant", self.variant, ("mixture", "plus-one"))
        check_number("smoothing", self.smoothing, least=0, most=1)

    @property
    def counts_are_enough(self) -> bool:
        """True: only the cells of rows count."""
        return True

    def tables(self, grid: Grid, rows: RowsOnGrid | None, subsets: Sequence[Subset]) -> MassTables:
        """Return the mass of the cells of each subset."""
        if rows is None:
            raise InvalidInputError('weights="laplace" needs rows: pass X')
        if self.variant == "plus-one":
            counts = count_rows(grid, rows, subsets)
            return {
                subset: normalised(table + 1.0, "the weights of the rows")
                for subset, table in counts.items()
            }
        empirical = Empirical().tables(grid, rows, subsets)
        uniform = Uniform().tables(grid, rows, subsets)
        share = self.smoothing
        return {
            subset: (1 - share) * empirical[subset] + share * uniform[subset] for subset in subsets
        }

    @property
    def share_of_rows(self) -> float | None:
        """One minus the share of the uniform part; None for the variant ``"plus-one"``."""
        return None if self.variant == "plus-one" else 1.0 - self.smoothing

    @property
    def beside_rows(self) -> Weighting:
        """The uniform distribution."""
        return Uniform()

    def sample_points(
        self, rows: MeasurePoints, grid: Grid, n_points: int, rng: np.random.Generator
    ) -> MeasurePoints:
        """Return points drawn from the mixture; the other variant has no joint distribution."""
        if self.variant == "plus-one":
            raise InvalidInputError(
                f'points cannot be drawn from weights={self.describe()!r}; use "empirical", '
                '"laplace", "independent" or "uniform"'
            )
        return super().sample_points(rows, grid, n_points, rng)

    def describe(self) -> str:
        """Return the distribution in words."""
        if self.variant == "plus-one":
            return "laplace (one row added to each cell of each table; not a joint distribution)"
        return f"laplace (uniform share {self.smoothing:g})"
