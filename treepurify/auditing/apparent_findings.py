"""What the model's own terms hide or only seem to show: purified beside apparent effects."""

from collections.abc import Iterator

import numpy as np

from treepurify.auditing.findings import Finding, output_words
from treepurify.auditing.rules import LEAST_MASS, PART
from treepurify.comparing.apparent import apparent_values, model_variance
from treepurify.comparing.compare import SIGN_THRESHOLD
from treepurify.comparing.regions import cells_in_words, runs_of_cells
from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.grids.grid import Subset
from treepurify.typing import Array

__all__ = ["contradictions", "hidden_effects", "spurious_interactions"]


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
            f"The main effect of {name} is not what the model's own term shows: its standard "
            f"deviation is {after:.3g}, and the term's is {before:.3g}. The difference, "
            f"{share:.1%} of the variance of the prediction, is inside interactions."
        )
        numbers = {"share_moved": share, "deviation": after, "deviation_apparent": before}
        findings.append(Finding("hidden effect", subset, k, share, sentence, numbers))
    return findings


def contradictions(d: Decomposition, threshold: float) -> list[Finding]:
    """Return the regions in which a main effect has the opposite sign of what it seems.

    Both must be beyond 2 % of the deviation of the prediction, as in `treepurify.compare`, on at
    least 1 % of the mass, and their difference there a tenth of `threshold`.
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
                f"Where {where} ({part:.1%} of the mass), the model's own term"
                f"{output_words(d, k)} says {means[0]:+.3g}, but the main effect is "
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
            f"The interaction {d.term_name(subset)}{output_words(d, k)} is hardly one: the term "
            f"has {before:.1%} of the variance of the prediction, of which {after:.2%} is left "
            "when main effects are taken out."
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
