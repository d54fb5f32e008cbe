"""The worth of effects against predictions that are built again without them."""

import numpy as np
import pytest
from sklearn import metrics
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from xgboost import XGBClassifier, XGBRegressor

import treepurify as tp
from treepurify.errors import InvalidInputError, MemoryBudgetError, UnknownComponentError


def data(n_rows=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3))
    X[:, 1] += X[:, 0]
    signal = X[:, 0] + X[:, 1] * X[:, 2]
    return X, signal, rng


def regression():
    X, signal, rng = data()
    y = signal + rng.normal(size=len(X))
    model = GradientBoostingRegressor(max_depth=2, n_estimators=30, random_state=0)
    return (
        tp.purify(model.fit(X[:200], y[:200]), X[:200], weights="empirical", progress=False),
        X[200:],
        y[200:],
    )


def binary():
    X, signal, rng = data()
    y = (signal + rng.normal(size=len(X)) > 0).astype(int)
    model = GradientBoostingClassifier(max_depth=2, n_estimators=20, random_state=0)
    return (
        tp.purify(model.fit(X[:200], y[:200]), X[:200], weights="empirical", progress=False),
        X[200:],
        y[200:],
    )


def three_classes():
    X, signal, rng = data()
    y = np.digitize(signal + rng.normal(size=len(X)), [-1, 1])
    model = XGBClassifier(max_depth=2, n_estimators=8, n_jobs=1).fit(X[:200], y[:200])
    return tp.purify(model, X[:200], weights="empirical", progress=False), X[200:], y[200:]


def counts():
    X, signal, rng = data()
    y = rng.poisson(np.exp(0.4 * signal))
    model = XGBRegressor(objective="count:poisson", max_depth=2, n_estimators=20, n_jobs=1)
    return (
        tp.purify(model.fit(X[:200], y[:200]), X[:200], weights="empirical", progress=False),
        X[200:],
        y[200:],
    )


def worst_pinball(y, predicted, sample_weight):
    return float(np.max(np.abs(y - predicted)))


def with_weights(loss):
    return lambda y, p, w: loss(y, p, sample_weight=w)


# The same losses by scikit-learn, from responses.
CASES = {
    "squared_error": (regression, "squared_error", with_weights(metrics.mean_squared_error)),
    "auto of numbers": (regression, "auto", with_weights(metrics.mean_squared_error)),
    "quantile": (
        regression,
        ("quantile", 0.8),
        lambda y, p, w: metrics.mean_pinball_loss(y, p, sample_weight=w, alpha=0.8),
    ),
    "log_loss": (binary, "log_loss", with_weights(metrics.log_loss)),
    "brier": (binary, "squared_error", with_weights(metrics.brier_score_loss)),
    "auc": (binary, "auc", lambda y, p, w: 1 - metrics.roc_auc_score(y, p, sample_weight=w)),
    "log_loss of classes": (three_classes, "auto", with_weights(metrics.log_loss)),
    "brier of classes": (
        three_classes,
        "squared_error",
        lambda y, p, w: metrics.mean_squared_error(np.eye(3)[y], p, sample_weight=w),
    ),
    "poisson": (counts, "poisson", with_weights(metrics.mean_poisson_deviance)),
    "a function": (regression, worst_pinball, worst_pinball),
}


def rebuilt(d, X, left_out):
    """The response of the model without some effects, put together term by term."""
    margin = np.tile(d.intercept, (len(X), 1))
    for subset, component in d.components.items():
        if subset not in left_out:
            margin += component.on_rows(X)
    # Rounding must not tell rows in the same leaves apart.
    response = d.link.inverse(margin).round(13)
    return response[:, 0] if d.n_outputs == 1 else response


@pytest.mark.parametrize("name", CASES)
def test_worth_is_the_rise_of_the_loss_of_a_rebuilt_prediction(name):
    make, loss, reference = CASES[name]
    d, X, y = make()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=len(X))
    worth = tp.effect_worth(
        d, X, y, loss=loss, sample_weight=weights, n_bootstrap=0, absorb=False, progress=False
    )
    base = reference(y, rebuilt(d, X, ()), weights)
    assert worth.model_loss == pytest.approx(base, abs=1e-10)
    for subset, value in zip(worth.subsets, worth.worth, strict=True):
        expected = reference(y, rebuilt(d, X, (subset,)), weights) - base
        assert value == pytest.approx(expected, abs=1e-10)
    everything = reference(y, rebuilt(d, X, worth.subsets), weights)
    assert worth.intercept_loss == pytest.approx(everything, abs=1e-10)


def test_shapley_worth_averages_over_all_orders():
    from itertools import permutations

    make, loss, reference = CASES["squared_error"]
    d, X, y = make()
    d = d.only(*[d.term_name(subset) for subset in list(d.components)[:4]])
    worth = tp.effect_worth(d, X, y, loss=loss, n_bootstrap=0, absorb=False, progress=False)
    equal = np.full(len(X), 1 / len(X))
    expected = dict.fromkeys(d.components, 0.0)
    orders = list(permutations(d.components))
    for order in orders:
        for place, subset in enumerate(order):
            before, after = (reference(y, rebuilt(d, X, order[k:]), equal) for k in (place, 0))
            after = reference(y, rebuilt(d, X, order[place + 1 :]), equal)
            expected[subset] += (before - after) / len(orders)
    found = dict(zip(worth.subsets, worth.shapley, strict=True))
    assert found == pytest.approx(expected, abs=1e-10)
    gain = worth.intercept_loss - worth.model_loss
    assert worth.shapley.sum() == pytest.approx(gain, abs=1e-10)


@pytest.mark.parametrize("name", ["squared_error", "auc", "a function"])
def test_intervals_are_percentiles_over_rows_drawn_again(name):
    make, loss, reference = CASES[name]
    d, X, y = make()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=len(X))
    worth = tp.effect_worth(
        d, X, y, loss=loss, sample_weight=weights, n_bootstrap=30, seed=3, absorb=False,
        coverage=0.8, progress=False,
    )  # fmt: skip
    rng = np.random.default_rng(3)
    draws = []
    for _ in range(30):
        rows = rng.integers(0, len(X), len(X))
        # A row that is drawn twice counts twice.
        base = reference(y[rows], rebuilt(d, X, ())[rows], weights[rows])
        draws.append(
            [
                reference(y[rows], rebuilt(d, X, (s,))[rows], weights[rows]) - base
                for s in worth.subsets
            ]
        )
    if name == "a function":  # rows of weight zero count for a maximum too
        assert np.all(worth.low <= worth.high)
        return
    low, high = np.quantile(draws, [0.1, 0.9], axis=0)
    np.testing.assert_allclose(worth.low, low, atol=1e-10)
    np.testing.assert_allclose(worth.high, high, atol=1e-10)
    np.testing.assert_allclose(worth.standard_error, np.std(draws, axis=0, ddof=1), atol=1e-10)


@pytest.mark.parametrize("why", ["one class", "no weight"])
def test_draws_without_a_loss_are_left_out_and_counted(why):
    """Against the same draws by scikit-learn, of those on which it has a value."""
    d, X, y = binary()
    weights = np.ones(len(X))
    if why == "one class":
        y = np.zeros_like(y)
        y[[4, 90]] = 1
        loss, reference = "auc", metrics.roc_auc_score
        sign = -1
    else:
        weights[2:] = 0
        loss, reference = "log_loss", metrics.log_loss
        sign = 1
    worth = tp.effect_worth(
        d, X, y, loss=loss, sample_weight=weights, n_bootstrap=60, absorb=False,
        progress=False,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    draws, left_out = [], 0
    options = {} if why == "one class" else {"labels": [0, 1]}
    for _ in range(60):
        rows = rng.integers(0, len(X), len(X))
        if len(set(y[rows])) < 2 or weights[rows].sum() == 0:
            left_out += 1
            continue
        of_model, *of_others = (
            sign * reference(
                y[rows], rebuilt(d, X, out)[rows], sample_weight=weights[rows], **options
            )
            for out in ((), *((s,) for s in worth.subsets))
        )  # fmt: skip
        draws.append(np.array(of_others) - of_model)
    assert 0 < left_out < 60
    np.testing.assert_allclose(worth.low, np.quantile(draws, 0.025, axis=0), atol=1e-9)
    np.testing.assert_allclose(worth.high, np.quantile(draws, 0.975, axis=0), atol=1e-9)
    assert f"leave out {left_out} of 60 draws" in " ".join(worth.notes)


@pytest.mark.parametrize("absorb", ["main", True])
def test_absorbed_worth_is_that_of_an_edited_decomposition(absorb):
    d, X, y = regression()
    worth = tp.effect_worth(d, X, y, absorb=absorb, n_bootstrap=0, progress=False)
    for subset, value in zip(worth.subsets, worth.worth_absorbed, strict=True):
        edited = d.without(d.term_name(subset), absorb=absorb)
        expected = metrics.mean_squared_error(y, edited.predict(X)) - worth.model_loss
        assert value == pytest.approx(expected, abs=1e-8)


def test_nothing_is_absorbed_by_independent_effects():
    X, signal, _ = data()
    model = GradientBoostingRegressor(max_depth=2, n_estimators=20).fit(X, signal)
    d = tp.purify(model, X, weights="independent", progress=False)
    worth = tp.effect_worth(d, X, signal, absorb=True, n_bootstrap=0, progress=False)
    np.testing.assert_allclose(worth.worth_absorbed, worth.worth, atol=1e-12)


def test_a_remainder_is_an_effect_like_others():
    X, signal, _ = data()
    model = GradientBoostingRegressor(max_depth=3, n_estimators=10).fit(X, signal + X.prod(axis=1))
    d = tp.purify(model, X, weights="empirical", order=2, progress=False)
    worth = tp.effect_worth(d, X, signal, n_bootstrap=0, progress=False)
    without = metrics.mean_squared_error(signal, d.predict(X) - d.remainder.on_rows(X)[:, 0])
    assert worth.of("remainder")["worth"] == pytest.approx(without - worth.model_loss, abs=1e-10)
    assert worth.shapley.sum() == pytest.approx(worth.intercept_loss - worth.model_loss)


def test_a_useless_pair_is_told_apart_from_a_useful_one():
    """Few draws here; ``benchmarks/worth.py`` counts 100."""
    told = 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(3000, 4))
        signal = X[:, 0] + 0.5 * X[:, 0] * X[:, 1]
        y = signal + rng.normal(size=3000)
        model = GradientBoostingRegressor(max_depth=2, n_estimators=60, random_state=0)
        d = tp.purify(model.fit(X[:1000], y[:1000]), X[:1000], weights="empirical", progress=False)
        # A pair of noise, as large as the useful one.
        table = rng.normal(size=d["x2", "x3"].values.shape)
        d = d.with_effect(("x2", "x3"), table * np.sqrt(d["x0", "x1"].variance))
        worth = tp.effect_worth(d, X[1000:], y[1000:], progress=False)
        told += worth.of(("x0", "x1"))["low"] > 0 >= worth.of(("x2", "x3"))["low"]
    assert told == 5


def test_classes_are_known_by_name_or_position():
    d, X, y = three_classes()
    one, other = (
        tp.effect_worth(d, X, labels, n_bootstrap=0, absorb=False, progress=False)
        for labels in (y, y.astype(str))
    )
    np.testing.assert_array_equal(one.worth, other.worth)
    with pytest.raises(InvalidInputError, match="y must contain the classes"):
        tp.effect_worth(d, X, y + 1, progress=False)


@pytest.mark.parametrize(
    ("make", "loss", "change", "message"),
    [
        (regression, "log_loss", lambda y: y, "link that keeps probabilities between 0 and 1"),
        (regression, "poisson", lambda y: y, "a model whose predictions are positive"),
        (regression, "squared", lambda y: y, "loss must be"),
        (regression, ("quantile", 1.5), lambda y: y, "level of the quantile"),
        (regression, "auto", lambda y: y[1:], "one observation per row"),
        (regression, "auto", lambda y: np.where(y > 2, np.nan, y), "y must be finite"),
        (three_classes, "auto", lambda y: np.eye(3, dtype=int)[y], "one class per row"),
        (three_classes, "auto", lambda y: np.where(y > 1, None, y), "classes of one type"),
        (binary, "auto", lambda y: y + 1, "y must contain 0 and 1"),
        (binary, "auc", np.ones_like, "rows of both classes"),
        (counts, "auto", lambda y: y - 5, "needs y of at least 0"),
        (regression, lambda y, p, w: np.nan, lambda y: y, "finite number"),
        (regression, lambda y, p, w: "a", lambda y: y, "one number"),
    ],
)
def test_what_cannot_be_used_is_refused(make, loss, change, message):
    d, X, y = make()
    with pytest.raises(InvalidInputError, match=message):
        tp.effect_worth(d, X, change(y), loss=loss, progress=False)


def test_contributions_that_do_not_fit_are_refused():
    d, X, y = regression()
    with pytest.raises(MemoryBudgetError, match="contributions of"):
        tp.effect_worth(d, X, y, memory_budget=1000, progress=False)


def test_there_are_no_shares_of_a_loss_that_is_not_lowered():
    d, X, y = regression()
    frame = tp.effect_worth(d, X, -y, n_bootstrap=0, progress=False).to_frame()
    assert frame["worth"].min() < 0
    assert frame["worth_share"].isna().all()


def test_the_table_and_the_summary():
    d, X, y = regression()
    worth = tp.effect_worth(d, X, y, progress=False)
    frame = worth.to_frame()
    assert frame["worth"].is_monotonic_decreasing
    assert set(frame["term"]) == {d.term_name(subset) for subset in d}
    assert frame["share"].sum() == pytest.approx(1)
    assert np.all(frame["low"] <= frame["high"])
    assert str(worth).startswith(
        f"The squared error on 200 held-out rows is {worth.model_loss:.4g}"
    )
    place = worth.worth.argmax()
    without = f"without {d.term_name(worth.subsets[place])}, it is"
    assert f"{without} {worth.model_loss + worth.worth[place]:.4g}." in worth.summary(0)[0]
    with pytest.raises(UnknownComponentError):
        worth.of("x9")
