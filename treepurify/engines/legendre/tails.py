"""Whether a function follows the tails of its features, or the ranks of their values.

Products of unbounded features need functions that grow with the tails; trees, which are constant
beyond their cuts, are better served by two more polynomials of ranks. A fit of low degree of
each tells which.
"""

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from treepurify.engines.common.least_angle import full_fit
from treepurify.engines.legendre.axis_fitting import fit_axes
from treepurify.engines.legendre.densities import constant_densities
from treepurify.engines.legendre.design import (
    Basis,
    count_columns,
    scaled_rows,
)
from treepurify.engines.legendre.moments import measure_moments
from treepurify.engines.legendre.reading import Question
from treepurify.engines.legendre.scaling import Axis

__all__ = ["choose_axes"]

_DEGREE = 4
_MOST_COLUMNS = 1500
_ROWS_A_COLUMN = 3
# Scores are taken where they leave clearly less of the function.
_CLEARLY_LESS = 0.9


def choose_axes(
    question: Question, scaling: str | Mapping[str, str], *, with_gaps: bool
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
    rows = question.columns, question.weights
    # What the model does not use has no effect.
    used = None if question.function is None else question.function.used_features
    ranks, constant = fit_axes(*rows, scaling, "rank", with_gaps=with_gaps, only=used)
    most = min(_MOST_COLUMNS, question.effective_rows / _ROWS_A_COLUMN)
    order = 2 if count_columns(ranks, 2, _DEGREE) <= most else 1
    is_given = isinstance(scaling, str) and scaling != "auto"
    if is_given or count_columns(ranks, order, _DEGREE) > most:
        return ranks, constant
    scores, _ = fit_axes(*rows, scaling, "score", with_gaps=with_gaps, only=used)
    if all(scores[j].kind == axis.kind for j, axis in ranks.items()):
        return ranks, constant
    left = [_unexplained(question, axes, order) for axes in (ranks, scores)]
    return scores if left[1] < _CLEARLY_LESS * left[0] else ranks, constant


def _unexplained(question: Question, axes: dict[int, Axis], order: int) -> float:
    """Return the share of the variance that a fit of low degree leaves, meaned over outputs."""
    subsets = [s for size in range(1, order + 1) for s in combinations(axes, size)]
    basis = Basis(axes, dict(constant_densities(axes, subsets)), _DEGREE)
    rows = scaled_rows(axes, question.columns, question.weights)
    moments = measure_moments(basis, rows, question.values)
    shares = [
        full_fit(moments.gram, moments.covariances[:, k], total, rows.n_rows).sum_of_squares / total
        for k, total in enumerate(moments.value_squares.tolist())
        if total > 0
    ]
    return float(np.mean(shares)) if shares else 0.0
