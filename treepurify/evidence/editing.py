"""Take effects out of a decomposition, or put others in; what is left stays pure.

On one grid purification is linear: the purified sum of two functions is the sum of both, purified.
So every edit is the decomposition plus a purified difference.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import brief, check_result, read_numbers
from treepurify.budget import DEFAULT_BUDGET
from treepurify.certificate import STOPPED, Certificate
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
from treepurify.progress import no_report
from treepurify.purification.cascade import Purified, downward_closure, purify_effects
from treepurify.purification.purity import measure_purity
from treepurify.remainder import SumOfParts
from treepurify.spread import Spread
from treepurify.terms import read_features
from treepurify.typing import Array

# Root mean square difference from before, per output, and whether it is a bound.
_Difference = tuple[Array, bool]

REMAINDER: Subset = ()
_ROUNDING = 1e-12
_MOST_NAMED = 8
# What an edit changes, by link: where effects add up.
_CHANGED = {"identity": "Predictions", "logit": "The log-odds", "log": "The log of the mean"}


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
    gone = d.remainder if REMAINDER in out else None
    names = [d.term_name(subset) for subset in taken] + ["remainder"] * (gone is not None)
    if not names:
        return d
    what = f"without {_listed(names)}"
    facts: dict[str, Any] = {"edit": "without", "terms": names, "absorb": absorb}
    after = replace(d, components=kept, remainder=d.remainder if gone is None else None)
    onto = absorbing(kept, absorb)
    parts: list[Any] = [*taken.values()]
    if gone is not None:
        parts += gone.parts if isinstance(gone, SumOfParts) else [gone]
    if not onto or not taken or has_independent_effects(d):
        # Independent effects can take nothing over.
        return _recorded(d, after, what, facts, _size_of_sum(d, parts))
    space = effect_space(d, onto, memory_budget)
    # What the remainder adds has no cells that effects could absorb it in.
    projected = space.project(_sum_on_rows(d, taken.values()), onto)
    after, purified = add_tables(after, projected.tables, projected.pure)
    after = replace(after, intercept=after.intercept + projected.mean)
    tables, others = _apart(parts)
    change = _sum_on_rows(d, after.components.values()) - _sum_on_rows(d, kept.values())
    change += after.intercept - d.intercept - _sum_on_rows(d, tables)
    size = np.sqrt((space.shares[:, None] * change**2).sum(axis=0))
    facts |= {
        "steps": projected.steps,
        "gradient": projected.gradient,
        "converged": projected.converged,
    }
    which = "main effects" if absorb == "main" else "effects"
    where = f" on {d.grid_rows.words}" if d.grid_rows is not None and d.grid_rows.words else ""
    what += f"; the remaining {which} were adjusted to compensate{where}"
    return _recorded(d, after, what, facts, _with_bound(size, others), purified)


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
    change = _read_table(values, component, name) - component.values
    after, purified = add_tables(d, {subset: change})
    squares = (component.mass[..., None] * change**2).reshape(-1, d.n_outputs)
    facts = {"edit": "with_effect", "terms": [name], **(facts or {})}
    what = what or f"the effect of {name} replaced"
    return _recorded(d, after, what, facts, (np.sqrt(squares.sum(axis=0)), False), purified)


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
) -> tuple[Decomposition, Purified]:
    """Add tables on the cells of a decomposition's components to it, purified.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    tables : mapping of tuple of int to ndarray of float64, shape (cells..., n_outputs)
        What to add, on the cells of the component of the same features.
    pure : collection of tuple of int
        Those of them that hold pure functions and are added as they are.

    Returns
    -------
    added : Decomposition
        With the new intercept and components, and the certificate of `d`.
    purified : Purified
        The pure parts of what was added.

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
    effects = {s: EffectTensor(s, axes[s], values) for s, values in mixed.items()}
    purified = purify_effects(
        EffectTensors(np.zeros(d.n_outputs), effects), mass, axes, progress=no_report
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
    intercept = d.intercept + purified.intercept
    return replace(d, intercept=intercept, components=components), purified


def _recorded(
    d: Decomposition,
    after: Decomposition,
    what: str,
    facts: Mapping[str, Any],
    difference: _Difference,
    purified: Purified | None = None,
) -> Decomposition:
    """Return the decomposition after an edit, which its certificate and origin name."""
    size, is_bound = difference
    deviation = _deviation(d)
    entry = {**facts, "difference": size.tolist(), "difference_is_bound": is_bound}
    if not d.origin.edits and deviation is not None:
        entry["model_deviation"] = deviation.tolist()
    edits = (*d.origin.edits, Edit(entry, tuple(size.tolist()), is_bound))
    total = np.sum([edit.difference for edit in edits], axis=0)
    summary = {"value": total.tolist(), "is_bound": len(edits) > 1 or is_bound}
    # Those that were stored are covariances with the model before the edit.
    known = None
    if has_independent_effects(d):
        known = {subset: component.variance for subset, component in after.components.items()}
        known |= {} if after.remainder is None else {REMAINDER: after.remainder.variance}
    facts_left = {name: fact for name, fact in d.diagnostics.items() if name != "errors"}
    certificate = d.certificate
    if certificate is not None:
        certificate = replace(
            certificate,
            additivity=None,
            margin_error=None,
            library_rounding=None,
            edits=(*certificate.edits, _sentence(what, difference, deviation, d.link)),
            sampling_error=None if certificate.sampling_error is None else (),
        ).noted(STOPPED * (not facts.get("converged", True)))
        if purified is not None:
            certificate = _with_new_purity(certificate, after, purified)
    return replace(
        after,
        certificate=certificate,
        origin=replace(d.origin, edits=edits),
        diagnostics={**facts_left, "difference_from_model": summary},
        stored_covariances=known,
        stored_collinear=None,
        spread=_spread_of_what_stayed(d, after),
    )


def _spread_of_what_stayed(d: Decomposition, after: Decomposition) -> Spread | None:
    """Return the spread of the effects that the edit left as they were; it is of no others."""
    if d.spread is None:
        return None
    stayed = {
        subset: stacked
        for subset, stacked in d.spread.stacked.items()
        if after.components.get(subset) is d.components.get(subset)
    }
    return replace(d.spread, stacked=stayed) if stayed else None


def _with_new_purity(c: Certificate, after: Decomposition, purified: Purified) -> Certificate:
    """Return a certificate that measures the tables as they are now."""
    purity = measure_purity(after.tensor_components(), c.scale)
    error = float(max(purified.errors.values(), default=0.0)) / (c.scale if c.scale > 0 else 1.0)
    return replace(
        c,
        conditional_mean=purity.conditional_mean,
        cosine=purity.cosine,
        solver_error=c.solver_error + error,
    ).noted(STOPPED * (not all(each.converged for each in purified.solutions.values())))


def _deviation(d: Decomposition) -> Array | None:
    """Return the standard deviation of the model, (n_outputs,); None where it is not known.

    It is not for dependent effects whose rows are gone, as after an edit of what was saved.
    """
    n_parts = len(d.components) + (d.remainder is not None)
    is_known = n_parts < 2 or (d.covariances is not None and len(d.covariances) == n_parts)
    return np.asarray(np.sqrt(model_variance(d))) if is_known else None


def _sentence(what: str, difference: _Difference, deviation: Array | None, link: Link) -> str:
    size, is_bound = difference
    compared = ""
    if deviation is not None:
        pairs = zip(size, deviation, strict=True)
        shares = ", ".join(f"{own / of:.2%}" if of > 0 else "-" for own, of in pairs)
        compared = f"; {shares} of the standard deviation"
    changed = _CHANGED.get(link.name, "Raw predictions")
    return (
        f"Edited: {what}. {changed} changed by {'at most ' if is_bound else ''}"
        f"{', '.join(f'{own:.4g}' for own in size)} (root mean square{compared})."
        f"{' The true change may be much smaller.' if is_bound else ''}"
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
        return _with_bound(np.sqrt(moments.square / moments.weight), others)
    if len(parts) == 1 or has_independent_effects(d):
        variances = [np.asarray(part.variance) for part in parts]
        return np.asarray(np.sqrt(np.sum(variances, axis=0))), False
    return _with_bound(np.zeros(d.n_outputs), parts)


def _apart(parts: Sequence[Any]) -> tuple[list[TensorComponent], list[Any]]:
    """Return the parts that are tables, and the others."""
    tables = [part for part in parts if isinstance(part, TensorComponent)]
    return tables, [part for part in parts if not isinstance(part, TensorComponent)]


def _with_bound(known: Array, others: Sequence[Any]) -> _Difference:
    """Return a difference of which a part is known, and others are bounded by their deviations."""
    deviations = [np.sqrt(np.asarray(part.variance)) for part in others]
    return known + np.sum(deviations, axis=0), bool(others)


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


def _sum_on_rows(d: Decomposition, parts: Iterable[Any]) -> Array:
    """Return the sum of some tables on the rows of the distribution."""
    rows = d.grid_rows
    if rows is None:
        raise TypeError("a sum on rows needs the rows of the distribution")
    total = np.zeros((rows.n_rows, d.n_outputs))
    for part in parts:
        total += values_on_rows(part, rows.by_order)
    return total
