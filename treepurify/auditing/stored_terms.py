"""Findings about the effects that a model stores: an EBM, or trees of depth two or less."""

from collections.abc import Iterator

import numpy as np

from treepurify.auditing.findings import PART, Finding, effect_words, output_words
from treepurify.auditing.ranked_findings import Audit
from treepurify.comparing.apparent import apparent_values
from treepurify.comparing.compare import SIGN_THRESHOLD
from treepurify.comparing.regions import cells_in_words, runs_of_cells
from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.grids.grid import Subset
from treepurify.terms import in_digits
from treepurify.typing import Array

# The least share of the mass on which a sign is opposite.
LEAST_MASS = 0.01


def stores_its_effects(d: Decomposition) -> bool:
    """Return whether the effects before purification are known, and are what a reader sees."""
    # Terms of single trees, of which deep models have many orders, are not.
    known = all(apparent_values(d, subset) is not None for subset in d.components)
    return len(d) > 0 and d.remainder is None and known


def hidden_effects(audit: Audit, total: Array) -> Iterator[Finding]:
    """Yield the main effects of which the model keeps a part in interactions."""
    d = audit.decomposition
    for subset, component, apparent, k in _with_apparent(d, 1):
        moved = component.values[:, k] - apparent[:, k]
        share = float(component.mass @ moved**2) / total[k] if total[k] > 0 else 0.0
        if share < audit.threshold:
            continue
        before, after, size = (
            float(np.sqrt(component.mass @ values**2))
            for values in (apparent[:, k], component.values[:, k], moved)
        )
        sentence = (
            f"The {effect_words(d, subset, k)} has a size of {after:.3g}, not {before:.3g} as the "
            f"model stores it: a part of size {size:.3g} is stored in interactions."
        )
        numbers = {"share_moved": share, "deviation": after, "deviation_apparent": before}
        yield Finding("hidden effect", subset, k, share, sentence, numbers)


def contradictions(audit: Audit, total: Array) -> Iterator[Finding]:
    """Yield the regions in which a main effect has the opposite sign of what it seems."""
    d = audit.decomposition
    for subset, component, apparent, k in _with_apparent(d, 1):
        axis, mass = component.axes[0], component.mass
        first, second = apparent[:, k], component.values[:, k]
        beyond = SIGN_THRESHOLD * np.sqrt(total[k])
        chosen = (first * second < 0) & (np.minimum(np.abs(first), np.abs(second)) > beyond)
        for run in runs_of_cells(axis, chosen & (mass > 0), second):
            part = float(mass[run].sum())
            share = float(mass[run] @ (first - second)[run] ** 2) / total[k] if total[k] > 0 else 0
            if part < LEAST_MASS or share < PART * audit.threshold:
                continue
            means = [float(mass[run] @ values[run]) / part for values in (first, second)]
            where = cells_in_words(axis, run)
            sentence = (
                f"For {where} ({part:.1%} of the distribution), the stored effect"
                f"{output_words(d, k)} is {means[0]:+.3g} on average, but the main effect is "
                f"{means[1]:+.3g}."
            )
            numbers = {"mass": part, "effect_apparent": means[0], "effect": means[1]}
            yield Finding(
                "contradiction", subset, k, share, sentence, numbers, where, cells=tuple(run)
            )


def spurious_interactions(audit: Audit, total: Array) -> Iterator[Finding]:
    """Yield the pairs that carry an effect, but keep next to nothing of it when purified."""
    d = audit.decomposition
    for subset, component, apparent, k in _with_apparent(d, 2):
        if total[k] <= 0:
            continue
        stored = float(np.sum(component.mass * apparent[..., k] ** 2))
        before, after = stored / total[k], float(component.variance[k]) / total[k]
        if before < audit.threshold or after > PART * audit.threshold:
            continue
        sentence = (
            f"{d.term_name(subset)}{output_words(d, k)} is not a real interaction: its stored "
            f"table has a size of {np.sqrt(stored):.3g}, of which "
            f"{np.sqrt(component.variance[k]):.3g} remains once main effects are removed."
        )
        numbers = {"share_apparent": before, "share": after}
        yield Finding("spurious interaction", subset, k, before - after, sentence, numbers)


def purity_words(audit: Audit, total: Array) -> str:
    """Return whether the stored pairs contain main effects; nothing where none is stored."""
    d = audit.decomposition
    if not stores_its_effects(d):
        return ""
    # The share of a main effect, whether the pair is large enough to count, its size and its name.
    found: list[tuple[bool, float, float, str]] = []
    for subset, component, apparent, k in _with_apparent(d, 2):
        mass, table = component.mass, apparent[..., k]
        variance = float(np.sum(mass * table**2))
        for along, feature in enumerate(subset if variance > 0 else ()):
            own, sums = mass.sum(axis=1 - along), (mass * table).sum(axis=1 - along)
            share = float(np.divide(sums**2, own, out=np.zeros_like(own), where=own > 0).sum())
            where = f"{d.term_name((feature,))} in {d.term_name(subset)}{output_words(d, k)}"
            counts = variance >= PART * audit.threshold * total[k]
            found.append((counts, share / variance, float(np.sqrt(variance)), where))
    if not found:
        return ""
    counts, share, _, where = max(found)
    verdict = "are pure" if share < audit.threshold else "are not pure"
    small = "" if counts else f"; all pairs are small (size at most {max(f[2] for f in found):.2g})"
    return (
        f"The stored pairs {verdict}: up to {in_digits(100 * share, 2)}% of a pair's variance is "
        f"a main effect of one side ({where}){small}."
    )


def _with_apparent(
    d: Decomposition, order: int
) -> Iterator[tuple[Subset, TensorComponent, Array, int]]:
    for subset, component in d.tensor_components().items():
        apparent = apparent_values(d, subset) if len(subset) == order else None
        if apparent is not None:
            for k in range(d.n_outputs):
                yield subset, component, apparent, k
