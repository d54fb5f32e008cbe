"""One interaction, and those of features that a model does not use, which are all alike."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations

import numpy as np

from treepurify.grids.grid import Subset
from treepurify.models.parse import Model
from treepurify.typing import Array

__all__ = ["Interaction", "WithUnused", "one_unused"]

_PAIR = 2


@dataclass(frozen=True, eq=False)
class Interaction:
    """One interaction; every field has one number per output.

    Parameters
    ----------
    features : tuple of int
        One feature (with all others), or two and more; empty for all interactions together.
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
    def numbers(self) -> Array:
        """All of them, shape (5, n_outputs)."""
        return np.stack([self.numerator, self.denominator, self.purified, self.low, self.high])

    @property
    def h_squared(self) -> Array:
        """The ratio; zero where there is neither an interaction nor anything to be part of."""
        positive = self.denominator > 0
        ratio = self.numerator / np.where(positive, self.denominator, 1.0)
        return np.where(positive, ratio, np.where(self.numerator > 0, np.nan, 0.0))


def one_unused(model: Model) -> Subset:
    """Return the features that a model uses, and one that it does not use, if there is one."""
    unused = set(range(model.n_features)).difference(model.used_features)
    return tuple(sorted([*model.used_features, *sorted(unused)[:1]]))


@dataclass(frozen=True, eq=False)
class WithUnused(Mapping[Subset, Interaction]):
    """The interactions of all features, of which those not used are like one of them.

    Parameters
    ----------
    measured : dict of tuple of int to Interaction
        Those of the features that the model uses, and of one that it does not use.
    unused : tuple of int
        The features that the model does not use, the measured one first.
    n_features : int
        Number of features.
    """

    measured: dict[Subset, Interaction]
    unused: Subset
    n_features: int

    @staticmethod
    def of(measured: Mapping[Subset, Interaction], kept: Subset, model: Model) -> "WithUnused":
        """Return the interactions of a model, of which those at the `kept` features were found."""
        renamed = {}
        for subset, interaction in measured.items():
            features = tuple(kept[j] for j in subset)
            renamed[features] = replace(interaction, features=features)
        unused = sorted(set(range(model.n_features)).difference(model.used_features))
        return WithUnused(renamed, tuple(unused), model.n_features)

    def __getitem__(self, subset: Subset) -> Interaction:
        """Return one interaction."""
        if subset in self.measured:
            return self.measured[subset]
        used = [j for j in subset if j not in self._unused]
        in_order = list(subset) == sorted(set(subset)) and len(subset) <= _PAIR
        if (
            not in_order
            or len(used) == len(subset)
            or not 0 <= subset[0] <= subset[-1] < self.n_features
        ):
            raise KeyError(subset)
        if len(subset) == _PAIR and not used:
            return replace(self._nothing, features=subset)
        return replace(self.measured[tuple(sorted([*used, self.unused[0]]))], features=subset)

    @cached_property
    def _unused(self) -> frozenset[int]:
        return frozenset(self.unused)

    @cached_property
    def _nothing(self) -> Interaction:
        """The interaction of two features neither of which is used."""
        alone = self.measured[self.unused[:1]]
        zero = np.zeros_like(alone.denominator)
        return replace(alone, numerator=zero, denominator=zero)

    def __iter__(self) -> Iterator[Subset]:
        """Iterate over all subsets, by size and features."""
        features = range(self.n_features)
        return chain(
            [()],
            ((j,) for j in features),
            combinations(features, _PAIR),
            (subset for subset in self.measured if len(subset) > _PAIR),
        )

    def __len__(self) -> int:
        """Return the number of subsets."""
        return sum(1 for _ in self)
