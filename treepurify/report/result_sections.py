"""Sections on results of validation: monotonicity, gaps, drift and reasons, a function for each."""

from collections.abc import Iterable, Iterator
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.arguments import brief
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.plots.mean_differences import mean_difference
from treepurify.plots.monotonicity import monotonicity
from treepurify.plots.weak_spots import weak_spots
from treepurify.report.numbered import NumberedSection, NumberTable
from treepurify.report.pictures import Picture, new_axes
from treepurify.validation.drift import Drift
from treepurify.validation.group_gap import GroupGap
from treepurify.validation.mean_differences import MeanDifferences
from treepurify.validation.monotonicity_result import Monotonicity, MonotonicityCheck
from treepurify.validation.reasons import ReasonCodes
from treepurify.validation.weak_spots import WeakSpots

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "drift_section",
    "gap_section",
    "monotonicity_section",
    "reasons_section",
    "result_sections",
    "weak_spots_section",
]

_MOST_BARS = 10
_MOST_WRONG = 4
_DIFFERENCE_SIZE = (5.6, 4.4)


def result_sections(results: Any, d: Decomposition) -> list[NumberedSection]:
    """Return a section for each result, in the order in which they were passed.

    Raises
    ------
    InvalidInputError
        If one of them is no such result.
    """
    if not isinstance(results, list | tuple):
        raise InvalidInputError(f"results must be a list, got {brief(results)}")
    return [_section_of(result, d, str(number)) for number, result in enumerate(results)]


def _section_of(result: Any, d: Decomposition, number: str) -> NumberedSection:
    match result:
        case Monotonicity():
            return monotonicity_section(result, d, f"monotonicity-{number}")
        case GroupGap():
            return gap_section(result, f"gap-{number}")
        case Drift():
            return drift_section(result, f"drift-{number}")
        case ReasonCodes():
            return reasons_section(result, f"reasons-{number}")
        case WeakSpots():
            return weak_spots_section(result, f"weak-spots-{number}")
    raise InvalidInputError(
        "each of results must be a result of check_monotonicity, group_gap, drift, reason_codes "
        f"or weak_spots, got {brief(result)}"
    )


def monotonicity_section(found: Monotonicity, d: Decomposition, identifier: str) -> NumberedSection:
    """Return which directions hold, with a figure of the effect that breaks one.

    Parameters
    ----------
    found : Monotonicity
        The result.
    d : Decomposition
        The effects of the same model.
    identifier : str
        Name of the section, unique in the page.
    """
    columns = {
        "feature": "Feature",
        "output": "Output",
        "direction": "Direction",
        "verdict": "Verdict",
        "worst_step": "Worst step in the wrong direction",
        "from": "between",
        "to": "and",
        "bound": "Bound on any wrong step",
        "row_share": "Rows with a wrong step",
    }
    if len(found.output_names) == 1:
        del columns["output"]
    table = NumberTable("directions", found.to_frame(), columns, frozenset({"row_share"}))
    wrong = [check for check in found.checks if check.worst is not None][:_MOST_WRONG]
    return NumberedSection(
        identifier,
        "Monotonicity",
        tuple(found.summary()),
        (table,),
        tuple(_wrong_step(found, check, d, identifier) for check in wrong),
    )


def _wrong_step(
    found: Monotonicity, check: MonotonicityCheck, d: Decomposition, identifier: str
) -> str:
    ax = new_axes((5.4, 3.6))
    try:
        monotonicity(found, d, check.feature, output=check.output, ax=ax)
    except InvalidInputError:
        # The decomposition has no cell for a value of the row that has the step.
        return ""
    prefix = f"{identifier}-{found.checks.index(check)}"
    words = f"The effect that breaks monotonicity along {check.feature} most, at the worst step."
    caption = f"<b>{escape(check.feature)}</b>: the effect that contributes most to the wrong step."
    return Picture(ax, prefix, caption, words).html()


def gap_section(found: GroupGap, identifier: str, of: str = "") -> NumberedSection:
    """Return by which effects two groups differ, with rates.

    Parameters
    ----------
    found : GroupGap
        The result.
    identifier : str
        Name of the section, unique in the page.
    of : str
        What tells the groups, such as the name of a column.
    """
    columns = _difference_columns(found.differences)
    tables = [NumberTable("effects", found.to_frame(), columns)]
    pictures = [_difference_picture(found, found.differences, f"{identifier}-effects")]
    if found.rates is not None:
        first, second = found.groups
        rates = {"rate": "Rate", "first": first, "second": second}
        rates |= {"difference": "Difference, or ratio", "low": "from", "high": "to"}
        tables.append(NumberTable("rates", found.rates.to_frame(), rates))
    heading = f"Gap between groups: {of or ' and '.join(found.groups)}"
    sentences = tuple(found.summary())
    return NumberedSection(identifier, heading, sentences, tuple(tables), tuple(pictures))


def drift_section(found: Drift, identifier: str) -> NumberedSection:
    """Return by which effects predictions moved between two data sets, and which features moved.

    Parameters
    ----------
    found : Drift
        The result.
    identifier : str
        Name of the section, unique in the page.
    """
    columns = _difference_columns(found.differences)
    columns |= {"psi": "Stability index", "psi_limit": "its limit"}
    effects = NumberTable("effects", found.to_frame(), columns)
    of_features = {
        "feature": "Feature",
        "psi": "Stability index",
        "psi_limit": "its limit",
        "wasserstein": "Wasserstein distance",
        "missing_before": f"Missing {found.differences.names[0]}",
        "missing_after": f"Missing {found.differences.names[1]}",
        "below": "Below all earlier",
        "above": "Above all earlier",
        "new_levels": "New labels",
    }
    shares = frozenset({"missing_before", "missing_after", "below", "above", "new_levels"})
    features = NumberTable("features", found.features_frame(), of_features, shares)
    return NumberedSection(
        identifier,
        "Drift",
        tuple(found.summary()),
        (effects, features),
        (_difference_picture(found, found.differences, f"{identifier}-effects"),),
    )


def weak_spots_section(found: WeakSpots, identifier: str) -> NumberedSection:
    """Return the slices where the model loses more than elsewhere, with their intervals.

    Parameters
    ----------
    found : WeakSpots
        The result.
    identifier : str
        Name of the section, unique in the page.
    """
    columns = {
        "slice": "Slice",
        "n_rows": "Rows",
        "share": "Share",
        "loss": "Mean loss",
        "excess": "Above the loss of all rows",
        "low": "from",
        "high": "to",
        "is_confirmed": "Confirmed",
    }
    table = NumberTable("slices", found.to_frame(), columns, frozenset({"share"}))
    picture = ""
    if found.spots:
        ax = weak_spots(found, ax=new_axes(_DIFFERENCE_SIZE))
        words = "Loss of slices, minus the loss of all rows; the table has the numbers."
        caption = (
            "Loss of slices, minus the loss of all rows, on rows that took no part in the search."
        )
        picture = Picture(ax, identifier, caption, words).html()
    sentences = tuple(found.summary(0))
    return NumberedSection(identifier, "Weak spots", sentences, (table,), (picture,))


def _difference_columns(differences: MeanDifferences) -> dict[str, str]:
    first, second = differences.names
    return {
        "term": "Effect",
        "output": "Output",
        "mean_first": f"Mean in {first}",
        "mean_second": f"in {second}",
        "difference": "Difference",
        "low": "Lower limit",
        "high": "Upper limit",
        "training_low": "Lower limit in one more training",
        "training_high": "Upper limit",
    }


def _difference_picture(found: GroupGap | Drift, differences: MeanDifferences, prefix: str) -> str:
    """Return the figure of the output whose mean margins differ most."""
    output = int(np.argmax(np.abs(differences.total.value)))
    ax: Axes = new_axes(_DIFFERENCE_SIZE)
    mean_difference(found, output=output, top=_MOST_BARS, ax=ax)
    first, second = (escape(name) for name in differences.names)
    several = differences.decomposition.n_outputs > 1
    which = f" of {escape(differences.decomposition.output_names[output])}" if several else ""
    caption = (
        f"From the mean margin{which} of <b>{first}</b> to the mean margin of <b>{second}</b>."
    )
    words = "Bars of the differences of the means of effects; the table has the numbers."
    return Picture(ax, prefix, caption, words).html()


def reasons_section(found: ReasonCodes, identifier: str) -> NumberedSection:
    """Return the reasons of rows, and what their margins are made of.

    Parameters
    ----------
    found : ReasonCodes
        The result.
    identifier : str
        Name of the section, unique in the page.
    """
    columns = {
        "row": "Row",
        "text": "Reason",
        "value": "Value",
        "contribution": "Adds",
        "in_trainings": "Trainings with this reason",
        "is_close": "Close",
    }
    sums = {
        "row": "Row",
        "margin": "Margin",
        "reference_margin": "Reference",
        "difference": "Difference",
        "reasons": "from reasons",
        "other_adverse": "other adverse",
        "favourable": "favourable",
        "remainder": "remainder",
    }
    return NumberedSection(
        identifier,
        "Examples with reasons",
        tuple(_paragraphs(found.summary())),
        (
            NumberTable("reasons", found.table(), columns, frozenset({"in_trainings"})),
            NumberTable("sums", found.sums(), sums),
        ),
    )


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines as sentences; those that are indented, one after the other, as one."""
    for is_indented, some in groupby(lines, lambda line: line.startswith(" ")):
        stripped = [line.strip() for line in some]
        yield from [f"{'; '.join(stripped)}."] if is_indented else stripped
