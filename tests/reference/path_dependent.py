"""Path-dependent expectations by their definition: a walk down every tree."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from treepurify.models.ensemble import TreeEnsemble


def path_dependent_game(ensemble: TreeEnsemble, X: np.ndarray) -> Callable:
    """From features that are given to the expectation at each row of `X` (n_rows, n_outputs)."""

    @cache
    def weight(node: int) -> float:
        if ensemble.feature[node] < 0:
            return float(ensemble.cover[node])
        return weight(int(ensemble.left[node])) + weight(int(ensemble.right[node]))

    def walk(node: int, row: np.ndarray, given: tuple[int, ...]) -> np.ndarray:
        j = int(ensemble.feature[node])
        if j < 0:
            return ensemble.value[node]
        left, right = int(ensemble.left[node]), int(ensemble.right[node])
        if j in given:
            return walk(left if _goes_left(ensemble, node, row[j]) else right, row, given)
        of_left, of_right = weight(left), weight(right)
        share = of_left / (of_left + of_right) if of_left + of_right > 0 else 0.5
        return share * walk(left, row, given) + (1 - share) * walk(right, row, given)

    def expectation(given: tuple[int, ...]) -> np.ndarray:
        total = np.tile(ensemble.base, (len(X), 1))
        for tree, output in enumerate(ensemble.tree_output):
            root = int(ensemble.tree_ptr[tree])
            found = np.array([walk(root, row, given) for row in X])
            if output < 0:
                total += found
            else:
                total[:, output] += found[:, 0]
        return total

    return expectation


def _goes_left(ensemble: TreeEnsemble, node: int, value: float) -> bool:
    if np.isnan(value):
        return bool(ensemble.missing_left[node])
    if ensemble.category_ptr[node] < 0:
        return bool(value < ensemble.cut[node])
    n_codes = ensemble.features[ensemble.feature[node]].n_codes
    code = int(value) if 0 <= value < n_codes else n_codes
    return bool(ensemble.category_left[ensemble.category_ptr[node] + code])


def with_cover(ensemble: TreeEnsemble, rng: np.random.Generator) -> TreeEnsemble:
    """Random weights in the leaves, none in some of them."""
    leaves = ensemble.feature < 0
    cover = np.where(leaves, rng.random(len(leaves)) * (rng.random(len(leaves)) > 0.3), 0.0)
    return replace(ensemble, cover=cover)
