"""The engine that docs/extending.md prints: what ends with `finish` works everywhere."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier

import treepurify as tp

PAGE = Path(__file__).resolve().parents[2] / "docs" / "extending.md"


@pytest.fixture(scope="module")
def profile_anova():
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    printed: dict = {"__name__": "page"}
    exec(compile("\n".join(blocks), "docs/extending.md", "exec"), printed)
    return printed["profile_anova"]


def scene():
    """Two independent features: each of their combinations in 50 rows."""
    return np.repeat(np.indices((3, 4)).reshape(2, -1).T.astype(float), 50, axis=0)


def f(X):
    return X[:, 0] * X[:, 1]


def test_effects_of_independent_features_are_those_of_the_anova(profile_anova):
    X = scene()
    d = profile_anova(f, X, progress=False)
    fitted = tp.hooker_anova(f, X, order=1, progress=False)
    np.testing.assert_allclose(d.intercept, fitted.intercept)
    for name in ("x0", "x1"):
        np.testing.assert_allclose(d[name].on_rows(X), fitted[name].on_rows(X), atol=1e-10)
    np.testing.assert_allclose(d.predict(X), f(X), atol=1e-12)
    np.testing.assert_allclose(d.remainder.variance, fitted.remainder.variance)
    assert d.certificate.is_accurate
    assert not d.certificate.is_exact
    np.testing.assert_allclose(d.certificate.fitted_share, fitted.certificate.fitted_share)
    np.testing.assert_allclose(d.importance()["share"].sum(), 1.0)


def test_what_reads_decompositions_reads_it(profile_anova, tmp_path):
    X = scene()
    d = profile_anova(f, X, progress=False)
    values = d.shapley_values(X)
    np.testing.assert_allclose(values.to_frame().sum(axis=1), f(X), atol=1e-12)
    assert tp.compare(d, tp.hooker_anova(f, X, order=1, progress=False), X).terms is not None
    d.save(tmp_path / "profile.tpz")
    loaded = tp.load(tmp_path / "profile.tpz", function=f)
    assert loaded.engine == "profile"
    np.testing.assert_allclose(loaded.predict(X), f(X), atol=1e-12)


def test_models_labels_and_missing_values_are_read_as_by_every_engine(profile_anova):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pandas.DataFrame(
        {"number": rng.normal(size=300), "label": pandas.Categorical(rng.choice(["a", "b"], 300))}
    )
    table.loc[:9, "number"] = np.nan

    def scores(rows):
        return np.where(rows["label"] == "a", 1.0, rows["number"].fillna(0.0))

    d = profile_anova(scores, table, progress=False)
    np.testing.assert_allclose(d.predict(table), scores(table), atol=1e-12)
    X = rng.normal(size=(300, 2))
    classifier = GradientBoostingClassifier(n_estimators=5).fit(X, X[:, 0] > 0)
    d = profile_anova(classifier, X, progress=False)
    np.testing.assert_allclose(d.predict(X), classifier.decision_function(X), atol=1e-9)
    with pytest.raises(tp.errors.InvalidInputError, match="class labels"):
        profile_anova(classifier.predict, X, progress=False)
