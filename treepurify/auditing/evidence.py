"""What an audit looks at: one model, decomposed several times."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from treepurify.decomposition import Decomposition
from treepurify.evidence.effect_worth_table import EffectWorth
from treepurify.grids.grid import Subset
from treepurify.spread import Spread
from treepurify.typing import Array

__all__ = ["Evidence"]


@dataclass(frozen=True, eq=False)
class Evidence:
    """What an audit looks at: one model, decomposed several times.

    Parameters
    ----------
    decomposition : Decomposition
        Under the measure of the rows.
    others : mapping of str to Decomposition
        Under other measures, by name.
    spread : mapping of tuple of int to ndarray of float64
        Root mean square change of each cell of each component over resampled rows.
    n_samples : int
        Number of resamplings.
    seed : int
        Their seed.
    worth : EffectWorth, optional
        What the effects are worth on held-out rows.
    trainings : Spread, optional
        The components in several trainings, on cells of their own where those of `decomposition`
        were too many.
    X : table of shape (n_rows, n_features) or rows in batches, optional
        The rows, on which decompositions are compared whose cells differ, as those of forests do.
    sample_weight : array_like of shape (n_rows,) or str, optional
        Their weights, or the name of the column of weights.
    """

    decomposition: Decomposition
    others: Mapping[str, Decomposition]
    spread: Mapping[Subset, Array]
    n_samples: int
    seed: int = 0
    worth: EffectWorth | None = None
    trainings: Spread | None = None
    X: Any = None
    sample_weight: Any = None
