"""Labels are refused wherever `predict` returns them, and nowhere else."""

from functools import partial

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.cluster import AffinityPropagation, KMeans
from sklearn.compose import TransformedTargetRegressor
from sklearn.covariance import EllipticEnvelope
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    IsolationForest,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import RFE
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.neighbors import KNeighborsClassifier, LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, OneClassSVM

import treepurify as tp
from treepurify.models.predicted_labels import check_predicts_no_labels

X = np.random.default_rng(0).normal(size=(90, 3))
number = X[:, 0] + 0.1 * X[:, 1]
label = (number > 0).astype(int)
both_labels = np.stack([label, X[:, 2] > 0], axis=1).astype(int)


class OwnDetector:
    """A detector that knows nothing of scikit-learn."""

    def fit_predict(self, X):
        return self.predict(X)

    def predict(self, X):
        return np.where(X[:, 0] > 0, 1, -1)

    def decision_function(self, X):
        return X[:, 0]


class OwnRegressor(RegressorMixin, BaseEstimator):
    """A regressor with an attribute that classifiers have."""

    classes_ = ()

    def predict(self, X):
        return X[:, 0]


class BrokenTags(BaseEstimator):
    """An estimator whose tags raise."""

    def __sklearn_tags__(self):
        raise RuntimeError("no tags")

    def predict(self, X):
        return X[:, 0]


def isolation_forest():
    return IsolationForest(n_estimators=3, random_state=0)


LABELS = {
    "isolation forest": (isolation_forest(), None, "score_samples(X)"),
    "one-class SVM": (OneClassSVM(), None, "score_samples(X)"),
    "local outlier factor": (LocalOutlierFactor(novelty=True), None, "score_samples(X)"),
    "elliptic envelope": (EllipticEnvelope(random_state=0), None, "score_samples(X)"),
    "own detector": (OwnDetector(), None, "decision_function(X)"),
    "pipeline": (make_pipeline(StandardScaler(), isolation_forest()), None, "score_samples(X)"),
    "frozen": (FrozenEstimator(isolation_forest().fit(X)), None, "score_samples(X)"),
    "search": (
        GridSearchCV(isolation_forest(), {"n_estimators": [3]}, scoring=lambda *_: 0, cv=2),
        None,
        "score_samples(X)",
    ),
    "k-means": (KMeans(2, n_init=1, random_state=0), None, "transform(X)[:, 0]"),
    "affinity": (AffinityPropagation(random_state=0), None, "a function of rows"),
    "mixture": (GaussianMixture(2, random_state=0), None, "score_samples(X)"),
    "threshold": (
        TunedThresholdClassifierCV(LogisticRegression(), cv=2),
        label,
        "predict_proba(X)[:, 1]",
    ),
    "one versus rest": (OneVsRestClassifier(SVC()), label, "decision_function(X)"),
    "bagging": (BaggingClassifier(LogisticRegression(), 2), label, "predict_proba(X)[:, 1]"),
    "vote": (VotingClassifier([("a", SVC())]), label, "the model has no predict_proba"),
    "recursive elimination": (RFE(LogisticRegression()), label, "predict_proba(X)[:, 1]"),
    "outputs": (MultiOutputClassifier(SVC()), both_labels, "the model has no predict_proba"),
    "neighbors": (KNeighborsClassifier(), both_labels, "predict_proba(X)[0][:, 1]"),
}
NUMBERS = {
    "linear": LinearRegression(),
    "constant": DummyRegressor(),
    "pipeline": make_pipeline(StandardScaler(), SVR()),
    "search": GridSearchCV(SVR(), {"C": [1.0]}, cv=2),
    "target": TransformedTargetRegressor(SVR()),
    "vote": VotingRegressor([("a", SVR())]),
    "bagging": BaggingRegressor(SVR(), 2),
    "recursive elimination": RFE(LinearRegression()),
    "outputs": MultiOutputRegressor(SVR()),
}


@pytest.mark.parametrize(("model", "target", "advice"), LABELS.values(), ids=LABELS)
def test_labels_are_refused_and_a_method_that_exists_is_advised(model, target, advice):
    fitted = model if isinstance(model, OwnDetector | FrozenEstimator) else model.fit(X, target)
    for asked in (fitted, fitted.predict, partial(fitted.predict)):
        with pytest.raises(tp.errors.InvalidInputError, match="which are not scores") as refused:
            check_predicts_no_labels(asked)
        assert advice in str(refused.value)
    if "lambda" in str(refused.value):
        advised = eval(str(refused.value).split("such as ")[1], {"model": fitted})
        scores = np.asarray(advised(X), dtype=float)
        assert len(scores) == len(X)
        assert len(np.unique(scores)) > 3


@pytest.mark.parametrize("model", NUMBERS.values(), ids=NUMBERS)
def test_numbers_are_taken(model):
    several = isinstance(model, MultiOutputRegressor)
    fitted = model.fit(X, np.stack([number, number], axis=1) if several else number)
    for asked in (fitted, fitted.predict, partial(fitted.predict)):
        check_predicts_no_labels(asked)


@pytest.mark.parametrize("model", [OwnRegressor(), BrokenTags()])
def test_own_classes_without_labels_are_taken(model):
    d = tp.partial_dependence_anova(model, X, progress=False)
    np.testing.assert_allclose(d.predict(X), X[:, 0])


def test_only_classifiers_of_catboost_predict_labels():
    catboost = pytest.importorskip("catboost")
    few = {"iterations": 3, "verbose": 0, "allow_writing_files": False}
    groups = np.repeat(np.arange(9), 10)
    scored = [
        catboost.CatBoostRegressor(**few).fit(X, number),
        catboost.CatBoost({**few, "loss_function": "RMSE"}).fit(X, number),
        catboost.CatBoost({**few, "loss_function": "Logloss"}).fit(X, label),
        catboost.CatBoostRanker(**few).fit(X, label, group_id=groups),
    ]
    scored += [
        make_pipeline(StandardScaler(), catboost.CatBoostRegressor(**few)).fit(X, number),
        GridSearchCV(catboost.CatBoostRegressor(**few), {"depth": [2]}, cv=2).fit(X, number),
        TransformedTargetRegressor(catboost.CatBoostRegressor(**few)).fit(X, number),
    ]
    for model in scored:
        check_predicts_no_labels(model)
        check_predicts_no_labels(model.predict)
        values = tp.interventional_shapley_values(model.predict, X[:2], X[:20], progress=False)
        assert np.isfinite(values.values).all()
    classifier = catboost.CatBoostClassifier(**few).fit(X, label)
    for asked in (classifier, make_pipeline(StandardScaler(), classifier).fit(X, label)):
        with pytest.raises(tp.errors.InvalidInputError, match="predict_proba"):
            check_predicts_no_labels(asked.predict)
    check_predicts_no_labels(partial(classifier.predict, prediction_type="RawFormulaVal"))
    with pytest.raises(tp.errors.InvalidInputError, match="predict_proba"):
        check_predicts_no_labels(partial(classifier.predict, prediction_type="Class"))


def test_labels_of_lightgbm_and_xgboost_are_refused_and_their_scores_taken():
    lightgbm, xgboost = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
    few = {"n_estimators": 3}
    groups = np.repeat(np.arange(9), 10)
    numbers = [
        lightgbm.LGBMRegressor(**few, verbose=-1).fit(X, number),
        lightgbm.LGBMRanker(**few, verbose=-1).fit(X, label, group=[10] * 9),
        xgboost.XGBRegressor(**few).fit(X, number),
        xgboost.XGBRanker(**few).fit(X, label, qid=groups),
    ]
    for model in numbers:
        check_predicts_no_labels(model.predict)
    labels = {
        "raw_score": lightgbm.LGBMClassifier(**few, verbose=-1).fit(X, label),
        "output_margin": xgboost.XGBClassifier(**few).fit(X, label),
    }
    for argument, model in labels.items():
        with pytest.raises(tp.errors.InvalidInputError, match="predict_proba"):
            check_predicts_no_labels(model.predict)
        check_predicts_no_labels(partial(model.predict, **{argument: True}))
