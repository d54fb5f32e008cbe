"""Which effects the observed combinations of levels do not determine."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from treepurify._kernels.categorical import determines
from treepurify.engines.categorical.greedy_selection import IndicatorBasis
from treepurify.engines.categorical.least_angle_fit import Sparse
from treepurify.engines.categorical.least_norm import LeastNormFit
from treepurify.engines.categorical.observations import Observations
from treepurify.grids.grid import Subset
from treepurify.terms import term_name

_MOST_SENTENCES = 20
_MOST_NAMES = 8


@dataclass(frozen=True)
class _Rejected:
    """A subset some of whose functions depend on functions before them."""

    subset: Subset
    n_rejected: int
    n_functions: int


def describe_identifiability(
    observations: Observations, basis: IndicatorBasis, names: tuple[str, ...]
) -> dict[str, Any]:
    """Return the rank, what was rejected, and why in words.

    Parameters
    ----------
    observations : Observations
        The support.
    basis : IndicatorBasis
        The selected functions.
    names : tuple of str
        Names of the features.

    Returns
    -------
    dict
        ``support``, ``grid``, ``rank``, ``unique``, ``rejected`` (functions by term),
        ``constant`` (features of one level), ``determined`` (features whose effect was
        rejected, with what determines them), ``sentences``.

    Notes
    -----
    Which terms the rows determine where some functions were rejected, only components of least
    norm say.
    """
    grid = observations.n_combinations
    rejected = _rejected(basis)
    constant = _constant(observations, names)
    alone = {lost.subset[0] for lost in rejected if _is_lost_feature(lost)}
    if basis.rank == observations.n_points:
        # The space was full before these features were tried.
        alone |= {j for j, n in enumerate(observations.n_levels) if n > 1} - {
            s[0] for s in basis.chosen if len(s) == 1
        }
    determined = {names[j]: _determined_by(observations, j, basis, names) for j in sorted(alone)}
    sentences = [f"{name} has one level and no effect." for name in constant]
    sentences += [
        f"{name} is a function of {by}: on the observed rows its effect cannot be distinguished "
        f"from the effect of {by}, which contains both."
        if by
        else f"On the observed rows the effect of {name} is a sum of effects of earlier features, "
        "and is included in them."
        for name, by in determined.items()
    ]
    partly = [lost for lost in rejected if not _is_lost_feature(lost)]
    if partly:
        sentences.append(
            f"{sum(lost.n_rejected for lost in partly)} functions of {len(partly)} other effects "
            "are, on the observed rows, combinations of functions of earlier effects, and are "
            "included in those effects."
        )
    return {
        "support": observations.n_points,
        "grid": grid,
        "rank": basis.rank,
        "unique": basis.rank == grid or (basis.exhausted and not rejected),
        "rejected": {
            term_name(names[j] for j in lost.subset): f"{lost.n_rejected} of {lost.n_functions}"
            for lost in rejected[:_MOST_SENTENCES]
        },
        "n_rejected": sum(lost.n_rejected for lost in rejected),
        "constant": constant,
        "determined": determined,
        "sentences": sentences[:_MOST_SENTENCES],
    }


def describe_sparse(
    observations: Observations, sparse: Sparse, names: tuple[str, ...]
) -> dict[str, Any]:
    """Return the same facts of a selection by least angle regression.

    There is no order in which one function is rejected for another: ``rejected`` and
    ``determined`` are empty, and ``n_rejected`` counts the candidates that are combinations
    of others.
    """
    constant = _constant(observations, names)
    by = "by BIC" if sparse.criterion == "bic" else "up to the requested rank"
    sentences = [f"{name} has one level and no effect." for name in constant]
    sentences.append(
        f"{sparse.independent} of {sparse.candidates} functions are independent on the observed "
        f"rows; the LASSO path selected {sparse.rank - 1} of them {by}."
    )
    if sparse.independent < sparse.candidates:
        sentences.append(
            f"{sparse.candidates - sparse.independent} functions are combinations of others on "
            "the observed rows, so another selection may give other effects of the same function."
        )
    return _nothing_rejected(observations, sparse.rank, constant) | {
        "unique": sparse.independent == sparse.candidates,
        "n_rejected": sparse.candidates - sparse.independent,
        "sentences": sentences[:_MOST_SENTENCES],
    }


def describe_least_norm(
    observations: Observations, least: LeastNormFit, names: tuple[str, ...]
) -> dict[str, Any]:
    """Return the same facts of components of least norm.

    ``n_rejected`` counts the directions that the rows do not determine, and
    ``determined_terms`` names the terms without such a direction. The last sentence is about
    these.
    """
    constant = _constant(observations, names)
    unidentified = least.n_functions - least.rank
    determined = [term_name(names[j] for j in subset) for subset in least.determined]
    sentences = [f"{name} has one level and no effect." for name in constant]
    sentences.append(_what_is_determined(determined, len(least.mass)))
    return _nothing_rejected(observations, least.rank, constant) | {
        "unique": unidentified == 0,
        "n_rejected": unidentified,
        "determined_terms": determined,
        "sentences": sentences[-_MOST_SENTENCES:],
    }


def _what_is_determined(terms: list[str], n_terms: int) -> str:
    if not terms:
        return (
            f"The rows determine none of the {n_terms} effects uniquely: parts can be moved from "
            "one effect to another without changing the function on the rows."
        )
    if len(terms) == n_terms:
        return "The rows determine every effect."
    more = f" and {len(terms) - _MOST_NAMES} more" if len(terms) > _MOST_NAMES else ""
    return (
        f"The rows determine {len(terms)} of {n_terms} effects: {', '.join(terms[:_MOST_NAMES])}"
        f"{more}. The others are not unique: parts of them can be moved from one effect to another "
        "without changing the function on the rows."
    )


def describe_independent(
    observations: Observations, subsets: Iterable[Subset], names: tuple[str, ...]
) -> dict[str, Any]:
    """Return the same facts where every combination has mass: all functions are independent."""
    n_functions = sum(math.prod(n - 1 for n in observations.shape(subset)) for subset in subsets)
    return _nothing_rejected(observations, 1 + n_functions, _constant(observations, names))


def _constant(observations: Observations, names: tuple[str, ...]) -> list[str]:
    return [name for name, n in zip(names, observations.n_levels, strict=True) if n == 1]


def _nothing_rejected(observations: Observations, rank: int, constant: list[str]) -> dict[str, Any]:
    return {
        "support": observations.n_points,
        "grid": observations.n_combinations,
        "rank": rank,
        "unique": True,
        "rejected": {},
        "n_rejected": 0,
        "constant": constant,
        "determined": {},
        "sentences": [f"{name} has one level and no effect." for name in constant],
    }


def _is_lost_feature(rejected: _Rejected) -> bool:
    return len(rejected.subset) == 1 and rejected.n_rejected == rejected.n_functions


def _rejected(basis: IndicatorBasis) -> list[_Rejected]:
    rejected = []
    last = next(reversed(basis.chosen))
    for subset, chosen in basis.chosen.items():
        # The budget may have cut the last subset short: what it lacks was not rejected.
        lost = chosen.kept.size - (
            chosen.last - chosen.first if subset == last else chosen.kept.sum()
        )
        if subset and lost:
            rejected.append(_Rejected(subset, int(lost), int(chosen.kept.size)))
    return rejected


def _determined_by(
    observations: Observations, feature: int, basis: IndicatorBasis, names: tuple[str, ...]
) -> str:
    """Name one feature that determines another on every observed row; empty if none does."""
    kept = [s[0] for s, chosen in basis.chosen.items() if len(s) == 1 and chosen.kept.any()]
    codes, n_levels = observations.codes, observations.n_levels
    for other in kept:
        partner = np.full(n_levels[other], -1, dtype=np.int64)
        if other != feature and determines(codes[other], codes[feature], partner):
            return names[other]
    return ""
