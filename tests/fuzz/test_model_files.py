"""Damaged files of every format: an error of ours or a model that predicts, and never a crash.

The law: a file of up to 1 MB is refused with an error of treepurify, or read, within 2 seconds of
processor time and 500 MB of memory; above that in proportion.

`TREEPURIFY_FUZZ_SECONDS` is the time for each format, `TREEPURIFY_FUZZ_SEED` the first seed.
"""

import collections
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import treepurify as tp
from tests.fuzz.limited_child import Reader
from tests.fuzz.mutations import ARCHIVE, BINARY, JSON, TEXT, UBJSON, mutate
from tests.fuzz.trial_seeds import consecutive_seeds

pytestmark = [
    pytest.mark.fuzz,
    pytest.mark.slow,
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="limits of memory are those of Linux"
    ),
]

MUTATIONS = {
    "xgboost.json": JSON,
    "xgboost.ubj": UBJSON,
    "lightgbm.txt": TEXT,
    "catboost.json": JSON,
    "catboost.cbm": BINARY,
    "ebm.json": JSON,
    "decomposition.tpz": ARCHIVE,
}
# The library reads the same file, as `purify` lets it do, and is to say the same.
COMPARED = set(MUTATIONS) - {"decomposition.tpz"}
# CatBoost reads a file in a process of its own, which takes a second.
SEEDS = dict.fromkeys(MUTATIONS, 60) | {"catboost.cbm": 3}
VIOLATIONS = {"foreign error", "not finite", "slow", "died"}


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """Two or three small files of each format."""
    folder = tmp_path_factory.mktemp("originals")
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=150), "b": rng.normal(size=150)})
    X["c"] = rng.integers(0, 4, 150)
    y = (X["a"] * X["b"] + (X["c"] == 2)).to_numpy()
    classes = np.digitize(y, [-0.3, 0.5])
    files = {name: [] for name in MUTATIONS}
    for kind, target in (("regression", y), ("classes", classes)):
        for write in (write_xgboost, write_lightgbm, write_catboost, write_ebm):
            for name, path in write(folder, kind, X, target):
                files[name].append(path)
    for method in ("projection", "exact"):
        d = tp.purify(
            folder / "regression.xgboost.json",
            X,
            weights="empirical",
            method=method,
            progress=False,
        )
        d.save(folder / f"{method}.tpz")
        files["decomposition.tpz"].append(folder / f"{method}.tpz")
    return files


def write_xgboost(folder, kind, X, y):
    xgboost = pytest.importorskip("xgboost")
    objective = {"objective": "multi:softprob", "num_class": 3} if kind == "classes" else {}
    types = ["float", "float", "c"]
    rows = xgboost.DMatrix(X, y, feature_types=types, enable_categorical=True)
    parameters = {"max_depth": 3, "nthread": 1, "max_cat_to_onehot": 2, **objective}
    booster = xgboost.train(parameters, rows, 3)
    for name in ("xgboost.json", "xgboost.ubj"):
        booster.save_model(folder / f"{kind}.{name}")
        yield name, folder / f"{kind}.{name}"


def write_lightgbm(folder, kind, X, y):
    lightgbm = pytest.importorskip("lightgbm")
    objective = {"objective": "multiclass", "num_class": 3} if kind == "classes" else {}
    parameters = {"num_leaves": 5, "verbose": -1, "num_threads": 1, "min_data_per_group": 5}
    rows = lightgbm.Dataset(X, y, categorical_feature=["c"])
    path = folder / f"{kind}.lightgbm.txt"
    lightgbm.train({**parameters, **objective}, rows, 3).save_model(path)
    yield "lightgbm.txt", path


def write_catboost(folder, kind, X, y):
    catboost = pytest.importorskip("catboost")
    settings = {"iterations": 3, "depth": 3, "verbose": 0, "allow_writing_files": False}
    settings |= {"thread_count": 1, "one_hot_max_size": 9, "cat_features": ["c"]}
    settings |= {"loss_function": "MultiClass" if kind == "classes" else "RMSE"}
    for policy in ("SymmetricTree", "Lossguide"):
        model = catboost.CatBoost({**settings, "grow_policy": policy}).fit(X, y)
        for name in ("catboost.json", "catboost.cbm"):
            path = folder / f"{kind}.{policy}.{name}"
            # What differs from run to run would make a seed mean another mutation.
            for key in ("model_guid", "train_finish_time"):
                model.get_metadata()[key] = "0"
            model.save_model(str(path), format=path.suffix[1:])
            yield name, path


def write_ebm(folder, kind, X, y):
    glassbox = pytest.importorskip("interpret.glassbox")
    settings = {"max_rounds": 5, "outer_bags": 1, "n_jobs": 1, "max_bins": 8}
    types = ["continuous", "continuous", "nominal"]
    kinds = glassbox.ExplainableBoostingRegressor, glassbox.ExplainableBoostingClassifier
    model = kinds[kind == "classes"](**settings, interactions=[(0, 2)], feature_types=types)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        document = model.fit(X, y).to_jsonable()
    path = folder / f"{kind}.ebm.json"
    path.write_text(json.dumps(document))
    yield "ebm.json", path


@pytest.fixture(scope="module")
def reader(originals):
    # What CatBoost reads in a process of its own leaves nothing loaded in the reader.
    reader = Reader([paths[0] for name, paths in originals.items() if name != "catboost.cbm"])
    yield reader
    reader.close()


@pytest.mark.parametrize("name", MUTATIONS)
def test_originals_are_read(originals, reader, name):
    for path in originals[name]:
        answer = reader.read(path, ask_library=name in COMPARED)
        assert answer.outcome == "parsed", (path, answer)
        assert answer.agrees is (True if name in COMPARED else None)


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutations(originals, reader, tmp_path, name):
    damaged = tmp_path / f"damaged{Path(name).suffix}"
    counts, violations = collections.Counter(), []
    for seed in consecutive_seeds(SEEDS[name]):
        rng = np.random.default_rng([list(MUTATIONS).index(name), seed])
        original = originals[name][seed % len(originals[name])]
        damaged.write_bytes(mutate(original.read_bytes(), MUTATIONS[name], rng))
        answer = reader.read(damaged, ask_library=name in COMPARED)
        counts[answer.outcome] += 1
        counts["differing"] += answer.agrees is False
        if answer.outcome in VIOLATIONS or answer.agrees is False:
            violations.append((seed, answer))
    n_trials = sum(counts.values()) - counts["differing"]
    said = f"{name}: {n_trials} mutations, {dict(counts)}, {len(violations)} violations"
    print(said)  # noqa: T201 - the count of a long run, shown with pytest -s
    assert not violations, (
        f"{len(violations)} of {n_trials} damaged files of {name}; repeat one with "
        f"TREEPURIFY_FUZZ_SEED=<seed> pytest 'tests/fuzz/test_model_files.py::test_mutations"
        f"[{name}]': {violations[:20]}"
    )
