"""Make the decomposition from the result of an engine: the only place that builds one."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from treepurify.call import Call
from treepurify.certificate import Certificate
from treepurify.components import (
    Component,
    EachTable,
    ModelInputs,
    NodeErrors,
    TensorComponent,
    evaluate_each,
)
from treepurify.decomposition import Decomposition
from treepurify.effects.tensor import EffectTensor, EffectTensors
from treepurify.engines.common.finer_mains import finer_cosine
from treepurify.engines.common.functions import ParsedFunction, ResponseFunction
from treepurify.engines.common.origin_facts import origin_of, untyped
from treepurify.engines.common.problem import KeptTerms
from treepurify.engines.common.shared_mains import SharedMains, find_shared_mains
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.links import Link
from treepurify.models.parsed import ModelCheck
from treepurify.moments import MeasureRows, variance_of_sum
from treepurify.purification.cascade import Purified, refine
from treepurify.purification.purity import Purity, measure_purity
from treepurify.purification.solution import largest_entry
from treepurify.remainder import Difference, Function, Remainder, SumOfParts
from treepurify.rows.reduction import CopiedRows, RowStream
from treepurify.spread import Spread
from treepurify.terms import term_name
from treepurify.threads import run_concurrently
from treepurify.typing import Array
from treepurify.weights.weighting import MassTables

__all__ = [
    "Evidence",
    "Result",
    "Subject",
    "Unexplained",
    "finish",
    "largest_effect",
    "table_components",
]

_EVERYTHING = KeptTerms()


class Subject(Protocol):
    """What a decomposition says about the model or function that was decomposed."""

    @property
    def inputs(self) -> ModelInputs:
        """How the columns of a table are read."""

    @property
    def output_names(self) -> tuple[str, ...]:
        """One name per output."""

    @property
    def link(self) -> Link:
        """From the margin to the response."""


@dataclass(frozen=True, eq=False)
class Unexplained:
    """The part of a function that the components do not explain; see `Difference`."""

    function: Function
    variance: Array
    find: Callable[[Subset], Component | None] | None = None
    is_joint: bool = False
    mean_absolute: Array | None = None


@dataclass(frozen=True, eq=False)
class Evidence:
    """What an engine knows about the errors of its components; see `Certificate`.

    Parameters
    ----------
    scale : float, optional
        The largest effect before purification; by default that of the tables.
    purified : Purified, optional
        How tables were purified, where they were.
    purity : Purity, optional
        How orthogonal the components are; by default measured where all of them are tables.
    has_measure : bool
        Whether a joint distribution stands behind the components, under which they could be
        orthogonal; where none does, nothing is said of that.
    checked_rows : int
        Rows behind the figures, where no model was compared with its library.
    unidentified : int
        Directions that the data do not determine, besides those in `purified`.
    solver_error : float
        Error of the components relative to `scale`, besides that in `purified`.
    fitted_share : ndarray of float64, shape (n_outputs,), optional
        Share of the variance that components explain, where they were fitted.
    fit_error : float
        Error of the fit relative to `scale`.
    fit_unidentified : int
        Directions of the fit that the rows do not determine.
    open_terms : tuple of tuple of int
        The effects that `unidentified` directions are in, where they were found.
    missed : float, optional
        Share of the variance that effects of this order may explain beyond what they do; None
        where that is not known.
    held_out_share : float, optional
        Share of the variance that a fit explains on rows that were left out of it.
    converged : bool
        Whether every solve that is not in `purified` met its tolerance.
    note : str
        What else a reader must know.
    """

    scale: float | None = None
    purified: Purified | None = None
    purity: Purity | None = None
    checked_rows: int = 0
    unidentified: int = 0
    solver_error: float = 0.0
    fitted_share: Array | None = None
    fit_error: float = 0.0
    fit_unidentified: int = 0
    open_terms: tuple[Subset, ...] = ()
    missed: float | None = None
    held_out_share: float | None = None
    converged: bool = True
    note: str = ""
    has_measure: bool = True


@dataclass(frozen=True, eq=False)
class Result:
    """What an engine computed.

    Parameters
    ----------
    intercept : ndarray of float64, shape (n_outputs,)
        Mean under the measure.
    components : mapping of tuple of int to Component
        The effects with their masses, including those that do not become components.
    evidence : Evidence, optional
        What the certificate is made from; without it there is no certificate.
    rest : Unexplained, optional
        The part of the function that the components do not explain. Without it they are the whole
        function, and those that are not kept are the parts of the remainder.
    covariances : mapping of tuple of int to ndarray of float64, optional
        Covariances with the function, where they are known; see `Decomposition.covariances`.
    diagnostics : mapping of str to object
        Facts about how they were found; `origin_of` takes those that code reads.
    n_counted : int
        Rows of positive weight that were counted, where they came in batches.
    node_errors : mapping of tuple of int to NodeErrors
        See `Decomposition.node_errors`.
    spread : Spread, optional
        The components of several trainings of the model.
    choice : object, optional
        How a fit was chosen, for other trainings of the same model.
    """

    intercept: Array
    components: Mapping[Subset, Component]
    evidence: Evidence | None = None
    rest: Unexplained | None = None
    covariances: Mapping[Subset, Array] | None = None
    diagnostics: dict[str, Any] = field(default_factory=dict)
    n_counted: int = 0
    node_errors: Mapping[Subset, NodeErrors] = field(default_factory=dict)
    spread: Spread | None = None
    choice: Any = None


def finish(
    subject: Subject,
    result: Result,
    *,
    engine: str,
    measure: str,
    call: Call | None = None,
    kept_terms: KeptTerms = _EVERYTHING,
    is_product: bool = False,
    is_determined: bool = False,
    rows: MeasureRows | None = None,
    check: ModelCheck | None = None,
    note: str = "",
    given: CopiedRows | None = None,
) -> Decomposition:
    """Return the decomposition with its remainder, covariances, certificate and origin.

    Parameters
    ----------
    subject : Subject
        What was decomposed.
    result : Result
        What the engine computed.
    engine, measure : str
        The engine, and the distribution that the effects refer to, in words.
    call : Call, optional
        The call of the public function; see `called`.
    kept_terms : KeptTerms
        The effects that become components; all by default.
    is_product : bool
        Whether features are independent under the measure.
    is_determined : bool
        Whether the terms are so defined that no rows can leave them open: partial dependence.
    rows : mapping of int to EncodedRows, or RowStream, optional
        The rows, where they are the measure: on the grid of each order, or in batches that can be
        read again.
    check : ModelCheck, optional
        The parsed model compared with its library.
    note : str
        What a reader of the certificate must know about the measure.
    given : CopiedRows, optional
        The rows that were given, where `rows` are copies of them.
    """
    names = [spec.name for spec in subject.inputs.features]
    ordered = sorted(result.components, key=lambda subset: (len(subset), subset))
    every = {subset: result.components[subset] for subset in ordered}
    kept = {subset: component for subset, component in every.items() if kept_terms.keeps(subset)}
    remainder: Remainder | None = None
    if result.rest is not None:
        remainder = _difference(result.rest, result.intercept, kept)
    elif len(kept) < len(every):
        parts = tuple(
            component
            for subset, component in every.items()
            if subset not in kept and isinstance(component, TensorComponent)
        )
        variance = _variance_of_sum(parts, is_product=is_product, rows=rows)
        remainder = SumOfParts(parts, variance)
    covariances = result.covariances
    if covariances is None and is_product:
        # Under independence components are uncorrelated: their variances are the covariances.
        apart = kept if remainder is None else {**kept, (): remainder}
        covariances = {subset: component.variance for subset, component in apart.items()}
    evidence, certificate, solves = result.evidence, None, {}
    if evidence is not None:
        copies = 1 if given is None else given.copies
        sampled = _measure_rows(rows, result) // copies
        is_open = evidence.purified is not None and not (is_product or is_determined)
        measure_parts = partial(_measured, result, evidence, every, check)
        if is_open:
            find_shared = partial(find_shared_mains, every, rows)
            measured, shared = run_concurrently(measure_parts, find_shared)
        else:
            measured, shared = measure_parts(), SharedMains()
        certificate = replace(
            _certificate(result, evidence, measured, check, names, note, shared),
            missed=0.0 if is_product else evidence.missed,
            measure_rows=sampled,
            measure_copies=copies,
            finer_cosine=finer_cosine(every, rows, measured.scale),
        )
        solves = {**_solves(evidence.purified, names), **shared.facts(names)}
    function = getattr(subject, "function", subject)
    of_margin = function.model.facts() if isinstance(function, ParsedFunction) else None
    of_response = function.model.facts() if isinstance(function, ResponseFunction) else None
    found = {"model": of_margin, **result.diagnostics, **solves, "response_of": of_response}
    return Decomposition(
        intercept=result.intercept,
        components=kept,
        output_names=subject.output_names,
        measure=measure,
        engine=engine,
        inputs=subject.inputs,
        link=subject.link,
        call=call,
        origin=origin_of(found),
        certificate=certificate,
        remainder=remainder,
        diagnostics=untyped(found),
        rows=rows,
        given=given,
        stored_covariances=covariances,
        spread=result.spread,
        node_errors=result.node_errors,
    )


def table_components(
    purified: Purified,
    mass: MassTables,
    axes: Mapping[Subset, tuple[FeatureAxis, ...]],
    inputs: ModelInputs,
    raw: EffectTensors | None = None,
) -> dict[Subset, TensorComponent]:
    """Return purified tables as components, with the model's own tensors where it has them."""
    before = {} if raw is None else raw.tensors
    return {
        subset: TensorComponent(
            subset,
            axes[subset],
            values,
            mass[subset],
            inputs,
            refine(before[subset].values, before[subset].axes, axes[subset])
            if subset in before
            else None,
        )
        for subset, values in purified.effects.items()
    }


def largest_effect(intercept: Array, tables: Iterable[EffectTensor | TensorComponent]) -> float:
    """Return the largest absolute value of the intercept and of all tables."""
    return max([largest_entry(intercept), *(largest_entry(table.values) for table in tables)])


def _difference(
    rest: Unexplained, intercept: Array, kept: Mapping[Subset, Component]
) -> Difference:
    return Difference(
        rest.function,
        intercept,
        tuple(kept.values()),
        rest.variance,
        rest.find,
        rest.is_joint,
        rest.mean_absolute,
    )


def _variance_of_sum(
    parts: tuple[TensorComponent, ...],
    *,
    is_product: bool,
    rows: MeasureRows | None,
) -> Array:
    """Return the variance of a sum of components; NaN where the measure does not give it."""
    if is_product:
        return np.asarray(np.sum([part.variance for part in parts], axis=0))
    if rows is None:
        return np.full(parts[0].values.shape[-1], np.nan)
    return variance_of_sum(parts, rows)


class _MeasuredComponents(NamedTuple):
    """The scale of a decomposition, and what was measured of its components."""

    scale: float
    purity: Purity | None
    additivity_rows: float | None


def _measured(
    result: Result,
    evidence: Evidence,
    every: Mapping[Subset, Component],
    check: ModelCheck | None,
) -> _MeasuredComponents:
    """Measure how pure components are, and how far their sum is from the model on some rows."""
    tables = {s: c for s, c in every.items() if isinstance(c, TensorComponent)}
    scale, purity = evidence.scale, evidence.purity
    if scale is None:
        scale = largest_effect(result.intercept, tables.values())
    if purity is None and evidence.has_measure and len(tables) == len(every):
        values = EachTable(tables, lambda component: component.values)
        mass = EachTable(tables, lambda component: component.mass)
        purity = measure_purity(values, mass, {s: c.axes for s, c in tables.items()}, scale)
    if check is None or result.rest is not None:
        return _MeasuredComponents(scale, purity, None)
    total = np.tile(result.intercept, (check.columns.n_rows, 1))
    for part in evaluate_each(every.values(), check.columns):
        total += part
    return _MeasuredComponents(
        scale, purity, float(np.max(np.abs(total - check.margin), initial=0.0))
    )


def _certificate(
    result: Result,
    evidence: Evidence,
    measured: _MeasuredComponents,
    check: ModelCheck | None,
    names: list[str],
    note: str,
    shared: SharedMains,
) -> Certificate:
    scale, purity, additivity_rows = measured
    divisor = scale if scale > 0 else 1.0
    margin_error, library_rounding = None, None
    if check is not None:
        margin_error = None if check.error is None else check.error / divisor
        library_rounding = None if check.rounding is None else check.rounding / divisor
    purified = evidence.purified or Purified(result.intercept, {}, {}, None)
    solutions = purified.solutions.values()
    solved = float(max(purified.errors.values(), default=0.0)) / divisor
    share = evidence.fitted_share
    notes = ("" if check is None else check.note, evidence.note, note, shared.note)
    return Certificate(
        scale=scale,
        additivity_cells=None if purified.additivity is None else purified.additivity / divisor,
        additivity_rows=None if additivity_rows is None else additivity_rows / divisor,
        margin_error=margin_error,
        library_rounding=library_rounding,
        checked_rows=evidence.checked_rows if check is None else check.columns.n_rows,
        conditional_mean=None if purity is None else purity.conditional_mean,
        inner_product=None if purity is None else purity.inner_product,
        cosine=None if purity is None else purity.cosine,
        unidentified=evidence.unidentified
        + sum(solution.unidentified or 0 for solution in solutions)
        + shared.directions,
        uncounted=sum(solution.unidentified is None for solution in solutions),
        empty_slices=sum(solution.empty_slices for solution in solutions),
        solver_error=max(solved, evidence.solver_error),
        converged=evidence.converged and all(solution.converged for solution in solutions),
        note=" ".join(note for note in notes if note),
        unidentified_terms=tuple(
            _term_name(names, subset)
            for subset in dict.fromkeys((*evidence.open_terms, *purified.solutions))
            if subset in evidence.open_terms or purified.solutions[subset].unidentified
        ),
        shared_mains=shared.terms(names),
        shared_directions=shared.directions,
        shared_size=shared.size / divisor,
        fitted_share=() if share is None else tuple(share.tolist()),
        fit_error=evidence.fit_error,
        fit_unidentified=evidence.fit_unidentified,
        held_out_share=evidence.held_out_share,
    )


def _measure_rows(rows: MeasureRows | None, result: Result) -> int:
    """Return how many rows of positive weight are the measure."""
    if rows is None:
        return 0
    if isinstance(rows, RowStream):
        return result.n_counted
    of_any = next(iter(rows.values()))
    return of_any.n_rows if of_any.weights is None else int(np.count_nonzero(of_any.weights))


def _term_name(names: list[str], subset: Subset) -> str:
    return term_name([names[j] for j in subset])


def _solves(purified: Purified | None, names: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Return how each table was solved and its error, as diagnostics have it.

    With tuples: a garbage collector follows every list, and a mapping that has one.
    """
    if purified is None:
        return {}
    solves = [
        {
            "term": _term_name(names, subset),
            "features": subset,
            "method": solution.method,
            "iterations": solution.iterations,
            "converged": solution.converged,
            "unidentified": solution.unidentified,
            "empty_slices": solution.empty_slices,
            "error": solution.error,
            "history": solution.history,
        }
        for subset, solution in purified.solutions.items()
    ]
    errors = [
        {"term": _term_name(names, subset), "features": subset, "error": error}
        for subset, error in purified.errors.items()
    ]
    return {"solves": solves, "errors": errors}
