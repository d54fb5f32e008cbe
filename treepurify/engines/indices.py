"""Variance by order and total interaction indices of an ensemble, under independent features."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treepurify._kernels.leaf_pairs import leaf_pair_moments
from treepurify.arguments import check_whole, read_output
from treepurify.budget import DEFAULT_BUDGET, check_budget, check_memory_budget
from treepurify.columns import Columns
from treepurify.effects.accumulate import LeafBoxes, ensemble_cuts, leaf_boxes
from treepurify.effects.conditional import entry_probabilities, margin_tables
from treepurify.engines.inputs import (
    Interactions,
    RowWeights,
    named_model,
    named_subsets,
    read_rows,
    row_weights,
)
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Grid, Subset, make_grid
from treepurify.models.catboost import label_categories
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model, parse_model
from treepurify.progress import ProgressReport, progress_report
from treepurify.threads import available_threads, map_threads
from treepurify.weights import Independent, Uniform, Weighting, as_weighting

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["InteractionIndices", "interaction_indices", "leaf_pair_indices", "output_values"]

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

_MOST_PAIRS = 400_000_000
_ROWS_A_PIECE = 64


@dataclass(frozen=True, eq=False)
class InteractionIndices:
    """Second moments of a model when its features are independent.

    Parameters
    ----------
    feature_names : tuple of str
        Names of the features.
    variance_by_order : ndarray of float64, shape (n_outputs, depth)
        Sum of the variances of all components of 1, 2, ... features. Exact to rounding.
    pair_total : ndarray of float64, shape (n_outputs, n_features, n_features)
        Sum of the variances of all components that contain both features; symmetric.
    feature_total : ndarray of float64, shape (n_outputs, n_features)
        Sum of the variances of all components that contain the feature.
    standard_error : ndarray of float64, shape (n_outputs, depth)
        Standard error of `variance_by_order`; zero where it is exact.
    sampled_leaves : int
        Leaves whose pairs with all others were summed; 0 where all were.
    measure : str
        The distribution, in words.
    """

    feature_names: tuple[str, ...]
    variance_by_order: Array
    pair_total: Array
    feature_total: Array
    standard_error: Array
    sampled_leaves: int
    measure: str

    @property
    def variance(self) -> Array:
        """Variance of the model, shape (n_outputs,)."""
        return np.asarray(self.variance_by_order.sum(axis=1))

    def pairs(self, output: int = 0) -> "pd.DataFrame":
        """Return the pairs of features that interact, the largest total index first.

        Returns
        -------
        DataFrame
            Columns ``first``, ``second``, ``total`` (variance of all components with both)
            and ``share`` (of the model's variance).
        """
        import pandas as pd

        output = read_output(output, [f"output {k}" for k in range(len(self.pair_total))])
        table = self.pair_total[output]
        first, second = np.nonzero(np.triu(table, 1))
        whole = float(self.variance[output])
        frame = pd.DataFrame(
            {
                "first": [self.feature_names[i] for i in first],
                "second": [self.feature_names[j] for j in second],
                "total": table[first, second],
                "share": table[first, second] / whole if whole > 0 else 0.0,
            }
        )
        return frame.sort_values("total", ascending=False, kind="stable").reset_index(drop=True)


@dataclass(frozen=True, eq=False)
class _Moments:
    """What some leaves add: by order, at pairs of features (flat), and by feature."""

    orders: Array
    places: Rows
    pairs: Array
    mains: Array


def interaction_indices(
    model: Any,
    X: Any = None,
    *,
    weights: str | Weighting = "independent",
    sample_weight: npt.ArrayLike | None = None,
    feature_names: Sequence[str] | None = None,
    most_pairs: int = _MOST_PAIRS,
    seed: int = 0,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> InteractionIndices:
    """Say how much of a model's variance lies at each order, and between which features.

    Under independent features the ANOVA components of an ensemble are uncorrelated, and the
    second moment of every pair of leaves is a product over features. Summed over all pairs
    of leaves, these products give the variance by order and the total interaction index
    ``sum over S containing i and j of Var(f_S)`` exactly, at any depth, without building
    one component.

    Parameters
    ----------
    model : object, str or Path
        A tree ensemble.
    X : array_like or table of shape (n_rows, n_features), optional
        Rows whose margins are the distribution; not needed for ``weights="uniform"``.
    weights : {"independent", "uniform"} or Weighting
        A weighting under which features are independent.
    sample_weight : array_like of shape (n_rows,), optional
        Weight of each row.
    feature_names : sequence of str, optional
        Names of the features.
    most_pairs : int
        Pairs of leaves up to which the sums are exact. Beyond, a random part of the leaves
        is paired with all others: an unbiased estimate, with its standard error.
    seed : int
        Seed of that choice.
    memory_budget : int
        Bytes that the tables of pairs may take.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    InteractionIndices

    Raises
    ------
    InvalidInputError
        If the weighting does not make features independent.
    MemoryBudgetError
        If the tables of pairs would not fit.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> indices = tp.interaction_indices(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> indices.variance_by_order
    array([[0.125 , 0.0625]])
    """
    check_whole("most_pairs", most_pairs, 1)
    check_whole("seed", seed, 0)
    check_memory_budget(memory_budget)
    weighting = as_weighting(weights)
    if not weighting.is_product:
        raise InvalidInputError(
            'indices by pairs of leaves need independent features: use weights="independent" or '
            f'"uniform", not {weighting.describe()!r}'
        )
    parsed = label_categories(named_model(parse_model(model), feature_names, X), X)
    if not isinstance(parsed, TreeEnsemble):
        raise InvalidInputError("an EBM has its terms as tables: use purify(...).importance()")
    columns = read_rows(parsed, X, weighting)
    own_weights = row_weights(columns, weighting, sample_weight)
    return _indices(
        parsed,
        columns,
        own_weights,
        weighting,
        most_pairs=most_pairs,
        seed=seed,
        memory_budget=memory_budget,
        report=progress_report(progress),
    )


def _indices(
    parsed: TreeEnsemble,
    columns: Columns | None,
    weight_of_rows: RowWeights,
    weighting: Weighting,
    *,
    most_pairs: int,
    seed: int,
    memory_budget: int,
    report: ProgressReport,
) -> InteractionIndices:
    grid, rows = make_grid(
        columns, parsed.features, ensemble_cuts(parsed), match_names=parsed.has_feature_names
    )
    if rows is not None and weight_of_rows is not None:
        rows = type(rows)(rows.codes, weight_of_rows)
    boxes = leaf_boxes(parsed, grid)
    used = sorted({j for subset in boxes.subsets for j in subset})
    tables = weighting.tables(grid, rows, [(j,) for j in used])
    margins = {j: tables[(j,)] for j in used}
    return leaf_pair_indices(
        boxes,
        grid,
        margins,
        parsed.n_outputs,
        weighting.describe(),
        most_pairs=most_pairs,
        seed=seed,
        report=report,
        memory_budget=memory_budget,
    )


def kept_interactions(
    parsed: Model,
    interactions: Interactions | int | None,
    order: int | None,
    columns: Columns | None,
    weight_of_rows: RowWeights,
    weighting: Weighting,
    report: ProgressReport,
    memory_budget: int = DEFAULT_BUDGET,
) -> tuple[set[Subset] | None, dict[str, object]]:
    """Return the interactions to keep apart, None for all, and how they were chosen.

    A number asks for that many pairs, those of the largest total interaction index relative
    to the variance of an output.

    Raises
    ------
    InvalidInputError
        If one is not known or above `order`, or the number is not positive or the model an EBM.
    """
    if not isinstance(interactions, int | np.integer):
        return named_subsets(parsed.features, interactions, order), {}
    if isinstance(interactions, bool) or not 1 <= interactions <= np.iinfo(np.int64).max:
        raise InvalidInputError(
            f"interactions must be a positive number of pairs or name them, got {interactions!r}"
        )
    if not isinstance(parsed, TreeEnsemble):
        raise InvalidInputError(
            "a number of interactions is for tree ensembles; the pairs of an EBM are its terms: "
            "name those to keep"
        )
    if not weighting.is_product:
        weighting = Independent() if columns is not None else Uniform()
    indices = _indices(
        parsed,
        columns,
        weight_of_rows,
        weighting,
        most_pairs=_MOST_PAIRS,
        seed=0,
        memory_budget=memory_budget,
        report=report,
    )
    variance = np.where(indices.variance > 0, indices.variance, 1.0)
    share = (indices.pair_total / variance[:, None, None]).max(axis=0)
    first, second = np.nonzero(np.triu(share, 1) > 0)
    strongest = np.argsort(-share[first, second], kind="stable")[: int(interactions)]
    pairs = [(int(first[k]), int(second[k])) for k in strongest]
    facts = {
        "measure": indices.measure,
        "sampled_leaves": indices.sampled_leaves,
        "shares": {f"{i} & {j}": float(share[i, j]) for i, j in pairs},
    }
    return set(pairs), {"strongest_pairs": facts}


def leaf_pair_indices(
    boxes: LeafBoxes,
    grid: Grid,
    margins: dict[int, Array],
    n_outputs: int,
    measure: str,
    *,
    most_pairs: int,
    seed: int,
    report: ProgressReport,
    memory_budget: int = DEFAULT_BUDGET,
) -> InteractionIndices:
    """Sum the second moments of pairs of leaves; see `interaction_indices`."""
    leaves = np.flatnonzero(boxes.leaf_subset >= 0)
    depth = max((len(subset) for subset in boxes.subsets), default=0)
    chosen = leaves
    if len(leaves) ** 2 > most_pairs:
        count = max(most_pairs // len(leaves), 2)
        picked = np.random.default_rng(seed).choice(len(leaves), size=count, replace=False)
        chosen = leaves[np.sort(picked)]
    n_strips = _strips(grid.n_features, n_outputs, memory_budget)
    values = output_values(boxes, n_outputs)
    probability = entry_probabilities(boxes, margins, grid)
    start, cumulative = margin_tables(margins, grid)
    n_features = grid.n_features
    by_order = np.zeros((n_outputs, max(depth, 1)))
    error = np.zeros_like(by_order)
    pair_total = np.zeros((n_outputs, n_features, n_features))
    feature_total = np.zeros((n_outputs, n_features))
    factor = len(leaves) / max(len(chosen), 1)
    pieces = [chosen[i : i + _ROWS_A_PIECE] for i in range(0, len(chosen), _ROWS_A_PIECE)]
    strips = [pieces[i::n_strips] for i in range(n_strips)]
    for k in range(n_outputs):
        report("pairing leaves, output", k, n_outputs)
        own = np.ascontiguousarray(values[:, k])

        def moments(strip: list[Rows], own: Array = own) -> list[_Moments]:
            pairs = np.zeros((n_features, n_features))
            found = []
            for rows in strip:
                orders = np.zeros((len(rows), depth + 1))
                mains = np.zeros(n_features)
                leaf_pair_moments(
                    rows,
                    leaves,
                    boxes.entry_ptr,
                    boxes.entry_feature,
                    probability,
                    boxes.run_ptr,
                    boxes.run_start,
                    boxes.run_stop,
                    start,
                    cumulative,
                    own,
                    orders,
                    pairs,
                    mains,
                )
                found.append(_taken(orders, pairs, mains))
            return found

        by_strip = map_threads(moments, strips)
        # In the order of the leaves: sums do not depend on the number of threads.
        found = [by_strip[i % n_strips][i // n_strips] for i in range(len(pieces))]
        if not found:
            continue
        orders = np.concatenate([part.orders for part in found])[:, 1:]
        if depth:
            by_order[k] = factor * orders.sum(axis=0)
        if len(chosen) < len(leaves):
            spread = orders.std(axis=0, ddof=1) * np.sqrt(1 - len(chosen) / len(leaves))
            error[k] = len(leaves) * spread / np.sqrt(len(chosen))
        total = pair_total[k]
        for part in found:
            total.ravel()[part.places] += part.pairs
            feature_total[k] += part.mains
        total *= factor
        total += total.T
        feature_total[k] *= factor
    return InteractionIndices(
        tuple(axis.name for axis in grid.axes),
        by_order,
        pair_total,
        feature_total,
        error,
        0 if len(chosen) == len(leaves) else len(chosen),
        measure,
    )


def _strips(n_features: int, n_outputs: int, memory_budget: int) -> int:
    """Return how many tables of pairs may be filled at a time, beside the results."""
    table = 8 * n_features**2
    # One more than the results: what is added to its own transpose is copied first.
    check_budget(
        table * (n_outputs + 2),
        memory_budget,
        f"the interaction indices of the pairs of {n_features} features",
        "Raise memory_budget, or name the interactions that you need.",
    )
    room = memory_budget - table * (n_outputs + 1)
    return max(min(room // max(table, 1), available_threads()), 1)


def _taken(orders: Array, pairs: Array, mains: Array) -> _Moments:
    """Return the entries that are not zero, and leave zeros behind."""
    flat = pairs.ravel()
    places = np.flatnonzero(flat)
    found = _Moments(orders, places, flat[places], mains)
    flat[places] = 0.0
    return found


def output_values(boxes: LeafBoxes, n_outputs: int) -> Array:
    """Return the leaf values as one column an output."""
    if boxes.values.shape[1] == n_outputs and np.all(boxes.output < 0):
        return boxes.values
    values = np.zeros((len(boxes.values), n_outputs))
    scalar = boxes.output >= 0
    values[scalar, boxes.output[scalar]] = boxes.values[scalar, 0]
    values[~scalar] = boxes.values[~scalar]
    return values
