"""Bring each feature to the interval [-1, 1], or to levels."""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.rows.columns import FeatureSpec
from treepurify.saving import savable
from treepurify.typing import Array

# The scalings by ranks.
RANKED = ("rank", "score")
_LEAST_SCORED = 3
# For integrals of scores, which grow slowly towards the ends.
_NODES = 400


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
        if self.scaling in RANKED:
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
        size = self.n_polynomials(degree)
        polynomials = legendre_table(coordinates, size)
        if size == degree:
            return polynomials[:, 1:]
        projection, norms = _along_polynomials(self.centre, self.spread, size)
        tails = _powers_of_score(self.centre, self.spread, coordinates) - polynomials @ projection
        return np.column_stack([polynomials[:, 1:], tails / norms])

    def n_functions(self, degree: int) -> int:
        """Return the number of functions of a main effect."""
        return degree

    def n_polynomials(self, degree: int) -> int:
        """Return how many of them are polynomials, of degree 1 and up."""
        return degree - 2 if self.scaling == "score" and degree >= _LEAST_SCORED else degree

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
                f"feature {self.name!r} has levels that the fitted rows do not have ({unknown} "
                f"such rows; {len(self.levels)} levels are known)"
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
            labels = [spec.labels[int(code)] for code in known[: len(known) - has_other]]
        return FeatureAxis(self.name, None, tuple(labels), has_other, has_missing)


@savable("scaled feature with missing values")
@dataclass(frozen=True, eq=False)
class GappedAxis:
    """A feature whose values are scaled where there are any, and a level where they are missing.

    Its functions are those of `numbers`, zero where the value is missing, and the indicator of
    missing values. With the constant they span the functions of the values, and one value for
    all missing ones. They do not integrate to zero, so that products of them are separated by
    projection only (``orthogonal=True``), not by densities.

    Parameters
    ----------
    numbers : ContinuousAxis
        The feature where it is not missing.
    """

    numbers: ContinuousAxis

    @property
    def name(self) -> str:
        """Name of the feature."""
        return self.numbers.name

    @property
    def kind(self) -> str:
        """How the feature is scaled, in words."""
        return f"{self.numbers.kind}, with a separate level for missing values"

    def coordinates(self, values: npt.NDArray[np.floating[Any]]) -> Array:
        """Return the scaled values, NaN where they are missing.

        Raises
        ------
        InvalidInputError
            If a value is infinite.
        """
        numbers = np.asarray(values, dtype=np.float64)
        known = ~np.isnan(numbers)
        scaled = np.full(len(numbers), np.nan)
        scaled[known] = self.numbers.coordinates(numbers[known])
        return scaled

    def functions(self, coordinates: Array, degree: int) -> Array:
        """Return those of the numbers and the indicator, shape (n_rows, degree + 1)."""
        known = ~np.isnan(coordinates)
        table = np.zeros((len(coordinates), degree + 1))
        table[known, :degree] = self.numbers.functions(coordinates[known], degree)
        table[~known, degree] = 1.0
        return table

    def n_functions(self, degree: int) -> int:
        """Return the number of functions of a main effect."""
        return self.numbers.n_functions(degree) + 1

    def norms(self, degree: int) -> Array:
        """Return the norms of the polynomials, and one for the indicator."""
        return np.append(self.numbers.norms(degree), 1.0)


Axis = ContinuousAxis | LevelAxis | GappedAxis


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
