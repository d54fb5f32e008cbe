"""Held-out rows that come in batches: a sample of them, with what was observed there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from treepurify.arguments import brief
from treepurify.errors import InvalidInputError
from treepurify.progress import ProgressReport
from treepurify.rows.batches import Source
from treepurify.rows.columns import FeatureSpec
from treepurify.rows.sources import check_repeats
from treepurify.rows.table_reader import matched_names
from treepurify.rows.table_sample import sample_table

__all__ = ["HELD_OUT_ROWS", "HeldOutSample", "check_target_column", "sample_held_out"]

HELD_OUT_ROWS = 100_000
"""Most rows that are drawn: their losses are compared row by row."""
_SEED = 0


@dataclass(frozen=True, eq=False)
class HeldOutSample:
    """Rows that were drawn from a source, all of them where there are not too many.

    Parameters
    ----------
    X : DataFrame
        The columns of the features.
    y : Series
        What was observed.
    weights : ndarray of float64, shape (n_sampled,), optional
        What each of them counts; None where all count the same.
    words : str
        How many rows of how many it has, in a sentence; empty where it has all.
    """

    X: Any
    y: Any
    weights: Any
    words: str


def check_target_column(source: Source, target: Any) -> tuple[str, ...]:
    """Return the columns of held-out rows, of which one is what was observed.

    Raises
    ------
    InvalidInputError
        If there is no such column, or the rows can be read only once.
    """
    check_repeats(source, "two passes over the rows, one to draw a sample and one to read it")
    names = source.names or ()
    if not isinstance(target, str) or target not in names:
        raise InvalidInputError(
            "rows in batches bring what was observed along: pass the name of its column as y, got "
            f"{brief(target)}; the columns of {source.describe()} are {', '.join(names[:30])}"
        )
    return tuple(names)


def sample_held_out(
    features: Sequence[FeatureSpec],
    source: Source,
    target: Any,
    weight: Any,
    memory_budget: int,
    report: ProgressReport,
    *,
    match_names: bool,
) -> HeldOutSample:
    """Return a weighted sample of held-out rows.

    Parameters
    ----------
    features : sequence of FeatureSpec
        The features.
    source : Source
        The rows; they can be read again.
    target : str
        Name of the column of what was observed.
    weight : str, optional
        Name of the column of weights.
    memory_budget : int
        Bytes that the sample may take.
    report : callable
        Progress.
    match_names : bool
        Whether columns are found by name; otherwise all others are features.

    Raises
    ------
    InvalidInputError
        If columns are missing, or the rows can be read only once.
    MemoryBudgetError
        If the sample would not fit.
    """
    names = check_target_column(source, target)
    others = tuple(name for name in names if name not in (target, weight))
    if match_names:
        wanted = {spec.name for spec in features}
        matched = zip(matched_names(others, features), others, strict=True)
        others = tuple(name for known, name in matched if known in wanted)
    drawn = sample_table(
        source, (*others, target), weight, HELD_OUT_ROWS, _SEED, memory_budget, report
    )
    words = ""
    if len(drawn.table) < drawn.n_rows:
        words = (
            f"The rows are a sample of {len(drawn.table)} of the {drawn.n_rows} rows of "
            f"{source.describe()}, drawn with seed {_SEED}."
        )
    return HeldOutSample(drawn.table[list(others)], drawn.table[target], drawn.weights, words)
