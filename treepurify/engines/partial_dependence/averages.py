"""What leaves are averaged over: background rows, or the covers of the nodes on their paths."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from treepurify._kernels.cover import path_ratios, products_outside, weights_below
from treepurify.effects.leaf_boxes import LeafBoxes, leaf_boxes
from treepurify.engines.partial_dependence.averaged_rows import AveragedRows
from treepurify.engines.partial_dependence.pattern_shares import (
    PatternShares,
    empty_shares,
)
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Grid
from treepurify.models.ensemble import TreeEnsemble
from treepurify.progress import ProgressReport
from treepurify.typing import Array

__all__ = ["Averages", "averages_over_cover", "averages_over_rows"]


@dataclass(frozen=True, eq=False)
class Averages:
    """The leaves of an ensemble, and what they are averaged over where features are not given.

    Parameters
    ----------
    boxes : LeafBoxes
        The leaves on the union grid.
    shares : callable
        From the most features that are given together, and progress, to the shares of all
        leaves. It can be pickled.
    over_rows : bool
        Whether they are averaged over the background rows.
    """

    boxes: LeafBoxes
    shares: Callable[[int, ProgressReport], PatternShares]
    over_rows: bool


def averages_over_rows(ensemble: TreeEnsemble, averaged: AveragedRows) -> Averages:
    """Return averages over the background rows."""
    boxes = leaf_boxes(ensemble, averaged.grid)
    return Averages(boxes, partial(averaged.shares, boxes), over_rows=True)


def averages_over_cover(ensemble: TreeEnsemble, grid: Grid, memory_budget: int) -> Averages:
    """Return averages over the training rows that came to each node.

    At a test of a feature that is not given, a row goes both ways in proportion to the training
    rows that did (Lundberg et al. 2020, algorithm 1). For one leaf this is a product over the
    features of its path, so every feature that the path tests has to be kept.

    Raises
    ------
    InvalidInputError
        If the model does not say how many training rows came to its leaves.
    """
    cover = _checked_cover(ensemble)
    boxes = leaf_boxes(ensemble, grid, keep_every_test=True)
    ratio = np.empty(len(boxes.entry_feature))
    path_ratios(
        np.flatnonzero(ensemble.feature < 0),
        ensemble.parents(),
        ensemble.feature,
        ensemble.left,
        ensemble.right,
        weights_below(ensemble.left, ensemble.right, cover),
        boxes.entry_ptr,
        boxes.entry_feature,
        ratio,
    )
    return Averages(boxes, partial(_cover_shares, boxes, ratio, memory_budget), over_rows=False)


def _cover_shares(
    boxes: LeafBoxes, ratio: Array, memory_budget: int, limit: int, report: ProgressReport
) -> PatternShares:
    report("multiplying the covers of paths", 0, 0)
    shares = empty_shares(boxes, limit, memory_budget)
    leaves = np.arange(len(boxes.leaf_subset))
    products_outside(
        leaves,
        boxes.entry_ptr,
        ratio,
        shares.limit,
        shares.choose,
        shares.slot_ptr,
        shares.share,
    )
    return shares


def _checked_cover(ensemble: TreeEnsemble) -> Array:
    cover = ensemble.cover
    if cover is None:
        raise InvalidInputError(
            f"this {ensemble.source.kind} model does not say how many training rows came to each "
            'of its leaves, as background="cover" needs. Of a pipeline, pass '
            'parse_model(pipeline, columns="transformed") and transformed rows; or average over '
            "rows: background=X."
        )
    if not np.all(np.isfinite(cover)) or np.any(cover < 0):
        raise InvalidInputError(
            "some leaves of the model have a training weight that is negative or not finite, as "
            'objectives of one\'s own can give them: background="cover" needs shares. Average over '
            "rows: background=X."
        )
    return cover
