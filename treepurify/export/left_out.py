"""What an export cannot hold: a remainder, effects without a table, links of other kinds."""

import warnings
from typing import Literal

import numpy as np

from treepurify.arguments import check_choice
from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError, RemainderWarning, UnsupportedModelError
from treepurify.links import Link
from treepurify.remainder import Remainder, SumOfParts
from treepurify.typing import Array

# The sums of a purification are right to less, relative to the margins.
_ROUNDING = 1e-12
OnRemainder = Literal["refuse", "drop"]

Scale = Literal["margin", "response"]

_WRITTEN = ("identity", "logit", "log", "softmax")
# The units of a margin, by the name of its link.
_UNITS = {"identity": "", "logit": " in log-odds", "log": " on the log scale"}


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
    if d.remainder is None or _is_rounding(d, d.remainder):
        return ""
    loss = _remainder_loss(d)
    if remainder == "refuse":
        advice = ""
        if d.origin.model is not None:
            advice = ", or train with max_depth=2 or with interaction constraints"
            if d.origin.model.library == "interpret":
                advice = ", or purify with a larger order"
        raise UnsupportedModelError(
            f"{where} cannot contain the remainder (what the effects do not explain); without it, "
            f'{loss}. Pass remainder="drop" to leave it out{advice}'
        )
    warnings.warn(f"{where} leaves out the remainder: {loss}", RemainderWarning, stacklevel=3)
    return loss


def _is_rounding(d: Decomposition, remainder: Remainder) -> bool:
    """Return whether a remainder is nothing but rounding, wherever it is evaluated."""
    if not isinstance(remainder, SumOfParts):
        # What rows say of it is not what it is elsewhere.
        return False
    scale = d.certificate.scale if d.certificate is not None else 0.0
    return all(
        np.max(np.abs(part.values), initial=0.0) <= _ROUNDING * scale for part in remainder.parts
    )


def check_tables(d: Decomposition, where: str) -> None:
    """Raise `InvalidInputError` unless every component is a table of cells."""
    for subset, component in d.components.items():
        if not isinstance(component, TensorComponent):
            raise InvalidInputError(
                f"{where} can contain only effects that are tables; {d.term_name(subset)!r} is not "
                "one"
            )


def _remainder_loss(d: Decomposition) -> str:
    """Return how large the remainder is under the measure, in words."""
    rest = [] if d.remainder is None else np.sqrt(d.remainder.variance).tolist()
    model = np.sqrt(_model_variance(d)).tolist()
    is_plain = d.link.scale == 1.0 and d.link.before is None
    on_margins = _UNITS.get(d.link.name if is_plain else "", " on the margin scale")
    parts = []
    for name, lost, whole in zip(d.output_names, rest, model, strict=True):
        of_output = f" of output {name!r}" if d.n_outputs > 1 else ""
        if np.isnan(lost):
            parts.append(f"how much predictions{of_output} change is not known")
            continue
        is_known = np.isfinite(whole) and whole > 0
        share = f"; {lost / whole:.1%} of their standard deviation" if is_known else ""
        parts.append(
            f"predictions{of_output} change by {lost:.4g}{on_margins} (root mean square, "
            f"distribution {d.measure!r}{share})"
        )
    return "; ".join(parts)


def _model_variance(d: Decomposition) -> Array:
    covariances = d.covariances
    if covariances is None or set(covariances) != {*d.components, ()}:
        return np.full(d.n_outputs, np.nan)
    return np.asarray(np.maximum(np.sum([*covariances.values()], axis=0), 0.0))


def check_link(link: Link, n_outputs: int) -> None:
    """Raise `UnsupportedModelError` unless the inverse of a link can be written down."""
    is_plain = link.before is None and (link.scale == 1.0 or link.name == "logit")
    if link.name not in _WRITTEN or not is_plain or (link.name == "softmax" and n_outputs < 2):
        raise UnsupportedModelError(
            f"the response of the link {link.name!r} cannot be exported: export the margin "
            '(scale="margin") and apply d.link.inverse to it'
        )
