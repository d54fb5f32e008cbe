"""Purify a family of effect tensors, from the largest subsets down to the intercept.

The errors of the solves are carried down the same way, to every component.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, groupby
from math import prod
from typing import Literal, NamedTuple, get_args

import numpy as np

from treepurify.effects.tensor import EffectTensors
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.purification.general import solve_general
from treepurify.purification.mass_moving import solve_by_mass_moving
from treepurify.purification.pair import solve_pair
from treepurify.purification.small_pairs import (
    SEVERAL_PAIRS,
    is_small_pair,
    solve_small_pairs,
    some_at_a_time,
)
from treepurify.purification.solution import ROUNDING, Solution, largest_entry
from treepurify.threads import blas_threads_for, iterate_threads, one_blas_thread
from treepurify.typing import Array, Indices
from treepurify.weights.weighting import MassTables

__all__ = ["Purified", "SolveMethod", "downward_closure", "purify_effects"]

Axes = dict[Subset, tuple[FeatureAxis, ...]]
SolveMethod = Literal["exact", "mass-moving"]

# Below this number of cells, or up to this length of the shorter side of a pair, threads would take
# longer to start than they save.
_MUCH_WORK, _LARGE_PAIR = 100_000, 300


@dataclass(frozen=True, eq=False)
class Purified:
    """Pure effects of every subset, and how they were found.

    Parameters
    ----------
    intercept : ndarray of float64, shape (n_outputs,)
        Mean of the model under the mass.
    effects : dict of tuple of int to ndarray of float64, shape (cells..., n_outputs)
        Pure effects, ordered by size of the subset, then by feature.
    solutions : dict of tuple of int to Solution
        How each tensor of two or more features was purified.
    additivity : float or None
        Largest difference, over all cells, between a tensor and the sum of its pure part and
        what was moved out of it; None where nothing was moved.
    errors : dict of tuple of int to float
        Bound or estimate of the error of each pure effect, and under () of the intercept,
        the largest in any cell with mass: that of its own solve, and of all that larger
        subsets moved into it. Empty for closed forms.
    scale : float or None
        Largest absolute value of the intercept and of the tensors of the model; None for closed
        forms.
    """

    intercept: Array
    effects: dict[Subset, Array]
    solutions: dict[Subset, Solution]
    additivity: float | None
    errors: dict[Subset, float] = field(default_factory=dict)
    scale: float | None = None


def downward_closure(
    subsets: Iterable[Subset], check: Callable[[int], None] | None = None
) -> list[Subset]:
    """Return all non-empty subsets of the given ones, by size, then by feature.

    `check`, where given, is called with the number found so far and may raise: twenty features
    have a million subsets.

    Examples
    --------
    >>> downward_closure([(0, 2), (1,)])
    [(0,), (1,), (2,), (0, 2)]
    """
    levels: dict[int, set[Subset]] = {}
    for subset in subsets:
        levels.setdefault(len(subset), set()).add(subset)
    n_larger = 0
    for size in range(max(levels, default=0), 1, -1):
        larger, smaller = levels.get(size, set()), levels.setdefault(size - 1, set())
        n_larger += len(larger)
        for subset in larger:
            smaller.update(combinations(subset, size - 1))
            if check is not None:
                check(n_larger + len(smaller))
    return [subset for size in sorted(levels) if size for subset in sorted(levels[size])]


def purify_effects(
    effects: EffectTensors,
    mass: MassTables,
    axes: Axes,
    *,
    method: SolveMethod = "exact",
    progress: Callable[[str, int, int], None],
) -> Purified:
    """Purify every tensor against its own marginal mass (Algorithm 2 of the paper).

    A function of ``x_u`` has ANOVA components on subsets of ``u`` only, and they depend on
    the margin ``w_u`` alone. So each tensor is purified against its own margin, the largest
    subsets first, and what leaves it is added to the tensors one feature smaller.

    Parameters
    ----------
    effects : EffectTensors
        The model.
    mass : dict of tuple of int to ndarray
        Mass of every subset in the downward closure.
    axes : dict of tuple of int to tuple of FeatureAxis
        Axes of every subset in the downward closure. Those of a subset may be finer than
        those of a larger one.
    method : {"exact", "mass-moving"}
        Direct and conjugate-gradient solves, or the paper's algorithm.
    progress : callable
        Called with a word, the number of tables done and their total.

    Returns
    -------
    Purified
    """
    if method not in get_args(SolveMethod):
        raise InvalidInputError(f'method must be "exact" or "mass-moving", got {method!r}')
    subsets = downward_closure(effects.tensors)
    family = _Family(effects, mass, axes, method)
    pending: dict[Subset, Array] = {}
    solutions: dict[Subset, Solution] = {}
    pure: dict[Subset, Array] = {}
    intercept = effects.intercept
    additivity = 0.0
    extents: dict[Subset, _Extent] = {}
    done = 0
    progress("purifying tables", done, len(subsets))
    # Subsets of one size do not depend on each other.
    for _, level in groupby(reversed(subsets), key=len):
        for table in _purify_level(family, list(level), pending):
            subset = table.subset
            done += 1
            progress("purifying tables", done, len(subsets))
            pure[subset] = table.pure
            extents[subset] = table.extent
            if table.solution is None:
                intercept = intercept + table.mean
                continue
            solutions[subset] = table.solution
            additivity = max(additivity, table.additivity)
            own = axes[subset]
            for position, moved in enumerate(table.solution.moved):
                rest = subset[:position] + subset[position + 1 :]
                part = refine(moved, own[:position] + own[position + 1 :], axes[rest])
                before = pending.get(rest)
                pending[rest] = part if before is None else before + part
    errors = _component_errors(subsets, solutions, extents)
    scale = max(largest_entry(intercept), _largest_before(effects, axes, extents))
    ordered = {subset: pure[subset] for subset in subsets}
    in_order = {subset: solutions[subset] for subset in reversed(subsets) if subset in solutions}
    return Purified(intercept, ordered, in_order, additivity, errors, scale)


@dataclass(frozen=True, eq=False)
class _Family:
    """The tensors of a model, their masses and axes, and how each is solved."""

    effects: EffectTensors
    mass: MassTables
    axes: Axes
    method: SolveMethod

    def raw_values(self, subset: Subset) -> Array:
        """Return what the model itself has for a subset."""
        return _raw_values(self.effects, subset, self.axes, len(self.effects.intercept))

    def purify_together(self, pairs: Sequence[Subset]) -> "list[_PurifiedTable]":
        """Purify small pairs that no larger tensor has moved anything into."""
        purified = []
        values = [self.raw_values(pair) for pair in pairs]
        together = solve_small_pairs(values, [self.mass[pair] for pair in pairs])
        for pair, own, solved in zip(pairs, values, together, strict=True):
            if solved is None:
                purified.append(self.purify_table(pair, own, receives=False))
                continue
            solution, additivity = solved.solution, solved.additivity
            extent = _Extent(self.mass[pair].size, solved.before, solved.after)
            purified.append(
                _PurifiedTable(
                    pair, solution.pure, extent, solution=solution, additivity=additivity
                )
            )
        return purified

    def purify_mains(
        self, mains: Sequence[Subset], received: Mapping[Subset, Array]
    ) -> "Iterator[_PurifiedTable]":
        """Purify main effects, with what larger tensors have moved into them."""
        values = [self.raw_values(main) + received.get(main, 0.0) for main in mains]
        means = [self.mass[main] @ table for main, table in zip(mains, values, strict=True)]
        n_cells = [len(table) for table in values]
        starts = np.cumsum([0, *n_cells[:-1]])
        before = np.concatenate(values)
        after = before - np.repeat(means, n_cells, axis=0)
        largest = [
            np.maximum.reduceat(np.abs(tables), starts).max(axis=1).tolist()
            for tables in (before, after)
        ]
        extents = map(_Extent, n_cells, *largest)
        yield from map(_PurifiedTable, mains, np.split(after, starts[1:]), extents, means)

    def purify(self, subset: Subset, received: Array | None) -> "_PurifiedTable":
        """Purify the tensor of two features or more, with what larger ones have moved into it."""
        values = self.raw_values(subset)
        if received is not None:
            values = values + received
        return self.purify_table(subset, values, receives=received is not None)

    def purify_table(self, subset: Subset, values: Array, *, receives: bool) -> "_PurifiedTable":
        """Purify a table of two features or more by a solve of its own."""
        solution = _solve(values, self.mass[subset], self.method, receives=receives)
        pure = solution.pure
        extent, additivity = _measure_extent(values, pure), _additivity(values, solution)
        return _PurifiedTable(subset, pure, extent, solution=solution, additivity=additivity)


class _PurifiedTable(NamedTuple):
    """A purified tensor, and what left it: a mean from one feature, a solution from more."""

    subset: Subset
    pure: Array
    extent: "_Extent"
    mean: Array | float = 0.0
    solution: Solution | None = None
    additivity: float = 0.0


def _purify_level(
    family: _Family, level: list[Subset], pending: dict[Subset, Array]
) -> Iterator[_PurifiedTable]:
    """Purify the tensors of subsets of one size.

    Small pairs are purified together, and such batches side by side, as large tensors are. A small
    pair alone takes a few calls of a millisecond, and threads would wait for the interpreter
    between them.
    """
    small = []
    if family.method == "exact":
        small = [s for s in level if s not in pending and is_small_pair(family.mass[s].shape)]
    if len(small) >= SEVERAL_PAIRS:
        n_outputs = len(family.effects.intercept)
        batches = list(some_at_a_time(small, [family.mass[s].size * n_outputs for s in small]))
        side_by_side = iterate_threads if len(batches) > 1 else map
        for purified in side_by_side(family.purify_together, batches):
            yield from purified
        done = set(small)
        level = [subset for subset in level if subset not in done]
    if not level:
        return
    if len(level[0]) == 1:
        yield from family.purify_mains(level, pending)
        return
    tasks = ((subset, pending.pop(subset, None)) for subset in level)
    shapes = [family.mass[subset].shape for subset in level]
    largest = max(map(min, shapes))
    if len(level[0]) == 2:
        is_much_work = largest > _LARGE_PAIR
    else:
        is_much_work = sum(map(prod, shapes)) > _MUCH_WORK
    if len(level) > 1 and is_much_work:
        with one_blas_thread():
            yield from iterate_threads(lambda task: family.purify(*task), tasks)
    else:
        with blas_threads_for(largest):
            yield from (family.purify(*task) for task in tasks)


def _solve(values: Array, mass: Array, method: SolveMethod, *, receives: bool) -> Solution:
    if method == "mass-moving":
        return solve_by_mass_moving(values, mass)
    n_outputs = values.shape[-1]
    used = np.arange(n_outputs)
    if n_outputs > 1:
        used = np.flatnonzero(np.any(values.reshape(-1, n_outputs), axis=0))
    if len(used) < n_outputs:
        # Of several models many lack a pair: nothing leaves a table of zeros.
        used = used if len(used) else np.zeros(1, dtype=np.intp)
        part = _solve(np.ascontiguousarray(values[..., used]), mass, method, receives=receives)
        return _in_all_outputs(part, used, n_outputs)
    if mass.ndim == 2:
        return solve_pair(values, mass, receives=receives)
    return solve_general(values, mass)


def _in_all_outputs(solution: Solution, used: Indices, n_outputs: int) -> Solution:
    """Return a solution of some outputs as one of all, with zeros in the others."""

    def widened(table: Array) -> Array:
        wide = np.zeros((*table.shape[:-1], n_outputs))
        wide[..., used] = table
        return wide

    moved = tuple(widened(part) for part in solution.moved)
    return replace(solution, pure=widened(solution.pure), moved=moved)


def _additivity(values: Array, solution: Solution) -> float:
    total = solution.pure - values
    for axis, part in enumerate(solution.moved):
        total += np.expand_dims(part, axis)
    return largest_entry(total)


def _raw_values(effects: EffectTensors, subset: Subset, axes: Axes, n_outputs: int) -> Array:
    tensor = effects.tensors.get(subset)
    if tensor is None:
        return np.zeros((*(axis.n_cells for axis in axes[subset]), n_outputs))
    return refine(tensor.values, tensor.axes, axes[subset])


def refine(values: Array, coarse: tuple[FeatureAxis, ...], fine: tuple[FeatureAxis, ...]) -> Array:
    """Write a table on finer axes; each fine cell takes the value of the one around it."""
    if coarse == fine:
        return values
    for position, (old, new) in enumerate(zip(coarse, fine, strict=True)):
        if old is not new:
            values = np.take(values, new.cells_in(old), axis=position)
    return values


class _Extent(NamedTuple):
    """How many cells the tensor of a subset had, and its largest entries before and after."""

    n_cells: int
    values: float
    pure: float


def _largest_before(effects: EffectTensors, axes: Axes, extents: Mapping[Subset, _Extent]) -> float:
    """Return the largest entry of all tensors of the model.

    Those that no larger one moves anything into were measured as they are.
    """
    receivers = {
        part for subset in axes if len(subset) > 1 for part in combinations(subset, len(subset) - 1)
    }
    return max(
        (
            extents[subset].values
            if subset not in receivers and tensor.axes == axes[subset]
            else largest_entry(tensor.values)
            for subset, tensor in effects.tensors.items()
        ),
        default=0.0,
    )


def _measure_extent(values: Array, pure: Array) -> _Extent:
    """Return the extent of a tensor (cells..., n_outputs) and its pure part."""
    largest = [largest_entry(table) for table in (values, pure)]
    return _Extent(values[..., 0].size, *largest)


def _component_errors(
    subsets: Sequence[Subset],
    solutions: Mapping[Subset, Solution],
    extents: Mapping[Subset, _Extent],
) -> dict[Subset, float]:
    """Bound the error of each pure effect, and of the intercept under (), in cells with mass.

    What is wrong in the parts that one tensor moves is wrong in the tensors that receive
    them, whose own solves let it grow. Errors are bounds, or estimates where one of the
    solutions has an estimate; the largest of the `subsets` come last.
    """
    errors = dict.fromkeys([(), *subsets], 0.0)
    for subset in reversed(subsets):
        extent = extents[subset]
        if len(subset) == 1:
            # That of the mean: of the values, and rounding of its sum and of the mass.
            moved = errors[subset] + (2 * extent.n_cells + 8) * ROUNDING * extent.values
        else:
            moved = _moved_error(subset, solutions, extent, errors[subset])
        errors[subset] += len(subset) * (moved + ROUNDING * extent.values)
        for receiver in combinations(subset, len(subset) - 1):
            errors[receiver] += moved
    return errors


def _is_open(subset: Subset, solutions: Mapping[Subset, Solution]) -> bool:
    """Whether directions are undetermined, or not counted, in a subset or inside it."""
    inside = (part for size in range(2, len(subset) + 1) for part in combinations(subset, size))
    return any(solutions[part].unidentified != 0 for part in inside)


def _moved_error(
    subset: Subset, solutions: Mapping[Subset, Solution], extent: _Extent, error: float
) -> float:
    """Bound the error of what moves out of a tensor that has an error of its own.

    Sums of parts, and masses that are sums of others, are known to a few roundings. A mass
    that is wrong in proportion acts as an error of the pure part in the same proportion.
    Parts that only exchange what several of them can hold meet again in smaller subsets,
    unless these leave something undetermined themselves.
    """
    solution = solutions[subset]
    rounded = 16 * ROUNDING * (extent.values + extent.pure)
    solve_error = solution.error
    if solution.exchange_error and _is_open(subset, solutions):
        solve_error += solution.exchange_error
    return solve_error * extent.values + solution.growth * (error + rounded)
