"""Write the files of a purification."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.decomposition import Decomposition
from treepurify.export.tables import write_table
from treepurify.plots.axis_layout import Scale
from treepurify.report.html import write_html

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MOST_EFFECT_ROWS", "summary_as_json", "write_results"]

MOST_EFFECT_ROWS = {"csv": 50_000}
"""Rows of the table of effects by its format: 5 MB of text, which people open; others have all."""


def write_results(
    d: Decomposition,
    folder: Path,
    *,
    command: str,
    top: int,
    sources: Sequence[Path] = (),
    effects_format: str = "csv",
    progress: bool = False,
    scale: Mapping[str, Scale] | None = None,
) -> tuple[list[Path], list[str]]:
    """Write the decomposition, its cells as a table, and the report.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    folder : Path
        Where to write.
    command : str
        The command as it was typed.
    top : int
        Number of main effects, and of pairs, drawn in the report.
    sources : sequence of Path
        The files that it was made from; folders and patterns are left out.
    effects_format : str
        Format of the cells.
    progress : bool
        Whether to report progress while the report is drawn.
    scale : mapping of str to str, optional
        How wide the cells of a feature are drawn in the report.

    Returns
    -------
    files : list of Path
        What was written: the report, the decomposition, and the cells where effects have any.
    left_out : list of str
        Effects left out so that the file does not become too large.
    """
    folder.mkdir(parents=True, exist_ok=True)
    decomposition, effects = folder / "decomposition.tpz", folder / f"effects.{effects_format}"
    d.save(decomposition)
    left_out: list[str] = []
    tables = d.tensor_components()
    # A constant model has an empty table.
    has_table = bool(tables) or not d.components
    if has_table:
        table = d.to_frame()
        if effects_format in MOST_EFFECT_ROWS and tables:
            table, left_out = _without_small(d, table, MOST_EFFECT_ROWS[effects_format])
        write_table(table, effects, effects_format)
    files = [path for path in sources if path.is_file()]
    report = write_html(
        d,
        folder / "report.html",
        top=top,
        command=command,
        files=files,
        scale=scale or {},
        progress=progress,
    )
    return [report, decomposition, *[effects] * has_table], left_out


def _without_small(
    d: Decomposition, table: "pd.DataFrame", most_rows: int
) -> tuple["pd.DataFrame", list[str]]:
    """Return the rows of the leading effects, and the names of those that do not fit."""
    tables = d.tensor_components()
    names = [d.term_name(subset) for subset in d.ranking.order if subset in tables]
    rows = table["term"].value_counts()[names].cumsum()
    left_out = rows.index[rows > most_rows].tolist()
    return table[~table["term"].isin(left_out)], left_out


def summary_as_json(d: Decomposition, files: list[Path]) -> str:
    """Return importance, certificate and file names as JSON; NaN becomes null."""
    summary = {
        "measure": d.measure,
        "intercept": dict(zip(d.output_names, d.intercept.tolist(), strict=True)),
        "importance": [_without_nan(row) for row in d.importance().to_dict("records")],
        "certificate": None if d.certificate is None else asdict(d.certificate),
        "files": [str(file) for file in files],
    }
    return json.dumps(summary, indent=2, allow_nan=False, default=_plain)


def _without_nan(row: dict[Any, Any]) -> dict[Any, Any]:
    return {
        name: None if isinstance(value, float) and np.isnan(value) else value
        for name, value in row.items()
    }


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
