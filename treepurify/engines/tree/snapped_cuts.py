"""Trees on fewer cuts: each cut moved to the nearest of some that are kept.

Trees of several trainings have cuts of their own; together they can have more cells than any
memory. Moving a cut changes the model only for the rows between its old place and its new one,
and it is linear: the mean of moved models is the moved mean. So one choice of cuts serves all.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.effects.accumulate import ensemble_cuts
from treepurify.engines.tree.coarse_cells import coarse_cuts
from treepurify.models.ensemble import TreeEnsemble
from treepurify.rows.columns import Columns
from treepurify.typing import Array

__all__ = ["CutMoves", "choose_moves", "move_cuts"]


@dataclass(frozen=True, eq=False)
class CutMoves:
    """Where each cut goes.

    Parameters
    ----------
    old, new : tuple of (ndarray of float64 or None)
        The cuts of each numeric feature in ascending order, and the kept cut that each goes to;
        None for categorical features.
    moved : float
        The largest share of the rows that one cut moves over.
    """

    old: tuple[Array | None, ...]
    new: tuple[Array | None, ...]
    moved: float


def choose_moves(ensemble: TreeEnsemble, columns: Columns, shares: Array, n_cells: int) -> CutMoves:
    """Keep at most ``n_cells - 1`` cuts of each feature, and move each other to the nearest.

    The rows between two kept cuts weigh about the same; the nearest is that with the fewest
    rows, by weight, between the two.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The trees whose cuts they are.
    columns : Columns
        The rows.
    shares : ndarray of float64, shape (n_rows,)
        Share of each row.
    n_cells : int
        Most cells of a feature, missing values aside.
    """
    old = ensemble_cuts(ensemble)
    kept = coarse_cuts(old, columns, shares, n_cells)
    new: list[Array | None] = []
    moved = 0.0
    for values, own, chosen in zip(columns.values, old, kept, strict=True):
        if own is None or chosen is None or len(own) == len(chosen):
            new.append(own)
            continue
        below = _rows_below(values, shares, own)
        below_chosen = below[np.searchsorted(own, chosen)]
        middles = (below_chosen[1:] + below_chosen[:-1]) / 2
        nearest = np.searchsorted(middles, below, side="left")
        new.append(chosen[nearest])
        moved = max(moved, float(np.max(np.abs(below - below_chosen[nearest]), initial=0.0)))
    return CutMoves(old, tuple(new), moved)


def move_cuts(ensemble: TreeEnsemble, moves: CutMoves) -> TreeEnsemble:
    """Return the ensemble with its cuts moved; all of them must be among those of the moves."""
    cut = ensemble.cut.copy()
    for j, (old, new) in enumerate(zip(moves.old, moves.new, strict=True)):
        if old is None or new is None or old is new:
            continue
        # A cut at -inf splits missing values from all others: it is none of a grid, and stays.
        nodes = np.flatnonzero((ensemble.feature == j) & (cut > -np.inf))
        cut[nodes] = new[np.searchsorted(old, cut[nodes])]
    return replace(ensemble, cut=cut)


def _rows_below(values: npt.NDArray[Any], shares: Array, cuts: Array) -> Array:
    """Return the share of the rows below each cut."""
    known = ~np.isnan(values)
    cells = np.searchsorted(cuts, values[known], side="right")
    mass = np.bincount(cells, weights=shares[known], minlength=len(cuts) + 1)
    return np.asarray(np.cumsum(mass)[:-1], dtype=np.float64)
