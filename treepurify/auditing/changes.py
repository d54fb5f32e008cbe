"""Findings about effects that change: under other distributions, rows and trainings."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from treepurify.auditing.findings import Finding, effect_words, output_words
from treepurify.auditing.ranked_findings import Audit
from treepurify.comparing.comparison import relative_words
from treepurify.evidence.losses import loss_words
from treepurify.grids.grid import Subset, mean_over_cells
from treepurify.spread import LEVEL
from treepurify.terms import in_digits
from treepurify.typing import Array

# Of its deviation: a change of an effect that shows in a figure.
NOTABLE_PART = 0.3


def measure_findings(audit: Audit, total: Array) -> Iterator[Finding]:
    """Yield the effects that another measure changes by 30% of their deviation or more.

    That is the larger of the two standard deviations, both on the rows. Only the measure that
    changes an effect most is named.
    """
    d, threshold = audit.decomposition, audit.threshold
    worst: dict[tuple[Subset, int], Finding] = {}
    for measure, comparison in audit.comparisons.items():
        rows = comparison.terms.to_dict("records")
        leaders = _other_leader(rows, measure) if d.n_outputs == 1 else ""
        for subset, row in zip(comparison.subsets, rows, strict=True):
            # Effects that `d` does not keep apart, but a decomposition of a larger order does.
            if subset not in d.components:
                continue
            k = d.output_names.index(row["output"])
            share = float(row["distance"] ** 2 / total[k]) if total[k] > 0 else 0.0
            if share < threshold or row["relative_distance"] < NOTABLE_PART:
                continue
            # One that nobody chose says nothing of a prediction, and ranks below all that do.
            severity = share if audit.measures_chosen else threshold * min(share, 1.0)
            if (subset, k) in worst and worst[subset, k].severity >= severity:
                continue
            sentence = (
                f"The effect of {row['term']}{output_words(d, k)} depends on the distribution: "
                f"under {measure!r} it differs by {row['distance']:.3g} (root mean square), "
                f"{relative_words(row, ('here', f'under {measure!r}'))}.{leaders}"
            )
            names = ("distance", "relative_distance", "sign_changes")
            numbers = {"share": share, **{name: float(row[name]) for name in names}}
            worst[subset, k] = Finding(
                "distribution", subset, k, severity, sentence, numbers, measure=measure
            )
    yield from worst.values()


def _other_leader(rows: Sequence[Mapping[Any, Any]], measure: str) -> str:
    """Return in a sentence which effect is the largest under a measure; nothing if it is here."""
    here, there = (
        max(rows, key=lambda row: float(np.nan_to_num(row[which])))
        for which in ("deviation_first", "deviation_second")
    )
    if here["term"] == there["term"]:
        return ""
    return f" The largest effect is {here['term']} here, but {there['term']} under {measure!r}."


def instabilities(audit: Audit, total: Array) -> Iterator[Finding]:
    """Yield the effects that resampled rows change by 30% of their deviation or more."""
    d, least = audit.decomposition, NOTABLE_PART**2
    tensors = d.tensor_components()
    times = "once" if audit.n_bootstrap == 1 else f"{audit.n_bootstrap} times"
    for subset, cells in audit.spread.items():
        component = tensors[subset]
        change = mean_over_cells(component.mass, cells**2)
        for k in range(d.n_outputs):
            size = float(component.variance[k])
            severity = float(change[k] / total[k]) if total[k] > 0 else 0.0
            if severity < audit.threshold * least or change[k] < least * size:
                continue
            relative = float(np.sqrt(change[k] / size)) if size > 0 else np.inf
            sentence = (
                f"The {effect_words(d, subset, k)} is unstable: resampling the rows {times} "
                f"changes it by {np.sqrt(change[k]):.3g}, {relative:.0%} of its size."
            )
            numbers = {"relative_change": relative}
            yield Finding("instability", subset, k, severity, sentence, numbers)


def training_findings(audit: Audit, total: Array) -> Iterator[Finding]:
    """Yield the effects on which trainings of the model do not agree."""
    d, spread = audit.decomposition, audit.trainings
    if spread is None:
        return
    without = set(spread.no_clear_sign())
    present = spread.present()
    for subset in spread.stacked:
        if subset not in d.components:
            continue
        between, variance = spread.training_variance(subset), d.components[subset].variance
        for k in range(d.n_outputs):
            concerned = max(float(between[k]), float(variance[k]))
            if total[k] <= 0 or concerned < audit.threshold * total[k]:
                continue
            relative = float(np.sqrt(between[k] / variance[k])) if variance[k] > 0 else np.inf
            share = float(present[subset][k])
            has_no_sign = (subset, k) in without
            if relative < NOTABLE_PART and not has_no_sign and share == 1.0:
                continue
            words = [f"trainings differ by {relative:.0%} of its size"]
            if has_no_sign:
                words.append(f"the {LEVEL:.0%} band includes zero nearly everywhere")
            if share < 1.0:
                words.append(f"{1 - share:.0%} of the trainings do not have the effect")
            sentence = (
                f"The {effect_words(d, subset, k)} depends on the training: "
                f"{spread.n_models} {', '.join(words)}."
            )
            numbers = {
                "relative_change": relative,
                "present": share,
                "no_clear_sign": float(has_no_sign),
            }
            # What is at stake is what is not sure: all of an effect without a sign.
            severity = variance[k] if has_no_sign else between[k]
            severity = min(float(severity / total[k]), 1.0)
            yield Finding("training", subset, k, severity, sentence, numbers)


def worthless_effects(audit: Audit, total: Array) -> Iterator[Finding]:
    """Yield the effects that carry variance, but the interval of whose worth reaches zero."""
    d, worth = audit.decomposition, audit.worth
    if worth is None:
        return
    for place, subset in enumerate(worth.subsets):
        value, low, high = (float(each[place]) for each in (worth.worth, worth.low, worth.high))
        # An interval that is not known says nothing against an effect.
        if not subset or not (low if worth.n_bootstrap else value) <= 0:
            continue
        shares = d.components[subset].variance / np.where(total > 0, total, np.inf)
        k = int(np.argmax(shares))
        share = float(shares[k])
        if share < audit.threshold:
            continue
        numbers = {"share": share, "worth": value, "model_loss": worth.model_loss}
        interval = ""
        if worth.n_bootstrap:
            numbers |= {"low": low, "high": high}
            interval = (
                f" ({worth.coverage:.0%} interval {in_digits(low, 2)} to {in_digits(high, 2)})"
            )
        size = np.sqrt(d.components[subset].variance[k])
        sentence = (
            f"The {effect_words(d, subset, k)} has a size of {size:.3g}, but {worth.n_rows} "
            f"held-out rows show no benefit: without it, the {loss_words(worth.loss)} of "
            f"{worth.model_loss:.4g} changes by {in_digits(value, 2, sign=True)}{interval}."
        )
        yield Finding("no worth", subset, k, share, sentence, numbers)
