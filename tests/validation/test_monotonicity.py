"""Monotonicity against all combinations of values, and on models that libraries constrained."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits
from xgboost import XGBRegressor

import treepurify as tp

QUIET = {"progress": False}
LEVELS = ("low", "middle", "high")
N_MODELS = 200


def random_rows(rng, n_rows=60):
    """Return rows of few values, with missing ones and categories."""
    X = pd.DataFrame(
        {
            "a": rng.integers(0, 5, n_rows).astype(float),
            "b": rng.integers(0, 4, n_rows).astype(float),
            "c": pd.Categorical(rng.choice(LEVELS, n_rows), categories=LEVELS),
            "d": rng.integers(0, 3, n_rows).astype(float),
        }
    )
    X.loc[rng.random(n_rows) < 0.15, "b"] = np.nan
    X.loc[rng.random(n_rows) < 0.1, "a"] = np.nan
    return X


def random_model(number, rng):
    """Return a model of depth 2 or 3, sometimes constrained, and its rows."""
    X = random_rows(rng)
    y = rng.uniform(0, 2) * X["a"].fillna(1) + rng.normal(size=len(X)) * rng.uniform(0, 1)
    y += rng.uniform(0, 1) * (X["c"].cat.codes - 1) * X["b"].fillna(2)
    depth, n_trees = 2 + number % 2, int(rng.integers(1, 12))
    sign = int(rng.integers(0, 2))
    if number % 3 == 0:
        model = LGBMRegressor(
            n_estimators=n_trees,
            max_depth=depth,
            min_child_samples=2,
            monotone_constraints=[sign, 0, 0, 0],
            min_data_per_group=1,
            cat_smooth=1,
            verbose=-1,
            n_jobs=1,
        )
    elif number % 3 == 1:
        model = HistGradientBoostingRegressor(
            max_iter=n_trees,
            max_depth=depth,
            min_samples_leaf=2,
            categorical_features="from_dtype",
            monotonic_cst=[sign, 0, 0, 0],
        )
    else:
        model = XGBRegressor(
            n_estimators=n_trees,
            max_depth=depth,
            min_child_weight=0,
            enable_categorical=True,
            max_cat_to_onehot=1,
            learning_rate=0.5,
            n_jobs=1,
            monotone_constraints=(sign, 0, 0, 0),
        )
    # Threads that wait for each other would take most of the time.
    with threadpool_limits(1):
        return model.fit(X, y), X


def values_of_cells(parsed):
    """Return a value, or code, of each cell of each feature, the missing one last."""
    values = []
    for j, spec in enumerate(parsed.features):
        if spec.is_categorical:
            values.append(np.array([*range(spec.n_codes + 1), np.nan]))
            continue
        cuts = np.unique(parsed.cut[(parsed.feature == j) & (parsed.category_ptr < 0)])
        cuts = cuts[np.isfinite(cuts)]
        values.append(np.array([*(cuts[:1] - 1.0 if len(cuts) else [0.0]), *cuts, np.nan]))
    return values


def margins(parsed, matrix):
    """Return the margin of rows of numbers and codes."""
    columns = tp.parse_model(parsed).columns(_coded_table(parsed, matrix))
    return parsed.margin(columns, precision="float64")[:, 0]


def _coded_table(parsed, matrix):
    columns = {}
    for spec, values in zip(parsed.features, matrix.T, strict=True):
        if spec.is_categorical:
            labels = [*spec.labels, "never seen"]
            column = [None if np.isnan(v) else labels[int(v)] for v in values]
            columns[spec.name] = pd.Categorical(column, categories=labels)
        else:
            columns[spec.name] = values
    return pd.DataFrame(columns)


def worst_of_all(parsed, j, places, others=None):
    """Return the largest fall from one of the places to the next, by trying everything."""
    values = values_of_cells(parsed)
    if others is None:
        rest = [own for i, own in enumerate(values) if i != j]
        others = np.array(list(product(*rest)), dtype=float).reshape(-1, len(rest))
    along = []
    for place in places:
        along.append(margins(parsed, np.insert(others, j, place, axis=1)))
    falls = -np.diff(np.stack(along, axis=1), axis=1)
    return float(falls.max(initial=0.0)), (falls > 1e-9).any(axis=1)


def coded(parsed, X):
    return np.array(parsed.columns(X).matrix())


@pytest.mark.parametrize("block", range(4))
def test_equal_to_trying_all_combinations(block):
    verdicts = []
    for number in range(block, N_MODELS, 4):
        model, X = random_model(number, np.random.default_rng(number))
        parsed = tp.parse_model(model, X=X)
        j = number % 2
        found = tp.check_monotonicity(parsed, None, {"ab"[j]: "increasing"}, **QUIET)
        check = found.checks[0]
        worst, _ = worst_of_all(parsed, j, values_of_cells(parsed)[j][:-1])
        assert check.verdict == ("violated" if worst > 1e-9 else "proved"), number
        assert check.bound == pytest.approx(worst, abs=1e-9)
        if worst > 1e-9:
            assert check.is_reached
            assert check.worst.size == pytest.approx(worst, abs=1e-9)
            two = parsed.margin(_as_table(parsed, check.worst), precision="float64")[:, 0]
            assert two[0] - two[1] == pytest.approx(worst, abs=1e-9)
        few = X.iloc[:6]
        rows = tp.check_monotonicity(parsed, few, {"ab"[j]: "increasing"}, **QUIET).checks[0]
        matrix = np.delete(coded(parsed, few), j, axis=1)
        in_rows, is_wrong = worst_of_all(parsed, j, values_of_cells(parsed)[j][:-1], matrix)
        expected = "violated" if in_rows > 1e-9 else "violated outside the rows"
        assert rows.verdict == (expected if worst > 1e-9 else "proved"), number
        assert rows.row_share == pytest.approx(is_wrong.mean())
        if in_rows > 1e-9:
            assert rows.worst.size == pytest.approx(in_rows, abs=1e-9)
        verdicts.append(rows.verdict)
    assert {"proved", "violated"} <= set(verdicts)


def _as_table(parsed, step):
    table = step.to_frame()
    for spec in parsed.features:
        if spec.is_categorical:
            labels = [*spec.labels, "unseen"]
            table[spec.name] = pd.Categorical(table[spec.name], categories=labels)
    return table
