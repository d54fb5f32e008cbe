"""Make the decomposition from the result of an engine: the only place that builds one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from treepurify.certificate import STOPPED, Certificate
from treepurify.collinear import shared_mains
from treepurify.components import (
    Component,
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
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.links import Link
from treepurify.models.parsed import ModelCheck
from treepurify.moments import LOOKED_ROWS, MeasureRows, moments_on_rows, rows_on_grids
from treepurify.origin import Call, Origin, seeds_of
from treepurify.purification.cascade import Purified, refine
from treepurify.purification.pair import largest_entry
from treepurify.purification.purity import measure_purity
from treepurify.remainder import Difference, Remainder, SumOfParts
from treepurify.rows.reduction import CopiedRows, RowStream
from treepurify.spread import Spread
from treepurify.terms import first_names, term_name
from treepurify.threads import run_concurrently
from treepurify.typing import Array
from treepurify.weights.distributions import MassTables

_EVERYTHING = KeptTerms()
_ROUNDING_NORM = 1e-9
_OF_A_SOLVE = (
    *("method", "iterations", "converged", "unidentified", "empty_slices", "error", "history"),
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
class Result:
    """What an engine computed.

    Parameters
    ----------
    intercept : ndarray of float64, shape (n_outputs,)
        Mean under the measure.
    components : mapping of tuple of int to Component
        The effects with their masses, including those that do not become components.
    purified : Purified, optional
        How tables were purified, where they were.
    rest : Difference, optional
        The part of the function that the components do not explain. Without it they are the whole
        function, and those that are not kept are the parts of the remainder.
    covariances : mapping of tuple of int to ndarray of float64, optional
        Covariances with the function, where they are known; see `Decomposition.covariances`.
    diagnostics : mapping of str to object
        Facts for people about how they were found.
    n_rows : int, optional
        Number of rows that the effects refer to.
    certificate : Certificate, optional
        What the engine itself knows of their errors, relative to `scale`; the rest is measured: the
        scale where it is zero, and purity where all components are tables. None where nothing can
        be said of errors.
    method : str
        How effects were computed, in the words of the engine; empty where it has one way only.
    spread : Spread, optional
        The components of several trainings of the model.
    """

    intercept: Array
    components: Mapping[Subset, Component]
    purified: Purified | None = None
    rest: Difference | None = None
    covariances: Mapping[Subset, Array] | None = None
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    n_rows: int | None = None
    certificate: Certificate | None = field(default_factory=Certificate)
    method: str = ""
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
    is_joint: bool = True,
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
    is_joint : bool
        Whether effects belong to one joint distribution, under which they could be orthogonal.
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
    in_order = sorted(result.components.items(), key=lambda item: (len(item[0]), item[0]))
    every = dict(in_order)
    kept = {subset: component for subset, component in in_order if kept_terms.keeps(subset)}
    remainder = _remainder(result, every, kept, rows, is_product=is_product)
    covariances, copies = result.covariances, 1 if given is None else given.copies
    if covariances is None and is_product:
        # Under independence components are uncorrelated: their variances are the covariances.
        apart = kept if remainder is None else {**kept, (): remainder}
        covariances = {subset: component.variance for subset, component in apart.items()}
    certificate, shared = None, dict[Subset, int]()
    if result.certificate is not None:
        # Terms that are so defined that no rows can leave them open are not purified.
        rows_of_mains = None if result.purified is None or is_product else rows
        certificate, (shared, looked) = run_concurrently(
            partial(_measured, result.certificate, result, every, rows, check, names, is_joint),
            partial(shared_mains, every, rows_of_mains),
        )
        in_pairs = (_term_name(names, pair) for pair in shared)
        certificate = replace(
            certificate,
            unidentified=certificate.unidentified + sum(shared.values()),
            unidentified_terms=(*certificate.unidentified_terms, *in_pairs),
            missed=0.0 if is_product else certificate.missed,
            sampling_error=None if rows is None else (),
        ).noted(note, looked)
    solutions = {} if result.purified is None else result.purified.solutions
    function = getattr(subject, "function", subject)
    origin = Origin(
        model=function.model.facts() if isinstance(function, ParsedFunction) else None,
        response_of=function.model.facts() if isinstance(function, ResponseFunction) else None,
        n_rows=result.n_rows,
        measure_rows=_n_rows(rows, result) // copies,
        copies=copies,
        method=result.method,
        seeds=seeds_of(result.diagnostics),
        open_directions={subset: own.unidentified for subset, own in solutions.items()},
    )
    method = {"method": result.method} if result.method else {}
    solves = {} if result.purified is None else _solves(result.purified, names)
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
    if result.rest is not None:
        return replace(result.rest, intercept=result.intercept, components=tuple(kept.values()))
    if len(kept) == len(every):
        return None
    left = [component for subset, component in every.items() if subset not in kept]
    parts = tuple(part for part in left if isinstance(part, TensorComponent))
    variance = np.full(len(result.intercept), np.nan)
    if is_product:
        variance = np.asarray(np.sum([part.variance for part in parts], axis=0))
    elif rows is not None:
        variance = moments_on_rows(parts, rows).variance
    return SumOfParts(parts, variance)


def _measured(
    known: Certificate,
    result: Result,
    every: Mapping[Subset, Component],
    rows: MeasureRows | None,
    check: ModelCheck | None,
    names: list[str],
    is_joint: bool,
) -> Certificate:
    """Return what the engine knows of the errors, with what is measured of the components."""
    tables = {s: c for s, c in every.items() if isinstance(c, TensorComponent)}
    purified = result.purified or Purified(result.intercept, {}, {}, None)
    scale = known.scale or purified.scale or largest_effect(result.intercept, tables.values())
    divisor = scale if scale > 0 else 1.0
    mean, cosine, notes = known.conditional_mean, known.cosine, [known.note]
    if mean is None and is_joint and len(tables) == len(every):
        purity = measure_purity(tables, scale)
        mean, cosine = purity.conditional_mean, purity.cosine
    if cosine is not None:
        finer, words = _finer_cosine(every, rows, scale)
        cosine = max(cosine, finer)
        notes.append(words)
    differences = [] if purified.additivity is None else [purified.additivity]
    error = rounding = None
    if check is not None:
        notes.append(check.note)
        error, rounding = check.error, check.rounding
        if result.rest is None:
            total = sum(evaluate_each(every.values(), check.columns), result.intercept)
            differences.append(float(np.max(np.abs(total - check.margin), initial=0.0)))
    counts = {subset: own.unidentified for subset, own in purified.solutions.items()}
    uncounted = [_term_name(names, subset) for subset, count in counts.items() if count is None]
    if uncounted:
        large = first_names(uncounted)
        notes.append(f"Not checked for effects that are not unique: {large} (too large).")
    if not all(own.converged for own in purified.solutions.values()):
        notes.append(STOPPED)
    open_terms = (_term_name(names, subset) for subset, count in counts.items() if count)
    return replace(
        known,
        scale=scale,
        additivity=float(np.max(differences)) / divisor if differences else None,
        margin_error=None if error is None else error / divisor,
        library_rounding=None if rounding is None else rounding / divisor,
        conditional_mean=mean,
        cosine=cosine,
        solver_error=max(
            float(max(purified.errors.values(), default=0.0)) / divisor, known.solver_error
        ),
        unidentified=known.unidentified + sum(count or 0 for count in counts.values()),
        unidentified_terms=tuple(dict.fromkeys((*known.unidentified_terms, *open_terms))),
        note=" ".join(filter(None, notes)),
    )


def _finer_cosine(
    components: Mapping[Subset, Component], rows: MeasureRows | None, scale: float
) -> tuple[float, str]:
    """Return the largest cosine of an interaction with a main effect on finer bins, and say so.

    The terms of an EBM have bins of their own. An interaction that is pure against functions on its
    own bins can be correlated with a main effect on finer ones, where features depend on each
    other. Zero where no main effect has finer bins, or there are no rows.
    """
    pairs = list(with_finer_mains(components))
    if not pairs:
        return 0.0, ""
    tables = [component for pair in pairs for component in pair]
    on_grids = None if rows is None else rows_on_grids(rows, tables, LOOKED_ROWS)
    if on_grids is None:
        return 0.0, (
            "Cosines refer to the bins of interactions; on the finer bins of main effects they "
            "were not measured, since the distribution does not consist of rows."
        )
    shares, largest = on_grids.shares, 0.0
    for pair in pairs:
        one, other = (values_on_rows(table, on_grids.by_order) for table in pair)
        norms = np.sqrt(shares @ one**2), np.sqrt(shares @ other**2)
        counts = np.minimum(*norms) > _ROUNDING_NORM * scale
        cosines = np.abs(shares @ (one * other))[counts] / (norms[0] * norms[1])[counts]
        largest = max(largest, float(cosines.max(initial=0.0)))
    return largest, (
        "Means refer to the bins of interactions; on the finer bins of main effects the largest "
        f"cosine is {largest:.1e}."
    )


def _n_rows(rows: MeasureRows | None, result: Result) -> int:
    """Return how many rows of positive weight are the measure."""
    if rows is None or isinstance(rows, RowStream):
        return 0 if rows is None else result.n_rows or 0
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
    components = {}
    for subset, values in purified.effects.items():
        own = before.get(subset)
        refined = None if own is None else refine(own.values, own.axes, axes[subset])
        components[subset] = TensorComponent(
            subset, axes[subset], values, mass[subset], inputs, refined
        )
    return components


def largest_effect(intercept: Array, tables: Iterable[EffectTensor | TensorComponent]) -> float:
    """Return the largest absolute value of the intercept and of all tables."""
    return max([largest_entry(intercept), *(largest_entry(table.values) for table in tables)])
