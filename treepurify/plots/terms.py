"""What the figures ask of a decomposition: a component, an output, the effect before."""

from collections.abc import Mapping
from typing import Any, get_args

from treepurify.arguments import brief, check_choice, check_result, read_output
from treepurify.comparing.apparent import apparent_values
from treepurify.components import TensorComponent, tabulate
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.plots.axis_layout import Scale
from treepurify.typing import Array

__all__ = [
    "Key",
    "check_named_results",
    "check_scale",
    "find_tensor",
    "is_continuous",
    "output_position",
    "raw_effect",
]

Key = str | int | tuple[str | int, ...]


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
