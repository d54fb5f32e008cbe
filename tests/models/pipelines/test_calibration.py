"""Calibrated classifiers against their own probabilities: one curve is a link, several are not."""

import numpy as np
import pytest
import sklearn
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import treepurify as tp
from tests.models.pipelines.cases import (
    catboost_model,
    columns,
    dense_one_hot,
    make_data,
    raw_rows,
)
from treepurify.errors import UnsupportedModelError
from treepurify.links import Link
from treepurify.models.parse import raw_margin
from treepurify.report import write_html

sklearn_version = tuple(map(int, sklearn.__version__.split(".")[:2]))
X, Y = make_data(400)
NUMERIC = X[["age", "income", "rooms"]]
CLASSES = np.digitize(Y + np.random.default_rng(5).normal(size=len(Y)), np.quantile(Y, [0.3, 0.6]))
BINARY = np.where(CLASSES > 0, "yes", "no")


def forest():
    return RandomForestClassifier(4, max_depth=4, random_state=0)


def boosted_by_xgboost():
    import xgboost

    return xgboost.XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1)


def boosted_by_lightgbm():
    import lightgbm

    return lightgbm.LGBMClassifier(n_estimators=8, verbose=-1, n_jobs=1)


def boosted_by_catboost():
    import catboost

    options = catboost_model().get_params()
    return catboost.CatBoostClassifier(**{k: v for k, v in options.items() if k != "loss_function"})


MODELS = {
    "boosting": lambda: GradientBoostingClassifier(n_estimators=8, random_state=0),
    "histogram": lambda: HistGradientBoostingClassifier(max_iter=8),
    "tree": lambda: DecisionTreeClassifier(max_depth=4),
    "forest": forest,
    "xgboost": boosted_by_xgboost,
    "lightgbm": boosted_by_lightgbm,
    "catboost": boosted_by_catboost,
}


def calibrated(model, method, **options):
    return CalibratedClassifierCV(model, method=method, cv=2, **{"ensemble": False} | options)


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("name", MODELS)
def test_one_curve_is_a_link(name, method):
    inside = make_pipeline(columns(StandardScaler(), dense_one_hot()), MODELS[name]())
    target = BINARY if name != "xgboost" else (BINARY == "yes").astype(int)
    model = calibrated(inside, method).fit(X, target)
    ensemble = tp.parse_model(model)
    rows = raw_rows(ensemble, X, 2000, missing=False)
    response = ensemble.link.inverse(ensemble.margin(rows))[:, 0]
    # The probabilities of XGBoost are in single precision, and a curve may be steep.
    tolerance = 1e-4 if name == "xgboost" else 1e-12
    np.testing.assert_allclose(response, model.predict_proba(rows)[:, 1], atol=tolerance)
    np.testing.assert_allclose(raw_margin(model, rows), ensemble.margin(rows), atol=1e-5)
    affine = method == "sigmoid" and hasattr(inside, "decision_function")
    assert ensemble.link.name == ("logit" if affine else method)
    assert ensemble.output_names == (str(model.classes_[1]),)


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("name", ["forest", "catboost"])
def test_calibrated_effects_are_kept(name, method, tmp_path):
    model = calibrated(MODELS[name](), method).fit(NUMERIC, BINARY)
    d = tp.purify(model, NUMERIC, weights="empirical")
    d.save(tmp_path / "d.tpz")
    again = tp.load(tmp_path / "d.tpz")
    assert again.link == d.link
    own = model.predict_proba(NUMERIC)[:, 1]
    np.testing.assert_allclose(again.predict(NUMERIC, scale="response"), own, atol=1e-9)
    assert d.verify(model, NUMERIC).relative_difference < 1e-9
    write_html(d, tmp_path / "report.html")
    words = "log-odds before calibration" if name == "catboost" else "score before calibration"
    assert words in (tmp_path / "report.html").read_text("utf-8")


def test_a_model_that_was_fitted_before():
    model = CalibratedClassifierCV(FrozenEstimator(forest().fit(NUMERIC, BINARY)), ensemble=False)
    ensemble = tp.parse_model(model.fit(NUMERIC, BINARY))
    response = ensemble.link.inverse(ensemble.margin(NUMERIC))[:, 0]
    np.testing.assert_allclose(response, model.predict_proba(NUMERIC)[:, 1], atol=1e-12)


def test_a_curve_of_one_level_is_constant():
    alike = np.tile(["no", "yes"], len(X) // 2)
    tree = DecisionTreeClassifier(max_depth=1, min_samples_leaf=len(X))
    model = calibrated(tree, "isotonic").fit(NUMERIC, alike)
    link = tp.parse_model(model).link
    np.testing.assert_allclose(link.inverse(np.array([0.0, 1.0])), [0.5, 0.5])
    assert link == Link("isotonic", knots=link.knots, values=link.values)


@pytest.mark.parametrize(
    ("model", "target", "reason"),
    [
        (calibrated(forest(), "sigmoid", ensemble=True), BINARY, "averages .* of 2 models"),
        (calibrated(forest(), "isotonic"), CLASSES, "each of 3 classes"),
        pytest.param(
            calibrated(forest(), "temperature"),
            BINARY,
            "method 'temperature'",
            marks=pytest.mark.skipif(
                sklearn_version < (1, 8), reason="scikit-learn does not know it yet"
            ),
        ),
    ],
    ids=["folds", "classes", "temperature"],
)
def test_what_is_refused_with_what_works_instead(model, target, reason):
    model.fit(NUMERIC, target)
    with pytest.raises(UnsupportedModelError, match=f"{reason}.*ensemble=False.*hooker_anova"):
        tp.parse_model(model)
