"""The three ways to a decomposition: conditional means, the first independent functions, LARS."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from treepurify.engines.categorical.identifiability import (
    describe_identifiability,
    describe_independent,
    describe_sparse,
)
from treepurify.engines.categorical.independent import independent_effects
from treepurify.engines.categorical.least_angle import fit_by_least_angle
from treepurify.engines.categorical.observations import Observations
from treepurify.engines.categorical.quality import variance_inflation
from treepurify.engines.categorical.selection import select_in_order
from treepurify.engines.categorical.solution import Fit, solve
from treepurify.grids.grid import Subset
from treepurify.progress import ProgressReport

__all__ = [
    "Route",
    "Selection",
    "Solved",
    "solve_by_greedy_selection",
    "solve_by_least_angle",
    "solve_independent",
]

Array = npt.NDArray[np.float64]
Selection = Literal["greedy", "lars"]

TOLERANCE = 1e-4
"""Share of an indicator's norm that must be left after projection for it to be independent."""

_CANCELLING = 10.0


@dataclass(frozen=True, eq=False)
class Route:
    """What a selection works on.

    Parameters
    ----------
    observations : Observations
        The support, its mass and the values.
    subsets : iterable of tuple of int
        Candidates in order.
    names : tuple of str
        Names of the features.
    rank : int, optional
        Number of functions asked for.
    memory_budget : int
        Bytes that tables may take.
    report : callable
        Progress.
    """

    observations: Observations
    subsets: Iterable[Subset]
    names: tuple[str, ...]
    rank: int | None
    memory_budget: int
    report: ProgressReport


@dataclass(frozen=True, eq=False)
class Solved:
    """A fit, and what is known about how it was found.

    Parameters
    ----------
    fit : Fit
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
        What that means, for the certificate.
    """

    fit: Fit
    mass: dict[Subset, Array]
    method: str
    diagnostics: dict[str, Any]
    unidentified: int = 0
    note: str = ""


def solve_independent(given: Route, order: int) -> Solved:
    """Take centred conditional means: features are independent and every cell has mass."""
    observations = given.observations
    intercept, effects = independent_effects(observations, order)
    residual = observations.values - intercept
    for subset, table in effects.items():
        observations.add(subset, -table, residual)
    mass = {subset: observations.margin(subset) for subset in effects}
    method = "conditional means (independent features)"
    fit = Fit(intercept, effects, residual, 0.0, 0)
    report_of_rows = describe_independent(observations, effects, given.names)
    found = {"identifiability": _with_inflation(report_of_rows, observations, fit, mass)}
    return Solved(fit, mass, method, found)


def solve_by_greedy_selection(given: Route) -> Solved:
    """Take the first independent functions in canonical order (Ferrere et al., algorithm 1)."""
    observations = given.observations
    wanted = min(given.rank or observations.n_points, observations.n_points)
    basis = select_in_order(
        observations, given.subsets, wanted, TOLERANCE, given.memory_budget, given.report
    )
    fit = solve(observations, basis, given.memory_budget, given.report)
    report_of_rows = describe_identifiability(observations, basis, given.names)
    unidentified = sum(own.kept.size - (own.last - own.first) for own in basis.chosen.values())
    note = (
        f"The {basis.rank} selected functions are the first independent ones of {basis.tried} "
        "tried; others would explain the same rows."
    )
    selection = {
        "method": "greedy",
        "tried": basis.tried,
        "smallest_kept": basis.smallest_kept,
        "largest_rejected": basis.largest_rejected,
        "exhausted": basis.exhausted,
        "made_orthogonal": fit.replaced,
    }
    return Solved(
        fit,
        basis.mass,
        "Gram system",
        {
            "tolerance": TOLERANCE,
            "identifiability": _with_inflation(report_of_rows, observations, fit, basis.mass),
            "selection": selection,
        },
        int(unidentified),
        note if unidentified else "",
    )


def solve_by_least_angle(given: Route, n_rows: float) -> Solved:
    """Take the functions that the LASSO path selects, and fit them by least squares."""
    observations = given.observations
    sparse = fit_by_least_angle(
        observations, given.subsets, given.rank, n_rows, given.memory_budget, given.report
    )
    report_of_rows = describe_sparse(observations, sparse, given.names)
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
                report_of_rows, observations, sparse.fit, sparse.mass
            ),
            "selection": selection,
        },
        unidentified,
        note if unidentified else "",
    )


def _with_inflation(
    found: dict[str, Any], observations: Observations, fit: Fit, mass: dict[Subset, Array]
) -> dict[str, Any]:
    """Add how far the variances of the components exceed that of the function."""
    inflation = variance_inflation(observations, fit, mass)
    if inflation > _CANCELLING:
        found["sentences"].append(
            f"The variances of the components add up to {inflation:.3g} times that of the "
            "function: on the observed rows large components cancel each other, and how they "
            "share the function is hardly determined. A smaller rank or order avoids this."
        )
    return found | {"inflation": inflation}
