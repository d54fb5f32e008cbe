"""Variances without noise over rows in batches: parts by hand, and no matter which batches."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

import treepurify as tp
from tests.engines.tree.streams import batches, regression_rows
from treepurify.rows.resampling import RowSplit

QUIET = {"progress": False}


def case(kind):
    """A model, its rows with gaps, and weights."""
    X, y = regression_rows(700)
    X["town"] = pd.Categorical(np.where(np.arange(700) < 690, "here", "there"))
    X.loc[690:, "c"] = np.nan
    model = {
        "shallow": HistGradientBoostingRegressor(max_depth=2, max_iter=20),
        "deep": HistGradientBoostingRegressor(max_iter=20),
        "forest": RandomForestRegressor(3, max_depth=6, random_state=0),
    }[kind]
    if kind == "forest":
        X = X[["a", "b", "d"]]
    else:
        model.set_params(categorical_features="from_dtype")
    return model.fit(X[:600], y[:600]), X, np.random.default_rng(0).integers(0, 4, 700) / 4


def by_hand(model, X, weight, split):
    """Return both columns from three parts, each purified by itself."""
    part, rows_of = split.parts(0, 0, len(X)), X.assign(weight=weight)
    # Batches again, since how a forest is decomposed depends on whether rows are known to be few.
    of_parts = [
        tp.purify(
            model, batches(rows_of[part == k], 90), weights="empirical", sample_weight="weight",
            missing_cells="always", **QUIET,
        )
        for k in range(3)
    ]  # fmt: skip
    found = {}
    for subset in of_parts[0].components:
        product, apart = 0.0, 0.0
        for third in range(3):
            rows, own = X[part == third], weight[part == third] / weight[part == third].sum()
            one, two = (
                np.ravel(of_parts[k].components[subset].on_rows(rows))
                for k in range(3)
                if k != third
            )
            one, two = one - own @ one, two - own @ two
            product, apart = product + own @ (one * two) / 3, apart + own @ (one - two) ** 2 / 3
        found[of_parts[0].term_name(subset)] = product, apart / 6
    return found


@pytest.mark.parametrize("kind", ["shallow", "deep", "forest"])
def test_columns_are_those_of_parts_by_hand(kind):
    model, X, weight = case(kind)
    source = batches(X.assign(weight=weight), 701)
    options = {"sample_weight": "weight", "repeats": 2, "seed": 7, **QUIET}
    table = tp.unbiased_importance(model, source, **options).set_index("term")
    truths = [by_hand(model, X, weight, RowSplit(7, number, 3)) for number in range(2)]
    scale = table["variance"].max()
    for term in truths[0]:
        expected = np.mean([truth[term] for truth in truths], axis=0)
        found = table.loc[term, ["unbiased_variance", "sampling_variance"]].to_numpy(float)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10 * scale)
    for size in (64, 699):
        other = batches(X.assign(weight=weight), size)
        again = tp.unbiased_importance(model, other, **options).set_index("term")
        pd.testing.assert_frame_equal(again, table, rtol=1e-9, atol=1e-12)


def test_a_split_gives_every_row_to_one_part_whatever_the_batches():
    split = RowSplit(0, 1, 3)
    whole = split.parts(2, 0, 9000)
    np.testing.assert_array_equal(
        np.concatenate([split.parts(2, 0, 100), split.parts(2, 100, 8900)]), whole
    )
    assert np.abs(np.bincount(whole) - 3000).max() < 200
    # Neighbours, splits, files and seeds are independent.
    others = (
        whole[1:],
        RowSplit(0, 2, 3).parts(2, 0, 9000),
        split.parts(3, 0, 9000),
        RowSplit(1, 1, 3).parts(2, 0, 9000),
    )
    for other in others:
        assert abs(np.mean(whole[: len(other)] == other) - 1 / 3) < 0.03


@pytest.mark.libraries
def test_files_and_dask_frames(tmp_path):
    pytest.importorskip("pyarrow")
    model, X, _ = case("shallow")
    options = {"repeats": 1, **QUIET}
    parts = [X[:200], X[200:450], X[450:]]
    for number, part in enumerate(parts):
        part.assign(town=part["town"].astype(str)).to_parquet(tmp_path / f"{number}.parquet")
    of_files = tp.unbiased_importance(model, tmp_path, **options)
    assert np.isfinite(of_files["unbiased_variance"]).all()
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.concat([dd.from_pandas(part, npartitions=1) for part in parts])
    of_frame = tp.unbiased_importance(model, frame, **options)
    pd.testing.assert_frame_equal(of_files, of_frame, rtol=1e-9, atol=1e-12)


def test_what_is_refused():
    model, X, _ = case("shallow")
    with pytest.raises(tp.errors.InvalidInputError, match="at least 60 rows"):
        tp.unbiased_importance(model, batches(X[:40], 10), **QUIET)
    with pytest.raises(tp.errors.InvalidInputError, match="read only once"):
        tp.unbiased_importance(model, iter([X]), **QUIET)
