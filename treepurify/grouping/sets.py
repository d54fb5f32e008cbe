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

_GROUPS = 'groups must be a list of groups of features, such as [["age", "hours"], [2]]'


@dataclass(frozen=True)
class Sampling:
    """The numbers of random draws of `shapley_sets`.

    Parameters
    ----------
    probes : int
        Number of pairs of rows that are drawn for each test of two sets of features. If a random
        pair of rows shows an interaction with probability q, a test misses it with probability
        ``(1 - q) ** probes``.
    draws : int
        Number of draws of absent features given present ones, for ``value="conditional"``.

    See Also
    --------
    treepurify.shapley_sets : Takes it as `sampling`.
    """

    probes: int = 100
    draws: int = 200

    def __post_init__(self) -> None:
        for name in ("probes", "draws"):
            check_whole(f"Sampling.{name}", getattr(self, name), 1)


@dataclass(frozen=True, eq=False, repr=False)
class ShapleySets:
    """Groups of features that interact, and the value of each group on each row.

    Values are on the margin scale for parsed models, else on the scale of the function.

    Parameters
    ----------
    groups : tuple of tuple of int
        The groups, ordered by their first feature.
    values : ndarray of float64, shape (n_rows, n_groups, n_outputs), optional
        Value of each group (equation 8 of Sivill and Flach 2023); None without rows.
    base : ndarray of float64, shape (n_outputs,), optional
        The value if no feature is present; values are relative to it.
    remainder : ndarray of float64, shape (n_rows, n_outputs), optional
        Prediction minus base and values: the interaction between groups. Zero
        if the function is a sum over the groups.
    feature_names, output_names : tuple of str
        Names.
    method : {"recursive", "index", "given"}
        How the groups were found.
    value : str
        Name of the value function.
    value_function : ValueFunction
        The value function: returns the joint value of any features of any rows.
    strengths : InteractionStrengths, optional
        Interaction indices, for ``method="index"``.
    tolerance : float, optional
        Size up to which an interaction counts as none; None if only rounding errors count as none.
    diagnostics : mapping of str to object
        Numbers of evaluations and tests, the tolerance, and the range of tolerances that would
        have given the same groups.

    See Also
    --------
    treepurify.shapley_sets : Finds the groups.
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
        """Return the sum of base, values and remainder: the prediction, (n_rows, n_outputs)."""
        if self.values is None or self.remainder is None:
            raise InvalidInputError("no rows were explained: pass them to shapley_sets as x")
        return np.asarray(self.base + self.values.sum(axis=1) + self.remainder)

    def by_feature(self, output: int = 0) -> Array:
        """Return for each feature the value of its group, shape (n_rows, n_features).

        The paper's equation 9 compares these values with the truth.
        """
        if self.values is None:
            raise InvalidInputError("no rows were explained: pass them to shapley_sets as x")
        output = read_output(output, self.output_names)
        table = np.empty((len(self.values), len(self.feature_names)))
        for number, group in enumerate(self.groups):
            table[:, list(group)] = self.values[:, [number], output]
        return table

    def to_frame(self, output: int = 0) -> "pd.DataFrame":
        """Return base, the value of each group and the remainder; rows sum to predictions."""
        import pandas as pd

        if self.values is None or self.remainder is None:
            raise InvalidInputError("no rows were explained: pass them to shapley_sets as x")
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
        raise InvalidInputError(f"each feature may be in one group only, got {groups!r}")
    partition += [(j,) for j in range(n) if j not in named]
    return tuple(sorted(partition))
