"""What every engine makes is saved, loaded and the same bit for bit."""

import copy
import json
import pickle
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier

import treepurify as tp
from tests.saved_files import changed, whole


def smooth(X):
    table = np.asarray(X, dtype=np.float64)
    return table[:, 0] * table[:, 1] + np.sin(table[:, 2])


def two_outputs(X):
    table = np.asarray(X, dtype=np.float64)
    return np.stack([table[:, 0] * table[:, 1], table[:, 2] ** 2], axis=1)


def of_frame(frame):
    return frame["a"].to_numpy() * (frame["c"] == "red") + (frame["flag"].to_numpy() == 2)


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(120, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def frame(X):
    rng = np.random.default_rng(1)
    colours = pd.Categorical(rng.choice(["red", "green", "blue"], size=len(X)))
    return pd.DataFrame({"a": X[:, 0], "c": colours, "flag": rng.integers(0, 4, size=len(X))})


@pytest.fixture(scope="module")
def model(X):
    return GradientBoostingRegressor(n_estimators=12, max_depth=4, random_state=0).fit(X, smooth(X))


def levels(X):
    return (np.asarray(X) > 0).astype(np.int64)


def decompositions(model, X, frame, *, progress=False):
    """Yield a name, a decomposition, rows, and the function that a file cannot hold."""
    quiet = {"progress": progress}
    classifier = RandomForestClassifier(n_estimators=4, max_depth=3, random_state=0)
    classifier.fit(X, (X[:, 0] > 0) + (X[:, 1] > 0.5))
    yield "purify", tp.purify(model, X, order=2, **{"weights": "empirical", **quiet}), X, None
    yield "independent", tp.purify(model, X, order=4, weights="independent", **quiet), X, None
    pd_of = tp.partial_dependence_anova
    yield "partial dependence", pd_of(model, X, **quiet), X, None
    yield "all orders", pd_of(model, X, order=None, **quiet), X, None
    yield "third order", pd_of(model, X, order=3, **quiet), X, None
    yield "classes", pd_of(classifier, X, order=None, **quiet), X, None
    sampled = {"background_size": 20, **quiet}
    yield "sampled", pd_of(smooth, X, **sampled), X, smooth
    yield "sampled outputs", pd_of(two_outputs, X, order=1, **sampled), X, two_outputs
    yield "sampled frame", pd_of(of_frame, frame, **sampled), frame, of_frame
    yield "ale of a model", tp.ale_anova(model, X, bins=5, **quiet), X, None
    yield "ale", tp.ale_anova(smooth, X, bins=5, **quiet), X, smooth
    yield "ale of a frame", tp.ale_anova(of_frame, frame, bins=4, **quiet), frame, of_frame
    yield "hooker", tp.hooker_anova(smooth, X, bins=4, **quiet), X, smooth
    yield "hooker of a model", tp.hooker_anova(model, X, **quiet), X, None
    coded = levels(X)
    yield "categorical", tp.categorical_anova(smooth, coded, order=1), coded, smooth
    yield "categorical values", tp.categorical_anova(smooth(coded), coded, order=1), coded, None
    yield "categorical model", tp.categorical_anova(model, X, order=1), X, None


@pytest.mark.filterwarnings("ignore:the tables have .* more unknowns")
def test_every_engine_is_saved_and_loaded_bit_for_bit(tmp_path, model, X, frame):
    for name, d, rows, function in decompositions(model, X, frame):
        path = tmp_path / "saved.tpz"
        d.save(path)
        again = tp.load(path, function=function)
        assert list(again) == list(d), name
        assert (again.engine, again.measure, again.link) == (d.engine, d.measure, d.link), name
        assert (again.call, again.origin) == (d.call, d.origin), name
        for subset, component in d.components.items():
            assert type(again.components[subset]) is type(component), name
            np.testing.assert_array_equal(
                again.components[subset].on_rows(rows), component.on_rows(rows), err_msg=name
            )
            np.testing.assert_array_equal(again.components[subset].variance, component.variance)
        np.testing.assert_array_equal(again.on_rows(rows), d.on_rows(rows), err_msg=name)
        pd.testing.assert_frame_equal(again.importance(), d.importance())
        assert (again.remainder is None) == (d.remainder is None), name
        assert [p.name for p in tmp_path.iterdir()] == ["saved.tpz"]


def test_without_the_function_all_but_its_remainder_works(tmp_path, X):
    d = tp.ale_anova(smooth, X, bins=5, progress=False)
    d.save(tmp_path / "ale.tpz")
    again = tp.load(tmp_path / "ale.tpz")
    np.testing.assert_array_equal(again["x0"].on_rows(X), d["x0"].on_rows(X))
    np.testing.assert_array_equal(again.remainder.variance, d.remainder.variance)
    with pytest.raises(tp.errors.InvalidInputError, match=r"tp\.load\(path, function=f\)"):
        again.predict(X)


def test_another_function_is_found_out(tmp_path, X, model):
    path = tmp_path / "d.tpz"
    tp.ale_anova(smooth, X, bins=5, progress=False).save(path)
    with pytest.raises(tp.errors.InvalidInputError, match="returns other values"):
        tp.load(path, function=lambda X: smooth(X) + 1)
    with pytest.raises(tp.errors.InvalidInputError, match="callable"):
        tp.load(path, function=3)
    tp.purify(model, X, weights="empirical", progress=False).save(path)
    with pytest.raises(tp.errors.InvalidInputError, match="needs no function"):
        tp.load(path, function=smooth)


@dataclass(frozen=True, eq=False)
class Foreign:
    """A component of a class that nobody registered."""

    features: tuple[int, ...]
    variance: np.ndarray

    def on_rows(self, X):
        return np.zeros((len(X), 1))


def test_a_class_that_is_not_registered_is_named(tmp_path, X, model):
    whole = tp.purify(model, X, weights="empirical", order=1, progress=False)
    d = tp.Decomposition(
        whole.intercept, {(0,): Foreign((0,), np.ones(1))}, ("f",), "none", "mine", whole.inputs
    )
    with pytest.raises(
        tp.errors.InvalidInputError, match=r"Foreign cannot be saved.*contributions"
    ):
        d.save(tmp_path / "d.tpz")
    assert not list(tmp_path.iterdir())


def unknown_kind(document):
    document["objects"][-1]["kind"] = "a kind of the future"


def missing_field(document):
    del next(o for o in document["objects"] if o["kind"] == "PatternComponent")["fields"]["grid"]


def unknown_field(document):
    document["objects"][-1]["fields"]["colour"] = 1


def wrong_subset(document):
    components = whole(document)["components"]["mapping"]
    components[0][0], components[1][0] = [1], [0]


def reference_to_nothing(document):
    document["objects"][0]["fields"]["name"] = {"object": 10**6}


@pytest.mark.parametrize(
    "change", [unknown_kind, missing_field, unknown_field, wrong_subset, reference_to_nothing]
)
def test_documents_that_do_not_fit_are_refused(tmp_path, X, model, change):
    path = tmp_path / "d.tpz"
    tp.partial_dependence_anova(model, X, order=None, progress=False).save(path)
    changed(path, change)
    with pytest.raises(tp.errors.SavedFileError):
        tp.load(path)


def test_shared_leaves_are_stored_once(tmp_path, X, model):
    d = tp.partial_dependence_anova(model, X, order=None, progress=False)
    d.save(tmp_path / "d.tpz")
    with zipfile.ZipFile(tmp_path / "d.tpz") as archive:
        document = json.loads(archive.read("decomposition.json"))
    kinds = [entry["kind"] for entry in document["objects"]]
    from_leaves = sum(len(subset) > 1 for subset in d.components)
    assert from_leaves > 1
    assert kinds.count("PatternComponent") == from_leaves
    assert kinds.count("LeafBoxes") == kinds.count("PatternShares") == kinds.count("Grid") == 1


def weightings(model, X):
    """Yield a name and a weighting."""
    yield from (("empirical", "empirical"), ("independent", "independent"), ("uniform", "uniform"))
    yield "laplace", tp.weights.Laplace()


@pytest.mark.filterwarnings("ignore:the tables have .* more unknowns")
def test_every_engine_is_pickled_and_copied(model, X, frame):
    results = [own[:3] for own in decompositions(model, X, frame, progress=True)]
    results += [
        (f"{name} {order}", tp.purify(model, X, weights=weights, order=order, progress=True), X)
        for name, weights in weightings(model, X)
        for order in (1, 2, None)
    ]
    for name, d, rows in results:
        for again in (pickle.loads(pickle.dumps(d)), copy.deepcopy(d)):
            assert list(again) == list(d), name
            np.testing.assert_array_equal(again.on_rows(rows), d.on_rows(rows), err_msg=name)
            with pytest.raises(TypeError):
                again.components[(0,)] = None


def test_a_copy_still_finds_the_components_in_its_remainder(model, X):
    d = tp.purify(model, X, weights="independent", order=1, progress=True)
    again = pickle.loads(pickle.dumps(d))
    np.testing.assert_array_equal(again[(0, 1)].values, d[(0, 1)].values)


def test_results_of_analyses_are_pickled_and_copied(model, X):
    d = tp.purify(model, X, weights="empirical", progress=True)
    results = [
        tp.h_statistics(model, X[:30], progress=True),
        tp.interaction_indices(model, X[:30]),
        tp.interventional_shapley_values(model, X[:5], X[:30], progress=True),
        tp.shapley_sets(smooth, X[:30], X[:2], progress=True),
        tp.audit(model, X, progress=True),
        tp.compare(d, d),
    ]
    for result in results:
        for again in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
            assert repr(again) == repr(result), type(result).__name__


def test_every_kind_is_known_where_only_load_was_imported():
    """A class registers itself where it is imported, and no engine may be needed to load."""
    root = Path(tp.__file__).parent
    texts = [path.read_text(encoding="utf-8") for path in root.rglob("*.py")]
    names = {name for text in texts for name in re.findall(r'^@savable\(\s*"([^"]+)"', text, re.M)}
    assert len(names) > 8
    code = (
        "from treepurify import load; from treepurify.saving import kind_named\n"
        f"print([name for name in {sorted(names)!r} if kind_named(name) is None])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
