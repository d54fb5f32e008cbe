"""Leaves of isolation forests: how long the path of a row is, of which the score is a function."""

from typing import Any

import numpy as np

from treepurify.errors import UnsupportedModelError
from treepurify.links import Link
from treepurify.typing import Array

__all__ = ["isolation_leaves", "isolation_margin"]


def isolation_leaves(model: Any, trees: list[Any]) -> tuple[Array, tuple[str, ...], Array, Link]:
    """Return the share of each node in the mean path length, name of the output, base and link.

    A row's path ends in a leaf; the rows that training left there would have been split
    further, which adds the mean path for their number (Liu, Ting and Zhou 2008, equation 1).
    The mean over the trees is in units of the mean path of as many rows as each tree saw: 1 is
    an ordinary row, and the shorter the path, the more of an outlier is the row.

    Parameters
    ----------
    model : IsolationForest
        The fitted forest.
    trees : list of sklearn.tree._tree.Tree
        Its trees.

    Raises
    ------
    UnsupportedModelError
        If each tree saw one row only: all rows have one score.
    """
    unit = float(_mean_path(np.array([model.max_samples_]))[0])
    if unit == 0.0:
        raise UnsupportedModelError(
            "each tree of this IsolationForest saw one row, so all rows have the same score; "
            "train it with more rows or a larger max_samples"
        )
    lengths = [tree.compute_node_depths() - 1.0 + _mean_path(tree.n_node_samples) for tree in trees]
    value = np.concatenate(lengths)[:, None] / (unit * len(trees))
    return value, ("path length",), np.zeros(1), Link("path-length")


def isolation_margin(model: Any, X: Any) -> Array:
    """Return the mean path length by the library's own score, shape (n_rows,)."""
    return np.asarray(-np.log2(-model.score_samples(X)))


def _mean_path(n_rows: Any) -> Array:
    """Return the mean length of an unsuccessful search in a binary tree of that size."""
    n = np.asarray(n_rows, dtype=np.float64)
    many = np.maximum(n, 3.0)
    long = 2.0 * (np.log(many - 1.0) + np.euler_gamma) - 2.0 * (many - 1.0) / many
    return np.where(n <= 1, 0.0, np.where(n == 2, 1.0, long))
