"""Effects named as tables name them, and rows as people have them at hand."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from treepurify.terms import named_features, read_features, term_name

NAMES = ["age", "bed & breakfast", "a", "b", "a & b", '"quoted', "back\\ & slash"]


@pytest.mark.parametrize("first", range(len(NAMES)))
@pytest.mark.parametrize("second", range(len(NAMES)))
def test_every_name_leads_back_to_its_features(first, second):
    if first == second:
        assert read_features(term_name([NAMES[first]]), NAMES) == (first,)
        return
    name = term_name([NAMES[first], NAMES[second]])
    # The exact name of a feature wins.
    if name in NAMES:
        assert read_features(name, NAMES) == (NAMES.index(name),)
        return
    assert named_features(name, NAMES) == (first, second)
    assert read_features(name, NAMES) == tuple(sorted((first, second)))


def test_a_near_miss_is_answered():
    with pytest.raises(tp.errors.UnknownComponentError, match="did you mean 'hours'"):
        read_features("age & houers", ["age", "hours"])
    with pytest.raises(tp.errors.UnknownComponentError, match="different features"):
        read_features("age & age", ["age", "hours"])


@pytest.fixture(scope="module")
def scene():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 3)), columns=list("abc"))
    model = GradientBoostingRegressor(max_depth=2, n_estimators=20).fit(X, X["a"] * X["b"])
    return model, X, tp.purify(model, X, progress=False)


def test_names_of_tables_are_keys(scene):
    _, X, d = scene
    for term in d.importance()["effect"]:
        component = d[term]
        assert term in d
        assert len(d.to_frame(term)) > 0
        np.testing.assert_array_equal(
            component.on_rows(X), d[tuple(reversed(term.split(" & ")))].on_rows(X)
        )
    assert d["b & a"] is d["a", "b"]
    ax = tp.plots.pair(d, "b & a")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("b", "a")


def test_a_series_and_a_dict_are_rows(scene):
    model, X, d = scene
    for row in (X.iloc[3], dict(X.iloc[3])):
        assert d.predict(row) == pytest.approx(model.predict(X.iloc[[3]]))
        assert d.contributions(row).shape == d.contributions(X.iloc[[3]]).shape
    with pytest.raises(tp.errors.InvalidInputError, match="column"):
        d.predict({"a": 1.0})
