"""Sections on results: findings, trainings, worth, monotonicity, gaps, drift, weak spots, reasons.

Each is a function from a result to a `Section`; `result_section` knows which belongs to which.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from treepurify.arguments import brief
from treepurify.auditing.findings import Finding
from treepurify.auditing.kinds import KINDS
from treepurify.auditing.ranked_findings import Audit
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.evidence.effect_worth_table import EffectWorth
from treepurify.evidence.simplification import Simplification
from treepurify.plots.audits import finding as draw_finding
from treepurify.plots.main_effects import main_effect_size
from treepurify.plots.mean_differences import mean_difference
from treepurify.plots.monotonicity import monotonicity
from treepurify.plots.pairs import pair_size
from treepurify.plots.simplification import simplification
from treepurify.plots.terms import find_tensor
from treepurify.plots.together import TOGETHER_SIZE
from treepurify.plots.weak_spots import weak_spots
from treepurify.plots.worth import worth as draw_worth
from treepurify.report.effects import main_figure, pair_figure
from treepurify.report.figures import Figure, draw, figure_of
from treepurify.report.page import Section, Table
from treepurify.spread import LEVEL, Spread
from treepurify.validation.drift import Drift
from treepurify.validation.group_gap import GroupGap
from treepurify.validation.mean_differences import MeanDifferences
from treepurify.validation.monotonicity_result import Monotonicity, MonotonicityCheck
from treepurify.validation.reasons import ReasonCodes
from treepurify.validation.weak_spots import WeakSpots

_MOST_FINDINGS = 40
_MOST_BARS = 12
_MOST_WRONG = 4
_MOST_UNCLEAR = 20
_DIFFERENCE_SIZE = (5.6, 4.4)


def result_section(result: Any, d: Decomposition) -> Section:
    """Return the section of a result of validation.

    Raises
    ------
    InvalidInputError
        If it is no such result.
    """
    match result:
        case Monotonicity():
            return _of_monotonicity(result, d)
        case GroupGap():
            return _of_gap(result)
        case Drift():
            return _of_drift(result)
        case ReasonCodes():
            return _of_reasons(result)
        case WeakSpots():
            return _of_weak_spots(result)
    raise InvalidInputError(
        "each of results must be a result of check_monotonicity, group_gap, drift, reason_codes "
        f"or weak_spots, got {brief(result)}"
    )


def findings_section(audit: Audit | None, top: int) -> Section | None:
    """Return the findings of an audit, the first `top` with a picture; None without an audit."""
    if audit is None:
        return None
    text = audit.summary(most=0)
    parts = [
        Section(
            finding.kind.capitalize(),
            [finding.sentence, f"{finding.follows} {finding.to_do}"],
            figures=_finding_figures(audit, finding) if rank < top else (),
        )
        for rank, finding in enumerate(audit.findings[:_MOST_FINDINGS])
    ]
    more = len(audit.findings) - len(parts)
    text += [f"{more} smaller findings are not listed."] if more else []
    return Section("Findings", text, parts=parts)


def _finding_figures(audit: Audit, finding: Finding) -> list[Figure]:
    """Return a picture of each effect, of effects that were folded into one finding the first.

    A pair that depends on the distribution is drawn under both.
    """
    d = audit.decomposition
    if finding.kind == "collinear effects":
        ax = draw(TOGETHER_SIZE)
        draw_finding(audit, finding, ax=ax)
        return [figure_of(ax, "", finding.sentence)]
    figures = []
    for effect in finding.effects[:1] if KINDS[finding.kind].is_folded else finding.effects:
        name, is_pair = d.term_name(effect), len(effect) == 2
        if len(effect) > 2:
            continue
        is_other = is_pair and finding.kind == "distribution"
        if is_other:
            own = pair_figure(d, effect, finding.output, f"{name} under {d.measure}.")
            figures.append(own)
        table = find_tensor(d, effect, len(effect))
        ax = draw(pair_size(table) if is_pair else main_effect_size(table))
        draw_finding(audit, replace(finding, effects=(effect,)), ax=ax)
        caption = f"{name} under {finding.measure}." if is_other else ""
        figures.append(figure_of(ax, caption, f"{name}. {finding.sentence}"))
    return figures


def checks_section(audit: Audit | None) -> Section | None:
    """Return what an audit looked for, and by which rules; None without an audit."""
    if audit is None:
        return None
    import pandas as pd

    rows = [
        {"kind": each.kind, "among": each.among, "rule": each.rule, "result": each.result}
        for each in audit.checks
    ]
    headings = {"kind": "Checked for", "among": "Among", "rule": "Rule", "result": "Findings"}
    worth, trainings = audit.worth, audit.trainings
    draws = f"{audit.n_bootstrap}, seed {audit.seed}" if audit.n_bootstrap else "none"
    facts = [
        ("Threshold", f"{100 * audit.threshold:.3g}% of the variance of the prediction"),
        ("Other distributions", ", ".join(audit.comparisons) or "none"),
        ("Draws of the rows", draws),
        ("Trainings", "1" if trainings is None else str(trainings.n_models)),
    ]
    if worth is not None:
        hashed = f"SHA-256 {worth.rows_fingerprint} of the rows as read, the target and the weights"
        facts += [
            ("Held-out rows", f"{worth.n_rows:,}: {hashed}"),
            ("Notes on these rows", " ".join(worth.notes)),
            ("Draws of these rows", f"{worth.n_bootstrap}, seed {worth.seed}"),
        ]
    table = Table(pd.DataFrame(rows), headings, at_once=len(rows))
    return Section("Checks made", facts=facts, tables=[table], is_folded=True)


def trainings_section(d: Decomposition, leading: Sequence[int]) -> Section | None:
    """Return how far several trainings agree; None for one.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    leading : sequence of int
        The features whose main effects are drawn with their bands.
    """
    spread = d.spread
    if spread is None:
        return None
    how = f" ({spread.how})" if spread.how else ""
    of = "their mean" if spread.is_of_mean else "the model itself"
    text = (
        f"{spread.n_models} trainings{how} were purified. This page shows the effects of {of}. A "
        f"band shows where one more training of the same kind would lie, in {LEVEL:.0%} of cases, "
        "at each value separately: the noise of training, not the choice of rows."
    )
    headings = {
        "effect": "Effect",
        "output": "Output",
        "size_lower": "Size in one more training: from",
        "size_upper": "to",
        "training_size": "Trainings differ by",
        "present": "Trainings that have the effect",
    }
    figures = [
        main_figure(d, (feature,), 0, f"{d.feature_names[feature]}, with its band.", before=False)
        for feature in leading
        if (feature,) in spread.stacked
    ]
    frame = spread.importance().sort_values("size_upper", ascending=False, kind="stable")
    table = Table(frame, headings, percent=["present"])
    return Section("Several trainings", [text, _no_clear_sign(d, spread)], [table], figures)


def _no_clear_sign(d: Decomposition, spread: Spread) -> str:
    found = spread.no_clear_sign()
    if not found:
        return "Every effect has a clear sign for a part of the rows: its band excludes zero there."
    names = [
        d.term_name(subset) + (f" ({d.output_names[k]})" if d.n_outputs > 1 else "")
        for subset, k in found[:_MOST_UNCLEAR]
    ]
    more = f" and {len(found) - len(names)} more" if len(found) > len(names) else ""
    whole = len(spread.stacked) * spread.n_outputs
    return (
        f"The bands of {len(found)} of {whole} effects include zero nearly everywhere: "
        f"{', '.join(names)}{more}."
    )


def worth_section(worth: EffectWorth | None) -> Section | None:
    """Return what effects are worth on held-out rows; None where it was not measured."""
    if worth is None:
        return None
    frame = worth.to_frame()
    bars = min(len(frame), _MOST_BARS)
    ax = draw((5.2, max(0.34 * bars + 1.1, 1.9)))
    draw_worth(worth, top=_MOST_BARS, ax=ax)
    caption = f"Worth on held-out rows of the {bars} effects with the largest variance."
    meaning = (
        "Worth is the rise of the loss, on rows that the model was not trained on, when the effect "
        "is left out and all others stay."
    )
    if worth.n_bootstrap:
        meaning += (
            f" The interval covers {worth.coverage:.0%} of {worth.n_bootstrap} draws of these rows "
            "with replacement; the model is the same in all."
        )
    headings = {
        "term": "Effect",
        "worth": "Worth",
        "low": "from",
        "high": "to",
        "worth_absorbed": "Others adjusted",
        "shapley": "Shapley",
    }
    text = [f"{worth.summary(0)[0]} {meaning}", *worth.notes]
    figure = figure_of(ax, caption, "Bars of the worth of each effect; the table has the numbers.")
    table = Table(frame.dropna(axis="columns", how="all"), headings)
    return Section("Worth on held-out rows", text, [table], [figure])


def path_section(simple: Simplification | None) -> Section | None:
    """Return the path on which effects were left out; None without it."""
    if simple is None:
        return None
    ax = draw((4.8, 3.0))
    simplification(simple, ax=ax)
    caption = "Held-out loss as effects are left out."
    headings = {
        "n_effects": "Effects",
        "loss": "Loss",
        "rise": "Rise",
        "rise_error": "Standard error of the rise",
        "is_chosen": "Taken",
        "left_out": "Left out by this step",
    }
    same = (
        f"The same {simple.n_rows} rows chose the effects and measured the losses, so the loss of "
        "the chosen effects is optimistic. Measure it on rows that took no part."
    )
    table = Table(simple.to_frame(), headings, percent=["rise", "rise_error"])
    figure = figure_of(ax, caption, "The loss against the number of effects.")
    return Section("Effects that can be left out", [*simple.summary(), same], [table], [figure])


def _of_monotonicity(found: Monotonicity, d: Decomposition) -> Section:
    headings = {
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
        del headings["output"]
    table = Table(found.to_frame(), headings, percent=["row_share"])
    wrong = [check for check in found.checks if check.worst is not None][:_MOST_WRONG]
    figures = [figure for check in wrong if (figure := _wrong_step(found, check, d)) is not None]
    return Section("Monotonicity", found.summary(), [table], figures)


def _wrong_step(found: Monotonicity, check: MonotonicityCheck, d: Decomposition) -> Figure | None:
    ax = draw((5.4, 3.6))
    try:
        monotonicity(found, d, check.feature, output=check.output, ax=ax)
    except InvalidInputError:
        # The decomposition has no cell for a value of the row that has the step.
        return None
    caption = f"{check.feature}: the effect that contributes most to the wrong step."
    return figure_of(ax, caption, f"The effect that breaks monotonicity along {check.feature}.")


def _of_gap(found: GroupGap) -> Section:
    tables = [Table(found.to_frame(), _difference_headings(found.differences))]
    if found.rates is not None:
        first, second = found.groups
        headings = {"rate": "Rate", "first": first, "second": second}
        headings |= {"difference": "Difference, or ratio", "low": "from", "high": "to"}
        tables.append(Table(found.rates.to_frame(), headings))
    title = f"Gap between groups: {' and '.join(found.groups)}"
    figures = [_difference_figure(found, found.differences)]
    return Section(title, found.summary(), tables, figures)


def _of_drift(found: Drift) -> Section:
    effects = {
        **_difference_headings(found.differences),
        "psi": "Stability index",
        "psi_limit": "its limit",
    }
    first, second = found.differences.names
    features = {
        "feature": "Feature",
        "psi": "Stability index",
        "psi_limit": "its limit",
        "wasserstein": "Wasserstein distance",
        "missing_before": f"Missing {first}",
        "missing_after": f"Missing {second}",
        "below": "Below all earlier",
        "above": "Above all earlier",
        "new_levels": "New labels",
    }
    shares = ["missing_before", "missing_after", "below", "above", "new_levels"]
    tables = [
        Table(found.to_frame(), effects),
        Table(found.features_frame(), features, percent=shares),
    ]
    return Section("Drift", found.summary(), tables, [_difference_figure(found, found.differences)])


def _of_weak_spots(found: WeakSpots) -> Section:
    headings = {
        "slice": "Slice",
        "n_rows": "Rows",
        "share": "Share",
        "loss": "Mean loss",
        "excess": "Above the loss of all rows",
        "low": "from",
        "high": "to",
        "is_confirmed": "Confirmed",
    }
    figures = []
    if found.spots:
        ax = weak_spots(found, ax=draw(_DIFFERENCE_SIZE))
        caption = (
            "Loss of slices, minus the loss of all rows, on rows that took no part in the search."
        )
        figures.append(figure_of(ax, caption, "Bars of the losses of slices."))
    table = Table(found.to_frame(), headings, percent=["share"])
    return Section("Weak spots", found.summary(0), [table], figures)


def _of_reasons(found: ReasonCodes) -> Section:
    reasons = {
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
    tables = [
        Table(found.table(), reasons, percent=["in_trainings"]),
        Table(found.sums(), sums),
    ]
    return Section("Examples with reasons", list(_paragraphs(found.summary())), tables)


def _difference_headings(differences: MeanDifferences) -> dict[str, str]:
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


def _difference_figure(found: GroupGap | Drift, differences: MeanDifferences) -> Figure:
    """Return the figure of the output whose mean margins differ most."""
    output = int(np.argmax(np.abs(differences.total.value)))
    ax = draw(_DIFFERENCE_SIZE)
    mean_difference(found, output=output, top=_MOST_BARS, ax=ax)
    first, second = differences.names
    several = differences.decomposition.n_outputs > 1
    which = f" of {differences.decomposition.output_names[output]}" if several else ""
    caption = f"From the mean margin{which} of {first} to the mean margin of {second}."
    return figure_of(ax, caption, "Bars of the differences of the means of effects.")


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines as sentences; those that are indented, one after the other, as one."""
    for is_indented, some in groupby(lines, lambda line: line.startswith(" ")):
        stripped = [line.strip() for line in some]
        yield from [f"{'; '.join(stripped)}."] if is_indented else stripped
