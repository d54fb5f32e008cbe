"""Conditional means over the slices of a tensor: all that a solve asks of a mass.

A slice holds the cells that differ along one axis only. Slices of all axes are numbered one
axis after the other, so that a function of fewer features is one array, with one row per slice.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from math import prod
from typing import Protocol

import numpy as np
import numpy.typing as npt

from treepurify._kernels.slice_sums import add_slice_sums, set_slice_means
from treepurify.typing import Array

__all__ = ["MassSlices", "ProductSlices", "SliceLayout", "Slices", "mass_slices", "product_slices"]


@dataclass(frozen=True)
class SliceLayout:
    """Where the slices along each axis stand.

    Parameters
    ----------
    shape : tuple of int
        Cells along the axes of the tensor.
    """

    shape: tuple[int, ...]

    @property
    def n_axes(self) -> int:
        """Axes of the tensor."""
        return len(self.shape)

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Cells along the axes of the slices: those of the tensor without one."""
        return tuple(self.shape[:i] + self.shape[i + 1 :] for i in range(len(self.shape)))

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Start of the slices along each axis, and their number."""
        return (0, *accumulate(map(prod, self.shapes)))

    def split(self, flat: Array) -> tuple[Array, ...]:
        """Return one row per slice as tables, shape (cells without one axis..., n_outputs)."""
        bounds = pairwise(self.starts)
        return tuple(
            flat[start:stop].reshape(*shape, *flat.shape[1:])
            for (start, stop), shape in zip(bounds, self.shapes, strict=True)
        )

    def join(self, tables: list[Array], n_outputs: int) -> Array:
        """Return tables as one row per slice."""
        return np.concatenate([table.reshape(-1, n_outputs) for table in tables])


class Slices(Protocol):
    """A tensor under a mass."""

    @property
    def layout(self) -> SliceLayout:
        """Its slices."""

    @property
    def mass(self) -> Array:
        """Mass of each slice, shape (n_slices,)."""

    def residual(self, parts: Array) -> Array:
        """Return the mean in each slice of the tensor less its parts, (n_slices, n_outputs)."""

    def image(self, parts: Array) -> Array:
        """Return the mean in each slice of the sum of the parts, (n_slices, n_outputs)."""


@dataclass(frozen=True, eq=False)
class MassSlices:
    """A tensor under any mass, of which only the cells with mass count.

    Under an empirical mass of three features and more, these are few among many.

    Parameters
    ----------
    layout : SliceLayout
        The slices.
    mass : ndarray of shape (n_slices,)
        Mass of each slice.
    slice_of : ndarray of int, shape (n_axes, n_cells)
        Slices of each cell with mass.
    weight : ndarray of shape (n_cells,)
        Mass of these cells.
    values : ndarray of shape (n_outputs, n_cells)
        The tensor in these cells.
    """

    layout: SliceLayout
    mass: Array
    slice_of: npt.NDArray[np.signedinteger]
    weight: Array
    values: Array

    def filled_only(self) -> "MassSlices":
        """Return the same tensor with its slices without mass left out."""
        filled = self.mass > 0
        number = (np.cumsum(filled) - 1).astype(self.slice_of.dtype)
        return replace(self, mass=self.mass[filled], slice_of=number[self.slice_of])

    @cached_property
    def _divisor(self) -> Array:
        return np.where(self.mass > 0, self.mass, 1.0)

    @cached_property
    def _per_mass(self) -> Array:
        return np.asarray(1 / self._divisor)

    def residual(self, parts: Array) -> Array:
        """Return the mean in each slice of the tensor less its parts."""
        total = np.zeros(parts.shape[::-1])
        rows = zip(self.values, np.ascontiguousarray(parts.T), total, strict=True)
        for values, part, sums in rows:
            add_slice_sums(self.slice_of, self.weight, values, part, sums)
        total /= self._divisor
        return total.T

    def image(self, parts: Array) -> Array:
        """Return the mean in each slice of the sum of the parts."""
        total = np.empty(parts.shape[::-1])
        # Numbers without a sign are not tested for counting from the end.
        slice_of = self.slice_of.view(f"u{self.slice_of.itemsize}")
        for part, sums in zip(np.ascontiguousarray(parts.T), total, strict=True):
            set_slice_means(slice_of, self.weight, part, self._per_mass, sums)
        return total.T


def mass_slices(values: Array, mass: Array) -> MassSlices:
    """Return a tensor (cells..., n_outputs) under the mass of its cells (cells...)."""
    layout = SliceLayout(mass.shape)
    cells = np.flatnonzero(mass)
    kind = np.int32 if layout.starts[-1] < 2**31 else np.int64
    slice_of = np.empty((mass.ndim, len(cells)), dtype=kind)
    step = 1
    for axis in reversed(range(mass.ndim)):
        # In C order a cell is (index before the axis, index along it, index behind it).
        # NumPy divides by one number several at a time, but takes no remainders that way.
        before, behind = cells // (step * mass.shape[axis]), cells - cells // step * step
        slice_of[axis] = layout.starts[axis] + before * step + behind
        step *= mass.shape[axis]
    sums = np.concatenate([mass.sum(axis=axis).ravel() for axis in range(mass.ndim)])
    filled_values = np.ascontiguousarray(values.reshape(-1, values.shape[-1])[cells].T)
    return MassSlices(layout, sums, slice_of, mass.ravel()[cells], filled_values)


@dataclass(frozen=True, eq=False)
class ProductSlices:
    """A tensor under independent features, where means along an axis need no other axis.

    Parameters
    ----------
    layout : SliceLayout
        The slices.
    mass : ndarray of shape (n_slices,)
        Mass of each slice.
    margins : tuple of ndarray
        Mass along each axis, summing to one.
    means : ndarray of shape (n_slices, n_outputs)
        Mean of the tensor in each slice.
    """

    layout: SliceLayout
    mass: Array
    margins: tuple[Array, ...]
    means: Array

    def residual(self, parts: Array) -> Array:
        """Return the mean in each slice of the tensor less its parts."""
        return self.means - self.image(parts)

    def image(self, parts: Array) -> Array:
        """Return the mean in each slice of the sum of the parts.

        A part does not depend on its own axis: its mean along another one is the mean over
        that axis, the same for every cell along its own.
        """
        tables = self.layout.split(parts)
        means = []
        for axis, margin in enumerate(self.margins):
            total = tables[axis].copy()
            for other, table in enumerate(tables):
                if other != axis:
                    mean = np.tensordot(margin, table, axes=(0, axis - (other < axis)))
                    total += np.expand_dims(mean, other - (axis < other))
            means.append(total)
        return self.layout.join(means, parts.shape[1])


def product_slices(values: Array, margins: tuple[Array, ...]) -> ProductSlices:
    """Return a tensor (cells..., n_outputs) under independent features with these margins."""
    layout = SliceLayout(values.shape[:-1])
    means = [np.tensordot(margin, values, axes=(0, i)) for i, margin in enumerate(margins)]
    sums = []
    for axis in range(len(margins)):
        mass = np.ones(1)
        for margin in margins[:axis] + margins[axis + 1 :]:
            mass = np.multiply.outer(mass, margin)
        sums.append(mass.ravel())
    return ProductSlices(
        layout, np.concatenate(sums), margins, layout.join(means, values.shape[-1])
    )
