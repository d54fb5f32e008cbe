"""Put purified tensors together as a decomposition with its certificate."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_whole
from treepurify.certificate import Certificate
from treepurify.components import (
    Component,
    ModelInputs,
    RemainderComponent,
    TensorComponent,
    evaluate_each,
    values_on_rows,
)
from treepurify.decomposition import Decomposition
from treepurify.effects.tensor import EffectTensors
from treepurify.engines.common.model_check import ModelCheck
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import EncodedRows, Subset
from treepurify.links import Link
from treepurify.purification.cascade import Purified, refine
from treepurify.purification.purity import measure_purity
from treepurify.weights.weighting import MassTables

__all__ = ["Setting", "assemble", "check_order"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Setting:
    """What was purified, and under which measure.

    Parameters
    ----------
    effects : EffectTensors
        The tensors before purification.
    mass, axes : dict
        Mass and axes of every subset.
    inputs : ModelInputs
        How the columns of a table are read.
    output_names : tuple of str
        One name an output.
    link : Link
        From the margin to the response.
    measure : str
        The distribution in words.
    is_product : bool
        Whether features are independent under the measure.
    rows : dict of int to EncodedRows, optional
        The rows on the grid of each order, where they are the measure.
    order : int, optional
        Largest order kept apart.
    interactions : collection of tuple of int, optional
        Subsets of two or more features that are kept apart; all by default.
    has_raw : bool
        Whether the tensors are the model's own, before purification.
    adds_up : bool
        Whether the tensors are to add up to the model, nothing else being kept beside them.
    """

    effects: EffectTensors
    mass: MassTables
    axes: dict[Subset, tuple[FeatureAxis, ...]]
    inputs: ModelInputs
    output_names: tuple[str, ...]
    link: Link
    measure: str
    is_product: bool
    rows: dict[int, EncodedRows] | None
    order: int | None
    interactions: Collection[Subset] | None = None
    has_raw: bool = True
    adds_up: bool = True


# The order of most engines by default.
_PAIR = 2


def check_order(order: int | None) -> None:
    """Raise `InvalidInputError` unless `order` is a positive whole number or None."""
    if order is not None:
        check_whole("order", order, 1)


def check_order_fits(order: int | None, n_features: int) -> None:
    """Raise `InvalidInputError` if `order` is above the number of features.

    Two, which is what most engines take unless they are told otherwise, also stands for "all"
    where there is one feature only.
    """
    if order is not None and order > max(n_features, _PAIR):
        raise InvalidInputError(
            f"order={order} asks for effects of {order} features, and the model has {n_features}: "
            f"pass at most {max(n_features, _PAIR)}, or None for all effects"
        )


def assemble(
    purified: Purified, setting: Setting, check: ModelCheck | None, facts: dict[str, Any]
) -> Decomposition:
    """Return the decomposition of the purified tensors."""
    tensors = {
        subset: TensorComponent(
            subset,
            setting.axes[subset],
            values,
            setting.mass[subset],
            setting.inputs,
            _raw(setting, subset),
        )
        for subset, values in purified.effects.items()
    }
    most = setting.order or max((len(subset) for subset in tensors), default=0)
    wanted = setting.interactions
    kept: dict[Subset, Component] = {
        s: c
        for s, c in tensors.items()
        if len(s) == 1 or (len(s) <= most and (wanted is None or s in wanted))
    }
    rest = tuple(c for s, c in tensors.items() if s not in kept)
    remainder = _remainder(rest, setting) if rest else None
    return Decomposition(
        intercept=purified.intercept,
        components=kept,
        output_names=setting.output_names,
        measure=setting.measure,
        engine="tree",
        inputs=setting.inputs,
        link=setting.link,
        certificate=_certificate(purified, tensors, setting, check),
        remainder=remainder,
        diagnostics=facts
        | {"solves": _solves(purified, setting), "errors": _errors(purified, setting)},
        rows=setting.rows,
        stored_covariances=_product_covariances(kept, remainder) if setting.is_product else None,
    )


def _raw(setting: Setting, subset: Subset) -> Array | None:
    tensor = setting.effects.tensors.get(subset)
    return (
        None
        if tensor is None or not setting.has_raw
        else refine(tensor.values, tensor.axes, setting.axes[subset])
    )


def _remainder(parts: tuple[TensorComponent, ...], setting: Setting) -> RemainderComponent:
    variance = np.full(len(setting.output_names), np.nan)
    if setting.is_product:
        variance = np.sum([part.variance for part in parts], axis=0)
    elif setting.rows is not None:
        # In place: the values of all parts on all rows can take far more than their tables.
        total = values_on_rows(parts[0], setting.rows)
        for part in parts[1:]:
            total += values_on_rows(part, setting.rows)
        weights = next(iter(setting.rows.values())).weights
        total -= np.average(total, axis=0, weights=weights)
        total *= total
        variance = np.average(total, axis=0, weights=weights)
    return RemainderComponent(parts, np.asarray(variance))


def _product_covariances(
    components: dict[Subset, Component], remainder: RemainderComponent | None
) -> dict[Subset, Array]:
    """Under independence components are uncorrelated: their variances are the covariances."""
    found = {subset: component.variance for subset, component in components.items()}
    if remainder is not None:
        found[()] = remainder.variance
    return found


def _term_name(setting: Setting, subset: Subset) -> str:
    return " & ".join(setting.inputs.features[j].name for j in subset)


def _errors(purified: Purified, setting: Setting) -> list[dict[str, Any]]:
    return [
        {"term": _term_name(setting, subset), "features": list(subset), "error": error}
        for subset, error in purified.errors.items()
    ]


def _solves(purified: Purified, setting: Setting) -> list[dict[str, Any]]:
    return [
        {
            "term": _term_name(setting, subset),
            "features": list(subset),
            "method": solution.method,
            "iterations": solution.iterations,
            "converged": solution.converged,
            "unidentified": solution.unidentified,
            "empty_slices": solution.empty_slices,
            "error": solution.error,
            "history": list(solution.history),
        }
        for subset, solution in purified.solutions.items()
    ]


def _certificate(
    purified: Purified,
    tensors: dict[Subset, TensorComponent],
    setting: Setting,
    check: ModelCheck | None,
) -> Certificate:
    raw = [tensor.values for tensor in setting.effects.tensors.values()]
    scale = max(
        (float(np.max(np.abs(v), initial=0.0)) for v in raw or purified.effects.values()),
        default=0.0,
    )
    scale = max(scale, float(np.max(np.abs(purified.intercept), initial=0.0)))
    divisor = scale if scale > 0 else 1.0
    purity = measure_purity(purified.effects, setting.mass, setting.axes, scale)
    additivity_rows, margin_error = None, None
    if check is not None:
        margin_error = None if check.error is None else check.error / divisor
    if check is not None and setting.adds_up:
        total = np.tile(purified.intercept, (check.columns.n_rows, 1))
        for values in evaluate_each(tensors.values(), check.columns):
            total += values
        additivity_rows = float(np.max(np.abs(total - check.margin), initial=0.0)) / divisor
    solutions = purified.solutions.values()
    return Certificate(
        scale=scale,
        additivity_cells=None if purified.additivity is None else purified.additivity / divisor,
        additivity_rows=additivity_rows,
        margin_error=margin_error,
        checked_rows=0 if check is None else check.columns.n_rows,
        conditional_mean=purity.conditional_mean,
        inner_product=purity.inner_product,
        cosine=purity.cosine,
        unidentified=sum(solution.unidentified or 0 for solution in solutions),
        uncounted=sum(solution.unidentified is None for solution in solutions),
        empty_slices=sum(solution.empty_slices for solution in solutions),
        solver_error=float(max(purified.errors.values(), default=0.0)) / divisor,
        converged=all(solution.converged for solution in solutions),
        note="" if check is None else check.note,
        estimated=sum(not solution.is_bound for solution in solutions),
        unidentified_terms=tuple(
            _term_name(setting, subset)
            for subset, solution in purified.solutions.items()
            if solution.unidentified
        ),
    )
