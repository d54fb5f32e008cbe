"""Put a decomposition together from coefficients, and report how good it is."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treepurify.decomposition import Decomposition
from treepurify.engines.common.finish import Result, finish
from treepurify.engines.common.inputs import with_note
from treepurify.engines.legendre.components import (
    LegendreComponent,
    LegendreTerm,
    evaluate_terms,
)
from treepurify.engines.legendre.design import LegendreBasis, ScaledRows
from treepurify.engines.legendre.least_squares import Coefficients
from treepurify.engines.legendre.moments import Moments, centred_values
from treepurify.engines.legendre.orthogonal_split import (
    ComponentCoefficients,
    fit_directions,
    moving_directions,
    remove_residual_products,
)
from treepurify.engines.legendre.problem import LegendreProblem
from treepurify.engines.legendre.quality import (
    Quality,
    evidence_of,
    largest_conditional_mean,
    left_over_variances,
    measured_quality,
    warn_of_left_over,
    worst_named,
)
from treepurify.engines.legendre.scaling import Axis, LevelAxis
from treepurify.engines.legendre.selection import Selected
from treepurify.errors import SupportWarning
from treepurify.grids.drawing import mass_between, quantile_nodes
from treepurify.grids.grid import Subset
from treepurify.origin import Call
from treepurify.progress import ProgressReport
from treepurify.remainder import Difference
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.terms import term_name
from treepurify.typing import Array

_CLIPPED_SHARE = 0.05
_MOST_COSINES = 200
# Quantiles between which the mass of a few hundred rows is known well enough to draw.
_BINS_ALONE = 20
_BINS_TOGETHER = 6


@dataclass(frozen=True, eq=False)
class LegendreFit:
    """Everything that a decomposition is put together from.

    Parameters
    ----------
    basis : LegendreBasis
        The functions.
    rows : ScaledRows
        The rows.
    moments : Moments
        Their moments.
    selected : list of Selected
        The selected columns of each output.
    coefficients : Coefficients
        Their least squares coefficients.
    split : dict
        The coefficients of each component.
    candidates, screened_out : int
        Number of columns, and of those that were left out before the selection.
    """

    basis: LegendreBasis
    rows: ScaledRows
    moments: Moments
    selected: list[Selected]
    coefficients: Coefficients
    split: ComponentCoefficients
    candidates: int
    screened_out: int


def assemble(
    problem: LegendreProblem,
    fit: LegendreFit,
    facts: dict[str, Any],
    lower_degree: str,
    call: Call,
    report: ProgressReport,
) -> Decomposition:
    """Return the decomposition with its certificate, diagnostics and the note on its degree."""
    parts, shifts = _part_values(fit)
    if facts["orthogonal"]:
        split, parts, shifts = remove_residual_products(fit.split, parts, shifts, fit.rows.weights)
        fit = replace(fit, split=split)
    report("measuring the explained share", 0, 0)
    quality = measured_quality(parts, problem.values, fit.rows.weights, fit.moments)
    components = {s: _component(problem, fit, s, shifts[s], quality) for s in fit.split}
    clipped = _clipped_shares(fit)
    _warn_of_clipping(fit.basis, clipped)
    left_over = _left_over(problem, fit, parts)
    moving = moving_directions(fit.basis, fit.moments, fit.split)
    conditional_mean = largest_conditional_mean(parts, fit.rows.weights, fit.rows.coordinates)
    opened = fit_directions(fit.coefficients, moving)
    axes = fit.basis.axes
    result = Result(
        fit.moments.value_means,
        components,
        rest=Difference(problem.subject, quality.variances[()]),
        covariances=quality.covariances,
        diagnostics={
            "scaling": {axis.name: axis.kind for axis in axes.values()},
            **facts,
            "fit": _fit_table(problem, fit, quality),
            "cosines": _cosine_facts(problem, quality),
            "left_over": {_name_of(axes, s): left.tolist() for s, left in left_over.items()},
            "clipped": {_name_of(axes, s): share for s, share in clipped.items() if share > 0},
        },
        n_rows=quality.n_rows,
        certificate=evidence_of(quality, conditional_mean, moving, opened),
    )
    d = finish(
        problem,
        result,
        engine="Legendre closed form",
        measure=f"empirical ({quality.n_rows} rows)",
        call=call,
        note=lower_degree,
    )
    return d if problem.sample is None else with_note(d, problem.sample)


def _part_values(fit: LegendreFit) -> tuple[dict[Subset, Array], dict[Subset, Array]]:
    """Return each component on the rows, centred, and what was subtracted."""
    parts, shifts = {}, {}
    shared: dict[Any, Array] = {}
    for subset, coefficients in fit.split.items():
        terms = _terms_of(fit, coefficients)
        coordinates = {j: fit.rows.coordinates[j] for j in subset}
        values = evaluate_terms(terms, fit.basis.axes, fit.basis.degree, coordinates, shared)
        shifts[subset] = np.asarray(fit.rows.weights @ values)
        parts[subset] = values - shifts[subset]
    return parts, shifts


def _terms_of(fit: LegendreFit, coefficients: Mapping[Subset, Array]) -> tuple[LegendreTerm, ...]:
    """Return the functions of one component with their coefficients."""
    terms = []
    for part, of_part in coefficients.items():
        shape = (*fit.basis.shape(part), of_part.shape[1])
        terms.append(LegendreTerm(fit.basis.densities[part], of_part.reshape(shape)))
    return tuple(terms)


def _component(
    problem: LegendreProblem, fit: LegendreFit, subset: Subset, shift: Array, quality: Quality
) -> LegendreComponent:
    return LegendreComponent(
        subset,
        {j: fit.basis.axes[j] for j in subset},
        fit.basis.degree,
        _terms_of(fit, fit.split[subset]),
        np.asarray(shift),
        problem.inputs,
        quality.variances[subset],
        quality.mean_absolutes[subset],
        *_drawing_nodes(problem, fit, subset),
    )


def _drawing_nodes(
    problem: LegendreProblem, fit: LegendreFit, subset: Subset
) -> tuple[tuple[Array | None, ...], Array]:
    """Return quantiles along continuous features, and the mass between them or of levels."""
    specs: list[FeatureSpec] = []
    values: list[Array] = []
    for j in subset:
        axis = fit.basis.axes[j]
        if isinstance(axis, LevelAxis):
            specs.append(FeatureSpec(axis.name, "categorical", n_codes=len(axis.levels)))
            values.append(fit.rows.coordinates[j])
        else:
            specs.append(FeatureSpec(axis.name))
            values.append(problem.columns.values[j].astype(np.float64))
    rows = Columns(tuple(specs), tuple(values), fit.rows.n_rows)
    every = range(len(subset))
    nodes = quantile_nodes(rows, every, _BINS_ALONE if len(subset) == 1 else _BINS_TOGETHER)
    return tuple(nodes), mass_between(rows, every, nodes, fit.rows.weights)


def _left_over(
    problem: LegendreProblem, fit: LegendreFit, parts: Mapping[Subset, Array]
) -> dict[Subset, Array]:
    """Return what the remainder holds of the effects of up to two features, and warn of it."""
    weights, axes = fit.rows.weights, fit.basis.axes
    residual = centred_values(problem.values, weights)
    for part in parts.values():
        residual -= part
    left_over = left_over_variances(
        residual, weights, axes, fit.rows.coordinates, list(fit.basis.densities)
    )
    variances = {subset: np.asarray(weights @ part**2) for subset, part in parts.items()}
    names = {j: axis.name for j, axis in axes.items()}
    warn_of_left_over(left_over, variances, fit.moments.value_squares, names)
    return {subset: left for subset, left in left_over.items() if np.any(left > 0)}


def _fit_table(
    problem: LegendreProblem, fit: LegendreFit, quality: Quality
) -> dict[str, dict[str, Any]]:
    """Return what diagnostics say of the fit of each output."""
    return {
        name: {
            "r_squared": float(quality.r_squared[k]),
            "max_correlation": float(quality.max_correlation[k]),
            "candidates": fit.candidates,
            "screened_out": fit.screened_out,
            "terms": len(fit.selected[k].columns),
            "effective_terms": fit.coefficients.rank[k],
            "condition": fit.coefficients.condition[k],
            "noise_variance": fit.selected[k].noise_variance,
            "steps": fit.selected[k].steps,
            "stopped_at_limit": fit.selected[k].at_limit,
            "dropped_as_dependent": fit.selected[k].dropped,
        }
        for k, name in enumerate(problem.output_names)
    }


def _cosine_facts(problem: LegendreProblem, quality: Quality) -> dict[str, Any]:
    """Return the largest cosines of nested components, by name."""
    names = [spec.name for spec in problem.inputs.features]
    largest = sorted(quality.cosines, key=lambda entry: -abs(entry["cosine"]))[:_MOST_COSINES]
    return {
        "pairs": len(quality.cosines),
        "largest": [
            {
                "term": [names[j] for j in entry["term"]],
                "inside": [names[j] for j in entry["inside"]],
                "cosine": entry["cosine"],
            }
            for entry in largest
        ],
    }


def _clipped_shares(fit: LegendreFit) -> dict[Subset, float]:
    """Return the share of the rows on which each density in use is raised to its floor."""
    shares = {}
    used = {part: None for parts in fit.split.values() for part in parts}
    for subset in (part for part in used if part not in fit.basis.without_density):
        density = fit.basis.densities[subset]
        raw = density.raw(fit.basis.axes, {j: fit.rows.coordinates[j] for j in subset})
        shares[subset] = float(fit.rows.weights @ (raw < density.floor))
    return shares


def _warn_of_clipping(basis: LegendreBasis, shares: Mapping[Subset, float]) -> None:
    worst = sorted((s for s in shares if shares[s] > _CLIPPED_SHARE), key=lambda s: -shares[s])
    if not worst:
        return
    named = worst_named([(_name_of(basis.axes, s), shares[s]) for s in worst])
    warnings.warn(
        f"estimated densities are below density_clip on more than {_CLIPPED_SHARE:.0%} of the "
        f"rows for {named}: on these rows the functions are not divided by the density, and only "
        'the projection (orthogonal=True) keeps effects orthogonal. scaling="rank" or '
        'density="kernel" usually avoids this.',
        SupportWarning,
        stacklevel=4,
    )


def _name_of(axes: Mapping[int, Axis], subset: Subset) -> str:
    """Return the name of a component."""
    return term_name(axes[j].name for j in subset)
