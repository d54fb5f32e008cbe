"""Bring each feature to the interval [-1, 1], or to levels."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_choice
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.saving import savable
from treepurify.typing import Array

__all__ = ["Axis", "ContinuousAxis", "LevelAxis", "Scaling", "fit_axes", "legendre_table"]

Scaling = Literal["auto", "tanh", "minmax", "rank", "score", "levels"]

_RANKED = ("rank", "score")
_LEAST_SCORED = 3
# For integrals of scores, which grow slowly towards the ends.
_NODES = 400
_MOST_KNOTS = 129
_MOST_LEVELS = 10
_CONSTANT = 1e-12
# The cube of a slope between values must fit into a float64.
_LARGEST = 1e100


def legendre_table(points: Array, degree: int) -> Array:
    """Return the normalised Legendre polynomials of degree 0 to `degree`, (n_points, degree + 1).

    They are orthonormal in L2 of the Lebesgue measure on [-1, 1] (Ferrere et al., continuous
    closed form, equations 15 to 17).

    Examples
    --------
    >>> legendre_table(np.array([1.0]), 2) ** 2
    array([[0.5, 1.5, 2.5]])
    """
    from numpy.polynomial.legendre import legvander

    table = legvander(points, degree) * np.sqrt(np.arange(degree + 1) + 0.5)
    return np.ascontiguousarray(table)


@savable("scaled feature")
@dataclass(frozen=True, eq=False)
class ContinuousAxis:
    """A feature that is brought to [-1, 1] by an increasing function.

    Parameters
    ----------
    feature : int
        Position of the feature.
    name : str
        Its name.
    scaling : {"tanh", "minmax", "rank", "score"}
        ``tanh((x - centre) / spread)``, ``(x - centre) / spread``, or an increasing piecewise
        cubic function through `knots`; see `functions` for ``"score"``.
    centre, spread : float
        Mean and standard deviation, or the middle and half the range: of the feature, but for
        ``"score"`` of the ranks as shares of the rows.
    knots : ndarray of float64, shape (n_knots,)
        Values in units of the feature, for ``"rank"`` and ``"score"``.
    cubics : ndarray of float64, shape (4, n_knots - 1)
        Coefficients between the knots, the cube first.
    """

    feature: int
    name: str
    scaling: str
    centre: float
    spread: float
    knots: Array
    cubics: Array

    @property
    def kind(self) -> str:
        """How the feature is scaled, in words."""
        return self.scaling

    def coordinates(self, values: npt.NDArray[np.floating[Any]]) -> Array:
        """Return the scaled values; beyond the range of the rows they stay at the ends.

        Raises
        ------
        InvalidInputError
            If a value is missing or infinite.
        """
        numbers = np.asarray(values, dtype=np.float64)
        wrong = int(np.sum(~np.isfinite(numbers)))
        if wrong:
            raise InvalidInputError(
                f"feature {self.name!r} has {wrong} missing or infinite values, for which a "
                "Legendre series has no value. Fill them in, leave these rows out, or pass "
                f'scaling={{{self.name!r}: "levels"}} where the column has few distinct values.'
            )
        if self.scaling in _RANKED:
            inside = np.clip(numbers, self.knots[0], self.knots[-1])
            piece = np.clip(
                np.searchsorted(self.knots, inside, side="right") - 1, 0, len(self.knots) - 2
            )
            step = inside - self.knots[piece]
            cubic = self.cubics[:, piece]
            scaled = ((cubic[0] * step + cubic[1]) * step + cubic[2]) * step + cubic[3]
            if self.scaling == "score":
                from scipy.special import ndtr

                scaled = (ndtr(scaled) - self.centre) / self.spread
        else:
            scaled = (numbers - self.centre) / self.spread
            if self.scaling == "tanh":
                return np.asarray(np.tanh(scaled))
        return np.asarray(np.clip(scaled, -1.0, 1.0))

    def functions(self, coordinates: Array, degree: int) -> Array:
        """Return the polynomials of degree 1 to `degree`, shape (n_rows, degree).

        From degree 3 on, ``"score"`` has two others in place of the two of the largest degrees:
        the normal score of the rank and its square, each less its projection on the polynomials,
        at norm one. They grow where the feature has tails, as no polynomial of ranks does.
        """
        if self.scaling != "score" or degree < _LEAST_SCORED:
            return legendre_table(coordinates, degree)[:, 1:]
        polynomials = legendre_table(coordinates, degree - 2)
        projection, norms = _along_polynomials(self.centre, self.spread, degree - 2)
        tails = _powers_of_score(self.centre, self.spread, coordinates) - polynomials @ projection
        return np.column_stack([polynomials[:, 1:], tails / norms])

    def n_functions(self, degree: int) -> int:
        """Return the number of functions of a main effect."""
        return degree

    def norms(self, degree: int) -> Array:
        """Return the norms over [-1, 1] of polynomials that are one at the upper end."""
        return np.asarray(np.sqrt(2.0 / (2.0 * np.arange(1, degree + 1) + 1.0)))


@savable("feature of levels")
@dataclass(frozen=True, eq=False)
class LevelAxis:
    """A feature with levels: categories, or numbers of few distinct values.

    The functions are ``1{x = level} - 1{x = reference}``: they sum to zero over the levels as
    Legendre polynomials integrate to zero, which is all that hierarchical orthogonality needs.

    Parameters
    ----------
    feature : int
        Position of the feature.
    name : str
        Its name.
    levels : ndarray of float64, shape (n_levels,)
        The values (or codes of categories), increasing; NaN last where values are missing.
    reference : int
        Position of the reference level, the one of largest mass.
    """

    feature: int
    name: str
    levels: Array
    reference: int

    @property
    def kind(self) -> str:
        """How the feature is scaled, in words."""
        return f"{len(self.levels)} levels"

    def coordinates(self, values: npt.NDArray[np.floating[Any]]) -> Array:
        """Return the level of each row, as whole numbers.

        Raises
        ------
        InvalidInputError
            If a value is none of the levels.
        """
        numbers = np.asarray(values, dtype=np.float64)
        has_missing = bool(np.isnan(self.levels[-1]))
        known = self.levels[: len(self.levels) - has_missing]
        at = np.clip(np.searchsorted(known, numbers), 0, max(len(known) - 1, 0))
        is_missing = np.isnan(numbers)
        is_known = np.zeros(len(numbers), dtype=bool) if len(known) == 0 else known[at] == numbers
        at = np.where(is_missing, len(known), at)
        unknown = int(np.sum(~is_known & ~(is_missing & has_missing)))
        if unknown:
            raise InvalidInputError(
                f"feature {self.name!r} has {unknown} rows with a level that the decomposition "
                f"was not made with; it knows {len(self.levels)} levels"
            )
        return at.astype(np.float64)

    def functions(self, coordinates: Array, degree: int) -> Array:
        """Return the contrasts with the reference, shape (n_rows, n_levels - 1)."""
        indicators = self.indicators(coordinates)
        reference = indicators[:, [self.reference]]
        return np.asarray(np.delete(indicators, self.reference, axis=1) - reference)

    def indicators(self, coordinates: Array) -> Array:
        """Return one indicator per level, shape (n_rows, n_levels)."""
        is_level = coordinates[:, None] == np.arange(len(self.levels))
        return np.asarray(is_level, dtype=np.float64)

    def n_functions(self, degree: int) -> int:
        """Return the number of functions of a main effect."""
        return len(self.levels) - 1

    def norms(self, degree: int) -> Array:
        """Return ones: contrasts have no other scale."""
        return np.ones(len(self.levels) - 1)

    def cells(self, spec: FeatureSpec) -> FeatureAxis:
        """Return the levels as the cells of a figure, in the same order."""
        has_missing = bool(np.isnan(self.levels[-1]))
        known = self.levels[: len(self.levels) - has_missing].tolist()
        labels: list[Hashable] = [int(level) if level.is_integer() else level for level in known]
        has_other = False
        if spec.is_categorical:
            has_other = bool(known) and known[-1] >= spec.n_codes
            names = spec.categories or range(spec.n_codes)
            labels = [names[int(code)] for code in known[: len(known) - has_other]]
        return FeatureAxis(self.name, None, tuple(labels), has_other, has_missing)


Axis = ContinuousAxis | LevelAxis


def _powers_of_score(centre: float, spread: float, coordinates: Array) -> Array:
    """Return the normal scores of ranks and their squares, shape (n_points, 2)."""
    from scipy.special import ndtri

    score = ndtri(centre + spread * coordinates)
    return np.column_stack([score, score**2])


@lru_cache(maxsize=1024)
def _along_polynomials(centre: float, spread: float, degree: int) -> tuple[Array, Array]:
    """Return the projections of the powers of scores on the polynomials, and what is left of them.

    The projections have shape (degree + 1, 2); the other is the norms over [-1, 1] of the rest.
    """
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    polynomials = legendre_table(nodes, degree)
    powers = _powers_of_score(centre, spread, nodes)
    projection = polynomials.T @ (weights[:, None] * powers)
    return projection, np.sqrt(weights @ (powers - polynomials @ projection) ** 2)


def fit_axes(
    columns: Columns, weights: Array, scaling: str | Mapping[str, str], auto: str
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

    Raises
    ------
    InvalidInputError
        If a scaling is unknown or names an unknown feature, or values are not finite.
    """
    wanted = _scaling_by_feature(columns.features, scaling)
    axes: dict[int, Axis] = {}
    constant = []
    for j, spec in enumerate(columns.features):
        values = np.asarray(columns.values[j], dtype=np.float64)
        axis = _fit_axis(j, spec, values, weights, wanted[j], auto)
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
    feature: int, spec: FeatureSpec, values: Array, weights: Array, scaling: str, auto: str
) -> Axis | None:
    is_present = weights > 0
    distinct, number = np.unique(values[is_present], return_inverse=True)
    is_levels = scaling == "levels" or spec.is_categorical
    if is_levels or (scaling == "auto" and len(distinct) <= _MOST_LEVELS):
        if len(distinct) < 2:
            return None
        mass = np.bincount(number, weights[is_present])
        return LevelAxis(feature, spec.name, distinct, int(np.argmax(mass)))
    scaling = auto if scaling == "auto" else scaling
    if not np.all(np.isfinite(distinct)):
        raise InvalidInputError(
            f"feature {spec.name!r} has missing or infinite values, for which a Legendre series "
            "has no value. Fill them in, or leave these rows out."
        )
    low, high = float(distinct[0]), float(distinct[-1])
    if high - low <= _CONSTANT * max(abs(low), abs(high)):
        return None
    least = float(np.min(np.diff(distinct)))
    if high - low > _LARGEST or (least < 1.0 / _LARGEST and scaling in _RANKED):
        raise InvalidInputError(
            f"feature {spec.name!r} spans {high - low:.3g} with values as close as {least:.3g}: "
            f"powers of such numbers overflow. Bring it to another unit, or leave rows beyond "
            f"{_LARGEST:g} out."
        )
    none = np.empty(0)
    if scaling == "tanh":
        mean = float(weights @ values)
        spread = float(np.sqrt(weights @ (values - mean) ** 2))
        return ContinuousAxis(feature, spec.name, scaling, mean, spread, none, none)
    centre, spread = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
    if scaling == "minmax":
        return ContinuousAxis(feature, spec.name, scaling, centre, spread, none, none)
    mass = np.bincount(number, weights[is_present])
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
        near = np.searchsorted(rank, np.linspace(rank[0], rank[-1], _MOST_KNOTS))
        kept = np.unique(np.concatenate([[0], near, [last]]).clip(0, last))
        distinct, image = distinct[kept], image[kept]
    cubics = PchipInterpolator(distinct, image).c
    return distinct, np.ascontiguousarray(cubics)
