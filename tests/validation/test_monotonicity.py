"""Monotonicity against all combinations of values, and on models that libraries constrained."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from interpret.glassbox import ExplainableBoostingRegressor
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    VotingRegressor,
)
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits
from xgboost import XGBClassifier, XGBRegressor

import treepurify as tp
from tests.cases import data_path

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
        is_shallow = number % 2 == 0
        # A search of all combinations of a deep model is left out, unless its trees prove it.
        undecided = set() if is_shallow else {"not decided"}
        assert check.verdict in {"violated" if worst > 1e-9 else "proved"} | undecided, number
        assert check.bound >= worst - 1e-9
        if is_shallow:
            assert check.bound == pytest.approx(worst, abs=1e-9)
            assert check.is_reached or worst <= 1e-9
        if check.worst is not None:
            assert check.worst.size == pytest.approx(worst, abs=1e-9) or not is_shallow
            two = parsed.margin(_as_table(parsed, check.worst), precision="float64")[:, 0]
            assert two[0] - two[1] == pytest.approx(check.worst.size, abs=1e-9)
        few = X.iloc[:6]
        rows = tp.check_monotonicity(parsed, few, {"ab"[j]: "increasing"}, **QUIET).checks[0]
        matrix = np.delete(coded(parsed, few), j, axis=1)
        in_rows, is_wrong = worst_of_all(parsed, j, values_of_cells(parsed)[j][:-1], matrix)
        expected = "violated outside the rows" if worst > 1e-9 else "proved"
        if in_rows > 1e-9:
            assert rows.verdict == "violated", number
        else:
            assert rows.verdict in {expected} | undecided, number
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


def test_categories_in_a_stated_order_equal_all_combinations():
    verdicts = set()
    for number in range(12):
        model, X = random_model(number, np.random.default_rng(1000 + number))
        parsed = tp.parse_model(model, X=X)
        labels = ["high", "low", "middle"]
        check = tp.check_monotonicity(parsed, X, {"c": labels}, **QUIET).checks[0]
        codes = [parsed.features[2].labels.index(label) for label in labels]
        worst, _ = worst_of_all(parsed, 2, codes)
        _, is_wrong = worst_of_all(parsed, 2, codes, np.delete(coded(parsed, X), 2, axis=1))
        assert check.verdict == "not decided" or (check.verdict == "proved") == (worst <= 1e-9)
        assert check.row_share == pytest.approx(is_wrong.mean())
        assert check.bound >= worst - 1e-9
        verdicts.add(check.verdict)
    assert {"proved", "violated"} <= verdicts


def test_violations_that_no_row_has_are_reported_separately():
    # b falls only where a is large, and there no row is; the last step decides.
    X = pd.DataFrame({"a": [0.0, 0.0, 1.0, 1.0], "b": [0.0, 1.0, 0.0, 1.0]})
    model = DecisionTreeRegressor().fit(X, [0.0, 1.0, 1.0, 0.0])
    found = tp.check_monotonicity(model, X.iloc[:2], {"b": "increasing"}, **QUIET).checks[0]
    assert (found.verdict, found.row_share, found.bound) == ("violated outside the rows", 0.0, 1.0)
    assert found.worst.row["a"] > 0.5
    assert found.worst.number is None
    assert "do not occur in the rows" in found.sentence()
    inside = tp.check_monotonicity(model, X, {"b": "increasing"}, **QUIET).checks[0]
    assert (inside.verdict, inside.row_share, inside.worst.number) == ("violated", 0.5, 2)
    assert (inside.near_share, inside.worst.row) == (0.5, {"a": 1.0, "b": 0.0})


def test_weights_change_shares_only():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 3)), columns=["a", "b", "c"])
    model = GradientBoostingRegressor(n_estimators=10, max_depth=3, random_state=0)
    model.fit(X, X["a"] * (X["b"] > 1) - 0.1 * X["c"])
    weight = rng.integers(0, 3, len(X)).astype(float)
    directions = {"a": "increasing", "c": "decreasing"}
    whole = tp.check_monotonicity(model, X, directions, sample_weight=weight, **QUIET)
    kept = tp.check_monotonicity(model, X[weight > 0], directions, **QUIET)
    columns = [name for name in whole.to_frame() if name != "mass_share"]
    unweighted = [name for name in columns if name != "near_share"]
    pd.testing.assert_frame_equal(whole.to_frame()[unweighted], kept.to_frame()[unweighted])
    assert whole.n_rows == int(np.sum(weight > 0))


def test_explainable_boosting_machines_are_decided_exactly():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 3)), columns=["a", "b", "c"])
    y = X["a"] + X["a"] * X["b"]
    one = {"outer_bags": 1, "n_jobs": 1}
    ebm = ExplainableBoostingRegressor(interactions=2, max_bins=16, max_rounds=80, **one)
    ebm.fit(X, y)
    check = tp.check_monotonicity(ebm, X, {"a": "increasing"}, **QUIET).checks[0]
    parsed = tp.parse_model(ebm)
    cuts = [
        np.unique(
            np.concatenate(
                [
                    cut
                    for term in parsed.terms
                    for i, cut in zip(term.features, term.cuts, strict=True)
                    if i == j
                ]
            )
        )
        for j in range(3)
    ]
    values = [np.array([own[0] - 1, *own, np.nan]) for own in cuts]
    others = np.array(list(product(values[1], values[2])))
    along = [
        parsed.margin(pd.DataFrame(np.insert(others, 0, place, axis=1), columns=list("abc")))
        for place in values[0][:-1]
    ]
    worst = -np.diff(np.hstack(along), axis=1).min()
    assert check.verdict == "violated"
    assert check.is_reached
    assert check.bound == pytest.approx(worst)
    first, second = ebm.predict(check.worst.to_frame())
    assert first - second == pytest.approx(check.worst.size)


@pytest.fixture(scope="module")
def houses():
    table = pd.read_parquet(data_path("california_housing")).iloc[:6000]
    return table.drop(columns="MedHouseVal"), table["MedHouseVal"]


@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic"])
def test_deep_constrained_models_of_real_data_are_proved(houses, objective):
    X, y = houses
    y = (y > y.median()).astype(float) if objective == "binary:logistic" else y
    signs = {"MedInc": 1, "HouseAge": 1, "AveOccup": -1}
    options = {"n_estimators": 60, "max_depth": 6, "n_jobs": 1}
    kind = XGBClassifier if objective == "binary:logistic" else XGBRegressor
    booster = kind(objective=objective, monotone_constraints=signs, **options).fit(X, y)
    constraints = [signs.get(name, 0) for name in X]
    kind = LGBMClassifier if objective == "binary:logistic" else LGBMRegressor
    boosters = [booster, kind(monotone_constraints=constraints, verbose=-1, **options).fit(X, y)]
    for model in boosters:
        found = tp.check_monotonicity(model, X, **QUIET)
        assert [check.feature for check in found.checks] == list(signs)
        assert found.is_proved
        assert {check.method for check in found.checks} == {"trees"}


def test_the_constraint_that_xgboost_breaks_is_found(houses):
    X, y = houses
    model = XGBRegressor(
        n_estimators=60,
        max_depth=6,
        n_jobs=1,
        objective="reg:absoluteerror",
        monotone_constraints={"MedInc": 1},
    ).fit(X, y)
    check = tp.check_monotonicity(model, X, **QUIET).checks[0]
    assert check.verdict == "violated"
    first, second = model.predict(check.worst.to_frame())
    assert first - second == pytest.approx(check.worst.size, rel=1e-4)
    assert check.bound >= check.worst.size > 0.05
    row = X.iloc[check.worst.number].drop("MedInc")
    assert row.to_dict() == {k: v for k, v in check.worst.row.items() if k != "MedInc"}


def test_a_deep_model_that_is_not_decided_says_why():
    X = pd.DataFrame(list(product([0.0, 1.0], repeat=3)), columns=list("abc"))
    corner = X.prod(axis=1)
    # One tree falls with a where b and c are 1, and the other makes up for it there.
    model = VotingRegressor(
        [("falls", DecisionTreeRegressor()), ("rises", DecisionTreeRegressor())]
    )
    model.fit(X, corner)
    for tree, slope in zip(model.estimators_, (-1.0, 2.0), strict=True):
        tree.fit(X, slope * corner)
    for rows, method, words in ((None, "tables", "there are no rows"), (X, "rows", "no row")):
        found = tp.check_monotonicity(model, rows, {"a": "increasing"}, **QUIET).checks[0]
        assert (found.verdict, found.method) == ("not decided", method)
        assert (found.bound, found.is_reached, found.worst) == (0.5, False, None)
        assert words in found.sentence()
        assert "at most 0.5" in found.sentence()


def test_outputs_have_verdicts_of_their_own():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model = LGBMClassifier(n_estimators=5, max_depth=2, verbose=-1, n_jobs=1).fit(X, y)
    found = tp.check_monotonicity(model, X, {0: "increasing"}, **QUIET)
    assert len(found.checks) == 3
    assert found.check(0, 0).verdict == "violated"
    assert found.check(0, 2).verdict in ("proved", "violated")
    assert any("Probabilities of classes" in note for note in found.notes)


@pytest.mark.parametrize(
    ("directions", "words"),
    [
        ({}, "must name features"),
        ({"a": "up"}, '"increasing" or "decreasing"'),
        ({"c": "increasing"}, "pass its categories"),
        ({"c": ["low", "huge"]}, "has no category 'huge'"),
        ({"c": ["low", "low"]}, "two different categories"),
        ({"a": ["low", "high"]}, "is numeric"),
        ({"z": "increasing"}, "no feature"),
        (None, "has no monotone constraints"),
    ],
)
def test_directions_that_cannot_be_read_are_refused(directions, words):
    model, X = random_model(5, np.random.default_rng(5))
    parsed = tp.parse_model(model, X=X)
    source = replace(parsed.source, constraints=())
    with pytest.raises(tp.errors.InvalidInputError, match=words):
        tp.check_monotonicity(replace(parsed, source=source), X, directions, **QUIET)


def test_the_picture_shows_the_effect_that_breaks_it():
    X = pd.DataFrame({"a": [0.0, 0.0, 1.0, 1.0], "b": [0.0, 1.0, 0.0, 1.0]})
    model = DecisionTreeRegressor().fit(X, [0.0, 1.0, 1.0, 0.0])
    found = tp.check_monotonicity(model, X, {"a": "increasing"}, **QUIET)
    d = tp.purify(model, X, weights="empirical", progress=False)
    parts = found.checks[0].by_effect(d)
    assert parts.to_dict() == pytest.approx({"a & b": -1.0})
    ax = tp.plots.monotonicity(found, d)
    assert "\N{MINUS SIGN}1 from a & b" in ax.get_legend().get_title().get_text()
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert {"worst step", "b 1 (row)"} <= set(labels)
    proved = tp.check_monotonicity(model.fit(X, X["a"]), X, {"a": "increasing"}, **QUIET)
    with pytest.raises(tp.errors.InvalidInputError, match="nothing to draw"):
        tp.plots.monotonicity(proved, d)


def missing_code_model(number, rng):
    """An XGBoost model that reads a category, or LightGBM that reads zeros, as missing."""
    X = random_rows(rng, 90)
    X["b"] -= 1
    y = rng.uniform(-1, 1, 5)[X["a"].fillna(1).astype(int)] + X["d"] * (X["c"] == "middle")
    y += rng.normal(size=len(X)) * 0.3 + X["b"].fillna(0) * rng.normal()
    if number % 2:
        model = LGBMRegressor(
            n_estimators=6, max_depth=3, min_child_samples=2, zero_as_missing=True, verbose=-1,
            n_jobs=1,
        )  # fmt: skip
    else:
        model = XGBRegressor(
            n_estimators=6, max_depth=3, min_child_weight=0, enable_categorical=True, n_jobs=1,
            missing=float(number // 2 % 3), max_cat_to_onehot=1,
        )  # fmt: skip
    with threadpool_limits(1):
        return model.fit(X, y), X


@pytest.mark.parametrize("block", range(2))
def test_values_that_count_as_missing_are_followed_as_the_library_reads_them(block):
    verdicts = []
    for number in range(block, 60, 2):
        model, X = missing_code_model(number, np.random.default_rng(number))
        rng = np.random.default_rng(number)
        name = "c" if number % 2 == 0 or number % 3 == 0 else "b"
        order = rng.permutation(LEVELS).tolist() if name == "c" else "increasing"
        found = tp.check_monotonicity(model, X, {name: order}, **QUIET)
        check = found.checks[0]
        verdicts.append(check.verdict)
        values = np.arange(-1.5, 3, 0.25) if name == "b" else order
        if name == "b":
            # Zeros count as missing, which have no place in the order.
            values = values[values != 0]
        every = pd.MultiIndex.from_product(
            [
                [*np.arange(-0.5, 5), 0, 1, 2, np.nan],
                [*np.arange(-1.5, 3), 0, 1, 2, np.nan],
                LEVELS,
                [-0.5, 0, 0.5, 1, 1.5, 2, 2.5],
            ],
            names=list("abcd"),
        ).to_frame(index=False)
        worst = {}
        for what, rows in (("rows", X), ("all", every)):
            moved = [_with_value(rows, name, value) for value in values]
            along = np.stack([model.predict(table).astype(float) for table in moved])
            worst[what] = float(-np.diff(along, axis=0).min())
        if worst["rows"] > 1e-5:
            assert check.verdict == "violated", number
            assert check.worst.size == pytest.approx(worst["rows"], abs=1e-5)
        elif check.verdict == "violated outside the rows":
            assert 1e-5 < check.worst.size <= worst["all"] + 1e-5, number
        else:
            assert check.verdict == "not decided" or worst["all"] <= 1e-5, number
        assert check.bound >= worst["all"] - 1e-5
        if check.worst is not None:
            sides = [_as_row(X, one) for one in (check.worst.row, check.worst.neighbour)]
            low, high = (model.predict(side)[0] for side in sides)
            assert low - high == pytest.approx(check.worst.size, abs=1e-5)
    assert len(set(verdicts)) > 1


def _with_value(rows, name, value):
    column = pd.Categorical([value] * len(rows), categories=LEVELS) if name == "c" else value
    table = rows.assign(**{name: column})
    return table.assign(c=pd.Categorical(table["c"], categories=LEVELS))


def _as_row(X, values):
    return _with_value(
        pd.DataFrame([values])[list(X)].astype(dict.fromkeys("abd", float)), "d", values["d"]
    )


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "sklearn"])
def test_orders_of_a_feature_that_no_tree_tests_are_proved(library):
    rng = np.random.default_rng(0)
    X = random_rows(rng)
    model = {
        "xgboost": XGBRegressor(n_estimators=3, max_depth=1, enable_categorical=True, n_jobs=1),
        "lightgbm": LGBMRegressor(n_estimators=3, max_depth=1, verbose=-1, n_jobs=1),
        "sklearn": HistGradientBoostingRegressor(
            max_iter=3, max_depth=1, categorical_features="from_dtype"
        ),
    }[library].fit(X, 1.0 * (X["a"] > 2))
    parsed = tp.parse_model(model, X=X)
    for order in (LEVELS, LEVELS[::-1], LEVELS[::2]):
        for given, rows in ((model, X), (parsed, None)):
            found = tp.check_monotonicity(given, rows, {"c": list(order)}, **QUIET)
            assert (found.checks[0].verdict, found.checks[0].bound) == ("proved", 0.0)


def test_an_order_of_categories_that_the_model_does_not_know_is_refused():
    X = random_rows(np.random.default_rng(0)).fillna({"a": 0.0, "b": 0.0})
    model = ExplainableBoostingRegressor(
        interactions=0, exclude=["c"], max_rounds=5, outer_bags=1, n_jobs=1
    ).fit(X, X["d"])
    with pytest.raises(tp.errors.InvalidInputError, match="tests no category of 'c'"):
        tp.check_monotonicity(model, X, {"c": list(LEVELS)}, **QUIET)
