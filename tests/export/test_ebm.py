"""An exported EBM predicts, explains and is saved as one that interpret trained."""

import io
import json
import warnings
from functools import partial

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import treepurify as tp
from tests.cases import needs_stored_labels
from treepurify.export import to_ebm

glassbox = pytest.importorskip("interpret.glassbox")


@pytest.fixture(autouse=True)
def _quiet_interpret():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="interpret")
        warnings.filterwarnings("ignore", message=r"\s*The append_trace method is deprecated")
        warnings.filterwarnings("ignore", message=".*multinomial interactions.*")
        warnings.filterwarnings("ignore", message=".*missing values.*", category=UserWarning)
        warnings.filterwarnings("ignore", message=".*training samples.*", category=UserWarning)
        yield


def rows(n_rows=400, missing=True):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "real": rng.normal(size=n_rows),
            "kind": pd.Categorical(rng.choice(list("xyz"), n_rows)),
            "count": rng.integers(0, 5, n_rows).astype(float),
        }
    )
    if missing:
        X.loc[::7, "real"] = np.nan
        X.loc[::11, "kind"] = np.nan
    y = np.nan_to_num(X["real"]) * (X["kind"] == "x") + 0.3 * X["count"]
    return X, (y + 0.1 * rng.normal(size=n_rows)).to_numpy()


def regressor(X, y):
    kind = xgboost.XGBRegressor(n_estimators=25, max_depth=2, enable_categorical=True, n_jobs=1)
    return kind.fit(X, y)


def classifier(X, y):
    kind = xgboost.XGBClassifier(n_estimators=25, max_depth=2, enable_categorical=True, n_jobs=1)
    return kind.fit(X, y > 0.5)


def several_classes(X, y):
    kind = xgboost.XGBClassifier(n_estimators=8, max_depth=2, enable_categorical=True, n_jobs=1)
    return kind.fit(X, np.digitize(y, [0.3, 0.9]))


def counts(X, y):
    kind = xgboost.XGBRegressor(
        n_estimators=25, max_depth=2, objective="count:poisson", enable_categorical=True, n_jobs=1
    )
    return kind.fit(X, np.exp(y))


def lightgbm_classifier(X, y):
    model = lightgbm.LGBMClassifier(n_estimators=20, num_leaves=3, verbose=-1, n_jobs=1)
    return model.fit(X, y > 0.5)


def ebm_classifier(X, y):
    model = glassbox.ExplainableBoostingClassifier(
        max_rounds=40, outer_bags=2, n_jobs=1, random_state=0
    )
    return model.fit(X, y > 0.5)


def ebm_regressor(X, y):
    model = glassbox.ExplainableBoostingRegressor(
        max_rounds=40, outer_bags=2, n_jobs=1, random_state=0, max_interaction_bins=5
    )
    return model.fit(X, y)


MODELS = [
    regressor,
    classifier,
    several_classes,
    counts,
    lightgbm_classifier,
    ebm_classifier,
    ebm_regressor,
]


def decomposed(train):
    X, y = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = train(X, y)
    needs_stored_labels(model)
    return model, X, tp.purify(model, X, weights="empirical", progress=False)


@pytest.fixture(scope="module", params=MODELS, ids=lambda make: make.__name__)
def exported(request):
    model, X, d = decomposed(request.param)
    return model, X, d, to_ebm(d)


def test_it_predicts_what_the_model_predicts(exported):
    model, X, _, ebm = exported
    if hasattr(ebm, "classes_"):
        np.testing.assert_allclose(ebm.predict_proba(X), model.predict_proba(X), atol=1e-6)
        np.testing.assert_array_equal(ebm.predict(X), model.predict(X))
    else:
        np.testing.assert_allclose(ebm.predict(X), model.predict(X), rtol=1e-5, atol=1e-6)


def test_its_terms_are_the_components(exported):
    _, X, d, ebm = exported
    scores = ebm.eval_terms(X)
    expected = d.contributions(X).to_numpy()
    if d.n_outputs == 1:
        np.testing.assert_allclose(scores, expected[:, 1:], atol=1e-12)
    else:
        by_output = expected.reshape(len(X), d.n_outputs, -1)[:, :, 1:]
        np.testing.assert_allclose(scores, by_output.transpose(0, 2, 1), atol=1e-12)
    assert ebm.term_names_ == [d.term_name(subset) for subset in d]


def test_it_explains_itself(exported):
    _, X, d, ebm = exported
    overall = ebm.explain_global()
    if d.n_outputs == 1:
        names = list(overall.data()["names"])
        assert names == list(ebm.term_names_)
        # Interpret weighs the absolute scores by the rows of each bin, as the measure does.
        expected = [float(c.mean_absolute[0]) for c in d.components.values()]
        np.testing.assert_allclose(overall.data()["scores"], expected, atol=1e-12)
        for position, subset in enumerate(d):
            own = overall.data(position)
            assert own["type"] == ("univariate" if len(subset) == 1 else "interaction")
            overall.visualize(position)
    local = ebm.explain_local(X.iloc[:4])
    contributions = d.contributions(X.iloc[:4]).to_numpy()
    if d.n_outputs == 1:
        for row in range(4):
            shown = local.data(row)
            np.testing.assert_allclose(shown["scores"], contributions[row, 1:], atol=1e-12)
            assert shown["extra"]["scores"][0] == pytest.approx(d.intercept[0])
        local.visualize(0)


def test_the_way_back_gives_the_same_decomposition(exported):
    _, X, d, ebm = exported
    again = tp.purify(ebm, X, weights="empirical", progress=False)
    assert list(again) == list(d)
    np.testing.assert_allclose(again.intercept, d.intercept, atol=1e-12)
    np.testing.assert_allclose(again.on_rows(X), d.on_rows(X), atol=1e-12)
    for subset, component in d.components.items():
        np.testing.assert_allclose(
            again[subset].on_rows(X), component.on_rows(X), rtol=0, atol=1e-11
        )


def test_its_json_is_read_back(exported, tmp_path):
    _, X, d, ebm = exported
    text = io.StringIO()
    ebm.to_json(text)
    json.loads(text.getvalue())
    path = tmp_path / "ebm.json"
    ebm.to_json(str(path))
    parsed = tp.parse_model(path)
    np.testing.assert_allclose(parsed.margin(X), d.on_rows(X), atol=1e-12)


def test_it_can_be_copied_and_pickled(exported):
    import pickle

    _, X, _, ebm = exported
    again = pickle.loads(pickle.dumps(ebm))
    np.testing.assert_array_equal(again.predict(X), ebm.predict(X))
    np.testing.assert_array_equal(ebm.copy().predict(X), ebm.predict(X))


def test_arrays_without_names():
    X, y = rows(missing=False)
    values = X[["real", "count"]].to_numpy()
    model = GradientBoostingRegressor(n_estimators=20, max_depth=2, random_state=0).fit(values, y)
    d = tp.purify(model, values, weights="empirical")
    ebm = to_ebm(d)
    np.testing.assert_allclose(ebm.predict(values), model.predict(values), atol=1e-10)
    assert tp.purify(ebm, values, weights="empirical").feature_names == d.feature_names


def test_cells_of_each_term():
    """Mains and pairs with bins of their own stay that way."""
    X, y = rows(missing=False)
    model = ebm_regressor(X, y)
    d = tp.purify(model, X, weights="empirical", resolution="term", progress=False)
    ebm = to_ebm(d)
    assert {len(levels) for levels in ebm.bins_} == {1, 2}
    np.testing.assert_allclose(ebm.predict(X), model.predict(X), atol=1e-10)


def test_what_differs_from_xgboost_is_its_single_precision():
    X, y = rows(missing=False)
    values = X[["real", "count"]].to_numpy()
    model = xgboost.XGBRegressor(n_estimators=400, max_depth=2, n_jobs=1)
    model.fit(values, 100 * values[:, 0] * values[:, 1] + y)
    d = tp.purify(model, values, weights="empirical", progress=False)
    ebm = to_ebm(d)
    np.testing.assert_allclose(ebm.predict(values), d.predict(values), rtol=0, atol=1e-12)
    booster = model.get_booster()
    trees = booster.trees_to_dataframe()
    trees = trees[trees["Feature"] == "Leaf"].set_index(["Tree", "Node"])["Gain"]
    leaves = booster.predict(xgboost.DMatrix(values), pred_leaf=True).astype(int)
    numbers = range(leaves.shape[1])
    exact = np.array([trees.loc[list(zip(numbers, row, strict=True))].sum() for row in leaves[:50]])
    # What is left is the base score, the same for every row.
    of_ebm, of_library = ebm.predict(values)[:50] - exact, model.predict(values)[:50] - exact
    assert np.ptp(of_ebm) < 1e-5
    assert np.ptp(of_ebm) < 0.1 * np.ptp(of_library)


def test_missing_values_to_come_need_their_cells():
    X, y = rows(missing=False)
    model = regressor(X, y)
    needs_stored_labels(model)
    later, _ = rows()
    ebm = to_ebm(tp.purify(model, X, weights="empirical", missing_cells="always", progress=False))
    np.testing.assert_allclose(ebm.predict(later), model.predict(later), atol=1e-6)


def test_class_labels():
    X, y = rows()
    d = tp.purify(classifier(X, y), X, weights="empirical", progress=False)
    ebm = to_ebm(d, classes=["no", "yes"])
    assert set(ebm.predict(X)) == {"no", "yes"}
    with pytest.raises(tp.errors.InvalidInputError, match="classes must be 2 class labels"):
        to_ebm(d, classes=["no"])


def labelled_models():
    """Classifiers of labels of every kind that libraries accept, and of pipelines."""
    texts, several = ("Nein", "Ja \u2713"), ("\u00e4", "\u00df", "\u03a9")
    ebm = {"max_rounds": 20, "outer_bags": 1, "n_jobs": 1, "interactions": 1}
    lgb = {"n_estimators": 10, "num_leaves": 3, "verbose": -1, "n_jobs": 1}
    cat = {"iterations": 10, "depth": 2, "verbose": 0, "thread_count": 1}
    hist = {"max_iter": 10, "max_depth": 2}
    boosting = {"n_estimators": 10, "max_depth": 2}
    kinds = {
        "EBM": partial(glassbox.ExplainableBoostingClassifier, **ebm),
        "LightGBM": partial(lightgbm.LGBMClassifier, **lgb),
        "CatBoost": partial(catboost.CatBoostClassifier, **cat),
        "histogram": partial(HistGradientBoostingClassifier, **hist),
        "boosting": partial(GradientBoostingClassifier, **boosting),
        "pipeline": lambda: make_pipeline(StandardScaler(), GradientBoostingClassifier(**boosting)),
        "search": lambda: GridSearchCV(
            HistGradientBoostingClassifier(**hist), {"learning_rate": [0.1]}, cv=2
        ),
    }
    for name, kind in kinds.items():
        for labels in (texts, (-1, 1), (False, True), several, (3, 5, 9)):
            yield pytest.param(kind, labels, id=f"{name}-{labels}")
    yield pytest.param(partial(xgboost.XGBClassifier, **boosting), (0, 1), id="XGBoost")
    yield pytest.param(partial(xgboost.XGBClassifier, **boosting), (0, 1, 2), id="XGBoost-several")


@pytest.mark.parametrize(("kind", "labels"), [*labelled_models()])
def test_it_predicts_the_labels_of_the_model(kind, labels, tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"])
    y = np.array(labels)[np.digitize(X["a"] + 0.3 * X["b"], [-0.5, 0.5][: len(labels) - 1])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kind().fit(X, y)
    d = tp.purify(model, X, weights="empirical", progress=False)
    assert set(d.origin.model.class_labels) == set(labels)
    d.save(tmp_path / "d.tpz")
    for decomposition in (d, tp.load(tmp_path / "d.tpz"), d.without("b")):
        back = to_ebm(decomposition)
        assert back.classes_.tolist() == sorted(labels)
        assert {type(label) for label in back.classes_.tolist()} == {type(labels[0])}
    back = to_ebm(tp.load(tmp_path / "d.tpz"))
    predicted = np.asarray(model.predict(X)).ravel()
    # CatBoost predicts the texts of booleans.
    same = predicted.astype(str) == back.predict(X).astype(str)
    assert same.all()
    assert predicted.dtype.kind in "OU" or (predicted == back.predict(X)).all()
    assert np.mean(back.predict(X) == y) > 0.6
    again = tp.purify(back, X, weights="empirical", progress=False)
    assert again.origin.model.class_labels == d.origin.model.class_labels


@pytest.mark.parametrize("several", [False, True])
def test_labels_that_are_not_known_are_said(several, tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"])
    y = np.array(["low", "middle", "top"])[np.digitize(X["a"], [-0.5, 0.5][: 1 + several])]
    model = lightgbm.LGBMClassifier(n_estimators=5, num_leaves=3, verbose=-1, n_jobs=1).fit(X, y)
    model.booster_.save_model(tmp_path / "model.txt")
    d = tp.purify(tmp_path / "model.txt", X, weights="empirical", progress=False)
    with pytest.warns(UserWarning, match="class labels of the model are not known"):
        ebm = to_ebm(d)
    assert ebm.classes_.tolist() == list(range(2 + several))
    labels = model.classes_.tolist()
    assert (to_ebm(d, classes=labels).predict(X) == model.predict(X)).all()


def test_trainings_of_one_model_keep_the_labels_that_they_share():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 2)), columns=["a", "b"])
    y = np.where(X["a"] > 0, "yes", "no")
    models = [
        HistGradientBoostingClassifier(max_iter=5, max_depth=2, random_state=seed).fit(X, y)
        for seed in range(2)
    ]
    d = tp.purify(models, X, weights="empirical", progress=False)
    assert set(to_ebm(d).predict(X)) == {"no", "yes"}


def test_what_an_ebm_cannot_hold():
    X, y = rows(missing=False)
    values = X[["real", "count"]].to_numpy()
    values = np.column_stack([values, values[:, 0] + 1])
    deep = GradientBoostingRegressor(n_estimators=5, max_depth=3, random_state=0)
    deep.fit(values, values[:, 0] * values[:, 1] * values[:, 2] + y)
    whole = tp.purify(deep, values, weights="empirical", order=None, progress=False)
    np.testing.assert_allclose(to_ebm(whole).predict(values), deep.predict(values), atol=1e-12)
    with pytest.raises(tp.errors.UnsupportedModelError, match="cannot contain the remainder"):
        to_ebm(tp.purify(deep, values, weights="empirical", order=1))
    forest = RandomForestClassifier(n_estimators=3, max_depth=2, random_state=0)
    with pytest.raises(tp.errors.UnsupportedModelError, match="cannot represent 3 outputs"):
        to_ebm(
            tp.purify(forest.fit(values, np.digitize(y, [0.3, 0.9])), values, weights="empirical")
        )
    zeros = lightgbm.LGBMRegressor(
        n_estimators=3, num_leaves=3, zero_as_missing=True, verbose=-1, n_jobs=1
    ).fit(values, y)
    with pytest.raises(tp.errors.UnsupportedModelError, match="numbers that stand for missing"):
        to_ebm(tp.purify(zeros, values, weights="empirical"))
