"""Group features by how strongly they interact, at every threshold."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Subset
from treepurify.grouping.counted_function import CountedFunction
from treepurify.terms import term_name
from treepurify.typing import Array

if TYPE_CHECKING:
    import pandas as pd


__all__ = ["InteractionStrengths", "Merge", "connected_groups", "sampled_strengths"]


@dataclass(frozen=True)
class Merge:
    """Two groups that become one as the threshold falls.

    Parameters
    ----------
    strength : float
        Threshold below which they are one.
    first, second : tuple of int
        The groups.
    """

    strength: float
    first: Subset
    second: Subset


@dataclass(frozen=True, eq=False, repr=False)
class InteractionStrengths:
    """How much of a function's variance needs two features together.

    Parameters
    ----------
    shares : ndarray of float64, shape (n_features, n_features)
        ``sum over S containing i and j of Var(f_S) / Var(f)`` under independent features;
        symmetric, the largest over the outputs.
    feature_names : tuple of str
        Names.
    measure : str
        The distribution, in words.
    standard_error : ndarray of float64, shape (n_features, n_features), optional
        Of sampled shares; None where they are exact.
    """

    shares: Array
    feature_names: tuple[str, ...]
    measure: str
    standard_error: Array | None = None

    def __repr__(self) -> str:
        """Return the number of features and the strongest pair."""
        how = "exact" if self.standard_error is None else "sampled"
        return (
            f"Interactions of {len(self.shares)} features ({how}): the strongest pair has "
            f"{self.shares.max(initial=0.0):.1%} of the variance; distribution: {self.measure}"
        )

    def groups(self, threshold: float) -> tuple[Subset, ...]:
        """Return the connected components of features with a share above `threshold`."""
        if not 0 <= threshold <= 1:
            raise InvalidInputError(f"threshold must be a share from 0 to 1, got {threshold!r}")
        edges = np.argwhere(np.triu(self.shares, 1) > threshold)
        return connected_groups(len(self.shares), edges)

    def merges(self) -> tuple[Merge, ...]:
        """Return the dendrogram: how groups join as the threshold falls, the strongest first.

        Groups that no interaction joins stay apart.
        """
        n = len(self.shares)
        first, second = np.triu_indices(n, 1)
        strength = self.shares[first, second]
        group: dict[int, Subset] = {i: (i,) for i in range(n)}
        merges = []
        for k in np.argsort(-strength, kind="stable"):
            one, two = group[int(first[k])], group[int(second[k])]
            if one == two or strength[k] <= 0:
                continue
            merges.append(Merge(float(strength[k]), one, two))
            joined = tuple(sorted((*one, *two)))
            group.update(dict.fromkeys(joined, joined))
        return tuple(merges)

    def linkage(self) -> Array:
        """Return the dendrogram in the form that ``scipy.cluster.hierarchy`` draws.

        Returns
        -------
        ndarray of float64, shape (n_features - 1, 4)
            Distances are one minus the strength; groups that nothing joins join at one.
        """
        n = len(self.shares)
        merges = list(self.merges())
        apart = self.groups(0.0)
        joined = apart[0] if apart else ()
        for group in apart[1:]:
            merges.append(Merge(0.0, joined, group))
            joined = tuple(sorted((*joined, *group)))
        number: dict[Subset, int] = {(i,): i for i in range(n)}
        rows = []
        for k, merge in enumerate(merges):
            whole = tuple(sorted((*merge.first, *merge.second)))
            rows.append([number[merge.first], number[merge.second], 1 - merge.strength, len(whole)])
            number[whole] = n + k
        return np.array(rows, dtype=np.float64).reshape(-1, 4)

    def to_frame(self) -> "pd.DataFrame":
        """Return the merges as a table: the threshold, the two groups and the number left."""
        import pandas as pd

        rows = [
            {
                "strength": merge.strength,
                "first": term_name(self.feature_names[j] for j in merge.first),
                "second": term_name(self.feature_names[j] for j in merge.second),
                "groups_left": len(self.shares) - k - 1,
            }
            for k, merge in enumerate(self.merges())
        ]
        return pd.DataFrame(rows, columns=["strength", "first", "second", "groups_left"])


def sampled_strengths(
    function: CountedFunction,
    X: Array,
    samples: int,
    rng: np.random.Generator,
    progress: Callable[[str, int, int], None],
) -> InteractionStrengths:
    """Estimate the interaction strengths of any function under independent features.

    The total interaction index of i and j is a quarter of the mean square of the mixed
    difference of f between two independent rows (Liu and Owen 2006, superset importance):
    ``f(x) - f(x'_i, x) - f(x'_j, x) + f(x'_i, x'_j, x)``. Unbiased, and never negative.

    Parameters
    ----------
    function : CountedFunction
        The function.
    X : ndarray of float64, shape (n_rows, n_features)
        Rows whose margins are the distribution.
    samples : int
        Pairs of rows; ``samples * (1 + n + n (n - 1) / 2)`` evaluations.
    rng : Generator
        Draws them.
    progress : callable
        Called with a word, the number of features done and their number.
    """
    n = X.shape[1]
    rows = np.stack(
        [rng.permutation(X[rng.integers(len(X), size=samples), j]) for j in range(n)], 1
    )
    other = np.stack([X[rng.integers(len(X), size=samples), j] for j in range(n)], 1)

    def exchanged(*features: int) -> Array:
        mixed = rows.copy()
        mixed[:, list(features)] = other[:, list(features)]
        return function(mixed)

    here = exchanged()
    alone = [exchanged(j) for j in range(n)]
    variance = here.var(axis=0)
    whole = np.where(variance > 0, variance, 1.0)
    shares, error = np.zeros((n, n)), np.zeros((n, n))
    for i, j in combinations(range(n), 2):
        progress("exchanging pairs of features", i, n)
        squares = (here - alone[i] - alone[j] + exchanged(i, j)) ** 2 / (4 * whole)
        squares = np.where(variance > 0, squares, 0.0)
        shares[i, j] = shares[j, i] = squares.mean(axis=0).max()
        error[i, j] = error[j, i] = squares.std(axis=0).max() / np.sqrt(samples)
    return InteractionStrengths(
        np.minimum(shares, 1.0),
        function.feature_names,
        f"independent features, {samples} samples",
        error,
    )


def connected_groups(n: int, edges: npt.ArrayLike) -> tuple[Subset, ...]:
    """Return the connected components of ``range(n)``, each sorted, by first member.

    `edges` holds pairs of connected numbers, shape (n_edges, 2).

    Examples
    --------
    >>> connected_groups(4, [(0, 2), (3, 2)])
    ((0, 2, 3), (1,))
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    first, second = np.asarray(edges, dtype=np.intp).reshape(-1, 2).T
    graph = coo_array((np.ones(len(first)), (first, second)), shape=(n, n))
    n_components, label = connected_components(graph, directed=False)
    return tuple(tuple(np.flatnonzero(label == k).tolist()) for k in range(n_components))
