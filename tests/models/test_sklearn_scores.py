"""Isolation forests and AdaBoost: scores that are sums of leaf values, on a link."""

import numpy as np
import pytest
from sklearn.ensemble import AdaBoostClassifier, IsolationForest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import treepurify as tp
from treepurify.errors import UnsupportedModelError

rng = np.random.default_rng(0)
X = rng.normal(size=(2000, 4))
X[:20] *= 5.0


@pytest.mark.parametrize("max_features", [1.0, 0.5])
@pytest.mark.parametrize("max_samples", [2, 3, 100])
def test_path_lengths_of_isolation_forests(max_features, max_samples):
    model = IsolationForest(
        n_estimators=20, max_features=max_features, max_samples=max_samples, random_state=0
    ).fit(X)
    parsed = tp.parse_model(model)
    new = np.concatenate([X, rng.normal(scale=9.0, size=(100_000, 4))])
    score = model.score_samples(new)
    np.testing.assert_allclose(parsed.link.inverse(parsed.margin(new))[:, 0], score, rtol=1e-12)
    np.testing.assert_allclose(parsed.margin(new)[:, 0], -np.log2(-score), atol=1e-12)


def test_missing_values_in_isolation_forests():
    with_holes = X.copy()
    with_holes[::7, 1] = np.nan
    model = IsolationForest(n_estimators=20, random_state=0)
    try:
        model.fit(with_holes)
    except ValueError:
        pytest.skip("this scikit-learn takes no missing values here")
    d = tp.purify(model, with_holes, progress=False)
    assert d.verify(model, with_holes).relative_difference < 1e-12


def test_effects_of_an_isolation_forest_add_up_to_its_score():
    model = IsolationForest(n_estimators=20, max_samples=16, random_state=0).fit(X)
    d = tp.purify(model, X, order=None, weights="empirical", progress=False)
    np.testing.assert_allclose(
        np.ravel(d.predict(X, scale="response")), model.score_samples(X), rtol=1e-9
    )
    assert d.output_names == ("path length",)


def test_a_forest_whose_trees_saw_one_row_each():
    model = IsolationForest(n_estimators=5, max_samples=1, random_state=0).fit(X)
    with pytest.raises(UnsupportedModelError, match="saw one row"):
        tp.parse_model(model)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("depth", [1, 3])
def test_votes_of_boosted_classifiers(n_classes, depth):
    score = X[:, 0] * X[:, 1] + X[:, 2]
    y = np.array(["d", "c", "b", "a"])[
        np.digitize(score, np.quantile(score, np.linspace(0, 1, n_classes + 1)[1:-1]))
    ]
    tree = DecisionTreeClassifier(max_depth=depth, random_state=0)
    model = AdaBoostClassifier(tree, n_estimators=20, random_state=0).fit(X, y)
    d = tp.purify(model, X, order=None, weights="empirical", progress=False)
    decision = model.decision_function(X).reshape(len(X), -1)
    np.testing.assert_allclose(d.predict(X).reshape(len(X), -1), decision, atol=1e-12)
    response = np.asarray(d.predict(X, scale="response")).reshape(len(X), -1)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(response, proba[:, 1:] if n_classes == 2 else proba, atol=1e-12)
    assert tp.parse_model(model).output_names[-1] == model.classes_[-1]


def test_boosting_of_other_models_than_trees():
    model = AdaBoostClassifier(LogisticRegression(), n_estimators=3).fit(X, X[:, 0] > 0)
    with pytest.raises(UnsupportedModelError, match="boosts LogisticRegression"):
        tp.parse_model(model)


def test_undersampled_boosting():
    imblearn = pytest.importorskip("imblearn.ensemble")
    labels = X[:, 0] + X[:, 1] > 1
    model = imblearn.RUSBoostClassifier(n_estimators=5, random_state=0).fit(X, labels)
    np.testing.assert_allclose(
        np.ravel(tp.parse_model(model).margin(X)), model.decision_function(X), atol=1e-12
    )
