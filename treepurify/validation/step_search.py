"""The smallest step of deep trees, by branch and bound over boxes of the other features."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from treepurify._kernels.box_search import search_smallest
from treepurify._kernels.leaf_steps import mark_boxes
from treepurify.typing import Array, Indices
from treepurify.validation.leaf_steps import TreeSteps
from treepurify.validation.model_leaves import ModelLeaves

__all__ = ["SmallestStep", "smallest_step"]

Words = npt.NDArray[np.uint64]

_BITS = 64
# Words of the boxes of one step, and of the pairs of leaves of one tree, beyond which it is left.
_MOST_WORDS = 1 << 23


@dataclass(frozen=True, eq=False)
class SmallestStep:
    """What is known of the smallest value of one step.

    Parameters
    ----------
    bound : float
        No combination of values gives less.
    found : float
        The smallest value that was found; infinite where nothing below the given limit was.
    cells : dict of int to int
        A cell of each feature that it depends on, where it was found.
    n_boxes : int
        Boxes that were looked at.
    """

    bound: float
    found: float = np.inf
    cells: dict[int, int] = field(default_factory=dict)
    n_boxes: int = 0


@dataclass(frozen=True, eq=False)
class _Cells:
    """The cells of some features as bits.

    Parameters
    ----------
    model : ModelLeaves
        The leaves.
    features : ndarray of int64, shape (n_chosen,)
        The features.
    word_ptr : ndarray of int64, shape (n_chosen + 1,)
        The words of each.
    """

    model: ModelLeaves
    features: Indices
    word_ptr: Indices

    @property
    def n_words(self) -> int:
        """Number of words of a box."""
        return int(self.word_ptr[-1])

    def full(self, n_boxes: int) -> npt.NDArray[np.bool_]:
        """Return boxes of all cells, shape (n_boxes, bits)."""
        bits = np.zeros((n_boxes, _BITS * self.n_words), dtype=np.bool_)
        for word, j in zip(self.word_ptr, self.features, strict=False):
            bits[:, _BITS * word : _BITS * word + self.model.n_cells[j]] = True
        return bits

    def of_leaves(self, leaves: Indices) -> Words:
        """Return the boxes of some leaves, shape (n_leaves, n_words)."""
        boxes, bits = self.model.boxes, self.full(len(leaves))
        place = np.full(self.model.grid.n_features, -1, dtype=np.int64)
        place[self.features] = _BITS * self.word_ptr[:-1]
        mark_boxes(
            leaves,
            place,
            self.model.n_cells,
            boxes.entry_ptr,
            boxes.entry_feature,
            boxes.run_ptr,
            boxes.run_start,
            boxes.run_stop,
            bits,
        )
        return _packed(bits)

    def of_table(self, feature: int, table: Array) -> tuple[Array, Words]:
        """Return the different values of a table, rising, and the cells that have each."""
        values, number = np.unique(table, return_inverse=True)
        bits = self.full(len(values))
        start = _BITS * int(self.word_ptr[np.searchsorted(self.features, feature)])
        bits[:, start : start + len(table)] = number == np.arange(len(values))[:, None]
        return values, _packed(bits)

    def first_cells(self, box: Words) -> dict[int, int]:
        """Return the first cell of a box along each feature."""
        bits = np.unpackbits(box.view(np.uint8), bitorder="little")
        return {
            int(j): int(np.argmax(bits[_BITS * word : _BITS * end]))
            for j, word, end in zip(self.features, self.word_ptr, self.word_ptr[1:], strict=False)
        }


def smallest_step(steps: TreeSteps, step: int, below: float, most_boxes: int) -> SmallestStep:
    """Search for the smallest value of one step below a limit.

    Every tree gives a value in each of some boxes that fill the space of the other features. One
    box of each tree is chosen after the other, those with the smallest values first; what is
    chosen and the smallest values of all others that share a cell with it bound what can be
    reached.

    Parameters
    ----------
    steps : TreeSteps
        The leaves of all steps.
    step : int
        The step.
    below : float
        Values from here on are of no interest.
    most_boxes : int
        Boxes that are looked at before the search is broken off.

    Returns
    -------
    SmallestStep
        With the exact smallest value, where it lies below the limit and the search was not broken
        off; `bound` then equals `found`.
    """
    groups = np.flatnonzero((steps.group_step == step) & ~steps.is_additive)
    constant, tables = steps.partner_tables(step)
    model = steps.model
    features = _features_of(steps, groups)
    words = -(-model.n_cells[features] // _BITS)
    cells = _Cells(model, features, np.concatenate([[0], np.cumsum(words)]).astype(np.int64))
    chosen = {int(j): int(np.argmin(table)) for j, table in enumerate(tables) if np.any(table)}
    for j in set(chosen) - set(features.tolist()):
        constant += float(np.min(tables[j]))
    parts = [cells.of_table(j, tables[j]) for j in chosen if j in features]
    for group in groups.tolist():
        own = _options(steps, group, cells)
        if own is None:
            return SmallestStep(-np.inf)
        parts.append(own)
    if sum(len(values) for values, _ in parts) * max(cells.n_words, 1) > _MOST_WORDS:
        return SmallestStep(-np.inf)
    best_box = np.zeros(cells.n_words, dtype=np.uint64)
    found, bound, n_boxes = search_smallest(
        np.concatenate([[0], np.cumsum([len(values) for values, _ in parts])]).astype(np.int64),
        np.concatenate([np.zeros(0), *(values for values, _ in parts)]),
        np.concatenate([np.zeros((0, cells.n_words), np.uint64), *(boxes for _, boxes in parts)]),
        cells.word_ptr,
        below - constant,
        most_boxes,
        best_box,
    )
    if found >= below - constant:
        return SmallestStep(bound + constant, n_boxes=n_boxes)
    where = {**chosen, **cells.first_cells(best_box)}
    return SmallestStep(bound + constant, found + constant, where, n_boxes)


def _features_of(steps: TreeSteps, groups: Indices) -> Indices:
    """Return the other features that the leaves of some groups test, increasing."""
    boxes = steps.model.boxes
    moves = [np.arange(steps.first[group], steps.last[group]) for group in groups]
    leaves = steps.leaf[np.concatenate([np.zeros(0, dtype=np.intp), *moves])]
    tests = np.zeros(steps.model.grid.n_features, dtype=bool)
    for leaf in leaves.tolist():
        tests[boxes.entry_feature[boxes.entry_ptr[leaf] : boxes.entry_ptr[leaf + 1]]] = True
    tests[steps.runs.feature] = False
    return np.flatnonzero(tests)


def _options(steps: TreeSteps, group: int, cells: _Cells) -> tuple[Array, Words] | None:
    """Return the values that the step of one tree has, rising, and the boxes where it has them."""
    left = steps.leaf[steps.first[group] : steps.middle[group]]
    reached = steps.leaf[steps.middle[group] : steps.last[group]]
    if len(left) * len(reached) * cells.n_words > _MOST_WORDS:
        return None
    both = cells.of_leaves(left)[:, None, :] & cells.of_leaves(reached)
    along = np.bitwise_or.reduceat(both, cells.word_ptr[:-1], axis=-1)
    meets = np.all(along != 0, axis=-1)
    values = (steps.gain[reached] - steps.gain[left][:, None])[meets]
    boxes = both[meets]
    if not steps.is_everywhere[group]:
        staying = cells.of_leaves(_staying(steps, group))
        values = np.concatenate([values, np.zeros(len(staying))])
        boxes = np.concatenate([boxes, staying])
    order = np.argsort(values, kind="stable")
    return values[order], boxes[order]


def _staying(steps: TreeSteps, group: int) -> Indices:
    """Return the leaves of a tree that hold both cells of a step."""
    model, runs = steps.model, steps.runs
    step, tree = steps.group_step[group], steps.group_tree[group]
    inside = runs.leaf[(runs.start <= step) & (runs.stop > step + 1)]
    first, last = np.searchsorted(model.tree, [tree, tree + 1])
    tests = np.zeros(len(model.tree), dtype=bool)
    tests[model.owner[model.boxes.entry_feature == runs.feature]] = True
    free = np.arange(first, last)[(model.reached & ~tests)[first:last]]
    return np.concatenate([free, inside[model.tree[inside] == tree]])


def _packed(bits: npt.NDArray[np.bool_]) -> Words:
    """Return rows of bits as words."""
    return np.packbits(bits, axis=1, bitorder="little").view(np.uint64)
