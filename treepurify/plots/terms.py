"""What the figures ask of a decomposition: a component, an output, effects on other cells."""

from collections.abc import Mapping
from typing import Any, get_args

import numpy as np

from treepurify.arguments import brief, check_choice, check_result, read_output
from treepurify.comparing.apparent import apparent_values
from treepurify.components import TensorComponent, tabulate, values_on_cells
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.plots.axis_layout import Scale
from treepurify.typing import Array

Key = str | int | tuple[str | int, ...]
PairKey = str | int | tuple[str | int, str | int]
# The weight of a cell without data relative to those with data: none, unless it is alone.
_LEAST_WEIGHT = 1e-150


def find_tensor(d: Decomposition, key: Key, size: int) -> TensorComponent:
    """Return the component of `key`, over `size` features, as a table.

    A component without cells is evaluated on fine ones over the range of its features.

    Raises
    ------
    UnknownComponentError
        If there is no such component.
    InvalidInputError
        If it has another number of features, or no cells to draw.
    """
    check_result("d", d, Decomposition)
    component: Any = d[key]
    name = d.term_name(component.features)
    if len(component.features) != size:
        better = {1: "main_effect", 2: "pair"}.get(len(component.features))
        advice = f"; draw it with plots.{better}" if better else ""
        raise InvalidInputError(
            f"this figure shows {size} feature{'s' * (size > 1)}, but {name!r} has "
            f"{len(component.features)}{advice}"
        )
    table = tabulate(component, d.inputs)
    if table is None:
        raise InvalidInputError(
            f"{name!r} of engine {d.engine!r} has neither cells nor a range to draw: give it a "
            "method drawing_cells (treepurify.components.Drawable)"
        )
    return table


def is_continuous(d: Decomposition, key: Key) -> bool:
    """Return whether a component is drawn as a curve through points, for it has no steps."""
    return not isinstance(d[key], TensorComponent)


def output_position(d: Decomposition, output: int | str) -> int:
    """Return the position of an output that is given by position or by name."""
    check_result("d", d, Decomposition)
    return read_output(output, d.output_names)


def check_scale(scale: Any) -> None:
    """Raise `InvalidInputError` unless the scale of a feature is known.

    Also where a figure does not use it, so that a misspelt word is always reported.
    """
    check_choice("scale", scale, get_args(Scale))


def check_named_results(name: str, named: Any) -> None:
    """Raise `InvalidInputError` unless names are mapped to decompositions, at least one."""
    if not isinstance(named, Mapping) or not named:
        raise InvalidInputError(
            f'{name} must be decompositions by name, such as {{"before": a, "after": b}}; got '
            f"{brief(named)}"
        )
    for called, d in named.items():
        check_result(f"{name}[{called!r}]", d, Decomposition)


def raw_effect(d: Decomposition, component: TensorComponent) -> Array | None:
    """Return the effect as the model stores it, with mean zero, shape (cells..., n_outputs).

    Centred because a constant belongs to the intercept and only hides the comparison. Zero
    where the model carries no such effect; None where no effect before purification is known.
    """
    return apparent_values(d, component.features)


def one_key(key: PairKey, second: str | int | None) -> Any:
    """Return the key of a pair that is given as one name, as two names, or as a tuple of them."""
    return key if second is None else (key, second)


def main_effect_of(d: Decomposition, feature: int, axis: FeatureAxis, output: int) -> Array:
    """Return the main effect on each cell of an axis of categories; NaN where it is not known."""
    main = d.components.get((feature,))
    table = None if main is None else tabulate(main, d.inputs)
    if table is None:
        return np.full(axis.n_cells, np.nan)
    known = dict(zip(table.axes[0].labels(), table.values[:, output], strict=True))
    return np.array([known.get(label, np.nan) for label in axis.labels()])


def main_effect_along(
    d: Decomposition, feature: int, axis: FeatureAxis, *, is_smooth: bool
) -> Array:
    """Return the main effect on the cells of an axis of a pair, shape (n_cells, n_outputs)."""
    main = d.components.get((feature,))
    if main is None:
        return np.zeros((axis.n_cells, d.n_outputs))
    if not isinstance(main, TensorComponent) or is_smooth:
        return np.asarray(values_on_cells(main, d.inputs, (axis,)))
    return means_along(main, main.values, axis)


def means_along(main: TensorComponent, values: Array, axis: FeatureAxis) -> Array:
    """Return means over the cells of an axis of a pair, whose cells may be the larger ones."""
    inside = main.axes[0].cells_in(axis)
    # A cell without data still has an effect, which counts where it is alone.
    weight = np.maximum(main.mass, _LEAST_WEIGHT)
    held = np.bincount(inside, weight, minlength=axis.n_cells)
    sums = np.zeros((axis.n_cells, values.shape[1]))
    np.add.at(sums, inside, weight[:, None] * values)
    return sums / np.where(held > 0, held, 1.0)[:, None]
