"""Every field of a saved decomposition, changed: refused with one error, or it does no harm.

`TREEPURIFY_FUZZ_SECONDS` is the time for each engine, `TREEPURIFY_FUZZ_SEED` the first seed.
"""

import copy
import io
import json
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from tests.fuzz.trial_seeds import consecutive_seeds
from tests.saved_files import DOCUMENT, entries_of, zipped
from treepurify.errors import SavedFileError

pytestmark = [
    pytest.mark.fuzz,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::treepurify.errors.FitWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]
LEAST_TRIALS = 60
VALUES = [
    None, True, -1, -1.5, 10**9, 1e308, float("nan"), float("inf"), "", "zz", [], [1], [["a"]],
    {"mapping": []}, {"object": 0}, {"array": 0},
]  # fmt: skip
CHANGES = [
    lambda a: a[:1],
    lambda a: a[::-1].copy(),
    lambda a: a[..., None],
    lambda a: a - 10**6,
    lambda a: a + 10**6,
    lambda a: a * 0,
    lambda a: a + np.nan,
    lambda a: a.astype(np.float32),
    lambda a: np.zeros(0, a.dtype),
]


def engines(X, mixed, y, model, with_labels):
    quiet = {"progress": False}
    return {
        "exact": (
            lambda: tp.purify(with_labels, mixed, order=2, **{"weights": "empirical", **quiet}),
            mixed,
        ),
        "boxes": (lambda: tp.purify(model, X, weights="independent", **quiet), X),
        "partial dependence": (lambda: tp.partial_dependence_anova(model, X, **quiet), X),
        "ale": (lambda: tp.ale_anova(model, X, bins=4, **quiet), X),
        "legendre": (lambda: tp.legendre_anova(y, X, degree=2, **quiet), X),
        "hooker": (lambda: tp.hooker_anova(model, X, **quiet), X),
    }


ENGINES = ["exact", "boxes", "partial dependence", "ale", "legendre", "hooker"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A small file of each engine, and rows for it."""
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(150, 4)), columns=list("abcd"))
    mixed = X.assign(kind=pd.Categorical(rng.choice(list("uvw"), 150)))
    y = (X["a"] * X["b"] + (mixed["kind"] == "u") + X["c"] * X["d"] * X["a"]).to_numpy()
    model = GradientBoostingRegressor(n_estimators=4, max_depth=3, random_state=0).fit(X, y)
    with_labels = lightgbm.LGBMRegressor(
        n_estimators=4, num_leaves=4, verbose=-1, n_jobs=1, min_data_per_group=3
    ).fit(mixed, y)
    files = {}
    for name, (decompose, rows) in engines(X, mixed, y, model, with_labels).items():
        path = tmp_path_factory.mktemp("saved") / "d.tpz"
        decompose().save(path)
        files[name] = entries_of(path), rows.head(5)
    return files


def places(value, path=()):
    """Yield the path of every value in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from places(inner, (*path, key))


def forged(entries, seed):
    """Change one field, or one array."""
    rng = np.random.default_rng(seed)
    if rng.random() < 0.4:
        arrays = [name for name in entries if name.endswith(".npy")]
        name = arrays[rng.integers(len(arrays))]
        change = CHANGES[rng.integers(len(CHANGES))]
        entry = io.BytesIO()
        np.save(entry, change(np.load(io.BytesIO(entries[name]))))
        return entries | {name: entry.getvalue()}
    document = copy.deepcopy(json.loads(entries[DOCUMENT]))
    known = [path for path in places(document) if path[0] != "version"]
    *above, last = known[rng.integers(len(known))]
    holder = document
    for key in above:
        holder = holder[key]
    if rng.random() < 0.1:
        del holder[last]
    else:
        holder[last] = VALUES[rng.integers(len(VALUES))]
    return entries | {DOCUMENT: json.dumps(document).encode()}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_changed_field_is_refused_or_harmless(saved, engine, tmp_path):
    """Nothing but `SavedFileError` on loading; later an ordinary error, never the process's end."""
    entries, rows = saved[engine]
    for seed in consecutive_seeds(LEAST_TRIALS):
        path = zipped(forged(entries, seed), tmp_path / "forged.tpz")
        try:
            d = tp.load(path)
        except SavedFileError:
            continue
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
        values = np.empty((len(rows), d.n_outputs))
        with suppress(Exception):
            values = d.on_rows(rows)
        assert values.shape == (len(rows), d.n_outputs), f"seed {seed}"
        for step in (d.__str__, d.importance, d.to_frame):
            with suppress(Exception):
                step()


@pytest.mark.parametrize("far", [10**6, 2**31 - 1])
def test_cells_beyond_the_grid_are_refused(saved, tmp_path, far):
    entries, _ = saved["partial dependence"]
    document = json.loads(entries[DOCUMENT])
    boxes = next(own["fields"] for own in document["objects"] if own["kind"] == "LeafBoxes")
    name = f"{boxes['run_stop']['array']}.npy"
    entry = io.BytesIO()
    np.save(entry, np.load(io.BytesIO(entries[name])) * 0 + np.int32(far))
    with pytest.raises(SavedFileError, match="cells that do not exist"):
        tp.load(zipped(entries | {name: entry.getvalue()}, tmp_path / "forged.tpz"))
