"""The whole decomposition against the straightforward pipeline and known answers."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import treepurify
from tests.engines.legendre.analytic import components as analytic_components
from tests.engines.legendre.analytic import dependent_rows, function
from tests.reference.legendre_pipeline import legendre_pipeline
from treepurify.engines.legendre import TermSelection, legendre_anova
from treepurify.errors import InvalidInputError, SupportWarning

# Few functions are fitted here, which is what the warning is about.
pytestmark = pytest.mark.filterwarnings("ignore::treepurify.errors.FitWarning")

PAPER = {
    "density": "legendre",
    "scaling": "tanh",
    "orthogonal": False,
    "selection": TermSelection(column_scale="density", max_steps=500),
    "progress": False,
}


def correlated_rows(n_rows, n_features=4, correlation=0.6, seed=0):
    rng = np.random.default_rng(seed)
    mixing = np.linalg.cholesky(
        correlation * np.ones((n_features, n_features)) + (1 - correlation) * np.eye(n_features)
    )
    return rng.normal(size=(n_rows, n_features)) @ mixing.T


def smooth(X):
    X = np.asarray(X)
    return np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + np.tanh(X[:, 0] * X[:, 3]) + 0.3 * X[:, 1] ** 2


def rms(values):
    return float(np.sqrt(np.mean(np.square(values))))


@pytest.mark.parametrize("density_degree", [0, 4])
def test_equals_the_straightforward_pipeline(density_degree):
    X = correlated_rows(1500)
    values = smooth(X)
    truth = legendre_pipeline(values, X, degree=5, density_degree=density_degree)
    d = legendre_anova(values, X, degree=5, density_degree=density_degree, **PAPER)
    fit = d.diagnostics["fit"]["f"]
    assert fit["terms"] == len(truth.selected)
    assert fit["r_squared"] == pytest.approx(truth.r_squared, abs=1e-10)
    assert fit["max_correlation"] == pytest.approx(truth.max_correlation, abs=1e-8)
    assert set(d) == set(truth.components)
    for subset, component in truth.components.items():
        np.testing.assert_allclose(d[subset].on_rows(X)[:, 0], component, atol=1e-9)
    assert d.intercept[0] == pytest.approx(truth.intercept, abs=1e-10)


def test_all_columns_equal_dense_least_squares():
    """Three features jointly: against a design written out with NumPy's own polynomials."""
    X = correlated_rows(1200, 3)
    values = smooth(np.column_stack([X, X[:, 0]]))
    keep_all = {**PAPER, "selection": "all", "density_degree": 0, "degree": 3, "order": 3}
    d = legendre_anova(values, X, **keep_all)
    z = np.tanh((X - X.mean(axis=0)) / X.std(axis=0))
    tables = [np.polynomial.legendre.legvander(column, 3) for column in z.T]
    every = np.einsum("na,nb,nc->nabc", *tables).reshape(len(X), -1)
    truth = every @ np.linalg.lstsq(every, values, rcond=None)[0]
    total = d.intercept[0] + sum(component.on_rows(X)[:, 0] for component in d.components.values())
    np.testing.assert_allclose(total, truth, atol=1e-10)
    assert d.diagnostics["fit"]["f"]["terms"] == 63


def test_recovers_known_components_of_independent_features():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, size=(6000, 3))
    d = legendre_anova(
        lambda X: X[:, 0] ** 2 + X[:, 1] + 3 * X[:, 0] * X[:, 2], X, degree=4, progress=False
    )
    grid = rng.uniform(-1, 1, size=(500, 3))
    for key, truth in {
        (0,): grid[:, 0] ** 2 - 1 / 3,
        (1,): grid[:, 1],
        (0, 2): 3 * grid[:, 0] * grid[:, 2],
    }.items():
        assert rms(d[key].on_rows(grid)[:, 0] - truth) < 0.1 * rms(truth)
    assert rms(d[2].on_rows(grid)) < 0.05
    assert d.diagnostics["fit"]["prediction"]["r_squared"] > 0.999


@pytest.mark.parametrize("orthogonal", [False, True])
def test_recovers_the_papers_dependent_case(orthogonal):
    """Equations 87 to 93."""
    X = dependent_rows(10_000)
    d = legendre_anova(
        function,
        X,
        degree=8,
        density="legendre",
        density_degree=2,
        scaling="minmax",
        orthogonal=orthogonal,
        progress=False,
    )
    for subset, truth in analytic_components().items():
        expected = truth(X) - truth(X).mean()
        assert rms(d[subset].on_rows(X)[:, 0] - expected) < 0.1 * rms(expected), subset
    for subset in set(d) - set(analytic_components()):
        assert rms(d[subset].on_rows(X)) < 0.05 * rms(function(X)), subset
    assert d.diagnostics["fit"]["prediction"]["r_squared"] > 0.999


def test_features_with_levels_take_their_exact_share():
    """A mixed case with the truth from conditional means: u has levels, x depends on u."""
    rng = np.random.default_rng(2)
    u = rng.integers(0, 3, 8000)
    x = rng.uniform(-1, 1, 8000)
    X = pd.DataFrame({"u": pd.Categorical.from_codes(u, ["a", "b", "c"]), "x": x})
    slopes = np.array([-1.0, 0.0, 2.0])

    def f(table):
        codes = table["u"].cat.codes.to_numpy()
        return slopes[codes] * table["x"].to_numpy() + codes

    d = legendre_anova(f, X, degree=3, progress=False)
    share = np.bincount(u) / len(u)
    mean_slope = share @ slopes
    assert d.diagnostics["scaling"] == {"u": "3 levels", "x": "rank"}
    assert rms(d["u", "x"].on_rows(X)[:, 0] - (slopes[u] - mean_slope) * x) < 0.05
    assert rms(d["x"].on_rows(X)[:, 0] - mean_slope * x) < 0.05
    assert rms(d["u"].on_rows(X)[:, 0] - (u - u.mean())) < 0.05
    assert d.diagnostics["fit"]["prediction"]["r_squared"] > 0.999


def test_levels_alone_give_the_categorical_closed_form():
    from treepurify.engines.categorical import categorical_anova

    rng = np.random.default_rng(3)
    X = rng.integers(0, 3, size=(2000, 3)).astype(float)
    X[:, 1] = np.where(rng.random(2000) < 0.5, X[:, 0], X[:, 1])
    values = rng.normal(size=(3, 3, 3))[tuple(X.astype(int).T)]
    truth = categorical_anova(values, X)
    for density, orthogonal in (("legendre", False), ("legendre", True), ("none", True)):
        d = legendre_anova(
            values,
            X,
            order=3,
            selection="all",
            density=density,
            orthogonal=orthogonal,
            progress=False,
        )
        assert set(d) == set(truth)
        for subset in truth:
            np.testing.assert_allclose(d[subset].on_rows(X), truth[subset].on_rows(X), atol=1e-9)


def test_converges_to_conditional_means_as_the_degree_grows():
    """A tree on independent features: its main effect is a step, approached in mean square."""
    rng = np.random.default_rng(4)
    X = rng.uniform(0, 1, size=(5000, 2))
    f = lambda X: (X[:, 0] < 0.4) * 1.0 + (X[:, 0] >= 0.4) * (X[:, 1] < 0.5)
    main = (X[:, 0] < 0.4) * 1.0 + (X[:, 0] >= 0.4) * 0.5 - 0.7
    errors = []
    for degree in (2, 5, 11):
        d = legendre_anova(f, X, degree=degree, scaling="rank", selection="all", progress=False)
        errors.append(rms(d[0].on_rows(X)[:, 0] - main))
    assert errors[0] > 1.3 * errors[1] > 1.3**2 * errors[2]
    assert errors[2] < 0.08


def test_comes_closer_to_the_purified_tree_as_the_degree_grows():
    """Independent uniform features and a model of depth two, as `purify` splits it exactly."""
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(12)
    X = rng.uniform(0, 1, size=(4000, 3))
    y = np.sin(6 * X[:, 0]) + 2 * X[:, 1] * X[:, 2]
    model = xgboost.XGBRegressor(n_estimators=60, max_depth=2, learning_rate=0.2).fit(X, y)
    truth = treepurify.purify(model, X)
    errors = []
    for degree in (2, 4, 8):
        d = legendre_anova(model, X, degree=degree, scaling="rank", selection="all", progress=False)
        errors.append([rms(d[s].on_rows(X) - truth[s].on_rows(X)) for s in [(0,), (1, 2)]])
    (main_2, pair_2), (main_4, pair_4), (main_8, pair_8) = errors
    assert main_2 > 1.5 * main_4 > 1.5**2 * main_8
    assert pair_2 > pair_4 > pair_8
    assert main_8 < 0.1 * np.sqrt(truth[0].variance[0])


def test_weights_stand_for_repeated_rows():
    X = correlated_rows(600, 3)
    f = lambda X: X[:, 0] * X[:, 1] + X[:, 2]
    counts = np.random.default_rng(5).integers(0, 3, 600)
    options = {"degree": 3, "selection": "all", "progress": False}
    weighted = legendre_anova(f, X, sample_weight=counts, **options)
    repeated = legendre_anova(f, np.repeat(X, counts, axis=0), **options)
    assert set(weighted) == set(repeated)
    for subset in weighted:
        np.testing.assert_allclose(
            weighted[subset].on_rows(X), repeated[subset].on_rows(X), atol=1e-8
        )
        np.testing.assert_allclose(weighted[subset].variance, repeated[subset].variance, rtol=1e-7)


def test_rows_of_no_weight_change_nothing():
    X = correlated_rows(3000)
    X[:, 3] = np.random.default_rng(0).integers(0, 3, len(X))
    X[7, 3] = 5.0
    weight = np.random.default_rng(2).integers(0, 3, len(X)).astype(float)
    weight[7] = 1.0
    options = {"degree": 3, "progress": False}
    d = legendre_anova(smooth, X, sample_weight=weight, **options)
    kept = weight > 0
    fewer = legendre_anova(smooth, X[kept], sample_weight=weight[kept], **options)
    assert d.origin.n_rows == fewer.origin.n_rows == kept.sum()
    assert d.measure == fewer.measure
    assert d.certificate.conditional_mean == fewer.certificate.conditional_mean
    assert list(d) == list(fewer)
    for subset, component in d.components.items():
        np.testing.assert_allclose(fewer[subset].on_rows(X), component.on_rows(X), atol=1e-12)
    values = smooth(X)
    alone = legendre_anova(values, X, sample_weight=weight, **options)
    np.testing.assert_allclose(alone.predict(X), values, atol=1e-10)


def test_several_outputs_are_decomposed_one_by_one():
    X = correlated_rows(800, 3)
    f = lambda X: np.column_stack([X[:, 0] * X[:, 1], np.exp(X[:, 2]), np.zeros(len(X))])
    together = legendre_anova(f, X, degree=4, progress=False)
    assert together.n_outputs == 3
    for k in range(2):
        alone = legendre_anova(lambda X, k=k: f(X)[:, k], X, degree=4, progress=False)
        for subset in alone:
            np.testing.assert_allclose(
                together[subset].on_rows(X)[:, k], alone[subset].on_rows(X)[:, 0], atol=1e-9
            )
    assert all(np.all(c.on_rows(X)[:, 2] == 0) for c in together.components.values())


def test_same_answer_again_and_in_another_order():
    X = correlated_rows(700, 3)
    options = {"degree": 4, "progress": False}
    f = lambda X: np.sin(X[:, 0] + X[:, 1]) * X[:, 2]
    first = legendre_anova(f, X, **options)
    again = legendre_anova(f, X, **options)
    rows = np.random.default_rng(6).permutation(700)
    moved = legendre_anova(f, X[rows], **options)
    columns = [2, 0, 1]
    turned = legendre_anova(lambda X: f(X[:, np.argsort(columns)]), X[:, columns], **options)
    for subset in first:
        values = first[subset].on_rows(X)
        np.testing.assert_array_equal(again[subset].on_rows(X), values)
        np.testing.assert_allclose(moved[subset].on_rows(X), values, atol=1e-9)
        other = tuple(sorted(columns.index(j) for j in subset))
        np.testing.assert_allclose(turned[other].on_rows(X[:, columns]), values, atol=1e-9)


def test_ranks_do_not_depend_on_the_units():
    """A strictly increasing change of a feature changes nothing at the rows (remark C.4)."""
    X = correlated_rows(120, 2)
    values = X[:, 0] * X[:, 1]
    options = {"degree": 3, "progress": False}
    plain = legendre_anova(values, X, **options)
    bent = legendre_anova(values, np.column_stack([np.exp(3 * X[:, 0]), X[:, 1] ** 3]), **options)
    for subset in plain:
        np.testing.assert_allclose(
            plain[subset].variance, bent[subset].variance, rtol=1e-6, atol=1e-12
        )


def test_parts_add_up_on_new_rows():
    X = correlated_rows(800)
    d = legendre_anova(smooth, X, degree=4, progress=False)
    new = correlated_rows(50, seed=9) * 2
    np.testing.assert_allclose(d.predict(new), smooth(new), atol=1e-12)
    table = d.contributions(new)
    assert table.columns[0] == "intercept"
    assert table.columns[-1] == "remainder"
    shapley = d.shapley_values(X[:5])
    assert np.isfinite(shapley.values).all()
    share = d.importance()["share"].sum()
    assert share == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("density", ["legendre", "kernel"])
def test_saved_components_evaluate_as_before(density, tmp_path):
    X = correlated_rows(300, 3)
    X[:, 2] = np.arange(300) % 3
    d = legendre_anova(X[:, 0] * X[:, 1], X, degree=3, density=density, progress=False)
    d.save(tmp_path / "d.treepurify")
    again = treepurify.load(tmp_path / "d.treepurify")
    assert list(again) == list(d)
    for subset in d:
        np.testing.assert_array_equal(again[subset].on_rows(X), d[subset].on_rows(X))
    np.testing.assert_array_equal(again.predict(X), d.predict(X))


def test_given_values_are_known_at_their_rows_only():
    X = correlated_rows(400, 2)
    d = legendre_anova(X[:, 0] * X[:, 1], X, degree=3, progress=False)
    np.testing.assert_allclose(d.predict(X[:7]), X[:7, 0] * X[:7, 1], atol=1e-12)
    with pytest.raises(InvalidInputError, match="pass the function itself"):
        d.predict(X[:3] + 0.1)
    assert np.isfinite(d[0].on_rows(X[:3] + 0.1)).all()


def test_a_model_is_decomposed_on_its_margin():
    xgboost = pytest.importorskip("xgboost")
    X = pd.DataFrame(correlated_rows(600, 3), columns=["a", "b", "c"])
    y = (X["a"] * X["b"] > 0).astype(int)
    model = xgboost.XGBClassifier(n_estimators=10, max_depth=2).fit(X, y)
    d = legendre_anova(model, X, degree=3, progress=False)
    margin = model.predict(X, output_margin=True)
    np.testing.assert_allclose(d.predict(X), margin, atol=1e-5)
    assert d.feature_names == ("a", "b", "c")
    np.testing.assert_allclose(
        d.predict(X, scale="response"), model.predict_proba(X)[:, 1], atol=1e-5
    )


def test_heavy_tails_and_nearly_constant_columns_do_no_harm():
    rng = np.random.default_rng(7)
    n = 1500
    x = rng.uniform(-1, 1, n)
    X = np.column_stack(
        [
            x,
            rng.standard_cauchy(n) ** 3,
            1e9 + 1e-3 * rng.normal(size=n),
            np.full(n, 3.0),
            np.where(np.arange(n) < 2, 1.0, 0.0),
            1.0 + 1e-15 * rng.normal(size=n),
        ]
    )
    f = lambda X: X[:, 0] + np.arctan(X[:, 1]) * X[:, 0]
    for scaling in ("auto", "tanh", "minmax", "rank"):
        # Where one outlier decides the scale, densities are hardly known and it says so.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SupportWarning)
            d = legendre_anova(f, X, scaling=scaling, degree=6, progress=False)
        fit = d.diagnostics["fit"]["prediction"]
        assert d.diagnostics["constant_features"] == ["x3", "x5"]
        assert np.isfinite(fit["r_squared"])
        assert d.certificate.cosine < 1e-8
        assert all(np.abs(c.on_rows(X)).max() < 1e3 for c in d.components.values())
        np.testing.assert_allclose(d[0].on_rows(X)[:, 0], x, atol=0.6)
        if scaling in ("auto", "rank"):
            assert fit["r_squared"] > 0.97


def test_clipped_densities_are_announced_with_their_features():
    X = pd.DataFrame(correlated_rows(1000, 2, correlation=0.0), columns=["a", "lonely"])
    X["lonely"] = np.linspace(-1, 1, 1000)
    with pytest.warns(SupportWarning, match=r"for a & lonely \(\d+%\)") as caught:
        d = legendre_anova(
            X["a"] * X["lonely"],
            X,
            scaling={"a": "tanh", "lonely": "minmax"},
            density="legendre",
            density_clip=0.25,
            degree=4,
            progress=False,
        )
    assert d.diagnostics["clipped"]["a & lonely"] > 0.05
    assert caught[0].filename == __file__


@pytest.mark.parametrize("scaling", ["tanh", "rank"])
def test_kernel_densities_are_closer_to_orthogonal(scaling):
    X = correlated_rows(3000, 3, correlation=0.7)
    means, worst = {}, {}
    for density in ("legendre", "kernel"):
        d = legendre_anova(
            X[:, 0] * X[:, 1] + np.sin(X[:, 2]),
            X,
            density=density,
            scaling=scaling,
            orthogonal=False,
            degree=6,
            selection=TermSelection(max_steps=300),
            progress=False,
        )
        pairs = [pair for pair in d.diagnostics["cosines"]["largest"] if pair["inside"]]
        means[density] = np.mean([abs(pair["cosine"]) for pair in pairs])
        worst[density] = d.diagnostics["fit"]["f"]["max_correlation"]
        assert d.diagnostics["fit"]["f"]["r_squared"] > 0.95
    assert means["kernel"] < 0.8 * means["legendre"]
    assert worst["kernel"] < worst["legendre"]


def test_many_features_are_screened():
    rng = np.random.default_rng(9)
    X = rng.uniform(-1, 1, size=(1200, 30))
    f = lambda X: X[:, 3] + X[:, 7] * X[:, 21] + X[:, 2] * X[:, 4] * 0.5
    selection = TermSelection(max_candidates=300)
    d = legendre_anova(f, X, degree=4, selection=selection, progress=False)
    fit = d.diagnostics["fit"]["prediction"]
    assert (2, 4) in d
    assert (7, 21) in d
    assert fit["r_squared"] > 0.99
    assert fit["candidates"] == 120 + 435 * 16
    assert fit["candidates"] - fit["screened_out"] <= 300


def test_diagnostics_are_json_and_the_certificate_reads():
    X = correlated_rows(500, 3)
    d = legendre_anova(lambda X: X[:, 0] * X[:, 1], X, degree=3, progress=False)
    json.dumps(dict(d.diagnostics))
    assert any("cosine" in line for line in d.certificate.details())
    cosines = d.diagnostics["cosines"]
    assert cosines["pairs"] == len(d) + sum(2 for subset in d if len(subset) == 2)
    assert d.engine == "Legendre closed form"


def test_unbounded_densities_are_recovered():
    """The paper's second analytic case (equations 99 and 100)."""
    X = np.tanh(correlated_rows(10_000, 3, correlation=0.5, seed=10))

    def f(X):
        x = X[:, 0]
        return (x**3 - x) / (norm.pdf(np.arctanh(x)) / (1 - x**2))

    d = legendre_anova(
        f, X, degree=10, density="legendre", density_degree=10, scaling="minmax", progress=False
    )
    truth = f(X) - f(X).mean()
    assert rms(d[0].on_rows(X)[:, 0] - truth) < 0.1 * rms(truth)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": 4}, "order"),
        ({"order": 0}, "order"),
        ({"degree": 0}, "degree"),
        ({"degree": 2.5}, "degree"),
        ({"density_degree": -1}, "density_degree"),
        ({"density_clip": 0.0}, "density_clip"),
        ({"density": "mixture"}, "density"),
        ({"scaling": "log"}, "scaling"),
        ({"scaling": {"nobody": "rank"}}, "nobody"),
        ({"selection": "cp"}, "criterion"),
        ({"sample_weight": [1.0]}, "weight"),
        ({"sample_weight": -np.ones(50)}, "weight"),
    ],
)
def test_wrong_options_are_refused(options, message):
    X = correlated_rows(50, 2)
    with pytest.raises(InvalidInputError, match=message):
        legendre_anova(X[:, 0], X, progress=False, **options)


def test_wrong_data_are_refused():
    X = correlated_rows(50, 2)
    # Missing values have a level of their own, but for densities.
    for bad, density in ((np.nan, "legendre"), (np.nan, "kernel"), (np.inf, "none")):
        wrong = X.copy()
        wrong[3, 1] = bad
        with pytest.raises(InvalidInputError, match="x1"):
            legendre_anova(X[:, 0], wrong, density=density, progress=False)
    d = legendre_anova(X[:, 0], X, degree=2, progress=False)
    with pytest.raises(InvalidInputError, match="x0"):
        d[0].on_rows(np.array([[np.nan, 0.0]]))
    with pytest.raises(InvalidInputError, match="one value per row"):
        legendre_anova(X[:20, 0], X, progress=False)
    with pytest.raises(InvalidInputError, match="NaN"):
        legendre_anova(np.full(50, np.nan), X, progress=False)
    with pytest.raises(InvalidInputError, match="numbers"):
        legendre_anova(np.array(["a"] * 50), X, progress=False)
    with pytest.raises(InvalidInputError, match="more rows than columns"):
        legendre_anova(X[:, 0], X, degree=10, progress=False)
