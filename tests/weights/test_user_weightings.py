"""A weighting that a user writes is asked the same as ours, by every engine."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import treepurify as tp
from tests.reference.ensembles import random_ensemble
from treepurify.weights.distributions import FittedMeasure

PAGE = Path(__file__).resolve().parents[2] / "docs" / "extending.md"


@dataclass(frozen=True)
class Mixed(tp.weights.Weighting):
    """Some of the rows' own distribution, the rest of it a product."""

    share: float
    rest: tp.weights.Weighting
    name: ClassVar[str] = "mixed"
    needs_rows: ClassVar[bool] = True

    @property
    def share_of_rows(self):
        return self.share

    @property
    def beside_rows(self):
        return self.rest

    def tables(self, grid, rows, subsets):
        first = tp.weights.Empirical().tables(grid, rows, subsets)
        second = self.rest.tables(grid, rows, subsets)
        return {s: self.share * first[s] + (1 - self.share) * second[s] for s in subsets}


@dataclass(frozen=True)
class Edges(tp.weights.Weighting):
    """Independent features, the first and the last cell of each counting threefold."""

    name: ClassVar[str] = "edges"
    is_product: ClassVar[bool] = True

    def tables(self, grid, rows, subsets):
        tables = {}
        for subset in subsets:
            table = np.ones(())
            for j in subset:
                margin = np.ones(grid.axes[j].n_cells)
                margin[[0, -1]] = 3.0
                table = np.multiply.outer(table, margin / margin.sum())
            tables[subset] = table
        return tables


def scene(depth=2, n_rows=2000, seed=0):
    rng = np.random.default_rng(seed)
    ensemble = random_ensemble(rng, n_features=4, n_trees=15, depth=depth, n_outputs=1)
    return ensemble, rng.normal(size=(n_rows, 4)) + 0.7 * rng.normal(size=(n_rows, 1))


def assert_same_effects(first, second, atol=1e-8):
    assert set(first) >= set(second)
    np.testing.assert_allclose(first.intercept, second.intercept, atol=atol)
    for subset in second:
        filled = second[subset].mass > 0
        np.testing.assert_allclose(
            first[subset].values[filled], second[subset].values[filled], atol=atol
        )


def tempered():
    """The class that docs/extending.md prints."""
    text = PAGE.read_text(encoding="utf-8")
    block = next(
        block
        for block in re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
        if "tp.weights.Weighting" in block
    )
    printed: dict = {"__name__": "page"}
    exec(compile(block, "docs/extending.md", "exec"), printed)
    return printed


def test_the_weighting_of_the_page_works_in_purify_and_hooker():
    printed = tempered()
    own = printed["Tempered"](0.3)
    d = tp.purify(printed["model"], printed["X"], weights=own)
    assert d.measure == "tempered, power 0.3"
    assert d.certificate.is_exact
    fitted = tp.hooker_anova(printed["model"], printed["X"], weights=own)
    assert fitted.measure == d.measure
    assert_same_effects(fitted, d, atol=1e-6)
    called = tp.hooker_anova(printed["model"].predict, printed["X"], weights=own)
    assert called.diagnostics["fit"]["drawn"] == 20_000
    assert called.diagnostics["fit"]["r_squared"][0] > 0.999


def test_all_power_one_is_the_empirical_measure():
    printed = tempered()
    first = tp.purify(printed["model"], printed["X"], weights=printed["Tempered"](1.0))
    assert_same_effects(first, tp.purify(printed["model"], printed["X"], weights="empirical"))


@pytest.mark.parametrize("rest", [tp.weights.Independent(), tp.weights.Uniform()])
def test_a_mixture_is_projected_and_sampled(rest):
    model, X = scene()
    own = Mixed(0.7, rest)
    exact = tp.purify(model, X, weights=own)
    projected = tp.purify(model, X, weights=own, method="projection")
    assert_same_effects(projected, exact, atol=1e-6)
    fitted = tp.hooker_anova(model, X, weights=own)
    assert fitted.diagnostics["fit"]["drawn"] == 20_000
    assert_same_effects(fitted, exact, atol=1e-6)


def test_a_mixture_with_the_uniform_measure_is_ours():
    model, X = scene(depth=4)
    for method in ("projection", "auto"):
        own = tp.purify(model, X, weights=Mixed(0.7, tp.weights.Uniform()), method=method)
        ours = tp.purify(model, X, weights=tp.weights.Laplace(0.3), method=method)
        assert own.diagnostics["method"] == ours.diagnostics["method"]
        assert_same_effects(own, ours)
    own = tp.hooker_anova(model, X, weights=Mixed(0.7, tp.weights.Uniform()))
    assert_same_effects(own, tp.hooker_anova(model, X, weights=tp.weights.Laplace(0.3)))


def test_a_product_measure_opens_the_closed_form():
    model, X = scene(depth=4)
    closed = tp.purify(model, X, weights=Edges())
    assert closed.diagnostics["method"] == "closed-form"
    assert_same_effects(closed, tp.purify(model, X, weights=Edges(), method="exact", order=2))
    indices = tp.interaction_indices(model, X, weights=Edges())
    np.testing.assert_allclose(
        indices.variance_by_order[0, 0],
        sum(closed[(j,)].variance[0] for j in range(4) if (j,) in closed.components),
    )
    assert tp.hooker_anova(model, X, weights=Edges()).measure == "edges"


def test_points_are_drawn_from_a_joint_table():
    X = np.random.default_rng(0).integers(0, 2, size=(300, 2)).astype(float)
    joint = tp.weights.JointTable([[0.4, 0.1], [0.1, 0.4]])

    def f(rows):
        return rows[:, 0] * rows[:, 1]

    d = tp.hooker_anova(f, X, weights=joint)
    np.testing.assert_allclose(d.intercept, 0.4, atol=1e-9)
    np.testing.assert_allclose(d.predict(X)[:], f(X)[:], atol=1e-9)


def test_a_joint_table_that_is_too_large_to_draw_from_is_refused():
    printed = tempered()
    X = np.random.default_rng(0).normal(size=(300, 10))
    with pytest.raises(
        tp.errors.InvalidInputError, match=r"cannot be drawn.*combinations of values"
    ):
        tp.hooker_anova(lambda rows: rows.sum(axis=1), X, weights=printed["Tempered"]())


def test_a_share_of_rows_needs_something_beside():
    @dataclass(frozen=True)
    class Half(Mixed):
        @property
        def beside_rows(self):
            return tp.weights.Weighting.beside_rows.fget(self)

    model, X = scene(depth=4)
    with pytest.raises(NotImplementedError, match="beside_rows"):
        tp.purify(model, X, weights=Half(0.5, tp.weights.Uniform()), method="projection")


def in_batches(X, size=500):
    return lambda: iter([X[start : start + size] for start in range(0, len(X), size)])


@dataclass(frozen=True)
class Steep(tp.weights.Weighting):
    """Rows of a positive first feature count for more."""

    name: ClassVar[str] = "steep"
    needs_rows: ClassVar[bool] = True

    def fitted(self, columns, row_weights, memory_budget):
        weights = np.where(columns.values[0] > 0, 4.0, 1.0)
        weighting = tp.weights.Empirical()
        return FittedMeasure(weighting, columns, weights / weights.sum())

    def tables(self, grid, rows, subsets):
        return tp.weights.Empirical().tables(grid, rows, subsets)


def test_weights_that_are_made_of_a_sample_are_those_of_the_measure(monkeypatch):
    model, X = scene()
    whole = tp.purify(model, X, weights=Steep())
    monkeypatch.setattr("treepurify.engines.tree.plan.MEASURE_ROWS", 1500)
    of_sample = tp.purify(model, in_batches(X), weights=Steep(), progress=False)
    plain = tp.purify(model, X, weights="empirical")
    apart = abs(whole.intercept[0] - plain.intercept[0])
    assert abs(of_sample.intercept[0] - whole.intercept[0]) < 0.2 * apart
    assert "sample of 1500 of 2000 rows" in of_sample.certificate.note
