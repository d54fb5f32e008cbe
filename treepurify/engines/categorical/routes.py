"""The ways to a decomposition: conditional means, first functions, least norm, LARS.

Conditional means, centred, are for a full grid of independent features. All others go through
subsets of features in one order.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, groupby, pairwise, takewhile
from typing import Any, Literal

import numpy as np

from treepurify.arguments import brief, check_whole
from treepurify.budget import check_budget
from treepurify.engines.categorical.greedy_selection import IndicatorBasis, select_in_order
from treepurify.engines.categorical.identifiability import (
    describe_identifiability,
    describe_independent,
    describe_least_norm,
    describe_sparse,
)
from treepurify.engines.categorical.least_angle_fit import fit_by_least_angle
from treepurify.engines.categorical.least_norm import fit_of_least_norm, operations
from treepurify.engines.categorical.observations import Observations
from treepurify.engines.categorical.solution import CategoricalFit, solve, variance_inflation
from treepurify.errors import InvalidInputError, MemoryBudgetError
from treepurify.grids.grid import Subset
from treepurify.progress import ProgressReport
from treepurify.terms import term_name
from treepurify.typing import Array

Ranking = Literal["position", "variance"]
Selection = Literal["auto", "greedy", "least-norm", "lars"]
Neighbours = dict[int, frozenset[int]]
TOLERANCE = 1e-4
"""Share of an indicator's norm that must be left after projection for it to be independent."""
_CANCELLING = 10.0
# Components of first functions that can be larger than the function by this factor mean little.
_LARGEST_AMPLIFICATION = 1e4
# Most multiplications for which components of least norm are computed without being requested.
_MOST_OPERATIONS = 2e11
# Functions for each row from which on the first ones fit anything, and mean nothing.
_MANY_FUNCTIONS = 2
# Tables of fewer functions than this share of the rows are not looked at for empty cells.
_SMALL_TABLE = 0.01
_EQUAL = 1e-12


def check_neighbours(
    neighbours: Mapping[int, Sequence[int]] | None, n_features: int
) -> Neighbours | None:
    """Return the neighbours of each feature, made mutual.

    Raises
    ------
    InvalidInputError
        If a position is not that of a feature.
    """
    if neighbours is None:
        return None
    if not isinstance(neighbours, Mapping):
        raise InvalidInputError(
            "neighbours must be a mapping from the position of a feature to positions of others, "
            f"such as {{0: [1, 2]}}; got {brief(neighbours)}"
        )
    mutual: dict[int, set[int]] = {j: set() for j in range(n_features)}
    for feature, others in neighbours.items():
        check_whole("a feature of neighbours", feature, 0, n_features - 1)
        if not isinstance(others, Iterable):
            raise InvalidInputError(
                f"neighbours of feature {feature} must be positions of features, got "
                f"{brief(others)}"
            )
        for other in others:
            check_whole(f"a neighbour of feature {feature}", other, 0, n_features - 1)
            if feature != other:
                mutual[int(feature)].add(int(other))
                mutual[int(other)].add(int(feature))
    return {j: frozenset(others) for j, others in mutual.items()}


def ranked_features(margins: Sequence[Array], ranking: Ranking) -> list[int]:
    """Return the features with more than one level, in the order in which they are tried.

    By position, or by the variance of their indicators, ``1 - sum(p**2)``, the largest first
    (Ferrere et al. 2026, section 5, binarised MNIST).
    """
    active = [j for j, margin in enumerate(margins) if len(margin) > 1]
    if ranking == "variance":
        active.sort(key=lambda j: float(np.sum(margins[j] ** 2)))
    return active


def candidate_subsets(
    features: Sequence[int], order: int, neighbours: Neighbours | None
) -> Iterator[Subset]:
    """Yield subsets by size, then by rank of their features: Algorithm 1's canonical order.

    With `neighbours`, larger subsets hold features that are all neighbours of each other.
    """
    for size in range(1, min(order, len(features)) + 1):
        if neighbours is None or size == 1:
            subsets: Iterator[Subset] = combinations(features, size)
        else:
            subsets = _cliques((), list(features), size, neighbours)
        for subset in subsets:
            yield tuple(sorted(subset))


def _cliques(
    begun: Subset, rest: list[int], missing: int, neighbours: Neighbours
) -> Iterator[Subset]:
    if missing == 0:
        yield begun
        return
    for position, feature in enumerate(rest):
        near = neighbours[feature]
        later = [other for other in rest[position + 1 :] if other in near]
        if len(later) >= missing - 1:
            yield from _cliques((*begun, feature), later, missing - 1, neighbours)


@dataclass(frozen=True, eq=False)
class Route:
    """What a selection works on.

    Parameters
    ----------
    observations : Observations
        The support, its mass and the values.
    subsets : callable
        Yields the candidates in order, from the start at each call: they can be very many.
    names : tuple of str
        Names of the features.
    rank : int, optional
        Requested number of functions.
    memory_budget : int
        Bytes that tables may take.
    report : callable
        Progress.
    """

    observations: Observations
    subsets: Callable[[], Iterable[Subset]]
    names: tuple[str, ...]
    rank: int | None
    memory_budget: int
    report: ProgressReport


@dataclass(frozen=True, eq=False)
class Solved:
    """A fit, and what is known about how it was found.

    Parameters
    ----------
    fit : CategoricalFit
        The effects and the residual.
    mass : dict
        Mass of each cell of each subset.
    method : str
        How, in words.
    diagnostics : dict
        What the rows do not determine and how functions were selected.
    unidentified : int
        Functions that the rows do not tell from others.
    note : str
        What that means, as the certificate says it.
    warning : str
        The text of a warning to the caller; empty where nothing is wrong.
    """

    fit: CategoricalFit
    mass: dict[Subset, Array]
    method: str
    diagnostics: dict[str, Any]
    unidentified: int = 0
    note: str = ""
    warning: str = ""


def solve_independent(route: Route, order: int) -> Solved:
    """Take centred conditional means: features are independent and every cell has mass."""
    observations = route.observations
    intercept, effects = _independent_effects(observations, order, route.memory_budget)
    residual = observations.values - intercept
    for subset, table in effects.items():
        observations.add(subset, -table, residual)
    mass = {subset: observations.margin(subset) for subset in effects}
    method = "conditional means (independent features)"
    fit = CategoricalFit(intercept, effects, residual, 0.0, 0)
    report_of_rows = describe_independent(observations, effects, route.names)
    diagnostics = {
        "identifiability": _with_inflation(report_of_rows, observations, fit, mass, route.names)
    }
    return Solved(fit, mass, method, diagnostics)


def solve_in_order(route: Route) -> Solved:
    """Take the first independent functions; those of least norm where these mean too little.

    Where `rank` is given, the first ones are the requested ones.

    Raises
    ------
    InvalidInputError
        If there are many more functions than rows, and those of least norm would take too long.
    """
    if route.rank is not None:
        return solve_by_greedy_selection(route)
    _check_determined(route)
    basis = _first_functions(route)
    solved = _solve_first(route, basis)
    if basis.rank == route.observations.n_points and _inflation(solved) > _CANCELLING:
        # As many functions as points fit anything.
        solved = replace(solved, warning=_collinear(_amplification(solved)))
    if not solved.warning:
        return solved
    subsets = _spanning(route, basis)
    n_directions = min(len(basis.pivots), route.observations.n_points)
    if operations(route.observations, subsets, n_directions) > _MOST_OPERATIONS:
        return solved
    try:
        least = _solve_least(route, basis)
    except MemoryBudgetError:
        return solved
    if not least.unidentified:
        return least
    warning = (
        "the rows do not determine all effects: the first independent functions nearly depend on "
        f"each other (variances of effects would add up to {_inflation(solved):.1e} times that of "
        f"the function, or to {_amplification(solved):.1e} squared times for another one), so the "
        "smallest solution was used instead. "
        f"{least.diagnostics['identifiability']['sentences'][-1]}"
    )
    return replace(least, warning=warning)


def _check_determined(route: Route) -> None:
    """Refuse many more functions than rows, where even finding the smallest solution is long."""
    observations = route.observations
    n_points = observations.n_points
    tried: list[Subset] = []
    total, order = 1, 0
    for size, of_size in groupby(route.subsets(), len):
        for subset in of_size:
            tried.append(subset)
            total += _most_functions(observations, subset)
            if total < _MANY_FUNCTIONS * n_points:
                continue
            if operations(observations, tried, n_points) <= _MOST_OPERATIONS:
                return
            smaller = f"order={order}, fewer bins" if order else "fewer bins"
            raise InvalidInputError(
                f"{n_points} distinct rows cannot determine the effects of up to {size} features, "
                f"which have more than {total} independent parameters: large effects would cancel "
                f"each other. Pass {smaller}, or a rank; or selection="
                '"least-norm", which takes long'
            )
        if total <= n_points:
            order = size


def _most_functions(observations: Observations, subset: Subset) -> int:
    """Return how many independent functions an effect can add at most."""
    n_functions = math.prod(n - 1 for n in observations.shape(subset))
    if n_functions <= _SMALL_TABLE * observations.n_points:
        return n_functions
    return min(n_functions, len(np.unique(observations.flat_cells(subset))))


def solve_by_greedy_selection(route: Route) -> Solved:
    """Take the first independent functions in canonical order (Ferrere et al., algorithm 1)."""
    return _solve_first(route, _first_functions(route))


def solve_by_least_norm(route: Route) -> Solved:
    """Take the components of least norm among all that explain the same function."""
    return _solve_least(route, _first_functions(route))


def _first_functions(route: Route) -> IndicatorBasis:
    n_points = route.observations.n_points
    wanted = min(route.rank or n_points, n_points)
    return select_in_order(
        route.observations, route.subsets(), wanted, TOLERANCE, route.memory_budget, route.report
    )


def _spanning(route: Route, basis: IndicatorBasis) -> list[Subset]:
    """Return the candidates of the sizes that the first independent functions needed."""
    most = max(len(subset) for subset in basis.chosen)
    return list(takewhile(lambda candidate: len(candidate) <= most, route.subsets()))


def _collinear(amplification: float) -> str:
    return (
        f"the selected functions are nearly collinear: effects can be up to {amplification:.1e} "
        "times as large as the function, cancel each other and mean little. Pass "
        'selection="least-norm", a smaller rank or order, or fewer bins'
    )


def _inflation(solved: Solved) -> float:
    return float(solved.diagnostics["identifiability"]["inflation"])


def _amplification(solved: Solved) -> float:
    return float(solved.diagnostics["selection"]["amplification"])


def _solve_least(route: Route, basis: IndicatorBasis) -> Solved:
    observations = route.observations
    least = fit_of_least_norm(
        observations, _spanning(route, basis), basis, route.memory_budget, route.report
    )
    report_of_rows = describe_least_norm(observations, least, route.names)
    unidentified = least.n_functions - least.rank
    note = (
        f"The {len(least.mass)} effects have {least.n_functions} independent parameters; the rows "
        f"determine {least.rank} of them. {report_of_rows['sentences'][-1]}"
    )
    inflated = _with_inflation(report_of_rows, observations, least.fit, least.mass, route.names)
    return Solved(
        least.fit,
        least.mass,
        "smallest solution",
        {"identifiability": inflated, "selection": {"method": "least-norm"}},
        unidentified,
        note if unidentified else "",
    )


def _solve_first(route: Route, basis: IndicatorBasis) -> Solved:
    observations = route.observations
    fit = solve(observations, basis, route.memory_budget, route.report)
    report_of_rows = describe_identifiability(observations, basis, route.names)
    unidentified = sum(
        chosen.kept.size - (chosen.last - chosen.first) for chosen in basis.chosen.values()
    )
    note = (
        f"The first {basis.rank} independent functions of {basis.tried} tried were selected; "
        "others would explain the same rows."
    )
    selection = {
        "method": "greedy",
        "tried": basis.tried,
        "smallest_kept": basis.smallest_kept,
        "largest_rejected": basis.largest_rejected,
        "exhausted": basis.exhausted,
        "made_orthogonal": fit.replaced,
        "amplification": fit.amplification,
    }
    report_of_rows = _with_inflation(report_of_rows, observations, fit, basis.mass, route.names)
    return Solved(
        fit,
        basis.mass,
        "Gram system",
        {
            "tolerance": TOLERANCE,
            "identifiability": report_of_rows,
            "selection": selection,
        },
        int(unidentified),
        note if unidentified else "",
        "" if fit.amplification <= _LARGEST_AMPLIFICATION else _collinear(fit.amplification),
    )


def solve_by_least_angle(route: Route, n_rows: float) -> Solved:
    """Take the functions that the LASSO path selects, and fit them by least squares."""
    observations = route.observations
    sparse = fit_by_least_angle(
        observations, route.subsets(), route.rank, n_rows, route.memory_budget, route.report
    )
    report_of_rows = describe_sparse(observations, sparse, route.names)
    unidentified = sparse.candidates - sparse.independent
    note = (
        f"Least angle regression selected {sparse.rank} of {sparse.candidates} functions; others "
        "would explain the same rows."
    )
    selection = {
        "method": "lars",
        "criterion": sparse.criterion,
        "noise_variance": list(sparse.noise_variance),
        "tried": sparse.candidates,
        "independent": sparse.independent,
        "made_orthogonal": sparse.fit.replaced,
    }
    return Solved(
        sparse.fit,
        sparse.mass,
        "least angle regression, then least squares",
        {
            "identifiability": _with_inflation(
                report_of_rows, observations, sparse.fit, sparse.mass, route.names
            ),
            "selection": selection,
        },
        unidentified,
        note if unidentified else "",
    )


def _with_inflation(
    facts: dict[str, Any],
    observations: Observations,
    fit: CategoricalFit,
    mass: dict[Subset, Array],
    names: tuple[str, ...],
) -> dict[str, Any]:
    """Add how far the variances of the components exceed that of the function.

    And, where the rows determine every effect, the names of all: else only components of least
    norm tell which ones are determined, and ``determined_terms`` is None.
    """
    inflation = variance_inflation(observations, fit, mass)
    if inflation > _CANCELLING:
        facts["sentences"].append(
            f"The variances of the effects add up to {inflation:.3g} times that of the "
            "function: on the observed rows large effects cancel each other, and the rows "
            "hardly determine them. A smaller rank or order avoids this."
        )
    every = [term_name(names[j] for j in subset) for subset in mass if subset]
    determined = every if facts["unique"] else None
    return {"determined_terms": determined} | facts | {"inflation": inflation}


def is_independent(observations: Observations) -> bool:
    """Whether every combination of levels is observed with the product of its margins."""
    if observations.n_points != observations.n_combinations:
        return False
    product = np.ones(observations.n_points)
    for margin, codes in zip(observations.level_mass, observations.codes, strict=True):
        product *= margin[codes]
    return bool(np.all(np.abs(observations.mass - product) <= _EQUAL * product))


def _independent_effects(
    observations: Observations, order: int, memory_budget: int
) -> tuple[Array, dict[Subset, Array]]:
    """Return the mean and the effects of up to `order` features (Ferrere et al. 2026, eq. 3).

    Each axis is split into its mean and the residual; the Gram matrix of the closed form is
    block diagonal (remark 3.8), and this is its solution.

    Raises
    ------
    MemoryBudgetError
        If the tables would not fit.
    """
    shape = observations.n_levels
    n_cells = _most_cells(shape, order)
    check_budget(
        8 * (observations.n_outputs + 1) * n_cells,
        memory_budget,
        f"conditional means of {n_cells} combinations of levels of up to {order} features",
        "Pass a smaller order.",
    )
    margins = observations.level_mass
    values = np.empty((observations.n_points, observations.n_outputs))
    values[np.ravel_multi_index(tuple(observations.codes), shape)] = observations.values
    active = [j for j, n in enumerate(shape) if n > 1]
    parts: dict[Subset, Array] = {(): values.reshape(*shape, -1)}
    for position, j in enumerate(range(len(shape))):
        split: dict[Subset, Array] = {}
        for subset, table in parts.items():
            # Axes before this one are gone where they were averaged over.
            axis = len(subset)
            mean = np.tensordot(margins[position], table, axes=(0, axis))
            split[subset] = mean
            if j in active and len(subset) < order:
                split[(*subset, j)] = table - np.expand_dims(mean, axis)
        parts = split
    intercept = parts.pop(())
    wanted = [s for size in range(1, order + 1) for s in combinations(active, size)]
    return intercept, {subset: parts[subset] for subset in wanted}


def _most_cells(shape: tuple[int, ...], order: int) -> int:
    """Return how many cells there are at the widest step: tables before and after a split."""
    kept = [1, *[0] * order]
    rest = math.prod(shape)
    widest = before = rest
    for n_levels in shape:
        rest //= n_levels
        split = n_levels if n_levels > 1 else 0
        kept = [1, *(same + split * fewer for fewer, same in pairwise(kept))]
        after = rest * sum(kept)
        widest, before = max(widest, before + after), after
    return widest
