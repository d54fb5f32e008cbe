"""How much a fit leaves open, against dense subspaces of functions on the points."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from treepurify.engines.hooker.freedom import measure_freedom


def functions(codes, subset):
    """Indicators of the cells of a table, one column per cell with points."""
    if not subset:
        return np.ones((codes.shape[1], 1))
    cells = pd.DataFrame(codes[list(subset)].T).apply(tuple, axis=1)
    return pd.get_dummies(cells).to_numpy(float)


def pure_functions(codes, subset):
    """A basis of the functions of a table that are orthogonal to those of fewer features."""
    own = np.linalg.svd(functions(codes, subset), full_matrices=False)
    own = own[0][:, own[1] > 1e-9]
    fewer = [functions(codes, part) for part in combinations(subset, len(subset) - 1)]
    left, size, _ = np.linalg.svd(np.hstack(fewer), full_matrices=False)
    left = left[:, size > 1e-9]
    own -= left @ (left.T @ own)
    basis, size, _ = np.linalg.svd(own, full_matrices=False)
    return basis[:, size > 1e-9]


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("seed", range(12))
def test_directions_are_those_of_dense_subspaces(seed, order):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 5, 3)
    codes = np.stack([rng.integers(0, size, 60) for size in sizes])[:, : rng.integers(5, 60)]
    if seed % 3 == 0:
        codes[2] = codes[0] % sizes[2]
    fitted = list(combinations(range(3), order))
    closure = [s for size in range(1, order + 1) for s in combinations(range(3), size)]
    spaces = [np.ones((codes.shape[1], 1)), *(pure_functions(codes, s) for s in closure)]
    together = np.hstack(spaces)
    expected = together.shape[1] - np.linalg.matrix_rank(together, tol=1e-9)
    freedom = measure_freedom(codes.astype(np.uint8), fitted, sizes.tolist())
    assert freedom.is_exact
    assert freedom.directions == expected


def test_more_cells_than_rows_are_said_to_fit_anything():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    model = GradientBoostingRegressor(max_depth=6, random_state=0).fit(X, X[:, 0] * X[:, 1])
    with pytest.warns(tp.errors.FitWarning, match="they would fit any function"):
        d = tp.hooker_anova(model, X, progress=False)
    assert d.diagnostics["fit"]["undetermined"] > 300
    counted = d.certificate.unidentified + d.certificate.fit_unidentified
    assert counted >= d.diagnostics["fit"]["undetermined"]
    assert d.diagnostics["fit"]["undetermined_is_exact"]


def test_tables_too_large_to_count_are_bounded_from_below():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 60, size=(3, 2000)).astype(np.uint8)
    fitted = [(0, 1), (0, 2), (1, 2)]
    freedom = measure_freedom(codes, fitted, (60, 60, 60))
    occupied = sum(len({*zip(*codes[list(pair)].tolist(), strict=True)}) for pair in fitted)
    assert not freedom.is_exact
    assert freedom.fits_anything
    distinct = len({*zip(*codes.tolist(), strict=True)})
    # One, the main effects, and what pairs have beyond them; no more than rows are told apart.
    assert freedom.directions == 1 + 3 * 59 + occupied - 3 * 119 - distinct


def test_rows_that_determine_the_tables_leave_nothing_open():
    X = np.random.default_rng(0).normal(size=(3000, 3))
    d = tp.hooker_anova(lambda X: X[:, 0] * X[:, 1], X, bins=6, progress=False)
    assert d.certificate.fit_unidentified == 0
    assert d.diagnostics["fit"]["undetermined_is_exact"]


def test_a_constant_leaves_nothing_open():
    d = tp.hooker_anova(lambda X: np.zeros(len(X)), np.ones((5, 2)), progress=False)
    assert d.certificate.fit_unidentified == 0
    assert d.diagnostics["fit"]["undetermined_is_exact"]
