"""Put a decomposition together from coefficients, and say how good it is."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treepurify.decomposition import Decomposition
from treepurify.engines.common.finish import Rest, Result, finish
from treepurify.engines.common.known_values import KnownValues
from treepurify.engines.legendre.components import (
    LegendreComponent,
    LegendreTerm,
    evaluate_terms,
)
from treepurify.engines.legendre.design import Basis, Moments, ScaledRows
from treepurify.engines.legendre.least_squares import Coefficients, Split, remove_rest
from treepurify.engines.legendre.left_over import left_over_variances, warn_of_left_over
from treepurify.engines.legendre.quality import (
    Quality,
    evidence_of,
    measure_quality,
    worst_named,
)
from treepurify.engines.legendre.reading import Question
from treepurify.engines.legendre.scaling import Axis, LevelAxis
from treepurify.engines.legendre.selection import Selected
from treepurify.engines.legendre.undetermined import fit_directions, moving_directions
from treepurify.errors import SupportWarning
from treepurify.grids.drawing import mass_between, quantile_nodes
from treepurify.remainder import Function
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.typing import Array

__all__ = [
    "Fit",
    "assemble",
    "cosine_facts",
    "drawing_nodes",
    "fit_table",
    "left_over_of",
    "name_of",
    "part_values",
    "terms_of",
]

Subset = tuple[int, ...]

_CLIPPED_SHARE = 0.05
_MOST_COSINES = 200
# Quantiles between which the mass of a few hundred rows is known well enough to draw.
_BINS_ALONE = 20
_BINS_TOGETHER = 6


@dataclass(frozen=True, eq=False)
class Fit:
    """Everything that a decomposition is put together from.

    Parameters
    ----------
    basis : Basis
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
    screened_out : int
        Columns that were left out before the selection.
    """

    basis: Basis
    rows: ScaledRows
    moments: Moments
    selected: list[Selected]
    coefficients: Coefficients
    split: Split
    screened_out: int


def assemble(question: Question, fit: Fit, facts: dict[str, Any]) -> Decomposition:
    """Return the decomposition with its certificate and diagnostics."""
    split, parts, shifts = fit.split, *part_values(fit, fit.split)
    if facts["orthogonal"]:
        split, parts, shifts = remove_rest(split, parts, shifts, fit.rows.weights)
    fit = replace(fit, split=split)
    components = {
        subset: _component(
            question, fit, subset, terms_of(fit, split[subset]), parts[subset], shifts[subset]
        )
        for subset in split
    }
    quality = measure_quality(question.values, fit.rows.weights, parts, fit.rows.coordinates)
    clipped = _clipped_shares(fit)
    _warn_of_clipping(fit.basis, clipped)
    left_over = left_over_of(fit, quality, parts)
    gradient = _gradient(fit, quality)
    moving = moving_directions(fit.basis, fit.moments, fit.split)
    result = Result(
        fit.moments.value_means,
        components,
        evidence_of(
            float(np.abs(question.values).max(initial=0.0)),
            len(question.values),
            quality,
            gradient,
            moving,
            fit_directions(fit.coefficients, moving),
        ),
        _rest(question, fit, quality),
        quality.covariances,
        {
            **facts,
            "fit": fit_table(question, fit, quality),
            "cosines": cosine_facts(question, quality),
            "left_over": {
                name_of(fit.basis.axes, s): left.tolist() for s, left in left_over.items()
            },
            "clipped": {
                name_of(fit.basis.axes, s): share for s, share in clipped.items() if share > 0
            },
        },
    )
    return finish(
        question,
        result,
        engine="Legendre closed form",
        measure=f"empirical ({fit.rows.n_rows} rows)",
    )


def part_values(fit: Fit, split: Split) -> tuple[dict[Subset, Array], dict[Subset, Array]]:
    """Return each component on the rows, centred, and what was subtracted."""
    parts, shifts = {}, {}
    known: dict[Any, Array] = {}
    for subset, coefficients in split.items():
        terms = terms_of(fit, coefficients)
        coordinates = {j: fit.rows.coordinates[j] for j in subset}
        values = evaluate_terms(terms, fit.basis.axes, fit.basis.degree, coordinates, known)
        shifts[subset] = np.asarray(fit.rows.weights @ values)
        parts[subset] = values - shifts[subset]
    return parts, shifts


def terms_of(fit: Fit, coefficients: Mapping[Subset, Array]) -> tuple[LegendreTerm, ...]:
    """Return the functions of one component with their coefficients."""
    terms = []
    for part, of_part in coefficients.items():
        shape = (*fit.basis.shape(part), of_part.shape[1])
        terms.append(LegendreTerm(fit.basis.densities[part], of_part.reshape(shape)))
    return tuple(terms)


def _component(
    question: Question,
    fit: Fit,
    subset: Subset,
    terms: tuple[LegendreTerm, ...],
    values: Array,
    shift: Array,
) -> LegendreComponent:
    return LegendreComponent(
        subset,
        {j: fit.basis.axes[j] for j in subset},
        fit.basis.degree,
        terms,
        np.asarray(shift),
        question.inputs,
        np.asarray(fit.rows.weights @ values**2),
        np.asarray(fit.rows.weights @ np.abs(values)),
        *drawing_nodes(question, fit, subset),
    )


def drawing_nodes(
    question: Question, fit: Fit, subset: Subset
) -> tuple[tuple[Array | None, ...], Array]:
    """Return quantiles along continuous features, and the mass between them or of levels."""
    counted = fit.rows.weights > 0
    specs: list[FeatureSpec] = []
    values: list[Array] = []
    for j in subset:
        axis = fit.basis.axes[j]
        if isinstance(axis, LevelAxis):
            specs.append(FeatureSpec(axis.name, "categorical", n_codes=len(axis.levels)))
            values.append(fit.rows.coordinates[j][counted])
        else:
            specs.append(FeatureSpec(axis.name))
            values.append(question.columns.values[j][counted].astype(np.float64))
    rows = Columns(tuple(specs), tuple(values), int(counted.sum()))
    every = range(len(subset))
    nodes = quantile_nodes(rows, every, _BINS_ALONE if len(subset) == 1 else _BINS_TOGETHER)
    return tuple(nodes), mass_between(rows, every, nodes, fit.rows.weights[counted])


def _rest(question: Question, fit: Fit, quality: Quality) -> Rest:
    function: Function = question.function or KnownValues(
        question.inputs, question.columns.matrix(), question.values
    )
    return Rest(function, np.asarray(fit.rows.weights @ quality.residual**2))


def _gradient(fit: Fit, quality: Quality) -> float:
    """Return the largest correlation left between the residual and a selected direction.

    The fitted function is such a direction; the columns were refined against the rows.
    """
    covariance = quality.covariances[()]
    residual = fit.rows.weights @ quality.residual**2
    variance = np.where(fit.moments.value_squares > 0, fit.moments.value_squares, 1.0)
    # At the least squares solution the covariance of residual and function is its variance.
    return float(np.max(np.abs(covariance - residual) / variance, initial=0.0))


def fit_table(question: Question, fit: Fit, quality: Quality) -> dict[str, dict[str, Any]]:
    """Return what diagnostics say of the fit of each output."""
    return {
        name: {
            "r_squared": float(quality.r_squared[k]),
            "max_correlation": float(quality.max_correlation[k]),
            "candidates": fit.basis.n_columns + fit.screened_out,
            "screened_out": fit.screened_out,
            "terms": len(fit.selected[k].columns),
            "effective_terms": fit.coefficients.rank[k],
            "condition": fit.coefficients.condition[k],
            **({"penalty": fit.coefficients.penalty[k]} if fit.coefficients.penalty else {}),
            "noise_variance": fit.selected[k].noise_variance,
            "steps": fit.selected[k].steps,
            "stopped_at_limit": fit.selected[k].at_limit,
            "dropped_as_dependent": fit.selected[k].dropped,
        }
        for k, name in enumerate(question.output_names)
    }


def cosine_facts(question: Question, quality: Quality) -> dict[str, Any]:
    """Return the largest cosines of nested components, by name."""
    names = [spec.name for spec in question.inputs.features]
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


def left_over_of(fit: Fit, quality: Quality, parts: Mapping[Subset, Array]) -> dict[Subset, Array]:
    """Return what the remainder holds of the effects of up to two features, and warn of it."""
    weights, axes = fit.rows.weights, fit.basis.axes
    left_over = left_over_variances(
        quality.residual, weights, axes, fit.rows.coordinates, list(fit.basis.densities)
    )
    variances = {subset: np.asarray(weights @ part**2) for subset, part in parts.items()}
    names = {j: axis.name for j, axis in axes.items()}
    warn_of_left_over(left_over, variances, fit.moments.value_squares, names)
    return {subset: left for subset, left in left_over.items() if np.any(left > 0)}


def _clipped_shares(fit: Fit) -> dict[Subset, float]:
    """Return the share of the rows on which each density in use is raised to its floor."""
    shares = {}
    for subset in {part: None for parts in fit.split.values() for part in parts}:
        density = fit.basis.densities[subset]
        raw = density.raw(fit.basis.axes, {j: fit.rows.coordinates[j] for j in subset})
        shares[subset] = float(fit.rows.weights @ (raw < density.floor))
    return shares


def _warn_of_clipping(basis: Basis, shares: Mapping[Subset, float]) -> None:
    worst = sorted((s for s in shares if shares[s] > _CLIPPED_SHARE), key=lambda s: -shares[s])
    if not worst:
        return
    named = worst_named([(name_of(basis.axes, s), shares[s]) for s in worst])
    warnings.warn(
        f"estimated densities are below density_clip on more than {_CLIPPED_SHARE:.0%} of the rows "
        f"for {named}: there the functions are not divided by the density, and what keeps "
        'components orthogonal is the projection alone (orthogonal=True). scaling="rank" or '
        'density="kernel" usually avoid this.',
        SupportWarning,
        stacklevel=4,
    )


def name_of(axes: Mapping[int, Axis], subset: Subset) -> str:
    """Return the name of a component."""
    return " & ".join(axes[j].name for j in subset)
