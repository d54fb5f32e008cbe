"""The sum of functions of few features nearest to a function, by dense least squares."""

from itertools import combinations

import numpy as np


def nearest_sum(codes, values, order, weights=None):
    """Return, on each row, the sum of functions of at most `order` features nearest to `values`.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_features)
        A number for each value of each feature.
    values : ndarray of shape (n_rows, n_outputs)
        The function.
    order : int
        Most features of a function.
    weights : ndarray of shape (n_rows,), optional
        Weights of the rows.
    """
    root = np.sqrt(np.ones(len(codes)) if weights is None else weights)[:, None]
    design = [np.ones((len(codes), 1))]
    for subset in combinations(range(codes.shape[1]), min(order, codes.shape[1])):
        cells = np.unique(codes[:, subset], axis=0, return_inverse=True)[1].ravel()
        design.append(np.eye(cells.max() + 1)[cells])
    indicators = np.hstack(design)
    return indicators @ np.linalg.lstsq(root * indicators, root * values, rcond=1e-12)[0]
