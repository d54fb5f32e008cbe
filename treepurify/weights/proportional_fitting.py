"""Iterative proportional fitting: the joint mass of largest entropy with given tables of pairs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treepurify.typing import Array
from treepurify.weights.coded_rows import PairTable

__all__ = ["FittedJoint", "fit_proportionally"]

_TOLERANCE = 1e-9
_STEPS = 200


@dataclass(frozen=True, eq=False)
class FittedJoint:
    """A joint mass, and how near its tables come to those that were asked for.

    Parameters
    ----------
    mass : ndarray of float64, shape (n_levels...)
        The joint mass over all levels of all features.
    error : float
        Largest sum of absolute differences of a table of it from the one that was asked for.
    steps : int
        How often all tables were fitted.
    """

    mass: Array
    error: float
    steps: int


def fit_proportionally(margins: Sequence[Array], tables: Sequence[PairTable]) -> FittedJoint:
    """Return the joint mass of the log-linear model of all pairs (Deming & Stephan 1940).

    Starting from independent features, the joint mass is scaled to each table in turn. The tables
    must be margins of some joint mass. What is returned is one, whose margins are consistent
    however far the scaling came.

    Parameters
    ----------
    margins : sequence of ndarray of float64
        Mass of the levels of each feature.
    tables : sequence of PairTable
        Tables with these margins.
    """
    size = len(margins)
    joint = np.ones((1,) * size)
    for j, margin in enumerate(margins):
        joint = joint * margin.reshape([-1 if k == j else 1 for k in range(size)])
    error, steps = 0.0, 0
    while tables and steps < _STEPS:
        error, steps = 0.0, steps + 1
        for table in tables:
            others = tuple(k for k in range(size) if k not in table.pair)
            found = joint.sum(axis=others)
            error = max(error, float(np.abs(found - table.mass).sum()))
            scale = np.divide(table.mass, found, out=np.zeros_like(found), where=found > 0)
            joint *= np.expand_dims(scale, others)
        if error <= _TOLERANCE:
            break
    return FittedJoint(joint / joint.sum(), error, steps)
