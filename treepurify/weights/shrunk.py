"""Shrunk weighting: between the empirical distribution and the product of its margins."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from treepurify.arguments import check_number
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Grid, Subset
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import RowWeights
from treepurify.weights.cell_counts import RowsOnGrid
from treepurify.weights.empirical import Empirical
from treepurify.weights.held_out import held_out_shrinkage
from treepurify.weights.independent import Independent
from treepurify.weights.latent_rows import latent_rows
from treepurify.weights.weighting import FittedMeasure, MassTables, Weighting

__all__ = ["Shrunk"]


@dataclass(frozen=True)
class Shrunk(Weighting):
    """A mixture of the rows with independent features, each distributed as in the rows.

    A combination of values has mass if each of its values occurs, and each feature keeps
    its distribution in the rows. All tables are in closed form, and nothing is drawn.

    Parameters
    ----------
    share : float, optional
        Share of the independent part, from 0 to 1. By default the share with the highest
        leave-one-out log-likelihood of the tables of pairs, summed over all pairs, with intervals
        of equal shares of the rows; ``diagnostics["measure"]`` has it.

    See Also
    --------
    treepurify.weights.Empirical : Not shrunk.
    treepurify.weights.Independent : Shrunk completely.

    Examples
    --------
    >>> import treepurify as tp
    >>> tp.weights.Shrunk(0.25).describe()
    'shrunk (independent share 0.25)'
    """

    share: float | None = None
    name: ClassVar[str] = "shrunk"
    needs_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.share is not None:
            check_number("share", self.share, least=0, most=1)

    def fitted(
        self, columns: Columns, row_weights: RowWeights, memory_budget: int
    ) -> FittedMeasure:
        """Return the mixture, with the share of best leave-one-out likelihood if none is given."""
        if self.share is not None:
            return FittedMeasure(self, columns, row_weights)
        tried = held_out_shrinkage(latent_rows(columns, row_weights, memory_budget))
        if tried is None:
            return FittedMeasure(Shrunk(0.0), columns, row_weights)
        share = tried.best_for_all
        facts = {"share": share, "tried_shares": tried.facts()}
        return FittedMeasure(Shrunk(share), columns, row_weights, facts)

    @property
    def needs_values(self) -> bool:
        """Whether the share has yet to be estimated."""
        return self.share is None

    @property
    def counts_are_enough(self) -> bool:
        """Whether the share is given: otherwise it is estimated from the values of the rows."""
        return self.share is not None

    @property
    def share_of_rows(self) -> float | None:
        """One minus the share of the independent part; None until that is estimated."""
        return None if self.share is None else 1.0 - self.share

    @property
    def beside_rows(self) -> Weighting:
        """Independent features, each distributed as in the rows."""
        return Independent()

    def tables(self, grid: Grid, rows: RowsOnGrid | None, subsets: Sequence[Subset]) -> MassTables:
        """Return the mass of the cells of each subset."""
        if rows is None:
            raise InvalidInputError('weights="shrunk" needs rows: pass X')
        if self.share is None:
            raise InvalidInputError(
                'weights="shrunk" needs the values of the rows to choose the share: use purify '
                "or hooker_anova, or pass a share: tp.weights.Shrunk(0.1)"
            )
        empirical = Empirical().tables(grid, rows, subsets)
        apart = Independent().tables(grid, rows, subsets)
        return {
            subset: (1 - self.share) * empirical[subset] + self.share * apart[subset]
            for subset in subsets
        }

    def describe(self) -> str:
        """Return the distribution in words."""
        return self.name if self.share is None else f"shrunk (independent share {self.share:g})"
