"""
Main effects of Dota2 with two levels instead of three
======================================================

Table 6 of the categorical paper has rank 112 for the main effects of Dota2: a constant and one
function for each of the 111 heroes that play. Definition 3.1 gives two functions for the codes -1,
0 and 1 of a hero. One is left if codes are numbered up to the largest, 0 and 1: the first function,
which is zero for code -1. Part of ``paper_categorical.py --large``.
"""

from collections.abc import Mapping

import numpy as np

from examples.reproduction import Entry, Table

PRINTED = (112, 0.36, 0.02, 0.06)


def two_level_functions(codes: np.ndarray) -> np.ndarray:
    """Return definition 3.1 with z = 0 and 1 as the last level, a column for each feature.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_features)
        -1, 0 and 1, of which 0 and 1 occur.
    """
    is_first, is_last = codes == 0, codes == 1
    return is_first / is_first.mean(axis=0) - is_last / is_last.mean(axis=0)


def least_squares(columns: np.ndarray, values: np.ndarray) -> tuple[float, float, float, float]:
    """Return rank, R2, mean squared error and relative error with a constant and some columns."""
    design = np.column_stack([np.ones(len(values)), columns])
    solution, _, rank, _ = np.linalg.lstsq(design, values, rcond=None)
    error = float(np.mean((values - design @ solution) ** 2))
    return float(rank), 1 - error / float(values.var()), error, error / float(np.mean(values**2))


def levels_table(codes: np.ndarray, values: Mapping[str, np.ndarray]) -> Table:
    """Return what main effects explain of some networks, by the levels that a hero has."""
    plays = codes[:, codes.std(axis=0) > 0]
    bases = {
        "three levels": np.column_stack([plays == 1, plays == -1]).astype(np.float64),
        "codes 0 and 1 only": two_level_functions(plays),
        "first team or not": (plays == 1).astype(np.float64),
    }
    entries = [
        Entry(name, PRINTED, {title: least_squares(basis, own) for title, basis in bases.items()})
        for name, own in values.items()
    ]
    return Table(
        "categorical_dota2_levels",
        "Table 6: main effects of Dota2, by the levels that a hero has",
        ("rank", "R²", "MSE", "relative error"),
        entries,
        ".3g",
        (
            "Least squares on the functions of a hero and a constant. *Codes 0 and 1 only*:"
            " definition 3.1 as if there were two levels. This has the paper's rank.",
        ),
    )
