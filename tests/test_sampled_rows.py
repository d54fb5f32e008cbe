"""What is not counted over all rows takes those in batches as a table, and of many a sample."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from tests.engines.tree.streams import batches, regression_rows

pytest.importorskip("pyarrow")

QUIET = {"progress": False}
N_ROWS, N_SAMPLED = 900, 300
SAMPLE = f"a sample of {N_SAMPLED} of {N_ROWS} rows"


@pytest.fixture(scope="module")
def case():
    """A model, its decomposition, and rows with all that calls name."""
    X, y = regression_rows(N_ROWS)
    model = GradientBoostingRegressor(n_estimators=20, max_depth=2, random_state=0)
    model.fit(X[:300], y[:300])
    d = tp.purify(model, X, weights="empirical", missing_cells="always", **QUIET)
    weight = np.random.default_rng(0).integers(1, 4, N_ROWS) / 4
    return model, d, X.assign(y=y, weight=weight, group=np.where(X["a"] > 0, "up", "down"))


def drift(model, d, rows, y, weight):
    weights = {"weight_before": weight, "weight_after": weight}
    return tp.drift(d, rows, rows, y, y, **weights, **QUIET)


def group_gap(model, d, rows, y, weight):
    return tp.group_gap(d, rows, "group", sample_weight=weight, **QUIET)


def monotonicity(model, d, rows, y, weight):
    directions = {"c": "increasing", "d": "decreasing"}
    return tp.check_monotonicity(model, rows, directions, sample_weight=weight, **QUIET)


def reasons(model, d, rows, y, weight):
    X, _ = regression_rows(5)
    return tp.reason_codes(d, X, reference=rows, sample_weight=weight, **QUIET)


def sampling_error(model, d, rows, y, weight):
    return tp.with_sampling_error(d, model, rows, sample_weight=weight, splits=1, **QUIET)


def audited(model, d, rows, y, weight):
    options = {"n_bootstrap": 2, "measures": ["independent"], "sample_weight": weight, **QUIET}
    return tp.audit(model, rows, held_out=(rows, y, weight), **options)


def held_out(name, **options):
    call = getattr(tp, name)
    return lambda model, d, rows, y, weight: call(
        d, rows, y, sample_weight=weight, **options, **QUIET
    )


# Each with what its result says of the rows.
CALLS = {
    "effect_worth": (held_out("effect_worth", n_bootstrap=5), lambda found: " ".join(found.notes)),
    "missed_effects": (held_out("missed_effects", repeats=1), lambda found: found.attrs["rows"]),
    "simplify": (held_out("simplify"), repr),
    "weak_spots": (held_out("weak_spots", n_spots=2), repr),
    "drift": (drift, repr),
    "group_gap": (group_gap, repr),
    "check_monotonicity": (monotonicity, repr),
    "reason_codes": (reasons, lambda found: found.reference),
    "with_sampling_error": (sampling_error, lambda found: found.certificate.note),
    "audit": (audited, lambda found: found.decomposition.measure),
}


def numbers(found):
    """Return a table of what was found."""
    if isinstance(found, pd.DataFrame):
        return found
    if isinstance(found, tp.Decomposition):
        return pd.DataFrame(found.certificate.sampling_error)
    if hasattr(found, "values"):
        return pd.DataFrame(found.values)
    return found.to_frame()


def sources(rows, folder):
    """Return the rows as files, and from a callable."""
    for part in range(3):
        rows[300 * part : 300 * part + 300].to_parquet(folder / f"{part}.parquet")
    return [folder / "*.parquet", batches(rows, 130)]


@pytest.mark.parametrize("name", CALLS)
def test_few_rows_are_the_table_and_many_a_stated_sample(case, name, tmp_path, monkeypatch):
    model, d, rows = case
    call, said = CALLS[name]
    table = rows[[*"abcd", *(["group"] if name == "group_gap" else [])]]
    whole = call(model, d, table, rows["y"], rows["weight"])
    given = sources(rows, tmp_path)
    for source in given:
        found = call(model, d, source, "y", "weight")
        pd.testing.assert_frame_equal(numbers(found), numbers(whole), rtol=1e-9, atol=1e-12)
    monkeypatch.setattr("treepurify.rows.given_rows.SAMPLED_ROWS", N_SAMPLED)
    one, again = (call(model, d, source, "y", "weight") for source in (given[1], batches(rows, 7)))
    assert SAMPLE in said(one)
    pd.testing.assert_frame_equal(numbers(one), numbers(again), rtol=1e-9, atol=1e-12)
    with pytest.raises(AssertionError):
        pd.testing.assert_frame_equal(numbers(one), numbers(whole), rtol=1e-9, atol=1e-12)


def test_rows_that_can_be_read_once_suffice(case):
    _, d, rows = case
    named = rows[[*"abcd", "y"]]
    whole, once = (
        tp.effect_worth(d, source, "y", n_bootstrap=0, **QUIET) for source in (named, iter([rows]))
    )
    pd.testing.assert_frame_equal(once.to_frame(), whole.to_frame())


def test_the_explained_share_is_that_of_a_sample(case, monkeypatch):
    model, _, rows = case
    X = rows[list("abcd")]
    d = tp.purify(model, X, order=1, weights="empirical", **QUIET)
    assert d.r_squared(batches(rows, 130)) == pytest.approx(d.r_squared(X), rel=1e-12)
    monkeypatch.setattr("treepurify.rows.given_rows.SAMPLED_ROWS", N_SAMPLED)
    sampled = d.r_squared(batches(rows, 130))
    assert sampled != d.r_squared(X)
    assert sampled == pytest.approx(d.r_squared(X), abs=0.1)


def test_a_decomposition_of_rows_in_batches_has_the_error_of_a_sample(case, monkeypatch):
    model, _, rows = case
    d = tp.purify(model, batches(rows, 130), weights="empirical", **QUIET)
    whole = tp.with_sampling_error(d, model, rows[list("abcd")], **QUIET).certificate
    monkeypatch.setattr("treepurify.rows.given_rows.SAMPLED_ROWS", N_SAMPLED)
    sampled = tp.with_sampling_error(d, model, batches(rows, 130), **QUIET).certificate
    assert sampled.sampling_error[0] == pytest.approx(whole.sampling_error[0], rel=0.5)
    assert f"halves of {SAMPLE}" in sampled.note


def test_a_beeswarm_says_what_it_shows(case):
    pytest.importorskip("matplotlib")
    _, d, _ = case
    X, _ = regression_rows(2500)

    def dots(rows):
        ax = tp.plots.beeswarm(d, rows, top=2)
        offsets = np.concatenate([np.asarray(c.get_offsets()) for c in ax.collections])
        return offsets[np.lexsort(offsets.T)], " ".join(ax.get_xlabel().split())

    whole, label = dots(X[:400])
    streamed, same = dots(batches(X[:400], 90))
    np.testing.assert_allclose(whole, streamed)
    assert label == same
    sampled, label = dots(batches(X, 90))
    assert "a sample of 2000 of 2500 rows" in label
    np.testing.assert_allclose(sampled, dots(batches(X.assign(more=0.0), 777))[0])


@pytest.mark.parametrize("target", ["cost", np.zeros(N_ROWS)])
def test_the_target_of_rows_in_batches_is_a_column(case, target):
    _, d, rows = case
    with pytest.raises(tp.errors.InvalidInputError, match="pass its name, got"):
        tp.effect_worth(d, batches(rows, 90), target, **QUIET)


@pytest.mark.libraries
def test_partitions_of_dask(case):
    frames = pytest.importorskip("dask.dataframe")
    _, d, rows = case
    whole, framed = (
        tp.effect_worth(d, source, "y", n_bootstrap=0, **QUIET)
        for source in (rows[[*"abcd", "y"]], frames.from_pandas(rows, npartitions=3))
    )
    pd.testing.assert_frame_equal(framed.to_frame(), whole.to_frame(), rtol=1e-9, atol=1e-12)
