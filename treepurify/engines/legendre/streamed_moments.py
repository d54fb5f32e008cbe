"""Moments of a regression over rows that come in batches: sums of products of its columns."""

from collections.abc import Iterator, Mapping
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
from treepurify.progress import ProgressReport
from treepurify.rows.columns import Columns
from treepurify.rows.reduction import RowStream
from treepurify.rows.source_reader import RowBatch
from treepurify.typing import Array

__all__ = ["Centre", "ResidualProducts", "ValueSums", "stream_moments"]

# A standard deviation of so much of the largest value is rounding.
_ROUNDING = 1e-14

RowPart = tuple[Mapping[int, Array], Array, Array]


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

    def parts(self, rows: RowBatch, height: int) -> Iterator[RowPart]:
        """Yield coordinates, weights and centred values (n_rows, n_outputs) of rows."""
        columns, weights = rows.of_weight()
        for start in range(0, columns.n_rows, height):
            part: Columns = columns.part(start, start + height)
            coordinates = {
                j: axis.coordinates(part.values[j]) for j, axis in self.basis.axes.items()
            }
            yield coordinates, weights[start : start + height], self.f(part) - self.of_values

    def blocks(self, rows: RowBatch) -> Iterator[tuple[Array, Array, Array]]:
        """Yield weights, columns (n_columns, n_rows) and values (n_rows, n_outputs) of rows.

        The columns are written to again in the next step.
        """
        wanted = list(self.basis.densities)
        height = rows_a_block(self.basis.n_columns)
        memory = np.empty((self.basis.n_columns, min(height, rows.columns.n_rows)))
        for coordinates, weights, values in self.parts(rows, height):
            block = memory[:, : len(weights)]
            fill_design(self.basis, coordinates, wanted, block)
            block -= self.of_columns[:, None]
            yield weights, block, values


@dataclass(eq=False)
class ValueSums:
    """Weighted sums over rows of a function about fixed numbers.

    Parameters
    ----------
    n_rows : int
        Number of rows of positive weight.
    weight : float
        Sum of their weights.
    values, squares, largest : ndarray of float64, shape (n_outputs,)
        The function, its square, and the largest absolute value of the function itself.
    """

    n_rows: int
    weight: float
    values: Array
    squares: Array
    largest: Array

    def add(self, weights: Array, values: Array, centre: Array) -> None:
        """Add rows with the function about `centre`."""
        weighted = weights[:, None] * values
        self.n_rows += len(weights)
        self.weight += float(weights.sum())
        self.values = self.values + weighted.sum(axis=0)
        self.squares = self.squares + (weighted * values).sum(axis=0)
        largest = np.abs(values + centre).max(axis=0, initial=0.0)
        self.largest = np.maximum(self.largest, largest)

    def merge(self, other: "ValueSums") -> None:
        """Add the sums over other rows."""
        self.n_rows += other.n_rows
        self.weight += other.weight
        self.values = self.values + other.values
        self.squares = self.squares + other.squares
        self.largest = np.maximum(self.largest, other.largest)


@dataclass(eq=False)
class _ColumnSums:
    """Weighted sums over rows of all products of columns, about fixed numbers.

    Parameters
    ----------
    of_values : ValueSums
        The function alone.
    columns : ndarray of float64, shape (n_columns,)
    products : ndarray of float64, shape (n_columns, n_columns)
        The columns, and their products; the lower triangle counts.
    with_values : ndarray of float64, shape (n_columns, n_outputs)
        Products of columns and function.
    """

    of_values: ValueSums
    columns: Array
    products: Array
    with_values: Array


@dataclass(frozen=True, eq=False)
class _ColumnMoments:
    """The statistic of the products of all columns with all."""

    centre: Centre

    def zero(self) -> _ColumnSums:
        """Return the sums over no rows."""
        n_columns, n_outputs = self.centre.basis.n_columns, self.centre.f.n_outputs
        return _ColumnSums(
            _no_values(n_outputs),
            np.zeros(n_columns),
            np.zeros((n_columns, n_columns), order="F"),
            np.zeros((n_columns, n_outputs)),
        )

    def add(self, state: _ColumnSums, rows: RowBatch) -> _ColumnSums:
        """Return the sums with those over a batch."""
        from scipy.linalg.blas import dsyrk

        for weights, block, values in self.centre.blocks(rows):
            state.of_values.add(weights, values, self.centre.of_values)
            if not len(block):
                continue
            state.columns += block @ weights
            state.with_values += block @ (weights[:, None] * values)
            np.multiply(block, np.sqrt(weights), out=block)
            state.products = dsyrk(
                1.0, block.T, beta=1.0, c=state.products, trans=1, lower=1, overwrite_c=1
            )
        return state

    def merge(self, state: _ColumnSums, other: _ColumnSums) -> _ColumnSums:
        """Return the sums over the rows of both."""
        state.of_values.merge(other.of_values)
        state.columns += other.columns
        state.products += other.products
        state.with_values += other.with_values
        return state


def stream_moments(
    stream: RowStream, centre: Centre, report: ProgressReport
) -> tuple[Moments, ValueSums]:
    """Return the moments about the means of all rows, and the sums of the function."""
    columns = stream.reduce(_ColumnMoments(centre), "summing inner products", report)
    return _of_columns(columns, centre), columns.of_values


def _of_columns(sums: _ColumnSums, centre: Centre) -> Moments:
    weight = sums.of_values.weight
    columns, values = sums.columns / weight, sums.of_values.values / weight
    lower = np.asarray(sums.products) / weight - np.outer(columns, columns)
    # The transpose of the lower triangle is an upper one.
    gram = np.ascontiguousarray(lower.T)
    mirror_upper(gram)
    covariances = sums.with_values / weight - np.outer(columns, values)
    return _moments(gram, columns + centre.of_columns, covariances, sums.of_values, centre)


def _moments(
    gram: Array, means: Array, covariances: Array, of_values: ValueSums, centre: Centre
) -> Moments:
    values = of_values.values / of_values.weight
    squares = of_values.squares / of_values.weight - values**2
    is_constant = np.sqrt(np.maximum(squares, 0.0)) <= _ROUNDING * of_values.largest
    return Moments(
        gram,
        means,
        np.where(is_constant, 0.0, covariances),
        values + centre.of_values,
        np.where(is_constant, 0.0, squares),
    )


def _no_values(n_outputs: int) -> ValueSums:
    return ValueSums(0, 0.0, *np.zeros((3, n_outputs)))


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
