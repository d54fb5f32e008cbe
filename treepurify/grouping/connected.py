"""Connected components of features."""

import numpy as np
import numpy.typing as npt

from treepurify.grids.grid import Subset

__all__ = ["connected_groups"]


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
