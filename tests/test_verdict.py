"""What a reader must know, in three lines and a colour that judges by the model's deviation."""

import sys
from dataclasses import replace
from math import prod

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor

import treepurify as tp
from treepurify.certificate import STOPPED
from treepurify.demo import load_demo_data
from treepurify.verdict import measure_words, notes, shares_words, verdict


def scene(scale=1.0, shift=0.0, **options):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(400, 3)), columns=list("abc"))
    y = shift + scale * (X["a"] * X["b"] + X["c"])
    model = GradientBoostingRegressor(n_estimators=20, max_depth=2, random_state=0).fit(X, y)
    return tp.purify(model, X, progress=False, **options)


def with_error(d, error, name="additivity"):
    return replace(d, certificate=replace(d.certificate, **{name: error}))


@pytest.mark.parametrize(("scale", "shift"), [(1, 0), (1e-4, 0), (1e6, 0), (1, 1e9)])
def test_errors_are_judged_by_the_deviation_of_the_model(scale, shift):
    d = scene(scale, shift)
    deviation = float(np.sqrt(sum(d.covariances.values())[0]))
    assert verdict(d).state == "good"
    relative = deviation / d.certificate.scale
    for name in ("additivity", "conditional_mean", "solver_error"):
        assert verdict(with_error(d, 0.5e-6 * relative, name)).state == "good"
        rounding = 256 * np.finfo(float).eps
        assert verdict(with_error(d, 2e-6 * relative + 2 * rounding, name)).state == "bad"
    assert verdict(with_error(d, np.nan)).state == "bad"
    assert "is not a number" in verdict(with_error(d, np.nan)).sentence
    assert verdict(with_error(d, np.nan)).sentence in notes(with_error(d, np.nan), d.ranking)


def test_the_least_output_decides():
    X = np.random.default_rng(0).normal(size=(400, 2))
    y = np.column_stack([X[:, 0], 1e-4 * X[:, 1]])
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=2).fit(X, y)
    d = tp.purify(model, X, progress=False)
    least = float(np.sqrt(sum(d.covariances.values()).min()))
    assert verdict(with_error(d, 1e-5 * least / d.certificate.scale)).state == "bad"


def test_a_constant_model_is_right_to_its_rounding():
    X = np.random.default_rng(0).normal(size=(100, 2))
    model = GradientBoostingRegressor(n_estimators=2).fit(X, np.full(100, 3.0))
    d = tp.purify(model, X, progress=False)
    assert verdict(d).state == "good"
    assert verdict(with_error(d, 1e-10)).state == "bad"


def test_rounding_in_one_tree_is_no_alarm():
    data = load_demo_data("bike")
    model = xgboost.XGBRegressor().fit(data.X, data.y)
    rows = data.X.sample(1000, random_state=0)
    d = tp.purify(model, rows, weights="empirical", progress=False)
    # Of the tree whose products nearly depend on each other, which varies little itself.
    assert 0 < d.certificate.solver_error < 1e-6
    assert "stopped" not in d.certificate.note
    assert verdict(d).state == "good"
    strict = tp.options.TreeProjection(1e-12)
    d = tp.purify(model, rows, weights="empirical", method=strict, progress=False)
    assert STOPPED in d.certificate.note
    assert verdict(d).state == "good"


def test_what_stands_in_the_way_is_said():
    d = scene()
    assert verdict(d).sentence == ""
    open_ = replace(
        d, certificate=replace(d.certificate, unidentified_terms=("a & b",), unidentified=3)
    )
    said = "The rows do not determine all effects. Undetermined: a & b."
    assert said in notes(open_, open_.ranking)
    assert open_.certificate.details()[0].endswith("; the rows do not determine all effects.")
    certificate = replace(d.certificate, sampling_error=(0.1,))
    sampled = replace(d, certificate=certificate)
    assert "differ from those of the population" in notes(sampled, sampled.ranking)[0]
    edited = d.without("a & c")
    assert verdict(edited).state == "part"
    assert "no longer add up to the model" in verdict(edited).sentence


def test_what_is_printed_says_why_rows_were_smoothed():
    d = scene()
    assert measure_words(d) == "Smoothed by the amount that best predicts rows left out."
    assert measure_words(d) in repr(d)
    assert measure_words(d) in d._repr_html_()
    assert measure_words(scene(weights="empirical")) == ""
    n_combinations = np.prod([d[name].mass.size for name in "abc"])
    rows = int(n_combinations) // 10
    few = replace(d, origin=replace(d.origin, measure_rows=rows))
    expected = f"Smoothed: {rows} rows leave most combinations of values empty."
    assert measure_words(few) == expected


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_combinations_may_be_more_than_any_float(library):
    X = np.random.default_rng(0).normal(size=(300, 400))
    y = X @ np.ones(400)
    # One split of one random feature a tree, so that every feature gets several intervals.
    if library == "lightgbm":
        model = lightgbm.LGBMRegressor(
            n_estimators=2500, num_leaves=2, feature_fraction=0.0025, extra_trees=True, verbose=-1
        )
    else:
        model = xgboost.XGBRegressor(
            n_estimators=2500, max_depth=1, colsample_bytree=0.0025, subsample=0.3
        )
    d = tp.purify(model.fit(X, y), X, progress=False)
    combinations = prod(component.n_cells for component in d.components.values())
    assert combinations > sys.float_info.max
    assert "most combinations of values" in measure_words(d)
    assert measure_words(d) in repr(d)
    assert measure_words(d) in d._repr_html_()


def test_the_share_of_the_remainder_is_told_once():
    X = np.random.default_rng(0).normal(size=(300, 3))
    model = GradientBoostingRegressor(n_estimators=20, max_depth=4, random_state=0)
    d = tp.purify(model.fit(X, X.prod(axis=1)), X, weights="empirical", progress=False)
    rest = d.ranking.shares[()]
    words = shares_words(d, d.ranking)
    assert words.endswith(f"; {rest:.0%} are interactions of three or more features.")
    for text in (repr(d), d._repr_html_()):
        assert words in text
        assert "explain" not in text


def test_of_several_outputs_the_share_is_told_once_and_the_worst_output_named():
    X = np.random.default_rng(0).normal(size=(300, 3))
    forest = RandomForestRegressor(n_estimators=3, max_depth=4, random_state=0)
    forest.fit(X, np.column_stack([X.prod(axis=1), X.sum(axis=1)]))
    d = tp.purify(forest, X, weights="empirical", progress=False)
    shares = np.abs(d.covariances[()]) / sum(d.covariances.values())
    worst = int(np.argmax(shares))
    assert shares[worst] > 0.05
    least = f" They explain least of {d.output_names[worst]} ({1 - shares[worst]:.1%})."
    assert verdict(d).sentence.endswith(least)
    # Outputs of which nearly all is explained are not named.
    little = {s: part * (0.01 if s == () else 1.0) for s, part in d.covariances.items()}
    little = replace(d, stored_covariances=little)
    assert verdict(little).sentence == ""
