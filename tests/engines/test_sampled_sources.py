"""What needs a table takes a stated sample of rows that come in batches, and says so."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from tests.engines.tree.streams import batches, regression_rows
from treepurify import results

QUIET = {"progress": False}
SAMPLES = [
    "rows.given_rows.SAMPLED_ROWS",
    "interactions.h_statistics.FEW_SAMPLED_ROWS",
    "grouping.partition.FEW_SAMPLED_ROWS",
]


def smooth(X):
    return (X["a"] * X["b"] + np.sin(X["c"])).to_numpy()


@pytest.fixture(scope="module")
def model():
    X, y = regression_rows()
    return GradientBoostingRegressor(n_estimators=8, max_depth=3, random_state=0).fit(X, y)


def profile(model, X, **options):
    return tp.feature_profile(model, X, "a", **options)


# A call, whether it asks a function in place of a model, and its options.
CALLS = {
    "hooker": (tp.hooker_anova, False, {"bins": 4}),
    "hooker of a function": (tp.hooker_anova, True, {"bins": 4}),
    "legendre": (tp.legendre_anova, False, {"degree": 3}),
    "legendre of a function": (tp.legendre_anova, True, {"degree": 3, "density": "kernel"}),
    "ale": (tp.ale_anova, False, {"bins": 4}),
    "ale of a function": (tp.ale_anova, True, {"bins": 4, "nodes": {"a": [-1.0, 0.0, 1.0]}}),
    "partial dependence": (tp.partial_dependence_anova, False, {"order": None}),
    "covers": (tp.partial_dependence_anova, False, {"background": "cover"}),
    "partial dependence of a function": (
        tp.partial_dependence_anova, True, {"background_size": 20},
    ),
    "categories": (tp.categorical_anova, False, {"rank": 60}),
    "categories of a function": (tp.categorical_anova, True, {"bins": 3, "order": 2}),
    "h statistics": (tp.h_statistics, False, {}),
    "h statistics of a function": (tp.h_statistics, True, {"sample_size": 30}),
    "indices": (tp.interaction_indices, False, {}),
    "sets": (tp.shapley_sets, False, {"value": "mean"}),
    "profile": (profile, False, {"bins": 5}),
    "profile of a function": (profile, True, {"bins": 5}),
}  # fmt: skip
# They take no weights of rows.
UNWEIGHTED = ("covers", "sets")


def numbers(result):
    """Return what a result says in numbers."""
    if isinstance(result, tp.Decomposition):
        X = regression_rows()[0][:50]
        return {(): result.intercept} | {s: c.on_rows(X) for s, c in result.components.items()}
    if isinstance(result, results.HStatistics):
        return result.pairs().set_index(["first", "second"])["strength"].to_dict()
    if isinstance(result, results.InteractionIndices):
        return {0: result.variance_by_order, 1: result.pair_total}
    if isinstance(result, results.ShapleySets):
        return {0: result.base} | dict.fromkeys(result.groups, 0.0)
    return result.to_frame().drop(columns="cell").to_dict("list")


def words(result):
    """Return where a result says which rows it is of."""
    if isinstance(result, results.ShapleySets):
        facts = result.diagnostics.get("stream", {"sampled_rows": 0, "rows": 0})
        return f"a sample of {facts['sampled_rows']} of {facts['rows']} rows"
    certificate = getattr(result, "certificate", None)
    assert certificate is None or ("a sample of" in certificate.note) == (
        "a sample of" in result.measure
    )
    return getattr(result, "measure", repr(result))


def assert_same(one, other, **within):
    found, expected = numbers(one), numbers(other)
    assert list(found) == list(expected)
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, **within, err_msg=str(key))


def prepared(name, model):
    """Return the call, rows with a column of weights and one that is no feature, and options."""
    call, is_function, options = CALLS[name]
    X, _ = regression_rows()
    weight = np.random.default_rng(0).integers(0, 3, len(X)) / 2
    weighted = {} if name in UNWEIGHTED else {"sample_weight": weight}
    asked = partial(call, smooth if is_function else model, **options, **QUIET)
    return asked, X, X.assign(w=weight) if weighted else X, weighted


@pytest.mark.filterwarnings("ignore::treepurify.errors.FitWarning")
@pytest.mark.filterwarnings("ignore::treepurify.errors.SupportWarning")
@pytest.mark.parametrize("name", CALLS)
def test_few_rows_are_the_table_and_of_many_a_sample_is_stated(name, model, tmp_path, monkeypatch):
    asked, X, rows, weighted = prepared(name, model)
    named = dict.fromkeys(weighted, "w")
    # Rows of parsed models may have columns that are no features.
    rows = rows if CALLS[name][1] else rows.assign(note="text")
    rows.to_parquet(tmp_path / "rows.parquet")
    whole = asked(X, **weighted)
    for source in (str(tmp_path / "rows.parquet"), batches(rows, 90)):
        few = asked(source, **named)
        assert_same(few, whole, rtol=1e-9, atol=1e-10)
        if "sets" not in name:
            assert words(few) == words(whole)
    for place in SAMPLES:
        monkeypatch.setattr(f"treepurify.{place}", 150)
    one, other = (asked(batches(rows, size), **named) for size in (37, 400))
    assert_same(one, other, rtol=1e-9, atol=1e-10)
    n_rows = np.count_nonzero(weighted["sample_weight"]) if weighted else len(X)
    assert f"a sample of 150 of {n_rows} rows" in words(one)
    if isinstance(one, tp.Decomposition):
        assert one.diagnostics["stream"]["sampled_rows"] == 150
    # Rows that can be read only once suffice.
    assert_same(asked(iter([rows]), **named), one, rtol=1e-9, atol=1e-10)


@pytest.mark.libraries
@pytest.mark.parametrize("name", ["hooker of a function", "ale", "partial dependence", "indices"])
def test_partitions_of_dask(name, model):
    frames = pytest.importorskip("dask.dataframe")
    asked, X, _, _ = prepared(name, model)
    assert_same(asked(frames.from_pandas(X, npartitions=3)), asked(X), rtol=1e-9, atol=1e-10)


def test_arrays_and_labels_keep_their_form():
    X, _ = regression_rows()
    array = X.to_numpy()

    def of_array(rows):
        return rows[:, 0] * rows[:, 1]

    engine = partial(tp.hooker_anova, of_array, bins=4, **QUIET)
    assert_same(engine(batches(array, 70)), engine(array), atol=1e-12)
    town = pd.DataFrame({"town": np.where(X["a"] > 0, "Ulm", "Bonn"), "size": X["b"].round()})
    town.loc[399, "town"] = "Oslo"  # only the last batch has it

    def of_labels(rows):
        return (rows["town"] == "Ulm") * rows["size"]

    engine = partial(tp.categorical_anova, of_labels, **QUIET)
    whole, found = engine(town), engine(batches(town, 90))
    for subset, component in whole.components.items():
        assert [axis.labels() for axis in found[subset].axes] == [
            axis.labels() for axis in component.axes
        ]
        np.testing.assert_allclose(found[subset].values, component.values, atol=1e-12)


def test_what_cannot_be_matched_to_rows_in_batches_is_refused(model):
    X, y = regression_rows()
    rows, refused = batches(X, 70), partial(pytest.raises, tp.errors.InvalidInputError)
    for engine in (tp.legendre_anova, tp.categorical_anova):
        with refused(match="pass the function itself"):
            engine(y.to_numpy(), rows, **QUIET)
    with refused(match="leave background out"):
        tp.partial_dependence_anova(model, rows, background=X, **QUIET)
    with refused(match="background cannot be rows in batches"):
        tp.partial_dependence_anova(model, X, background=rows, **QUIET)
    with refused(match="no rows of positive weight"):
        tp.ale_anova(model, batches(X.assign(w=0.0), 50), sample_weight="w", **QUIET)
    with refused(match="no column 'heavy'"):
        tp.categorical_anova(model, rows, sample_weight="heavy", **QUIET)
    for call in (tp.categorical_anova, tp.interaction_indices):
        with refused(match="would be ignored"):
            call(model, batches(X.assign(w=1.0), 50), weights="uniform", sample_weight="w", **QUIET)
