"""What values the features of rows have: their range, levels, and how many are missing."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from treepurify.rows.columns import FeatureSpec
from treepurify.rows.source_reader import RowBatch
from treepurify.typing import Array, Indices

__all__ = ["FeatureReach", "ReachState", "known_codes"]


@dataclass(frozen=True, eq=False)
class ReachState:
    """What values each feature has.

    Parameters
    ----------
    weight : float
        Sum of the weights of the rows.
    missing : ndarray of float64, shape (n_features,)
        Weight of the rows in which a feature is missing.
    lowest, highest : ndarray of float64, shape (n_features,)
        Smallest and largest number of rows of positive weight; of labels not used.
    levels : tuple of ndarray of float64, each of shape (n_codes + 1,)
        Weight of each code of a categorical feature, then of labels the model does not know;
        empty for numbers.
    below, above : ndarray of float64, shape (n_features,)
        Weight of the rows with numbers beyond `FeatureReach.limits`.
    """

    weight: float
    missing: Array
    lowest: Array
    highest: Array
    levels: tuple[Array, ...]
    below: Array
    above: Array


@dataclass(frozen=True, eq=False)
class FeatureReach:
    """The statistic of `ReachState`.

    Parameters
    ----------
    features : sequence of FeatureSpec
        The features.
    used : tuple of int
        Positions of those that are read.
    limits : ReachState, optional
        Rows whose smallest and largest numbers are the limits.
    """

    features: Sequence[FeatureSpec]
    used: tuple[int, ...]
    limits: ReachState | None = None

    def zero(self) -> ReachState:
        """Return the values of no rows."""
        missing, below, above = np.zeros((3, len(self.features)))
        levels = tuple(
            np.zeros(spec.n_codes + 1 if spec.is_categorical else 0) for spec in self.features
        )
        lowest, highest = (np.full(len(self.features), end) for end in (np.inf, -np.inf))
        return ReachState(0.0, missing, lowest, highest, levels, below, above)

    def add(self, state: ReachState, rows: RowBatch) -> ReachState:
        """Return the values with those of a batch."""
        columns, weights = rows.of_weight()
        own = replace(self.zero(), weight=float(weights.sum()))
        for j in self.used:
            self._look_at(own, j, np.asarray(columns.values[j], dtype=np.float64), weights)
        return self.merge(state, own)

    def merge(self, state: ReachState, other: ReachState) -> ReachState:
        """Return the values of the rows of both."""
        return ReachState(
            state.weight + other.weight,
            state.missing + other.missing,
            np.minimum(state.lowest, other.lowest),
            np.maximum(state.highest, other.highest),
            tuple(a + b for a, b in zip(state.levels, other.levels, strict=True)),
            state.below + other.below,
            state.above + other.above,
        )

    def _look_at(self, own: ReachState, j: int, values: Array, weights: Array) -> None:
        """Enter the values of one feature."""
        is_missing = np.isnan(values)
        own.missing[j] = weights[is_missing].sum()
        values, weights = values[~is_missing], weights[~is_missing]
        if self.features[j].is_categorical:
            n_codes = self.features[j].n_codes
            codes = known_codes(values, n_codes)
            own.levels[j][:] = np.bincount(codes, weights, minlength=n_codes + 1)
        elif len(values):
            own.lowest[j], own.highest[j] = values.min(), values.max()
            if self.limits is not None:
                own.below[j] = weights[values < self.limits.lowest[j]].sum()
                own.above[j] = weights[values > self.limits.highest[j]].sum()


def known_codes(values: Array, n_codes: int) -> Indices:
    """Return the codes of labels, `n_codes` for those that the model does not know."""
    is_known = (values >= 0) & (values < n_codes)
    return np.where(is_known, values, n_codes).astype(np.intp)
