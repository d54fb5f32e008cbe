"""Training again: what each training sees, and what it may not be asked for."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import treepurify as tp
from treepurify.errors import InvalidInputError


class Recorder(RegressorMixin, BaseEstimator):
    """Keeps what it was trained on."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None):
        self.seen_ = (X, y, sample_weight)
        return self


class Classes(ClassifierMixin, Recorder):
    pass


def refit(*arguments, **options):
    return tp.refit(*arguments, progress=False, **options)


X = np.arange(40.0).reshape(20, 2)
Y = X[:, 0]


def test_bootstrap_draws_rows_with_their_targets_and_weights():
    weights = np.arange(1.0, 21.0)
    models = refit(Recorder(), X, Y, n=30, sample_weight=weights)
    drawn = []
    for model in models:
        seen, targets, held = model.seen_
        np.testing.assert_array_equal(seen[:, 0], targets)
        np.testing.assert_array_equal(held, targets / 2 + 1)
        assert len(seen) == 20
        drawn.append(len(set(targets)) / 20)
    # 63% of the rows are drawn, and no two draws are the same.
    assert 0.55 < np.mean(drawn) < 0.72
    assert len({model.seen_[1].tobytes() for model in models}) == 30
    assert len({model.random_state for model in models}) == 30


def test_the_same_seed_gives_the_same_models():
    one, other, third = (refit(Recorder(), X, Y, n=3, seed=seed) for seed in (5, 5, 6))
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a.seen_[0], b.seen_[0])
        assert a.random_state == b.random_state
    assert not np.array_equal(one[0].seen_[0], third[0].seen_[0])


def test_folds_leave_out_each_row_once():
    models = refit(Recorder(), X, Y, n=6, how="folds")
    left_out = [set(Y) - set(model.seen_[1]) for model in models]
    assert sorted(y for part in left_out for y in part) == sorted(Y)
    assert {len(part) for part in left_out} == {3, 4}


def test_folds_share_out_the_classes():
    labels = np.repeat([0, 1], [10, 10])[np.random.default_rng(0).permutation(20)]
    for model in refit(Classes(), X, labels, n=5, how="folds"):
        assert np.bincount(model.seen_[1]).tolist() == [8, 8]


def test_seeds_change_nothing_else():
    estimator = Recorder(random_state=3)
    models = refit(estimator, X, Y, n=3, how="seeds")
    for model in models:
        np.testing.assert_array_equal(model.seen_[0], X)
    assert len({model.random_state for model in models}) == 3
    assert estimator.random_state == 3
    assert not hasattr(estimator, "seen_")


def test_every_class_is_in_every_training():
    labels = np.repeat([0, 1], [18, 2])
    for model in refit(Classes(), X, labels, n=20):
        assert set(model.seen_[1]) == {0, 1}
    with pytest.raises(InvalidInputError, match="so rare"):
        refit(Classes(), X, np.repeat([0, 1], [19, 1]), n=20, how="folds")


def test_frames_stay_frames_and_pipelines_are_trained_whole():
    frame = pd.DataFrame(X, columns=["a", "b"])
    for model in refit(Recorder(), frame, pd.Series(Y), n=2):
        assert list(model.seen_[0].columns) == ["a", "b"]
        np.testing.assert_array_equal(model.seen_[0]["a"], model.seen_[1])
    pipeline = make_pipeline(StandardScaler(), DecisionTreeRegressor(max_depth=2))
    models = refit(pipeline, frame, Y, n=3)
    d = tp.purify(models, frame, weights="empirical", progress=False)
    expected = np.mean([model.predict(frame) for model in models], axis=0)
    np.testing.assert_allclose(d.predict(frame), expected, atol=1e-10)
    assert d.spread.how == "bootstrap"


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "catboost"])
def test_each_library_is_trained_again(library):
    module = pytest.importorskip(library, reason=f"trains {library} models")
    rng = np.random.default_rng(0)
    table = rng.normal(size=(300, 3))
    y = table[:, 0] * table[:, 1] + table[:, 2]
    estimator = {
        "xgboost": lambda: module.XGBRegressor(n_estimators=5, max_depth=2),
        "lightgbm": lambda: module.LGBMRegressor(n_estimators=5, max_depth=2, verbose=-1),
        "catboost": lambda: module.CatBoostRegressor(
            n_estimators=5, max_depth=2, verbose=0, allow_writing_files=False
        ),
    }[library]()
    models = refit(estimator, table, y, n=3)
    d = tp.purify(models, table, weights="empirical", progress=False)
    expected = np.mean([model.predict(table) for model in models], axis=0)
    np.testing.assert_allclose(d.predict(table), expected, atol=2e-6)
    assert np.any(d.spread.standard_deviation(2) > 0)


def test_a_forest_of_classes():
    labels = np.tile([0, 1, 2, 3], 5)
    models = refit(RandomForestClassifier(n_estimators=3, max_depth=2), X, labels, n=3)
    d = tp.purify(models, X, weights="empirical", progress=False)
    expected = np.mean([model.predict_proba(X) for model in models], axis=0)
    np.testing.assert_allclose(d.predict(X), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("estimator", "options", "words"),
    [
        (LinearRegression, {}, "needs an estimator with fit"),
        ("model", {}, "needs an estimator with fit"),
        (LinearRegression(), {"how": "seeds"}, "takes no random_state"),
        (HistGradientBoostingRegressor(), {"n": 1}, "n must be a whole number of at least 2"),
        (HistGradientBoostingRegressor(), {"how": "jackknife"}, "how must be"),
        (HistGradientBoostingRegressor(), {"n": 21, "how": "folds"}, "n=21 folds"),
        (HistGradientBoostingRegressor(loss="none"), {}, "could not be trained again"),
        (make_pipeline(StandardScaler()), {"sample_weight": Y}, "takes no sample_weight"),
    ],
)
def test_what_cannot_be_asked_for(estimator, options, words):
    with pytest.raises(InvalidInputError, match=words):
        refit(estimator, X, Y, **options)


def test_targets_that_do_not_fit():
    with pytest.raises(InvalidInputError, match="one target for each"):
        refit(Recorder(), X, Y[:-1])
