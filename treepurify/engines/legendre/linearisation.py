"""Products of two functions of one feature, as sums of a few functions of it.

A product of two Legendre polynomials is a sum of polynomials (their linearisation; its coefficients
are integrals of three polynomials), and a product of two contrasts of levels a sum of a contrast
and an indicator. So moments of products need far fewer sums over rows than there are products.
"""

from functools import lru_cache

import numpy as np

from treepurify.engines.legendre.scaling import (
    Axis,
    ContinuousAxis,
    GappedAxis,
    LevelAxis,
    legendre_table,
)
from treepurify.typing import Array

__all__ = ["functions_and_extras", "n_extras", "product_coefficients"]


def functions_and_extras(axis: Axis, coordinates: Array, degree: int) -> tuple[Array, Array]:
    """Return the functions of an axis, and what their products need beside them and the constant.

    Shapes (n_rows, n_functions) and (n_rows, n_extras).
    """
    if isinstance(axis, LevelAxis):
        reference = coordinates == axis.reference
        return axis.functions(coordinates, degree), reference[:, None].astype(np.float64)
    if isinstance(axis, GappedAxis):
        known = ~np.isnan(coordinates)
        functions = axis.functions(coordinates, degree)
        extras = np.zeros((len(coordinates), n_extras(axis, degree)))
        extras[known, 0] = 1.0
        extras[known, 1:] = functions_and_extras(axis.numbers, coordinates[known], degree)[1]
        return functions, extras
    n_polynomials = axis.n_polynomials(degree)
    table = legendre_table(coordinates, 2 * n_polynomials)
    if n_polynomials == degree:
        return table[:, 1 : degree + 1], table[:, degree + 1 :]
    functions = axis.functions(coordinates, degree)
    polynomials, tails = functions[:, :n_polynomials], functions[:, n_polynomials:]
    first, second = tails.T[:, :, None]
    return functions, np.hstack(
        [
            table[:, n_polynomials + 1 :],
            polynomials * first,
            polynomials * second,
            tails * first,
            second**2,
        ]
    )


def n_extras(axis: Axis, degree: int) -> int:
    """Return how many functions the products need beside the constant and the functions."""
    if isinstance(axis, LevelAxis):
        return 1
    if isinstance(axis, GappedAxis):
        return 1 + n_extras(axis.numbers, degree)
    n_polynomials = axis.n_polynomials(degree)
    return n_polynomials if n_polynomials == degree else 3 * n_polynomials + 3


def product_coefficients(axis: Axis, degree: int) -> Array:
    """Return the coefficients of all products of two functions of an axis.

    Shape (n_functions, n_functions, 1 + n_functions + n_extras): of the constant, of the functions
    and of what `functions_and_extras` returns beside them.
    """
    n_functions = axis.n_functions(degree)
    shape = (n_functions, n_functions, 1 + n_functions + n_extras(axis, degree))
    coefficients = np.zeros(shape)
    every = np.arange(n_functions)
    if isinstance(axis, LevelAxis):
        # Of different levels only the reference is left, of a level with itself it and the level.
        coefficients[:, :, -1] = 1.0
        coefficients[every, every, -1] = 2.0
        coefficients[every, every, 1 + every] = 1.0
    elif isinstance(axis, GappedAxis):
        own = product_coefficients(axis.numbers, degree)
        size = n_functions - 1
        coefficients[:size, :size, 1 : 1 + size] = own[:, :, 1 : 1 + size]
        # What is constant for numbers is zero where they are missing.
        coefficients[:size, :size, n_functions + 1] = own[:, :, 0]
        coefficients[:size, :size, n_functions + 2 :] = own[:, :, 1 + size :]
        coefficients[size, size, 1 + size] = 1.0
    else:
        _fill_continuous(axis, degree, coefficients)
    return coefficients


def _fill_continuous(axis: ContinuousAxis, degree: int, coefficients: Array) -> None:
    size = axis.n_polynomials(degree)
    of_polynomials = _legendre_products(size)
    coefficients[:size, :size, : size + 1] = of_polynomials[:, :, : size + 1]
    beyond = degree + 1
    coefficients[:size, :size, beyond : beyond + size] = of_polynomials[:, :, size + 1 :]
    if size == degree:
        return
    at = beyond + size
    every = np.arange(size)
    for tail in (size, size + 1):
        coefficients[every, tail, at + every] = coefficients[tail, every, at + every] = 1.0
        at += size
    for one, other in ((0, 0), (0, 1), (1, 1)):
        coefficients[size + one, size + other, at] = coefficients[size + other, size + one, at] = 1
        at += 1


@lru_cache(maxsize=64)
def _legendre_products(degree: int) -> Array:
    """Return the integrals of three normalised polynomials, (degree, degree, 2 degree + 1)."""
    nodes, weights = np.polynomial.legendre.leggauss(2 * degree + 1)
    table = legendre_table(nodes, 2 * degree)
    own = table[:, 1 : degree + 1]
    integrals = np.einsum("n,na,nc,nm->acm", weights, own, own, table)
    one, other, third = np.ogrid[1 : degree + 1, 1 : degree + 1, 0 : 2 * degree + 1]
    reached = (
        (abs(one - other) <= third) & (third <= one + other) & ((one + other + third) % 2 == 0)
    )
    integrals = np.where(reached, integrals, 0.0)
    # The first of the normalised polynomials is a constant, but not one.
    integrals[:, :, 0] *= np.sqrt(0.5)
    return integrals
