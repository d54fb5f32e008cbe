"""Partial dependence of any function, over a sample of the background, with standard errors."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.budget import check_budget
from treepurify.components import Component, OnRows
from treepurify.decomposition import Decomposition
from treepurify.engines.common.explained import ExplainedVariance, measure_explained
from treepurify.engines.common.finish import (
    Result,
    finish,
)
from treepurify.engines.common.functions import RowFunction, read_function, splice
from treepurify.engines.common.inputs import Interactions, check_order_fits, named_subsets
from treepurify.engines.partial_dependence.background import outside_support
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.drawing import cells_between, mass_between, quantile_nodes
from treepurify.grids.grid import Subset
from treepurify.origin import Call
from treepurify.progress import ProgressReport
from treepurify.purification.cascade import downward_closure
from treepurify.remainder import Difference
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import counted_rows, mean_square
from treepurify.rows.samples import sample_rows
from treepurify.rows.table_reader import check_distribution
from treepurify.saving import savable
from treepurify.terms import effect_title, term_name
from treepurify.typing import Array

_POINTS = 100
_POINTS_A_BLOCK = 512
# Bytes of a term in addition to its values: the component and its errors, or its entry in a dict.
_BYTES_A_TERM = 1024
_COUNTED = 10**15
# Of averages that terms share; beyond them they are computed for each.
_BYTES_SHARED = 1 << 26
# Quantiles of a few hundred rows between which their mass is known well enough to draw.
_BINS_ALONE = 20
_BINS_TOGETHER = 6


@savable("sampled background")
@dataclass(frozen=True, eq=False)
class SampledBackground:
    """A function and the background rows that it is averaged over.

    Parameters
    ----------
    box : RowFunction
        The function.
    rows : Columns
        The sampled background rows.
    shares : ndarray of float64, shape (n_rows,)
        Their weights, which sum to one.
    unseen : ndarray of float64, shape (n_rows,)
        The probability that each of them was not drawn.
    """

    box: RowFunction
    rows: Columns
    shares: Array
    unseen: Array

    def standard_error(self, differences: Array) -> Array:
        """Return the standard error of means over the sample, along the second axis.

        It refers to the mean over the whole background: zero where all of it was used. Rows
        that were certain to be drawn add nothing (Hájek 1964).
        """
        mean = np.einsum("z,pzk->pk", self.shares, differences)
        deviation = self.shares[:, None] * (differences - mean[:, None])
        n = int(np.count_nonzero(self.unseen))
        if n > 1:
            centre = np.einsum("z,pzk->pk", self.unseen / self.unseen.sum(), deviation)
            deviation -= centre[:, None]
        spread = np.einsum("z,pzk->pk", self.unseen, deviation**2)
        return np.asarray(np.sqrt(spread * n / max(n - 1, 1)))


@savable("sampled partial dependence")
@dataclass(frozen=True, eq=False, repr=False)
class SampledComponent(OnRows):
    """The Moebius inverse of sampled partial dependence at one subset of features.

    Parameters
    ----------
    features : tuple of int
        Positions of the features, increasing.
    given : SampledBackground
        The function and the background.
    intercept : ndarray of float64, shape (n_outputs,)
        Mean of the function over the background.
    variance : ndarray of float64, shape (n_outputs,)
        Variance over the rows on which standard errors were estimated; NaN where it was not.
    mean_absolute : ndarray of float64, shape (n_outputs,)
        Mean absolute value over these rows.
    """

    features: Subset
    given: SampledBackground
    intercept: Array
    variance: Array
    mean_absolute: Array

    def __repr__(self) -> str:
        """Return the features."""
        return effect_title(self.given.box.features[j].name for j in self.features)

    def on_rows(self, X: Any) -> Array:
        """Return the values on the rows of `X`, shape (n_rows, n_outputs).

        For each part of the features, the function is called on every distinct combination of
        their values with every background row.
        """
        return self.evaluate_with(self.given.box.columns(X), {})

    def evaluate_with(self, columns: Columns, averages: dict[Any, Array]) -> Array:
        """Return the same, with the partial dependence that is known already.

        A term of many features is made of that of all its parts, and so are its parts: all
        terms together need each only once.
        """
        size = len(self.features)
        total = np.tile((-1.0) ** size * self.intercept, (columns.n_rows, 1))
        for count in range(1, size + 1):
            for part in combinations(self.features, count):
                values = averages.get((id(self.given), part))
                if values is None:
                    values = self._average(columns, part)
                    if len(averages) * values.nbytes < _BYTES_SHARED:
                        averages[id(self.given), part] = values
                if (size - count) % 2:
                    total -= values
                else:
                    total += values
        return total

    def _average(self, columns: Columns, part: Subset) -> Array:
        """Return the partial dependence at each row, shape (n_rows, n_outputs)."""
        points = np.stack([columns.values[j] for j in part], axis=1)
        _, first, inverse = np.unique(points, axis=0, return_index=True, return_inverse=True)
        return partial_dependence(self.given, columns.take(first), part)[inverse.reshape(-1)]

    def drawing_cells(self) -> tuple[tuple[FeatureAxis, ...], Array]:
        """Return fine axes over the range of the background rows, and the mass of their cells."""
        rows = self.given.rows
        bins = _BINS_ALONE if len(self.features) == 1 else _BINS_TOGETHER
        nodes = quantile_nodes(rows, self.features, bins)
        mass = mass_between(rows, self.features, nodes, self.given.shares)
        return cells_between([rows.features[j] for j in self.features], nodes, mass)


def partial_dependence(background: SampledBackground, points: Columns, features: Subset) -> Array:
    """Return the partial dependence at the points, shape (n_points, n_outputs)."""
    total = np.empty((points.n_rows, background.box.n_outputs))
    for start in range(0, points.n_rows, _POINTS_A_BLOCK):
        block = np.arange(start, min(start + _POINTS_A_BLOCK, points.n_rows))
        values = spliced_values(background, points.take(block), features)
        total[block] = np.einsum("z,pzk->pk", background.shares, values)
    return total


def spliced_values(background: SampledBackground, points: Columns, features: Subset) -> Array:
    """Return the function for every point and background row, (n_points, n_rows, n_outputs)."""
    values = background.box(splice(points, background.rows, features))
    return values.reshape(points.n_rows, background.rows.n_rows, -1)


def sampled_anova(
    f: Any,
    X: Any,
    background: Any,
    *,
    order: int | None,
    interactions: Interactions | None,
    feature_names: Sequence[str] | None,
    sample_weight: npt.ArrayLike | None,
    background_size: int,
    seed: int,
    memory_budget: int,
    report: ProgressReport,
    call: Call,
) -> Decomposition:
    """Return the terms of a function; see `partial_dependence_anova`."""
    box, columns = read_function(f, X, feature_names)
    averaged = columns
    if background is not None:
        averaged = box.columns(background)
    check_distribution(averaged, "the rows to average over", "background")
    averaged, weights = counted_rows(averaged, sample_weight)
    explained, point_weights = (averaged, weights) if background is None else (columns, None)
    sample = sample_rows(averaged.n_rows, weights, background_size, seed)
    sampled = SampledBackground(box, averaged.take(sample.picked), sample.shares, sample.unseen)
    points = sample_rows(explained.n_rows, point_weights, _POINTS, seed + 1)
    check_order_fits(order, len(box.features))
    most = len(box.features) if order is None else min(order, len(box.features))
    wanted = named_subsets(box.features, interactions, order)
    check = partial(_check_terms, sampled, len(points.picked), memory_budget)
    subsets, inside = _subsets(len(box.features), most, wanted, check)
    start = box(sampled.rows)
    intercept = sampled.shares @ start
    at = explained.take(points.picked)
    terms = _measure_terms(sampled, at, points.shares, subsets, inside, intercept, start, report)
    used = tuple(range(len(box.features)))
    extrapolation = outside_support(
        explained, averaged, used, seed, weights=weights, point_weights=point_weights
    )
    complete = most == len(box.features) and interactions is None
    measured = terms.explained
    rest = Difference(box, measured.rest_variance, partial(_find, sampled, intercept))
    result = Result(
        intercept,
        terms.components,
        certificate=None,
        rest=None if complete else rest,
        covariances={
            subset: covariance
            for subset, covariance in measured.covariances.items()
            if subset or not complete
        },
        diagnostics={
            "exact": False,
            "background_rows": averaged.n_rows,
            "sampled_rows": sampled.rows.n_rows,
            "seed": seed,
            "points": at.n_rows,
            "standard_error": terms.errors,
            "intercept_standard_error": sampled.standard_error(start[None])[0].tolist(),
            "extrapolation": extrapolation,
        },
    )
    return finish(
        box,
        result,
        engine="partial dependence (sampled)",
        measure=(
            f"interventional (partial dependence over {sampled.rows.n_rows} of {averaged.n_rows} "
            f"background rows; {extrapolation['share']:.0%} of the evaluated points are outside "
            "their joint support)"
        ),
        call=call,
    )


@dataclass(frozen=True, eq=False)
class _Terms:
    components: dict[Subset, Component]
    errors: dict[str, dict[str, float]]
    explained: ExplainedVariance


def _measure_terms(
    background: SampledBackground,
    points: Columns,
    point_shares: Array,
    subsets: Sequence[Subset],
    inside: set[Subset],
    intercept: Array,
    start: Array,
    report: ProgressReport,
) -> _Terms:
    """Return the terms with what they do at the points: errors, variances and covariances."""
    known: dict[Subset, Array] = {(): np.broadcast_to(start, (points.n_rows, *start.shape))}
    components: dict[Subset, Component] = {}
    errors = {}
    parts: list[tuple[Subset, Array]] = []
    for done, subset in enumerate(subsets):
        report("averaging over the background", done, len(subsets))
        differences = _differences(background, points, subset, known, keep=subset in inside)
        values = np.einsum("z,pzk->pk", background.shares, differences)
        parts.append((subset, values))
        error = background.standard_error(differences)
        errors[term_name(background.box.features[j].name for j in subset)] = {
            "root_mean_square": float(np.sqrt(np.mean(point_shares @ error**2))),
            "largest": float(np.max(error)),
        }
        components[subset] = SampledComponent(
            subset,
            background,
            intercept,
            mean_square(values, point_shares),
            point_shares @ np.abs(values),
        )
    explained = measure_explained(background.box(points), point_shares, intercept, parts)
    return _Terms(components, errors, explained)


def _subsets(
    n_features: int,
    most: int,
    wanted: set[Subset] | None,
    check: Callable[[int, int], None],
) -> tuple[list[Subset], set[Subset]]:
    """Return the terms by size, and the subsets whose values larger ones are made of."""
    if wanted is None:
        sizes = range(1, most + 1)
        check(_count(n_features, sizes), _count(n_features, sizes[:-1]))
        terms = [s for size in sizes for s in combinations(range(n_features), size)]
        return terms, {s for s in terms if len(s) < most}
    terms = [(j,) for j in range(n_features)] + sorted(wanted, key=lambda s: (len(s), s))
    largest = max(map(len, terms))
    check(len(terms), _count(largest, range(1, largest)))
    parts = {part for subset in wanted for part in combinations(subset, len(subset) - 1)}
    inside = downward_closure(parts, lambda n_kept: check(len(terms), n_kept))
    return terms, set(inside)


def _count(n_features: int, sizes: Iterable[int]) -> int:
    """Return the number of subsets of these sizes, at most a number that no memory holds."""
    return min(sum(comb(n_features, size) for size in sizes), _COUNTED)


def _check_terms(
    background: SampledBackground, n_points: int, memory_budget: int, n_terms: int, n_kept: int
) -> None:
    """Refuse the values of more terms than fit."""
    n_rows = background.rows.n_rows
    check_budget(
        8 * n_points * n_rows * background.box.n_outputs * (n_kept + 4)
        + _BYTES_A_TERM * (n_terms + n_kept),
        memory_budget,
        f"the values of at least {n_terms} effects at {n_points} points, averaged over {n_rows} "
        "background rows,",
        "Pass a smaller order or background_size, or name the interactions that you need.",
    )


def _differences(
    background: SampledBackground,
    points: Columns,
    subset: Subset,
    known: dict[Subset, Array],
    *,
    keep: bool,
) -> Array:
    """Return the term's differences for every point and background row, and keep its values."""
    values = known.get(subset)
    if values is None:
        values = spliced_values(background, points, subset)
    if keep:
        known[subset] = values
    total = values.copy()
    for size in range(len(subset)):
        for part in combinations(subset, size):
            if part not in known:
                known[part] = spliced_values(background, points, part)
            total += (-1.0) ** (len(subset) - size) * known[part]
    return total


def _find(background: SampledBackground, intercept: Array, subset: Subset) -> Component | None:
    """Return the term of any subset, which is evaluated on first use."""
    if not subset:
        return None
    unknown = np.full(len(intercept), np.nan)
    return SampledComponent(subset, background, intercept, unknown, unknown)
