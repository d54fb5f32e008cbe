"""Whose effect is it? Effects whose features say so much alike that rows hardly decide."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np

from treepurify.components import Component, TensorComponent
from treepurify.errors import MemoryBudgetError
from treepurify.grids.grid import EncodedRows, Subset
from treepurify.moments import GridRows, MeasureRows, rows_on_grids
from treepurify.purification.unidentified import label_blocks
from treepurify.rows.row_weights import equal_parts
from treepurify.terms import listed_names, term_name
from treepurify.typing import Array, Indices

LEAST_SHARE = 0.01
"""Of the model's variance: smaller effects do not mislead anybody."""
MOST_OF_IT = 0.9
"""The share of an effect that another feature determines at least."""
# Of the model's variance: with less, the model hardly reads the other feature.
_LEAST_OF_OTHER = 0.001
# Of the summed variances: what effects that largely cancel leave at most.
_MOST_LEFT = 1 / 3
# Of equal mass, along a feature of numbers: a curve is nearly constant on each.
_PARTS = 30
_ROWS_PER_BLOCK = 1 << 13
_MOST_NAMED = 5
# Rows of a cell that are looked at first.
_PICKED = 4
_NOT_LOOKED = "Whether features determine each other on the rows was not checked:"

Reason = Literal["cancel", "copies"]


@dataclass(frozen=True)
class CollinearEffects:
    """Effects of features that say much the same, to be read together.

    Parameters
    ----------
    members : tuple of tuple of int
        The effects, the largest first.
    names : tuple of str
        Their names.
    reason : {"cancel", "copies"}
        They largely cancel; or one feature nearly determines the effect of another.
    movable : float
        Variance that could as well be of other members, added up over the outputs: what cancels, or
        what one effect could take from another.
    variance : float
        Variance of their sum, added up over the outputs.
    amount : float
        The lowest correlation of two effects that cancel; the share of an effect that another
        feature determines at least.
    """

    members: tuple[Subset, ...]
    names: tuple[str, ...]
    reason: Reason
    movable: float
    variance: float
    amount: float

    @property
    def name(self) -> str:
        """The names as a sum, such as ``"air_time + distance"``."""
        return " + ".join(self.names)

    @property
    def joint_name(self) -> str:
        """The name of the row of a table that stands for all of them."""
        return f"{self.name} together"

    @property
    def claim(self) -> str:
        """What holds of them."""
        quoted = [f"'{name}'" if " & " in name else name for name in self.names]
        more = len(quoted) - _MOST_NAMED
        listed = listed_names([*quoted[:_MOST_NAMED], f"{more} others"] if more > 1 else quoted)
        if self.reason == "cancel":
            return f"The effects of {listed} largely cancel"
        return f"{listed} are near copies"

    @property
    def reason_words(self) -> str:
        """What the claim rests on."""
        if self.reason == "cancel":
            how = "correlation is" if len(self.names) == 2 else "correlations go down to"
            return f"their {how} {self.amount:.2f}"
        return f"at least {self.amount:.0%} of one effect could be that of another"

    @property
    def sentence(self) -> str:
        """What a reader should do."""
        return f"{self.claim}: read them together (tp.plots.together)."


def find_collinear(
    components: Mapping[Subset, TensorComponent],
    variance: float,
    rows: GridRows | None,
    copies: int = 1,
) -> tuple[CollinearEffects, ...]:
    """Return the groups of effects that must be read together; none without rows.

    Parameters
    ----------
    components : mapping of tuple of int to TensorComponent
        The effects.
    variance : float
        Variance of the model, outputs added up.
    rows : GridRows, optional
        The rows that are the measure in the cells of the effects.
    copies : int
        How often each row that was given is among them.

    Notes
    -----
    The question is always whose an effect is: where features say much the same of each row, a
    function can move from the effect of one to that of another, and predictions hardly change. It
    matters from 1% of the model's variance on, and shows in two ways.

    Effects *cancel* where the variance of their sum is less than a third of the sum of their
    variances: so their correlation is below -2/3, and neither is so much larger that the other
    hardly changes it. The two that cancel most become a group, whose sum then counts as one
    effect, and so on until no two cancel.

    A main effect is a *copy* where another feature that the model reads (with a main effect of at
    least 0.1%) determines 90% of it: the correlation ratio ``Var(E[f_i | x_j]) / Var(f_i)``, on 30
    parts of equal mass of a feature of numbers, adjusted for the number of parts as R squared is,
    so that a category of few rows determines nothing.

    Copies that share a feature are one group; none is named whose members cancel, since that says
    it already. Functions that two main effects share exactly are counted by `shared_mains`.
    """
    if rows is None or not variance > 0:
        return ()
    sizes = {subset: float(np.sum(part.variance)) for subset, part in components.items()}
    ordered = sorted(sizes, key=lambda subset: -sizes[subset])
    leading = [subset for subset in ordered if sizes[subset] >= LEAST_SHARE * variance]
    found = _cancelling(components, leading, rows) if len(leading) > 1 else []
    pairs: dict[frozenset[Subset], _Together] = {}
    read = [s for s in ordered if len(s) == 1 and sizes[s] >= _LEAST_OF_OTHER * variance]
    n_rows = 1.0 / float(np.sum(rows.shares**2)) / copies
    for own, other, share in _determined_mains(components, leading, read, rows, n_rows):
        if share >= MOST_OF_IT:
            both = frozenset((own, other))
            pairs.setdefault(both, _Together(both, "copies", share * sizes[own], share))
    for group in _joined(pairs.values()):
        if not any(group.members <= other.members for other in found):
            found.append(group)
    groups = []
    for members, reason, movable, amount in sorted(found, key=lambda each: -each.movable):
        named = tuple(subset for subset in ordered if subset in members)
        parts = [components[subset] for subset in named]
        names = tuple(term_name(axis.name for axis in part.axes) for part in parts)
        of_sum = max(float(covariances_of(parts, rows).sum()), 0.0)
        groups.append(CollinearEffects(named, names, reason, movable, of_sum, amount))
    return tuple(groups)


class _Together(NamedTuple):
    """Effects that must be read together, as `CollinearEffects` has them."""

    members: frozenset[Subset]
    reason: Reason
    movable: float
    amount: float


def _joined(pairs: Iterable[_Together]) -> list[_Together]:
    """Return copies of which some share a member as one group."""
    groups: list[_Together] = []
    for pair in pairs:
        near = [group for group in groups if group.members & pair.members]
        groups = [group for group in groups if group not in near]
        every = [*near, pair]
        members = frozenset[Subset]().union(*(own.members for own in every))
        movable, share = max(own.movable for own in every), min(own.amount for own in every)
        groups.append(_Together(members, "copies", movable, share))
    return groups


def covariances_of(parts: Sequence[TensorComponent], rows: GridRows) -> Array:
    """Return the covariances of effects over rows, outputs added up."""
    size, shares = len(parts), rows.shares
    cells = [rows.cells(part.features) for part in parts]
    means, products = np.zeros((size, parts[0].values.shape[-1])), np.zeros((size, size))
    for start in range(0, rows.n_rows, _ROWS_PER_BLOCK):
        block = slice(start, start + _ROWS_PER_BLOCK)
        each = zip(parts, cells, strict=True)
        values = np.stack([part.on_cells(of_part[:, block]) for part, of_part in each])
        weighted = values * shares[block, None]
        means += weighted.sum(axis=1)
        products += weighted.reshape(size, -1) @ values.reshape(size, -1).T
    return np.asarray(products - means @ means.T)


def _cancelling(
    components: Mapping[Subset, TensorComponent], leading: Sequence[Subset], rows: GridRows
) -> list[_Together]:
    """Return the groups of leading effects that largely cancel."""
    products = covariances_of([components[subset] for subset in leading], rows)
    deviations = np.sqrt(np.maximum(np.diag(products), np.finfo(float).tiny))
    correlations = products / np.outer(deviations, deviations)
    groups = []
    for members in merge_cancelling(products):
        own = np.ix_(members, members)
        movable = float(np.trace(products[own]) - products[own].sum())
        lowest = max(float(correlations[own].min()), -1.0)
        groups.append(_Together(frozenset(leading[i] for i in members), "cancel", movable, lowest))
    return groups


def merge_cancelling(products: Array) -> list[list[int]]:
    """Return the positions in each group of effects that cancel, from their covariances."""
    sums = products.copy()
    members = [[i] for i in range(len(products))]
    while True:
        together = np.diag(sums)[:, None] + np.diag(sums)
        safe = np.where(together > 0, together, 1.0)
        left = np.where(together > 0, 1.0 + 2.0 * sums / safe, 1.0)
        np.fill_diagonal(left, 1.0)
        first, second = np.unravel_index(np.argmin(left), left.shape)
        if not left[first, second] < _MOST_LEFT:
            return [sorted(group) for group in members if len(group) > 1]
        members[first] += members[second]
        members[second] = []
        sums[first] += sums[second]
        sums[:, first] += sums[:, second]
        sums[second] = sums[:, second] = 0.0


def _determined_mains(
    components: Mapping[Subset, TensorComponent],
    leading: Sequence[Subset],
    read: Sequence[Subset],
    rows: GridRows,
    n_rows: float,
) -> Iterator[tuple[Subset, Subset, float]]:
    """Yield each leading main effect, the feature that determines most of it, and its share."""
    shares = rows.shares
    parts = {main: _parts(components[main], rows) for main in read} if len(read) > 1 else {}
    for own in parts:
        if own not in leading:
            continue
        values = components[own].on_cells(rows.cells(own)).T
        weighted = shares * (values - np.sum(shares * values, axis=1, keepdims=True))
        total = float(np.sum(weighted * values))
        by_other = {
            other: share_of_parts(weighted, total, parts[other], shares, n_rows)
            for other in read
            if other != own
        }
        best = max(by_other, key=by_other.__getitem__)
        yield own, best, by_other[best]


def _parts(main: TensorComponent, rows: GridRows) -> Indices:
    """Return the part of each row: its category, its part of the numbers, or its special cell."""
    (axis,), (cells,) = main.axes, rows.cells(main.features)
    if axis.is_categorical:
        return np.asarray(cells, dtype=np.intp)
    held = np.bincount(cells, rows.shares, axis.n_cells)
    of_cell = equal_parts((np.cumsum(held) - held / 2) / held.sum(), _PARTS)
    of_cell[axis.n_regular :] = _PARTS + np.arange(axis.n_cells - axis.n_regular)
    return np.asarray(of_cell[cells])


def share_of_parts(
    weighted: Array, total: float, parts: Indices, shares: Array, n_rows: float
) -> float:
    """Return the adjusted share of a variance, `total`, that lies between the parts of the rows.

    `weighted` are the values from their mean times the shares of the rows, (n_outputs, n_rows).
    """
    held = np.bincount(parts, shares)
    there = held > 0
    n_parts = int(np.count_nonzero(there))
    if n_rows <= n_parts:
        return 0.0
    sums = np.stack([np.bincount(parts, of_output)[there] for of_output in weighted])
    between = float(np.sum(sums**2 / held[there]))
    return max(1.0 - (1.0 - between / total) * (n_rows - 1.0) / (n_rows - n_parts), 0.0)


def shared_mains(
    every: Mapping[Subset, Component], rows: MeasureRows | None
) -> tuple[dict[Subset, int], str]:
    """Return the pairs of main effects that the rows leave open, and a note on what was looked at.

    With the number of functions that can move between the two. Only pairs without a table: where
    there is one, its solve counts them.
    """
    mains = {
        s[0]: c
        for s, c in every.items()
        if len(s) == 1 and isinstance(c, TensorComponent) and len(c.values) > 1
    }
    known = {s for s in every if len(s) == 2 and mains.keys() >= set(s)}
    if rows is None or len(known) == len(mains) * (len(mains) - 1) // 2:
        return {}, ""
    try:
        on_grids = rows_on_grids(rows, mains.values())
    except MemoryBudgetError:
        return {}, f"{_NOT_LOOKED} a sample of the rows would not fit into memory."
    if on_grids is None:
        return {}, ""
    sizes = {feature: len(main.values) for feature, main in mains.items()}
    encoded = on_grids.by_order[min(on_grids.by_order)]
    words = f"Whether features determine each other was checked on {on_grids.words}."
    return dict(shared_pairs(encoded, sizes, known)), words if on_grids.words else ""


def shared_pairs(
    rows: EncodedRows, sizes: Mapping[int, int], known: Collection[Subset] = ()
) -> Iterator[tuple[Subset, int]]:
    """Yield the pairs of features with functions in common, and how many these are.

    A function of the one feature that equals a function of the other on every row can be added to
    the one main effect and taken from the other. Such functions are constant on the blocks of
    cells of both features that rows connect. Functions that more than two features share are not
    looked for.

    Parameters
    ----------
    rows : EncodedRows
        The rows that are the measure.
    sizes : mapping of int to int
        Number of cells of each feature that has a main effect.
    known : collection of tuple of int
        Pairs that are left out.
    """
    has_weight = slice(None) if rows.weights is None else rows.weights > 0
    cells = {j: rows.codes[j, has_weight] for j in sorted(sizes)}
    picked = {j: _rows_of_each_cell(own) for j, own in cells.items()}
    for pair in combinations(cells, 2):
        if pair in known:
            continue
        # Few rows of each cell are mostly enough to connect all of them.
        few, n_rows = np.concatenate([picked[j] for j in pair]), len(cells[pair[0]])
        for some in (few, slice(None)) if len(few) < n_rows else (slice(None),):
            first, second = (cells[j][some] for j in pair)
            _, _, n_blocks = label_blocks(first, second, (sizes[pair[0]], sizes[pair[1]]))
            if n_blocks < 2:
                break
        else:
            yield pair, n_blocks - 1


def _rows_of_each_cell(cells: Indices) -> Indices:
    """Return the first rows in each cell."""
    order = np.argsort(cells, kind="stable")
    counts = np.bincount(cells)
    starts = np.cumsum(counts) - counts
    return np.concatenate([order[starts[counts > k] + k] for k in range(_PICKED)])
