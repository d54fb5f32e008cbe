"""Every kind of table is read the same, and rows that stand for no distribution are refused."""

import numpy as np
import pandas as pd
import pytest

import treepurify as tp
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.rows.row_weights import effective_rows, row_shares
from treepurify.rows.table_reader import check_distribution, matched_names, read_columns
from treepurify.rows.tables import frame_or_matrix, table_column, table_names, take_rows

FRAME = pd.DataFrame({"size": [1.5, np.nan, 3.0], "town": ["Ulm", None, "Bonn"]})
TOWN = FeatureSpec("town", "categorical", ("Bonn", "Ulm"), n_codes=2)


def polars_frame():
    polars = pytest.importorskip("polars")
    return polars.DataFrame({"size": [1.5, None, 3.0], "town": ["Ulm", None, "Bonn"]})


def polars_enum():
    polars = pytest.importorskip("polars")
    return polars_frame().with_columns(
        polars.col("town").cast(polars.Enum(["Rome", "Ulm", "Bonn"]))
    )


def arrow_table():
    arrow = pytest.importorskip("pyarrow")
    return arrow.table({"size": [1.5, None, 3.0], "town": ["Ulm", None, "Bonn"]})


def arrow_dictionary():
    table = arrow_table()
    return table.set_column(1, "town", table.column("town").dictionary_encode())


KINDS = {
    "pandas": lambda: FRAME,
    "pandas categories": lambda: FRAME.astype({"town": "category"}),
    "polars": polars_frame,
    "polars Enum": polars_enum,
    "Arrow": arrow_table,
    "Arrow dictionary": arrow_dictionary,
    "objects": lambda: FRAME.to_numpy(dtype=object),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_is_read_the_same(kind):
    table = KINDS[kind]()
    for rows, expected in (
        (table, [[1.5, np.nan, 3.0], [1, np.nan, 0]]),
        (take_rows(table, np.array([2, 1])), [[3.0, np.nan], [0, np.nan]]),
    ):
        values = read_columns(rows, (FeatureSpec("size"), TOWN)).values
        np.testing.assert_array_equal(values, expected)
    assert table_names(table) == (None if kind == "objects" else ["size", "town"])
    assert table_column(table, 1)[0] == "Ulm"


def test_columns_of_one_name_are_read_by_position():
    table = pd.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "a", 7])
    features = tuple(FeatureSpec(f"x{j}") for j in range(3))
    values = read_columns(table, features, match_names=False).values
    assert [column.tolist() for column in values] == [[1.0], [2.0], [3.0]]
    assert table_names(table) == ["a", "a", "7"]


def test_names_are_matched_over_blanks_unless_both_are_there():
    features = (FeatureSpec("a_b"), FeatureSpec("c"))
    assert matched_names(["a b", "c", "d e"], features) == ["a_b", "c", "d e"]
    assert matched_names(["a b", "a_b"], features) == ["a b", "a_b"]
    with_blanks = (FeatureSpec("a b"), FeatureSpec("c d_e"))
    assert matched_names(["c_d_e", "a_b"], with_blanks) == ["c d_e", "a b"]
    both = (FeatureSpec("a b"), FeatureSpec("a_b"))
    assert matched_names(["a_b", "a b"], both) == ["a_b", "a b"]
    assert matched_names(["x", "a_b_"], both) == ["x", "a_b_"]


def test_rows_that_stand_for_no_distribution():
    unknown = Columns((TOWN,), (np.array([2.0, np.nan]),), 2)
    with pytest.raises(tp.errors.InvalidInputError, match="'town'; the model knows"):
        check_distribution(unknown)
    with pytest.raises(tp.errors.InvalidInputError, match="the background has no rows; pass some"):
        check_distribution(unknown.take(np.zeros(0, np.intp)), "some", "the background")
    check_distribution(Columns((TOWN,), (np.array([2.0, 0.0]),), 2))


def test_a_function_is_not_averaged_over_labels_that_it_never_met():
    def f(table):
        return table["size"].to_numpy() + (table["town"] == "Ulm").to_numpy()

    X = pd.DataFrame({"size": [1.5, 2.0, 3.0], "town": ["Ulm", "Bonn", "Bonn"]})
    other = X.assign(town="Rome")
    with pytest.raises(tp.errors.InvalidInputError, match=r"none of the values in .* 'town'"):
        tp.partial_dependence_anova(f, X, background=other, progress=False)


@pytest.mark.parametrize("scale", [2.0**1020, 1.0, 2.0**-1060])
def test_shares_do_not_depend_on_the_scale_of_weights(scale):
    weights = np.array([1.0, 3.0, 0.0, 8.0])
    np.testing.assert_array_equal(row_shares(4, weights * scale), weights / 12)
    assert effective_rows(4, weights * scale) == pytest.approx(144 / 74, rel=1e-15)


@pytest.mark.parametrize("weights", [None, np.full(7, 0.1), np.full(7, 1 / 3)])
def test_equal_weights_make_no_row_more_or_less(weights):
    np.testing.assert_allclose(row_shares(7, weights), np.full(7, 1 / 7), rtol=1e-15)
    assert effective_rows(7, weights) == pytest.approx(7, rel=1e-15)
    assert effective_rows(7, weights) <= 7


@pytest.mark.parametrize("engine", [tp.ale_anova, tp.partial_dependence_anova])
def test_weights_whose_sum_is_beyond_double_precision(engine):
    X = np.random.default_rng(0).normal(size=(40, 2))
    weights = np.random.default_rng(1).integers(1, 4, size=40) * 2.0**1000

    def f(X):
        return X[:, 0] + X[:, 0] * X[:, 1]

    plain = engine(f, X, sample_weight=weights, progress=False)
    huge = engine(f, X, sample_weight=weights * 2.0**21, progress=False)
    assert set(plain) == set(huge)
    for subset in plain:
        np.testing.assert_array_equal(plain[subset].on_rows(X), huge[subset].on_rows(X))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "objects"])
def test_any_table_becomes_a_data_frame_and_other_rows_a_matrix(kind):
    frame = frame_or_matrix(KINDS[kind]())
    np.testing.assert_array_equal(frame["size"], FRAME["size"])
    assert frame["town"].dropna().tolist() == ["Ulm", "Bonn"]
    assert frame_or_matrix([[1, 2], [3, 4]]).shape == (2, 2)


def test_one_column_alone_is_no_table():
    polars = pytest.importorskip("polars")
    for column in (FRAME["size"], polars.Series([1.0, 2.0])):
        with pytest.raises(tp.errors.InvalidInputError, match="a single column"):
            frame_or_matrix(column)
