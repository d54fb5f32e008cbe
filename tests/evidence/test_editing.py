"""Edited decompositions: still pure, still a sum, and as far from the model as they say."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from treepurify.errors import InvalidInputError, UnknownComponentError


def rows(n_rows=500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3)).round(1)
    X[:, 1] += X[:, 0]
    return X


def decomposition(**options):
    X = rows()
    y = X[:, 0] + X[:, 1] * X[:, 2] + X[:, 0] * np.sin(X[:, 2]) + np.abs(X[:, 0] * X[:, 1])
    model = GradientBoostingRegressor(max_depth=2, n_estimators=60, random_state=0).fit(X, y)
    return tp.purify(model, X, progress=False, **{"weights": "empirical", **options}), X


def difference(d, edited, X, weights=None):
    squares = (edited.predict(X) - d.predict(X)) ** 2
    return np.sqrt(np.average(squares, weights=weights))


def assert_says_what_changed(d, edited, X, weights=None):
    said = edited.diagnostics["difference_from_model"]
    assert not said["is_bound"]
    assert said["value"][0] == pytest.approx(difference(d, edited, X, weights), abs=1e-12)
    assert not edited.certificate.is_exact
    assert edited.certificate.additivity is None
    assert edited.certificate.details()[-1].startswith("Edited: ")
    assert edited.certificate.edits[-1] in str(edited).splitlines()


def test_without_is_the_rest_of_the_sum():
    d, X = decomposition()
    edited = d.without("x0", ("x1", "x2"))
    expected = d.predict(X) - d["x0"].on_rows(X)[:, 0] - d["x1", "x2"].on_rows(X)[:, 0]
    np.testing.assert_allclose(edited.predict(X), expected, atol=1e-12)
    assert set(edited) == set(d) - {(0,), (1, 2)}
    assert_says_what_changed(d, edited, X)


def test_only_is_what_is_named():
    d, X = decomposition()
    edited = d.only("x1 & x2", 0)
    expected = d.intercept + d["x0"].on_rows(X)[:, 0] + d["x1", "x2"].on_rows(X)[:, 0]
    np.testing.assert_allclose(edited.predict(X), expected, atol=1e-12)
    assert_says_what_changed(d, edited, X)
    assert d.only(*map(d.term_name, d)) is d


def indicators(d, subset, X):
    """One column per cell of an effect, by what its cells are."""
    component = d.components[subset]
    cells = [
        np.searchsorted(axis.cuts, X[:, j], side="right")
        for j, axis in zip(subset, component.axes, strict=True)
    ]
    flat = np.ravel_multi_index(cells, component.mass.shape)
    return np.eye(component.mass.size)[flat]


def pure_basis(d, subset, X):
    """Functions of some features less their projection on functions of fewer of them."""
    basis = indicators(d, subset, X)
    fewer = [np.ones((len(X), 1)), *(indicators(d, (j,), X) for j in subset if len(subset) > 1)]
    below = np.concatenate(fewer, axis=1)
    return basis - below @ np.linalg.lstsq(below, basis, rcond=None)[0]


@pytest.mark.parametrize(
    ("out", "absorb"),
    [
        (["x1 & x2"], "main"),
        (["x0"], "main"),
        (["x1 & x2", "x0 & x1"], True),
        (["x0", "x0 & x1"], True),  # what stays lacks main effects
        (["x2"], True),
    ],
)
def test_absorbing_is_the_least_squares_projection_on_what_stays(out, absorb):
    d, X = decomposition()
    edited = d.without(*out, absorb=absorb)
    plain = d.without(*out)
    kept = [s for s in plain if absorb is True or len(s) == 1]
    design = np.concatenate([np.ones((len(X), 1)), *(pure_basis(d, s, X) for s in kept)], axis=1)
    taken = d.predict(X) - plain.predict(X)
    expected = plain.predict(X) + design @ np.linalg.lstsq(design, taken, rcond=1e-11)[0]
    np.testing.assert_allclose(edited.predict(X), expected, atol=1e-8)
    assert set(edited) == set(plain)
    assert edited.certificate.conditional_mean < 1e-10
    assert difference(d, edited, X) <= difference(d, plain, X) + 1e-12
    assert_says_what_changed(d, edited, X)


def test_row_weights_count_in_what_is_absorbed():
    X = rows()
    weights = np.random.default_rng(1).uniform(0.2, 3, size=len(X))
    model = GradientBoostingRegressor(max_depth=2, n_estimators=60, random_state=0)
    model.fit(X, X[:, 0] + X[:, 1] * X[:, 2])
    d = tp.purify(model, X, weights="empirical", sample_weight=weights, progress=False)
    edited = d.without("x0", absorb="main")
    design = np.concatenate([pure_basis(d, (j,), X) for j in (1, 2)] + [np.ones((len(X), 1))], 1)
    root = np.sqrt(weights)[:, None]
    taken = d["x0"].on_rows(X)
    fit = design @ np.linalg.lstsq(root * design, root * taken, rcond=1e-11)[0]
    np.testing.assert_allclose(
        edited.predict(X), (d.predict(X)[:, None] - taken + fit)[:, 0], atol=1e-8
    )
    assert_says_what_changed(d, edited, X, weights)


def test_independent_effects_absorb_nothing():
    d, X = decomposition(weights="independent")
    edited, plain = (d.without("x0", absorb=absorb) for absorb in (True, False))
    np.testing.assert_array_equal(edited.predict(X), plain.predict(X))
    assert edited.covariances is not None
    assert edited.importance()["share"].sum() == pytest.approx(1)
    said = edited.diagnostics["difference_from_model"]
    assert said == {
        "value": [pytest.approx(float(np.sqrt(d["x0"].variance[0])))],
        "is_bound": False,
    }


@pytest.mark.parametrize("absorb", ["pairs", 1, None])
def test_absorb_is_true_false_or_main(absorb):
    d, _ = decomposition()
    with pytest.raises(InvalidInputError, match="absorb must be True or False"):
        d.without("x0", absorb=absorb)


def test_nothing_absorbs_without_the_rows_of_the_measure(tmp_path):
    d, X = decomposition()
    d.save(tmp_path / "d.tpz")
    loaded = tp.load(tmp_path / "d.tpz")
    with pytest.raises(InvalidInputError, match="purify the model under its rows"):
        loaded.without("x0", absorb=True)
    edited = loaded.without("x0", "x1")
    said = edited.diagnostics["difference_from_model"]
    assert said["is_bound"]
    assert said["value"][0] >= difference(d, edited, X)


def test_another_effect_is_purified():
    d, X = decomposition()
    table = np.random.default_rng(0).normal(size=d["x1", "x2"].mass.shape)
    edited = d.with_effect(("x2", "x1"), table)
    old = d["x1", "x2"]
    flat = indicators(d, (1, 2), X) @ table.ravel()
    expected = d.predict(X) - old.on_rows(X)[:, 0] + flat
    np.testing.assert_allclose(edited.predict(X), expected, atol=1e-10)
    assert edited.certificate.conditional_mean < 1e-10
    pure = edited["x1", "x2"]
    assert np.abs(np.sum(pure.mass * pure.values[..., 0], axis=0)).max() < 1e-12
    assert_says_what_changed(d, edited, X)
    np.testing.assert_allclose(edited["x0"].values, d["x0"].values)


def test_parts_of_an_edit_make_effects_that_were_taken_out():
    d, X = decomposition()
    less = d.without("x1", "x2")
    edited = less.with_effect(("x1", "x2"), less["x1", "x2"].values + 1)
    assert set(edited) == set(less)  # a constant is in the intercept
    table = less["x1", "x2"].values.copy()
    table[0] += 1
    edited = less.with_effect(("x1", "x2"), table)
    assert set(edited) == set(d) - {(2,)}
    change = edited.predict(X) - less.predict(X)
    np.testing.assert_allclose(change, indicators(d, (1,), X)[:, 0], atol=1e-10)


def test_edits_add_up_to_a_bound():
    d, X = decomposition()
    edited = d.without("x0").without("x1")
    said = edited.diagnostics["difference_from_model"]
    assert said["is_bound"]
    assert said["value"][0] >= difference(d, edited, X)
    assert [edit.facts["terms"] for edit in edited.origin.edits] == [("x0",), ("x1",)]
    assert len(edited.certificate.edits) == 2


def test_a_share_of_the_deviation_is_said_only_where_that_is_known(tmp_path):
    """Effects are dependent: the sum of their variances is not the variance of the model."""
    d, X = decomposition()
    once = d.without("x0")
    share = difference(once, once.without("x1"), X) / np.std(once.predict(X))
    assert f"; {share:.2%} of the standard deviation)" in once.without("x1").certificate.edits[1]
    d.save(tmp_path / "d.tpz")
    first, second = tp.load(tmp_path / "d.tpz").without("x0").without("x1").certificate.edits
    assert "of the standard deviation" in first
    assert "of the standard deviation" not in second


def test_edited_decompositions_are_ordinary(tmp_path):
    d, X = decomposition()
    edited = d.without("x1 & x2", absorb="main").with_effect("x0", d["x0"].values * 0.5)
    edited.save(tmp_path / "d.tpz")
    loaded = tp.load(tmp_path / "d.tpz")
    np.testing.assert_array_equal(loaded.predict(X), edited.predict(X))
    assert loaded.certificate == edited.certificate
    assert loaded.origin == edited.origin
    values = edited.shapley_values(X[:5])
    np.testing.assert_allclose(
        values.values.sum(axis=1)[:, 0], edited.predict(X[:5]) - d_mean(edited)
    )
    tp.report.write_html(edited, tmp_path / "page.html", top=1)
    assert "Edited" in (tmp_path / "page.html").read_text(encoding="utf-8")


def d_mean(d):
    return d.intercept[0]


def test_the_remainder_can_be_taken_out():
    X = rows()
    model = GradientBoostingRegressor(max_depth=3, n_estimators=10, random_state=0)
    model.fit(X, X.prod(axis=1) + X[:, 0])
    d = tp.purify(model, X, weights="empirical", order=2, progress=False)
    edited = d.without("remainder")
    assert edited.remainder is None
    expected = d.predict(X) - d.remainder.on_rows(X)[:, 0]
    np.testing.assert_allclose(edited.predict(X), expected, atol=1e-10)
    assert_says_what_changed(d, edited, X)
    np.testing.assert_allclose(d.without("x0").predict(X), d.predict(X) - d["x0"].on_rows(X)[:, 0])
    assert d.only("x0").remainder is None


def test_a_fitted_model_keeps_its_remainder():
    X = rows()
    model = GradientBoostingRegressor(max_depth=3, n_estimators=10, random_state=0)
    model.fit(X, X.prod(axis=1) + X[:, 0])
    d = tp.purify(model, X, weights="empirical", method="projection", progress=False)
    edited = d.without("x0")
    np.testing.assert_allclose(
        edited.predict(X), model.predict(X) - d["x0"].on_rows(X)[:, 0], atol=1e-10
    )
    absorbed = d.without("x0", absorb=True)
    moved = [np.mean((e.predict(X) - d.predict(X)) ** 2) for e in (edited, absorbed)]
    assert moved[1] < moved[0]
    last = absorbed.origin.edits[-1]
    assert last.difference == pytest.approx([np.sqrt(moved[1])])
    assert not last.is_bound


def test_a_remainder_that_is_taken_out_bounds_the_difference():
    X = rows()
    model = GradientBoostingRegressor(max_depth=3, n_estimators=10, random_state=0)
    model.fit(X, X.prod(axis=1) + X[:, 0])
    d = tp.purify(model, X, weights="empirical", method="projection", progress=False)
    for absorb in (False, "main"):
        edited = d.without("x0", "remainder", absorb=absorb)
        moved = np.sqrt(np.mean((edited.predict(X) - d.predict(X)) ** 2))
        last = edited.origin.edits[-1]
        assert last.is_bound
        assert moved <= last.difference[0] <= 3 * moved


def test_what_was_loaded_holds_no_rows(tmp_path):
    d, _ = decomposition()
    d.save(tmp_path / "d.tpz")
    with pytest.raises(InvalidInputError, match="does not contain"):
        tp.load(tmp_path / "d.tpz").without("x0", absorb=True)


def test_unknown_effects_and_wrong_values_are_refused():
    d, _ = decomposition()
    with pytest.raises(UnknownComponentError, match="no feature 'age'"):
        d.without("age")
    with pytest.raises(UnknownComponentError, match="no effect 'x0' to remove"):
        d.without("x0").without("x0")
    with pytest.raises(InvalidInputError, match="one number per cell of 'x0'"):
        d.with_effect("x0", [1.0, 2.0])
    with pytest.raises(InvalidInputError, match="must be finite"):
        d.with_effect("x0", np.full_like(d["x0"].values, np.nan))


def test_effects_that_stay_keep_their_spread():
    X = rows()
    y = X[:, 0] + X[:, 1] * X[:, 2] + np.random.default_rng(3).normal(size=len(X))
    model = GradientBoostingRegressor(max_depth=2, n_estimators=20, random_state=0)
    models = tp.refit(model, X, y, n=3, progress=False)
    d = tp.purify(models, X, weights="empirical", progress=False)
    edited = d.without("x2")
    assert set(edited.spread.stacked) == set(d) - {(2,)}
    np.testing.assert_array_equal(edited.spread.values("x0"), d.spread.values("x0"))
    changed = d.with_effect("x0", d["x0"].values * 2)
    assert "x0" not in changed.spread
    assert "x1" in changed.spread
    assert len(changed.importance()) == len(d)
    assert d.without("x1 & x2", absorb="main").spread is not None
