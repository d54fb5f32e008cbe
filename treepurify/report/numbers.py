"""The numbers of a report in files of their own: JSON for programs, CSV for spreadsheets."""

import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.arguments import check_result, read_path
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.plots.labels import with_class_names
from treepurify.report.numbered import NumberedSection, records
from treepurify.report.page_tables import (
    Merging,
    PageTable,
    displayed,
    main_tables,
    plan_pairs,
)
from treepurify.report.payload import MOST_MAIN_BYTES, MOST_TABLE_BYTES, N_VERSIONS
from treepurify.report.result_sections import result_sections
from treepurify.report.sentences import model_statements
from treepurify.storage import write_atomically

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["number_paths", "write_number_files", "write_numbers"]

# What a spreadsheet opens without complaint; rows of effects that do not fit are left out whole.
_MOST_CELL_ROWS = 200_000


def write_numbers(d: Decomposition, page: str | Path, *, results: Any = ()) -> list[Path]:
    """Write the numbers of a report to files next to it, under its name.

    For ``report.html``, all numbers are in ``report.json``. The tables of effects and of cells are
    also in ``report_effects.csv`` and ``report_cells.csv``, for spreadsheets. Large tables of
    effects have merged cells, as on the page. Effects are on the margin scale.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    page : str or Path
        The file of the report, which is neither read nor written; it determines the names of the
        other files.
    results : sequence of object
        The results that the report shows, as in `write_html`; all their numbers are in the JSON
        file.

    Returns
    -------
    list of Path
        The paths of the files; existing files are replaced.

    Raises
    ------
    InvalidInputError
        If the folder does not exist, or one of `results` has the wrong type.

    See Also
    --------
    treepurify.report.write_html : A report on one page.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> with TemporaryDirectory() as folder:
    ...     [path.name for path in tp.report.write_numbers(d, Path(folder) / "and.html")]
    ['and.json', 'and_effects.csv', 'and_cells.csv']
    """
    check_result("d", d, Decomposition)
    page = read_path("page", page)
    if not page.name:
        raise InvalidInputError(f"page must be the name of a file, got {str(page)!r}")
    return write_number_files(d, page, result_sections(results, d))


def write_number_files(
    d: Decomposition, page: Path, sections: Sequence[NumberedSection]
) -> list[Path]:
    """Write the same files with the numbers of some sections in the JSON file."""
    d = with_class_names(d)
    shown = displayed(d)
    merging, plans = Merging(shown), plan_pairs(shown, N_VERSIONS, MOST_TABLE_BYTES)
    tables = [
        *main_tables(shown, N_VERSIONS, MOST_MAIN_BYTES).values(),
        *(merging.page_table(plan).in_full() for plan in plans.values()),
    ]
    effects, (cells, left_out) = d.importance(), _cells(d, tables)
    document = {
        "measure": d.measure,
        "outputs": list(d.output_names),
        "intercept": d.intercept.tolist(),
        "sentences": [statement.text for statement in model_statements(d)],
        "effects": records(effects),
        "cells": records(cells),
        "effects_without_cells": left_out,
        "sections": {one.identifier: one.document() for one in sections},
    }
    texts = (
        json.dumps(document, allow_nan=False, ensure_ascii=False),
        _as_csv(effects),
        _as_csv(cells),
    )
    paths = number_paths(page)
    for path, text in zip(paths, texts, strict=True):
        write_atomically(path, text.encode("utf-8"))
    return paths


def number_paths(page: Path) -> list[Path]:
    """Return the files of the numbers of a report: JSON, and CSV of effects and of cells."""
    tables = [page.with_name(f"{page.stem}_{which}.csv") for which in ("effects", "cells")]
    return [page.with_suffix(".json"), *tables]


def _cells(d: Decomposition, tables: Sequence[PageTable]) -> tuple["pd.DataFrame", list[str]]:
    """Return a row for each cell and output, and the names of the effects without rows."""
    import pandas as pd

    parts, n_rows, written = [], 0, set()
    for table in tables:
        size = table.mass.size * d.n_outputs
        if n_rows + size > _MOST_CELL_ROWS:
            continue
        n_rows += size
        written.add(table.component.features)
        parts.append(_cells_of(d, table))
    left_out = [d.term_name(subset) for subset in d.components if subset not in written]
    columns = ["effect", "output", "feature_1", "cell_1", "feature_2", "cell_2", "mass", "value"]
    frame = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)
    return frame[columns], left_out


def _cells_of(d: Decomposition, table: PageTable) -> "pd.DataFrame":
    import pandas as pd

    values = table.shown(table.component.values)
    labels = [axis.labels() for axis in table.axes]
    combined = list(product(*labels, d.output_names))
    names = [axis.name for axis in table.axes]
    has_two = len(names) > 1
    return pd.DataFrame(
        {
            "effect": d.term_name(table.component.features),
            "output": [cell[-1] for cell in combined],
            "feature_1": names[0],
            "cell_1": [cell[0] for cell in combined],
            "feature_2": names[1] if has_two else "",
            "cell_2": [cell[1] for cell in combined] if has_two else "",
            "mass": np.repeat(table.mass.ravel(), d.n_outputs),
            "value": values.ravel(),
        }
    )


def _as_csv(frame: "pd.DataFrame") -> str:
    # By the mark at the start Excel knows that names are in UTF-8.
    return "\ufeff" + frame.to_csv(index=False)
