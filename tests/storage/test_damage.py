"""Damaged and forged files are refused before they reach memory or compiled code."""

import io
import json
import tracemalloc

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from tests.saved_files import DOCUMENT, changed, entries_of, whole, zipped

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
        ("boxes", "LeafBoxes", "run_ptr", lambda a: a + 10**9),
        ("patterns", "LeafBoxes", "entry_ptr", lambda a: a[::-1]),
        ("patterns", "LeafBoxes", "output", lambda a: a + 10**6),
        ("patterns", "LeafBoxes", "leaf_subset", lambda a: a + 10**6),
        ("patterns", "LeafBoxes", "entry_feature", lambda a: a * 0 + 3),
        ("patterns", "LeafBoxes", "entry_feature", lambda a: a * 0 + 10**9),
        ("patterns", "LeafBoxes", "entry_feature", lambda a: a - 10),
        ("patterns", "LeafBoxes", "run_start", lambda a: a - 10**6),
        ("patterns", "EncodedRows", "codes", lambda a: a * 0 + 255),
        ("patterns", "EncodedRows", "codes", lambda a: a[:2]),
        ("patterns", "LeafBoxes", "values", lambda a: a[:1]),
        ("patterns", "LeafBoxes", "run_stop", lambda a: a[:1]),
        ("boxes", "BoxComponent", "probability", lambda a: a[:1]),
        ("patterns", "PatternShares", "share", lambda a: a[:1]),
        ("patterns", "LeafBoxes", "run_start", lambda a: a.astype(float)),
        ("ale", "TreeEnsemble", "tree_ptr", lambda a: a - 10**9),
        ("ale", "TreeEnsemble", "cut", lambda a: a[:1]),
        ("ale", "TreeEnsemble", "right", lambda a: a + 10**6),
        ("ale", "TreeEnsemble", "value", lambda a: a[:, :0]),
        ("ale", "TreeEnsemble", "tree_output", lambda a: a[:1]),
    ],
)
def test_tables_that_compiled_code_would_run_out_of(saved, tmp_path, file, kind, field, change):
    entries = entries_of(saved / f"{file}.tpz")
    name = f"{number_of(entries, kind, field)}.npy"
    entries[name] = array_bytes(change(np.load(io.BytesIO(entries[name]))))
    with pytest.raises(tp.errors.SavedFileError):
        tp.load(zipped(entries, tmp_path / "forged.tpz"))


def test_untouched_files_pass_every_check(saved, tmp_path, X):
    for path in saved.iterdir():
        again = tp.load(zipped(entries_of(path), tmp_path / path.name))
        for component in again.components.values():
            assert np.all(np.isfinite(component.on_rows(X)))


def test_a_huge_claimed_shape_allocates_nothing(saved, tmp_path):
    entries = entries_of(saved / "ale.tpz")
    name = f"{number_of(entries, 'TreeEnsemble', 'cut')}.npy"
    entry = io.BytesIO()
    claimed = {"descr": "<f8", "fortran_order": False, "shape": (2**33,)}
    np.lib.format.write_array_header_1_0(entry, claimed)
    entries[name] = entry.getvalue() + b"\0" * 64
    path = zipped(entries, tmp_path / "huge.tpz")
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
    entries[f"{number_of(entries, 'TreeEnsemble', 'cut')}.npy"] = entry.getvalue()
    with pytest.raises(tp.errors.SavedFileError, match="only numbers"):
        tp.load(zipped(entries, tmp_path / "objects.tpz"))


def test_a_header_of_an_array_that_is_cut_short(saved, tmp_path):
    entries = entries_of(saved / "patterns.tpz")
    entries["0.npy"] = entries["0.npy"].replace(b"}", b"(", 1)
    damaged = zipped(entries, tmp_path / "damaged.tpz")
    with pytest.raises(tp.errors.SavedFileError, match="multi-line"):
        tp.load(damaged)


def test_what_unpacks_without_end_is_not_unpacked(saved, tmp_path):
    entries = entries_of(saved / "ale.tpz")
    entries["filler.npy"] = bytes(8 << 20)
    with pytest.raises(tp.errors.SavedFileError, match="no decomposition needs"):
        tp.load(zipped(entries, tmp_path / "bomb.tpz"))


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
@pytest.mark.parametrize(
    ("kind", "field", "message"),
    [("Decomposition", "intercept", "intercept"), ("TensorComponent", "values", "not finite")],
)
def test_an_intercept_or_a_table_that_is_not_finite_is_refused(
    tmp_path, kind, field, message, value
):
    tp.purify_tensors({(0, 1): np.eye(2)}, progress=False).save(tmp_path / "d.tpz")
    entries = entries_of(tmp_path / "d.tpz")
    name = f"{number_of(entries, kind, field)}.npy"
    values = np.load(io.BytesIO(entries[name]))
    values.flat[0] = value
    with pytest.raises(tp.errors.SavedFileError, match=message):
        tp.load(zipped({**entries, name: array_bytes(values)}, tmp_path / "forged.tpz"))


@pytest.mark.parametrize("name", [DOCUMENT, "filler.json", "filler.npy", "0.npy"])
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


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("inputs", 7),
        ("remainder", [1]),
        ("output_names", ["a", "b"]),
        ("intercept", None),
        ("components", {"mapping": [[[0], {"object": 0}]]}),
        ("components", [1]),
        ("colour", "red"),
    ],
)
def test_parts_of_the_whole_fit(saved, tmp_path, part, value):
    path = zipped(entries_of(saved / "patterns.tpz"), tmp_path / "forged.tpz")
    changed(path, lambda document: whole(document).update({part: value}))
    with pytest.raises(tp.errors.SavedFileError):
        tp.load(path)


@pytest.mark.parametrize("version", [2, 3, 5])
def test_other_versions_are_refused(saved, tmp_path, version):
    path = zipped(entries_of(saved / "ale.tpz"), tmp_path / "other.tpz")
    changed(path, lambda document: document.update(version=version))
    advice = "update treepurify" if version == 5 else "decompose the model again"
    with pytest.raises(tp.errors.SavedFileError, match=rf"version {version}, .* 4: {advice}"):
        tp.load(path)


@pytest.mark.parametrize("change", [lambda a: a[:1], lambda a: a[..., None]])
def test_values_that_cannot_be_evaluated_are_found_on_loading(saved, tmp_path, change):
    entries = entries_of(saved / "ale.tpz")
    name = f"{number_of(entries, 'AccumulatedComponent', 'values')}.npy"
    entries[name] = array_bytes(change(np.load(io.BytesIO(entries[name]))))
    with pytest.raises(tp.errors.SavedFileError, match="do not fit their nodes"):
        tp.load(zipped(entries, tmp_path / "forged.tpz"))
