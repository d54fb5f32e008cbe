"""Findings about effects that the data do not determine, weighed by the rows they concern."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from treepurify.auditing.findings import Finding, as_one
from treepurify.comparing.apparent import model_variance
from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.grids.grid import Subset
from treepurify.typing import Array

__all__ = ["open_effects", "unidentified_effects"]


def open_effects(d: Decomposition) -> list[Subset]:
    """Return the effects with a constant that the data do not determine, of any size."""
    return [
        subset
        for subset, directions in d.origin.open_directions.items()
        if directions and subset in d.components
    ]


def unidentified_effects(d: Decomposition, threshold: float) -> list[Finding]:
    """Return the effects with a constant that the data do not determine.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    threshold : float
        Share of the variance of the prediction from which something is a finding.

    Notes
    -----
    Such a constant moves between a group of rows and all others, and changes the variance by its
    square times ``m (1 - m)`` for a group of mass ``m``. So what the main effects have of the
    variance of the prediction is weighed by twice the chance that two rows are of different
    groups: one for two halves, next to nothing for a single row.
    """
    total = model_variance(d)
    findings = []
    for subset in open_effects(d):
        directions = d.origin.open_directions[subset] or 0
        mains = [d.components[(j,)].variance for j in subset if (j,) in d.components]
        shares = np.sum(mains, axis=0) / np.where(total > 0, total, np.inf)
        k = int(np.argmax(shares))
        component = d.components[subset]
        masses = _group_masses(component) if isinstance(component, TensorComponent) else np.ones(1)
        is_split = len(masses) > 1
        weight = min(2.0 * float(1.0 - masses @ masses), 1.0) if is_split else 1.0
        severity = min(float(shares[k]), 1.0) * weight
        if severity < threshold:
            continue
        where = ""
        if is_split:
            where = f" ({1.0 - masses.max():.1%} of the rows are outside the largest group)"
        sentence = (
            f"The data cannot separate {d.term_name(subset)} from its main effects: the rows form "
            f"{directions + 1} disconnected groups without a value in common{where}, so the level "
            "of one group relative to another is arbitrary."
        )
        numbers = {"directions": float(directions), "outside_largest": 1.0 - float(masses.max())}
        findings.append(Finding("identifiability", subset, k, severity, sentence, numbers))
    return _with_common_sources_as_one(d, findings)


def _with_common_sources_as_one(d: Decomposition, findings: Sequence[Finding]) -> list[Finding]:
    """Return one finding for all that concern derived columns made from what goes with them.

    That these repeat each other is known before looking at rows, and a model with hundreds of them
    would have as many findings.
    """
    common = [finding for finding in findings if _common_sources(d, finding.subset)]
    others = [finding for finding in findings if finding not in common]
    return [*others, as_one(d, common)] if common else others


def _common_sources(d: Decomposition, subset: Subset) -> list[str]:
    """Return the raw columns that several of some features depend on."""
    specs = [d.inputs.features[j] for j in subset]
    counts = Counter(name for spec in specs for name in spec.raw_columns)
    return [name for name, count in counts.items() if count > 1]


def _group_masses(component: TensorComponent) -> Array:
    """Return the mass of each group of cells with data that no value connects with others."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    cells = np.argwhere(component.mass > 0)
    starts = np.cumsum([0, *component.mass.shape])
    # The values of each feature are the nodes; a cell with data connects those that it has.
    nodes = cells + starts[:-1]
    first = np.repeat(nodes[:, 0], nodes.shape[1] - 1)
    edges = coo_array((np.ones(len(first)), (first, nodes[:, 1:].ravel())), shape=(starts[-1],) * 2)
    _, labels = connected_components(edges, directed=False)
    masses = np.bincount(labels[nodes[:, 0]], component.mass[component.mass > 0])
    return np.asarray(masses[masses > 0])
