"""The functions that a set of effects can be, and the projection of others on them.

The effects of a decomposition stay when others are taken out, but under dependent features they
can take over a part of them: the part that lies in the space of the effects that stay, the direct
sum of the pure functions of each of their sets of features. It is found on the rows that are the
measure, by conjugate gradients. Where cells are few, the rows are gone through once, for the share
of them in each two cells.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations, combinations_with_replacement
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify._kernels.table_sums import add_rows, add_tables
from treepurify.arguments import check_flag
from treepurify.budget import check_budget
from treepurify.components import TensorComponent, locate_cells
from treepurify.decomposition import Absorb, Decomposition
from treepurify.errors import InvalidInputError
from treepurify.evidence.held_out import PredictedRows
from treepurify.grids.grid import Subset
from treepurify.purification.general import solve_exactly
from treepurify.purification.pair import inverse_mass
from treepurify.typing import Array, Indices

TOLERANCE = 1e-11
_MOST_STEPS = 5000
# Functions that are projected on the same effects side by side.
_AT_ONCE = 8
# Entries of a matrix of joint shares; larger ones are no quicker than the rows.
_MOST_JOINT = 1 << 22


@dataclass(frozen=True, eq=False)
class Projected:
    """The projection of a function on the space of some effects.

    Parameters
    ----------
    tables : dict of tuple of int to ndarray of float64, shape (cells..., n_outputs)
        Tables whose sum it is. Those of sets of features that lack none of their subsets
        still hold parts of these.
    pure : frozenset of tuple of int
        The tables that hold pure functions, since they lack one of their subsets.
    mean : ndarray of float64, shape (n_outputs,)
        The constant that belongs to it.
    steps : int
        Conjugate-gradient steps, the most of any output.
    gradient : float
        Norm of the gradient that is left, relative to the norm of the function.
    """

    tables: dict[Subset, Array]
    pure: frozenset[Subset]
    mean: Array
    steps: int
    gradient: float

    @property
    def converged(self) -> bool:
        """Whether the solve met its tolerance."""
        return self.gradient <= TOLERANCE


@dataclass(frozen=True, eq=False)
class EffectSpace:
    """The tables of all effects of a decomposition on the rows that are its measure.

    Parameters
    ----------
    subsets : tuple of tuple of int
        The effects.
    shapes : tuple of tuple of int
        Cells along each axis of each of them.
    cells : ndarray of uint32, shape (n_effects, n_rows)
        The cell of each row in each table, flat.
    shares : ndarray of float64, shape (n_rows,)
        Share of each row in the measure.
    joint : dict of (int, int) to ndarray of float64, shape (n_cells, n_cells)
        Share of the rows in each two cells of two tables, by their places, once it was asked for.
    """

    subsets: tuple[Subset, ...]
    shapes: tuple[tuple[int, ...], ...]
    cells: npt.NDArray[np.uint32]
    shares: Array
    joint: dict[tuple[int, int], Array] = field(default_factory=dict)

    def project(
        self, function: Array, onto: Collection[Subset], tolerance: float = TOLERANCE
    ) -> Projected:
        """Return the projection of a function on the space of some effects.

        Parameters
        ----------
        function : ndarray of float64, shape (n_rows, n_outputs)
            Its values on the rows.
        onto : collection of tuple of int
            The effects; constants belong to the space.
        tolerance : float
            Norm of the gradient that may be left, relative to that of the function.
        """
        chosen = self._places(onto)
        free = [t for t in chosen if not _needs_purifying(self.subsets[t], onto)]
        tied = [t for t in chosen if t not in free]
        space = _Tables(self, (*free, *tied), frozenset(tied))
        return space.project(function, tolerance)

    def sum_of(self, tables: Mapping[Subset, Array]) -> Array:
        """Return the sum of some tables (cells..., n_outputs) on the rows."""
        places = self._places(tables)
        flat = [tables[self.subsets[t]].reshape(-1, _n_outputs(tables)) for t in places]
        on_rows = np.zeros((len(self.shares), _n_outputs(tables)))
        if flat:
            starts = np.cumsum([0, *(len(table) for table in flat)])
            add_tables(self.cells[places], starts, np.concatenate(flat), on_rows)
        return on_rows

    def joint_shares(self, first: int, second: int) -> Array:
        """Return the share of the rows in each cell of one table and each of another."""
        if (first, second) not in self.joint:
            shape = (prod(self.shapes[first]), prod(self.shapes[second]))
            both = self.cells[first].astype(np.intp) * shape[1] + self.cells[second]
            shares = np.bincount(both, weights=self.shares, minlength=prod(shape))
            self.joint[first, second] = np.asarray(shares.reshape(shape), dtype=np.float64)
        return self.joint[first, second]

    def _places(self, subsets: Collection[Subset]) -> list[int]:
        return [t for t, subset in enumerate(self.subsets) if subset in subsets]


def _n_outputs(tables: Mapping[Subset, Array]) -> int:
    return next((table.shape[-1] for table in tables.values()), 1)


def _needs_purifying(subset: Subset, kept: Collection[Subset]) -> bool:
    """Return whether an effect stays without one on a subset of its features.

    Then it may only take pure functions of its features over.
    """
    return any(
        part not in kept for size in range(1, len(subset)) for part in combinations(subset, size)
    )


def absorbing(kept: Collection[Subset], absorb: Absorb) -> tuple[Subset, ...]:
    """Return the effects among those kept that take over parts of others.

    Raises
    ------
    InvalidInputError
        If `absorb` is neither True, False nor "main".
    """
    if isinstance(absorb, str) and absorb == "main":
        return tuple(subset for subset in kept if len(subset) == 1)
    check_flag("absorb", absorb, advice=' or "main"')
    return tuple(kept) if absorb else ()


def effect_space(d: Decomposition, subsets: Collection[Subset], memory_budget: int) -> EffectSpace:
    """Return the tables of some effects on the rows that are the measure of a decomposition.

    Raises
    ------
    InvalidInputError
        If the measure is not one of rows that `d` holds, or a component is no table.
    MemoryBudgetError
        If the cells of the rows would not fit.
    """
    tensors = {s: c for s, c in d.tensor_components().items() if s in subsets}
    rows = d.grid_rows
    if rows is None or len(d.tensor_components()) < len(d.components):
        raise InvalidInputError(
            "adjusting the remaining effects needs the rows of the distribution, which this "
            f"decomposition does not contain (engine {d.engine!r}, measure {d.measure!r}): "
            "purify the model under its rows (they are not saved with it), or pass absorb=False"
        )

    def codes(component: TensorComponent) -> npt.NDArray[Any]:
        return rows.cells(component.features)

    return _space(tensors, codes, rows.shares, memory_budget)


def space_on_rows(
    d: Decomposition, subsets: Collection[Subset], rows: PredictedRows, memory_budget: int
) -> EffectSpace:
    """Return the tables of some effects on other rows, with a share of each.

    Raises
    ------
    InvalidInputError
        If a value is missing or unseen, and a table has no cell for it.
    MemoryBudgetError
        If the cells of the rows would not fit.
    """
    tensors = {s: c for s, c in d.tensor_components().items() if s in subsets}
    found: dict[tuple[int, int], Indices] = {}

    def codes(component: TensorComponent) -> npt.NDArray[Any]:
        axes = [*zip(component.features, component.axes, strict=True)]
        for j, axis in axes:
            if (j, id(axis)) not in found:
                found[j, id(axis)] = locate_cells(rows.columns, j, axis)
        return np.stack([found[j, id(axis)] for j, axis in axes])

    return _space(tensors, codes, rows.shares, memory_budget)


def taken_over(
    measure: EffectSpace,
    there: EffectSpace,
    left_out: Mapping[Subset, tuple[Subset, ...]],
    function: Callable[[Subset], Array],
    tolerance: float = TOLERANCE,
) -> Iterator[tuple[Subset, Array]]:
    """Yield what others take over of functions, (n_rows, n_outputs), on other rows.

    Parameters
    ----------
    measure, there : EffectSpace
        The rows on which functions are projected, and those on which the result is evaluated.
    left_out : mapping of tuple of int to tuple of tuple of int
        For each effect that is left out, the effects that take over.
    function : callable
        Returns what was left out with an effect, on the rows of the measure.
    tolerance : float
        As in `EffectSpace.project`.
    """
    groups: dict[tuple[Subset, ...], list[Subset]] = {}
    for subset, onto in left_out.items():
        groups.setdefault(onto, []).append(subset)
    for onto, members in groups.items():
        for start in range(0, len(members), _AT_ONCE):
            chosen = members[start : start + _AT_ONCE]
            values = np.concatenate([function(subset) for subset in chosen], axis=1)
            projected = measure.project(values, onto, tolerance)
            on_rows = projected.mean + there.sum_of(projected.tables)
            yield from zip(chosen, np.split(on_rows, len(chosen), axis=1), strict=True)


def _space(
    tensors: Mapping[Subset, TensorComponent],
    codes: Callable[[TensorComponent], npt.NDArray[Any]],
    shares: Array,
    memory_budget: int,
) -> EffectSpace:
    shapes = tuple(tuple(axis.n_cells for axis in c.axes) for c in tensors.values())
    n_joint = min(sum(prod(shape) for shape in shapes) ** 2, _MOST_JOINT)
    check_budget(
        4 * len(shares) * max(len(tensors), 1) + 16 * n_joint,
        memory_budget,
        f"the cells of {len(shares)} rows in {len(tensors)} tables",
        "Pass fewer rows, or pass absorb=False.",
    )
    cells = np.empty((len(tensors), len(shares)), dtype=np.uint32)
    for t, (component, shape) in enumerate(zip(tensors.values(), shapes, strict=True)):
        cells[t] = np.ravel_multi_index(tuple(codes(component).astype(np.intp)), shape)
    return EffectSpace(tuple(tensors), shapes, cells, shares)


class _Tables:
    """Tables by their cells, one after the other, scaled so that each cell has norm one."""

    def __init__(self, space: EffectSpace, chosen: Iterable[int], tied: Collection[int]) -> None:
        self._chosen = tuple(chosen)
        self._shapes = [space.shapes[t] for t in self._chosen]
        self._subsets = [space.subsets[t] for t in self._chosen]
        sizes = [int(np.prod(shape)) for shape in self._shapes]
        self._starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._cells = space.cells[list(self._chosen)]
        self._shares = space.shares
        self._mass = np.zeros((int(self._starts[-1]), 1))
        add_rows(self._cells, self._starts, self._shares[:, None], self._mass)
        self._root = np.sqrt(self._mass)
        self._inverse_root = inverse_mass(self._root)
        self._tied = [i for i, t in enumerate(self._chosen) if t in tied]
        self._joint = self._scaled_joint_shares(space)

    def _scaled_joint_shares(self, space: EffectSpace) -> Array | None:
        """Return the scalar products of all cells; None where those of rows are no slower."""
        n_cells = len(self._mass)
        if n_cells**2 > min(self._cells.size, _MOST_JOINT):
            return None
        joint = np.empty((n_cells, n_cells))
        parts = [slice(*self._starts[i : i + 2]) for i in range(len(self._chosen))]
        for i, k in combinations_with_replacement(range(len(parts)), 2):
            first, second = sorted((i, k), key=lambda place: self._chosen[place])
            shares = space.joint_shares(self._chosen[first], self._chosen[second])
            joint[parts[first], parts[second]] = shares
            joint[parts[second], parts[first]] = shares.T
        return np.asarray(self._inverse_root * joint * self._inverse_root.T)

    def project(self, function: Array, tolerance: float) -> Projected:
        """Return the projection of a function on rows (n_rows, n_outputs)."""
        mean = (self._shares[:, None] * function).sum(axis=0)
        centred = function - mean
        solution = np.zeros((len(self._mass), function.shape[1]))
        gradient = self._transposed(centred)
        direction = gradient.copy()
        size = np.sqrt((self._shares[:, None] * centred**2).sum(axis=0))
        divisor = np.where(size > 0, size, 1.0)
        squares = (gradient**2).sum(axis=0)
        steps = 0
        while np.any(np.sqrt(squares) > tolerance * divisor) and steps < _MOST_STEPS:
            image = self._products(direction)
            length = _ratio(squares, (direction * image).sum(axis=0))
            solution += length * direction
            gradient -= length * image
            before, squares = squares, (gradient**2).sum(axis=0)
            direction = gradient + _ratio(squares, before) * direction
            steps += 1
        tables = self._pure(solution) * self._inverse_root
        return Projected(
            {
                subset: tables[self._starts[i] : self._starts[i + 1]].reshape(*shape, -1)
                for i, (subset, shape) in enumerate(zip(self._subsets, self._shapes, strict=True))
            },
            frozenset(self._subsets[i] for i in self._tied),
            mean,
            steps,
            float(np.max(np.sqrt(squares) / divisor, initial=0.0)),
        )

    def _products(self, scaled: Array) -> Array:
        """Return the scalar products of all cells with the function that tables sum to."""
        pure = self._pure(scaled)
        if self._joint is not None:
            return self._pure(self._joint @ pure)
        on_rows = np.zeros((len(self._shares), scaled.shape[1]))
        add_tables(self._cells, self._starts, pure * self._inverse_root, on_rows)
        return self._transposed(on_rows)

    def _transposed(self, on_rows: Array) -> Array:
        sums = np.zeros((len(self._mass), on_rows.shape[1]))
        add_rows(self._cells, self._starts, self._shares[:, None] * on_rows, sums)
        return self._pure(sums * self._inverse_root)

    def _pure(self, scaled: Array) -> Array:
        """Project the tables that may only hold pure functions on these; the same transposed."""
        if not self._tied:
            return scaled
        scaled = scaled.copy()
        for i in self._tied:
            part = slice(self._starts[i], self._starts[i + 1])
            table = (scaled[part] * self._inverse_root[part]).reshape(*self._shapes[i], -1)
            mass = self._mass[part, 0].reshape(self._shapes[i])
            pure = solve_exactly(table, mass).pure * (mass > 0)[..., None]
            scaled[part] = pure.reshape(-1, pure.shape[-1]) * self._root[part]
        return scaled


def _ratio(above: Array, below: Array) -> Array:
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
