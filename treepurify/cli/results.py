"""Write the files of a purification."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from treepurify.decomposition import Decomposition
from treepurify.export.excel import to_excel
from treepurify.export.flat_table import effects_frame
from treepurify.export.tables import write_table
from treepurify.plots.axis_layout import Scale
from treepurify.report.html import write_html

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
        Format of the cells; a workbook has one sheet for each effect.
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
    # A constant model has no sheets, only an empty table.
    has_table = bool(tables) or not d.components
    if effects_format == "xlsx" and tables:
        left_out = to_excel(d, effects)
    elif has_table:
        table, left_out = effects_frame(d, most_rows=MOST_EFFECT_ROWS.get(effects_format))
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
