"""Damaged and forged files are refused before they reach memory or compiled code."""

import io
import json
import tracemalloc
from pathlib import Path
from types import GenericAlias, SimpleNamespace
from typing import Any, TypeVar

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from tests.saved_files import CHECKSUMS, DOCUMENT, changed, entries_of, rewritten, zipped
from treepurify.storage.encoding import check_types

# Few functions are fitted here, which is what the warning is about.
pytestmark = pytest.mark.filterwarnings("ignore::treepurify.errors.FitWarning")


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(200, 5)).astype(np.float32)


@pytest.fixture(scope="module")
def saved(X, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    y = X[:, 0] * X[:, 1] * X[:, 2] + X[:, 3]
    model = GradientBoostingRegressor(n_estimators=8, max_depth=4, random_state=0).fit(X, y)
    quiet = {"progress": False}
    deep = GradientBoostingRegressor(n_estimators=30, max_depth=6, random_state=0).fit(X, y)
    independent = tp.purify(deep, X, order=4, weights="independent", **quiet)
    independent.save(folder / "boxes.tpz")
    tp.partial_dependence_anova(model, X, order=None, **quiet).save(folder / "patterns.tpz")
    tp.ale_anova(model, X, bins=4, **quiet).save(folder / "ale.tpz")
    smooth = tp.legendre_anova(y, X, degree=2, scaling="tanh", **quiet)
    smooth.save(folder / "legendre.tpz")
    return folder


def array_bytes(array):
    entry = io.BytesIO()
    np.save(entry, array)
    return entry.getvalue()


def number_of(entries, kind, field):
    """Return the number of the array that a field of the first object of a kind refers to."""
    document = json.loads(entries["decomposition.json"])
    fields = next(own["fields"] for own in document["objects"] if own["kind"] == kind)
    return fields[field]["array"]


@pytest.mark.parametrize(
    ("file", "kind", "field", "change"),
    [
        ("boxes", "leaf boxes", "run_ptr", lambda a: a + 10**9),
        ("patterns", "leaf boxes", "entry_ptr", lambda a: a[::-1]),
        ("patterns", "leaf boxes", "output", lambda a: a + 10**6),
        ("patterns", "leaf boxes", "leaf_subset", lambda a: a + 10**6),
        ("patterns", "leaf boxes", "entry_feature", lambda a: a * 0 + 3),
        ("patterns", "leaf boxes", "entry_feature", lambda a: a * 0 + 10**9),
        ("patterns", "leaf boxes", "entry_feature", lambda a: a - 10),
        ("patterns", "leaf boxes", "run_start", lambda a: a - 10**6),
        ("patterns", "rows", "codes", lambda a: a * 0 + 255),
        ("patterns", "rows", "codes", lambda a: a[:2]),
        ("patterns", "leaf boxes", "values", lambda a: a[:1]),
        ("patterns", "leaf boxes", "run_stop", lambda a: a[:1]),
        ("boxes", "boxes", "probability", lambda a: a[:1]),
        ("patterns", "pattern shares", "slot_ptr", lambda a: a + 10**9),
        ("patterns", "pattern shares", "choose", lambda a: a + 10**6),
        ("patterns", "pattern shares", "share", lambda a: a[:1]),
        ("patterns", "leaf boxes", "run_start", lambda a: a.astype(float)),
        ("ale", "trees", "tree_ptr", lambda a: a - 10**9),
        ("ale", "trees", "cut", lambda a: a[:1]),
        ("ale", "trees", "right", lambda a: a + 10**6),
        ("ale", "trees", "value", lambda a: a[:, :0]),
        ("ale", "trees", "tree_output", lambda a: a[:1]),
    ],
)
def test_tables_that_compiled_code_would_run_out_of(saved, tmp_path, file, kind, field, change):
    entries = entries_of(saved / f"{file}.tpz")
    name = f"{number_of(entries, kind, field)}.npy"
    entries[name] = array_bytes(change(np.load(io.BytesIO(entries[name]))))
    with pytest.raises(tp.errors.SavedFileError):
        tp.load(rewritten(entries, tmp_path / "forged.tpz"))


def test_untouched_files_pass_every_check(saved, tmp_path, X):
    for path in saved.iterdir():
        again = tp.load(rewritten(entries_of(path), tmp_path / path.name))
        for component in again.components.values():
            assert np.all(np.isfinite(component.on_rows(X)))


def test_a_huge_claimed_shape_allocates_nothing(saved, tmp_path):
    entries = entries_of(saved / "ale.tpz")
    name = f"{number_of(entries, 'trees', 'cut')}.npy"
    entry = io.BytesIO()
    claimed = {"descr": "<f8", "fortran_order": False, "shape": (2**33,)}
    np.lib.format.write_array_header_1_0(entry, claimed)
    entries[name] = entry.getvalue() + b"\0" * 64
    path = rewritten(entries, tmp_path / "huge.tpz")
    tracemalloc.start()
    with pytest.raises(tp.errors.SavedFileError, match="64 bytes for an array"):
        tp.load(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2e7


@pytest.mark.parametrize("array", [np.array([{}], dtype=object), np.array(["a"])])
def test_only_numbers_are_read(saved, tmp_path, array):
    entries = entries_of(saved / "ale.tpz")
    entry = io.BytesIO()
    np.save(entry, array, allow_pickle=True)
    entries[f"{number_of(entries, 'trees', 'cut')}.npy"] = entry.getvalue()
    with pytest.raises(tp.errors.SavedFileError, match="only numbers"):
        tp.load(rewritten(entries, tmp_path / "objects.tpz"))


def test_a_header_of_an_array_that_is_cut_short(saved, tmp_path):
    entries = entries_of(saved / "patterns.tpz")
    entries["0.npy"] = entries["0.npy"].replace(b"}", b"(", 1)
    damaged = rewritten(entries, tmp_path / "damaged.tpz")
    with pytest.raises(tp.errors.SavedFileError, match="multi-line"):
        tp.load(damaged)


def test_what_unpacks_without_end_is_not_unpacked(saved, tmp_path, monkeypatch):
    monkeypatch.setattr("treepurify.storage.archive._ALWAYS_UNPACKED", 1 << 20)
    entries = entries_of(saved / "ale.tpz")
    entries["filler.npy"] = bytes(8 << 20)
    with pytest.raises(tp.errors.SavedFileError, match="no decomposition needs"):
        tp.load(rewritten(entries, tmp_path / "bomb.tpz"))


def test_bytes_turned_at_random_change_nothing_unseen(saved, tmp_path, X):
    rng = np.random.default_rng(0)
    content = (saved / "patterns.tpz").read_bytes()
    truth = tp.load(saved / "patterns.tpz").on_rows(X)
    refused = 0
    for _ in range(60):
        damaged = bytearray(content)
        damaged[rng.integers(len(content))] ^= int(rng.integers(1, 256))
        path = tmp_path / "damaged.tpz"
        path.write_bytes(damaged)
        try:
            d = tp.load(path)
        except tp.errors.SavedFileError:
            refused += 1
            continue
        np.testing.assert_array_equal(d.on_rows(X), truth)
    assert refused > 40


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_intercept_or_a_table_that_is_not_finite_is_refused(tmp_path, value):
    tp.purify_tensors({(0, 1): np.eye(2)}, progress=False).save(tmp_path / "d.tpz")
    entries = entries_of(tmp_path / "d.tpz")
    document = json.loads(entries["decomposition.json"])
    forged = json.dumps({**document, "intercept": [value]}).encode()
    with pytest.raises(tp.errors.SavedFileError, match="intercept"):
        tp.load(rewritten({**entries, "decomposition.json": forged}, tmp_path / "forged.tpz"))
    name = f"{number_of(entries, 'table', 'values')}.npy"
    values = np.load(io.BytesIO(entries[name]))
    values.flat[0] = value
    with pytest.raises(tp.errors.SavedFileError, match="not finite"):
        tp.load(rewritten({**entries, name: array_bytes(values)}, tmp_path / "forged.tpz"))


def test_every_entry_has_a_checksum(saved, tmp_path):
    entries = entries_of(saved / "ale.tpz")
    assert set(json.loads(entries[CHECKSUMS])) == set(entries) - {CHECKSUMS}
    other = {
        DOCUMENT: entries[DOCUMENT].replace(b'"engine": "', b'"engine": "x', 1),
        "0.npy": entries["0.npy"][:-1] + bytes([entries["0.npy"][-1] ^ 1]),
    }
    for name, content in other.items():
        with pytest.raises(tp.errors.SavedFileError, match=f"{name} does not have its checksum"):
            tp.load(zipped(entries | {name: content}, tmp_path / "other.tpz"))
    del entries[CHECKSUMS]
    with pytest.raises(tp.errors.SavedFileError, match="checksums are missing"):
        tp.load(zipped(entries, tmp_path / "none.tpz"))


def test_files_of_version_2_are_read():
    d = tp.load(Path(__file__).parents[1] / "data" / "version-2.tpz")
    rows = np.array([[4.0, 3.0, 2.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(d.on_rows(rows)[:, 0], [9.11168875, 4.688563222222222, 4.340275])
    np.testing.assert_allclose(
        d["x0"].on_rows(rows)[:, 0],
        [1.0155383427579365, -0.7217765899234696, -1.2725097248441046],
    )


@pytest.mark.parametrize("name", [DOCUMENT, CHECKSUMS, "filler.json", "filler.npy", "0.npy"])
def test_a_small_file_that_unpacks_to_a_huge_one_is_not_unpacked(saved, tmp_path, name):
    entries = entries_of(saved / "ale.tpz")
    filler = b"[" + b"null," * (60 << 20) + b"null]" if "json" in name else bytes(300 << 20)
    path = zipped(entries | {name: filler}, tmp_path / "bomb.tpz")
    del filler
    assert path.stat().st_size < 1 << 20
    tracemalloc.start()
    with pytest.raises(tp.errors.SavedFileError, match="no decomposition needs"):
        tp.load(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1e7


def test_what_packs_tightly_is_saved_so_that_it_is_read(saved, tmp_path, monkeypatch):
    monkeypatch.setattr("treepurify.storage.archive._ALWAYS_UNPACKED", 1 << 10)
    monkeypatch.setattr("treepurify.storage.archive._MOST_TIMES_PACKED", 2)
    monkeypatch.setattr("treepurify.storage.archive._ALWAYS_READ", 1 << 10)
    monkeypatch.setattr("treepurify.storage.archive._MOST_TIMES_READ", 2)
    with pytest.raises(tp.errors.SavedFileError, match="no decomposition needs"):
        tp.load(saved / "patterns.tpz")
    monkeypatch.undo()
    d = tp.load(saved / "patterns.tpz")
    monkeypatch.setattr("treepurify.storage.archive._ALWAYS_READ", 1 << 10)
    monkeypatch.setattr("treepurify.storage.archive._MOST_TIMES_READ", 2)
    d.save(tmp_path / "again.tpz")
    assert list(tp.load(tmp_path / "again.tpz")) == list(d)


def set_field(kind, field, value):
    """Return a change of one field of the first object of a kind."""

    def change(document):
        next(o for o in document["objects"] if o["kind"] == kind)["fields"][field] = value

    return change


@pytest.mark.parametrize(
    ("file", "kind", "field", "value"),
    [
        ("ale", "feature", "name", 3),
        ("ale", "feature", "kind", "numerical"),
        ("ale", "feature", "n_codes", 1.5),
        ("ale", "feature", "has_missing", "no"),
        ("ale", "link", "scale", "1"),
        ("ale", "trees", "features", 5),
        ("ale", "trees", "link", None),
        ("boxes", "axis", "cuts", [1.0, 2.0]),
        ("patterns", "patterns", "features", ["x0"]),
        ("patterns", "patterns", "n_outputs", True),
    ],
)
def test_fields_are_of_their_types(saved, tmp_path, file, kind, field, value):
    path = rewritten(entries_of(saved / f"{file}.tpz"), tmp_path / "forged.tpz")
    changed(path, set_field(kind, field, value))
    with pytest.raises(tp.errors.SavedFileError, match=r"for its field|not fit"):
        tp.load(path)


class Alias(SimpleNamespace):
    """What Python 3.12 makes of `type Alias[scalar] = ...`."""

    def __getitem__(self, arguments):
        return GenericAlias(self, arguments)


def test_arrays_that_are_declared_by_an_alias():
    """NumPy 2.5 declares `NDArray` as an alias that Python does not replace by its type."""
    scalar = TypeVar("scalar", bound=np.generic)
    floats = Alias(__value__=np.ndarray[tuple[Any, ...], np.dtype[scalar]])[np.float64]

    def holder(table, name): ...

    holder.__annotations__ = {"table": floats, "name": Alias(__value__=str)}
    check_types("holder", holder, {"table": np.ones(2), "name": "age"})
    for wrong in ({"table": np.ones(2, dtype=np.int64)}, {"table": None}, {"name": 1}):
        with pytest.raises(tp.errors.SavedFileError, match="for its field"):
            check_types("holder", holder, wrong)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("inputs", 7),
        ("remainder", [1]),
        ("output_names", ["a", "b"]),
        ("intercept", [float("nan")]),
        ("intercept", [[0.0]]),
        ("covariances", [[[0], [1.0, 2.0]]]),
        ("certificate", {"scale": "x"}),
        ("link", {"mapping": []}),
        ("components", {"mapping": [[[0], {"object": 0}]]}),
        ("cancelling", [[0, 1]]),
        ("cancelling", {"object": 0}),
        ("near_copies", [[0, 1]]),
        ("near_copies", {"object": 0}),
    ],
)
def test_parts_of_the_whole_fit(saved, tmp_path, part, value):
    path = rewritten(entries_of(saved / "patterns.tpz"), tmp_path / "forged.tpz")

    def change(document):
        document[part] = document[part] | value if part == "certificate" else value

    changed(path, change)
    with pytest.raises(tp.errors.SavedFileError):
        tp.load(path)


@pytest.mark.parametrize("change", [lambda a: a[:1], lambda a: a[..., None]])
def test_values_that_cannot_be_evaluated_are_found_on_loading(saved, tmp_path, change):
    entries = entries_of(saved / "ale.tpz")
    name = f"{number_of(entries, 'accumulated', 'values')}.npy"
    entries[name] = array_bytes(change(np.load(io.BytesIO(entries[name]))))
    with pytest.raises(tp.errors.SavedFileError, match=r"evaluated|values of shapes"):
        tp.load(rewritten(entries, tmp_path / "forged.tpz"))
