"""Two decompositions side by side: the values of both on rows, or on the cells they share."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from treepurify.comparing.apparent import BEFORE_AND_AFTER, own_distribution
from treepurify.components import (
    Component,
    TensorComponent,
    evaluate_each,
    locate_cells,
    values_on_rows,
)
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import EncodedRows, Subset
from treepurify.moments import GridRows
from treepurify.remainder import Difference, SumOfParts
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.typing import Array, Indices

_Located = dict[tuple[int, int], Indices]


@dataclass(frozen=True, eq=False)
class AlignedTerm:
    """The values of one component in both decompositions.

    Parameters
    ----------
    subset : tuple of int
        The features, as positions in the first decomposition.
    first, second : ndarray of float64, shape (n_points, n_outputs)
        Values on the rows or cells; zero where there is no such component.
    weights : ndarray of float64, shape (n_points,)
        Mass of each row or cell.
    cells : tuple of ndarray of int
        Cell of each point along each axis.
    axes : tuple of FeatureAxis
        The axes; empty where neither component is a table.
    """

    subset: Subset
    first: Array
    second: Array
    weights: Array
    cells: tuple[Indices, ...]
    axes: tuple[FeatureAxis, ...]

    @property
    def sums(self) -> Array:
        """Sums of the values by mass, of both, shape (2, n_outputs)."""
        return np.stack([self.weights @ self.first, self.weights @ self.second])

    def less(self, means: Array) -> "AlignedTerm":
        """Return the component with these constants taken from both."""
        return replace(self, first=self.first - means[0], second=self.second - means[1])


@dataclass(frozen=True, eq=False)
class _Points:
    """Where both decompositions are looked at, and in which words."""

    columns: tuple[Columns, Columns] | None
    rows: dict[int, EncodedRows] | None
    weights: Array | None
    words: str


@dataclass(frozen=True, eq=False)
class BothSides:
    """Two decompositions under one mass.

    Parameters
    ----------
    mass : str
        The mass in words.
    on_rows : bool
        Whether all components are given on the same rows.
    weights : ndarray of float64, shape (n_rows,), optional
        Mass of each row.
    pairs : iterator of AlignedTerm
        The components of both, one at a time.
    remainders : iterator of tuple
        What the remainders hold, on the rows: the features, as positions in the first
        decomposition, and the values, those of the second negative. Parts whose features are
        not known are left out.
    """

    mass: str
    on_rows: bool
    weights: Array | None
    pairs: Iterator[AlignedTerm]
    remainders: Iterator[tuple[Subset, Array]]


def side_by_side(a: Decomposition, b: Decomposition, names: tuple[str, str]) -> BothSides:
    """Return the components of both, one at a time, under the mass of one of them.

    `names` are what they are called in words.

    Raises
    ------
    InvalidInputError
        If features or outputs differ, or cells that only given rows could compare.
    """
    renumber = _renumbered(a, b)
    return _sides(a, b, _points((a, b), renumber, names), renumber)


def sides_on_rows(
    a: Decomposition,
    b: Decomposition,
    columns: tuple[Columns, Columns],
    weights: Array,
) -> BothSides:
    """Return the components of both on given rows, or on some of them.

    Parameters
    ----------
    a, b : Decomposition
        The decompositions.
    columns : tuple of Columns
        The rows, as each of them reads them.
    weights : ndarray of float64, shape (n_rows,)
        Mass of each row.

    Raises
    ------
    InvalidInputError
        If features or outputs differ.
    """
    return _sides(a, b, _Points(columns, None, weights, ""), _renumbered(a, b))


def check_sides(a: Decomposition, b: Decomposition) -> None:
    """Raise `InvalidInputError` where features or outputs differ."""
    _renumbered(a, b)


def need_rows(a: Decomposition, b: Decomposition) -> bool:
    """Return whether two decompositions have cells that can only be compared on given rows."""
    names = (a.measure, b.measure)
    same_cells = _same_cells(a, b, _renumbered(a, b))
    return not same_cells and _points_of_rows(a, b, names) is None


def _renumbered(a: Decomposition, b: Decomposition) -> list[int]:
    """Return the positions in the second decomposition of the features of the first."""
    if set(a.feature_names) != set(b.feature_names):
        differing = sorted(set(a.feature_names) ^ set(b.feature_names))
        raise InvalidInputError(
            f"the decompositions have different features ({', '.join(differing[:10])}): compare "
            "models of the same table"
        )
    if a.n_outputs != b.n_outputs:
        raise InvalidInputError(
            f"the decompositions have {a.n_outputs} and {b.n_outputs} outputs; both must "
            "have the same number"
        )
    return [b.feature_names.index(name) for name in a.feature_names]


def _sides(a: Decomposition, b: Decomposition, points: _Points, renumber: list[int]) -> BothSides:
    on_rows = points.columns is not None or points.rows is not None
    pairs, remainders = _walk(a, b, points, renumber), _remainders(a, b, points, renumber)
    return BothSides(points.words, on_rows, points.weights, pairs, remainders)


def _points(
    both: tuple[Decomposition, Decomposition], renumber: list[int], names: tuple[str, str]
) -> _Points:
    a, b = both
    if not _same_cells(a, b, renumber):
        if points := _points_of_rows(a, b, names):
            return points
        raise InvalidInputError(
            "the decompositions have different intervals or categories: pass X, the rows on which "
            "to compare them"
        )
    for d, name in zip(both, names, strict=True):
        if (rows := d.grid_rows) is not None:
            return _Points(None, dict(rows.by_order), rows.shares, _rows_in_words(d, rows, name))
    return _Points(None, None, None, f"the distribution{_whose(a, names[0])}")


def _whose(d: Decomposition, name: str) -> str:
    """Return the name and the measure, which may be the name or need none."""
    if name == d.measure or name in BEFORE_AND_AFTER:
        return f" ({own_distribution(d)})"
    return f" of {name} ({d.measure})"


def _points_of_rows(a: Decomposition, b: Decomposition, names: tuple[str, str]) -> _Points | None:
    """Return the rows of the decomposition whose cells refine those of the other, if one does."""
    for d, other, name in ((a, b, names[0]), (b, a, names[1])):
        both = _points_in_cells(d, other)
        rows = d.grid_rows
        if both is not None and rows is not None:
            columns = both if d is a else both[::-1]
            words = _rows_in_words(d, rows, name)
            return _Points((columns[0], columns[1]), None, rows.shares, words)
    return None


def _rows_in_words(d: Decomposition, rows: GridRows, name: str) -> str:
    return f"{rows.words or f'the {rows.n_rows} rows'}{_whose(d, name)}"


def _same_cells(a: Decomposition, b: Decomposition, renumber: list[int]) -> bool:
    """Return whether every shared component has the same cells, in the same order."""
    if renumber != list(range(len(renumber))):
        return False
    known: dict[tuple[int, int], FeatureAxis] = {}
    for d in (a, b):
        parts = d.remainder.parts if isinstance(d.remainder, SumOfParts) else ()
        for component in (*d.components.values(), *parts):
            if not isinstance(component, TensorComponent):
                return False
            size = len(component.features)
            for j, axis in zip(component.features, component.axes, strict=True):
                if not same_axis(known.setdefault((j, size), axis), axis):
                    return False
    return True


def same_axis(first: FeatureAxis, second: FeatureAxis) -> bool:
    """Return whether two axes have the same cells, in the same order."""
    if first.n_cells != second.n_cells or first.is_categorical != second.is_categorical:
        return False
    if first.cuts is None or second.cuts is None:
        return first.labels() == second.labels()
    return np.array_equal(first.cuts, second.cuts)


def _walk(
    a: Decomposition, b: Decomposition, points: _Points, renumber: list[int]
) -> Iterator[AlignedTerm]:
    back = {theirs: ours for ours, theirs in enumerate(renumber)}
    theirs = {tuple(sorted(back[j] for j in subset)): subset for subset in b.components}
    union = sorted({*a.components, *theirs}, key=lambda subset: (len(subset), subset))
    values_a = _values(a, points, 0)
    values_b = zip(b.components, _values(b, points, 1), strict=True)
    ahead: dict[Subset, Array] = {}
    located: _Located = {}
    for subset in union:
        first = next(values_a) if subset in a.components else None
        subset_of_second = theirs.get(subset)
        # Renumbered features may come in another order in the second decomposition.
        while subset_of_second is not None and subset_of_second not in ahead:
            reached, values = next(values_b)
            ahead[reached] = values
        second = None if subset_of_second is None else ahead.pop(subset_of_second)
        component = a.components.get(subset)
        other = b.components[subset_of_second] if subset_of_second is not None else None
        shown = component if isinstance(component, TensorComponent) else None
        if shown is None and isinstance(other, TensorComponent) and subset_of_second == subset:
            shown = other
        yield _pair(subset, first, second, shown, points, located)


def _remainders(
    a: Decomposition, b: Decomposition, points: _Points, renumber: list[int]
) -> Iterator[tuple[Subset, Array]]:
    back = {theirs: ours for ours, theirs in enumerate(renumber)}
    for d, which in ((a, 0), (b, 1)):
        for features, values in _remainder_values(d, points, which):
            positions = tuple(back[j] for j in features) if which else features
            yield positions, -values if which else values


def _remainder_values(
    d: Decomposition, points: _Points, which: int
) -> Iterator[tuple[Subset, Array]]:
    """Yield the known parts of a remainder; NaN where it cannot be told on these rows."""
    rest = d.remainder
    if isinstance(rest, SumOfParts):
        for part, values in zip(rest.parts, _on_points(rest.parts, points, which), strict=True):
            yield part.features, values
    elif isinstance(rest, Difference) and rest.is_joint:
        yield rest.features, _joint_values(d, rest, points, which)


def _joint_values(d: Decomposition, rest: Difference, points: _Points, which: int) -> Array:
    try:
        if points.columns is not None:
            return rest.on_rows(points.columns[which])
        if points.rows is not None and d.grid_rows is not None:
            decomposed_codes, codes = d.grid_rows.finest, points.rows[max(points.rows)].codes
            # Cells of unused features match only on the rows of the decomposition itself.
            if np.array_equal(decomposed_codes, codes):
                return rest.in_cells(codes)
    except InvalidInputError:
        # A combination of levels that was not observed, of a function known by values alone.
        pass
    n_points = 0 if points.weights is None else len(points.weights)
    return np.full((n_points, d.n_outputs), np.nan)


def _values(d: Decomposition, points: _Points, which: int) -> Iterator[Array]:
    return _on_points(d.components.values(), points, which)


def _on_points(components: Iterable[Component], points: _Points, which: int) -> Iterator[Array]:
    if points.columns is not None:
        yield from evaluate_each(components, points.columns[which])
        return
    for component in components:
        if isinstance(component, TensorComponent) and points.rows is not None:
            yield values_on_rows(component, points.rows)
        elif isinstance(component, TensorComponent):
            yield component.values.reshape(component.n_cells, -1)


def _pair(
    subset: Subset,
    first: Array | None,
    second: Array | None,
    shown: TensorComponent | None,
    points: _Points,
    located: _Located,
) -> AlignedTerm:
    weights = points.weights
    if weights is None and shown is not None:
        weights = shown.mass.ravel()
    known = first if first is not None else second
    if known is None or weights is None:
        raise InvalidInputError("an effect is neither a table nor given on rows")
    zero = np.zeros_like(known)
    return AlignedTerm(
        subset,
        zero if first is None else first,
        zero if second is None else second,
        weights,
        () if shown is None else _cells(shown, points, located),
        () if shown is None else shown.axes,
    )


def _cells(component: TensorComponent, points: _Points, located: _Located) -> tuple[Indices, ...]:
    if points.columns is not None:
        for j, axis in zip(component.features, component.axes, strict=True):
            if (j, id(axis)) not in located:
                located[j, id(axis)] = locate_cells(points.columns[0], j, axis)
        keys = zip(component.features, map(id, component.axes), strict=True)
        return tuple(located[key] for key in keys)
    if points.rows is not None:
        codes = points.rows[len(component.features)].codes
        return tuple(np.asarray(codes[j], dtype=np.intp) for j in component.features)
    shape = [axis.n_cells for axis in component.axes]
    return tuple(np.asarray(cells.ravel(), dtype=np.intp) for cells in np.indices(shape))


def _points_in_cells(d: Decomposition, other: Decomposition) -> tuple[Columns, Columns] | None:
    """Return the rows of `d` as points for both, where the cells of `d` are fine enough.

    A point in a cell of `d` stands for every row there, if no cell of `other` ends within it. So
    an explainable boosting machine purified under rows is compared with the same machine under
    its own bins, of which the cells of the first are parts.

    Parameters
    ----------
    d : Decomposition
        A decomposition with rows, whose components are tables.
    other : Decomposition
        Another one of the same features, in any order.

    Returns
    -------
    tuple of Columns, optional
        The points in the columns of `d` and of `other`; None where there are no rows, or cells of
        `other` end within cells of `d`.
    """
    rows = d.grid_rows
    if rows is None:
        return None
    codes = _finest(d, rows.by_order)
    limits = _axes_by_name(other)
    specs = {spec.name: spec for spec in other.inputs.features}
    n_rows = rows.n_rows
    values: dict[str, Array] = {}
    for j, spec in enumerate(d.inputs.features):
        axis, cells = codes.get(j, (None, None))
        if not all(_refines(axis, wanted, spec, specs[spec.name]) for wanted in limits[spec.name]):
            return None
        if axis is None or cells is None:
            values[spec.name] = np.zeros(n_rows)
        else:
            values[spec.name] = _values_in_cells(axis)[cells]
    return _columns(d, values, n_rows), _columns(other, values, n_rows)


def _columns(d: Decomposition, values: Mapping[str, Array], n_rows: int) -> Columns:
    features = d.inputs.features
    return Columns(features, tuple(values[spec.name] for spec in features), n_rows)


def _finest(
    d: Decomposition, rows: Mapping[int, EncodedRows]
) -> dict[int, tuple[FeatureAxis, Indices]]:
    """Return the axis of each feature with the most cells, and the cell of each row along it."""
    found: dict[int, tuple[FeatureAxis, Indices]] = {}
    for subset, component in d.components.items():
        if isinstance(component, TensorComponent) and len(subset) in rows:
            for j, axis in zip(subset, component.axes, strict=True):
                if j not in found or axis.n_cells > found[j][0].n_cells:
                    found[j] = axis, np.asarray(rows[len(subset)].codes[j], dtype=np.intp)
    return found


def _axes_by_name(d: Decomposition) -> dict[str, list[FeatureAxis]]:
    axes: dict[str, list[FeatureAxis]] = {spec.name: [] for spec in d.inputs.features}
    for component in d.components.values():
        if isinstance(component, TensorComponent):
            for axis in component.axes:
                axes[axis.name].append(axis)
    return axes


def _refines(
    axis: FeatureAxis | None, wanted: FeatureAxis, spec: FeatureSpec, other: FeatureSpec
) -> bool:
    """Return whether every cell of an axis lies within one of the wanted axis."""
    if axis is None:
        return False
    if axis.cuts is None or wanted.cuts is None:
        return (
            spec.labels == other.labels
            and spec.is_categorical
            and axis.categories == wanted.categories
        )
    return bool(np.isin(wanted.cuts, axis.cuts).all())


def _values_in_cells(axis: FeatureAxis) -> Array:
    """Return a value in each cell of an axis."""
    if axis.cuts is None:
        regular = np.arange(axis.n_regular + int(axis.has_other), dtype=np.float64)
    else:
        below = np.nextafter(axis.cuts[:1], -np.inf) if len(axis.cuts) else np.zeros(1)
        regular = np.concatenate([below, axis.cuts])
    return np.concatenate([regular, np.full(int(axis.has_missing), np.nan)])
