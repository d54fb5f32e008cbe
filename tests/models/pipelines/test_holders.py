"""Objects of other libraries that hold a model: read as the model inside, or it is said where."""

import numpy as np
import pytest
from lightgbm import LGBMRegressor
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    StackingRegressor,
    VotingClassifier,
)
from sklearn.model_selection import GridSearchCV
from xgboost import XGBRegressor

import treepurify as tp
from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.models.parse import raw_margin


def class_of(module, name, *bases, **methods):
    """Return a class that is called as one of another library."""
    return type(name, bases or (object,), {"__module__": module, **methods})


@pytest.fixture(scope="module")
def rows():
    X = np.random.default_rng(0).normal(size=(300, 3))
    X[:20, 1] = np.nan
    return X


@pytest.fixture(scope="module")
def target(rows):
    return np.nan_to_num(rows[:, 0] * rows[:, 1]) + rows[:, 2]


@pytest.fixture(scope="module")
def boosted(rows, target):
    return XGBRegressor(n_estimators=20, max_depth=4, missing=0.5).fit(rows, target)


def of_mlflow(model):
    made = class_of("mlflow.pyfunc", "PyFuncModel", get_raw_model=lambda self: self._inside)()
    made._inside = model
    return made


def of_spark(model):
    core = class_of("xgboost.spark.core", "_SparkXGBModel")
    made = class_of("xgboost.spark.estimator", "SparkXGBRegressorModel", core)()
    made._xgb_sklearn_model, made.missing = model, object()
    return made


def of_skops(model):
    made = class_of("skops.card._model_card", "Card", get_model=lambda self: self._inside)()
    made._inside = model
    return made


def of_mapie(model):
    made = class_of("mapie.regression.regression", "SplitConformalRegressor")()
    made._mapie_regressor = class_of("mapie.regression.regression", "_MapieRegressor")()
    made._mapie_regressor.estimator = model
    return made


@pytest.mark.parametrize("hold", [of_mlflow, of_spark, of_skops, of_mapie])
def test_a_holder_is_read_as_the_model_inside(hold, boosted, rows):
    on_missing = np.where(np.isnan(rows), 0.5, rows)
    for X in (rows, on_missing):
        own = tp.parse_model(hold(boosted)).margin(X)
        np.testing.assert_array_equal(own[:, 0], boosted.predict(X, output_margin=True))
        np.testing.assert_array_equal(raw_margin(hold(boosted), X), own)


def test_holders_inside_each_other_are_read(boosted, rows, target):
    search = GridSearchCV(LGBMRegressor(n_estimators=5, verbose=-1), {"max_depth": [2]}, cv=2)
    search.fit(rows, target)
    own = tp.parse_model(of_mlflow(search)).margin(rows)[:, 0]
    np.testing.assert_array_equal(own, search.predict(rows))


def test_a_holder_without_a_model_says_what_to_do(rows):
    custom = class_of("mlflow.pyfunc", "PyFuncModel", get_raw_model=_raise_not_implemented)()
    with pytest.raises(UnsupportedModelError, match="unwrap_python_model"):
        tp.purify(custom, rows)
    with pytest.raises(UnsupportedModelError, match=r"call fit\(\)"):
        tp.purify(class_of("mapie.classification", "SplitConformalClassifier")(), rows)


def _raise_not_implemented(self):
    raise NotImplementedError


@pytest.mark.parametrize(
    ("module", "name", "line"),
    [
        ("flaml.automl.automl", "AutoML", "model.model.estimator, model.model.preprocess("),
        ("autogluon.tabular.predictor.predictor", "TabularPredictor", "_trainer.load_model("),
        ("pycaret.internal.pipeline", "Pipeline", "model.steps[-1][1], model[:-1].transform(X)"),
        (
            "synapse.ml.lightgbm.LightGBMRegressionModel",
            "LightGBMRegressionModel",
            "lightgbm.Booster(model_str=model.getNativeModel())",
        ),
    ],
)
def test_what_makes_other_columns_first_is_refused_with_a_line_to_copy(module, name, line, rows):
    holder = class_of(module, name, predict=lambda self, X: X[:, 0])()
    with pytest.raises(UnsupportedModelError) as caught:
        tp.purify(holder, rows)
    assert line in str(caught.value)
    assert "tp.hooker_anova(model.predict, X)" in str(caught.value)
    # The line works: predictions are asked, whatever is inside.
    assert tp.hooker_anova(holder.predict, rows[20:], order=1, progress=False).n_outputs == 1


class Own(BaseEstimator, RegressorMixin):
    """A class of the user's with a model somewhere inside."""

    def fit(self, X, y):
        self.parts_ = {"low": [GradientBoostingRegressor(n_estimators=5).fit(X[20:], y[20:])]}
        return self

    def predict(self, X):
        return self.parts_["low"][0].predict(X) ** 2


def test_a_class_of_the_user_is_refused_with_the_path_to_its_model(rows, target):
    model = Own().fit(rows, target)
    path = "model.parts_['low'][0]"
    with pytest.raises(UnsupportedModelError) as caught:
        tp.purify(model, rows)
    assert f"tp.purify({path}, X)" in str(caught.value)
    inside = eval(path, {"model": model})
    assert tp.parse_model(inside).n_trees == 5


def test_no_path_is_named_where_nothing_is_read(rows):
    holder = class_of("sktime.forecasting.naive", "NaiveForecaster")()
    holder.itself = holder
    holder.untrained = GradientBoostingRegressor()
    with pytest.raises(UnsupportedModelError) as caught:
        tp.purify(holder, rows)
    assert "It contains" not in str(caught.value)


def test_what_is_no_sum_is_refused_with_a_line_that_runs():
    X = np.random.default_rng(1).normal(size=(1500, 3))
    y = X[:, 0] * X[:, 1] + X[:, 2]
    member = GradientBoostingClassifier(n_estimators=5)
    stack = StackingRegressor([("a", GradientBoostingRegressor(n_estimators=5))], cv=2)
    votes = [
        VotingClassifier([("a", member)], voting=voting).fit(X, y > 0)
        for voting in ("soft", "hard")
    ]
    for model in (stack.fit(X, y), *votes):
        with pytest.raises(UnsupportedModelError) as caught:
            tp.purify(model, X)
        line = str(caught.value)[str(caught.value).index("tp.hooker_anova(") :]
        fitted = eval(line, {"tp": tp, "model": model, "X": X})
        assert fitted.certificate.fitted_share[0] > 0.2


def test_folders_of_mlflow_and_files_of_skops_say_how_to_load_them(tmp_path):
    (tmp_path / "MLmodel").write_text("flavors:")
    with pytest.raises(InvalidInputError, match=r"mlflow\.pyfunc\.load_model"):
        tp.parse_model(tmp_path)
    file = tmp_path / "model.skops"
    file.write_bytes(b"PK\x03\x04")
    with pytest.raises(UnsupportedModelError, match=r"skops\.io\.load"):
        tp.parse_model(file)


def test_models_of_mapie_are_read_as_they_predict(rows, target):
    regression = pytest.importorskip("mapie.regression")
    model = regression.SplitConformalRegressor(
        LGBMRegressor(n_estimators=5, verbose=-1), prefit=False
    )
    model.fit(rows, target)
    inside = tp.parse_model(model)
    model.conformalize(rows, target)
    np.testing.assert_array_equal(tp.parse_model(model).margin(rows), inside.margin(rows))
    np.testing.assert_array_equal(inside.margin(rows)[:, 0], model.predict(rows))


def test_models_that_mlflow_loads_are_read(rows, target, tmp_path):
    mlflow = pytest.importorskip("mlflow")
    model = LGBMRegressor(n_estimators=5, verbose=-1).fit(rows, target)
    mlflow.lightgbm.save_model(model, tmp_path / "saved", pip_requirements=[])
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    own = tp.parse_model(loaded).margin(rows)[:, 0]
    np.testing.assert_array_equal(own, loaded.predict(rows))
