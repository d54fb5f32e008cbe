"""Components of least norm, for rows that leave effects open, against dense truths and trees."""

import warnings
from itertools import combinations

import numpy as np
import pytest
from scipy.linalg import null_space
from sklearn.ensemble import GradientBoostingRegressor
from xgboost import XGBRegressor

import treepurify as tp
from tests.engines.categorical.test_anova import quiet
from treepurify.engines.categorical import routes
from treepurify.engines.categorical.least_norm import _terms
from treepurify.engines.categorical.observations import observe
from treepurify.errors import (
    ConvergenceWarning,
    InvalidInputError,
    MemoryBudgetError,
    SupportWarning,
)


def correlated_rows(n_rows, n_features, seed=0):
    """Continuous features, each half of what it shares with the others."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_rows, n_features)) + rng.normal(size=(n_rows, 1))


def boosted(X, n_trees, seed=0, **options):
    target = X[:, 0] * X[:, 1] + np.sin(2 * X[:, -1]) + np.abs(X[:, -2])
    model = GradientBoostingRegressor(n_estimators=n_trees, max_depth=2, random_state=seed)
    return model.set_params(**options).fit(X, target)


@pytest.fixture(scope="module")
def open_case():
    """A model on its own cells, of which there are many more than the 400 rows can tell apart."""
    X = correlated_rows(400, 6)
    model = boosted(X, 60)
    return model, X, tp.purify(model, X, weights="empirical", progress=False)


def squares(d, order):
    return sum(float(c.variance[0]) for s, c in d.components.items() if len(s) == order)


def test_a_model_on_its_own_cells_is_fitted_though_the_rows_leave_its_effects_open(open_case):
    model, X, purified = open_case
    with pytest.warns(SupportWarning, match="determine none of the 21 effects") as caught:
        d = quiet(model, X, order=2)
    assert caught[0].filename == __file__.replace("test_least_norm", "test_anova")
    margin = model.predict(X)
    assert d.diagnostics["fit"]["margin"]["r_squared"] == pytest.approx(1.0, abs=1e-12)
    fitted = d.intercept[0] + sum(c.on_rows(X)[:, 0] for c in d.components.values())
    np.testing.assert_allclose(fitted, margin, atol=1e-9 * np.ptp(margin))
    assert d.certificate.solver_error < 1e-10
    assert every_pair_of_cells(d) < 1e-10
    report = d.diagnostics["identifiability"]
    assert report["determined_terms"] == []
    assert d.certificate.unidentified == report["n_rejected"] > 400
    # The purified trees are another solution, so their pairs are no smaller.
    assert squares(d, 2) <= squares(purified, 2)
    difference = tp.compare(purified, d, X).terms
    assert difference["distance"].max() < 0.5 * difference["deviation_first"].max()


def every_pair_of_cells(d):
    """Largest mean of a component given one feature less, over its own cells."""
    found = 0.0
    for subset, component in d.components.items():
        weighted = component.mass[..., None] * component.values
        found = max([found, *(np.abs(weighted.sum(axis=k)).max() for k in range(len(subset)))])
    return found


def failing_case():
    """Bins whose first independent functions depend on each other up to rounding."""
    X = correlated_rows(710, 8)
    return boosted(X, 60).predict, X


def test_selection_in_order_says_that_it_failed():
    f, X = failing_case()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        d = quiet(f, X, order=2, bins=8, selection="greedy")
    assert {w.category for w in caught} == {SupportWarning, ConvergenceWarning}
    assert all('selection="least-norm"' in str(w.message) for w in caught)
    assert d.certificate.solver_error >= 1e-10
    assert d.diagnostics["selection"]["amplification"] > 1e8


def test_where_the_first_functions_fail_those_of_least_norm_do_not():
    f, X = failing_case()
    with pytest.warns(SupportWarning, match="smallest solution"):
        d = quiet(f, X, order=2, bins=8)
    assert d.certificate.solver_error < 1e-10
    assert d.diagnostics["fit"]["f"]["r_squared"] > 0.9
    assert d.diagnostics["identifiability"]["inflation"] < 2


@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("library", ["function", "sklearn", "xgboost"])
def test_effects_that_the_rows_hardly_determine_do_not_cancel(library, order):
    X = np.random.default_rng(0).normal(size=(600, 8))
    model = lambda rows: np.tanh(rows[:, 0] * rows[:, 1]) + 0.7 * np.sin(rows[:, 2])
    if library == "sklearn":
        model = boosted(X, 60).predict
    elif library == "xgboost":
        model = XGBRegressor(n_estimators=60, max_depth=2).fit(X, model(X)).predict
    with pytest.warns(SupportWarning, match="smallest solution"):
        d = quiet(model, X, order=order, bins=10)
    assert d.diagnostics["identifiability"]["inflation"] < 2
    deviation = np.std(model(X))
    assert max(np.abs(c.values).max() for c in d.components.values()) < 5 * deviation
    assert "do not determine all effects: this is the smallest of many solutions." in repr(d)
    assert "The data cannot separate " in d.certificate.details()[1]
    first = quiet(model, X, order=order, bins=10, selection="greedy", rank=500)
    assert "do not determine all effects: this is one of many solutions." in repr(first)


def test_many_more_functions_than_rows_are_refused_before_they_are_selected(monkeypatch):
    X = np.random.default_rng(0).normal(size=(600, 8))
    f = lambda rows: rows[:, 0] * rows[:, 1]
    monkeypatch.setattr(routes, "_MOST_OPERATIONS", 1e8)
    monkeypatch.setattr(routes, "select_in_order", None)
    with pytest.raises(InvalidInputError, match=r"600 distinct rows cannot .* Pass order=1, fewer"):
        quiet(f, X, order=4, bins=10)
    with pytest.raises(InvalidInputError, match="Pass fewer bins, or a rank"):
        quiet(f, X, order=4, bins=100)
    monkeypatch.undo()
    monkeypatch.setattr(routes, "_MOST_OPERATIONS", 1e3)
    # Levels that determine others are many candidates, but few functions.
    city = np.arange(600) % 30
    nested = np.column_stack([city, city // 2, city // 4, np.arange(600) // 30])
    d = quiet(lambda rows: rows[:, 0] + rows[:, 3], nested, order=2)
    assert d.r_squared(nested)[0] == pytest.approx(1.0)
    with pytest.warns(SupportWarning, match="nearly collinear"):
        quiet(f, X[:, :4], order=2, bins=12)


def test_a_rank_that_was_asked_for_is_kept_and_the_failure_said():
    f, X = failing_case()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        d = quiet(f, X, order=2, bins=8, rank=700)
    assert SupportWarning in {w.category for w in caught}
    assert d.diagnostics["identifiability"]["rank"] == 700


@pytest.mark.parametrize("selection", ["auto", "greedy", "least-norm"])
@pytest.mark.parametrize("seed", range(3))
def test_where_the_rows_determine_all_effects_they_are_those_of_the_purified_trees(seed, selection):
    X = correlated_rows(700, 3, seed)
    # Few cuts a feature: cells are missing, but the rows outnumber the functions.
    model = boosted(X, 8, seed, max_leaf_nodes=3)
    purified = tp.purify(model, X, weights="empirical", progress=False)
    d = quiet(model, X, order=2, selection=selection)
    assert d.diagnostics["identifiability"]["unique"] or selection != "least-norm"
    compared = tp.compare(purified, d, X)
    assert compared.terms["distance"].max() < 1e-9 * compared.terms["deviation_first"].max()
    assert set(purified.components) <= set(d.components)


def test_the_effects_that_are_determined_are_those_of_the_purified_trees():
    rng = np.random.default_rng(4)
    # x1 is a function of x0; both are independent of the others, which lack some cells.
    first = np.array([[i, i // 2] for i in range(4)])
    last = rng.integers(0, 4, size=(60, 2))
    last = last[last.sum(axis=1) < 6]
    X = np.hstack([np.repeat(first, len(last), axis=0), np.tile(last, (4, 1))]).astype(float)
    free = X + rng.integers(0, 2, size=X.shape)
    target = free[:, 0] * free[:, 2] - free[:, 1] * free[:, 3] + np.sin(free[:, 2] * free[:, 3])
    model = GradientBoostingRegressor(n_estimators=40, max_depth=2, random_state=0)
    model.fit(free, target)
    purified = tp.purify(model, X, weights="empirical", progress=False)
    d = quiet(model, X, order=2, selection="least-norm")
    assert d.diagnostics["identifiability"]["determined_terms"] == ["x2", "x3", "x2 & x3"]
    terms = tp.compare(purified, d, X).terms.set_index("term")
    assert terms.loc[["x2", "x3", "x2 & x3"], "distance"].max() < 1e-9
    assert terms["distance"].max() > 1e-2


def pure_functions(codes, root, subset):
    """Functions of `subset` on the points times the roots of their masses, by a null space."""
    cells, cell = np.unique(codes[:, subset], axis=0, return_inverse=True)
    inside = root[:, None] * (cell.reshape(-1)[:, None] == np.arange(len(cells)))
    mass = (inside**2).sum(axis=0)
    lower = [np.ones((1, len(cells)))]
    for k in range(len(subset)):
        rest = np.unique(np.delete(cells, k, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
        lower.append((rest == np.arange(rest.max() + 1)[:, None]).astype(float))
    return inside / np.sqrt(mass) @ null_space(np.vstack(lower) * np.sqrt(mass))


def dense_least_norm(codes, mass, values, order):
    """The definition: by size from above, least norm of what smaller sizes do not explain."""
    root = np.sqrt(mass)
    sizes = [
        {s: pure_functions(codes, root, s) for s in combinations(range(codes.shape[1]), size)}
        for size in range(1, order + 1)
    ]
    stacks = [np.hstack(list(own.values())) for own in sizes]
    rest = root[:, None] * values
    found = {}
    for k in range(order - 1, -1, -1):
        lower = np.hstack([root[:, None], *stacks[:k]])
        off = stacks[k] - lower @ (np.linalg.pinv(lower, rcond=1e-9) @ stacks[k])
        weights = np.linalg.pinv(off, rcond=1e-9) @ rest
        ends = np.cumsum([own.shape[1] for own in sizes[k].values()])[:-1]
        for (subset, own), part in zip(sizes[k].items(), np.split(weights, ends), strict=True):
            found[subset] = own @ part / root[:, None]
        rest = rest - stacks[k] @ weights
    every = {s: own for level in sizes for s, own in level.items()}
    free = null_space(np.hstack([root[:, None], *every.values()]), rcond=1e-9)
    ends = np.cumsum([1, *(own.shape[1] for own in every.values())])
    parts = zip(every, ends[:-1], ends[1:], strict=True)
    moving = {s: np.abs(free[a:b]).max(initial=0.0) for s, a, b in parts}
    determined = {s for s, largest in moving.items() if largest < 1e-9 and every[s].size}
    return found, determined, free.shape[1]


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_least_norm_is_what_it_says(seed, order):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, size=(int(rng.integers(12, 60)), 4))
    X[:, 3] = np.where(rng.random(len(X)) < 0.8, X[:, 0] % 2, X[:, 3])
    points = np.unique(X, axis=0)
    mass = rng.dirichlet(np.full(len(points), 2.0))
    values = rng.normal(size=(len(points), 2))
    d = quiet(values, points, order=order, sample_weight=mass, selection="least-norm")
    # Where smaller terms explain all functions of the rows, the largest are not tried.
    order = max(map(len, d.components))
    truth, determined, n_free = dense_least_norm(points, mass, values, order)
    for subset, expected in truth.items():
        found = d.components[subset].on_rows(points) if subset in d.components else 0.0
        np.testing.assert_allclose(found, expected, atol=1e-9)
    report = d.diagnostics["identifiability"]
    assert set(report["determined_terms"]) == {d.term_name(s) for s in determined}
    assert (report["n_rejected"], report["unique"]) == (n_free, n_free == 0)
    assert d.certificate.solver_error < 1e-10


@pytest.mark.parametrize("size", [None, 30])
def test_projections_are_added_without_the_functions_that_they_are_on(size):
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 6, size=(3, 700)).astype(np.uint8)
    rows = observe(codes, rng.normal(size=(700, 1)), None, (6, 6, 6))
    n_points = rows.n_points
    span = None if size is None else np.linalg.qr(rng.normal(size=(n_points, size)))[0]
    for subset in [(1,), (0, 2), (0, 1, 2)]:
        (term,) = _terms(rows, [subset], None, 1 << 30, lambda *_: None)
        total = np.ones((size or n_points,) * 2)
        term.add_projection(span, total)
        functions = pure_functions(rows.codes.T, np.sqrt(rows.mass), subset)
        own = functions if span is None else span.T @ functions
        np.testing.assert_allclose(total, 1.0 + own @ own.T, atol=1e-12)


def test_least_norm_prefers_no_feature(open_case):
    model, X, _ = open_case
    values = model.predict(X)
    bins = 8
    turn = np.array([3, 0, 5, 1, 4, 2])
    a = quiet(values, X, order=2, bins=bins, selection="least-norm")
    b = quiet(values, X[:, turn], order=2, bins=bins, selection="least-norm")
    assert a.diagnostics["identifiability"]["n_rejected"] > 0
    for subset, component in b.components.items():
        theirs = tuple(sorted(int(turn[j]) for j in subset))
        expected = a.components[theirs].on_rows(X)
        np.testing.assert_allclose(component.on_rows(X[:, turn]), expected, atol=1e-9)


def test_many_rows_of_few_functions():
    """The span has far fewer dimensions than there are rows."""
    rng = np.random.default_rng(5)
    X = rng.integers(0, 4, size=(2000, 5))
    X = X[X[:, 0] >= X[:, 1]]
    values = rng.normal(size=len(X))
    d = quiet(values, X, order=2, selection="least-norm")
    first = quiet(values, X, order=2)
    assert (
        2 * d.diagnostics["identifiability"]["rank"] < d.diagnostics["identifiability"]["support"]
    )
    assert d.diagnostics["identifiability"]["unique"]
    assert first.diagnostics["method"] == "Gram system"
    for subset, component in d.components.items():
        np.testing.assert_allclose(component.values, first.components[subset].values, atol=1e-10)
    assert d.remainder.variance[0] == pytest.approx(first.remainder.variance[0])


def test_what_cannot_be_used_is_refused(open_case):
    model, X, _ = open_case
    with pytest.raises(InvalidInputError, match="leave rank out"):
        quiet(model, X, order=2, selection="least-norm", rank=10)
    with pytest.raises(MemoryBudgetError, match="order"):
        quiet(model, X, order=2, selection="least-norm", memory_budget=4 << 20)


@pytest.mark.parametrize("selection", ["auto", "greedy", "lars", "least-norm"])
def test_every_selection_says_which_effects_the_rows_determine(selection):
    rng = np.random.default_rng(0)
    every = np.array([[a, b] for a in range(3) for b in range(3)], dtype=float)
    X = every[rng.integers(9, size=400)]
    y = X[:, 0] * X[:, 1] + X[:, 0]
    known = tp.categorical_anova(y, X, selection=selection, progress=False)
    report = known.diagnostics["identifiability"]
    assert report["unique"]
    assert set(report["determined_terms"]) >= {known.term_name(s) for s in known.components}
    twice = np.column_stack([X, X[:, 0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        open_ = tp.categorical_anova(y, twice, selection=selection, progress=False)
    report = open_.diagnostics["identifiability"]
    assert not report["unique"]
    assert (report["determined_terms"] is None) == (selection != "least-norm")
