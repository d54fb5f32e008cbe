"""Fit to rows how each feature is brought to [-1, 1], or to levels.

Products of unbounded features need functions that grow with the tails; trees, which are constant
beyond their cuts, are better approximated by two more polynomials of ranks. A fit of low degree of
each decides between them.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Literal, get_args

import numpy as np

from treepurify.arguments import check_choice
from treepurify.engines.common.least_angle import full_fit
from treepurify.engines.legendre.densities import constant_densities
from treepurify.engines.legendre.design import LegendreBasis, count_columns, scaled_rows
from treepurify.engines.legendre.moments import measure_moments
from treepurify.engines.legendre.problem import LegendreProblem
from treepurify.engines.legendre.scaling import (
    RANKED,
    Axis,
    ContinuousAxis,
    GappedAxis,
    LevelAxis,
)
from treepurify.errors import InvalidInputError
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.rows.row_weights import first_reached, heaviest
from treepurify.typing import Array

Scaling = Literal["auto", "tanh", "minmax", "rank", "score", "levels"]

_MOST_KNOTS = 129
_MOST_LEVELS = 10
_CONSTANT = 1e-12
# The cube of a slope between values must fit into a float64.
_LARGEST = 1e100
# The fits of low degree that decide between ranks and scores, which are taken where they leave
# clearly less of the function.
_DEGREE = 4
_MOST_COLUMNS = 1500
_ROWS_A_COLUMN = 3
_CLEARLY_LESS = 0.9


def choose_axes(
    problem: LegendreProblem, scaling: str | Mapping[str, str], *, with_gaps: bool
) -> tuple[dict[int, Axis], list[str]]:
    """Return the axis of each feature that varies, and the names of those that do not.

    Where the scaling is left to us, numbers have ranks, or scores if main effects and pairs of
    degree 4 in these leave a tenth less of the function's variance (main effects alone where
    there are many features, or few rows). With `with_gaps`, missing numbers have a level of their
    own.

    Raises
    ------
    InvalidInputError
        If a scaling is unknown or names an unknown feature, or values are not finite.
    """
    rows = problem.columns, problem.weights
    # What the model does not use has no effect.
    ranks, constant = fit_axes(
        *rows, scaling, "rank", with_gaps=with_gaps, only=problem.used_features
    )
    most = min(_MOST_COLUMNS, problem.effective_rows / _ROWS_A_COLUMN)
    order = 2 if count_columns(ranks, 2, _DEGREE) <= most else 1
    is_given = isinstance(scaling, str) and scaling != "auto"
    if is_given or count_columns(ranks, order, _DEGREE) > most:
        return ranks, constant
    scores, _ = fit_axes(*rows, scaling, "score", with_gaps=with_gaps, only=problem.used_features)
    if all(scores[j].kind == axis.kind for j, axis in ranks.items()):
        return ranks, constant
    left = [_unexplained(problem, axes, order) for axes in (ranks, scores)]
    return scores if left[1] < _CLEARLY_LESS * left[0] else ranks, constant


def _unexplained(problem: LegendreProblem, axes: dict[int, Axis], order: int) -> float:
    """Return the share of the variance that a fit of low degree leaves, meaned over outputs."""
    subsets = [s for size in range(1, order + 1) for s in combinations(axes, size)]
    basis = LegendreBasis(axes, dict(constant_densities(axes, subsets)), _DEGREE)
    rows = scaled_rows(axes, problem.columns, problem.weights)
    moments = measure_moments(basis, rows, problem.values)
    shares = [
        full_fit(moments.gram, moments.covariances[:, k], total, rows.n_rows).sum_of_squares / total
        for k, total in enumerate(moments.value_squares.tolist())
        if total > 0
    ]
    return float(np.mean(shares)) if shares else 0.0


def fit_axes(
    columns: Columns,
    weights: Array,
    scaling: str | Mapping[str, str],
    auto: str,
    *,
    with_gaps: bool = False,
    only: Sequence[int] | None = None,
) -> tuple[dict[int, Axis], list[str]]:
    """Return the axis of each feature that varies, and the names of those that do not.

    Parameters
    ----------
    columns : Columns
        The rows.
    weights : ndarray of float64, shape (n_rows,)
        Weight of each row; sums to one.
    scaling : str or mapping of str to str
        ``"auto"`` takes levels for categories and for numbers of at most 10 distinct values.
        Categories have levels whatever it says. A mapping names features that differ from
        ``"auto"``.
    auto : {"rank", "score"}
        What ``"auto"`` takes for all others.
    with_gaps : bool
        Whether missing numbers may have a level of their own; else they are refused.
    only : sequence of int, optional
        The features that get an axis; all by default.

    Raises
    ------
    InvalidInputError
        If a scaling is unknown or names an unknown feature, or values are not finite.
    """
    wanted = _scaling_by_feature(columns.features, scaling)
    axes: dict[int, Axis] = {}
    constant = []
    for j in range(len(columns.features)) if only is None else only:
        spec = columns.features[j]
        values = np.asarray(columns.values[j], dtype=np.float64)
        axis = _fit_axis(j, spec, values, weights, wanted[j], auto, with_gaps)
        if axis is None:
            constant.append(spec.name)
        else:
            axes[j] = axis
    return axes, constant


def _scaling_by_feature(
    features: Sequence[FeatureSpec], scaling: str | Mapping[str, str]
) -> list[str]:
    if not isinstance(scaling, str | Mapping):
        raise InvalidInputError(
            f"scaling must be one of {', '.join(get_args(Scaling))}, or a mapping of feature names "
            f"to these; got {scaling!r}"
        )
    names = [spec.name for spec in features]
    named = {} if isinstance(scaling, str) else dict(scaling)
    unknown = [name for name in named if name not in names]
    if unknown:
        raise InvalidInputError(f"scaling names features that X does not have: {unknown[:10]}")
    default = scaling if isinstance(scaling, str) else "auto"
    kinds = [named.get(name, default) for name in names]
    for kind in kinds:
        check_choice(
            "scaling", kind, get_args(Scaling), advice=", or a mapping of feature names to these"
        )
    return kinds


def _fit_axis(
    feature: int,
    spec: FeatureSpec,
    values: Array,
    weights: Array,
    scaling: str,
    auto: str,
    with_gaps: bool,
) -> Axis | None:
    is_present = weights > 0
    distinct, number = np.unique(values[is_present], return_inverse=True)
    is_levels = scaling == "levels" or spec.is_categorical
    if is_levels or (scaling == "auto" and len(distinct) <= _MOST_LEVELS):
        if len(distinct) < 2:
            return None
        mass = np.bincount(number, weights[is_present]).astype(np.float64)
        return LevelAxis(feature, spec.name, distinct, heaviest(mass))
    scaling = auto if scaling == "auto" else scaling
    if with_gaps and np.isnan(distinct[-1]):
        known = is_present & ~np.isnan(values)
        shares = weights[known] / weights[known].sum()
        numbers = _fit_axis(feature, spec, values[known], shares, scaling, auto, False)
        if isinstance(numbers, ContinuousAxis):
            return GappedAxis(numbers)
        return _fit_axis(feature, spec, values, weights, "levels", auto, False)
    if not np.all(np.isfinite(distinct)):
        raise InvalidInputError(
            f"feature {spec.name!r} has missing or infinite values, for which a Legendre series "
            "has no value. Fill them in, or leave these rows out. Missing values are a separate "
            'level with density="none", the default.'
        )
    low, high = float(distinct[0]), float(distinct[-1])
    if high - low <= _CONSTANT * max(abs(low), abs(high)):
        return None
    least = float(np.min(np.diff(distinct)))
    if high - low > _LARGEST or (least < 1.0 / _LARGEST and scaling in RANKED):
        raise InvalidInputError(
            f"feature {spec.name!r} spans {high - low:.3g} with values as close as {least:.3g}: "
            f"powers of such numbers overflow. Rescale the feature, or leave out rows with values "
            f"beyond {_LARGEST:g}."
        )
    none = np.empty(0)
    if scaling == "tanh":
        mean = float(weights @ values)
        spread = float(np.sqrt(weights @ (values - mean) ** 2))
        return ContinuousAxis(feature, spec.name, scaling, mean, spread, none, none)
    centre, spread = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
    if scaling == "minmax":
        return ContinuousAxis(feature, spec.name, scaling, centre, spread, none, none)
    mass = np.bincount(number, weights[is_present]).astype(np.float64)
    rank = np.cumsum(mass) - 0.5 * mass
    middle, half = 0.5 * (rank[-1] + rank[0]), 0.5 * (rank[-1] - rank[0])
    if scaling == "rank":
        knots, cubics = _rank_cubics(distinct, rank, (rank - middle) / half)
        return ContinuousAxis(feature, spec.name, "rank", centre, spread, knots, cubics)
    from scipy.special import ndtri

    knots, cubics = _rank_cubics(distinct, rank, ndtri(rank))
    return ContinuousAxis(feature, spec.name, "score", middle, half, knots, cubics)


def _rank_cubics(distinct: Array, rank: Array, image: Array) -> tuple[Array, Array]:
    """Return knots and cubics of a smooth increasing function that has an image of each rank.

    Each distinct value has the middle of its share of the mass as `rank`; many values are
    thinned to quantiles, between which the function is monotone and smooth (Fritsch and Carlson
    1980).
    """
    from scipy.interpolate import PchipInterpolator

    if len(distinct) > _MOST_KNOTS:
        last = len(distinct) - 1
        near = first_reached(rank, np.linspace(rank[0], rank[-1], _MOST_KNOTS))
        kept = np.unique(np.concatenate([[0], near, [last]]).clip(0, last))
        distinct, image = distinct[kept], image[kept]
    cubics = PchipInterpolator(distinct, image).c
    return distinct, np.ascontiguousarray(cubics)
