"""
Equation 94, pair by pair
=========================

MaxCorr is the largest correlation of a pair with one of its main effects among the pairs that have
at least 1% of the variance. Which pairs these are decides about it. Part of
``paper_continuous.py``.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from examples.reproduction import Entry, Table
from treepurify import Decomposition

# Where the printed MaxCorr of one model is far from ours.
SHOWN = ("california_housing", "EBM")
PRINTED = 4.04e-2
# Pairs are listed from here on; those below 1% do not count in equation 94.
LEAST_SHARE = 0.005


def pair_correlations(d: Decomposition, X: Any, variance: float) -> dict[str, tuple[float, float]]:
    """Return each pair's share of a variance, and its largest correlation with a main effect."""
    effects = {subset: own.evaluate(X) for subset, own in d.components.items()}
    found = {}
    for subset, pair in effects.items():
        if len(subset) != 2 or pair.std() == 0:
            continue
        mains = [effects[j,] for j in subset if (j,) in effects and effects[j,].std() > 0]
        correlations = [abs(float(np.corrcoef(pair, main)[0, 1])) for main in mains]
        name = " & ".join(d.feature_names[j] for j in subset)
        found[name] = (float(pair.var() / variance), max(correlations, default=0.0))
    return found


def pair_table(decompositions: Mapping[str, Decomposition], X: Any, values: np.ndarray) -> Table:
    """Return the pairs of the model in `SHOWN`, by route; `values` are what was decomposed."""
    variance = float(values.var())
    by_route = {route: pair_correlations(d, X, variance) for route, d in decompositions.items()}
    listed: dict[str, dict[str, tuple[float, ...]]] = {}
    for route, pairs in by_route.items():
        for name, (share, correlation) in sorted(pairs.items(), key=lambda pair: -pair[1][0]):
            if share >= LEAST_SHARE:
                listed.setdefault(name, {})[route] = (100 * share, correlation)
    return Table(
        "continuous_max_correlation",
        "Equation 94 pair by pair: the boosting machine on California Housing",
        ("per cent of the variance", "largest correlation"),
        [Entry(name, (), ours) for name, ours in listed.items()],
        ".4f",
        (
            f"The paper prints {PRINTED:.3f}, which is near the value of latitude and longitude"
            " alone. Equation 94 counts pairs with at least 1% of the variance. Pairs near this"
            " threshold, with a larger correlation, determine the printed number; another training"
            " moves them across it.",
        ),
    )
