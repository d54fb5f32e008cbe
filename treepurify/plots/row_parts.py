"""What each part of a decomposition adds to rows, and how values of rows are written."""

from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from treepurify.arguments import check_choice, check_result, check_whole
from treepurify.components import Component, evaluate_each
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Subset
from treepurify.plots.labels import number_words
from treepurify.remainder import Difference, SumOfParts
from treepurify.rows.columns import Columns
from treepurify.rows.tables import check_any_rows
from treepurify.spread import LEVEL, one_more_training
from treepurify.typing import Array, Mask

Parts = Literal["terms", "shapley"]
_REMAINDER = "remainder"
_DIGITS = 4
# An effect that is smaller, relative to the largest, is rounding.
_NOTHING = 1e-10


def one_row(d: Decomposition, row: Any, index: int | None = None) -> Columns:
    """Return one row as the model reads it: a row by itself, or one of a table.

    Raises
    ------
    InvalidInputError
        If it is not one row, or the table has no such row.
    """
    columns = d.inputs.columns(as_table(row))
    if index is not None:
        check_any_rows(columns.n_rows, "a row to draw")
        check_whole("index, the position of the row,", index, -columns.n_rows, columns.n_rows - 1)
        return columns.take(np.array([index % columns.n_rows]))
    if columns.n_rows != 1:
        raise InvalidInputError(
            f"this figure shows one row, got {columns.n_rows}: pass X.iloc[i] or X[i], or the "
            "whole table together with index=i"
        )
    return columns


def as_table(row: Any) -> Any:
    """Return a row of a data frame or of an array as a table of one row."""
    if getattr(row, "ndim", 2) != 1:
        return row
    # A row of columns of several types holds objects; the columns have types again.
    return row.to_frame().T.infer_objects() if hasattr(row, "to_frame") else row[None, :]


class LargestParts(NamedTuple):
    """The parts that add most to a row, the largest first, and the others together.

    Parameters
    ----------
    labels : list of str
        Names and values.
    sizes : ndarray of float64, shape (n_parts,)
        What each adds to the margin.
    bounds : ndarray of float64, shape (2, n_parts), optional
        Between which ends it would lie in one more training; NaN where that is not known. None
        where there is one training.
    """

    labels: list[str]
    sizes: Array
    bounds: Array | None = None


def largest_parts(
    d: Decomposition,
    row: Any,
    index: int | None,
    parts: Parts,
    output: int,
    top: int,
) -> LargestParts:
    """Return labels and sizes of the parts that add most to a row, and of the others together."""
    check_whole("top", top, 1)
    columns = one_row(d, row, index)
    names, subsets, table = row_effects(d, columns, parts)
    values = table[0, :, output]
    labels = [
        name
        if not subset or (name == _REMAINDER and subset not in d.components)
        else f"{name} = {', '.join(value_words(d, columns, j, 0) for j in subset)}"
        for name, subset in zip(names, subsets, strict=True)
    ]
    order = np.argsort(-np.abs(values), kind="stable")
    # What adds nothing has no bar where there is more than fits.
    n_kept = max(min(top, int(np.count_nonzero(is_something(values)))), 1)
    kept = order[:n_kept] if len(order) > n_kept + 1 else order
    groups = [[i] for i in kept]
    shown = [labels[i] for i in kept]
    if len(kept) < len(order):
        for words, group in _rest(order[len(kept) :].tolist(), subsets, values, kept[-1]):
            shown.append(words)
            groups.append(group)
    sizes = np.array([values[group].sum() for group in groups])
    each = in_each_training(d, columns, len(values), parts, output)
    if not groups or d.spread is None or each is None:
        return LargestParts(shown, sizes)
    together = np.stack([each[:, group].sum(axis=1) for group in groups], axis=1)
    return LargestParts(shown, sizes, np.array(one_more_training(together, LEVEL)))


def _rest(
    rest: list[int], subsets: list[Subset], values: Array, smallest: int
) -> list[tuple[str, list[int]]]:
    """Return what has no bar of its own: by order where together it is more than the last bar."""
    alone = [i for i in rest if len(subsets[i]) == 1]
    joint = [i for i in rest if len(subsets[i]) > 1]
    # A part that belongs to no feature, next to Shapley values, is neither.
    if len(alone) + len(joint) < len(rest):
        joint = []
    if not (alone and joint) or abs(values[rest].sum()) <= abs(values[smallest]):
        return [(f"{len(rest)} more", rest)]
    return [
        (f"main effects: {len(alone)} more", alone),
        (f"interactions: {len(joint)} more", joint),
    ]


def is_something(values: Array) -> Mask:
    """Return which effects are known, and more than rounding relative to the largest."""
    sizes = np.abs(values)
    return np.asarray(sizes > _NOTHING * np.fmax.reduce(sizes, initial=0.0))


def in_each_training(
    d: Decomposition, columns: Columns, n_parts: int, parts: Parts, output: int
) -> Array | None:
    """Return what each part adds to a row in each training, shape (n_models, n_parts).

    NaN for parts that are not known of each; None where there is one training.
    """
    if d.spread is None:
        return None
    each = np.full((d.spread.n_models, n_parts), np.nan)
    stacked = d.spread.stacked
    known = {
        subset: values[0, output :: d.n_outputs]
        for subset, values in zip(stacked, evaluate_each(stacked.values(), columns), strict=True)
    }
    if parts == "terms":
        for k, subset in enumerate(d.components):
            each[:, k] = known.get(subset, np.nan)
        return each
    has_unknown = isinstance(d.remainder, SumOfParts) or getattr(d.remainder, "is_joint", False)
    if has_unknown or stacked.keys() != d.components.keys():
        return None
    each[:, : len(d.feature_names)] = 0.0
    for subset, values in known.items():
        each[:, list(subset)] += values[:, None] / len(subset)
    return each


def row_effects(
    d: Decomposition, X: Any, parts: Parts = "terms"
) -> tuple[list[str], list[Subset], Array]:
    """Return what each part adds to the margin of each row.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    X : array_like or table of shape (n_rows, n_features)
        The rows.
    parts : {"terms", "shapley"}
        Components, or features with their Shapley values
        ``sum over S containing j of f_S / |S|``.

    Returns
    -------
    names : list of str
        One per part; the last may be ``"remainder"``: what is left, or, of Shapley values,
        what belongs to no single feature.
    subsets : list of tuple of int
        Features of each part.
    values : ndarray of float64, shape (n_rows, n_parts, n_outputs)
        With the intercept they sum to the margin.

    Raises
    ------
    InvalidInputError
        If `parts` is unknown.
    """
    check_result("d", d, Decomposition)
    check_choice("parts", parts, get_args(Parts))
    columns = d.inputs.columns(X)
    if parts == "terms":
        subsets = list(d.components)
        names = [d.term_name(subset) for subset in subsets]
        values = [*evaluate_each(d.components.values(), columns)]
        if d.remainder is not None:
            names.append(_REMAINDER)
            subsets.append(tuple(d.remainder.features))
            values.append(d.remainder.on_rows(columns))
    else:
        names, subsets = list(d.feature_names), [(j,) for j in range(len(d.feature_names))]
        values = _shapley_values(d, columns)
        if len(values) > len(names):
            names.append(_REMAINDER)
            subsets.append(())
    if not values:
        return names, subsets, np.zeros((columns.n_rows, 0, d.n_outputs))
    return names, subsets, np.stack(values, axis=1)


def _shapley_values(d: Decomposition, columns: Columns) -> list[Array]:
    """Return the values of each feature, and last of what no features are known of, if any."""
    rest = d.remainder
    components: list[Component] = list(d.components.values())
    if isinstance(rest, SumOfParts):
        components += rest.parts
    elif isinstance(rest, Difference) and rest.is_joint:
        components.append(rest)
    total = [np.zeros((columns.n_rows, d.n_outputs)) for _ in d.feature_names]
    for component, values in zip(components, evaluate_each(components, columns), strict=True):
        for j in component.features:
            total[j] += values / len(component.features)
    if isinstance(rest, Difference) and not rest.is_joint:
        total.append(rest.on_rows(columns))
    return total


def value_words(d: Decomposition, columns: Columns, feature: int, row: int) -> str:
    """Return the value of one feature in one row, as text: ``"missing"`` for none."""
    value, spec = columns.values[feature][row], d.inputs.features[feature]
    if np.isnan(value):
        return "missing"
    label = spec.label(value)
    if label is not None or spec.is_categorical:
        return "other" if label is None else str(label)
    # Whole numbers stay whole, however large they are.
    return number_words(value, max(_DIGITS, len(f"{abs(value):.0f}")))
