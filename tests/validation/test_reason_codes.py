"""Reasons against Shapley values by definition and libraries' own predictions."""

import json

import numpy as np
import pandas as pd
import pytest

import treepurify as tp
from tests.cases import rows_beside_cuts
from tests.reference.ensembles import random_ensemble
from tests.reference.tables import tables_with_coarse_terms
from tests.shapley.truth import interventional_game, shapley_by_definition
from treepurify.errors import InvalidInputError, MemoryBudgetError, UnknownComponentError


def group_game(f, rows, reference, members, weights=None):
    """The game whose players are groups of columns."""
    of_features = interventional_game(f, rows, reference, weights)
    return lambda groups: of_features(tuple(sorted(j for g in groups for j in members[g])))


def by_definition(f, rows, reference, members, weights=None):
    """Values of all groups, from all coalitions and every reference row: (n_rows, n_groups)."""
    game = group_game(f, rows, reference, members, weights)
    return shapley_by_definition(game, len(members)).T


def check_sums(found, atol=1e-12):
    sums = found.sums()
    parts = sums[["reasons", "other_adverse", "favourable", "remainder"]].sum(axis=1)
    np.testing.assert_allclose(parts, sums["margin"] - sums["reference_margin"], atol=1e-13)
    np.testing.assert_allclose(sums["remainder"], 0.0, atol=atol)
    table = found.table()
    shown = table.groupby("row")["contribution"].sum().reindex(sums["row"], fill_value=0.0)
    np.testing.assert_allclose(shown, sums["reasons"], atol=1e-13)


@pytest.mark.parametrize("depth", [2, 5])
@pytest.mark.parametrize("groups", [None, {"first": ["x3", "x0"], "second": ["x1", "x4"]}])
def test_trees_equal_the_definition(depth, groups):
    """Tables at depth two, states of paths beyond; missing values, categories, two outputs."""
    rng = np.random.default_rng(depth)
    ensemble = random_ensemble(
        rng, n_features=5, n_categorical=2, n_trees=8, depth=depth, n_outputs=2
    )
    names = ensemble.feature_names
    if groups is not None:
        groups = {name: [names[int(f[1:])] for f in own] for name, own in groups.items()}
    rows = rows_beside_cuts(ensemble, 7, seed=1)
    reference = rows_beside_cuts(ensemble, 30, seed=2)
    weights = rng.integers(0, 4, size=30) + np.eye(30)[0]
    for output in (0, 1):
        found = tp.reason_codes(
            ensemble, rows, reference=reference, groups=groups, output=output,
            sample_weight=weights, adverse="low", top=2, progress=False,
        )  # fmt: skip

        def margin(X, k=output):
            return ensemble.margin(X, precision="float64")[:, k]

        truth = by_definition(margin, rows, reference, found.groups.members, weights)
        np.testing.assert_allclose(found.values, truth, atol=1e-12)
        np.testing.assert_allclose(found.margins, margin(rows), atol=1e-12)
        check_sums(found)


def test_groups_are_players_and_not_sums_of_their_features():
    """A product of three features, two of them one group: half each, not two thirds."""

    def product(X):
        return X[:, 0] * X[:, 1] * X[:, 2]

    rows, reference = np.ones((1, 3)), np.zeros((1, 3))
    found = tp.reason_codes(
        product, rows, reference=reference, groups={"pair": [0, 1]}, progress=False
    )
    assert found.groups.names == ("pair", "x2")
    np.testing.assert_allclose(found.values, [[0.5, 0.5]], atol=1e-15)
    alone = tp.reason_codes(product, rows, reference=reference, progress=False)
    np.testing.assert_allclose(alone.values, [[1 / 3, 1 / 3, 1 / 3]], atol=1e-15)


def test_called_functions_with_groups_equal_the_definition():
    rng = np.random.default_rng(0)
    rows, reference = rng.integers(0, 3, size=(2, 6, 5)).astype(float)

    def f(X):
        return X[:, 0] * X[:, 1] + np.exp(X[:, 2] - X[:, 3]) * X[:, 4]

    groups = {"a": ["x0", "x3"], "b": ["x2", "x4"]}
    found = tp.reason_codes(f, rows, reference=reference, groups=groups, progress=False)
    truth = by_definition(f, rows, reference, found.groups.members)
    np.testing.assert_allclose(found.values, truth, atol=1e-12)
    check_sums(found)


def small_task(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 4)).round(1), columns=["a", "b", "c", "d"])
    score = X["a"] + X["a"] * X["b"] + X["b"] * X["c"] * (X["d"] > 0)
    return X, (score + rng.normal(size=n) > 0).astype(int)


def _xgboost(X, y):
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBClassifier(n_estimators=40, n_jobs=1).fit(X, y)
    return model, lambda rows: model.predict(rows, output_margin=True)


def _lightgbm(X, y):
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMClassifier(n_estimators=40, n_jobs=1, verbose=-1).fit(X, y)
    return model, lambda rows: model.predict(rows, raw_score=True)


def _ebm(X, y):
    interpret = pytest.importorskip("interpret.glassbox")
    model = interpret.ExplainableBoostingClassifier(
        outer_bags=2, max_rounds=60, interactions=3, n_jobs=1
    ).fit(X, y)
    return model, model.decision_function


def _forest(X, y):
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(n_estimators=10, random_state=0).fit(X, y)
    return model, lambda rows: model.predict_proba(rows)[:, 1]


def _pipeline(X, y):
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    columns = ColumnTransformer(
        [("scaled", StandardScaler(), ["a", "b", "c"]), ("hot", OneHotEncoder(), ["d"])]
    )
    boosting = GradientBoostingClassifier(n_estimators=20, random_state=0)
    model = make_pipeline(columns, boosting).fit(X, y)
    return model, model.decision_function


@pytest.mark.parametrize("train", [_xgboost, _lightgbm, _ebm, _forest, _pipeline])
def test_real_models_equal_the_definition_with_their_own_predictions(train):
    X, y = small_task()
    X["d"] = np.sign(X["d"])
    model, predict = train(X, y)
    rows, reference = X[:6], X[100:112]
    found = tp.reason_codes(
        model, rows, reference=reference, groups={"joint": ["b", "d"]},
        progress=False,
    )  # fmt: skip

    def f(values):
        return np.asarray(predict(pd.DataFrame(values, columns=X.columns)), dtype=float)

    truth = by_definition(f, rows.to_numpy(), reference.to_numpy(), found.groups.members)
    # XGBoost and scikit-learn round sums or cuts to single precision.
    np.testing.assert_allclose(found.values, truth, atol=3e-6)
    check_sums(found)
    assert found.table()["row"].isin(rows.index).all()


def test_a_model_of_tables_needs_no_pairs_on_the_cuts_of_its_main_effects():
    rng = np.random.default_rng(0)
    model = tables_with_coarse_terms(rng, 4, (300, 5))
    X = rng.normal(size=(40, 4))
    found = tp.reason_codes(model, X[:6], reference=X[10:], memory_budget=4 << 20, progress=False)
    truth = by_definition(model.margin, X[:6], X[10:], found.groups.members)
    np.testing.assert_allclose(found.values, np.squeeze(truth), atol=1e-12)


def test_decompositions_are_explained_independently_of_their_weights():
    xgboost = pytest.importorskip("xgboost")
    X, y = small_task()
    rows, reference = X[:20], X[100:200]
    for depth in (2, 4):
        model = xgboost.XGBClassifier(n_estimators=30, max_depth=depth, n_jobs=1).fit(X, y)
        expected = tp.reason_codes(model, rows, reference=reference, progress=False)
        for weights in ("uniform", "empirical"):
            if depth == 4 and weights == "uniform":
                continue
            d = tp.purify(model, X, weights=weights, order=2, progress=False)
            found = tp.reason_codes(d, rows, reference=reference, progress=False)
            np.testing.assert_allclose(found.values, expected.values, atol=1e-10)
            check_sums(found, atol=1e-10)


@pytest.mark.parametrize("depth", [2, 4])
def test_features_that_do_not_differ_are_no_reasons(depth):
    """Half of the difference of an effect would be: it has a part in features that are equal."""
    xgboost = pytest.importorskip("xgboost")
    X, y = small_task()
    model = xgboost.XGBClassifier(n_estimators=30, max_depth=depth, n_jobs=1).fit(X, y)
    d = tp.purify(model, X, weights="empirical", order=2, progress=False)
    row = X[:1]
    for adverse in ("high", "low"):
        found = tp.reason_codes(
            d, row, reference=row.assign(a=row["a"] - 1), adverse=adverse, progress=False
        )
        others = np.delete(found.values, found.groups.names.index("a"), axis=1)
        np.testing.assert_allclose(others, 0.0, atol=1e-12)
        np.testing.assert_allclose(found.values.sum(), found.difference[0], atol=1e-10)
        assert set(found.table()["reason"]) <= {"a"}


@pytest.mark.parametrize("depth", [2, 3])
def test_an_edited_decomposition_is_explained_as_it_is(depth):
    xgboost = pytest.importorskip("xgboost")
    X, y = small_task()
    model = xgboost.XGBClassifier(n_estimators=15, max_depth=depth, n_jobs=1).fit(X, y)
    d = tp.purify(model, X, weights="empirical", order=2, progress=False).without("a", "a & b")
    rows, reference = X[:4], X[100:110]
    found = tp.reason_codes(d, rows, reference=reference, progress=False)

    def f(values):
        return d.predict(pd.DataFrame(values, columns=X.columns))

    truth = by_definition(f, rows.to_numpy(), reference.to_numpy(), found.groups.members)
    np.testing.assert_allclose(found.values, truth, atol=1e-12)
    check_sums(found)


def test_what_belongs_to_no_feature_is_the_remainder():
    X, _ = small_task()

    def f(values):
        values = np.asarray(values)
        return values[:, 0] * values[:, 1] * values[:, 2] + values[:, 3]

    d = tp.hooker_anova(f, X.to_numpy(), order=1, progress=False)
    found = tp.reason_codes(d, X[:5].to_numpy(), reference=X[100:].to_numpy(), progress=False)
    sums, rest = found.sums(), d.remainder.on_rows(X.to_numpy())[:, 0]
    np.testing.assert_allclose(sums["remainder"], rest[:5] - rest[100:].mean(), atol=1e-12)
    assert np.abs(sums["remainder"]).max() > 0.1


@pytest.mark.filterwarnings("ignore::treepurify.errors.FitWarning")
def test_components_without_cells_are_explained():
    X, _ = small_task()
    rows = X.to_numpy()

    def f(rows):
        return rows[:, 0] ** 2 + rows[:, 1] * rows[:, 2]

    d = tp.legendre_anova(f, rows, order=2, degree=2, progress=False)
    found = tp.reason_codes(d, rows[:3], reference=rows[50:58], progress=False)

    def fitted(rows):
        return d.predict(rows) - d.remainder.on_rows(rows)[:, 0]

    truth = by_definition(fitted, rows[:3], rows[50:58], found.groups.members)
    np.testing.assert_allclose(found.values, truth, atol=1e-10)


def linear(weights):
    return lambda X: np.asarray(X) @ np.asarray(weights)


def test_adverse_reasons_are_ranked_and_ties_stay_in_the_order_of_the_features():
    rows, reference = np.ones((1, 5)), np.zeros((1, 5))
    # 0.1 + 0.2 is not 0.3 in double precision: equal but for rounding.
    f = linear([0.3, 0.1 + 0.2, -1.0, 0.5, 0.0])
    found = tp.reason_codes(f, rows, reference=reference, top=2, progress=False)
    assert found.table()["reason"].tolist() == ["x3", "x0"]
    assert found.table()["rank"].tolist() == [1, 2]
    assert found.ranked.n_adverse.tolist() == [3]
    sums = found.sums().iloc[0]
    np.testing.assert_allclose(
        sums[["reasons", "other_adverse", "favourable"]].tolist(), [0.8, 0.3, -1.0], atol=1e-15
    )
    # The last reason shown and the first that is not are equal.
    np.testing.assert_allclose(sums["gap"], 0.0, atol=1e-15)
    assert sums["is_close"]
    low = tp.reason_codes(f, rows, reference=reference, adverse="low", progress=False)
    assert low.table()["reason"].tolist() == ["x2"]
    assert not low.is_close[0]
    np.testing.assert_allclose(low.gap, [1.0])


def test_rows_without_an_adverse_reason():
    rows = np.zeros((2, 3))
    found = tp.reason_codes(linear([1.0, 1.0, 1.0]), rows, reference=rows + 1, progress=False)
    assert len(found.table()) == 0
    assert np.isnan(found.gap).all()
    assert not found.is_close.any()
    assert "high: 2 rows" in repr(found)
    check_sums(found)


def test_texts_of_groups_and_directions():
    rows, reference = np.array([[1.0, 0.0, 2.0]]), np.array([[0.0, 1.0, 0.0]])
    texts = {"credit": {"high": "Much credit", "low": "Little credit"}, "x2": "Many requests"}
    for adverse, expected in (("high", ["Many requests", "Much credit"]), ("low", [])):
        found = tp.reason_codes(
            linear([2.0, 1.0, 1.0]), rows, reference=reference, adverse=adverse, texts=texts,
            groups={"credit": ["x0", "x1"]}, progress=False,
        )  # fmt: skip
        assert found.table()["text"].tolist() == expected
    found = tp.reason_codes(
        linear([-2.0, 1.0, 1.0]), rows, reference=reference, adverse="low", texts=texts,
        groups={"credit": ["x0", "x1"]}, progress=False,
    )  # fmt: skip
    assert found.table()["text"].tolist() == ["Little credit"]
    assert found.table()["value"].tolist() == ["x0 1, x1 0"]


def test_trainings_say_how_often_a_reason_comes():
    from sklearn.ensemble import GradientBoostingRegressor

    X, y = small_task()
    shipped = GradientBoostingRegressor(n_estimators=15, max_depth=2, random_state=0).fit(X, y)
    models = tp.refit(shipped, X, y, n=4, progress=False)
    rows, reference = X[:30], X[100:]
    arguments = {"reference": reference, "top": 2, "progress": False}
    found = tp.reason_codes(shipped, rows, refits=models, **arguments)
    alone = [tp.reason_codes(model, rows, **arguments) for model in models]
    np.testing.assert_allclose(found.training_values, [one.values for one in alone])
    np.testing.assert_allclose(
        found.in_trainings, np.mean([one.ranked.shown for one in alone], axis=0)
    )
    table = found.table()
    assert table["in_trainings"].between(0, 1).all()
    first = alone[0].values[table["row"][0], 0]
    assert np.isfinite(first)
    assert table["training_deviation"].gt(0).any()
    # The trainings of a decomposition are its own, averaged over its cells.
    d = tp.purify(shipped, X, refits=models, progress=False)
    of_d = tp.reason_codes(d, rows, **arguments)
    np.testing.assert_allclose(of_d.values, found.values, atol=1e-10)
    own, exact = of_d.training_values.ravel(), found.training_values.ravel()
    assert np.corrcoef(own, exact)[0, 1] > 0.95
    assert 0.8 < own.std() / exact.std() < 1.1
    assert tp.reason_codes(d, rows, refits=(), **arguments).training_values is None


def test_files_hold_what_the_tables_say(tmp_path):
    X, _ = small_task()
    model = _forest(*small_task())[0]
    found = tp.reason_codes(model, X[:5], reference=X[50:], progress=False)
    found.to_csv(tmp_path / "reasons.csv")
    table = pd.read_csv(tmp_path / "reasons.csv")
    assert table["reason"].tolist() == found.table()["reason"].tolist()
    np.testing.assert_allclose(table["contribution"], found.table()["contribution"])
    text = found.to_json(tmp_path / "reasons.json")
    content = json.loads((tmp_path / "reasons.json").read_text(encoding="utf-8"))
    assert content == json.loads(text)
    assert len(content["rows"]) == 5
    for row in content["rows"]:
        inside = sum(reason["contribution"] for reason in row["reasons"])
        parts = inside + row["other_adverse"] + row["favourable"] + row["remainder"]
        np.testing.assert_allclose(parts, row["difference"], atol=1e-12)
    assert "<table" in found._repr_html_()


def test_rowsof_any_kind(tmp_path):
    pytest.importorskip("pyarrow")
    X, y = small_task()
    model = _forest(X, y)[0]
    X.iloc[:8].to_parquet(tmp_path / "rows.parquet")
    X.iloc[50:].to_parquet(tmp_path / "reference.parquet")
    expected = tp.reason_codes(model, X[:8], reference=X[50:], progress=False)
    found = tp.reason_codes(
        model,
        tmp_path / "rows.parquet",
        reference=tmp_path / "reference.parquet",
        progress=False,
    )
    np.testing.assert_allclose(found.values, expected.values, atol=1e-15)
    one = tp.reason_codes(model, X.iloc[0], reference=X[50:], progress=False)
    np.testing.assert_allclose(one.values, expected.values[:1], atol=1e-15)
    assert one.sums()["row"].tolist() == [0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"adverse": "up"}, 'adverse must be "high" or "low"'),
        ({"top": 0}, "top must be"),
        ({"closeness": 2}, "closeness must be"),
        ({"output": 3}, "no output 3"),
        ({"groups": ["x0"]}, "groups must be a dict"),
        ({"groups": {"g": []}}, "has no features"),
        ({"groups": {"g": ["x0"], "h": ["x0", "x1"]}}, "is in two groups"),
        ({"groups": {"x0": ["x1", "x2"]}}, "has the name of a feature"),
        ({"groups": {"g": ["x0"]}, "texts": {"x0": "text"}}, "neither a group nor a feature"),
        ({"texts": {"x0": 3}}, "must be a string"),
        ({"texts": "x0"}, "texts must be a dict"),
        ({"refits": linear([1, 1, 1])}, "refits must be a list of trained models"),
        ({"refits": [linear([1, 1, 1])]}, "at least two"),
        ({"reference": np.zeros((0, 3))}, "no rows"),
        ({"sample_weight": [1.0]}, "one number per row"),
    ],
)
def test_bad_arguments(arguments, words):
    rows = np.zeros((2, 3))
    with pytest.raises(InvalidInputError, match=words):
        tp.reason_codes(
            linear([1, 1, 1]), rows, **{"reference": rows, "progress": False, **arguments}
        )


def test_unknown_features_and_too_little_memory():
    rows = np.zeros((2, 3))
    with pytest.raises(UnknownComponentError):
        tp.reason_codes(linear([1, 1, 1]), rows, reference=rows, groups={"g": ["x9"]})
    with pytest.raises(MemoryBudgetError, match="the reasons of 2 rows"):
        tp.reason_codes(linear([1, 1, 1]), rows, reference=rows, memory_budget=8)
