"""The decomposition as users meet it: names, tables, predictions, files."""

import json
import pickle
import tracemalloc
import zipfile
from dataclasses import FrozenInstanceError
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.tree import DecisionTreeRegressor

import treepurify as tp
from tests.reference.ensembles import random_ensemble
from treepurify.links import Link


def make(n_outputs: int = 1, *, seed: int = 0, **options):
    rng = np.random.default_rng(seed)
    ensemble = random_ensemble(
        rng, n_features=3, n_categorical=1, n_trees=20, depth=3, n_outputs=n_outputs
    )
    X = pd.DataFrame(
        {
            "age": 2 * rng.normal(size=300),
            "hours": rng.normal(size=300),
            "town": rng.integers(0, 4, 300),
        },
        index=np.arange(300)[::-1],
    )
    X.loc[5, "age"] = np.nan
    return (
        ensemble,
        X,
        tp.purify(ensemble, X, progress=False, **{"weights": "empirical", **options}),
    )


@pytest.mark.parametrize(
    "engine",
    [tp.purify, partial(tp.purify, weights="uniform", method="closed-form"), tp.ale_anova,
     tp.partial_dependence_anova, partial(tp.legendre_anova, degree=4)],
)  # fmt: skip
def test_a_component_reads_its_own_columns_only(engine):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 3)), columns=list("abc"))
    model = DecisionTreeRegressor(max_depth=4, random_state=0).fit(X, X["a"] * X["b"] + X["c"])
    d = engine(model, X, progress=False)
    strange = X.assign(c="text")
    for subset, component in d.components.items():
        if 2 not in subset:
            np.testing.assert_array_equal(component.on_rows(strange), component.on_rows(X))
    with pytest.raises(tp.errors.InvalidInputError, match="'c'"):
        d["c"].on_rows(strange)


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize(
    ("engine", "of_function"),
    [(tp.purify, False), (partial(tp.purify, order=1), False),
     (partial(tp.purify, weights="independent", method="closed-form", order=1), False),
     (tp.partial_dependence_anova, False), (tp.ale_anova, False),
     (partial(tp.partial_dependence_anova, order=1), True),
     (partial(tp.hooker_anova, order=1, bins=3), True),
     (partial(tp.legendre_anova, degree=3), True)],
)  # fmt: skip
def test_what_users_evaluate_has_no_axis_for_one_output(engine, of_function, n_outputs):
    ensemble, X, _ = make(n_outputs)
    X = X.fillna(0.0).to_numpy()[:60]

    def function(rows):
        values = np.asarray(rows)[:, :1] * np.asarray(rows)[:, 1:2] ** np.arange(1, 1 + n_outputs)
        return values[:, 0] if n_outputs == 1 else values

    d = engine(function if of_function else ensemble, X, progress=False)
    parts = [d, *d.components.values(), *([] if d.remainder is None else [d.remainder])]
    for part in parts:
        kept, dropped = part.on_rows(X), part.evaluate(X)
        assert kept.shape == (60, n_outputs)
        assert dropped.shape == ((60,) if n_outputs == 1 else (60, n_outputs))
        np.testing.assert_array_equal(dropped.reshape(60, -1), kept)
    assert (d.evaluate(X) - d.predict(X)).shape == d.predict(X).shape


def test_components_by_name_and_position():
    _, _, d = make()
    assert d["age"] is d[0] is d.components[(0,)]
    assert d["town", "age"] is d["age", "town"] is d[0, 2]
    assert "age" in d
    assert ("hours", "age") in d
    assert (0, 1) in d
    assert "weight" not in d
    assert 7 not in d
    assert 1.5j not in d
    assert list(d) == sorted(d, key=lambda s: (len(s), s))
    assert len(d) == len(list(d))
    assert d.feature_names == ("age", "hours", "town")
    assert d.term_name((0, 2)) == "age & town"


def test_unknown_components_are_named():
    _, _, d = make(order=1)
    with pytest.raises(KeyError, match="no feature 'weight'; features are age, hours, town"):
        d["weight"]
    with pytest.raises(KeyError, match="no feature at position 3; there are 3"):
        d[3]
    with pytest.raises(KeyError, match="no feature at position -1"):
        d[-1]
    for position in (1.5, True, None):
        with pytest.raises(KeyError, match="must be a name or a position, got"):
            d[position]
    stump = tp.parse_model(DecisionTreeRegressor(max_depth=1).fit([[0.0, 0], [1, 1]], [0, 1]))
    alone = tp.purify(
        stump, np.array([[0.0, 0.0], [1.0, 1.0]]), weights="empirical", progress=False
    )
    (used,) = alone.components
    other = f"x{1 - used[0]}"
    for call in (
        lambda: alone["x0", "x1"],
        lambda: alone[other],
        lambda: alone.to_frame(other),
        lambda: tp.plots.main_effect(alone, other),
    ):
        with pytest.raises(KeyError, match=f"zero on every row.*does not use '{other}'.*has 'x"):
            call()
    X = np.random.default_rng(0).normal(size=(50, 2))
    additive = GradientBoostingRegressor(max_depth=1, n_estimators=9).fit(X, X.sum(axis=1))
    both = tp.purify(additive, X, weights="empirical", progress=False)
    with pytest.raises(KeyError, match="no effect 'x0 & x1'; the model has 'x0', 'x1'"):
        both["x0", "x1"]


@pytest.mark.parametrize("engine", [tp.purify, tp.partial_dependence_anova])
@pytest.mark.parametrize("order", [1, 2])
def test_a_feature_named_twice_is_no_component(engine, order):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    model = GradientBoostingRegressor(max_depth=3, n_estimators=5, random_state=0)
    d = engine(model.fit(X, X.prod(axis=1)), X, order=order, progress=False)
    for key in (("x0", "x0"), (0, "x0"), ("x0", "x1", "x0")):
        with pytest.raises(KeyError, match="one or more different features"):
            d[key]
        assert key not in d


def test_components_above_the_order_are_found_in_the_remainder():
    """Of the complete decomposition, by the paper's algorithm."""
    _, X, d = make(order=1, method="mass-moving")
    _, _, both = make(order=2, method="mass-moving")
    assert ("age", "hours") not in d
    np.testing.assert_array_equal(d["age", "hours"].on_rows(X), both["age", "hours"].on_rows(X))


def test_nothing_can_be_changed():
    _, _, d = make()
    with pytest.raises(FrozenInstanceError):
        d.engine = "mine"
    with pytest.raises(TypeError):
        d.components[(0,)] = d[1]
    with pytest.raises(TypeError):
        d.diagnostics["method"] = "magic"
    with pytest.raises(FrozenInstanceError):
        d[0].values = np.zeros(3)


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("order", [1, None])
def test_contributions_add_up_to_the_prediction(n_outputs, order):
    ensemble, X, d = make(n_outputs, order=order)
    margin = ensemble.margin(X.to_numpy())
    table = d.contributions(X)
    assert table.index.equals(X.index)
    if n_outputs == 1:
        assert table.columns[0] == "intercept"
        assert ("remainder" in table.columns) == (order == 1)
        np.testing.assert_allclose(table.sum(axis=1), margin[:, 0], atol=1e-12)
        np.testing.assert_allclose(table["age"], d["age"].on_rows(X)[:, 0])
        assert d.predict(X).shape == (300,)
    else:
        for k, output in enumerate(d.output_names):
            np.testing.assert_allclose(table[output].sum(axis=1), margin[:, k], atol=1e-12)
            np.testing.assert_allclose(table[output]["age"], d["age"].on_rows(X)[:, k])
        assert d.predict(X).shape == (300, 3)
    np.testing.assert_allclose(d.on_rows(X), margin, atol=1e-12)


def test_a_table_is_read_by_name_and_an_array_by_position():
    _, X, d = make()
    turned = X[["town", "age", "hours"]]
    np.testing.assert_array_equal(d.predict(turned), d.predict(X))
    np.testing.assert_array_equal(d.predict(X.to_numpy()), d.predict(X))
    with pytest.raises(tp.errors.InvalidInputError, match="missing: 'hours'"):
        d.predict(X.drop(columns="hours"))


def test_response_is_the_inverse_link_of_the_margin():
    from dataclasses import replace

    _, X, d = make()
    d = replace(d, link=Link("logit"))
    expected = 1 / (1 + np.exp(-d.predict(X)))
    np.testing.assert_allclose(d.predict(X, scale="response"), expected)


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_importance(n_outputs):
    _, X, d = make(n_outputs)
    short, table = d.importance(), d.importance(details=True)
    assert short["size"].is_monotonic_decreasing
    assert len(short) == len(d) + (d.remainder is not None)
    assert len(table) == n_outputs * len(short)
    assert ("output" in table) == (n_outputs > 1)
    grouped = table.groupby("output") if n_outputs > 1 else table
    np.testing.assert_allclose(np.atleast_1d(grouped.share.sum()), 1)
    first = table.set_index(["effect", "output"] if n_outputs > 1 else "effect")
    key = ("age", "y1") if n_outputs > 1 else "age"
    own = d["age"].on_rows(X)[:, -1]
    assert first["size"][key] == pytest.approx(own.std())
    whole = np.sqrt(d["age"].on_rows(X).var(axis=0).mean())
    assert short.set_index("effect")["size"]["age"] == pytest.approx(whole)
    assert first.mean_absolute[key] == pytest.approx(np.abs(own).mean())


def test_orthogonality_lists_every_nested_pair():
    _, _, d = make()
    table = d.orthogonality()
    nested = sum(2 ** len(subset) - 1 for subset in d)
    assert len(table) == nested
    assert table.conditional_mean.max() <= 1e-12 * d.certificate.scale
    assert table.inner_product.abs().max() <= 1e-12 * d.certificate.scale**2
    assert {"intercept", "age"} <= set(table.inside)


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_cells_as_a_table(n_outputs):
    _, X, d = make(n_outputs, order=None)
    table = d.to_frame(("age", "town"))
    component = d["age", "town"]
    assert len(table) == component.values.size
    np.testing.assert_allclose(table.mass.sum(), n_outputs)
    assert {"age", "age (from)", "age (to)", "town", "effect", "mass"} <= set(table)
    assert "missing" in set(table.age)
    if n_outputs == 1:
        np.testing.assert_array_equal(table.effect, component.values.ravel())
        before = component.raw - np.sum(component.mass[..., None] * component.raw, axis=(0, 1))
        np.testing.assert_allclose(table.raw_effect, before.ravel(), atol=1e-12)
        inside = table[(table["age (from)"] <= X.age.iloc[0]) & (X.age.iloc[0] < table["age (to)"])]
        row = inside[inside.town == str(X.town.iloc[0])]
        if len(row):
            assert row.effect.item() == component.on_rows(X.iloc[:1]).item()
    everything = d.to_frame()
    assert len(everything) == sum(c.values.size for c in d.components.values())
    assert set(everything.term) == {d.term_name(s) for s in d}


def test_descriptions():
    _, _, d = make(2)
    text = repr(d)
    assert f": {len(d)} effects of 3 features, averaged over 300 rows, 2 outputs" in text
    assert "Main effects " in text
    assert "the rows determine all effects." in d.certificate.details()[0]
    html = d._repr_html_()
    assert "<table" in html
    assert "The effects sum to the tables of the fit" in html


def test_names_are_escaped_in_html():
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_features=2, n_trees=8)
    X = pd.DataFrame(rng.normal(size=(50, 2)), columns=["<script>", "b"])
    html = tp.purify(ensemble, X, weights="empirical", progress=False)._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


# Files


@pytest.mark.parametrize("order", [1, None])
def test_saved_and_loaded(tmp_path, order):
    _, X, d = make(2, order=order)
    path = tmp_path / "effects.zip"
    d.save(path)
    again = tp.load(path)
    np.testing.assert_array_equal(again.on_rows(X), d.on_rows(X))
    assert list(again) == list(d)
    assert again.measure == d.measure
    assert again.certificate == d.certificate
    assert again.link == d.link
    pd.testing.assert_frame_equal(again.importance(), d.importance())
    pd.testing.assert_frame_equal(again.orthogonality(), d.orthogonality())
    pd.testing.assert_frame_equal(again.contributions(X), d.contributions(X))
    assert dict(again.diagnostics) == dict(d.diagnostics)
    assert {(), *d} <= {error["features"] for error in again.diagnostics["errors"]}
    for subset, component in d.components.items():
        np.testing.assert_array_equal(again.components[subset].values, component.values)
        np.testing.assert_array_equal(again.components[subset].mass, component.mass)


def test_files_cut_short_at_any_place(tmp_path):
    _, _, d = make()
    path = tmp_path / "effects.zip"
    d.save(path)
    data = path.read_bytes()
    for length in [0, 1, 30, len(data) // 2, len(data) - 30, len(data) - 1]:
        path.write_bytes(data[:length])
        with pytest.raises(
            tp.errors.SavedFileError, match="cut short or written by another program"
        ):
            tp.load(path)


def test_damaged_bytes_never_load_silently(tmp_path):
    _, X, d = make()
    path = tmp_path / "effects.zip"
    d.save(path)
    data, expected = path.read_bytes(), d.predict(X)
    rng = np.random.default_rng(0)
    for at in rng.integers(0, len(data), size=60):
        damaged = bytearray(data)
        damaged[at] ^= 0x55
        path.write_bytes(bytes(damaged))
        try:
            loaded = tp.load(path)
        except tp.errors.SavedFileError:
            continue
        np.testing.assert_array_equal(loaded.predict(X), expected)


def test_foreign_files_and_other_versions(tmp_path):
    path = tmp_path / "other"
    path.write_text('{"format": "something else"}')
    with pytest.raises(tp.errors.SavedFileError, match="other"):
        tp.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "hello")
    with pytest.raises(tp.errors.SavedFileError):
        tp.load(path)
    _, _, d = make()
    d.save(path)
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(entries["decomposition.json"])
    for key, value, message in (
        ("version", 99, "format version 99.*update treepurify"),
        ("format", "a table", "contains 'a table', not a treepurify decomposition"),
    ):
        changed = entries | {"decomposition.json": json.dumps(document | {key: value}).encode()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in changed.items():
                archive.writestr(name, content)
        with pytest.raises(tp.errors.SavedFileError, match=message):
            tp.load(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises((tp.errors.TreepurifyError, FileNotFoundError), match=r"absent"):
        tp.load(tmp_path / "absent")


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_contributions_take_the_memory_of_their_table_once(n_outputs):
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_features=8, n_trees=150, depth=2, n_outputs=n_outputs)
    rows = rng.normal(size=(20_000, 8))
    d = tp.purify(ensemble, rows[:300], weights="empirical", progress=False)
    assert len(d) > 30
    d.contributions(rows)
    tracemalloc.start()
    try:
        table = d.contributions(rows)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * 8 * table.size


def test_contributions_are_refused_before_they_are_computed():
    _, X, d = make(order=2)
    with pytest.raises(tp.errors.MemoryBudgetError, match="the contributions of"):
        d.contributions(X, memory_budget=1000)
    with pytest.raises(tp.errors.MemoryBudgetError):
        d.shapley_values(X, memory_budget=1000)


def test_features_called_as_the_other_columns_are():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(100, 2)), columns=["intercept", "remainder"])
    model = GradientBoostingRegressor(max_depth=3, n_estimators=5, random_state=0)
    d = tp.purify(model.fit(X, X.prod(axis=1)), X, weights="empirical", order=1, progress=False)
    table = d.contributions(X)
    terms = ["intercept (feature)", "remainder (feature)"]
    assert list(table) == ["intercept", *terms, "remainder"]
    np.testing.assert_allclose(table.sum(axis=1), model.predict(X), atol=1e-12)
    np.testing.assert_allclose(table["intercept"], d.intercept[0])


def test_terms_that_are_not_determined_are_named():
    tensors = {(0, 1): np.array([[0.0, 1.0], [2.0, 5.0]]), (0, 2): np.array([[1.0, 0], [0, 0]])}
    weights = {(0, 1): np.eye(2) / 2, (0, 2): np.full((2, 2), 0.25)}
    own = tp.purify_tensors(tensors, weights, feature_names=["a", "b", "c"])
    assert own.certificate.unidentified_terms == ("a & b",)
    assert "some effects from other effects (a & b)" in str(own.certificate)


@pytest.mark.parametrize("factor", [1e-300, 1e160])
def test_very_large_and_very_small_margins(factor):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(60, 2))
    table = factor * rng.normal(size=(3, 3))
    joint = np.zeros((3, 3))
    np.add.at(joint, (X[:, 0], X[:, 1]), 1 / 60)
    with np.errstate(over="ignore"):
        d = tp.purify_tensors({(0, 1): table}, joint)
    parts = d[0].values[:, None] + d[1].values[None, :] + d[0, 1].values + d.intercept
    np.testing.assert_allclose(parts[..., 0], table, rtol=1e-9, atol=1e-12 * factor)


def test_rows_in_batches_are_not_pickled():
    ensemble, X, _ = make()
    rows, options = lambda: iter([X[:150], X[150:]]), {"order": None, "progress": False}
    d = tp.purify(ensemble, rows, weights="empirical", **options)
    again = pickle.loads(pickle.dumps(d))
    assert again.rows is None
    np.testing.assert_array_equal(again.predict(X), d.predict(X))


def test_only_what_users_call_is_listed():
    _, _, d = make()
    assert [name for name in dir(d) if not name.startswith("_")] == [
        "as_trained", "call", "certificate", "collinear", "components", "contributions",
        "covariances", "diagnostics", "engine", "evaluate", "feature_names", "grid_rows",
        "importance", "inputs", "intercept", "link", "measure", "n_outputs", "on_rows",
        "only", "origin", "orthogonality", "output_names", "predict", "r_squared",
        "ranking", "remainder", "rows", "save", "shapley_interactions", "shapley_residuals",
        "shapley_values", "spread", "tensor_components", "term_name", "to_frame", "verify",
        "with_effect", "without",
    ]  # fmt: skip
