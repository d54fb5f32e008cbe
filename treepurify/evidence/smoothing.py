"""Smooth the main effect of a numeric feature, and purify the model with it.

Purification can leave main effects rougher than the model's own terms, since it brings back what
was hidden in interactions (Lengerich et al. 2020, section 7.2).
"""

from typing import Literal, get_args

import numpy as np

from treepurify.arguments import check_choice, check_number, check_result
from treepurify.budget import DEFAULT_BUDGET, check_budget, check_memory_budget
from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition, Key
from treepurify.errors import InvalidInputError
from treepurify.evidence.editing import with_effect
from treepurify.grids.axis import FeatureAxis
from treepurify.terms import read_features
from treepurify.typing import Array

SmoothingMethod = Literal["degrees", "monotone", "increasing", "decreasing"]

_DEGREES = 6.0
# Weight of a cell without mass, relative to the mean of all: its value is smoothed too, but does
# not count.
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
    """Replace an effect by a smoother one, and purify the edited model.

    Smoothing is along the intervals of a numeric feature, which are weighted by their mass; missing
    values keep their effect.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    key : str, int or tuple
        The main effect, as in ``d[key]``.
    method : {"degrees", "monotone", "increasing", "decreasing"}
        ``"degrees"``: penalised second differences, with `amount` degrees of freedom (Eilers and
        Marx 1996). ``"increasing"``, ``"decreasing"``: the nearest such effect. ``"monotone"``: the
        nearer of these two.
    amount : float, optional
        For ``"degrees"``, the degrees of freedom, 2 (a straight line) or more, by default 6. Not
        allowed for monotone effects.
    memory_budget : int
        Bytes that the smoother of a feature may take; they grow with the square of the number of
        cells.

    Returns
    -------
    Decomposition
        Pure under the same distribution, on the margin scale. Its certificate states how much
        predictions change, and ``origin.edits`` how the effect was smoothed.

    Raises
    ------
    InvalidInputError
        If the effect is not the main effect of a numeric feature, or an option cannot be used.
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
    if not isinstance(component, TensorComponent) or len(subset) > 1:
        raise InvalidInputError(f"only main effects can be smoothed, got {name!r}")
    component = component.stored()
    (axis,) = component.axes
    if axis.is_categorical or axis.n_regular < 2:
        raise InvalidInputError(f"{name!r} is not numeric, or has one interval: nothing to smooth")
    mass, values = component.mass[: axis.n_regular], component.values.copy()
    weights = np.maximum(mass, _EMPTY_CELL * (mass.mean() or 1.0))
    line = values[: axis.n_regular]
    facts = {"edit": "smooth_effect", "method": method, "amount": amount}
    if amount is None:
        smooth, direction = _nearest_monotone(line, weights, method)
        words, facts["direction"] = f"made {direction}", direction
    else:
        _check_cells(axis, memory_budget)
        smooth = smoother_of_degrees(_middles(axis), weights, amount) @ line
        words = f"smoothed to {amount:g} degrees of freedom"
    values[: axis.n_regular] = smooth
    return with_effect(d, key, values, what=f"the effect of {name} {words}", facts=facts)


def _read_amount(method: str, amount: float | None) -> float | None:
    if method == "degrees":
        chosen = _DEGREES if amount is None else amount
        check_number("amount, the degrees of freedom,", chosen, least=2)
        return float(chosen)
    if amount is not None:
        raise InvalidInputError(f'amount applies to "degrees"; leave it out for method={method!r}')
    return None


def _check_cells(axis: FeatureAxis, memory_budget: int) -> None:
    check_budget(
        8 * _MATRICES * axis.n_regular**2,
        memory_budget,
        f"the smoother of the {axis.n_regular} cells of {axis.name!r}",
        'Use method="monotone".',
    )


def _middles(axis: FeatureAxis) -> Array:
    """Return the middle of each interval; outer ones end with the data, where these are known."""
    cuts = np.asarray(axis.cuts)
    width = float(np.diff(cuts).mean()) if len(cuts) > 1 else 1.0
    lower, upper = axis.bounds or (cuts[0] - width, cuts[-1] + width)
    edges = np.concatenate([[min(lower, cuts[0])], cuts, [max(upper, cuts[-1])]])
    return np.asarray((edges[1:] + edges[:-1]) / 2)


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


def _nearest_monotone(line: Array, weights: Array, method: str) -> tuple[Array, str]:
    """Return the nearest monotone values of all outputs, and their direction."""
    from scipy.optimize import isotonic_regression

    ways = ("increasing", "decreasing") if method == "monotone" else (method,)
    found = {}
    for way in ways:
        rises = way == "increasing"
        fitted = [isotonic_regression(own, weights=weights, increasing=rises).x for own in line.T]
        found[way] = np.stack(fitted, axis=1)
    nearest = min(ways, key=lambda way: float((weights @ (found[way] - line) ** 2).sum()))
    return found[nearest], nearest
