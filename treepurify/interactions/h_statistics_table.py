"""What H-statistics are reported as: interactions with their shares and intervals."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treepurify.grids.grid import Subset

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["HStatistics", "Interaction"]

Array = npt.NDArray[np.float64]

# Below this share of the model's variance a denominator is too small to divide by.
_SMALL_SHARE = 0.01


@dataclass(frozen=True, eq=False)
class Interaction:
    """One interaction; every field has one number per output.

    Parameters
    ----------
    features : tuple of int
        One feature (with all others), two, or three; empty for all interactions together.
    numerator : ndarray of float64, shape (n_outputs,)
        Mean square of the interaction effect over the rows, on the squared scale of the model.
    denominator : ndarray of float64, shape (n_outputs,)
        Mean square of what it is a part of.
    purified : ndarray of float64, shape (n_outputs,)
        The share of variance when features are independent; NaN where it was not computed.
    low, high : ndarray of float64, shape (n_outputs,)
        Bootstrap interval of ``numerator / denominator``; NaN without a bootstrap.
    """

    features: Subset
    numerator: Array
    denominator: Array
    purified: Array
    low: Array
    high: Array

    @property
    def h_squared(self) -> Array:
        """The ratio; zero where there is neither an interaction nor anything to be part of."""
        positive = self.denominator > 0
        ratio = self.numerator / np.where(positive, self.denominator, 1.0)
        return np.where(positive, ratio, np.where(self.numerator > 0, np.nan, 0.0))


@dataclass(frozen=True, eq=False, repr=False)
class HStatistics:
    """Friedman's and Popescu's H-statistics of a model.

    Every table has the columns ``h_squared`` (the share of the squared effect that is
    interaction), ``h`` (its root), ``strength`` (root mean square of the interaction effect
    itself, on the scale of the model: not divided by anything), ``denominator``,
    ``purified_share`` (the same share when features are independent, which lies between 0 and
    1) and ``unstable``: whether ``h_squared`` exceeds 1 or its denominator is below 1 % of the
    model's variance, so that ``strength`` is the number to read. With a bootstrap ``low`` and
    ``high`` bound ``h_squared``.

    Parameters
    ----------
    interactions : mapping of tuple of int to Interaction
        By features.
    variance : ndarray of float64, shape (n_outputs,)
        Variance of the model over the rows.
    feature_names, output_names : tuple of str
        Names.
    measure : str
        What the partial dependence was averaged over.
    diagnostics : mapping of str to object
        How it was computed.
    """

    interactions: Mapping[Subset, Interaction]
    variance: Array
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]
    measure: str
    diagnostics: Mapping[str, Any]

    def __repr__(self) -> str:
        """Return the share of all interactions and the strongest pairs."""
        total = ", ".join(f"{value:.3g}" for value in self.interactions[()].h_squared)
        pairs = self.pairs().head(3)
        shown = [f"{row.first} & {row.second} {row.h_squared:.3g}" for row in pairs.itertuples()]
        return (
            f"HStatistics(all interactions together: {total} of the variance; strongest pairs: "
            f"{', '.join(shown) or 'none'}; measure: {self.measure})"
        )

    def overall(self) -> "pd.DataFrame":
        """Return how much of the model is not a sum of main effects, one row per output."""
        return self._frame(0, [])

    def features(self) -> "pd.DataFrame":
        """Return how much each feature interacts with all others, the strongest first."""
        return self._frame(1, ["feature"])

    def pairs(self) -> "pd.DataFrame":
        """Return how much the effect of two features is interaction, the strongest first."""
        return self._frame(2, ["first", "second"])

    def triples(self) -> "pd.DataFrame":
        """Return the interactions of three features, the strongest first."""
        return self._frame(3, ["first", "second", "third"])

    def _frame(self, size: int, columns: list[str]) -> "pd.DataFrame":
        import pandas as pd

        rows = []
        for subset, interaction in self.interactions.items():
            if len(subset) != size:
                continue
            names = dict(zip(columns, (self.feature_names[j] for j in subset), strict=True))
            for k, output in enumerate(self.output_names):
                rows.append(names | {"output": output} | self._entries(interaction, k))
        numbers = ["h_squared", "h", "strength", "denominator", "purified_share", "unstable"]
        intervals = ["low", "high"] if self.diagnostics.get("bootstrap") else []
        outputs = ["output"] if len(self.output_names) > 1 else []
        frame = pd.DataFrame(rows, columns=[*columns, *outputs, *numbers, *intervals])
        frame = frame.sort_values("strength", ascending=False, kind="stable")
        return frame.reset_index(drop=True)

    def _entries(self, interaction: Interaction, k: int) -> dict[str, Any]:
        squared = float(interaction.h_squared[k])
        small = interaction.denominator[k] < _SMALL_SHARE * self.variance[k]
        return {
            "h_squared": squared,
            "h": float(np.sqrt(squared)),
            "strength": float(np.sqrt(interaction.numerator[k])),
            "denominator": float(interaction.denominator[k]),
            "purified_share": float(interaction.purified[k]),
            "unstable": bool(interaction.numerator[k] > 0 and (squared > 1 or small)),
            "low": float(interaction.low[k]),
            "high": float(interaction.high[k]),
        }
