"""A decomposition as a spreadsheet with one sheet for each kind of fact."""

import re
from io import BytesIO
from math import isfinite, isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treepurify.arguments import check_result, read_path
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError, MissingDependencyError
from treepurify.export.flat_table import effects_frame
from treepurify.storage import write_atomically

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["to_excel"]

# Excel's own limit, less the header.
_MOST_ROWS = 1_048_575
# A workbook is XML, which has no form for most control characters and for halves of pairs.
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# openpyxl takes labels such as ``=1`` for formulas, and ``#N/A`` for errors.
_NOT_TAKEN_FOR_TEXT = ("=", "#")


def to_excel(d: Decomposition, path: str | Path) -> list[str]:
    """Write a decomposition as an Excel workbook.

    Sheets: ``importance``, ``effects`` (one row per cell and output, the most important
    component first) and ``facts`` (measure, intercept, certificate). Characters that a workbook
    cannot hold, such as control characters in names, are replaced by U+FFFD.

    Parameters
    ----------
    d : Decomposition
        A decomposition whose components are tables of cells.
    path : str or Path
        The file to write, ending in ``.xlsx``; an existing one is replaced.

    Returns
    -------
    list of str
        Components that are left out because the sheet would become too long.

    Raises
    ------
    InvalidInputError
        If the name does not end in ``.xlsx`` or is that of a folder, its own folder does not
        exist, or no component is a table of cells.
    MissingDependencyError
        If openpyxl is not installed.

    Examples
    --------
    >>> import numpy as np, pandas as pd, tempfile, pathlib, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from treepurify.export import to_excel
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     left_out = to_excel(d, pathlib.Path(folder) / "effects.xlsx")
    ...     sheets = pd.read_excel(pathlib.Path(folder) / "effects.xlsx", sheet_name=None)
    >>> left_out, list(sheets)
    ([], ['importance', 'effects', 'facts'])
    """
    import pandas as pd

    check_result("d", d, Decomposition)
    path = read_path("path", path)
    if path.suffix.lower() != ".xlsx":
        raise InvalidInputError(f"expected a file name ending in .xlsx, got {str(path)!r}")
    effects, left_out = effects_frame(d, most_rows=_MOST_ROWS)
    facts = [("measure", d.measure), ("engine", d.engine), ("link", d.link.name)]
    facts += [
        (f"intercept {name}", f"{value:.17g}")
        for name, value in zip(d.output_names, d.intercept, strict=True)
    ]
    if d.certificate is not None:
        facts += [("certificate", sentence) for sentence in d.certificate.sentences()]
    sheets = {
        "importance": d.importance(),
        "effects": effects,
        "facts": pd.DataFrame(facts, columns=["fact", "value"]),
    }
    write_atomically(path, _workbook(sheets))
    return left_out


def _workbook(sheets: "dict[str, pd.DataFrame]") -> bytes:
    try:
        from openpyxl import Workbook
    except ImportError as error:
        raise MissingDependencyError(
            'writing Excel files needs openpyxl: pip install "treepurify[excel]"'
        ) from error
    # Rows are written as they come: a workbook in memory takes a kilobyte per cell, and minutes.
    book = Workbook(write_only=True)
    for name, table in sheets.items():
        _write_sheet(book.create_sheet(name), table)
    buffer = BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def _write_sheet(sheet: Any, table: "pd.DataFrame") -> None:
    from openpyxl.styles import Font

    headings = [_text_cell(sheet, _legal(str(name))) for name in table.columns]
    for cell in headings:
        cell.font = Font(bold=True)
    sheet.append(headings)
    # Whole columns become Python's own numbers, which openpyxl need not convert.
    for row in zip(*(table[name].tolist() for name in table.columns), strict=True):
        sheet.append([_written(sheet, value) for value in row])


def _written(sheet: Any, value: Any) -> Any:
    if isinstance(value, str):
        legal = _legal(value)
        return _text_cell(sheet, legal) if legal.startswith(_NOT_TAKEN_FOR_TEXT) else legal
    if not isinstance(value, float) or isfinite(value):
        return value
    return None if isnan(value) else "inf" if value > 0 else "-inf"


def _legal(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", text)


def _text_cell(sheet: Any, text: str) -> Any:
    """Return a new cell of text; openpyxl writes the next values of a row into the last cell."""
    from openpyxl.cell import WriteOnlyCell

    cell = WriteOnlyCell(sheet, text)
    cell.data_type = "s"
    return cell
