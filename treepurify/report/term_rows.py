"""The table of effects: what each one carries, and how its size changed by purification."""

from dataclasses import dataclass

import numpy as np

from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.grids.grid import Subset
from treepurify.plots.terms import raw_effect

__all__ = ["TermRow", "term_rows"]


@dataclass(frozen=True)
class TermRow:
    """One effect on one output.

    Parameters
    ----------
    subset : tuple of int, optional
        The features; None for the remainder.
    name : str
        Name of the effect.
    output : int
        Position of the output.
    order : int
        Number of features.
    share : float
        Share of the sum of the components' variances.
    covariance_share : float
        ``Cov(f_S, f) / Var f``; NaN where the measure does not give it.
    deviation : float
        Standard deviation under the measure, on the margin scale.
    deviation_before : float
        The same before purification; NaN where it is not known.
    """

    subset: Subset | None
    name: str
    output: int
    order: int
    share: float
    covariance_share: float
    deviation: float
    deviation_before: float


def term_rows(d: Decomposition) -> list[TermRow]:
    """Return one row an effect and output, the largest variance first."""
    subsets = {d.term_name(subset): subset for subset in d.components}
    before = {subset: _deviations_before(d, subset) for subset in d.components}
    rows = []
    for record in d.importance().to_dict("records"):
        output = d.output_names.index(record["output"]) if d.n_outputs > 1 else 0
        subset = subsets.get(record["term"])
        rows.append(
            TermRow(
                subset=subset,
                name=str(record["term"]),
                output=output,
                order=int(record["order"]),
                share=float(record["variance_share"]),
                covariance_share=float(record["covariance_share"]),
                deviation=float(np.sqrt(record["variance"])),
                deviation_before=np.nan if subset is None else float(before[subset][output]),
            )
        )
    return rows


def _deviations_before(
    d: Decomposition, subset: Subset
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    component = d.components[subset]
    raw = raw_effect(d, component) if isinstance(component, TensorComponent) else None
    if raw is None or not isinstance(component, TensorComponent):
        return np.full(d.n_outputs, np.nan)
    return np.sqrt(np.tensordot(component.mass, raw**2, axes=component.mass.ndim))
