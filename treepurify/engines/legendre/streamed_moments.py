"""Moments of a regression over rows that come in batches: sums of products of its columns."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from treepurify.engines.common.functions import RowFunction
from treepurify.engines.legendre.design import (
    Basis,
    Moments,
    fill_design,
    mirror_upper,
    rows_a_block,
)
from treepurify.rows.columns import Columns
from treepurify.rows.source_reader import RowBatch
from treepurify.typing import Array

__all__ = ["BasisMoments", "Centre", "MomentSums", "ResidualProducts", "moments_of_sums"]

# A standard deviation of so much of the largest value is rounding.
_ROUNDING = 1e-14


@dataclass(frozen=True, eq=False)
class Centre:
    """A basis and a function, and about what both are centred before products are summed.

    Parameters
    ----------
    basis : Basis
        The columns.
    f : RowFunction
        The function.
    of_columns : ndarray of float64, shape (n_columns,)
        Is taken off the columns.
    of_values : ndarray of float64, shape (n_outputs,)
        Is taken off the function.
    """

    basis: Basis
    f: RowFunction
    of_columns: Array
    of_values: Array

    def blocks(self, rows: RowBatch) -> Iterator[tuple[Array, Array, Array]]:
        """Yield weights, columns (n_columns, n_rows) and values (n_rows, n_outputs) of rows."""
        columns, weights = rows.columns, rows.weights
        if weights is None:
            weights = np.ones(columns.n_rows)
        elif not np.all(weights > 0):
            kept = np.flatnonzero(weights > 0)
            columns, weights = columns.take(kept), weights[kept]
        wanted = list(self.basis.densities)
        height = rows_a_block(self.basis.n_columns)
        for start in range(0, columns.n_rows, height):
            part: Columns = columns.part(start, start + height)
            coordinates = {
                j: axis.coordinates(part.values[j]) for j, axis in self.basis.axes.items()
            }
            block = np.empty((self.basis.n_columns, part.n_rows))
            fill_design(self.basis, coordinates, wanted, block)
            block -= self.of_columns[:, None]
            yield weights[start : start + height], block, self.f(part) - self.of_values


@dataclass(eq=False)
class MomentSums:
    """Weighted sums over rows, of what is centred about fixed numbers.

    Parameters
    ----------
    n_rows : int
        Number of rows of positive weight.
    weight : float
        Sum of their weights.
    columns : ndarray of float64, shape (n_columns,)
    products : ndarray of float64, shape (n_columns, n_columns)
        The columns, and their products; the lower triangle counts.
    with_values : ndarray of float64, shape (n_columns, n_outputs)
        Products of columns and function.
    values, squares, largest : ndarray of float64, shape (n_outputs,)
        The function, its square, and its largest absolute value.
    """

    n_rows: int
    weight: float
    columns: Array
    products: Array
    with_values: Array
    values: Array
    squares: Array
    largest: Array


@dataclass(frozen=True, eq=False)
class BasisMoments:
    """The statistic of the moments of a basis and a function."""

    centre: Centre

    def zero(self) -> MomentSums:
        """Return the sums over no rows."""
        n_columns, n_outputs = self.centre.basis.n_columns, self.centre.f.n_outputs
        nothing = np.zeros((3, n_outputs))
        return MomentSums(
            0,
            0.0,
            np.zeros(n_columns),
            np.zeros((n_columns, n_columns), order="F"),
            np.zeros((n_columns, n_outputs)),
            *nothing,
        )

    def add(self, state: MomentSums, rows: RowBatch) -> MomentSums:
        """Return the sums with those over a batch."""
        from scipy.linalg.blas import dsyrk

        for weights, block, values in self.centre.blocks(rows):
            state.n_rows += len(weights)
            state.weight += float(weights.sum())
            weighted = weights[:, None] * values
            state.values = state.values + weighted.sum(axis=0)
            state.squares = state.squares + (weighted * values).sum(axis=0)
            largest = np.abs(values + self.centre.of_values).max(axis=0, initial=0.0)
            state.largest = np.maximum(state.largest, largest)
            if not len(block):
                continue
            state.columns += block @ weights
            state.with_values += block @ weighted
            np.multiply(block, np.sqrt(weights), out=block)
            state.products = dsyrk(
                1.0, block.T, beta=1.0, c=state.products, trans=1, lower=1, overwrite_c=1
            )
        return state

    def merge(self, state: MomentSums, other: MomentSums) -> MomentSums:
        """Return the sums over the rows of both."""
        state.n_rows += other.n_rows
        state.weight += other.weight
        state.columns += other.columns
        state.products += other.products
        state.with_values += other.with_values
        state.values = state.values + other.values
        state.squares = state.squares + other.squares
        state.largest = np.maximum(state.largest, other.largest)
        return state


def moments_of_sums(centre: Centre, sums: MomentSums) -> Moments:
    """Return the moments about the means of all rows."""
    columns, values = sums.columns / sums.weight, sums.values / sums.weight
    lower = np.asarray(sums.products) / sums.weight - np.outer(columns, columns)
    # The transpose of the lower triangle is an upper one.
    gram = np.ascontiguousarray(lower.T)
    mirror_upper(gram)
    squares = sums.squares / sums.weight - values**2
    is_constant = np.sqrt(np.maximum(squares, 0.0)) <= _ROUNDING * sums.largest
    covariances = sums.with_values / sums.weight - np.outer(columns, values)
    return Moments(
        gram,
        columns + centre.of_columns,
        np.where(is_constant, 0.0, covariances),
        values + centre.of_values,
        np.where(is_constant, 0.0, squares),
    )


@dataclass(frozen=True, eq=False)
class ResidualProducts:
    """The statistic of the weighted sums of columns times what coefficients leave of the function.

    Parameters
    ----------
    centre : Centre
        Columns and function, about their means.
    coefficients : ndarray of float64, shape (n_columns, n_outputs)
        The coefficients.
    """

    centre: Centre
    coefficients: Array

    def zero(self) -> Array:
        """Return the sums over no rows."""
        return np.zeros_like(self.coefficients)

    def add(self, state: Array, rows: RowBatch) -> Array:
        """Return the sums with those over a batch."""
        for weights, block, values in self.centre.blocks(rows):
            rest = values - block.T @ self.coefficients
            state += block @ (weights[:, None] * rest)
        return state

    def merge(self, state: Array, other: Array) -> Array:
        """Return the sums over the rows of both."""
        return state + other
