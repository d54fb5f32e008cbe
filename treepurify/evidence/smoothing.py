"""Smooth an effect along its numeric features, and purify the model with it.

Purification can leave main effects rougher than the model's own terms, since it brings back what
was hidden in interactions (Lengerich et al. 2020, section 7.2).
"""

from typing import Any, Literal, get_args

import numpy as np

from treepurify._kernels.fused_steps import fuse_steps
from treepurify.arguments import check_choice, check_number, check_result, read_features
from treepurify.budget import DEFAULT_BUDGET, check_budget, check_memory_budget
from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition, Key
from treepurify.errors import InvalidInputError
from treepurify.evidence.editing import with_effect
from treepurify.evidence.shaping import nearest_monotone, smoother_of_degrees
from treepurify.grids.axis import FeatureAxis
from treepurify.typing import Array

__all__ = ["SmoothingMethod", "smooth_effect"]

SmoothingMethod = Literal["degrees", "total_variation", "monotone", "increasing", "decreasing"]

_DEGREES, _KEPT_VARIATION = 6.0, 0.5
# What a cell without mass weighs beside the mean of all: its value is smoothed too, but does not
# count.
_EMPTY_CELL = 1e-9
# Matrices of all cells by all cells that a smoother takes at once.
_MATRICES = 8


def smooth_effect(
    d: Decomposition,
    key: Key,
    *,
    method: SmoothingMethod = "degrees",
    amount: float | None = None,
    memory_budget: int = DEFAULT_BUDGET,
) -> Decomposition:
    """Replace an effect by a smoother one, and purify the model with it.

    Only numeric features are smoothed; categories, and cells of missing values, stay apart. Cells
    count by their mass.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    key : str, int or tuple
        The effect of one or two features, as in ``d[key]``.
    method : {"degrees", "total_variation", "monotone", "increasing", "decreasing"}
        ``"degrees"``: penalised second differences, with `amount` degrees of freedom along each
        numeric feature (Eilers and Marx 1996); of a pair the product of both smoothers.
        ``"total_variation"``: the nearest effect whose absolute differences between
        neighbouring cells add up to the share `amount` of what they were; of a pair each line
        of cells along the one feature, then along the other. ``"increasing"``,
        ``"decreasing"``: the nearest such effect, along every numeric feature of a pair;
        ``"monotone"``: the nearer of the two.
    amount : float, optional
        Degrees of freedom, 2 (a straight line) or more, 6 by default; or the share of the total
        variation that stays, from 0 to 1, a half by default. Monotone effects take none.
    memory_budget : int
        Bytes that the smoother of a feature may take; it grows with the square of its cells.

    Returns
    -------
    Decomposition
        Pure under the same measure. Its certificate says by how much it differs from before, and
        ``diagnostics["edits"]`` how it was found. A pair is smoothed as it is, and parts of what
        comes out then move to main effects: together they are increasing, for example, but what
        stays of the pair is not, since it has mean zero along each feature.

    Raises
    ------
    InvalidInputError
        If the effect has more than two features, none of them is numeric, or an option cannot be
        used.
    MemoryBudgetError
        If a feature has too many cells for its smoother to fit.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.ensemble import GradientBoostingRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(500, 2))
    >>> model = GradientBoostingRegressor(random_state=0).fit(X, X[:, 0] + rng.normal(size=500))
    >>> smooth = tp.smooth_effect(tp.purify(model, X), "x0", method="increasing")
    >>> bool(np.all(np.diff(smooth["x0"].values[:, 0]) > -1e-12))
    True
    """
    check_result("d", d, Decomposition)
    check_choice("method", method, get_args(SmoothingMethod))
    check_memory_budget(memory_budget)
    amount = _read_amount(method, amount)
    subset = read_features(key, d.feature_names)
    component = d[key]
    name = d.term_name(subset)
    if not isinstance(component, TensorComponent) or len(subset) > 2:
        raise InvalidInputError(f"effects of one or two features are smoothed, got {name!r}")
    component = component.stored()
    places = [
        place
        for place, axis in enumerate(component.axes)
        if not axis.is_categorical and axis.n_regular > 1
    ]
    if not places:
        raise InvalidInputError(f"{name!r} has no numeric feature to smooth along")
    if method == "degrees":
        for place in places:
            _check_cells(component.axes[place], memory_budget)
    values, found = _smooth(component, places, method, amount)
    words = f"made {found.get('direction')}"
    if amount is not None and method == "degrees":
        words = f"smoothed to {amount:g} degrees of freedom"
    elif amount is not None:
        words = f"smoothed to {amount:.0%} of its total variation"
    if len(subset) > 1:
        words += ", after which parts of it moved to main effects"
    facts = {"edit": "smooth_effect", "method": method, "amount": amount, **found}
    return with_effect(d, key, values, what=f"the effect of {name} {words}", facts=facts)


def _read_amount(method: str, amount: float | None) -> float | None:
    if method == "degrees":
        chosen = _DEGREES if amount is None else amount
        check_number("amount, the degrees of freedom,", chosen, least=2)
        return float(chosen)
    if method == "total_variation":
        chosen = _KEPT_VARIATION if amount is None else amount
        check_number("amount, the share of the total variation,", chosen, least=0, most=1)
        return float(chosen)
    if amount is not None:
        raise InvalidInputError(
            f'amount is for "degrees" and "total_variation"; method={method!r} takes none'
        )
    return None


def _check_cells(axis: FeatureAxis, memory_budget: int) -> None:
    check_budget(
        8 * _MATRICES * axis.n_regular**2,
        memory_budget,
        f"the smoother of the {axis.n_regular} cells of {axis.name!r}",
        'Use method="total_variation".',
    )


def _smooth(
    component: TensorComponent, places: list[int], method: str, amount: float | None
) -> tuple[Array, dict[str, Any]]:
    """Return the smoothed table, and how it was found."""
    regular = tuple(
        slice(0, axis.n_regular if place in places else axis.n_cells)
        for place, axis in enumerate(component.axes)
    )
    mass = component.mass[regular]
    weights = np.maximum(mass, _EMPTY_CELL * (mass.mean() or 1.0))
    table = component.values[regular]
    found: dict[str, Any] = {}
    if amount is not None and method == "degrees":
        for place in places:
            others = tuple(other for other in range(mass.ndim) if other != place)
            at = _middles(component.axes[place])
            smoother = smoother_of_degrees(at, weights.sum(axis=others), amount)
            table = np.moveaxis(np.tensordot(smoother, table, axes=(1, place)), 0, place)
    elif amount is not None:
        for place in places:
            table = _with_less_variation(table, weights, place, amount)
    else:
        table, found = nearest_monotone(table, weights, places, method)
    values = component.values.copy()
    values[regular] = table
    return values, found


def _middles(axis: FeatureAxis) -> Array:
    """Return the middle of each interval; outer ones end with the data, where these are known."""
    cuts = np.asarray(axis.cuts)
    width = float(np.diff(cuts).mean()) if len(cuts) > 1 else 1.0
    lower, upper = axis.bounds or (cuts[0] - width, cuts[-1] + width)
    edges = np.concatenate([[min(lower, cuts[0])], cuts, [max(upper, cuts[-1])]])
    return np.asarray((edges[1:] + edges[:-1]) / 2)


def _with_less_variation(table: Array, weights: Array, place: int, share: float) -> Array:
    """Return a table whose lines along one axis keep a share of their total variation each."""
    lines = np.array(np.moveaxis(table, place, 0), order="C")
    shape = lines.shape
    weigh = np.repeat(np.moveaxis(weights, place, 0)[..., None], shape[-1], axis=-1)
    columns = lines.reshape(shape[0], -1)
    fuse_steps(columns, np.ascontiguousarray(weigh.reshape(shape[0], -1)), share)
    return np.moveaxis(columns.reshape(shape), 0, place)
