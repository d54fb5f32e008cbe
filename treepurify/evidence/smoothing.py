"""Smooth an effect along its numeric features, and purify the model with it.

Purification can leave main effects rougher than the model's own terms, since it brings back what
was hidden in interactions (Lengerich et al. 2020, section 7.2).
"""

from typing import Any, Literal, get_args

import numpy as np

from treepurify._kernels.fused_steps import fuse_steps
from treepurify.arguments import check_choice, check_number, check_result
from treepurify.budget import DEFAULT_BUDGET, check_budget, check_memory_budget
from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition, Key
from treepurify.errors import InvalidInputError
from treepurify.evidence.editing import with_effect
from treepurify.grids.axis import FeatureAxis
from treepurify.terms import read_features
from treepurify.typing import Array

__all__ = ["SmoothingMethod", "nearest_monotone", "smooth_effect", "smoother_of_degrees"]

SmoothingMethod = Literal["degrees", "total_variation", "monotone", "increasing", "decreasing"]

_DEGREES, _KEPT_VARIATION = 6.0, 0.5
# Weight of a cell without mass, relative to the mean of all: its value is smoothed too, but does
# not count.
_EMPTY_CELL = 1e-9
# Matrices of all cells by all cells that a smoother takes at once.
_MATRICES = 8
_MOST_TURNS = 2000
_STILL = 1e-10


def smooth_effect(
    d: Decomposition,
    key: Key,
    *,
    method: SmoothingMethod = "degrees",
    amount: float | None = None,
    memory_budget: int = DEFAULT_BUDGET,
) -> Decomposition:
    """Replace an effect by a smoother one, and purify the edited model.

    Smoothing is along numeric features only; categories and missing values are not smoothed. Cells
    are weighted by their mass.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    key : str, int or tuple
        The effect of one or two features, as in ``d[key]``.
    method : {"degrees", "total_variation", "monotone", "increasing", "decreasing"}
        ``"degrees"``: penalised second differences, with `amount` degrees of freedom along each
        numeric feature (Eilers and Marx 1996); for a pair, the product of the smoothers of both
        features. ``"total_variation"``: the nearest effect whose total variation (the sum of
        absolute differences between neighbouring cells) is the share `amount` of the original one;
        for a pair, each line of cells is smoothed along one feature, then along the other.
        ``"increasing"``, ``"decreasing"``: the nearest such effect, along every numeric feature of
        a pair. ``"monotone"``: the nearer of these two.
    amount : float, optional
        For ``"degrees"``, the degrees of freedom, 2 (a straight line) or more, by default 6. For
        ``"total_variation"``, the share of the total variation to retain, from 0 to 1, by default
        0.5. Not allowed for monotone effects.
    memory_budget : int
        Bytes that the smoother of a feature may take; they grow with the square of the number of
        cells.

    Returns
    -------
    Decomposition
        Pure under the same distribution, on the margin scale. Its certificate states how much
        predictions change, and ``origin.edits`` how the effect was smoothed. After a pair has been
        smoothed, it is purified again, so parts of it move to the main effects. The sum of these
        parts and the new pair is then increasing, for example, but the pair alone is not, since it
        has mean zero along each feature, over this distribution.

    Raises
    ------
    InvalidInputError
        If the effect has more than two features, none of them is numeric, or an option cannot be
        used.
    MemoryBudgetError
        If a feature has too many cells for its smoother to fit.

    See Also
    --------
    Decomposition.with_effect : Replace the values of an effect.
    check_monotonicity : Proof or counter-example of monotonicity.
    simplify : The fewest effects that the held-out loss allows.

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
        raise InvalidInputError(
            f"only effects of one or two features can be smoothed, got {name!r}"
        )
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
        words += ", and its main-effect part moved to the main effects"
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
            f'amount applies to "degrees" and "total_variation"; leave it out for method={method!r}'
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


def smoother_of_degrees(at: Array, weights: Array, degrees: float) -> Array:
    """Return the matrix that smooths values at some places to given degrees of freedom.

    It minimises the weighted squared distance plus a multiple of the squared second divided
    differences; the multiple is such that the trace of the matrix is `degrees`. Weighted means and
    straight lines stay as they are.

    Parameters
    ----------
    at : ndarray of float64, shape (n_cells,)
        Increasing places.
    weights : ndarray of float64, shape (n_cells,)
        Positive weights.
    degrees : float
        From 2, for a straight line; with `n_cells` or more values stay as they are.

    Returns
    -------
    ndarray of float64, shape (n_cells, n_cells)
    """
    from scipy.linalg import qr, svd
    from scipy.optimize import brentq

    n_cells = len(at)
    if degrees >= n_cells or n_cells <= 2:
        return np.eye(n_cells)
    root = np.sqrt(weights)
    at = (at - at[0]) / (at[-1] - at[0])
    basis, _ = qr(root[:, None] * np.column_stack([np.ones(n_cells), at]))
    # Second differences are undone rather than done: where places or weights differ widely, their
    # own small eigenvalues, those of smooth directions, would be lost next to the large ones.
    bent = np.maximum(at[:, None] - at[None, 1:-1], 0.0) * np.sqrt((at[2:] - at[:-2]) / 2)
    vectors, smoothness, _ = svd(basis[:, 2:].T @ (root[:, None] * bent))
    smoothness = np.maximum(smoothness / smoothness[0], np.finfo(float).eps) ** 2
    if degrees <= 2:
        kept = np.zeros(n_cells - 2)
    else:

        def excess(log_penalty: float) -> float:
            left = smoothness / (smoothness + np.exp(log_penalty))
            return float(left.sum()) + 2.0 - degrees

        # Ends at which all, and next to none, of the bent directions are left.
        ends = np.log(smoothness[-1]) - 50.0, np.log(smoothness[0]) + 50.0
        kept = smoothness / (smoothness + np.exp(brentq(excess, *ends, xtol=1e-12)))
    directions = np.concatenate([basis[:, :2], basis[:, 2:] @ vectors], axis=1)
    kept = np.concatenate([[1.0, 1.0], kept])
    return np.asarray((directions / root[:, None] * kept) @ (directions * root[:, None]).T)


def nearest_monotone(
    table: Array, weights: Array, places: list[int], direction: str
) -> tuple[Array, dict[str, Any]]:
    """Return the nearest table that is monotone along some axes, and how it was found.

    One axis takes isotonic regressions; several, alternating ones with Dykstra's correction,
    until they agree.

    Parameters
    ----------
    table : ndarray of float64, shape (cells..., n_outputs)
        The table.
    weights : ndarray of float64, shape (cells...)
        Positive weights.
    places : list of int
        The axes.
    direction : {"increasing", "decreasing", "monotone"}
        The last takes the nearer of the others, over all outputs together.
    """
    if direction == "monotone":
        both = [
            nearest_monotone(table, weights, places, way) for way in ("increasing", "decreasing")
        ]
        far = [float((weights[..., None] * (found - table) ** 2).sum()) for found, _ in both]
        return both[int(far[1] < far[0])]
    is_increasing = direction == "increasing"
    if len(places) == 1:
        found = _isotonic(table, weights, places[0], is_increasing=is_increasing)
        return found, {"direction": direction}
    scale = float(np.abs(table).max(initial=0.0))
    current = table
    corrections = [np.zeros_like(table) for _ in places]
    turns, moved = 0, np.inf
    while moved > _STILL * scale and turns < _MOST_TURNS:
        before = current
        for i, place in enumerate(places):
            corrected = current + corrections[i]
            current = _isotonic(corrected, weights, place, is_increasing=is_increasing)
            corrections[i] = corrected - current
        moved = float(np.abs(current - before).max(initial=0.0))
        turns += 1
    facts = {"direction": direction, "turns": turns, "converged": moved <= _STILL * scale}
    return current, facts


def _isotonic(table: Array, weights: Array, place: int, *, is_increasing: bool) -> Array:
    from scipy.optimize import isotonic_regression

    lines = np.moveaxis(table, place, -1)
    weigh = np.broadcast_to(np.moveaxis(weights[..., None], place, -1), lines.shape)
    fitted = np.empty_like(lines)
    for index in np.ndindex(*lines.shape[:-1]):
        fitted[index] = isotonic_regression(
            lines[index], weights=weigh[index], increasing=is_increasing
        ).x
    return np.moveaxis(fitted, -1, place)
