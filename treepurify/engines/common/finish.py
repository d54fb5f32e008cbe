"""Make the decomposition from the result of an engine: the only place that builds one."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from treepurify.call import Call
from treepurify.certificate import Certificate
from treepurify.collinear import SharedMains, find_shared_mains
from treepurify.components import (
    Component,
    EachTable,
    ModelInputs,
    TensorComponent,
    evaluate_each,
    values_on_rows,
    with_finer_mains,
)
from treepurify.decomposition import Decomposition
from treepurify.effects.tensor import EffectTensor, EffectTensors
from treepurify.engines.common.functions import ParsedFunction, ResponseFunction
from treepurify.engines.common.problem import KeptTerms
from treepurify.grid_rows import LOOKED_ROWS, rows_on_grids
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.links import Link
from treepurify.models.parsed import ModelCheck
from treepurify.moments import MeasureRows, variance_of_sum
from treepurify.origin import Identifiability, Origin, seeds_of
from treepurify.purification.cascade import Purified, refine
from treepurify.purification.purity import Purity, measure_purity
from treepurify.purification.solution import largest_entry
from treepurify.remainder import Difference, Function, Remainder, SumOfParts
from treepurify.rows.reduction import CopiedRows, RowStream
from treepurify.spread import Spread
from treepurify.terms import first_names, term_name
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
_ROUNDING_NORM = 1e-9
_OF_A_SOLVE = (
    "method",
    "iterations",
    "converged",
    "unidentified",
    "empty_slices",
    "error",
    "history",
)


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
    unidentified : int
        Directions that the data do not determine, besides those in `purified`.
    open_terms : tuple of tuple of int
        The effects that they are in, where they were found.
    solver_error : float
        Error of the components relative to `scale`, besides that in `purified`.
    converged : bool
        Whether every solve that is not in `purified` met its tolerance.
    fitted_share : ndarray of float64, shape (n_outputs,), optional
        Share of the variance that components explain, where they were fitted.
    fit_unidentified : int
        Directions of the fit that the rows do not determine.
    missed : float, optional
        Share of the variance that effects of this order may explain beyond what they do; None
        where that is not known.
    note : str
        What else a reader must know.
    """

    scale: float | None = None
    purified: Purified | None = None
    purity: Purity | None = None
    has_measure: bool = True
    unidentified: int = 0
    open_terms: tuple[Subset, ...] = ()
    solver_error: float = 0.0
    converged: bool = True
    fitted_share: Array | None = None
    fit_unidentified: int = 0
    missed: float | None = None
    note: str = ""


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
        Facts for people about how they were found.
    n_rows : int, optional
        Number of rows that the effects refer to.
    n_counted : int
        Rows of positive weight that were counted, where they came in batches.
    method : str
        How effects were computed, in the words of the engine; empty where it has one way only.
    identifiability : Identifiability, optional
        Which effects the rows determine, where functions were selected on them.
    spread : Spread, optional
        The components of several trainings of the model.
    """

    intercept: Array
    components: Mapping[Subset, Component]
    evidence: Evidence | None = None
    rest: Unexplained | None = None
    covariances: Mapping[Subset, Array] | None = None
    diagnostics: dict[str, Any] = field(default_factory=dict)
    n_rows: int | None = None
    n_counted: int = 0
    method: str = ""
    identifiability: Identifiability | None = None
    spread: Spread | None = None


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
    remainder = _remainder(result, every, kept, rows, is_product=is_product)
    covariances = result.covariances
    if covariances is None and is_product:
        # Under independence components are uncorrelated: their variances are the covariances.
        apart = kept if remainder is None else {**kept, (): remainder}
        covariances = {subset: component.variance for subset, component in apart.items()}
    evidence = result.evidence or Evidence()
    purified = evidence.purified or Purified(result.intercept, {}, {}, None)
    certificate: Certificate | None = None
    shared = SharedMains()
    if result.evidence is not None:
        certify = partial(_certificate, result, evidence, purified, every, check, names)
        if evidence.purified is None or is_product or is_determined:
            alone = certify()
        else:
            find_shared = partial(find_shared_mains, every, rows)
            alone, shared = run_concurrently(certify, find_shared)
        copies = 1 if given is None else given.copies
        certificate = replace(
            alone,
            unidentified=alone.unidentified + shared.directions,
            unidentified_terms=(*alone.unidentified_terms, *shared.terms(names)),
            finer_cosine=_finer_cosine(every, rows, alone.scale),
            missed=0.0 if is_product else evidence.missed,
            measure_rows=_n_rows(rows, result) // copies,
            measure_copies=copies,
            note=" ".join(filter(None, (alone.note, evidence.note, note, shared.note))),
        )
    function = getattr(subject, "function", subject)
    origin = Origin(
        model=function.model.facts() if isinstance(function, ParsedFunction) else None,
        response_of=function.model.facts() if isinstance(function, ResponseFunction) else None,
        n_rows=result.n_rows,
        method=result.method,
        seeds=seeds_of(result.diagnostics),
        identifiability=result.identifiability,
        open_directions={s: own.unidentified for s, own in purified.solutions.items()},
        concurvity=shared.pairs,
    )
    solves = {} if evidence.purified is None else _solves(purified, names)
    method = {"method": result.method} if result.method else {}
    return Decomposition(
        intercept=result.intercept,
        components=kept,
        output_names=subject.output_names,
        measure=measure,
        engine=engine,
        inputs=subject.inputs,
        link=subject.link,
        call=call,
        origin=origin,
        certificate=certificate,
        remainder=remainder,
        diagnostics={**method, **result.diagnostics, **solves},
        rows=rows,
        given=given,
        stored_covariances=covariances,
        spread=result.spread,
    )


def _remainder(
    result: Result,
    every: Mapping[Subset, Component],
    kept: Mapping[Subset, Component],
    rows: MeasureRows | None,
    *,
    is_product: bool,
) -> Remainder | None:
    """Return what the kept components leave of the function; None for nothing."""
    rest = result.rest
    if rest is not None:
        about = (rest.variance, rest.find, rest.is_joint, rest.mean_absolute)
        return Difference(rest.function, result.intercept, tuple(kept.values()), *about)
    if len(kept) == len(every):
        return None
    parts = tuple(
        component
        for subset, component in every.items()
        if subset not in kept and isinstance(component, TensorComponent)
    )
    variance = np.full(len(result.intercept), np.nan)
    if is_product:
        variance = np.asarray(np.sum([part.variance for part in parts], axis=0))
    elif rows is not None:
        variance = variance_of_sum(parts, rows)
    return SumOfParts(parts, variance)


def _certificate(
    result: Result,
    evidence: Evidence,
    purified: Purified,
    every: Mapping[Subset, Component],
    check: ModelCheck | None,
    names: list[str],
) -> Certificate:
    """Return what the engine knows of the components, and what is measured of them alone."""
    tables = {s: c for s, c in every.items() if isinstance(c, TensorComponent)}
    scale, purity, solutions = evidence.scale, evidence.purity, purified.solutions
    if scale is None:
        scale = largest_effect(result.intercept, tables.values())
    divisor = scale if scale > 0 else 1.0
    if purity is None and evidence.has_measure and len(tables) == len(every):
        values = EachTable(tables, lambda component: component.values)
        mass = EachTable(tables, lambda component: component.mass)
        purity = measure_purity(values, mass, {s: c.axes for s, c in tables.items()}, scale)
    differences = [] if purified.additivity is None else [purified.additivity]
    if check is not None and result.rest is None:
        total = np.tile(result.intercept, (check.columns.n_rows, 1))
        for part in evaluate_each(every.values(), check.columns):
            total += part
        differences.append(float(np.max(np.abs(total - check.margin), initial=0.0)))
    solved = float(max(purified.errors.values(), default=0.0)) / divisor
    counts = {subset: solution.unidentified for subset, solution in solutions.items()}
    open_terms = [*evidence.open_terms, *(subset for subset, count in counts.items() if count)]
    uncounted = [_term_name(names, subset) for subset, count in counts.items() if count is None]
    note = "" if check is None else check.note
    if uncounted:
        large = first_names(uncounted)
        note = f"{note} Not checked for effects that are not unique: {large} (too large).".strip()
    share = evidence.fitted_share
    error, rounding = (None, None) if check is None else (check.error, check.rounding)
    return Certificate(
        scale=scale,
        additivity=float(np.max(differences)) / divisor if differences else None,
        margin_error=None if error is None else error / divisor,
        conditional_mean=None if purity is None else purity.conditional_mean,
        cosine=None if purity is None else purity.cosine,
        solver_error=max(solved, evidence.solver_error),
        converged=evidence.converged and all(own.converged for own in solutions.values()),
        unidentified=evidence.unidentified + sum(count or 0 for count in counts.values()),
        unidentified_terms=tuple(_term_name(names, s) for s in dict.fromkeys(open_terms)),
        library_rounding=None if rounding is None else rounding / divisor,
        fitted_share=() if share is None else tuple(share.tolist()),
        fit_unidentified=evidence.fit_unidentified,
        note=note,
    )


def _finer_cosine(
    components: Mapping[Subset, Component], rows: MeasureRows | None, scale: float
) -> float | None:
    """Return the largest cosine of an interaction with a main effect on finer bins.

    The terms of an EBM have bins of their own. An interaction that is pure against functions on its
    own bins can be correlated with a main effect on finer ones, where features depend on each
    other. NaN where there are no rows; None where no main effect has finer bins.
    """
    pairs = list(with_finer_mains(components))
    if not pairs:
        return None
    tables = [component for pair in pairs for component in pair]
    on_grids = None if rows is None else rows_on_grids(rows, tables, LOOKED_ROWS)
    if on_grids is None:
        return float("nan")
    shares, largest = on_grids.shares[:, None], 0.0
    for larger, main in pairs:
        one, other = (values_on_rows(table, on_grids.by_order) for table in (larger, main))
        norms = [np.sqrt((shares * values**2).sum(axis=0)) for values in (one, other)]
        counts = np.minimum(*norms) > _ROUNDING_NORM * scale
        products = np.abs((shares * one * other).sum(axis=0))
        cosines = products[counts] / (norms[0] * norms[1])[counts]
        largest = max(largest, float(cosines.max(initial=0.0)))
    return largest


def _n_rows(rows: MeasureRows | None, result: Result) -> int:
    """Return how many rows of positive weight are the measure."""
    if rows is None:
        return 0
    if isinstance(rows, RowStream):
        return result.n_counted
    of_any = next(iter(rows.values()))
    return of_any.n_rows if of_any.weights is None else int(np.count_nonzero(of_any.weights))


def _term_name(names: list[str], subset: Subset) -> str:
    return term_name([names[j] for j in subset])


def _solves(purified: Purified, names: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Return how each table was solved and its error, as diagnostics have it.

    With tuples: a garbage collector follows every list, and a mapping that has one.
    """
    solves = [
        {
            "term": _term_name(names, subset),
            "features": subset,
            **{name: getattr(solution, name) for name in _OF_A_SOLVE},
        }
        for subset, solution in purified.solutions.items()
    ]
    errors = [
        {"term": _term_name(names, subset), "features": subset, "error": error}
        for subset, error in purified.errors.items()
    ]
    return {"solves": solves, "errors": errors}


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
