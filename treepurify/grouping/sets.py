"""Shapley Sets: groups of features that a function adds up over, and what each is worth."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.arguments import brief, check_whole, read_output
from treepurify.errors import InvalidInputError
from treepurify.frozen import FrozenMapping
from treepurify.grids.grid import Subset
from treepurify.grouping.strengths import InteractionStrengths
from treepurify.grouping.value_functions import ValueFunction
from treepurify.terms import read_features, term_name
from treepurify.typing import Array

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Sampling", "ShapleySets", "read_groups"]

_GROUPS = 'groups must be a list of groups of features, such as [["age", "hours"], [2]]'


@dataclass(frozen=True)
class Sampling:
    """How much is drawn at random, where something is.

    Parameters
    ----------
    probes : int
        Pairs of rows that each test of two sets of features draws. An interaction that a
        random pair of rows shows with probability q is missed by a test with probability
        ``(1 - q) ** probes``.
    draws : int
        Draws of absent features given present ones, for ``value="conditional"``.
    samples : int
        Pairs of rows for the interaction indices of a function that is not a tree ensemble.
    bootstrap : int
        Resamples of the rows for `ShapleySets.stability`.
    """

    probes: int = 100
    draws: int = 200
    samples: int = 2000
    bootstrap: int = 0

    def __post_init__(self) -> None:
        for name in ("probes", "draws", "samples", "bootstrap"):
            number = getattr(self, name)
            least = 0 if name == "bootstrap" else 1
            check_whole(f"Sampling.{name}", number, least)


@dataclass(frozen=True, eq=False, repr=False)
class ShapleySets:
    """A partition of the features, and the worth of each group for given rows.

    Parameters
    ----------
    groups : tuple of tuple of int
        The groups, by first member.
    values : ndarray of float64, shape (n_rows, n_groups, n_outputs), optional
        Worth of each group (equation 8 of Sivill and Flach 2023); None without rows.
    base : ndarray of float64, shape (n_outputs,), optional
        Worth of no feature, which values are relative to.
    remainder : ndarray of float64, shape (n_rows, n_outputs), optional
        Prediction less base and values: what the groups do together and none alone. Zero
        where the function adds up over the groups.
    feature_names, output_names : tuple of str
        Names.
    method : {"recursive", "structure", "index", "given"}
        How the groups were found.
    value : str
        The value function.
    value_function : ValueFunction
        The value function: the joint value of any features of any rows.
    strengths : InteractionStrengths, optional
        Interaction indices and their dendrogram, for ``method="index"``.
    stability : ndarray of float64, shape (n_features, n_features), optional
        Share of the bootstrap resamples in which two features are in one group.
    tolerance : float, optional
        Size up to which an interaction counts as none; None where it is that of rounding.
    diagnostics : mapping of str to object
        Numbers of evaluations and tests, the tolerance, and between which tolerances the
        groups would have been the same.
    """

    groups: tuple[Subset, ...]
    values: Array | None
    base: Array
    remainder: Array | None
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]
    method: str
    value: str
    value_function: ValueFunction
    strengths: InteractionStrengths | None
    stability: Array | None
    tolerance: float | None
    diagnostics: Mapping[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "diagnostics", FrozenMapping(self.diagnostics))

    def __repr__(self) -> str:
        """Return the groups and how they were found."""
        names = " | ".join(self.group_names)
        return f"Groups of features: {names} (method: {self.method}, value: {self.value})"

    @property
    def group_names(self) -> tuple[str, ...]:
        """Names of the groups, such as ``"age & hours"``."""
        return tuple(term_name(self.feature_names[j] for j in group) for group in self.groups)

    def total(self) -> Array:
        """Return base, values and remainder summed: the prediction, (n_rows, n_outputs)."""
        if self.values is None or self.remainder is None:
            raise InvalidInputError("there are no rows: pass x to shapley_sets")
        return np.asarray(self.base + self.values.sum(axis=1) + self.remainder)

    def by_feature(self, output: int = 0) -> Array:
        """Return for each feature the worth of its group, shape (n_rows, n_features).

        This is what equation 9 of the paper compares with the truth.
        """
        if self.values is None:
            raise InvalidInputError("there are no rows: pass x to shapley_sets")
        output = read_output(output, self.output_names)
        table = np.empty((len(self.values), len(self.feature_names)))
        for number, group in enumerate(self.groups):
            table[:, list(group)] = self.values[:, [number], output]
        return table

    def to_frame(self, output: int = 0) -> "pd.DataFrame":
        """Return base, the worth of each group and the remainder; rows sum to predictions."""
        import pandas as pd

        if self.values is None or self.remainder is None:
            raise InvalidInputError("there are no rows: pass x to shapley_sets")
        output = read_output(output, self.output_names)
        frame = pd.DataFrame(self.values[:, :, output], columns=list(self.group_names))
        frame.insert(0, "base", self.base[output])
        frame["remainder"] = self.remainder[:, output]
        return frame


def read_groups(groups: Any, feature_names: tuple[str, ...]) -> tuple[Subset, ...]:
    """Return groups given by name or position; features in none become groups of their own.

    Raises
    ------
    InvalidInputError
        If a feature does not exist or is in two groups.
    """
    n = len(feature_names)
    partition: list[Subset] = []
    if isinstance(groups, str) or not isinstance(groups, Iterable):
        raise InvalidInputError(f"{_GROUPS}, got {brief(groups)}")
    for group in groups:
        if not isinstance(group, Iterable | int | np.integer):
            raise InvalidInputError(f"{_GROUPS}, got {brief(group)} among them")
        parts = (group,) if isinstance(group, str | int | np.integer) else tuple(group)
        if parts:
            partition.append(read_features(parts, feature_names))
    named = [j for group in partition for j in group]
    if len(set(named)) != len(named):
        raise InvalidInputError(f"groups must not share features, got {groups!r}")
    partition += [(j,) for j in range(n) if j not in named]
    return tuple(sorted(partition))
