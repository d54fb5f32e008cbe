"""The continuous closed form over rows that come in batches.

How features are scaled, and which terms are selected, is found on a sample of the rows. Then the
coefficients are those of least squares over all rows, and components are orthogonal under all of
them: both follow from products of columns, which are summed in one pass, and refined in another.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from treepurify.decomposition import Decomposition
from treepurify.engines.common.finish import Rest, Result, finish
from treepurify.engines.common.functions import ParsedFunction, ResponseFunction
from treepurify.engines.common.model_check import check_head
from treepurify.engines.common.streamed_rows import MeasuredParts, explain_stream
from treepurify.engines.legendre.components import LegendreComponent
from treepurify.engines.legendre.densities import constant_densities
from treepurify.engines.legendre.design import Basis, Moments, scaled_rows
from treepurify.engines.legendre.least_squares import Split, refined, split_orthogonally
from treepurify.engines.legendre.levels_of_stream import with_all_levels
from treepurify.engines.legendre.moments import measure_moments
from treepurify.engines.legendre.quality import (
    Quality,
    evidence_of,
    largest_conditional_mean,
    nested_cosines,
)
from treepurify.engines.legendre.reading import Question
from treepurify.engines.legendre.result import (
    Fit,
    cosine_facts,
    drawing_nodes,
    fit_table,
    left_over_of,
    name_of,
    part_values,
    terms_of,
)
from treepurify.engines.legendre.screening import candidate_columns
from treepurify.engines.legendre.selection import Selected, TermSelection, select_terms
from treepurify.engines.legendre.streamed_moments import (
    Centre,
    ResidualProducts,
    ValueSums,
    stream_moments,
)
from treepurify.engines.legendre.tails import choose_axes
from treepurify.engines.legendre.undetermined import fit_directions, moving_directions
from treepurify.progress import ProgressReport
from treepurify.rows.reduction import RowStream
from treepurify.rows.row_weights import row_shares
from treepurify.rows.sources import check_repeats
from treepurify.rows.stream_sample import sample_stream
from treepurify.typing import Array

__all__ = ["StreamTask", "legendre_of_stream", "sampled_question"]

Subset = tuple[int, ...]

_PASSES = (
    "several passes over the rows, to draw a sample, to sum products, to refine coefficients and "
    "to measure components"
)


@dataclass(frozen=True, eq=False)
class StreamTask:
    """What `legendre_anova` was asked for, for rows that come in batches.

    Parameters
    ----------
    f : ParsedFunction or ResponseFunction
        The function.
    stream : RowStream
        The rows.
    sample : Question
        The function on a sample of them.
    scaling, order, degree, memory_budget
        See `legendre_anova`.
    selection : TermSelection
        How terms are selected.
    report : callable
        Progress.
    """

    f: ParsedFunction | ResponseFunction
    stream: RowStream
    sample: Question
    scaling: str | Mapping[str, str]
    order: int
    degree: int
    selection: TermSelection
    memory_budget: int
    report: ProgressReport


def sampled_question(
    model: Any,
    f: ParsedFunction | ResponseFunction,
    stream: RowStream,
    most: int,
    memory_budget: int,
    report: ProgressReport,
) -> Question | None:
    """Return a function on a weighted sample of a stream; None where that would be all rows.

    Raises
    ------
    InvalidInputError
        If the rows can be read only once, or cannot be read.
    ModelMismatchError
        If the parsed model does not reproduce the prediction of its library.
    """
    check_repeats(stream.source, _PASSES)
    check_head(model, f.model, stream)
    sample = sample_stream(stream, most, 0, memory_budget, report)
    n_sampled = sample.columns.n_rows
    if n_sampled == sample.n_rows:
        return None
    shares = row_shares(n_sampled, sample.weights)
    values, inputs = f(sample.columns), f.inputs
    return Question(sample.columns, values, shares, f, inputs, f.output_names, f.link)


def legendre_of_stream(task: StreamTask) -> Decomposition:
    """Return the decomposition over all rows of a stream, without densities.

    Raises
    ------
    InvalidInputError
        If rows cannot be read, or have values for which a series has none.
    MemoryBudgetError
        If the regression would not fit.
    """
    question, report = task.sample, task.report
    axes, constant = choose_axes(question, task.scaling, with_gaps=True)
    axes = with_all_levels(axes, task.stream, report)
    rows = scaled_rows(axes, question.columns, question.weights)

    def make(subsets: Any) -> dict[Subset, Any]:
        return dict(constant_densities(axes, subsets))

    basis, left_out = candidate_columns(
        axes,
        rows,
        question.values,
        make,
        task.order,
        task.degree,
        task.selection,
        report,
        task.memory_budget,
    )
    of_sample = measure_moments(basis, rows, question.values)
    report("selecting terms", 0, 0)
    selected = select_terms(of_sample, basis, task.selection, question.effective_rows)
    basis, selected, kept = _needed(basis, selected)
    centre = Centre(basis, task.f, of_sample.means[kept], of_sample.value_means)
    moments, sums = stream_moments(task.stream, centre, report)
    about_means = Centre(basis, task.f, moments.means, moments.value_means)

    def gradient(coefficients: Array) -> Array:
        products = ResidualProducts(about_means, coefficients)
        return task.stream.reduce(products, "refining coefficients", report) / sums.weight

    coefficients = refined(basis, moments, selected, gradient)
    split = split_orthogonally(basis, moments, coefficients.values)
    fit = Fit(basis, rows, moments, selected, coefficients, split, left_out)
    return _assemble(task, fit, sums, constant)


def _needed(
    basis: Basis, selected: list[Selected]
) -> tuple[Basis, list[Selected], np.ndarray[Any, np.dtype[np.intp]]]:
    """Return the part of a basis that selected columns need, and where its columns were.

    A component is made orthogonal to all functions of fewer of its features, selected or not.
    """
    used = {
        subset
        for subset, columns in basis.slices.items()
        if any(np.isin(np.arange(columns.start, columns.stop), s.columns).any() for s in selected)
    }
    inside = {
        part
        for subset in used
        for size in range(1, len(subset))
        for part in combinations(subset, size)
    }
    densities = {s: d for s, d in basis.densities.items() if s in used | inside}
    every = np.arange(basis.n_columns)
    parts = [every[basis.slices[subset]] for subset in densities]
    kept = np.concatenate(parts) if parts else every[:0]
    place = np.full(basis.n_columns, -1)
    place[kept] = np.arange(len(kept))
    moved = [replace(choice, columns=place[choice.columns]) for choice in selected]
    return Basis(basis.axes, densities, basis.degree), moved, kept


def _assemble(task: StreamTask, fit: Fit, sums: ValueSums, constant: list[str]) -> Decomposition:
    """Return the decomposition with its certificate and diagnostics."""
    question, moments = task.sample, fit.moments
    unknown = np.full(task.f.n_outputs, np.nan)
    components = {
        subset: LegendreComponent(
            subset,
            {j: fit.basis.axes[j] for j in subset},
            fit.basis.degree,
            terms_of(fit, functions),
            _mean_of(fit, functions),
            question.inputs,
            unknown,
            unknown,
            *drawing_nodes(question, fit, subset),
        )
        for subset, functions in fit.split.items()
    }
    measured = explain_stream(task.stream, task.f, moments.value_means, components, task.report)
    known = {
        subset: replace(
            component,
            variance=measured.variances[subset],
            mean_absolute=measured.absolutes[subset],
        )
        for subset, component in components.items()
    }
    quality, parts = _quality(fit, question, measured, sums)
    left_over = left_over_of(fit, quality, parts)
    covariance, rest = measured.explained.covariances[()], measured.explained.rest_variance
    safe = np.where(moments.value_squares > 0, moments.value_squares, 1.0)
    solver_error = float(np.max(np.abs(covariance - rest) / safe, initial=0.0))
    moving = moving_directions(fit.basis, moments, fit.split)
    opened = fit_directions(fit.coefficients, moving)
    scale = float(sums.largest.max(initial=0.0))
    n_sampled, axes = question.columns.n_rows, fit.basis.axes
    read = {
        "source": task.stream.source.describe(),
        "sampled_rows": n_sampled,
        "sample": "the scaling of features, the terms that are selected, conditional means, and "
        "what is left over of single effects",
        "all_rows": "coefficients, orthogonality, variances, covariances, the share explained",
    }
    result = Result(
        moments.value_means,
        known,
        evidence_of(scale, sums.n_rows, quality, solver_error, moving, opened),
        Rest(task.f, rest),
        measured.explained.covariances,
        {
            "rows": sums.n_rows,
            "scaling": {axis.name: axis.kind for axis in axes.values()},
            "constant_features": constant,
            "density": "none",
            "orthogonal": True,
            "fit": fit_table(question, fit, quality),
            "cosines": cosine_facts(question, quality),
            "left_over": {name_of(axes, s): left.tolist() for s, left in left_over.items()},
            "clipped": {},
            "stream": read,
        },
    )
    note = (
        f"Features were scaled and terms selected on a sample of {n_sampled} of {sums.n_rows} rows."
    )
    measure = f"empirical ({sums.n_rows} rows)"
    return finish(question, result, engine="Legendre closed form", measure=measure, note=note)


def _mean_of(fit: Fit, functions: Mapping[Subset, Array]) -> Array:
    """Return the mean over all rows of a sum of columns, from their means."""
    means = [fit.moments.means[fit.basis.slices[s]] @ own for s, own in functions.items()]
    return np.asarray(np.sum(means, axis=0))


def _quality(
    fit: Fit, question: Question, measured: MeasuredParts, sums: ValueSums
) -> tuple[Quality, dict[Subset, Array]]:
    """Return the figures of a fit, and the components on the sample."""
    weights = fit.rows.weights
    parts, _ = part_values(fit, fit.split)
    residual = question.values - weights @ question.values
    for part in parts.values():
        residual = residual - part

    def product(subset: Subset, inside: Subset) -> Array:
        if not inside:
            return np.zeros(question.values.shape[1])
        return _inner_product(fit.basis, fit.moments, fit.split, subset, inside)

    variance = fit.moments.value_squares
    worst, cosines = nested_cosines(list(parts), product, variance, sums.largest)
    means = largest_conditional_mean(parts, weights, fit.rows.coordinates)
    explained = measured.explained
    share = np.where(variance > 0, explained.share, 1.0)
    return Quality(share, worst, cosines, means, residual, explained.covariances), parts


def _inner_product(
    basis: Basis, moments: Moments, split: Split, subset: Subset, inside: Subset
) -> Array:
    """Return the covariance of two components over all rows, from those of columns."""
    total = np.zeros(moments.covariances.shape[1])
    for one, own in split[subset].items():
        for other, coefficients in split[inside].items():
            block = moments.gram[basis.slices[one], basis.slices[other]]
            total += np.einsum("ik,ij,jk->k", own, block, coefficients, optimize=True)
    return total
