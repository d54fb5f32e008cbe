"""The cross-validated ridge beside a design written out and dense least squares."""

import numpy as np
import pytest

from treepurify.engines.legendre import TermSelection, legendre_anova
from treepurify.engines.legendre.ridge import PENALTIES, fold_of_rows
from treepurify.errors import InvalidInputError, MemoryBudgetError
from treepurify.rows.columns import Columns, FeatureSpec

pytestmark = pytest.mark.filterwarnings("ignore::treepurify.errors.FitWarning")

RIDGE = TermSelection(criterion="all", penalty="ridge")
OPTIONS = {"scaling": "tanh", "degree": 4, "progress": False}


def rows(n_rows: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], n_rows)


def step(X: np.ndarray) -> np.ndarray:
    return (X[:, 0] > 0.3) * (X[:, 1] > -0.5) + 0.3 * X[:, 0]


def design(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns of main effects and of the pair, and their total degrees."""
    scaled = np.tanh((X - X.mean(axis=0)) / X.std(axis=0))
    tables = [np.polynomial.legendre.legvander(column, 4)[:, 1:] for column in scaled.T]
    pairs = np.einsum("na,nb->nab", *tables).reshape(len(X), -1)
    degrees = np.arange(1, 5)
    total = np.add.outer(degrees, degrees).ravel()
    return np.hstack([*tables, pairs]), np.concatenate([degrees, degrees, total])


@pytest.mark.parametrize("weighted", [False, True])
def test_equals_dense_least_squares_with_rows_for_the_penalty(weighted):
    X = rows(250)
    values = step(X)
    weights = np.random.default_rng(1).uniform(0.5, 2, 250) if weighted else np.ones(250)
    d = legendre_anova(
        values, X, selection=RIDGE, sample_weight=weights if weighted else None, **OPTIONS
    )
    penalty = d.diagnostics["fit"]["f"]["penalty"]
    assert penalty > 0
    weights /= weights.sum()
    columns, degrees = design(X)
    if weighted:
        scaled = X - weights @ X
        scaled = np.tanh(scaled / np.sqrt(weights @ scaled**2))
        tables = [np.polynomial.legendre.legvander(column, 4)[:, 1:] for column in scaled.T]
        pairs = np.einsum("na,nb->nab", *tables).reshape(len(X), -1)
        columns = np.hstack([*tables, pairs])
    centred = columns - weights @ columns
    centred /= np.sqrt(weights @ centred**2)
    rest = values - weights @ values
    specs = tuple(FeatureSpec(f"x{j}") for j in range(X.shape[1]))
    fold = fold_of_rows(Columns(specs, tuple(X.T), 250))
    assert np.bincount(fold).tolist() == [50] * 5

    def solved(kept: np.ndarray, size: float) -> np.ndarray:
        share = weights[kept] / weights[kept].sum()
        root = np.sqrt(share)[:, None]
        system = np.vstack([root * centred[kept], np.diag(np.sqrt(size) * degrees)])
        right = np.concatenate([root[:, 0] * rest[kept], np.zeros(len(degrees))])
        return np.linalg.lstsq(system, right, rcond=None)[0]

    errors = [
        sum(
            weights[fold == part] @ (rest - centred @ solved(fold != part, size))[fold == part] ** 2
            for part in range(5)
        )
        for size in PENALTIES
    ]
    assert penalty == PENALTIES[int(np.argmin(errors))]
    total = sum(component.on_rows(X)[:, 0] for component in d.components.values())
    expected = centred @ solved(np.ones(250, dtype=bool), penalty)
    np.testing.assert_allclose(total, expected, atol=1e-8)


def test_a_penalty_brings_pairs_nearer_on_new_rows():
    fresh = rows(20_000, 1)
    tables = [np.polynomial.legendre.legvander(np.tanh(column), 12) for column in fresh.T]
    additive = np.hstack([tables[0], tables[1][:, 1:]])
    pair = step(fresh) - additive @ np.linalg.lstsq(additive, step(fresh), rcond=None)[0]
    errors = []
    for penalty in ("none", "ridge"):
        X = rows(300)
        selection = TermSelection(criterion="all", penalty=penalty)
        d = legendre_anova(step(X), X, selection=selection, progress=False)
        errors.append(np.sqrt(np.mean((d[0, 1].on_rows(fresh)[:, 0] - pair) ** 2)))
    assert errors[1] < 0.5 * errors[0]


def test_what_polynomials_reproduce_needs_no_penalty():
    X = rows(500)
    values = np.stack([np.tanh((X[:, 0] - X[:, 0].mean()) / X[:, 0].std()), step(X)], axis=1)
    d = legendre_anova(values, X, selection=RIDGE, **OPTIONS)
    found = [fit["penalty"] for fit in d.diagnostics["fit"].values()]
    assert found[0] <= 1e-9 < found[1]
    assert "penalty" not in next(
        iter(legendre_anova(values, X, **OPTIONS).diagnostics["fit"].values())
    )


def test_what_cannot_be_is_refused():
    with pytest.raises(InvalidInputError, match="penalty"):
        TermSelection(penalty="lasso")
    with pytest.raises(MemoryBudgetError, match="parts of the rows"):
        legendre_anova(step(rows(300)), rows(300), selection=RIDGE, memory_budget=36_600, **OPTIONS)
