"""The nearest table of some shape, cells counted by their weights."""

from typing import Any

import numpy as np

from treepurify.typing import Array

__all__ = ["nearest_monotone", "smoother_of_degrees"]

_MOST_TURNS = 2000
_STILL = 1e-10


def smoother_of_degrees(at: Array, weights: Array, degrees: float) -> Array:
    """Return the matrix that smooths values at some places to so many degrees of freedom.

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
    # own small eigenvalues, those of smooth directions, would be lost beside the large ones.
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
