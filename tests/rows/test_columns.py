"""Reading tables: names, dtypes and what is refused."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from treepurify.errors import InvalidInputError
from treepurify.rows.columns import FeatureSpec
from treepurify.rows.table_reader import read_columns
from treepurify.rows.tables import table_names, take_rows

AB = (FeatureSpec("a"), FeatureSpec("b"))


def frame(**columns) -> pd.DataFrame:
    return pd.DataFrame(columns)


def values_of(X, features=AB, **options) -> list[list[float]]:
    return [column.tolist() for column in read_columns(X, features, **options).values]


def test_tables_are_matched_by_name():
    assert values_of(frame(b=[3.0], a=[1.0])) == [[1.0], [3.0]]


def test_tables_are_matched_by_position_where_the_model_has_no_names():
    assert values_of(frame(b=[3.0], a=[1.0]), match_names=False) == [[3.0], [1.0]]


@pytest.mark.parametrize("read", [frame, lambda **own: np.array([*own.values()], object).T])
def test_columns_that_are_not_needed_are_not_read(read):
    X = read(a=[1.0, 2.0], b=["not", "numbers"])
    own, other = values_of(X, only=(0,))
    assert own == [1.0, 2.0]
    assert np.isnan(other).all()
    with pytest.raises(InvalidInputError, match="b"):
        values_of(X)
    with pytest.raises(InvalidInputError):
        values_of(X[:1] if isinstance(X, np.ndarray) else frame(a=[1.0]), only=(1,))


def test_blanks_match_underscores():
    features = (FeatureSpec("hours_per_week"), FeatureSpec("a"))
    assert values_of(frame(**{"a": [1.0], "hours per week": [2.0]}), features) == [[2.0], [1.0]]


@pytest.mark.parametrize(
    ("columns", "parts"),
    [
        ({"a": [1.0]}, ["missing: 'b'"]),
        ({"a": [1.0], "b": [1.0], "c": [0.0]}, ["unexpected: 'c'"]),
        ({"a": [1.0], "z": [1.0]}, ["missing: 'b'", "unexpected: 'z'"]),
        ({f"z{i}": [1.0] for i in range(14)}, ["'z0'", "and 4 more", "missing: 'a', 'b'"]),
    ],
)
def test_wrong_columns_are_named(columns, parts):
    with pytest.raises(InvalidInputError, match="do not match the model's features") as e:
        read_columns(frame(**columns), AB)
    for part in parts:
        assert part in str(e.value)


def test_repeated_columns_are_named():
    table = pd.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "b", "a"])
    with pytest.raises(InvalidInputError, match="more than once: 'a'"):
        read_columns(table, AB)


@pytest.mark.parametrize("width", [1, 3])
def test_wrong_number_of_columns(width):
    with pytest.raises(
        InvalidInputError, match=f"has 2 features, but the data have {width} columns"
    ):
        read_columns(np.zeros((4, width)), AB)
    table = pd.DataFrame(np.zeros((4, width)))
    with pytest.raises(
        InvalidInputError, match=f"has 2 features, but the data have {width} columns"
    ):
        read_columns(table, AB, match_names=False)


@pytest.mark.parametrize("X", [np.zeros(4), 3.0, np.zeros((2, 2, 2)), [1.0, 2.0]])
def test_only_two_dimensions(X):
    with pytest.raises(InvalidInputError, match="two-dimensional array"):
        read_columns(X, AB)


def test_a_single_column_of_a_table():
    with pytest.raises(InvalidInputError, match="a single column"):
        read_columns(pd.Series([1.0, 2.0]), AB)


@pytest.mark.parametrize(
    ("column", "what"),
    [
        (["x", "y"], "'x'|dtype str"),
        (np.array(["x", 1.0], dtype=object), "the value 'x'"),
        (pd.to_datetime(["2020-01-01", "2020-01-02"]), "dtype datetime64"),
        (pd.Categorical(["u", "v"]), "dtype category"),
        (np.array([1 + 2j, 0j]), "dtype complex128"),
        (np.array([1 + 2j, 0j], dtype=object), "the value"),
    ],
)
def test_columns_that_are_no_numbers(column, what):
    with pytest.raises(InvalidInputError, match=what) as e:
        read_columns(pd.DataFrame({"a": column, "b": [0.0, 1.0]}), AB)
    assert "'a' is numeric in the model" in str(e.value)


def test_text_arrays():
    with pytest.raises(InvalidInputError, match="'a' is numeric in the model"):
        read_columns(np.array([["x", "y"]]), AB)


def test_object_columns_of_numbers_are_read():
    from decimal import Decimal

    table = pd.DataFrame(
        {"a": np.array([1, 2.5, None], dtype=object), "b": [Decimal("1.5"), pd.NA, True]}
    )
    first, second = read_columns(table, AB).values
    np.testing.assert_array_equal(first, [1.0, 2.5, np.nan])
    np.testing.assert_array_equal(second, [1.5, np.nan, 1.0])


@pytest.mark.parametrize("dtype", ["Int64", "Float32", "boolean", "int16", "float32", "bool"])
def test_numeric_dtypes(dtype):
    table = pd.DataFrame({"a": pd.array([1, 0], dtype=dtype), "b": [0, 1]})
    assert values_of(table)[0] == [1.0, 0.0]


def test_nullable_missing_values_become_nan():
    table = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [0.0, 1.0]})
    np.testing.assert_array_equal(read_columns(table, AB).values[0], [1.0, np.nan])


def test_the_caller_s_array_is_not_written_to():
    X = np.array([[0.0, 1e-40], [np.nan, 5.0]])
    before = X.copy()
    features = (FeatureSpec("a", zero_is_missing=True), FeatureSpec("b", missing_value=5.0))
    first, second = read_columns(X, features).values
    np.testing.assert_array_equal(first, [np.nan, np.nan])
    np.testing.assert_array_equal(second, [1e-40, np.nan])
    np.testing.assert_array_equal(X, before)


def test_codes_and_labels():
    codes = FeatureSpec("a", "categorical", n_codes=3)
    labels = FeatureSpec(
        "a", "categorical", categories=("10", "u"), n_codes=2, numbers_are="labels"
    )
    X = np.array([[0.0], [2.9], [3.0], [-0.5], [np.nan], [10.0]])
    np.testing.assert_array_equal(read_columns(X, (codes,)).values[0], [0, 2, 3, 3, np.nan, 3])
    np.testing.assert_array_equal(read_columns(X, (labels,)).values[0], [2, 2, 2, 2, np.nan, 0])


def test_text_where_the_model_knows_codes_only():
    codes = FeatureSpec("town", "categorical", n_codes=3)
    with pytest.raises(InvalidInputError, match=r"stores only codes.*'category'"):
        read_columns(pd.DataFrame({"town": ["Ulm"]}), (codes,))


def test_names_and_rows_of_tables():
    table = frame(a=[1.0, 2.0], b=[3.0, 4.0])
    assert table_names(table) == ["a", "b"]
    assert table_names(table.to_numpy()) is None
    columns = read_columns(table, AB)
    assert table_names(columns) == ["a", "b"]
    rows = np.array([1])
    assert take_rows(table, rows)["b"].tolist() == [4.0]
    assert take_rows(table.to_numpy(), rows).tolist() == [[2.0, 4.0]]
    assert take_rows(columns, rows).values[1].tolist() == [4.0]
    assert columns.matrix().tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert columns.matrix(1, 9).tolist() == [[2.0, 4.0]]


class CountedLabel:
    """A label that counts how often it is compared."""

    compared = 0

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        CountedLabel.compared += 1
        return isinstance(other, CountedLabel) and other.number == self.number


@pytest.mark.parametrize("dtype", ["category", object])
def test_labels_are_looked_up_and_not_searched(dtype):
    known = tuple(CountedLabel(i) for i in range(300))
    spec = FeatureSpec("a", "categorical", known, n_codes=300, numbers_are="labels")
    own = [CountedLabel(i) for i in (299, 5, 1000)]
    column = pd.Series(own, dtype=object)
    if dtype == "category":
        column = pd.Series(pd.Categorical.from_codes([0, 1, 2], categories=own))
    (codes,) = read_columns(pd.DataFrame({"a": column}), (spec,)).values
    assert codes.tolist() == [299.0, 5.0, 300.0]
    CountedLabel.compared = 0
    read_columns(pd.DataFrame({"a": column}), (spec,))
    assert CountedLabel.compared < 50


def test_the_first_of_equal_labels_counts():
    assert FeatureSpec("a", "categorical", ("x", 1, 1.0, True), n_codes=4).code_of == {"x": 0, 1: 1}
    hashed = FeatureSpec("a", "categorical", ("x",), n_codes=2, label_hashes=(7, 9))
    assert hashed.code_of == {7: 0, 9: 1}


def named(names):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(100, 2)), columns=["a", "b"])
    trained = X if names else X.to_numpy()
    model = GradientBoostingRegressor(max_depth=2, n_estimators=10, random_state=0)
    return model.fit(trained, X["a"] * X["b"]), X, model.predict(trained)


@pytest.mark.parametrize("names", [True, False])
def test_columns_to_ignore(names, tmp_path):
    model, X, expected = named(names)
    wide = X.assign(id="one", y=0.0)[["y", "a", "id", "b"]]
    with pytest.raises(
        InvalidInputError, match=r"ignore=\[\.\.\.\]|2 features, .*the data .*4 columns"
    ):
        tp.purify(model, wide, weights="empirical")
    parsed = tp.parse_model(model, ignore=["id", "y", "never there"])
    d = tp.purify(parsed, wide, weights="empirical", progress=False)
    d.save(tmp_path / "d.tpz")
    for one in (d, tp.load(tmp_path / "d.tpz")):
        np.testing.assert_allclose(one.predict(wide), expected, atol=1e-12)
        np.testing.assert_allclose(one.predict(X), expected, atol=1e-12)
        with pytest.raises(InvalidInputError, match=r"'more'|5 columns|3 columns"):
            one.predict(wide.assign(more=1.0))
    assert d.verify(parsed, wide).relative_difference < 1e-12
    assert tp.audit(parsed, wide, n_bootstrap=0, progress=False).decomposition.intercept.size == 1


def test_features_are_not_ignored():
    model, _, _ = named(names=True)
    with pytest.raises(InvalidInputError, match="ignore must not name features of the model: 'a'"):
        tp.parse_model(model, ignore=["a"])
    with pytest.raises(InvalidInputError, match="ignore must be"):
        tp.parse_model(model, ignore="id")
