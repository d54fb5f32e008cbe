"""The continuous closed form's examples: formulas, recovered components, and that they run."""

import runpy
import sys

import numpy as np
import pytest
from scipy.integrate import dblquad, quad

from examples import paper_continuous as paper
from examples import paper_continuous_analytical as analytical
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


def test_components_of_the_bounded_case_are_recovered(capsys):
    found = analytical.show_recovery(analytical.BOUNDED, n_rows=10_000)
    rng = np.random.default_rng(7)
    new = analytical.BOUNDED.sample(5000, rng)
    true = analytical.truth(analytical.BOUNDED, new)
    for d, most in zip(found.values(), (0.06, 0.025, 0.05), strict=True):
        errors = analytical.errors(true, analytical.evaluate(d, new), slice(None))
        assert max(errors) < most
    for route in analytical.ROUTES[1:]:
        assert found[route].diagnostics["fit"]["f"]["max_correlation"] < 1e-8
    assert "100.0%" not in capsys.readouterr().out


def test_pictures_of_the_curves(tmp_path):
    pytest.importorskip("matplotlib")
    X = analytical.BOUNDED.sample(2000, np.random.default_rng(0))
    found = {"own": analytical.recover(analytical.BOUNDED, X, analytical.ROUTES[1])}
    analytical.save_curves(analytical.BOUNDED, found, tmp_path / "pictures")
    assert (tmp_path / "pictures" / "bounded_densities.png").stat().st_size > 10_000


def test_diabetes_as_good_as_the_paper():
    pytest.importorskip("xgboost")
    data_path("pima_diabetes")
    task = paper.read_task("pima_diabetes")
    printed = paper.PAPER["pima_diabetes"]["XGB"]
    as_paper, projected, unprojected, own = paper.show_model("pima_diabetes", "XGB", task)
    assert as_paper.r_squared >= printed.r_squared - 0.01
    # Densities that are closer to the rows need fewer terms, and the criterion keeps fewer.
    assert own.r_squared > 0.8
    assert projected.r_squared == pytest.approx(as_paper.r_squared, abs=1e-12)
    assert own.r_squared == pytest.approx(unprojected.r_squared, abs=1e-12)
    assert max(projected.max_correlation, own.max_correlation) < 1e-8
    assert unprojected.max_correlation < as_paper.max_correlation


def test_example_says_what_it_leaves_out(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("TREEPURIFY_DATA", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["paper_continuous.py", "--quick"])
    monkeypatch.setattr(paper, "show_analytical", lambda runs, curves: None)
    paper.main()
    assert "left out: " in capsys.readouterr().out


def test_gallery_example_converges(capsys):
    pytest.importorskip("xgboost")
    plt = pytest.importorskip("matplotlib.pyplot")
    path = REPOSITORY / "examples" / "plot_legendre_converges.py"
    names = runpy.run_path(str(path))
    plt.close("all")
    distances = np.array(list(names["distances"].values()))
    assert np.all(distances[-1] < distances[0])
    largest = int(np.argmax(names["sizes"]))
    assert distances[-1, largest] < 0.05 * names["sizes"][largest]
    assert "degree" in capsys.readouterr().out
