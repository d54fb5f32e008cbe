"""What an effect rests on: the distribution chosen, the cells with data, the rows drawn."""

from collections.abc import Mapping

import numpy as np

from treepurify.auditing.findings import Finding, output_words
from treepurify.auditing.rules import NOTABLE_PART, NOTABLE_RATIO
from treepurify.comparing.apparent import model_variance
from treepurify.comparing.comparison import Comparison, larger_deviation
from treepurify.decomposition import Decomposition
from treepurify.grids.grid import Subset
from treepurify.typing import Array

__all__ = [
    "extrapolations",
    "instabilities",
    "measure_findings",
    "shared_main_effects",
    "unidentified_effects",
]

_ROUNDING = 1e-12


def measure_findings(
    d: Decomposition, comparisons: Mapping[str, Comparison], threshold: float
) -> list[Finding]:
    """Return the effects that another measure changes by 30 % of their deviation or more.

    That is the larger of the two standard deviations, both on the rows.
    Only the measure that changes an effect most is named. Effects that `d` does not keep apart,
    but a decomposition of a larger order does, are left out.
    """
    total = model_variance(d)
    worst: dict[tuple[Subset, int], Finding] = {}
    for measure, comparison in comparisons.items():
        rows = comparison.terms.to_dict("records")
        for subset, row in zip(comparison.subsets, rows, strict=True):
            if subset not in d.components:
                continue
            k = d.output_names.index(row["output"])
            severity = float(row["distance"] ** 2 / total[k]) if total[k] > 0 else 0.0
            if severity < threshold or row["relative_distance"] < NOTABLE_PART:
                continue
            if (subset, k) in worst and worst[subset, k].severity >= severity:
                continue
            sentence = (
                f"The effect of {row['term']}{output_words(d, k)} depends on the measure: under "
                f"{measure!r} it differs by {row['distance']:.3g} in root mean square, "
                f"{row['relative_distance']:.0%} of {larger_deviation(row)}."
            )
            numbers = {
                "distance": float(row["distance"]),
                "relative_distance": float(row["relative_distance"]),
                "sign_changes": float(row["sign_changes"]),
            }
            worst[subset, k] = Finding(
                "measure", subset, k, severity, sentence, numbers, measure=measure
            )
    return list(worst.values())


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
            share = float(np.sum(sizes[empty] ** 2) / np.sum(sizes**2))
            sentence = (
                f"The interaction {d.term_name(subset)}{output_words(d, k)} reaches {without:.3g} "
                f"where there are no data, and {within:.3g} where there are: {share:.0%} of its "
                f"square sum lies in the {np.mean(empty):.0%} of the cells without data."
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


def unidentified_effects(d: Decomposition) -> list[Finding]:
    """Return the tensors whose lower effects the data do not determine."""
    total = model_variance(d)
    # Solves of archives of older versions are known by their names only.
    names = {d.term_name(subset): subset for subset in d.components}
    findings = []
    for solve in d.diagnostics.get("solves", ()):
        directions = solve.get("unidentified") or 0
        subset = tuple(solve.get("features", names.get(solve["term"], ())))
        if not directions or subset not in d.components:
            continue
        mains = [d.components[(j,)].variance for j in subset if (j,) in d.components]
        shares = np.sum(mains, axis=0) / np.where(total > 0, total, np.inf)
        sentence = (
            f"The data do not determine how {solve['term']} shares its effect with its main "
            f"effects: its cells with data fall into {directions + 1} separate blocks, and a "
            "constant may move between them."
        )
        k = int(np.argmax(shares))
        severity = min(float(shares[k]), 1.0)
        numbers = {"directions": float(directions)}
        findings.append(Finding("identifiability", subset, k, severity, sentence, numbers))
    return findings


def shared_main_effects(d: Decomposition, threshold: float) -> list[Finding]:
    """Return the pairs of features that determine each other, and how much their effects share."""
    total = model_variance(d)
    findings = []
    for shared in d.diagnostics.get("shared_mains", ()):
        first, second = shared["features"]
        shares = np.array(shared["variance"]) / np.where(total > 0, total, np.inf)
        k = int(np.argmax(shares))
        if shares[k] < threshold or not {(first,), (second,)} <= d.components.keys():
            continue
        one, other = d.term_name((first,)), d.term_name((second,))
        sentence = (
            f"The rows do not tell the main effects of {one} and {other}{output_words(d, k)} "
            "apart, since the features determine each other, in whole or in part, or their "
            f"cells have few rows: how they share {shares[k]:.1%} of the variance of the "
            "prediction is the model's choice. A small effect of one of them is no evidence that "
            "it does not matter."
        )
        numbers = {"directions": float(shared["directions"]), "shared": float(shares[k])}
        severity = min(float(shares[k]), 1.0)
        effects = ((first,), (second,))
        if d.components[effects[1]].variance[k] > d.components[effects[0]].variance[k]:
            effects = effects[::-1]
        findings.append(
            Finding(
                "identifiability",
                (first, second),
                k,
                severity,
                sentence,
                numbers,
                effects=effects,
            )
        )
    return findings


def instabilities(
    d: Decomposition, spread: Mapping[Subset, Array], n_samples: int, threshold: float
) -> list[Finding]:
    """Return the effects that resampled rows change by 30 % of their deviation or more.

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
        change = np.tensordot(component.mass, cells**2, axes=component.mass.ndim)
        for k in range(d.n_outputs):
            size = float(component.variance[k])
            severity = float(change[k] / total[k]) if total[k] > 0 else 0.0
            if severity < threshold * NOTABLE_PART**2 or change[k] < NOTABLE_PART**2 * size:
                continue
            relative = float(np.sqrt(change[k] / size)) if size > 0 else np.inf
            sentence = (
                f"The effect of {d.term_name(subset)}{output_words(d, k)} rests on few rows: over "
                f"{n_samples} resamplings of the rows it changes by {np.sqrt(change[k]):.3g} in "
                f"root mean square, {relative:.0%} of its standard deviation."
            )
            numbers = {"relative_change": relative}
            findings.append(Finding("instability", subset, k, severity, sentence, numbers))
    return findings
