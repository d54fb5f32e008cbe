"""What an export cannot hold: the remainder, which is no table, and what is too large for it."""

import warnings
from typing import Literal

import numpy as np

from treepurify.arguments import check_choice
from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError, RemainderWarning, UnsupportedModelError
from treepurify.typing import Array

__all__ = ["OnRemainder", "check_small_tables", "leave_out_remainder", "remainder_loss"]

OnRemainder = Literal["refuse", "drop"]


def leave_out_remainder(d: Decomposition, remainder: OnRemainder, where: str) -> str:
    """Refuse a decomposition with a remainder, or warn of what is lost without it.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    remainder : {"refuse", "drop"}
        What the caller wants.
    where : str
        What is written, such as ``"an EBM"``.

    Returns
    -------
    str
        What is lost, in a sentence; empty where nothing is.

    Raises
    ------
    UnsupportedModelError
        If there is a remainder and it is not to be dropped.
    """
    check_choice("remainder", remainder, ("refuse", "drop"))
    if d.remainder is None:
        return ""
    loss = remainder_loss(d)
    if remainder == "refuse":
        raise UnsupportedModelError(
            f"{where} holds an intercept and tables; this decomposition has a remainder of higher "
            f"order, without which it is another model: {loss}. Leave the remainder out by "
            'remainder="drop", or train with max_depth=2 or with interaction constraints'
        )
    warnings.warn(
        f"{where} leaves out the remainder, as was asked: {loss}", RemainderWarning, stacklevel=3
    )
    return loss


def check_small_tables(d: Decomposition, where: str) -> None:
    """Raise `InvalidInputError` unless every component is a table of one or two features."""
    for subset, component in d.components.items():
        if len(subset) > 2 or not isinstance(component, TensorComponent):
            what = f"{len(subset)} features" if len(subset) > 2 else "no cells"
            raise InvalidInputError(
                f"{where} holds tables of one or two features; {d.term_name(subset)!r} has {what}"
            )


def remainder_loss(d: Decomposition) -> str:
    """Return how large the remainder is under the measure, in words."""
    rest = [] if d.remainder is None else np.sqrt(d.remainder.variance).tolist()
    model = np.sqrt(_model_variance(d)).tolist()
    parts = []
    for name, lost, whole in zip(d.output_names, rest, model, strict=True):
        of_output = f" of output {name!r}" if d.n_outputs > 1 else ""
        if np.isnan(lost):
            parts.append(f"by how much margins{of_output} are off is not known")
            continue
        beside = "" if np.isnan(whole) else f", where the model's own deviation is {whole:.4g}"
        parts.append(
            f"margins{of_output} are off by {lost:.4g} (root mean square under the measure "
            f"{d.measure!r}){beside}"
        )
    return "; ".join(parts)


def _model_variance(d: Decomposition) -> Array:
    covariances = d.covariances
    if covariances is None or set(covariances) != {*d.components, ()}:
        return np.full(d.n_outputs, np.nan)
    return np.asarray(np.maximum(np.sum([*covariances.values()], axis=0), 0.0))
