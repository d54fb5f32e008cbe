"""The rows that partial dependence averages over, and which points lie outside their support."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.effects.accumulate import model_cuts
from treepurify.effects.table_effects import table_cuts
from treepurify.grids.grid import EncodedRows, Grid, MissingCells, Subset, encode_rows, make_grid
from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.parse import Model
from treepurify.rows.columns import Columns, numeric_cells
from treepurify.rows.row_weights import RowWeights, counted_rows, row_quantiles, row_shares
from treepurify.rows.samples import sample_rows
from treepurify.rows.table_reader import check_distribution, read_columns
from treepurify.typing import Array, Indices, Mask

OnGrids = Mapping[int, tuple[Grid, EncodedRows]]
"""By the order of the tables of a model, their grid and the rows on it."""

_BINS = 10
_DRAWS = 2000
_MOST_LOOKUPS = 50_000_000
_MOST_ROWS = 100_000
_LEAST_MARKS = 1 << 16


@dataclass(frozen=True, eq=False)
class Background:
    """The rows that partial dependence averages over, on the union grid.

    Parameters
    ----------
    grid : Grid
        The cells.
    rows : EncodedRows
        The background rows with their weights.
    columns : Columns
        The same rows as the model reads them.
    points : Columns
        The rows that are explained; `columns` itself where they are the background too.
    """

    grid: Grid
    rows: EncodedRows
    columns: Columns
    points: Columns

    @property
    def shares(self) -> Array:
        """Share of each background row, shape (n_rows,)."""
        return self.rows.shares

    def extrapolation(self, used: Subset) -> dict[str, Any]:
        """Return how many evaluated points lie where there are no data; see `outside_support`."""
        weights = self.rows.weights
        point_weights = weights if self.points is self.columns else None
        return outside_support(
            self.points, self.columns, used, weights=weights, point_weights=point_weights
        )


def read_background(
    model: Model,
    X: Any,
    background: Any,
    sample_weight: npt.ArrayLike | None,
    missing_cells: MissingCells,
) -> Background:
    """Return the background on the model's grid, with the cells that it and the rows of `X` need.

    Rows of weight zero are left out.
    """
    names = model.has_feature_names
    points = read_columns(X, model.features, match_names=names)
    averaged = points
    if background is not None:
        averaged = read_columns(background, model.features, match_names=names)
    check_distribution(averaged, "the rows to average over", "background")
    counted, weights = counted_rows(averaged, sample_weight)
    grid, rows = make_grid(
        points, model.features, model_cuts(model), match_names=names, missing_cells=missing_cells
    )
    if counted is not points or rows is None:
        # Encoded again: cells that only the background needs can shift the numbers of others.
        rows, axes = encode_rows(counted, grid.axes)
        grid = replace(grid, axes=axes)
    explained = counted if background is None else points
    return Background(grid, replace(rows, weights=weights), counted, explained)


def cells_by_order(model: AdditiveTables, background: Background) -> OnGrids:
    """Return a grid for the tables of each order, and the background on it.

    An EBM cuts pairs at far fewer values than main effects, and what leaves a pair is a function
    of its own cells: so tables of pairs need no others.
    """
    grid, rows = background.grid, background.rows
    found: dict[int, tuple[Grid, EncodedRows]] = {1: (grid, rows)}
    for size in range(2, max((len(term.features) for term in model.terms), default=1) + 1):
        axes = tuple(
            axis if cuts is None else replace(axis, cuts=cuts)
            for axis, cuts in zip(grid.axes, table_cuts(model, size), strict=True)
        )
        codes = [
            fine.cells_in(coarse).astype(rows.codes.dtype)[own]
            for fine, coarse, own in zip(grid.axes, axes, rows.codes, strict=True)
        ]
        found[size] = replace(grid, axes=axes), EncodedRows(np.stack(codes), rows.weights)
    return found


def describe_background(n_rows: int, facts: dict[str, Any]) -> str:
    """Return the measure in words, with the caveat that a reader must see."""
    return (
        f"interventional (partial dependence over {n_rows} background rows; "
        f"{facts['share']:.0%} of the evaluated points are outside their joint support)"
    )


def certificate_note(facts: dict[str, Any]) -> str:
    """Return what a reader of partial dependence must know, in words."""
    return (
        "Effects of partial dependence are not orthogonal where features depend on each other. "
        f"About {facts['share']:.0%} of the points that partial dependence evaluates are outside "
        "the joint support of the background (for some pair of features, no background row is in "
        "the same two deciles); there the effects show extrapolations of the model."
    )


def outside_support(
    points: Columns,
    background: Columns,
    used: Subset,
    seed: int = 0,
    *,
    weights: RowWeights = None,
    point_weights: RowWeights = None,
) -> dict[str, Any]:
    """Return the share of evaluated points outside the joint support of the background.

    Partial dependence sets one feature to the value of another row. A point counts as outside
    where, for some pair of features that the model uses, its two values fall into a cell
    without a background row, numeric features being cut at their deciles. The share is a
    mean over draws of a point and a background row.

    Parameters
    ----------
    points, background : Columns
        The rows.
    used : tuple of int
        Positions of the features that the model uses.
    seed : int
        Seed of the draws.
    weights, point_weights : ndarray of float64, shape (n_rows,), optional
        Weight of each background row and of each point, all positive: rows are drawn in
        proportion to it, and deciles are those of the weighted rows.

    Returns
    -------
    dict
        ``share`` over all features, its ``standard_error``, ``by_feature`` and ``meaning``.
    """
    rng = np.random.default_rng(seed)
    rest = background
    if background.n_rows > _MOST_ROWS:
        some = sample_rows(background.n_rows, None, _MOST_ROWS, rng).picked
        rest = background.take(some)
        weights = None if weights is None else weights[some]
    draws = int(min(_DRAWS, max(_MOST_LOOKUPS / max(len(used), 1) ** 2, 50)))
    edges = [_edges(rest, weights, j) for j in used]
    seen = [_bins(rest, j, edge) for j, edge in zip(used, edges, strict=True)]
    moved = points.take(_drawn(rng, points.n_rows, point_weights, draws))
    kept = _drawn(rng, rest.n_rows, weights, draws)
    at_points = [_bins(moved, j, edge) for j, edge in zip(used, edges, strict=True)]
    sizes = [int(max(a.max(), b.max())) + 1 for a, b in zip(seen, at_points, strict=True)]
    outside = np.zeros((len(used), draws), dtype=bool)
    for i, k in combinations(range(len(used)), 2):
        cells = seen[i] * sizes[k] + seen[k]
        from_i = at_points[i] * sizes[k] + seen[k][kept]
        from_k = seen[i][kept] * sizes[k] + at_points[k]
        known_i, known_k = _occur(cells, sizes[i] * sizes[k], from_i, from_k)
        outside[i] |= ~known_i
        outside[k] |= ~known_k
    by_feature = {
        background.features[j].name: float(hit.mean()) for j, hit in zip(used, outside, strict=True)
    }
    share = float(np.mean(list(by_feature.values()))) if by_feature else 0.0
    return {
        "share": share,
        "standard_error": float(np.sqrt(share * (1 - share) / draws)),
        "by_feature": by_feature,
        "draws": draws,
        "seed": seed,
        "meaning": (
            "share of points with one feature from another row that, for some pair of features, "
            "have no background row in the same two deciles"
        ),
    }


def _occur(cells: Indices, n_cells: int, *asked: Indices) -> list[Mask]:
    """Test each query cell for membership in `cells`."""
    # A table of marks, one byte per cell, unless that takes more than the cells of the rows do.
    if n_cells > max(cells.nbytes, _LEAST_MARKS):
        return np.split(np.isin(np.concatenate(asked), cells), len(asked))
    known = np.zeros(n_cells, dtype=bool)
    known[cells] = True
    return [known[cells_asked] for cells_asked in asked]


def _drawn(rng: np.random.Generator, n_rows: int, weights: RowWeights, draws: int) -> Indices:
    if weights is None:
        return rng.integers(0, n_rows, size=draws)
    return rng.choice(n_rows, size=draws, p=row_shares(n_rows, weights))


def _edges(columns: Columns, weights: RowWeights, j: int) -> npt.NDArray[Any]:
    values = columns.values[j]
    finite = np.isfinite(values)
    if columns.features[j].is_categorical or not finite.any():
        return np.zeros(0)
    levels = np.arange(1, _BINS) / _BINS
    finite_weights = None if weights is None else weights[finite]
    return np.unique(row_quantiles(values[finite], finite_weights, levels))


def _bins(columns: Columns, j: int, edges: npt.NDArray[Any]) -> Indices:
    values = columns.values[j]
    if columns.features[j].is_categorical:
        last = columns.features[j].n_codes + 1
        return np.asarray(np.where(np.isnan(values), last, values), dtype=np.intp)
    return numeric_cells(values, edges)
