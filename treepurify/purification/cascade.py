"""Purify a family of effect tensors, from the largest subsets down to the intercept."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal, get_args

import numpy as np

from treepurify.effects.tensor import EffectTensors
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.purification.general import solve_exactly
from treepurify.purification.mass_moving import solve_by_mass_moving
from treepurify.purification.pair import ROUNDING, Solution, largest_entry, move_out
from treepurify.threads import iterate_threads, one_blas_thread
from treepurify.typing import Array
from treepurify.weights.distributions import MassTables

Axes = dict[Subset, tuple[FeatureAxis, ...]]
SolveMethod = Literal["exact", "mass-moving"]

# Fewer cells take no longer than threads take to start.
_MUCH_WORK = 100_000


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
        Estimate of the error of each pure effect, and under () of the intercept, the largest in
        any cell with mass: that of its own solve, and of all that larger subsets moved into it.
        Empty for closed forms.
    scale : float or None
        Largest entry of the tensors of the model and of the intercept; None for closed
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
    purify_one = solve_exactly if method == "exact" else solve_by_mass_moving
    axes = {**axes, (): ()}
    subsets = downward_closure(effects.tensors)
    # What is to be purified: the model's own tensors, and what larger ones have moved into them.
    tables: dict[Subset, Array] = {(): effects.intercept}
    inherited: dict[Subset, float] = dict.fromkeys([(), *subsets], 0.0)
    pure, solutions, errors = dict[Subset, Array](), dict[Subset, Solution](), dict(inherited)
    additivity, n_done = 0.0, 0

    def add(subset: Subset, part: Array, own_axes: tuple[FeatureAxis, ...]) -> None:
        part = refine(part, own_axes, axes[subset])
        tables[subset] = tables[subset] + part if subset in tables else part

    def solve(subset: Subset) -> tuple[Solution, float, float]:
        values = tables.pop(subset)
        solution = purify_one(values, mass[subset])
        wrong = move_out(values - solution.pure, solution.moved)
        return solution, largest_entry(values), largest_entry(wrong)

    progress("purifying tables", 0, len(subsets))
    with one_blas_thread():
        for size in range(max(map(len, subsets), default=0), 0, -1):
            level = [subset for subset in subsets if len(subset) == size]
            for subset in level:
                if subset in effects.tensors:
                    add(subset, effects.tensors[subset].values, effects.tensors[subset].axes)
            is_much_work = sum(mass[subset].size for subset in level) > _MUCH_WORK
            solved = (iterate_threads if is_much_work else map)(solve, level)
            for subset, (solution, largest, wrong) in zip(level, solved, strict=True):
                pure[subset] = solution.pure
                # A solve adds its own error to what it makes of the received one, and of rounding.
                unsolved = inherited[subset] + 16 * ROUNDING * largest
                error = solution.error * largest + solution.growth * unsolved
                errors[subset] = inherited[subset] + size * error
                for axis, moved in enumerate(solution.moved):
                    rest = subset[:axis] + subset[axis + 1 :]
                    add(rest, moved, axes[subset][:axis] + axes[subset][axis + 1 :])
                    inherited[rest] += error
                if size > 1:
                    solutions[subset], additivity = solution, max(additivity, wrong)
                n_done += 1
                progress("purifying tables", n_done, len(subsets))
    errors[()] = inherited[()]
    raw = (tensor.values for tensor in effects.tensors.values())
    scale = max(map(largest_entry, (tables[()], *raw)))
    ordered = {subset: pure[subset] for subset in subsets}
    return Purified(tables[()], ordered, solutions, additivity, errors, scale)


def refine(values: Array, coarse: tuple[FeatureAxis, ...], fine: tuple[FeatureAxis, ...]) -> Array:
    """Write a table on finer axes; each fine cell takes the value of the one around it."""
    if coarse == fine:
        return values
    for position, (old, new) in enumerate(zip(coarse, fine, strict=True)):
        if old is not new:
            values = np.take(values, new.cells_in(old), axis=position)
    return values
