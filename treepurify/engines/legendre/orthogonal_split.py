"""Split a fit into components that are orthogonal to all functions of fewer of their features."""

from functools import cache
from itertools import combinations

import numpy as np

from treepurify.engines.legendre.design import LegendreBasis
from treepurify.engines.legendre.least_squares import (
    Coefficients,
    factored,
    rank_of,
)
from treepurify.engines.legendre.moments import Moments
from treepurify.grids.grid import Subset
from treepurify.typing import Array

ComponentCoefficients = dict[Subset, dict[Subset, Array]]
"""For each component the coefficients of the functions of its features and of their subsets."""

_EMPTY_SHARE = 1e-9


def split_as_fitted(basis: LegendreBasis, coefficients: Array) -> ComponentCoefficients:
    """Return each subset's own functions: orthogonal as far as the densities are right."""
    return {
        subset: {subset: coefficients[columns]}
        for subset, columns in basis.slices.items()
        if np.any(coefficients[columns])
    }


def split_orthogonally(
    basis: LegendreBasis, moments: Moments, coefficients: Array
) -> ComponentCoefficients:
    """Return components that are orthogonal to all functions of fewer of their features.

    From the largest subsets down, the part of a component that lies in the sum of the fitted
    spaces of its features' proper subsets (all their columns, selected or not) is taken out
    and given to them. The sum of all components does not change, so neither does the fit;
    what is orthogonal afterwards is orthogonal in L2 of the rows, whatever the densities. Where
    the rows let what is taken out be of one subset or of another, the functions of least norm
    are taken.
    """
    remaining = coefficients.copy()
    split: ComponentCoefficients = {}
    for subset in sorted(basis.slices, key=len, reverse=True):
        coefficients_of_subset = remaining[basis.slices[subset]]
        if not np.any(coefficients_of_subset):
            continue
        split[subset] = {subset: coefficients_of_subset.copy()}
        lower = [
            part
            for size in range(1, len(subset))
            for part in combinations(subset, size)
            if part in basis.slices
        ]
        if not lower:
            continue
        columns = basis.columns_of(lower)
        solver = factored(moments.gram, columns, basis.owner)
        right = moments.gram[columns, basis.slices[subset]] @ coefficients_of_subset
        moved = solver.solve(right)
        moved += solver.solve(right - moments.gram[np.ix_(columns, columns)] @ moved)
        start = 0
        for part in lower:
            stop = start + basis.slices[part].stop - basis.slices[part].start
            split[subset][part] = -moved[start:stop]
            remaining[basis.slices[part]] += moved[start:stop]
            start = stop
    return {subset: split[subset] for subset in sorted(split, key=lambda s: (len(s), s))}


def remove_residual_products(
    split: ComponentCoefficients,
    parts: dict[Subset, Array],
    shifts: dict[Subset, Array],
    weights: Array,
) -> tuple[ComponentCoefficients, dict[Subset, Array], dict[Subset, Array]]:
    """Return a split without the inner products that rounding left, measured on the rows.

    Where columns are nearly dependent, for example polynomials of a feature that one outlier
    presses together, solving normal equations leaves some. A component's share along those
    of fewer of its features is moved into them: they get longer but keep their direction, so
    that what is orthogonal to them stays so.

    Parameters
    ----------
    split : dict
        The coefficients of each component.
    parts : dict of tuple of int to ndarray of float64, shape (n_rows, n_outputs)
        The centred values of each component on the rows.
    shifts : dict of tuple of int to ndarray of float64, shape (n_outputs,)
        What was subtracted to centre them.
    weights : ndarray of float64, shape (n_rows,)
        Weight of each row.
    """
    split = {subset: dict(functions) for subset, functions in split.items()}
    parts, shifts = dict(parts), dict(shifts)
    for subset in sorted(split, key=len):
        proper = (c for size in range(1, len(subset)) for c in combinations(subset, size))
        inside = [part for part in proper if part in split]
        if not inside:
            continue
        shares = _shares_along(parts[subset], [parts[part] for part in inside], weights)
        for part, share in zip(inside, shares, strict=True):
            functions = split[subset]
            for function, coefficients in split[part].items():
                functions[function] = functions.get(function, 0.0) - share * coefficients
            parts[subset] = parts[subset] - share * parts[part]
            shifts[subset] = shifts[subset] - share * shifts[part]
        for part, share in zip(inside, shares, strict=True):
            split[part] = {key: (1.0 + share) * value for key, value in split[part].items()}
            parts[part] = (1.0 + share) * parts[part]
            shifts[part] = (1.0 + share) * shifts[part]
    return split, parts, shifts


def _shares_along(part: Array, inside: list[Array], weights: Array) -> Array:
    """Return the least squares coefficients on a few functions, shape (len(inside), n_outputs)."""
    root = np.sqrt(weights)
    shares = np.zeros((len(inside), part.shape[1]))
    for k in range(part.shape[1]):
        functions = np.stack([root * other[:, k] for other in inside], axis=1)
        lengths = np.sqrt(np.sum(functions**2, axis=0))
        used = lengths > _EMPTY_SHARE * max(float(lengths.max(initial=0.0)), np.finfo(float).tiny)
        if np.any(used):
            unit = functions[:, used] / lengths[used]
            solution = np.linalg.lstsq(unit, root * part[:, k], rcond=None)[0]
            shares[used, k] = solution / lengths[used]
    return shares


def moving_directions(basis: LegendreBasis, moments: Moments, split: ComponentCoefficients) -> int:
    """Return how many functions can be part of one component or of another.

    For two features it is the dimension of the functions that both main effects have, such as a
    constant on each of two blocks of levels that no row connects. For three features it is that
    of the pure effects of two and one of them, less the dimension of their sum; what two features
    share is not counted again.
    """

    @cache
    def rank(subsets: tuple[Subset, ...]) -> int:
        return rank_of(moments.gram, basis.columns_of(subsets))

    def below(subset: Subset) -> tuple[Subset, ...]:
        sizes = range(1, len(subset))
        parts = (part for size in sizes for part in combinations(subset, size))
        return tuple(part for part in parts if part in basis.slices)

    def open_in(subset: Subset) -> int:
        pure = sum(rank((*below(part), part)) - rank(below(part)) for part in below(subset))
        return pure - rank(below(subset))

    used = sorted({j for subset in split for j in subset})
    shared = {pair: open_in(pair) for pair in combinations(used, 2)}
    larger = (subset for subset in split if len(subset) > 2)
    beyond = (open_in(s) - sum(shared[pair] for pair in combinations(s, 2)) for s in larger)
    return sum(shared.values()) + sum(max(number, 0) for number in beyond)


def fit_directions(coefficients: Coefficients, moving: int) -> int:
    """Return the number of further directions of the selected columns that the rows leave open."""
    return max(max(coefficients.open_directions, default=0) - moving, 0)
