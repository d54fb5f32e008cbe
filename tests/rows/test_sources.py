"""Every kind of source gives the same rows, and what is wrong with one is said by name."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import treepurify as tp
from treepurify.rows.columns import FeatureSpec
from treepurify.rows.reduction import RowStream
from treepurify.rows.source_reader import source_reader
from treepurify.rows.sources import as_source, open_rows

ROWS = 500
FEATURES = (FeatureSpec("size"), FeatureSpec("town", "categorical", ("Bonn", "Ulm"), n_codes=2))


def frame():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"other": np.arange(ROWS), "size": rng.normal(size=ROWS)})
    table["town"] = rng.choice(["Ulm", "Bonn", "Rome"], size=ROWS)
    table.loc[3, ["size", "town"]] = [np.nan, None]
    table["weight"] = rng.integers(0, 3, ROWS).astype(float)
    return table


def parts():
    return [frame().iloc[start : start + 170] for start in range(0, ROWS, 170)]


@pytest.fixture
def files(tmp_path):
    pytest.importorskip("pyarrow")
    for number, part in enumerate(parts()):
        part.to_parquet(tmp_path / f"part{number}.parquet", row_group_size=64)
    return tmp_path


def dataset(files):
    return pytest.importorskip("pyarrow.dataset").dataset(files)


def lazy_frame(files):
    polars = pytest.importorskip("polars")
    if not hasattr(polars.LazyFrame, "collect_batches"):
        pytest.skip("this polars gives no batches")
    return polars.scan_parquet(files / "*.parquet")


def relation(files):
    duckdb = pytest.importorskip("duckdb")
    return duckdb.read_parquet(str(files / "*.parquet"))


def arrow_reader(files):
    arrow = pytest.importorskip("pyarrow")
    return arrow.Table.from_pandas(frame()).to_reader(100)


SOURCES = {
    "folder": str,
    "path": lambda files: files,
    "pattern": lambda files: str(files / "part?.parquet"),
    "list of files": lambda files: sorted(files.glob("*.parquet")),
    "dataset": dataset,
    "lazy frame": lazy_frame,
    "relation": relation,
    "Arrow stream": arrow_reader,
    "iterator": lambda files: iter(parts()),
    "callable": lambda files: lambda: iter(parts()),
    "list of tables": lambda files: parts(),
}
ONCE = {"Arrow stream", "iterator"}


def read_all(source, weight=None):
    reader = source_reader(source, FEATURES, (0, 1), match_names=True, weight=weight)
    return list(RowStream(source, reader).batches())


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_gives_all_rows_in_order(kind, files):
    source = as_source(SOURCES[kind](files))
    table = frame()
    assert source.can_repeat == (kind not in ONCE)
    # What is read to see the columns is not lost.
    assert list(source.head().columns if hasattr(source.head(), "columns") else [1])
    for _ in range(2 if source.can_repeat else 1):
        batches = read_all(source, "weight")
        size, town = (
            np.concatenate([batch.columns.values[j] for batch in batches]) for j in range(2)
        )
        np.testing.assert_array_equal(size, table["size"])
        codes = table["town"].map({"Bonn": 0.0, "Ulm": 1.0, "Rome": 2.0})
        np.testing.assert_array_equal(town, codes)
        weights = np.concatenate([batch.weights for batch in batches])
        np.testing.assert_array_equal(weights, table["weight"])
        places = [(batch.part, batch.first_row) for batch in batches]
        assert places == sorted(set(places))


@pytest.mark.parametrize(
    "value", [None, np.zeros((3, 2)), frame(), [[1.0, 2.0]], tp.weights.JointTable]
)
def test_what_is_in_memory_is_no_source(value):
    assert as_source(value) is None


@pytest.mark.parametrize(
    ("table", "names"),
    [
        (frame(), tuple(frame())),
        (np.zeros((ROWS, 2)), None),
        ([[1.0, 2.0]] * ROWS, None),
        (sparse.csr_array(np.eye(ROWS)), None),
    ],
    ids=["frame", "array", "lists", "sparse rows"],
)
def test_a_table_is_a_source_of_one_batch(table, names):
    source = open_rows(table)
    assert (source.names, source.n_rows, source.can_repeat) == (names, ROWS, True)
    (batch,) = source.batches(None)
    assert batch.table is table
    assert open_rows(source) is source


def test_only_the_columns_that_are_used_are_read(files):
    source = as_source(files)
    reader = source_reader(source, FEATURES, (0,), match_names=True)
    batch = next(iter(source.batches(reader.wanted)))
    assert batch.table.schema.names == ["size"]
    assert np.all(np.isnan(reader.read(batch).columns.values[1]))


def test_a_folder_may_name_values(tmp_path):
    pytest.importorskip("pyarrow")
    for town in ("Bonn", "Ulm"):
        (tmp_path / f"town={town}").mkdir()
        pd.DataFrame({"size": [1.0, 2.0]}).to_parquet(tmp_path / f"town={town}" / "a.parquet")
    batches = read_all(as_source(tmp_path))
    towns = np.concatenate([batch.columns.values[1] for batch in batches])
    np.testing.assert_array_equal(towns, [0.0, 0.0, 1.0, 1.0])


def test_a_filtered_dataset_gives_what_it_lets_through(files):
    arrow = pytest.importorskip("pyarrow.dataset")
    kept = dataset(files).filter(arrow.field("other") < 200)
    assert sum(batch.columns.n_rows for batch in read_all(as_source(kept))) == 200


def test_empty_batches_and_empty_files_are_passed_over(files):
    parts()[0].iloc[:0].to_parquet(files / "part0.parquet")
    n_rows = sum(batch.columns.n_rows for batch in read_all(as_source(files)))
    assert n_rows == ROWS - 170
    tables = [part.iloc[:0] for part in parts()] + parts()
    assert sum(batch.columns.n_rows for batch in read_all(as_source(iter(tables)))) == ROWS


def test_a_file_without_a_column_is_named(files):
    parts()[1].drop(columns="size").to_parquet(files / "part1.parquet")
    with pytest.raises(tp.errors.InvalidInputError, match=r"part1\.parquet.* has no column 'size'"):
        read_all(as_source(files))


def test_a_file_of_another_type_is_named(files):
    changed = parts()[2].assign(size="large")
    changed.to_parquet(files / "part2.parquet")
    with pytest.raises(
        tp.errors.InvalidInputError, match=r"part2\.parquet.*feature 'size' is numeric"
    ):
        read_all(as_source(files))


def test_a_damaged_file_is_named(files):
    content = (files / "part1.parquet").read_bytes()
    (files / "part1.parquet").write_bytes(content[:40] + b"x" * (len(content) - 40))
    with pytest.raises(tp.errors.InvalidInputError, match=r"part1\.parquet.* cannot be read"):
        read_all(as_source(files))


def test_negative_weights_are_refused_by_file_and_column(files):
    parts()[1].assign(weight=-1.0).to_parquet(files / "part1.parquet")
    with pytest.raises(
        tp.errors.InvalidInputError, match=r"part1\.parquet.*column 'weight'.*negative"
    ):
        read_all(as_source(files), "weight")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("nowhere.parquet", "there is no file"),
        ("*.nothing", "there is no file"),
        (["a.parquet", 3], "only text or paths; one entry is 3"),
    ],
)
def test_files_that_are_not_there_are_named(given, words):
    pytest.importorskip("pyarrow")
    with pytest.raises(tp.errors.InvalidInputError, match=words):
        as_source(given)


def test_other_files_are_refused_with_a_way_out(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "a.csv").write_text("size,town\n1,Ulm\n")
    with pytest.raises(tp.errors.InvalidInputError, match=r"polars\.scan_csv"):
        as_source(str(tmp_path / "a.csv"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(tp.errors.InvalidInputError, match="no Parquet files"):
        as_source(tmp_path / "empty")


@pytest.mark.parametrize(
    "given", [iter([]), lambda: iter(()), lambda: 3, lambda: iter([frame()[:0]])]
)
def test_a_stream_that_gives_no_rows_is_refused(given):
    with pytest.raises(tp.errors.InvalidInputError, match=r"gave no rows|must return an iterable"):
        read_all(as_source(given))


class Undefined:
    """A callable whose annotations name what exists for type checkers only, in Python 3.14."""

    @property
    def __signature__(self):
        raise NameError("name 'DataFrame' is not defined")

    def __call__(self):
        return iter(parts())


def test_annotations_that_cannot_be_looked_up_do_no_harm():
    batches = as_source(Undefined()).batches(None)
    assert sum(len(batch.table) for batch in batches) == ROWS


def test_batches_with_and_without_names_do_not_mix():
    mixed = iter([frame(), np.zeros((3, 2))])
    with pytest.raises(tp.errors.InvalidInputError, match="some batches have column names"):
        read_all(as_source(mixed))


def test_what_can_be_read_once_is_never_read_in_part_again():
    source = as_source(iter(parts()))
    assert sum(batch.columns.n_rows for batch in read_all(source)) == ROWS
    with pytest.raises(tp.errors.InvalidInputError, match="already read"):
        list(source.batches(None))


def test_an_endless_stream_is_read_as_it_comes():
    endless = as_source(frame() for _ in itertools.count())
    reader = source_reader(endless, FEATURES, (0,), match_names=True)
    taken = list(itertools.islice(RowStream(endless, reader).batches(), 3))
    assert [batch.first_row for batch in taken] == [0, ROWS, 2 * ROWS]
