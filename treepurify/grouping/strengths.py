"""Group features by how strongly they interact, at every threshold."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Subset
from treepurify.terms import term_name
from treepurify.typing import Array

if TYPE_CHECKING:
    import pandas as pd


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
    """

    shares: Array
    feature_names: tuple[str, ...]
    measure: str

    def __repr__(self) -> str:
        """Return the number of features and the strongest pair."""
        return (
            f"Interactions of {len(self.shares)} features: the strongest pair has "
            f"{self.shares.max(initial=0.0):.1%} of the variance; distribution: {self.measure}"
        )

    def groups(self, threshold: float) -> tuple[Subset, ...]:
        """Return the connected components of features with a share above `threshold`."""
        if not 0 <= threshold <= 1:
            raise InvalidInputError(f"threshold must be a share from 0 to 1, got {threshold!r}")
        edges = np.argwhere(np.triu(self.shares, 1) > threshold)
        return connected_groups(len(self.shares), edges)

    def merges(self) -> tuple[Merge, ...]:
        """Return how groups join as the threshold falls, the strongest first.

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
