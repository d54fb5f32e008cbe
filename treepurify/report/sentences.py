"""What a model does, in a few plain sentences that are made from its numbers.

An average over some of the rows is quoted, never the value of one cell: the highest cell of a deep
model may hold a single row.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np

from treepurify.comparing.regions import cells_in_words
from treepurify.components import TensorComponent, tabulate
from treepurify.decomposition import Decomposition
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.plots.axis_layout import lay_out_axis
from treepurify.plots.labels import margin_label, number_words, signed_words, with_minus
from treepurify.plots.limits import cells_that_count
from treepurify.ranking import Line
from treepurify.rows.row_weights import equal_parts
from treepurify.terms import listed_names, same_digits
from treepurify.typing import Array
from treepurify.verdict import shares_words

_MOST_NAMED = 3
# The leading effects are named until this share is reached.
_MOST_OF_IT = 0.9
# An effect with a smaller part of the largest size is no part of a summary.
_LEAST_PART = 0.1
# The parts of the rows that are compared: along one feature, and along each of two, where more are
# taken of one if the other has fewer.
_PARTS, _PARTS_OF_PAIR = 10, 4
# Steps against the direction that a rise may have, as a share of its height.
_MOST_AGAINST = 0.05
# Neighbours of the highest part this near to it, as a share of the height, are as high.
_FLAT = 0.1
# An effect with this part of the least share that is named must not seem to be much smaller.
_NEARLY = 2 / 3


@dataclass(frozen=True)
class Statement:
    """A sentence about a model, with the effects that a picture of it shows.

    Parameters
    ----------
    text : str
        The sentence.
    effects : tuple of tuple of int
        The effects; none where the sentence is about all of them.
    output : int
        Position of the output.
    title : str
        Names of the effects.
    """

    text: str
    effects: tuple[Subset, ...] = ()
    output: int = 0
    title: str = ""


def model_statements(d: Decomposition, most: int = 5) -> list[Statement]:
    """Return what a model does in at most `most` sentences, the most important first.

    The first one says which effects account for the variance of the predictions; the others say
    what the leading effects do, one each. Effects of more than two features are counted, but not
    described.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    most : int
        Number of sentences.

    Returns
    -------
    list of Statement
        Empty for a constant model. Numbers are in the units of the effects.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.ensemble import GradientBoostingRegressor
    >>> from treepurify.report.sentences import model_statements
    >>> X = np.random.default_rng(0).uniform(size=(500, 2))
    >>> model = GradientBoostingRegressor(max_depth=1).fit(X, 3 * (X[:, 0] > 0.5))
    >>> d = tp.purify(model, X, weights="empirical", progress=False)
    >>> model_statements(d)[0].text
    'x0 accounts for 100% of the variance of the predictions. Main effects 100%.'
    """
    lines = [
        line for line in d.ranking.lines if line.subset != () and not line.is_member and line.size
    ]
    if not lines or most < 1:
        return []
    large = [line for line in lines if line.size >= _LEAST_PART * lines[0].size]
    described = (_about(d, line) for line in large)
    return [_about_all(d, large), *islice(filter(None, described), most - 1)]


def _name(d: Decomposition, line: Line) -> str:
    if line.is_sum and line.group is not None:
        return f"{listed_names(line.group.names)} together"
    return line.name(d.term_name)


def _about_all(d: Decomposition, lines: Sequence[Line]) -> Statement:
    """Return which effects account for the variance, and what interactions have of it."""
    if np.isnan(lines[0].share):
        write = same_digits([line.size for line in lines])
        sizes = [f"{_name(d, line)} ({write(line.size)})" for line in lines[:_MOST_NAMED]]
        return Statement(f"By size, the leading effects are {listed_names(sizes)}.")
    supporting = [line for line in lines if line.share > 0]
    named, reached = supporting[:1], sum(line.share for line in supporting[:1])
    for line in supporting[1:_MOST_NAMED]:
        if reached < _MOST_OF_IT:
            named.append(line)
            reached += line.share
    each = [
        _name(d, line) + (f" ({_percent(line.share)})" if len(named) > 1 else "") for line in named
    ]
    verb = "accounts" if len(named) == 1 and not named[0].is_sum else "account"
    text = (
        f"{listed_names(each)} {verb} for {_percent(reached)} of the variance of the predictions."
    )
    text += _nearly_as_large(d, supporting[len(named) :], named[-1])
    return Statement(f"{text} {shares_words(d, d.ranking)}")


def _nearly_as_large(d: Decomposition, others: Sequence[Line], last: Line) -> str:
    """Return which others have nearly the share of the last one that is named, in a sentence."""
    near = [line for line in others if line.share >= _NEARLY * last.share]
    words = [f"{_name(d, line)} ({_percent(line.share)})" for line in near]
    if len(near) > _MOST_NAMED:
        return f" The next {len(near)}, from {words[0]} to {words[-1]}, follow closely."
    if not near:
        return ""
    verb = "follows" if len(near) == 1 and not near[0].is_sum else "follow"
    return f" {listed_names(words)} {verb} closely."


def _about(d: Decomposition, line: Line) -> Statement | None:
    """Return what an effect does; None where it is no table, or one part alone counts."""
    members = line.group.members if line.group is not None else (line.subset or (),)
    variances = [d.components[subset].variance for subset in members]
    output = int(np.argmax(np.nan_to_num(np.sum(variances, axis=0))))
    if line.group is not None:
        text = (
            f"{line.group.sentence} Their sum accounts for {_percent(line.share)} of the variance."
        )
        return Statement(text, members, output, _name(d, line))
    (subset,) = members
    table = tabulate(d.components[subset], d.inputs) if len(subset) <= 2 else None
    if table is None or not np.any(table.mass > 0):
        return None
    is_smooth = not isinstance(d.components[subset], TensorComponent)
    of_what = f"the {margin_label(d, output)}"
    say = _about_main if len(subset) == 1 else _about_pair
    said = say(table, output, of_what, is_smooth=is_smooth)
    if said is None:
        return None
    text = said
    if line.offsets:
        text += " It offsets others: where it raises the prediction, they lower it by more."
    return Statement(text, members, output, _name(d, line))


@dataclass(frozen=True, eq=False)
class _Runs:
    """Parts of the rows along one feature: runs of intervals, single categories, special cells.

    Parameters
    ----------
    axis : FeatureAxis
        The cells of the feature.
    runs : list of list of int
        The cells of each part.
    n_ordered : int
        Number of the first parts that follow each other along an axis of numbers.
    edges : ndarray of float64, optional
        The edges of the cells where the values are whole numbers.
    """

    axis: FeatureAxis
    runs: list[list[int]]
    n_ordered: int = 0
    edges: Array | None = None

    @property
    def first(self) -> list[int]:
        """First cell of each part."""
        return [run[0] for run in self.runs]

    def words(self, parts: Sequence[int]) -> str:
        """Return where parts are that follow each other."""
        cells = [cell for part in parts for cell in self.runs[part]]
        if parts[0] >= self.n_ordered:
            return cells_in_words(self.axis, cells)
        return _interval_words(self.axis, cells, self.edges)


def _parts(axis: FeatureAxis, mass: Array, most: int, *, is_smooth: bool) -> _Runs:
    """Return at most `most` parts of about equal mass; categories and special cells are parts."""
    special = [[cell] for cell in range(axis.n_regular, axis.n_cells)]
    if axis.is_categorical:
        return _Runs(axis, [[cell] for cell in range(axis.n_regular)] + special)
    held = mass[: axis.n_regular]
    share = held / (held.sum() or 1.0)
    number = equal_parts(np.cumsum(share) - share / 2, most)
    first = np.flatnonzero(np.diff(number, prepend=-1))
    ends = [*first[1:].tolist(), axis.n_regular]
    ordered = [[*range(a, b)] for a, b in zip(first.tolist(), ends, strict=True)]
    edges = _whole_edges(axis, mass, is_smooth=is_smooth)
    return _Runs(axis, [*ordered, *special], len(ordered), edges)


def _whole_edges(axis: FeatureAxis, mass: Array, *, is_smooth: bool) -> Array | None:
    """Return the edges of the cells where the values are whole numbers, halfway between them."""
    layout = lay_out_axis(axis, mass, is_smooth=is_smooth)
    return layout.edges if layout.is_whole else None


def _interval_words(axis: FeatureAxis, run: Sequence[int], edges: Array | None) -> str:
    if axis.has_labels:
        return cells_in_words(axis, run)
    is_first, is_last = run[0] == 0, run[-1] == axis.n_regular - 1
    if edges is not None and not (is_first and is_last):
        low, high = edges[run[0]] + 0.5, edges[run[-1] + 1] - 0.5
        if low == high:
            return f"{axis.name} = {number_words(low)}"
        if low < high:
            ends = number_words(low), number_words(high)
            if is_first or is_last:
                return (
                    f"{axis.name} \N{LESS-THAN OR EQUAL TO} {ends[1]}"
                    if is_first
                    else (f"{axis.name} \N{GREATER-THAN OR EQUAL TO} {ends[0]}")
                )
            return f"{axis.name} is {ends[0]} to {ends[1]}"
    words = cells_in_words(axis, run).removeprefix(axis.name)
    inside = re.fullmatch(r" in \[(.*), (.*)\)", words)
    if inside:
        low, high = map(with_minus, inside.groups())
        return f"{low} \N{LESS-THAN OR EQUAL TO} {axis.name} < {high}"
    return axis.name + with_minus(words.replace(">=", "\N{GREATER-THAN OR EQUAL TO}"))


def _about_main(
    table: TensorComponent, output: int, of_what: str, *, is_smooth: bool
) -> str | None:
    (axis,) = table.axes
    parts = _parts(axis, table.mass, _PARTS, is_smooth=is_smooth)
    held = np.add.reduceat(table.mass, parts.first)
    sums = np.add.reduceat(table.mass * table.values[:, output], parts.first)
    means = sums / np.where(held > 0, held, 1.0)
    low, high = _ends(means, held)
    if low == high:
        return None
    numbers = means[: parts.n_ordered][held[: parts.n_ordered] > 0]
    verb = _direction(numbers, is_plural="log-odds" in of_what)
    if verb and max(low, high) < parts.n_ordered:
        ends = sorted((low, high))
        first, last = (f"{signed_words(means[i])} where {parts.words([i])}" for i in ends)
        return f"On average, {of_what} {verb} with {axis.name}: the effect is {first} and {last}."
    tops, bottoms = (_as_extreme(means, held, i, parts.n_ordered) for i in (high, low))
    top, bottom = (np.average(means[each], weights=held[each]) for each in (tops, bottoms))
    return (
        f"The effect of {axis.name} on {of_what} is highest where {parts.words(tops)} "
        f"({signed_words(top)} on average) and lowest where {parts.words(bottoms)} "
        f"({signed_words(bottom)})."
    )


def _as_extreme(means: Array, held: Array, place: int, n_ordered: int) -> list[int]:
    """Return the part with an extreme mean, and those next to it that are nearly as extreme.

    Along a flat stretch chance decides which part is the highest: the stretch is the finding.
    """
    if place >= n_ordered:
        return [place]
    near = np.abs(means - means[place]) <= _FLAT * np.ptp(means[held > 0])
    other = np.flatnonzero(~(near & (held > 0))[:n_ordered])
    first, last = other[other < place], other[other > place]
    return [*range(first[-1] + 1 if len(first) else 0, last[0] if len(last) else n_ordered)]


def _direction(means: Array, *, is_plural: bool) -> str:
    """Return whether means along an axis rise or fall all the way, in words; empty for neither."""
    steps = np.diff(means)
    if not np.any(steps):
        return ""
    against = _MOST_AGAINST * np.ptp(means)
    falls, rises = np.minimum(steps, 0.0).sum(), np.maximum(steps, 0.0).sum()
    ending = "" if is_plural else "s"
    if -falls <= against:
        return f"rise{ending}"
    return f"fall{ending}" if rises <= against else ""


def _about_pair(
    table: TensorComponent, output: int, of_what: str, *, is_smooth: bool
) -> str | None:
    along = _parts_of_pair(table, is_smooth=is_smooth)
    held, sums = table.mass, table.mass * table.values[..., output]
    for i, parts in enumerate(along):
        held, sums = (np.add.reduceat(each, parts.first, axis=i) for each in (held, sums))
    means = sums / np.where(held > 0, held, 1.0)
    ends = _ends(means.ravel(), held.ravel())
    if ends[0] == ends[1]:
        return None
    low, high = (tuple(map(int, np.unravel_index(i, means.shape))) for i in ends)
    first, second = (
        f"{signed_words(means[place])} where {along[0].words(place[:1])} and "
        f"{along[1].words(place[1:])}"
        for place in (high, low)
    )
    names = listed_names([axis.name for axis in table.axes])
    return (
        f"{names} interact: beyond what each does by itself, their pair adds to {of_what} "
        f"{first}, and {second}, on average."
    )


def _parts_of_pair(table: TensorComponent, *, is_smooth: bool) -> list[_Runs]:
    """Return the parts along both features: the more along one, the fewer the other has.

    Two peaks in a day would cancel in a quarter of it.
    """
    cut = partial(_parts, is_smooth=is_smooth)
    masses = [table.mass.sum(axis=1 - i) for i in range(2)]
    counts = [
        len(cut(axis, mass, _PARTS_OF_PAIR).runs)
        for axis, mass in zip(table.axes, masses, strict=True)
    ]
    most = [max(_PARTS_OF_PAIR, _PARTS_OF_PAIR**2 // count) for count in reversed(counts)]
    return [cut(*each) for each in zip(table.axes, masses, most, strict=True)]


def _ends(means: Array, held: Array) -> tuple[int, int]:
    """Return the places of the lowest and the highest mean of the parts that count."""
    usable = cells_that_count(means, held)
    return (
        int(np.argmin(np.where(usable, means, np.inf))),
        int(np.argmax(np.where(usable, means, -np.inf))),
    )


def _percent(share: float) -> str:
    return with_minus(f"{share:z.0%}")
