"""The continuous closed form's examples: formulas, recovered components, and that they run."""

import itertools
import runpy
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import dblquad, quad

import treepurify as tp
from examples import paper_continuous as paper
from examples import paper_continuous_analytical as analytical
from examples import paper_continuous_analytical_methods as methods
from examples import paper_continuous_dropout as dropout
from examples import paper_continuous_models as models
from examples import paper_continuous_nam as nam
from examples.data import REPOSITORY
from examples.paper_continuous_geometry import dependent_rows, geometry, smooth_part
from examples.paper_continuous_max_correlation import pair_correlations
from examples.paper_continuous_perceptron import Perceptron, deep_shap
from tests.cases import data_path


def test_bounded_case_is_hierarchically_orthogonal_by_quadrature():
    case = analytical.BOUNDED

    def components(x, y):
        return analytical.truth(case, np.array([[x, y, 0.0]]))

    def mean(function):
        return dblquad(
            lambda y, x: function(components(x, y)) * case.pair_density(x, y), -1, 1, -1, 1
        )[0]

    assert mean(lambda c: c[0, 1][0]) == pytest.approx(0.0, abs=1e-8)
    assert mean(lambda c: c[0, 1][0] * c[0,][0]) == pytest.approx(0.0, abs=1e-8)
    assert mean(lambda c: c[0, 1][0] * c[1,][0]) == pytest.approx(0.0, abs=1e-8)
    assert mean(lambda c: c[0, 1][0] ** 2) > 0.01


def test_unbounded_densities_have_mass_one():
    tails = np.tanh(6.0)
    assert quad(analytical.tanh_density, -tails, tails)[0] == pytest.approx(1.0, abs=1e-6)
    for x in (-0.5, 0.8):
        margin = quad(lambda y, x=x: analytical.tanh_pair_density(x, y), -tails, tails, limit=200)[
            0
        ]
        assert margin == pytest.approx(analytical.tanh_density(np.array(x)), rel=1e-5)


@pytest.mark.parametrize("case", [analytical.BOUNDED, analytical.UNBOUNDED], ids=lambda c: c.name)
def test_samples_have_the_densities(case):
    X = case.sample(40_000, np.random.default_rng(3))
    assert X.shape == (40_000, 3)
    edges = np.linspace(-0.9, 0.9, 5)
    counts = np.histogram2d(X[:, 0], X[:, 2], bins=[edges, edges])[0] / len(X)
    for i in range(4):
        for j in range(4):
            mass = dblquad(
                lambda y, x: case.pair_density(x, y), edges[i], edges[i + 1], edges[j], edges[j + 1]
            )[0]
            assert counts[i, j] == pytest.approx(mass, abs=4 * np.sqrt(mass / len(X)))


def test_components_of_the_bounded_case_are_recovered():
    found = analytical.recovered(analytical.BOUNDED)
    rng = np.random.default_rng(7)
    new = analytical.BOUNDED.sample(5000, rng)
    true = analytical.truth(analytical.BOUNDED, new)
    for d, most in zip(found.values(), (0.06, 0.025, 0.05), strict=True):
        errors = analytical.errors(true, analytical.evaluate(d, new), slice(None))
        assert max(errors) < most
    for route in analytical.ROUTES[1:]:
        assert found[route].diagnostics["fit"]["f"]["max_correlation"] < 1e-8
    table = analytical.recovery_table(8, analytical.BOUNDED, found, 10_000)
    assert len(table.entries) == 2 * len(analytical.ROUTES)


def test_pictures_of_the_curves(tmp_path):
    pytest.importorskip("matplotlib")
    X = analytical.BOUNDED.sample(2000, np.random.default_rng(0))
    found = {"own": analytical.recover(analytical.BOUNDED, X, analytical.ROUTES[1])}
    analytical.draw_curves(analytical.BOUNDED, found, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 10_000


def test_diabetes_as_good_as_the_paper():
    pytest.importorskip("xgboost")
    data_path("pima_diabetes")
    task = paper.read_task("pima_diabetes")
    entry, explained = paper.model_entry("pima_diabetes", "XGB", task, [42])
    _, r_squared, max_correlation, _ = entry.paper
    as_paper, unnormalised, own = (entry.ours[route] for route in (*paper.PAPER_ROUTES, "own"))
    assert as_paper[1] >= r_squared - 0.01
    assert unnormalised[1] >= r_squared - 0.01
    # The less the better: newer releases of the library grow trees with a smaller one.
    assert as_paper[2] <= max_correlation + 0.02
    # Densities that are closer to the rows need fewer terms, and the criterion keeps fewer.
    assert own[1] > 0.8
    assert own[2] < 1e-8
    np.testing.assert_allclose(explained.function(task.X.to_numpy()), explained.values)


def test_additive_network_is_a_sum_of_its_curves():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 3))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2
    network = nam.train(
        X[:1000], y[:1000], X[1000:], y[1000:], is_binary=False, seed=0, most_epochs=150
    )
    values = network.values(X[1000:])
    assert 1 - np.var(values - y[1000:]) / np.var(y[1000:]) > 0.9
    np.testing.assert_allclose(values, network.constant + network.curves(X[1000:]).sum(axis=1))
    # Moving another feature leaves a curve where it is.
    moved = X[1000:].copy()
    moved[:, 1] += 1
    np.testing.assert_array_equal(network.curves(moved)[:, 0], network.curves(X[1000:])[:, 0])


def test_gradients_of_dropout_are_those_of_the_loss():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    parameters = [p.astype(np.float64) for p in dropout._first_parameters(3, rng)]
    direction = [rng.normal(size=p.shape) for p in parameters]

    def penalised_loss(step):
        own = [p + step * d for p, d in zip(parameters, direction, strict=True)]
        draws, layer = np.random.default_rng(7), X
        for weights, offsets in zip(own[0:-2:2], own[1:-2:2], strict=True):
            layer = np.maximum(layer @ weights + offsets, 0)
            layer *= draws.random(layer.shape, dtype=np.float32) >= dropout.DROPOUT
            layer /= 1 - dropout.DROPOUT
        values = (layer @ own[-2] + own[-1])[:, 0]
        penalty = sum((p**2).sum() for p in own)
        return np.mean((values - y) ** 2) + dropout.WEIGHT_DECAY / 2 * penalty

    gradients = dropout._gradients(parameters, X, y, np.random.default_rng(7), is_binary=False)
    slope = sum((g * d).sum() for g, d in zip(gradients, direction, strict=True))
    numeric = (penalised_loss(1e-6) - penalised_loss(-1e-6)) / 2e-6
    assert slope == pytest.approx(numeric, rel=1e-3)


def test_training_with_dropout_keeps_epochs_and_ends_early():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=1500)
    trained = dropout.train(
        X[:1200], y[:1200], X[1200:], y[1200:], is_binary=False, seed=0, keep=(1, 3, 10_000)
    )
    assert sorted(trained.at) == [1, 3]
    assert trained.last_epoch == trained.best_epoch + dropout.PATIENCE < dropout.MOST_EPOCHS
    losses = [
        np.mean((network.values(X[1200:]) - y[1200:]) ** 2)
        for network in (trained.at[1], trained.at[3], trained.best)
    ]
    assert losses[0] > losses[1] > losses[2]
    # The noise has a variance of 0.09.
    assert losses[2] < 0.13


def test_perceptrons_with_dropout_are_explained_in_the_units_of_the_target():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(600, 2)) * [1, 50] + [0, 300], columns=["a", "b"])
    y = 1000 + 10 * X["a"].to_numpy() + 0.2 * X["b"].to_numpy()
    task = models.Task(X, y, is_binary=False)
    at, best, best_epoch = models.with_dropout(task, 0, (2,), most_epochs=60)
    assert best_epoch > 2
    assert at[2].performance < best.performance
    assert best.performance > 0.95
    assert abs(best.values.mean() - y.mean()) < 0.2 * y.std()


def test_distance_without_the_largest_differences():
    true = np.linspace(-1, 1, 100)
    found = true + 5.0
    found[:3] += 1e6
    assert methods.distance(found, true) > 1e5
    assert methods.distance(found, true, 0.05) == pytest.approx(0.0)
    assert methods.distance(found, true, 0.02) > 1e4


def test_recovery_over_samples_has_the_figure_among_them():
    found = analytical.recovered(analytical.BOUNDED, 1500)
    figure = analytical.recovery_table(8, analytical.BOUNDED, found, 1500)
    only = analytical.seeds_table({8: analytical.BOUNDED}, [analytical.FIGURE_SEED], 1500)
    pairs = [entry.ours["ours"][3] for entry in figure.entries]
    assert [entry.ours["ours"][0] for entry in only.entries] == pytest.approx(pairs)


def test_example_says_what_it_leaves_out(monkeypatch, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("TREEPURIFY_DATA", str(tmp_path))
    arguments = ["--data", "pima_diabetes", "--store", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", ["paper_continuous.py", *arguments])
    paper.main()
    assert "left out: " in capsys.readouterr().out


def test_gallery_example_converges(capsys):
    pytest.importorskip("xgboost")
    plt = pytest.importorskip("matplotlib.pyplot")
    path = REPOSITORY / "examples" / "compare" / "plot_legendre_converges.py"
    names = runpy.run_path(str(path))
    plt.close("all")
    distances = np.array(list(names["distances"].values()))
    assert np.all(distances[-1] < distances[0])
    largest = int(np.argmax(names["sizes"]))
    assert distances[-1, largest] < 0.05 * names["sizes"][largest]
    assert "degree" in capsys.readouterr().out


def random_perceptron(rng, sizes=(4, 16, 8, 1)):
    weights = tuple(rng.normal(size=shape) for shape in itertools.pairwise(sizes))
    return Perceptron(weights, tuple(rng.normal(size=size) for size in sizes[1:]))


def test_deep_shap_adds_up_and_is_exact_for_a_linear_network():
    rng = np.random.default_rng(0)
    rows, background = rng.normal(size=(30, 4)), rng.normal(size=(11, 4))
    network = random_perceptron(rng)
    # A background row itself, too: nothing changes there, and ratios are slopes.
    rows[0] = background[0]
    values = deep_shap(network, rows, background)
    gap = network.values(rows) - network.values(background).mean()
    np.testing.assert_allclose(values.sum(axis=1), gap, atol=1e-12)
    linear = random_perceptron(rng, (4, 1))
    centred = rows - background.mean(axis=0)
    np.testing.assert_allclose(
        deep_shap(linear, rows, background), centred * linear.weights[0][:, 0], atol=1e-12
    )


def test_deep_shap_is_that_of_shap_in_pytorch():
    torch, shap = pytest.importorskip("torch"), pytest.importorskip("shap")
    rng = np.random.default_rng(1)
    rows, background = rng.normal(size=(30, 4)), rng.normal(size=(11, 4))
    network = random_perceptron(rng)
    parts = []
    for weights, offsets in zip(network.weights, network.offsets, strict=True):
        layer = torch.nn.Linear(*weights.shape).double()
        layer.weight.data = torch.tensor(weights.T.copy())
        layer.bias.data = torch.tensor(offsets)
        parts += [layer, torch.nn.ReLU()]
    explainer = shap.DeepExplainer(torch.nn.Sequential(*parts[:-1]), torch.tensor(background))
    theirs = explainer.shap_values(torch.tensor(rows), check_additivity=False)
    np.testing.assert_allclose(
        deep_shap(network, rows, background), np.squeeze(theirs, axis=-1), atol=1e-12
    )


def test_network_in_the_units_of_its_rows():
    rng = np.random.default_rng(2)
    network, rows = random_perceptron(rng), rng.normal(size=(20, 4))
    centre, spread = rng.normal(size=4), rng.uniform(0.5, 2.0, size=4)
    own = network.in_units_of(centre, spread, 3.0, 2.0).values(rows)
    np.testing.assert_allclose(own, 3.0 + 2.0 * network.values((rows - centre) / spread))


def test_pairs_with_one_per_cent_of_the_variance_decide_max_correlation():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, size=(1500, 3))
    X[:, 1] += 0.5 * X[:, 0]
    values = X[:, 0] + X[:, 1] + 0.5 * X[:, 0] * X[:, 1] + 0.3 * X[:, 1] * X[:, 2]
    settings = {"density": "legendre", "orthogonal": False, "progress": False}
    d = tp.legendre_anova(values, X, degree=3, **settings)
    pairs = pair_correlations(d, X, float(values.var()))
    largest = max(correlation for share, correlation in pairs.values() if share >= 0.01)
    assert largest == pytest.approx(d.diagnostics["fit"]["f"]["max_correlation"])
    assert largest > 1e-3


def test_geometry_is_that_of_derivatives():
    X = np.random.default_rng(0).uniform(-0.9, 0.9, (2000, 3))

    def ridge(rows):
        return np.sin(rows @ np.array([1.0, 2.0, -2.0]))

    found = geometry(ridge, X)
    np.testing.assert_allclose(found.shares, [1, 0, 0], atol=1e-9)
    np.testing.assert_allclose(np.abs(found.direction), np.array([1, 2, 2]) / 3, atol=1e-6)
    inner = X @ np.array([1.0, 2.0, -2.0])
    assert found.rising == np.mean(np.cos(inner) > 0)
    assert found.mixed == pytest.approx(np.sqrt(np.mean((2 * np.sin(inner)) ** 2)), rel=2e-3)


def test_the_closed_form_has_the_geometry_of_the_function():
    X = dependent_rows(2000, np.random.default_rng(0))

    def f(rows):
        return rows[:, 0] * rows[:, 1] + rows[:, 2]

    d = tp.legendre_anova(f, X, degree=3, scaling="minmax", progress=False)
    inside = X[(np.abs(X) < 0.9).all(axis=1)]  # beyond the last rows the closed form is constant
    own, true = geometry(smooth_part(d), inside), geometry(f, inside)
    np.testing.assert_allclose(own.shares, true.shares, atol=1e-6)
    assert own.mixed == pytest.approx(1.0, abs=1e-6)
