"""What an audit looks for, by kind of finding."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from treepurify.auditing.findings import (
    LEAST_MASS,
    NOTABLE_PART,
    NOTABLE_RATIO,
    PART,
    Finding,
    output_words,
    small_share,
)
from treepurify.comparing.apparent import apparent_values, model_variance
from treepurify.comparing.compare import SIGN_THRESHOLD
from treepurify.comparing.comparison import Comparison, relative_words
from treepurify.comparing.regions import cells_in_words, runs_of_cells
from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.evidence.effect_worth_table import EffectWorth
from treepurify.evidence.losses import loss_words
from treepurify.grids.grid import Subset, mean_over_cells
from treepurify.spread import LEVEL, Spread
from treepurify.typing import Array

__all__ = [
    "contradictions",
    "extrapolations",
    "hidden_effects",
    "instabilities",
    "measure_findings",
    "spurious_interactions",
    "training_findings",
    "worthless_effects",
]

_ROUNDING = 1e-12


def hidden_effects(d: Decomposition, threshold: float) -> list[Finding]:
    """Return the main effects of which the model keeps a part in interactions.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    threshold : float
        Share of the variance of the prediction from which a difference counts.
    """
    total = model_variance(d)
    findings = []
    for subset, component, apparent, k in _with_apparent(d, 1):
        moved = component.values[:, k] - apparent[:, k]
        share = float(component.mass @ moved**2) / total[k] if total[k] > 0 else 0.0
        before, after = (
            float(np.sqrt(component.mass @ values[:, k] ** 2))
            for values in (apparent, component.values)
        )
        if share < threshold:
            continue
        name = d.term_name(subset) + output_words(d, k)
        sentence = (
            f"The main effect of {name} differs from the one the model stores: its standard "
            f"deviation is {after:.3g}, not {before:.3g}. The difference, {share:.1%} of the "
            "variance of the prediction, is stored in interactions."
        )
        numbers = {"share_moved": share, "deviation": after, "deviation_apparent": before}
        findings.append(Finding("hidden effect", subset, k, share, sentence, numbers))
    return findings


def contradictions(d: Decomposition, threshold: float) -> list[Finding]:
    """Return the regions in which a main effect has the opposite sign of what it seems.

    Both must be beyond 2% of the deviation of the prediction, as in `treepurify.compare`, on at
    least 1% of the mass, and their difference there a tenth of `threshold`.
    """
    total = model_variance(d)
    findings = []
    for subset, component, apparent, k in _with_apparent(d, 1):
        axis, mass = component.axes[0], component.mass
        first, second = apparent[:, k], component.values[:, k]
        beyond = SIGN_THRESHOLD * np.sqrt(total[k])
        chosen = (first * second < 0) & (np.minimum(np.abs(first), np.abs(second)) > beyond)
        for run in runs_of_cells(axis, chosen & (mass > 0), second):
            part = float(mass[run].sum())
            share = float(mass[run] @ (first - second)[run] ** 2) / total[k] if total[k] > 0 else 0
            if part < LEAST_MASS or share < PART * threshold:
                continue
            means = [float(mass[run] @ values[run]) / part for values in (first, second)]
            where = cells_in_words(axis, run)
            sentence = (
                f"For {where} ({part:.1%} of the distribution), the stored effect"
                f"{output_words(d, k)} is {means[0]:+.3g} on average, but the main effect is "
                f"{means[1]:+.3g}."
            )
            numbers = {"mass": part, "effect_apparent": means[0], "effect": means[1]}
            cells = tuple(run)
            findings.append(
                Finding("contradiction", subset, k, share, sentence, numbers, where, cells)
            )
    return findings


def spurious_interactions(d: Decomposition, threshold: float) -> list[Finding]:
    """Return the pairs that carry an effect, but keep next to nothing of it when purified.

    A pair counts if its apparent share is at least `threshold` and its purified share at most
    a tenth of that.
    """
    total = model_variance(d)
    findings = []
    for subset, component, apparent, k in _with_apparent(d, 2):
        if total[k] <= 0:
            continue
        before = float(np.sum(component.mass * apparent[..., k] ** 2)) / total[k]
        after = float(component.variance[k]) / total[k]
        if before < threshold or after > PART * threshold:
            continue
        sentence = (
            f"{d.term_name(subset)}{output_words(d, k)} is not a real interaction: its table "
            f"carries {before:.1%} of the variance of the prediction, but "
            f"{small_share(after)} remains once main effects are removed."
        )
        numbers = {"share_apparent": before, "share": after}
        severity = before - after
        findings.append(Finding("spurious interaction", subset, k, severity, sentence, numbers))
    return findings


def _with_apparent(
    d: Decomposition, order: int
) -> Iterator[tuple[Subset, TensorComponent, Array, int]]:
    for subset, component in d.tensor_components().items():
        apparent = apparent_values(d, subset) if len(subset) == order else None
        if apparent is not None:
            for k in range(d.n_outputs):
                yield subset, component, apparent, k


def measure_findings(
    d: Decomposition, comparisons: Mapping[str, Comparison], threshold: float, *, chosen: bool
) -> list[Finding]:
    """Return the effects that another measure changes by 30% of their deviation or more.

    That is the larger of the two standard deviations, both on the rows.
    Only the measure that changes an effect most is named. Effects that `d` does not keep apart,
    but a decomposition of a larger order does, are left out.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    comparisons : mapping of str to Comparison
        Its effects compared with those under each other measure.
    threshold : float
        Share of the variance of the prediction from which a difference counts.
    chosen : bool
        Whether somebody chose these measures. A finding about one that nobody chose says nothing
        of a prediction, and ranks below all that do.
    """
    total = model_variance(d)
    worst: dict[tuple[Subset, int], Finding] = {}
    for measure, comparison in comparisons.items():
        rows = comparison.terms.to_dict("records")
        leaders = _other_leader(rows, measure) if d.n_outputs == 1 else ""
        for subset, row in zip(comparison.subsets, rows, strict=True):
            if subset not in d.components:
                continue
            k = d.output_names.index(row["output"])
            share = float(row["distance"] ** 2 / total[k]) if total[k] > 0 else 0.0
            if share < threshold or row["relative_distance"] < NOTABLE_PART:
                continue
            severity = share if chosen else threshold * min(share, 1.0)
            if (subset, k) in worst and worst[subset, k].severity >= severity:
                continue
            sentence = (
                f"The effect of {row['term']}{output_words(d, k)} depends on the distribution: "
                f"under {measure!r} it differs by {row['distance']:.3g} (root mean square), "
                f"{relative_words(row, ('here', f'under {measure!r}'))}.{leaders}"
            )
            numbers = {
                "share": share,
                "distance": float(row["distance"]),
                "relative_distance": float(row["relative_distance"]),
                "sign_changes": float(row["sign_changes"]),
            }
            worst[subset, k] = Finding(
                "distribution", subset, k, severity, sentence, numbers, measure=measure
            )
    return list(worst.values())


def _other_leader(rows: Sequence[Mapping[Any, Any]], measure: str) -> str:
    """Return in a sentence which effect is the largest under a measure; nothing if it is here."""
    here, there = (
        max(rows, key=lambda row: float(np.nan_to_num(row[which])))
        for which in ("deviation_first", "deviation_second")
    )
    if here["term"] == there["term"]:
        return ""
    return f" The largest effect is {here['term']} here, but {there['term']} under {measure!r}."


def extrapolations(d: Decomposition, threshold: float) -> list[Finding]:
    """Return the pairs that are at least twice as large without data as with them.

    The largest effect counts. `d` must refer to the rows themselves, so that a cell without
    mass is one without data.
    """
    total = model_variance(d)
    findings = []
    for subset, component in d.tensor_components().items():
        empty = component.mass <= 0
        if len(subset) < 2 or not np.any(empty) or np.all(empty):
            continue
        for k in range(d.n_outputs):
            sizes = np.abs(component.values[..., k])
            without, within = float(sizes[empty].max()), float(sizes[~empty].max())
            if without**2 < threshold * total[k] or without < NOTABLE_RATIO * within:
                continue
            # A pair that only rounding keeps from zero where there are data is zero there.
            within = within if within > _ROUNDING * without else 0.0
            inside = f"at most {within:.3g}" if within else "zero"
            share = float(np.sum(sizes[empty] ** 2) / np.sum(sizes**2))
            sentence = (
                f"The interaction {d.term_name(subset)}{output_words(d, k)} is up to {without:.3g} "
                "(in the units of the prediction) at combinations of values that never occur in "
                f"the data ({np.mean(empty):.0%} of all combinations), but {inside} at those that "
                "do."
            )
            numbers = {
                "largest_without_data": without,
                "largest_with_data": within,
                "share_without_data": share,
                "cells_without_data": float(np.mean(empty)),
            }
            # No mass, no variance: such findings rank below all that concern predictions.
            severity = threshold * min(float(without**2 / total[k]), 1.0) if total[k] > 0 else 0.0
            findings.append(Finding("extrapolation", subset, k, severity, sentence, numbers))
    return findings


def instabilities(
    d: Decomposition, spread: Mapping[Subset, Array], n_samples: int, threshold: float
) -> list[Finding]:
    """Return the effects that resampled rows change by 30% of their deviation or more.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    spread : mapping of tuple of int to ndarray of float64
        Root mean square change of each cell over resampled rows, in the shape of the values.
    n_samples : int
        Number of resamplings.
    threshold : float
        Share of the variance of the prediction from which a change counts.
    """
    total = model_variance(d)
    tensors = d.tensor_components()
    findings = []
    for subset, cells in spread.items():
        component = tensors[subset]
        change = mean_over_cells(component.mass, cells**2)
        for k in range(d.n_outputs):
            size = float(component.variance[k])
            severity = float(change[k] / total[k]) if total[k] > 0 else 0.0
            if severity < threshold * NOTABLE_PART**2 or change[k] < NOTABLE_PART**2 * size:
                continue
            relative = float(np.sqrt(change[k] / size)) if size > 0 else np.inf
            sentence = (
                f"The effect of {d.term_name(subset)}{output_words(d, k)} is unstable: resampling "
                f"the rows {'once' if n_samples == 1 else f'{n_samples} times'} changes it by "
                f"{np.sqrt(change[k]):.3g} (root mean square), {relative:.0%} of its standard "
                "deviation."
            )
            numbers = {"relative_change": relative}
            findings.append(Finding("instability", subset, k, severity, sentence, numbers))
    return findings


def training_findings(d: Decomposition, spread: Spread, threshold: float) -> list[Finding]:
    """Return the effects on which trainings of the model do not agree.

    One is found if its variance, or that between trainings, is at least `threshold` of the
    variance of the prediction, and trainings differ by 30% of its deviation or more, or their
    band includes zero nearly everywhere, or some of them do not have it.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    spread : Spread
        Its effects in several trainings.
    threshold : float
        Share of the variance of the prediction from which something is a finding.
    """
    total = model_variance(d)
    without = set(spread.no_clear_sign())
    present = spread.present()
    findings = []
    for subset in spread.stacked:
        if subset not in d.components:
            continue
        between, variance = spread.training_variance(subset), d.components[subset].variance
        for k in range(d.n_outputs):
            concerned = max(float(between[k]), float(variance[k]))
            if total[k] <= 0 or concerned < threshold * total[k]:
                continue
            relative = float(np.sqrt(between[k] / variance[k])) if variance[k] > 0 else np.inf
            share = float(present[subset][k])
            has_no_sign = (subset, k) in without
            if relative < NOTABLE_PART and not has_no_sign and share == 1.0:
                continue
            words = [f"trainings differ by {relative:.0%} of its standard deviation"]
            if has_no_sign:
                words.append(f"the {LEVEL:.0%} band includes zero nearly everywhere")
            if share < 1.0:
                words.append(f"{1 - share:.0%} of the trainings do not have the effect")
            sentence = (
                f"The effect of {d.term_name(subset)}{output_words(d, k)} depends on the training: "
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
            findings.append(Finding("training", subset, k, severity, sentence, numbers))
    return findings


def worthless_effects(worth: EffectWorth, threshold: float) -> list[Finding]:
    """Return the effects that carry variance but do not lower the held-out loss.

    One counts if its share of the variance of the prediction is at least `threshold` and the
    interval of its worth reaches down to zero; without an interval, if its worth does. Where that
    is not known (NaN), it does not count.

    Parameters
    ----------
    worth : EffectWorth
        What effects are worth on held-out rows.
    threshold : float
        Share of the variance of the prediction.
    """
    d = worth.decomposition
    total = model_variance(d)
    findings = []
    for place, subset in enumerate(worth.subsets):
        lowest = worth.low[place] if worth.n_bootstrap else worth.worth[place]
        # An interval that is not known says nothing against an effect.
        if not subset or not lowest <= 0:
            continue
        shares = d.components[subset].variance / np.where(total > 0, total, np.inf)
        k = int(np.argmax(shares))
        share = float(shares[k])
        if share < threshold:
            continue
        value = float(worth.worth[place])
        numbers = {"share": share, "worth": value, "model_loss": worth.model_loss}
        interval = ""
        if worth.n_bootstrap:
            low, high = float(worth.low[place]), float(worth.high[place])
            numbers |= {"low": low, "high": high}
            interval = f" ({worth.coverage:.0%} interval {low:.2g} to {high:.2g})"
        what = "main effect of" if len(subset) == 1 else "interaction"
        sentence = (
            f"The {what} {d.term_name(subset)} accounts for {share:.1%} of the variance of the "
            f"prediction, but {worth.n_rows} held-out rows show no benefit: without it, the "
            f"{loss_words(worth.loss)} of {worth.model_loss:.4g} changes by "
            f"{value:+.2g}{interval}."
        )
        findings.append(Finding("no worth", subset, k, share, sentence, numbers))
    return findings
