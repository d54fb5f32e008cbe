"""The call of a decomposition: run again it gives the same, and it survives edits and files."""

import inspect
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from treepurify.origin import called

DATA = Path(__file__).parent / "data"


def product(X):
    X = np.asarray(X)
    return X[:, 0] * X[:, 1] + X[:, 2]


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).integers(0, 4, size=(150, 3)).astype(float)


@pytest.fixture(scope="module")
def model(X):
    return GradientBoostingRegressor(n_estimators=10, max_depth=3, random_state=0).fit(
        X, product(X)
    )


@pytest.fixture(scope="module")
def other(X):
    return GradientBoostingRegressor(n_estimators=10, max_depth=2, random_state=1).fit(
        X, product(X)
    )


MADE = {
    "purify": (tp.purify, "d = tp.purify(model, X)"),
    "purify, no rows": (
        lambda m, X: tp.purify(m, weights="uniform"),
        'd = tp.purify(model, weights="uniform")',
    ),
    "purify, options": (
        lambda m, X: tp.purify(
            m, X, order=np.int64(1), weights=tp.weights.Laplace(0.2), missing_cells="always"
        ),
        'd = tp.purify(model, X, weights=tp.weights.Laplace(smoothing=0.2), order=1, '
        'missing_cells="always")',
    ),
    "purify, method": (
        lambda m, X: tp.purify(
            m,
            X,
            interactions=[("x0", 2)],
            feature_names=("x0", "x1", "x2"),
            method=tp.options.TreeProjection(1e-5),
            progress=False,
        ),
        'd = tp.purify(model, X, interactions=[("x0", 2)], feature_names=("x0", "x1", "x2"), '
        "method=tp.options.TreeProjection(tolerance=1e-05), progress=False)",
    ),
    "purify_tensors": (
        lambda m, X: tp.purify_tensors({(0, 1): [[0, 0], [0, 1]]}, intercept=2, order=1),
        "d = tp.purify_tensors({(0, 1): [[0, 0], [0, 1]]}, intercept=2, order=1)",
    ),
    "partial_dependence_anova": (
        lambda m, X: tp.partial_dependence_anova(m, X, order=1),
        "d = tp.partial_dependence_anova(model, X, order=1)",
    ),
    "partial_dependence_anova, function": (
        lambda m, X: tp.partial_dependence_anova(m.predict, X, background_size=30, seed=2),
        "d = tp.partial_dependence_anova(model.predict, X, background_size=30, seed=2)",
    ),
    "partial_dependence_anova, cover": (
        lambda m, X: tp.partial_dependence_anova(m, X, background="cover"),
        'd = tp.partial_dependence_anova(model, X, background="cover")',
    ),
    "ale_anova": (
        lambda m, X: tp.ale_anova(m, X, bins=7, order=1),
        "d = tp.ale_anova(model, X, order=1, bins=7)",
    ),
    "ale_anova, nodes": (
        lambda m, X: tp.ale_anova(m, X, nodes={"x0": [0.0, 1.5, 3.0]}),
        'd = tp.ale_anova(model, X, nodes={"x0": [0.0, 1.5, 3.0]})',
    ),
    "hooker_anova": (
        lambda m, X: tp.hooker_anova(m, X, weights="uniform", n_points=500, seed=3),
        'd = tp.hooker_anova(model, X, weights="uniform", n_points=500, seed=3)',
    ),
    "legendre_anova": (
        lambda m, X: tp.legendre_anova(
            m, X, degree=3, selection=tp.options.TermSelection(criterion="aic")
        ),
        'd = tp.legendre_anova(model, X, degree=3, selection=tp.options.TermSelection(criterion='
        '"aic"))',
    ),
    "categorical_anova": (
        lambda m, X: tp.categorical_anova(m, X, order=2, neighbours={0: [1]}),
        "d = tp.categorical_anova(model, X, order=2, neighbours={0: [1]})",
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", MADE)
def test_the_call_made_again_gives_the_same(how, model, X, tmp_path):
    make, line = MADE[how]
    d = make(model, X)
    # A function is passed by a name that the line does not know.
    assert d.call.line() == line.replace("model.predict", "model")
    scope = {"tp": tp, "model": model, "X": X}
    exec(line, scope)
    again = scope["d"]
    assert again.call == d.call
    assert again.components.keys() == d.components.keys()
    np.testing.assert_array_equal(again.intercept, d.intercept)
    for subset, component in d.components.items():
        np.testing.assert_array_equal(again.components[subset].variance, component.variance)
    d.save(tmp_path / "d.tpz")
    function = model.predict if "function" in how else None
    assert tp.load(tmp_path / "d.tpz", function=function).call == d.call


def test_every_public_function_that_decomposes_records_its_call():
    makers = {
        name
        for name in tp.__all__
        if inspect.isfunction(value := getattr(tp, name))
        and inspect.signature(value).return_annotation in (tp.Decomposition, "Decomposition")
    }
    # These start from a decomposition.
    makers -= {"load", "smooth_effect", "with_sampling_error", "without_features"}
    assert makers == {how.partition(",")[0] for how in MADE}


def test_refits_are_passed_as_the_model(model, other, X):
    assert tp.purify([model, other], X, order=1).call.line() == "d = tp.purify(model, X, order=1)"
    d = tp.purify(model, X, order=1, refits=[other] * 2)
    assert d.call.line() == "d = tp.purify(model, X, order=1, refits=[..., ...])"


def test_edits_keep_the_call_of_what_was_edited(model, X):
    d = tp.purify(model, X, order=2)
    assert d.without("x0 & x1").call == d.call
    assert tp.without_features(d, "x2").call == d.call
    assert tp.smooth_effect(d, "x0").call == d.call
    assert tp.purify(model, X, order=None).as_trained().call is None


class Own(tp.weights.Empirical):
    """A weighting of a user, with nothing to write down."""


def of_anything(model, X, *, first=None, second="a", third=()):
    return called(of_anything, locals()).line().removeprefix("d = of_anything(")[:-1]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"first": np.arange(3)}, "model, X, first=..."),
        ({"first": pd.DataFrame({"a": [1]})}, "model, X, first=..."),
        ({"first": list(range(1000))}, "model, X, first=..."),
        ({"first": "x" * 1000}, "model, X, first=..."),
        ({"first": product}, "model, X, first=..."),
        ({"first": object()}, "model, X, first=object(...)"),
        ({"first": Own()}, "model, X, first=Own()"),
        ({"first": tp.weights.Smoothed(0.3)}, "model, X, first=tp.weights.Smoothed(bandwidth=0.3)"),
        ({"first": float("inf")}, 'model, X, first=float("inf")'),
        ({"second": 'a"'}, 'model, X, second="a\\""'),
        ({"first": (1,), "second": {1: np.float32(0.5)}}, "model, X, first=(1,), second={1: 0.5}"),
        ({"second": "a", "third": (Path("a") / "b",)}, 'model, X, third=("a/b",)'),
    ],
)  # fmt: skip
def test_arguments_are_literals_or_short_words(given, words):
    assert of_anything(object(), np.ones(2), **given).startswith(words)


def test_literals_stand_for_the_model_and_its_rows():
    assert of_anything("model.json", Path("rows.parquet")) == '"model.json", "rows.parquet"'
    assert of_anything("model.json", [[0.0] * 100] * 100) == '"model.json", X'
