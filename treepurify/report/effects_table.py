"""The table of effects: what each one carries, and how its size changed by purification."""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

import numpy as np

from treepurify.collinear import CollinearEffects
from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.grids.grid import Subset, mean_over_cells
from treepurify.plots.labels import with_minus
from treepurify.plots.terms import raw_effect
from treepurify.report.parts import plain_table
from treepurify.terms import in_digits

__all__ = [
    "TermRow",
    "effects_table",
    "known_shares",
    "share_cell",
    "share_of",
    "table_notes",
    "term_rows",
]


# What stands before the name of an effect whose group has the row above.
_INDENT = "\N{EM SPACE}"


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
    group : str
        The name of the group of effects that cancel with it; empty where there is none.
    """

    subset: Subset | None
    name: str
    output: int
    order: int
    share: float
    covariance_share: float
    deviation: float
    deviation_before: float
    group: str = ""


def known_shares(d: Decomposition) -> dict[Subset, float]:
    """Return the share of each effect, and of the remainder under ``()``, by which effects rank.

    Of the sum of the variances where a share is not known, and zero where that is not known either.
    """
    shares = dict(d.ranking.shares)
    if not np.isnan([*shares.values()]).any():
        return shares
    sizes = {subset: float(np.sum(part.variance)) for subset, part in d.components.items()}
    if d.remainder is not None and not np.any(np.isnan(d.remainder.variance)):
        sizes[()] = float(np.sum(d.remainder.variance))
    total = sum(sizes.values())
    return {subset: size / total if total > 0 else 0.0 for subset, size in sizes.items()}


def term_rows(d: Decomposition) -> list[TermRow]:
    """Return one row per effect and output, the most important first."""
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
                group=str(record["group"]),
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
    return np.sqrt(mean_over_cells(component.mass, raw**2))


def effects_table(d: Decomposition, rows: list[TermRow]) -> str:
    """Return rows as a table that scrolls sideways where it does not fit."""
    has_covariance, has_before = _columns(rows)
    within = "" if d.n_outputs == 1 else ", within its output"
    names = ["Effect", *(["Output"] * (d.n_outputs > 1)), "Features"]
    names += [f"Share by covariance{within}"] * has_covariance
    names += [f"Share of the sum of variances{within}"]
    names += ["Standard deviation"] + ["Before purification"] * has_before
    return plain_table("Table of effects", names, _cells(d, rows), is_html=True)


def _cells(d: Decomposition, rows: list[TermRow]) -> Iterator[list[str]]:
    has_covariance, has_before = _columns(rows)
    above = d.ranking.groups_above(row.subset or () for row in rows)
    for row, group in zip(rows, above, strict=True):
        if group is not None:
            yield _joint_cells(d, group, has_before=has_before)
        cells = [_INDENT * bool(row.group) + row.name]
        cells += [f"<td>{escape(d.output_names[row.output])}</td>"] * (d.n_outputs > 1)
        cells += [f"<td>{row.order}</td>", share_cell(share_of(row))]
        cells += [f"<td>{_percent(row.share)}</td>"] * has_covariance
        cells += [f"<td>{_number(row.deviation)}</td>"]
        cells += [f"<td>{_number(row.deviation_before)}</td>"] * has_before
        yield cells


def _joint_cells(d: Decomposition, group: CollinearEffects, *, has_before: bool) -> list[str]:
    """Return the row of effects that cancel, above theirs; outputs are added up."""
    cells = [group.joint_name, *["<td>all</td>"] * (d.n_outputs > 1), "<td></td>"]
    cells += [share_cell(d.ranking.share(group)), "<td></td>"]
    return [*cells, f"<td>{_number(np.sqrt(group.variance))}</td>", *["<td></td>"] * has_before]


def share_of(row: TermRow) -> float:
    """Return the share by which effects rank: by covariance where it is known."""
    return row.share if np.isnan(row.covariance_share) else row.covariance_share


def share_cell(share: float) -> str:
    """Return a cell with a share, and a bar of its size to the right of it."""
    width = 100 * min(abs(float(np.nan_to_num(share))), 1.0)
    bar = f'<span class="bar" aria-hidden="true"><i style="width: {width:.2f}%"></i></span>'
    return f'<td class="share">{_percent(share)}{bar}</td>'


def table_notes(d: Decomposition, rows: list[TermRow]) -> str:
    """Return what the columns mean."""
    has_covariance, has_before = _columns(rows)
    notes = "Shares of variance are shares of the summed variance of all effects"
    notes += "." if d.n_outputs == 1 else " on the same output."
    if d.remainder is not None:
        notes += " The remainder counts as an effect."
    if has_covariance:
        notes += (
            " Shares by covariance, Cov(effect, model) / Var(model), add up to 100% even if "
            "features are correlated; they can be negative."
        )
    if any(row.group for row in rows):
        notes += (
            " Effects that largely cancel are ranked by the share of their sum, in the row above "
            "them."
        )
    if has_before:
        notes += (
            " Before purification: the standard deviation of the effect as the model stores it, 0 "
            "if the model stores no such effect."
        )
    return notes


def _columns(rows: list[TermRow]) -> tuple[bool, bool]:
    """Return whether covariance shares, and whether effects before purification, are known."""
    return (
        not all(np.isnan(row.covariance_share) for row in rows),
        not all(np.isnan(row.deviation_before) for row in rows),
    )


def _percent(share: float) -> str:
    # Adding zero takes the sign off what is rounded to zero.
    return "" if np.isnan(share) else with_minus(f"{share:z.2%}")


def _number(value: float) -> str:
    return "" if np.isnan(value) else with_minus(in_digits(value))
