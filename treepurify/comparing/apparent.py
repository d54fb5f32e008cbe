"""Effects as the model stores them, before purification."""

from dataclasses import replace

import numpy as np

from treepurify.components import Component, TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Subset
from treepurify.origin import Origin
from treepurify.typing import Array

BEFORE_AND_AFTER = ("as trained", "purified")
"""What a model before and after purification is called in a comparison."""
_STORED = "effects as the model stores them, centred "


def as_trained(d: Decomposition) -> Decomposition:
    """Return the effects before purification; see `Decomposition.as_trained`."""
    if d.remainder is not None:
        raise InvalidInputError(
            "as_trained needs the effects that the model stores, which exist only for EBMs and "
            "trees of depth two or less; this decomposition has a remainder of higher order"
        )
    components: dict[Subset, Component] = {}
    for subset, component in d.components.items():
        values = apparent_values(d, subset)
        if values is None or not isinstance(component, TensorComponent):
            raise InvalidInputError(
                f"the effect of {d.term_name(subset)!r} before purification is not known: "
                "as_trained needs an EBM, or trees of depth two or less"
            )
        components[subset] = replace(component, values=values)
    return replace(
        d,
        components=components,
        measure=f"{_STORED}({d.measure})",
        engine="as trained",
        call=None,
        certificate=None,
        origin=Origin(d.origin.model, n_rows=d.origin.n_rows),
        diagnostics={},
        stored_covariances=None,
        stored_collinear=None,
        spread=None,
    )


def own_distribution(d: Decomposition) -> str:
    """Return the measure of a decomposition, before purification that of the purified one."""
    measure = d.measure.removeprefix(f"{_STORED}(")
    return measure if measure == d.measure else measure.removesuffix(")")


def apparent_values(d: Decomposition, subset: Subset) -> Array | None:
    """Return one effect before purification with mean zero, shape (cells..., n_outputs).

    Zero where the model carries no such effect; None where it is not known.
    """
    component = d.components.get(subset)
    if not isinstance(component, TensorComponent):
        return None
    raw = component.centred_raw()
    if raw is not None:
        return raw
    return np.zeros_like(component.values) if d.has_raw_effects else None


def model_variance(d: Decomposition) -> Array:
    """Return the variance of the model under the measure, shape (n_outputs,).

    Where the measure gives no joint distribution of the features, the sum of the variances
    of the components is taken in its place.
    """
    covariances = d.covariances
    parts = [component.variance for component in d.components.values()]
    if d.remainder is not None:
        parts.append(d.remainder.variance)
    if covariances is not None and len(covariances) == len(parts) and parts:
        total = np.sum(list(covariances.values()), axis=0)
    else:
        total = np.nansum(parts, axis=0) if parts else np.zeros(d.n_outputs)
    return np.asarray(np.maximum(total, 0.0))
