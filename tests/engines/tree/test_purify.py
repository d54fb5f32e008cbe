"""`purify` on ensembles, end to end, against the full dense functional ANOVA."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pandas as pd
import pytest

import treepurify as tp
from tests.reference.dense import functional_anova
from tests.reference.ensembles import random_ensemble, rows_in_all_cells, values_in_cells
from tests.reference.nearest_sum import nearest_sum
from treepurify.effects.accumulate import ensemble_cuts
from treepurify.grids.grid import make_grid, place_rows
from treepurify.models.ensemble import TreeEnsemble
from treepurify.rows.table_reader import read_columns

WEIGHTINGS = {
    "empirical": tp.weights.Empirical(),
    "independent": tp.weights.Independent(),
    "laplace": tp.weights.Laplace(0.3),
    "uniform": tp.weights.Uniform(),
    "uniform by length": tp.weights.Uniform(by="length"),
    "uniform with missing": tp.weights.Uniform(missing=True),
}


def scene(seed: int = 0, *, missing: bool = False, n_rows: int = 500, n_trees: int = 25, **options):
    """A random ensemble, rows that reach every cell of its grid, and that grid."""
    rng = np.random.default_rng(seed)
    ensemble = random_ensemble(rng, n_trees=n_trees, **options)
    cells = "always" if missing else "auto"
    grid, _ = make_grid(
        None, ensemble.features, ensemble_cuts(ensemble), match_names=False, missing_cells=cells
    )
    X = rows_in_all_cells(rng, ensemble, grid, n_rows)
    X = X[rng.permutation(len(X))]
    return ensemble, X


def purify(ensemble, X, **options):
    return tp.purify(ensemble, X, **({"order": None, "progress": False} | options))


def truth(ensemble: TreeEnsemble, X, weighting, sample_weight=None):
    columns = read_columns(X, ensemble.features)
    grid, rows = make_grid(columns, ensemble.features, ensemble_cuts(ensemble), match_names=False)
    every = tuple(range(grid.n_features))
    joint = weighting.tables(grid, replace(rows, weights=sample_weight), [every])[every]
    return functional_anova(values_in_cells(ensemble, grid), joint), joint, grid


def assert_equal_components(d, expected, atol=1e-10):
    np.testing.assert_allclose(d.intercept, expected[()], atol=atol)
    for subset, values in expected.items():
        if subset in d.components:
            np.testing.assert_allclose(d.components[subset].values, values, atol=atol)
        elif subset and d.remainder is None:
            np.testing.assert_allclose(values, 0, atol=atol)


@pytest.mark.parametrize("name", WEIGHTINGS)
@pytest.mark.parametrize(
    "options",
    [
        {"n_features": 2, "depth": 2},
        {"n_features": 3, "n_categorical": 1, "depth": 3},
        {"n_features": 3, "depth": 3, "n_outputs": 2, "vector_leaves": True},
        {"n_features": 3, "depth": 2, "n_outputs": 3, "n_categorical": 2},
    ],
)
def test_equals_the_full_functional_anova(name, options):
    missing = name not in ("uniform", "uniform by length")
    ensemble, X = scene(1, missing=missing, **options)
    weighting = WEIGHTINGS[name]
    expected, _, _ = truth(ensemble, X, weighting)
    d = purify(ensemble, X, weights=weighting)
    assert_equal_components(d, expected)
    np.testing.assert_allclose(d.on_rows(X), ensemble.margin(X), atol=1e-12)
    assert d.certificate.is_exact
    assert d.measure == weighting.describe()


def test_four_features():
    ensemble, X = scene(5, n_features=4, depth=5, n_categorical=1, n_codes=2)
    weights = np.random.default_rng(0).exponential(size=len(X))
    expected, _, _ = truth(ensemble, X, tp.weights.Empirical(), weights)
    d = purify(ensemble, X, weights="empirical", sample_weight=weights)
    assert max(len(s) for s in d) == 4
    assert_equal_components(d, expected, atol=1e-9)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("name", ["empirical", "independent", "laplace"])
def test_order_keeps_the_rest_as_one_remainder(order, name):
    ensemble, X = scene(2, n_features=3, depth=3, n_outputs=2, missing=True)
    weighting = WEIGHTINGS[name]
    expected, joint, grid = truth(ensemble, X, weighting)
    values = values_in_cells(ensemble, grid)
    if name != "independent":
        cells = np.indices(joint.shape).reshape(len(joint.shape), -1).T
        nearest = nearest_sum(cells, values.reshape(len(cells), -1), order, joint.ravel())
        expected = functional_anova(nearest.reshape(values.shape), joint)
    d = purify(ensemble, X, weights=weighting, order=order)
    assert_equal_components(d, expected)
    assert all(len(subset) <= order for subset in d)
    np.testing.assert_allclose(d.on_rows(X), ensemble.margin(X), atol=1e-12)
    if order == 3:
        assert d.remainder is None
        return
    rest = values.copy()
    for subset, table in expected.items():
        if len(subset) <= order:
            own = [size if j in subset else 1 for j, size in enumerate(joint.shape)]
            rest -= table.reshape(*own, 2)
    variance = np.tensordot(joint, rest**2, axes=3)
    np.testing.assert_allclose(d.remainder.variance, variance, rtol=1e-8)
    columns = read_columns(X, grid.features)
    codes = place_rows(columns, range(grid.n_features), grid.axes).astype(int)
    np.testing.assert_allclose(d.remainder.on_rows(X), rest[tuple(codes)], atol=1e-10)


def permuted(ensemble: TreeEnsemble, order) -> TreeEnsemble:
    """The same model with its features in another order: new feature k is old `order[k]`."""
    position = np.argsort(order)
    feature = np.where(ensemble.feature >= 0, position[ensemble.feature], -1)
    return replace(
        ensemble,
        feature=feature.astype(np.int32),
        features=tuple(ensemble.features[j] for j in order),
    )


@pytest.mark.parametrize("weights", ["empirical", "uniform", "laplace"])
def test_order_of_features_does_not_matter(weights):
    # Sparse rows on purpose: empty slices and unidentified directions follow rules as well.
    ensemble, X = scene(3, n_features=3, depth=3, n_categorical=1)
    X = X[:30]
    plain = purify(ensemble, X, weights=weights)
    for order in permutations(range(3)):
        mixed = purify(permuted(ensemble, order), X[:, order], weights=weights)
        assert mixed.certificate.unidentified == plain.certificate.unidentified
        assert empty_slices(mixed) == empty_slices(plain)
        np.testing.assert_allclose(mixed.intercept, plain.intercept, atol=1e-11)
        for subset, component in mixed.components.items():
            old = [order[k] for k in subset]
            turned = plain.components[tuple(sorted(old))]
            axes = [sorted(old).index(j) for j in old]
            expected = turned.values.transpose(*axes, len(axes))
            np.testing.assert_allclose(component.values, expected, atol=1e-9)


def test_order_of_rows_does_not_matter():
    ensemble, X = scene(3, n_features=3, depth=3)
    X = X[:60]
    plain = purify(ensemble, X, weights="empirical")
    mixed = purify(ensemble, X[np.random.default_rng(0).permutation(len(X))], weights="empirical")
    for subset, component in plain.components.items():
        np.testing.assert_allclose(mixed.components[subset].values, component.values, atol=1e-11)


def test_weights_are_repeated_rows_and_zero_weights_dropped_rows():
    ensemble, X = scene(4, n_features=3, depth=3)
    repeats = np.random.default_rng(0).integers(0, 4, size=len(X))
    weighted = purify(ensemble, X, weights="empirical", sample_weight=repeats)
    repeated = purify(ensemble, np.repeat(X, repeats, axis=0), weights="empirical")
    for subset, component in repeated.components.items():
        np.testing.assert_allclose(weighted.components[subset].values, component.values, atol=1e-10)
    shares = [d.importance().set_index("effect").share for d in (weighted, repeated)]
    np.testing.assert_allclose(shares[0][shares[1].index], shares[1], atol=1e-10)


def test_counting_in_batches_equals_one_pass():
    ensemble, X = scene(6, n_features=3, depth=3, missing=True)
    weights = np.random.default_rng(0).exponential(size=len(X))
    at_once = purify(
        ensemble, X, weights="empirical", sample_weight=weights, missing_cells="always"
    )
    rows = pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(weight=weights)
    batches = (rows.iloc[part] for part in np.array_split(np.arange(len(X)), 5))
    counted = purify(ensemble, batches, weights="empirical", sample_weight="weight")
    for subset, component in at_once.components.items():
        np.testing.assert_allclose(counted.components[subset].values, component.values, atol=1e-11)


def test_a_joint_table_stands_for_the_rows_it_was_counted_from():
    ensemble, X = scene(6, n_features=3, depth=3)
    _, joint, _ = truth(ensemble, X, tp.weights.Empirical())
    given = purify(ensemble, None, weights=tp.weights.JointTable(1000 * joint))
    plain = purify(ensemble, X, weights="empirical")
    for subset, component in plain.components.items():
        np.testing.assert_allclose(given.components[subset].values, component.values, atol=1e-11)


def test_mass_moving_is_close():
    ensemble, X = scene(1, n_features=3, depth=3)
    exact, moved = (
        purify(ensemble, X, weights="empirical"),
        purify(ensemble, X, weights="empirical", method="mass-moving"),
    )
    for subset, component in exact.components.items():
        np.testing.assert_allclose(moved.components[subset].values, component.values, atol=1e-9)
    solves = moved.diagnostics["solves"]
    assert {solve["method"] for solve in solves} == {"mass-moving"}
    for solve in solves:
        assert len(solve["history"]) == len(solve["features"]) * solve["iterations"] + 1
    assert moved.diagnostics["method"] == "mass-moving"


def test_shares_of_covariance_add_up_to_one_and_equal_those_on_rows():
    ensemble, X = scene(1, n_features=3, depth=3, n_outputs=2, vector_leaves=True)
    weights = np.random.default_rng(0).exponential(size=len(X))
    for order in (1, None):
        d = purify(ensemble, X, weights="empirical", sample_weight=weights, order=order)
        table = d.importance(details=True)
        sums = table.groupby("output").share.sum()
        np.testing.assert_allclose(sums, 1, atol=1e-12)
        margin = ensemble.margin(X)
        parts = {d.term_name(s): c.on_rows(X) for s, c in d.components.items()}
        if d.remainder is not None:
            parts["remainder"] = d.remainder.on_rows(X)
        for row in table.itertuples():
            k = int(row.output.removeprefix("y"))
            own = parts[row.effect][:, k]
            covariance = np.cov(own, margin[:, k], aweights=weights, ddof=0)
            assert row.share == pytest.approx(covariance[0, 1] / covariance[1, 1], abs=1e-10)
            assert row.size**2 == pytest.approx(covariance[0, 0], rel=1e-9, abs=1e-15)


def test_shares_under_independence_are_shares_of_variance():
    ensemble, X = scene(1, n_features=3, depth=3)
    table = purify(ensemble, X, weights="independent").importance()
    squares = table["size"] ** 2
    np.testing.assert_allclose(table["share"], squares / squares.sum(), atol=1e-12)


def test_no_share_of_covariance_without_a_joint_distribution():
    ensemble, X = scene(1, n_features=3, depth=3)
    assert purify(ensemble, X, weights="laplace").importance().share.isna().all()


def empty_slices(d):
    """Return how many slices have no mass, where what is moved is a convention."""
    return sum(solve["empty_slices"] for solve in d.diagnostics.get("solves", ()))


def test_certificate_equals_what_can_be_computed_from_outside():
    ensemble, X = scene(7, n_features=3, depth=3, n_outputs=2)
    X = X[:150]
    d = purify(ensemble, X, weights="empirical", method="exact")
    c = d.certificate
    raw = [
        np.abs(component.raw).max()
        for component in d.components.values()
        if component.raw is not None
    ]
    assert c.scale == pytest.approx(max(*raw, np.abs(d.intercept).max()))
    rows = np.abs(d.on_rows(X) - ensemble.margin(X)).max()
    assert rows / c.scale <= c.additivity + 1e-15 <= 1e-12
    largest_mean = largest_cosine = 0.0
    for subset, component in d.components.items():
        for inside in (s for s in [(), *d.components] if set(s) < set(subset)):
            dropped = tuple(k for k, j in enumerate(subset) if j not in inside)
            total = (component.mass[..., None] * component.values).sum(axis=dropped)
            margin = component.mass.sum(axis=dropped)
            means = total[margin > 0] / margin[margin > 0][..., None]
            largest_mean = max(largest_mean, np.abs(means).max())
            if inside:
                other = d.components[inside]
                products = (total * other.values).reshape(-1, 2).sum(axis=0)
                norms = np.sqrt([component.variance, other.variance])
                real = (norms > 1e-9 * c.scale).all(axis=0)
                norms = norms.prod(axis=0)
                cosines = np.abs(products[real] / norms[real])
                largest_cosine = max(largest_cosine, cosines.max(initial=0.0))
    assert c.conditional_mean == pytest.approx(largest_mean / c.scale, rel=1e-6, abs=1e-16)
    assert c.cosine == pytest.approx(largest_cosine, rel=1e-3, abs=1e-16)
    assert empty_slices(d) == sum(
        int((component.mass.sum(axis=axis) == 0).sum())
        for component in d.components.values()
        if component.mass.ndim > 1
        for axis in range(component.mass.ndim)
    )
    assert c.conditional_mean <= 1e-12


def test_separate_blocks_are_counted():
    ensemble, _ = scene(8, n_features=2, depth=2)
    X = np.repeat([[-5.0, -5.0], [5.0, 5.0]], 10, axis=0)
    d = purify(ensemble, X, weights="empirical")
    assert d.certificate.unidentified == 1
    assert "The data cannot separate 1 " in str(d.certificate)
    np.testing.assert_allclose(d.on_rows(X), ensemble.margin(X), atol=1e-12)


def test_later_rows_with_missing_values():
    ensemble, X = scene(1, n_features=3, depth=3)
    later = np.full((1, 3), np.nan)
    with pytest.raises(tp.errors.InvalidInputError, match=r"'x\d' has missing values.*\"always\""):
        purify(ensemble, X, weights="empirical").predict(later)
    d = purify(ensemble, X, weights="empirical", missing_cells="always")
    np.testing.assert_allclose(d.on_rows(later), ensemble.margin(later), atol=1e-12)
    assert empty_slices(d) > 0


def test_no_trees_and_single_leaves():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    for ensemble in (random_ensemble(rng, n_trees=0), random_ensemble(rng, n_trees=3, depth=0)):
        for weights in ("empirical", "uniform", "laplace", "independent"):
            d = purify(ensemble, X, weights=weights)
            assert len(d) == 0
            np.testing.assert_allclose(d.on_rows(X), ensemble.margin(X), atol=1e-14)
            assert len(d.importance()) == 0
            assert d.certificate.is_exact
            assert ": 0 effects" in repr(d)


def test_constant_columns_and_columns_without_any_value():
    ensemble, X = scene(1, n_features=3, depth=3)
    X = X[:50].copy()
    X[:, 0] = 2.0
    X[:, 1] = np.nan
    d = purify(ensemble, X, weights="empirical")
    np.testing.assert_allclose(d.on_rows(X), ensemble.margin(X), atol=1e-12)
    assert d.certificate.is_exact
    np.testing.assert_allclose(d[0].variance, 0, atol=1e-24)
    np.testing.assert_allclose(d[1].variance, 0, atol=1e-24)


def test_what_the_library_rounds_away_is_certified():
    """XGBoost adds its trees in single precision; effects are added in double precision."""
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    model = xgboost.XGBRegressor(n_estimators=100, max_depth=2).fit(X, X[:, 0] * X[:, 1] + X[:, 2])
    d = purify(model, X, weights="empirical", progress=False)
    largest = np.max(np.abs(d.predict(X) - model.predict(X, output_margin=True)))
    assert largest > 0
    assert d.certificate.margin_error == 0
    np.testing.assert_allclose(
        d.certificate.library_rounding * d.certificate.scale, largest, rtol=1e-6
    )
    assert "the library's rounding error is" in str(d.certificate)


def test_one_row():
    ensemble, X = scene(1, n_features=3, depth=3)
    d = purify(ensemble, X[:1], weights="empirical")
    np.testing.assert_allclose(d.intercept, ensemble.margin(X[:1])[0], atol=1e-12)
    np.testing.assert_allclose(d.on_rows(X), ensemble.margin(X), atol=1e-11)


def test_uniform_needs_no_rows():
    ensemble, X = scene(1, n_features=3, depth=3, missing=True)
    d = purify(ensemble, None, weights="uniform")
    finite = X[~np.isnan(X).any(axis=1)]
    np.testing.assert_allclose(d.on_rows(finite), ensemble.margin(finite), atol=1e-12)
