"""Take effects out of a decomposition, or put others in; what is left stays pure.

On one grid purification is linear: the purified sum of two functions is the sum of both, purified.
So every edit is the decomposition plus a purified difference.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import brief, check_result, read_numbers
from treepurify.budget import DEFAULT_BUDGET
from treepurify.certificate import STOPPED
from treepurify.comparing.apparent import model_variance
from treepurify.components import Component, TensorComponent, values_on_rows
from treepurify.decomposition import Absorb, Decomposition
from treepurify.effects.tensor import EffectTensor, EffectTensors
from treepurify.errors import InvalidInputError, UnknownComponentError
from treepurify.evidence.effect_space import absorbing, effect_space
from treepurify.grids.grid import Subset
from treepurify.links import Link
from treepurify.moments import moments_on_rows
from treepurify.origin import Edit
from treepurify.purification.cascade import Purified, downward_closure, purify_effects
from treepurify.purification.purity import measure_purity
from treepurify.remainder import Remainder, SumOfParts
from treepurify.spread import Spread
from treepurify.terms import read_features
from treepurify.typing import Array

__all__ = [
    "REMAINDER",
    "add_tables",
    "edited",
    "has_independent_effects",
    "only",
    "read_terms",
    "with_effect",
    "without",
    "without_features",
]

REMAINDER: Subset = ()
_ROUNDING = 1e-12
_MOST_NAMED = 8
# What an edit changes, by link: where effects add up.
_CHANGED = {"identity": "Predictions", "logit": "The log-odds", "log": "The log of the mean"}


@dataclass(frozen=True, eq=False)
class Added:
    """A decomposition's parts after tables were added to them.

    Parameters
    ----------
    intercept : ndarray of float64, shape (n_outputs,)
        The new intercept.
    components : dict of tuple of int to Component
        The new components.
    purified : Purified
        The pure parts of what was added.
    """

    intercept: Array
    components: dict[Subset, Component]
    purified: Purified


def read_terms(d: Decomposition, terms: Iterable[Any]) -> list[Subset]:
    """Return the effects that are named; the remainder, called ``"remainder"``, as ().

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    terms : iterable of str, int or tuple
        As in ``d[key]``, or by the name in a table, such as ``"age & hours"``. An empty tuple is
        the remainder too, whatever features are called.

    Raises
    ------
    UnknownComponentError
        If there is no such effect.
    """
    by_name = {d.term_name(subset): subset for subset in d.components}
    if d.remainder is not None:
        by_name.setdefault("remainder", REMAINDER)
    subsets = []
    for term in terms:
        if isinstance(term, tuple) and not term and d.remainder is not None:
            subsets.append(REMAINDER)
            continue
        if isinstance(term, str) and term in by_name:
            subsets.append(by_name[term])
            continue
        subset = read_features(term, d.feature_names)
        if subset not in d.components:
            known = ", ".join(map(repr, [*by_name][:12]))
            raise UnknownComponentError(
                f"there is no effect {d.term_name(subset)!r} to remove or keep; the effects are "
                f"{known}{' ...' if len(by_name) > 12 else ''}"
            )
        subsets.append(subset)
    return subsets


def without(
    d: Decomposition, terms: Sequence[Any], *, absorb: Absorb, memory_budget: int = DEFAULT_BUDGET
) -> Decomposition:
    """Return a decomposition without some effects; see `Decomposition.without`."""
    out = set(read_terms(d, terms))
    return _leave_out(d, out, absorb=absorb, memory_budget=memory_budget)


def only(
    d: Decomposition, terms: Sequence[Any], *, absorb: Absorb, memory_budget: int = DEFAULT_BUDGET
) -> Decomposition:
    """Return a decomposition with some effects only; see `Decomposition.only`."""
    kept = set(read_terms(d, terms))
    parts = {*d.components, *([REMAINDER] if d.remainder is not None else [])}
    return _leave_out(d, parts - kept, absorb=absorb, memory_budget=memory_budget)


def without_features(
    d: Decomposition, *features: str | int, absorb: Absorb = False
) -> Decomposition:
    """Remove all main effects and interactions of some features.

    The predictions of the result do not depend on the values of these features. This removes, for
    example, the direct use of a protected attribute (Hiabu et al. 2023); the effects of features
    that are correlated with it stay. The main effects of the other features stay as well: a
    purified interaction contains none of them.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    *features : str or int
        The features, by name or position.
    absorb : bool or "main"
        Whether to adjust the remaining effects (or with ``"main"`` the remaining main effects) so
        that they compensate; see `Decomposition.without`. Correlated features then replace the
        removed ones in part.

    Returns
    -------
    Decomposition
        Pure under the same distribution, on the margin scale. A remainder that may depend on one of
        the features is removed as well. The certificate states which effects were removed and how
        much predictions change.

    Raises
    ------
    UnknownComponentError
        If there is no such feature.

    See Also
    --------
    Decomposition.without : Remove effects.
    group_gap : Difference of predictions between two groups.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> tp.without_features(d, "x0").predict(X)
    array([0. , 0.5, 0. , 0.5])
    """
    check_result("d", d, Decomposition)
    gone = {j for feature in features for j in read_features(feature, d.feature_names)}
    terms = [s for s in d.components if not gone.isdisjoint(s)]
    if d.remainder is not None and not gone.isdisjoint(d.remainder.features):
        terms.append(REMAINDER)
    return without(d, terms, absorb=absorb) if terms else d


def _leave_out(
    d: Decomposition, out: Collection[Subset], *, absorb: Absorb, memory_budget: int
) -> Decomposition:
    taken = {subset: c for subset, c in d.components.items() if subset in out}
    kept = {subset: c for subset, c in d.components.items() if subset not in out}
    remainder = None if REMAINDER in out else d.remainder
    names = [d.term_name(subset) for subset in taken]
    names += ["remainder"] * (remainder is not d.remainder)
    if not names:
        return d
    what = f"without {_listed(names)}"
    facts: dict[str, Any] = {"edit": "without", "terms": names, "absorb": absorb}
    onto = absorbing(kept, absorb)
    dropped = d.remainder if REMAINDER in out else None
    parts: list[Any] = [*taken.values()]
    if dropped is not None:
        parts += dropped.parts if isinstance(dropped, SumOfParts) else [dropped]
    if not onto or not taken or has_independent_effects(d):
        # Independent effects can take nothing over.
        return edited(d, d.intercept, kept, remainder, what, facts, _size_of_sum(d, parts))
    space = effect_space(d, onto, memory_budget)
    # What the remainder adds has no cells that effects could absorb it in.
    projected = space.project(_sum_on_rows(d, taken.values()), onto)
    added = add_tables(replace(d, components=kept), projected.tables, projected.pure)
    tables, others = _apart(parts)
    change = _sum_on_rows(d, kept.values(), added.components.values()) - _sum_on_rows(d, tables)
    intercept = added.intercept + projected.mean
    change += intercept - d.intercept
    facts |= {
        "steps": projected.steps,
        "gradient": projected.gradient,
        "converged": projected.converged,
    }
    which = "main effects" if absorb == "main" else "effects"
    where = f" on {d.grid_rows.words}" if d.grid_rows is not None and d.grid_rows.words else ""
    what += f"; the remaining {which} were adjusted to compensate{where}"
    difference = _compared_with(_root_mean_square(change, space.shares), others)
    return edited(
        d, intercept, added.components, remainder, what, facts, difference, added.purified,
        converged=projected.converged,
    )  # fmt: skip


def with_effect(
    d: Decomposition, key: Any, values: npt.ArrayLike, *, what: str = "", facts: Any = None
) -> Decomposition:
    """Return a decomposition with another effect; see `Decomposition.with_effect`.

    `what` and `facts` say how the values were found, where they were not given by hand.
    """
    subset = read_features(key, d.feature_names)
    name = d.term_name(subset)
    component = d[key]
    if subset not in d.components or not isinstance(component, TensorComponent):
        raise InvalidInputError(f"with_effect needs an effect that is a table; {name!r} is none")
    table = _read_table(values, component, name)
    change = table - component.values
    added = add_tables(d, {subset: change})
    given = component.mass[..., None] * change**2
    difference = _Difference(
        np.sqrt(given.sum(axis=tuple(range(component.mass.ndim)))), is_bound=False
    )
    facts = {"edit": "with_effect", "terms": [name], **(facts or {})}
    what = what or f"the effect of {name} replaced"
    return edited(
        d, added.intercept, added.components, d.remainder, what, facts, difference, added.purified
    )


def _read_table(values: npt.ArrayLike, component: TensorComponent, name: str) -> Array:
    shape = component.values.shape
    table = read_numbers("values", values)
    if table.shape == shape[:-1] and shape[-1] == 1:
        table = table[..., None]
    if table.shape != shape:
        expected = f"{shape[:-1]} or {shape}" if shape[-1] == 1 else f"{shape}"
        raise InvalidInputError(
            f"values must have one number per cell of {name!r}, shape {expected}, as "
            f"d[{name!r}].values has; got {brief(values)} of shape {table.shape}"
        )
    if not np.all(np.isfinite(table)):
        raise InvalidInputError("values must be finite; they contain NaN or infinity")
    return table


def add_tables(
    d: Decomposition, tables: Mapping[Subset, Array], pure: Collection[Subset] = ()
) -> Added:
    """Add tables on the cells of a decomposition's components to it, purified.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    tables : mapping of tuple of int to ndarray of float64, shape (cells..., n_outputs)
        What to add, on the cells of the component of the same features.
    pure : collection of tuple of int
        Those of them that hold pure functions and are added as they are.

    Raises
    ------
    InvalidInputError
        If what leaves a table belongs to an effect that is kept in the remainder.
    """
    known = d.tensor_components()
    mixed = {subset: values for subset, values in tables.items() if subset not in pure}
    subsets = downward_closure(mixed)
    axes, mass = {}, {}
    for subset in reversed(subsets):
        if subset in known:
            axes[subset], mass[subset] = known[subset].axes, known[subset].mass
            continue
        if d.remainder is not None and d.remainder.component(subset) is not None:
            raise InvalidInputError(
                f"a part of the edit belongs to the effect of {d.term_name(subset)!r}, which is "
                "in the remainder: purify the model so that it becomes a separate effect"
            )
        larger = next(s for s in subsets if len(s) == len(subset) + 1 and set(subset) < set(s))
        (dropped,) = (i for i, j in enumerate(larger) if j not in subset)
        axes[subset] = axes[larger][:dropped] + axes[larger][dropped + 1 :]
        mass[subset] = mass[larger].sum(axis=dropped)
    purified = purify_effects(
        EffectTensors(
            np.zeros(d.n_outputs),
            {s: EffectTensor(s, axes[s], values) for s, values in mixed.items()},
        ),
        mass,
        axes,
        progress=lambda what, done, total: None,
    )
    components: dict[Subset, Component] = dict(d.components)
    largest = max((float(np.abs(table).max(initial=0.0)) for table in mixed.values()), default=0.0)
    parts = {**purified.effects, **{subset: tables[subset] for subset in pure}}
    for subset, part in parts.items():
        if subset in known:
            old = known[subset].stored()
            components[subset] = replace(old, values=old.values + part, raw=None)
        elif float(np.abs(part).max(initial=0.0)) > _ROUNDING * largest:
            components[subset] = TensorComponent(subset, axes[subset], part, mass[subset], d.inputs)
    return Added(d.intercept + purified.intercept, components, purified)


@dataclass(frozen=True, eq=False)
class _Difference:
    """Root mean square difference from before, per output; or a bound of it."""

    size: Array
    is_bound: bool


def edited(
    d: Decomposition,
    intercept: Array,
    components: Mapping[Subset, Component],
    remainder: Remainder | None,
    what: str,
    facts: Mapping[str, Any],
    difference: _Difference,
    purified: Purified | None = None,
    *,
    converged: bool = True,
) -> Decomposition:
    """Return the decomposition after an edit, which its certificate and origin name."""
    deviation = _deviation(d)
    earlier = d.origin.edits
    sizes = difference.size.tolist()
    entry = {**facts, "difference": sizes, "difference_is_bound": difference.is_bound}
    if not earlier and deviation is not None:
        entry["model_deviation"] = deviation.tolist()
    edits = (*earlier, Edit(entry, tuple(sizes), difference.is_bound))
    total = np.sum([edit.difference for edit in edits], axis=0)
    is_bound = len(edits) > 1 or difference.is_bound
    summary = {"value": total.tolist(), "is_bound": is_bound}
    # Those that were stored are covariances with the model before the edit.
    known = None
    if has_independent_effects(d):
        known = {subset: component.variance for subset, component in components.items()}
        known |= {} if remainder is None else {REMAINDER: remainder.variance}
    result = replace(
        d,
        intercept=intercept,
        components=components,
        remainder=remainder,
        origin=replace(d.origin, edits=edits),
        diagnostics={
            **{name: fact for name, fact in d.diagnostics.items() if name != "errors"},
            "difference_from_model": summary,
        },
        stored_covariances=known,
        stored_collinear=None,
        spread=_spread_of_what_stayed(d, components),
    )
    certificate = None
    if d.certificate is not None:
        certificate = replace(
            d.certificate,
            additivity=None,
            margin_error=None,
            library_rounding=None,
            edits=(*d.certificate.edits, _sentence(what, difference, deviation, d.link)),
            sampling_error=() if d.certificate.sampling_error is not None else None,
        ).noted(STOPPED * (not converged))
    result = replace(result, certificate=certificate)
    return result if purified is None else _with_new_purity(result, purified)


def _spread_of_what_stayed(
    d: Decomposition, components: Mapping[Subset, Component]
) -> Spread | None:
    """Return the spread of the effects that the edit left as they were; it is of no others."""
    if d.spread is None:
        return None
    stayed = {
        subset: stacked
        for subset, stacked in d.spread.stacked.items()
        if components.get(subset) is d.components.get(subset)
    }
    return replace(d.spread, stacked=stayed) if stayed else None


def _with_new_purity(d: Decomposition, purified: Purified) -> Decomposition:
    """Return a decomposition whose certificate measures the tables as they are now."""
    if d.certificate is None:
        return d
    scale = d.certificate.scale
    purity = measure_purity(d.tensor_components(), scale)
    error = float(max(purified.errors.values(), default=0.0)) / (scale if scale > 0 else 1.0)
    certificate = replace(
        d.certificate,
        conditional_mean=purity.conditional_mean,
        cosine=purity.cosine,
        solver_error=d.certificate.solver_error + error,
    )
    stopped = not all(solution.converged for solution in purified.solutions.values())
    return replace(d, certificate=certificate.noted(STOPPED * stopped))


def _deviation(d: Decomposition) -> Array | None:
    """Return the standard deviation of the model, (n_outputs,); None where it is not known.

    It is not for dependent effects whose rows are gone, as after an edit of what was saved.
    """
    n_parts = len(d.components) + (d.remainder is not None)
    is_known = n_parts < 2 or (d.covariances is not None and len(d.covariances) == n_parts)
    return np.asarray(np.sqrt(model_variance(d))) if is_known else None


def _sentence(what: str, difference: _Difference, deviation: Array | None, link: Link) -> str:
    sizes = ", ".join(f"{size:.4g}" for size in difference.size)
    bound = "at most " if difference.is_bound else ""
    compared = ""
    if deviation is not None:
        shares = ", ".join(
            f"{size / of:.2%}" if of > 0 else "-"
            for size, of in zip(difference.size, deviation, strict=True)
        )
        compared = f"; {shares} of the standard deviation"
    loose = " The true change may be much smaller." if bound else ""
    changed = _CHANGED.get(link.name, "Raw predictions")
    return (
        f"Edited: {what}. {changed} changed by {bound}{sizes} (root mean square{compared}).{loose}"
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{', '.join(names[:_MOST_NAMED])}{more}"


def _size_of_sum(d: Decomposition, parts: Sequence[Any]) -> _Difference:
    """Return how far a model is from itself without some parts.

    Exact where the parts are tables on rows, are independent, or are a single one; else a bound:
    what is known, and the sum of the standard deviations of all others.
    """
    tables, others = _apart(parts)
    if d.rows is not None and tables:
        moments = moments_on_rows(tables, d.rows)
        return _compared_with(np.sqrt(moments.square / moments.weight), others)
    variances = [np.asarray(part.variance) for part in parts]
    if len(parts) == 1 or has_independent_effects(d):
        return _Difference(np.sqrt(np.sum(variances, axis=0)), is_bound=False)
    return _Difference(np.sum(np.sqrt(variances), axis=0), is_bound=True)


def _apart(parts: Sequence[Any]) -> tuple[list[TensorComponent], list[Any]]:
    """Return the parts that are tables, and the others."""
    tables = [part for part in parts if isinstance(part, TensorComponent)]
    return tables, [part for part in parts if not isinstance(part, TensorComponent)]


def _compared_with(known: Array, others: Sequence[Any]) -> _Difference:
    """Return a difference of which a part is known, and others are bounded by their deviations."""
    deviations = [np.sqrt(np.asarray(part.variance)) for part in others]
    return _Difference(known + np.sum(deviations, axis=0), is_bound=bool(others))


def has_independent_effects(d: Decomposition) -> bool:
    """Return whether features are independent under the measure, so that effects are too."""
    known = d.stored_covariances
    return (
        d.rows is None
        and known is not None
        and all(
            subset in known and np.array_equal(known[subset], component.variance)
            for subset, component in d.components.items()
        )
    )


def _sum_on_rows(d: Decomposition, *groups: Iterable[Any]) -> Array:
    """Return the sum of the tables of the last group, less those of one before it."""
    rows = d.grid_rows
    if rows is None:
        raise TypeError("a sum on rows needs the rows of the distribution")
    total = np.zeros((rows.n_rows, d.n_outputs))
    for sign, group in zip((1.0, -1.0), reversed(groups), strict=False):
        for component in group:
            total += sign * values_on_rows(component, rows.by_order)
    return total


def _root_mean_square(values: Array, shares: Array) -> Array:
    return np.asarray(np.sqrt((shares[:, None] * values**2).sum(axis=0)))
