"""Rows to cell numbers, from every kind of table."""

import numpy as np
import pandas as pd
import pytest

from treepurify.errors import InvalidInputError
from treepurify.grids.grid import make_grid, place_rows
from treepurify.rows.columns import FeatureSpec
from treepurify.rows.table_reader import read_columns

FEATURES = (
    FeatureSpec("age"),
    FeatureSpec("town", "categorical", categories=("Ulm", "Bonn", "Kiel"), n_codes=3),
    FeatureSpec("code", "categorical", n_codes=2),
)
CUTS = (np.array([30.0, 50.0]), None, None)
EXPECTED = np.array([[0, 1, 1, 2, 3], [1, 0, 3, 4, 2], [0, 1, 2, 3, 0]])


def full_grid(**options):
    return make_grid(None, FEATURES, CUTS, match_names=True, missing_cells="always", **options)[0]


def encoded(grid, table):
    """The cells of all rows along all axes."""
    columns = read_columns(table, grid.features, match_names=grid.match_names)
    return place_rows(columns, range(grid.n_features), grid.axes)


def plain_table() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": [29.9, 30.0, 49.0, 50.0, np.nan],
            "town": ["Bonn", "Ulm", "Rome", None, "Kiel"],
            "code": [0.0, 1.0, 7.0, np.nan, 0.0],
        }
    )


def pandas_tables():
    plain = plain_table()
    yield "object", plain.astype({"town": object})
    yield "string", plain.astype({"town": "string"})
    yield "category", plain.astype({"town": pd.CategoricalDtype(["Rome", "Kiel", "Bonn", "Ulm"])})
    yield "nullable", plain.astype({"age": "Float64", "code": "Int64"})
    yield "shuffled", plain[["code", "age", "town"]]
    yield "index", plain.set_index(np.array([9, 9, 3, 2, 1]))


@pytest.mark.parametrize("name", [name for name, _ in pandas_tables()])
def test_pandas(name):
    table = dict(pandas_tables())[name]
    np.testing.assert_array_equal(encoded(full_grid(), table), EXPECTED)


def test_polars():
    polars = pytest.importorskip("polars")
    table = polars.from_pandas(plain_table())
    np.testing.assert_array_equal(encoded(full_grid(), table), EXPECTED)
    levels = table.with_columns(polars.col("town").cast(polars.Categorical))
    np.testing.assert_array_equal(encoded(full_grid(), levels), EXPECTED)


def test_arrow():
    arrow = pytest.importorskip("pyarrow")
    table = arrow.Table.from_pandas(plain_table())
    np.testing.assert_array_equal(encoded(full_grid(), table), EXPECTED)
    position = table.column_names.index("town")
    levels = table.set_column(position, "town", table.column("town").dictionary_encode())
    np.testing.assert_array_equal(encoded(full_grid(), levels), EXPECTED)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32, np.int8, bool, object])
def test_arrays(dtype):
    features = (FeatureSpec("a"), FeatureSpec("b"))
    grid, _ = make_grid(None, features, (np.array([1.0]), np.array([0.5, 2.0])), match_names=False)
    rows = np.array([[0, 1], [1, 0], [1, 1]]).astype(dtype)
    expected = [[0, 1, 1], [1, 0, 1]]
    np.testing.assert_array_equal(encoded(grid, rows), expected)
    np.testing.assert_array_equal(encoded(grid, np.asfortranarray(rows)), expected)
    np.testing.assert_array_equal(encoded(grid, rows.tolist()), expected)
    np.testing.assert_array_equal(encoded(grid, np.repeat(rows, 2, 0)[::2]), expected)


def test_single_precision_values_are_compared_as_they_are():
    cut = float(np.float32(0.1))
    grid, _ = make_grid(None, (FeatureSpec("a"),), (np.array([cut]),), match_names=False)
    below = np.nextafter(cut, 0)
    rows = np.array([[cut], [below], [0.1]])
    np.testing.assert_array_equal(encoded(grid, rows)[0], [1, 0, 0])
    np.testing.assert_array_equal(encoded(grid, rows.astype(np.float32))[0], [1, 1, 1])


@pytest.mark.parametrize("n_cuts", [0, 1, 2, 254, 255, 256, 70_000])
def test_cells_are_counts_of_cuts_at_or_below(n_cuts):
    rng = np.random.default_rng(0)
    cuts = np.sort(rng.normal(size=n_cuts))
    values = np.concatenate([cuts, np.nextafter(cuts, -9), rng.normal(size=50), [np.nan]])
    values = np.concatenate([values, [-np.inf, np.inf, 0.0, -0.0]])[:, None]
    features = (FeatureSpec("a"),)
    columns = read_columns(values, features)
    grid, rows = make_grid(columns, features, (cuts,), match_names=False)
    expected = np.searchsorted(cuts, values[:, 0], side="right")
    expected[np.isnan(values[:, 0])] = n_cuts + 1
    np.testing.assert_array_equal(rows.codes[0], expected)
    assert grid.axes[0].has_missing
    finite = values[np.isfinite(values)]
    assert grid.axes[0].bounds == (finite.min(), finite.max())


def test_many_rows_are_encoded_block_by_block():
    values = np.random.default_rng(0).normal(size=(40_000, 2))
    values[39_999, 1] = np.nan
    features = (FeatureSpec("a"), FeatureSpec("b"))
    cuts = (np.linspace(-2, 2, 9), np.array([0.0]))
    grid, rows = make_grid(read_columns(values, features), features, cuts, match_names=False)
    assert [axis.has_missing for axis in grid.axes] == [False, True]
    np.testing.assert_array_equal(rows.codes[0], np.searchsorted(cuts[0], values[:, 0], "right"))


def test_cells_are_made_only_where_the_rows_need_them():
    table = plain_table().iloc[:2]
    columns = read_columns(table, FEATURES)
    grid, _ = make_grid(columns, FEATURES, CUTS, match_names=True)
    assert [axis.n_cells for axis in grid.axes] == [3, 3, 2]
    grid, _ = make_grid(read_columns(plain_table(), FEATURES), FEATURES, CUTS, match_names=True)
    assert [axis.n_cells for axis in grid.axes] == [4, 5, 4]


@pytest.mark.parametrize(
    ("column", "value", "what"),
    [
        ("age", np.nan, "'age' has missing values"),
        ("town", "Rome", "'town' has values unknown to the model"),
        ("town", None, "'town' has missing values"),
        ("code", 5.0, "'code' has values unknown to the model"),
    ],
)
def test_values_without_a_cell_are_refused(column, value, what):
    table = plain_table().iloc[:2]
    grid, _ = make_grid(read_columns(table, FEATURES), FEATURES, CUTS, match_names=True)
    later = table.astype({column: object})
    later.loc[1, column] = value
    with pytest.raises(InvalidInputError, match=f"{what} in 1 of 2 rows .positions 1") as e:
        encoded(grid, later)
    assert 'missing_cells="always"' in str(e.value)
