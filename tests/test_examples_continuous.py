"""The continuous closed form's examples: formulas, recovered components, and that they run."""

import runpy
import sys

import numpy as np
import pytest
from scipy.integrate import dblquad, quad

from examples import paper_continuous as paper
from examples import paper_continuous_analytical as analytical
from examples import paper_continuous_nam as nam
from examples.data import REPOSITORY
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
    assert as_paper[2] == pytest.approx(max_correlation, abs=0.02)
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
