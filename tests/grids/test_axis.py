"""Axes: cells, labels, lengths and refinement."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treepurify.grids.axis import CENTRAL_ENDS, FeatureAxis, central_values
from treepurify.models.cuts import cut_below_single


def test_counts_of_cells():
    numeric = FeatureAxis("a", np.array([0.0, 1.0]), has_missing=True)
    assert (numeric.n_regular, numeric.n_cells) == (3, 4)
    assert (numeric.missing_cell, numeric.other_cell) == (3, None)
    levels = FeatureAxis("b", None, ("u", "v"), has_other=True, has_missing=True)
    assert (levels.n_regular, levels.n_cells) == (2, 4)
    assert (levels.other_cell, levels.missing_cell) == (2, 3)
    assert FeatureAxis("c", np.empty(0)).n_cells == 1


def test_no_interval_ends_where_it_starts():
    """Both cuts are -118.1 in four digits."""
    labels = FeatureAxis("a", np.array([-122.0, -118.105, -118.095, -110.0])).labels()
    assert labels[1:4] == ["[-122, -118.105)", "[-118.105, -118.095)", "[-118.095, -110)"]


def test_cuts_that_hardly_differ_are_printed_briefly():
    mean = 0.6827205247712765
    labels = FeatureAxis("a", np.array([mean, np.nextafter(mean, 1.0), 1.0])).labels()
    assert labels == ["< 0.6827", "[0.6827, 0.682721)", "[0.682721, 1)", ">= 1"]


def test_labels_tell_close_cuts_apart():
    cuts = np.array([1.0, np.nextafter(1.0, 2.0), 1.00001, 123456.5, 123457.5])
    labels = FeatureAxis("a", cuts).labels()
    assert len(set(labels)) == len(labels) == 6
    assert FeatureAxis("a", np.empty(0)).labels() == ["all"]
    levels = FeatureAxis("b", None, ("u", 3), has_other=True, has_missing=True)
    assert levels.labels() == ["u", "3", "other", "missing"]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12, unique=True), st.booleans())
def test_exact_labels_part_numbers_as_the_cuts_do(cuts, is_single):
    """The end that is printed is the cut itself, or the number next to it."""
    cuts = np.sort(cuts)
    if is_single:
        cuts = cut_below_single(np.unique(cuts.astype(np.float32)))
    labels = FeatureAxis("a", cuts).labels(exact=True)
    precision = np.float32 if is_single else np.float64
    for cut, above in zip(cuts, labels[1:], strict=True):
        if abs(cut) < 1e-30:  # what LightGBM takes for zero, or below single precision
            continue
        start = precision(above.lstrip(">=([ ").split(",")[0])
        if above.startswith(("(", "> ")):
            start = np.nextafter(start, precision(np.inf))
        first = precision(cut)
        assert start == first


def test_lengths():
    axis = FeatureAxis("a", np.array([0.0, 1.0, 5.0]), has_missing=True, bounds=(-2.0, 3.0))
    np.testing.assert_allclose(axis.lengths(), [2, 1, 2, 0, 0])
    inside = FeatureAxis("a", np.array([0.0, 1.0]), bounds=(0.25, 0.75))
    np.testing.assert_allclose(inside.lengths(), [0, 0.5, 0])
    np.testing.assert_allclose(FeatureAxis("a", np.empty(0)).lengths(), [1])


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12, unique=True),
    st.data(),
)
def test_fine_cells_lie_in_their_coarse_cells(cuts, data):
    fine_cuts = np.sort(np.array(cuts))
    kept = data.draw(st.lists(st.sampled_from(cuts), unique=True))
    fine = FeatureAxis("a", fine_cuts, has_missing=True)
    coarse = FeatureAxis("a", np.sort(np.array(kept, dtype=float)), has_missing=True)
    values = np.concatenate([fine_cuts, np.nextafter(fine_cuts, -np.inf), [-1e9, 1e9]])
    cell = np.searchsorted(fine.cuts, values, side="right")
    expected = np.searchsorted(coarse.cuts, values, side="right")
    np.testing.assert_array_equal(fine.cells_in(coarse)[cell], expected)
    assert fine.cells_in(coarse)[-1] == coarse.missing_cell


def test_categories_map_to_themselves():
    plain = FeatureAxis("a", None, ("u", "v"))
    wide = FeatureAxis("a", None, ("u", "v"), has_other=True, has_missing=True)
    np.testing.assert_array_equal(wide.cells_in(wide), [0, 1, 2, 3])
    assert wide.cells_in(plain)[:2].tolist() == [0, 1]
    with pytest.raises(AttributeError):
        plain.name = "b"  # type: ignore[misc]


def test_cuts_beside_zero_of_lightgbm_read_as_zero():
    zero = np.nextafter(float(np.float32(1e-35)), 1.0)
    assert FeatureAxis("x", np.array([-zero, zero])).labels() == ["< 0", "0", "> 0"]
    assert FeatureAxis("x", np.array([-2.0, zero, 3.0])).labels() == [
        "< -2", "[-2, 0]", "(0, 3)", ">= 3",
    ]  # fmt: skip
    assert FeatureAxis("x", np.array([-zero])).labels() == ["< 0", ">= 0"]
    assert FeatureAxis("x", np.array([1e-36, 2e-35])).labels() == [
        "< 1e-36", "[1e-36, 2e-35)", ">= 2e-35",
    ]  # fmt: skip


def test_cuts_of_single_precision_beside_zero_read_as_zero():
    least = np.finfo(np.float32).smallest_subnormal
    assert FeatureAxis("x", np.array([-float(least) / 2.0])).labels() == ["< 0", ">= 0"]
    assert FeatureAxis("x", np.array([float(least)])).labels() == ["<= 0", "> 0"]


def test_large_cuts_have_no_exponent():
    cuts = np.array([9876.5, 30_500.0, 197_650.5])
    labels = ["< 9876", "[9876, 30500)", "[30500, 197700)", ">= 197700"]
    assert FeatureAxis("x", cuts).labels() == labels
    assert FeatureAxis("x", np.array([1.5e20])).labels() == ["< 1.5e+20", ">= 1.5e+20"]


@given(st.lists(st.floats(width=32), min_size=1, max_size=300))
def test_central_values_are_quantiles_of_what_is_finite(column):
    values = np.array(column, dtype=np.float32)
    found = central_values(values)
    finite = values[np.isfinite(values)].astype(np.float64)
    if len(finite):
        assert found == pytest.approx(tuple(np.quantile(finite, CENTRAL_ENDS)), rel=1e-12)
    else:
        assert found is None


@pytest.mark.parametrize("kind", ["sorted", "ties", "rare", "periodic", "missing"])
def test_central_values_of_many_rows_are_quantiles_in_any_order(kind):
    rng = np.random.default_rng(0)
    values = {
        "sorted": np.sort(rng.normal(size=50_001)),
        "ties": rng.integers(0, 3, 50_001).astype(float),
        "rare": np.where(rng.random(50_001) < 0.005, -1e6, 1.0),
        "periodic": np.arange(50_001) % 25 + 0.0,
        "missing": np.where(rng.random(50_001) < 0.9, np.nan, rng.normal(size=50_001)),
    }[kind]
    finite = values[np.isfinite(values)]
    quantiles = pytest.approx(tuple(np.quantile(finite, CENTRAL_ENDS)), rel=1e-12)
    assert central_values(values) == quantiles
    assert central_values(rng.permutation(values)) == quantiles
