"""A decomposition as a spreadsheet with one sheet for each table."""

import re
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from math import isfinite, isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treepurify.arguments import check_result, read_path
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError, MissingDependencyError
from treepurify.export.flat_table import component_table, most_important_first
from treepurify.export.origin import origin
from treepurify.storage import write_atomically

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["sheet_names", "to_excel", "workbook"]

# Excel's own limit, less the header.
_MOST_ROWS = 1_048_575
# A workbook is XML, which has no form for most control characters and for halves of pairs.
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# What the name of a sheet cannot hold, and how long it can be.
_NOT_IN_NAMES = re.compile(r"[\[\]:*?/\\\t\n\r]")
_LONGEST_NAME = 31
# openpyxl takes labels such as ``=1`` for formulas, and ``#N/A`` for errors.
_NOT_TAKEN_FOR_TEXT = ("=", "#")


def to_excel(d: Decomposition, path: str | Path) -> list[str]:
    """Write a decomposition as an Excel workbook.

    The sheets are ``importance``, one sheet for each effect (one row per cell and output, on the
    margin scale), the most important first, and ``facts`` (distribution, intercept, certificate).
    The name of a sheet is that of the effect, shortened to the number of characters that Excel
    allows; ``importance`` lists the sheet of each effect. Characters that a workbook cannot
    contain, such as control characters in names, are replaced by U+FFFD. Sheets are created and
    written one at a time.

    Parameters
    ----------
    d : Decomposition
        A decomposition whose effects are tables of cells.
    path : str or Path
        The file to write, ending in ``.xlsx``; an existing one is replaced.

    Returns
    -------
    list of str
        Names of effects that are left out because their sheet would be too long.

    Raises
    ------
    InvalidInputError
        If the name does not end in ``.xlsx`` or is that of a folder, the folder of the file does
        not exist, or no effect is a table of cells.
    MissingDependencyError
        If openpyxl is not installed.

    See Also
    --------
    treepurify.export.effects_frame : All effects as one table.
    treepurify.export.to_json : The effects as JSON.

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
    ([], ['importance', 'x0', 'x1', 'x0 & x1', 'facts'])
    """
    import pandas as pd

    check_result("d", d, Decomposition)
    path = read_path("path", path)
    if path.suffix.lower() != ".xlsx":
        raise InvalidInputError(f"expected a file name ending in .xlsx, got {str(path)!r}")
    tensors = d.tensor_components()
    order = most_important_first(d)
    kept = [s for s in order if tensors[s].n_cells * d.n_outputs <= _MOST_ROWS]
    names = sheet_names([d.term_name(s) for s in kept], taken=("importance", "facts"))
    sheet_of = dict(zip(map(d.term_name, kept), names, strict=True))
    importance = d.importance()
    importance["sheet"] = [sheet_of.get(term, "") for term in importance["term"]]

    def sheets() -> Iterator[tuple[str, "pd.DataFrame"]]:
        yield "importance", importance
        for subset, name in zip(kept, names, strict=True):
            yield name, component_table(d, subset, tensors[subset].stored())
        yield "facts", pd.DataFrame(_facts(d), columns=["fact", "value"])

    write_atomically(path, workbook(sheets()))
    return [d.term_name(s) for s in order if s not in kept]


def _facts(d: Decomposition) -> list[tuple[str, str]]:
    facts = [("distribution", d.measure), ("engine", d.engine), ("link", d.link.name), *origin(d)]
    facts += [
        (f"intercept {name}", f"{value:.17g}")
        for name, value in zip(d.output_names, d.intercept, strict=True)
    ]
    if d.certificate is not None:
        facts += [("certificate", sentence) for sentence in d.certificate.details()]
    return facts


def sheet_names(titles: Sequence[str], *, taken: Iterable[str] = ()) -> list[str]:
    """Return a name for each sheet: the title, as far as Excel allows, and each name once.

    Parameters
    ----------
    titles : sequence of str
        What the sheets are about.
    taken : iterable of str
        Names of other sheets.

    Returns
    -------
    list of str

    Examples
    --------
    >>> sheet_names(["age", "Age", "a/b", "x" * 40])
    ['age', 'Age (2)', 'a_b', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx']
    """
    # Excel takes names that differ in case only for the same, and keeps one for itself.
    known = {name.lower() for name in taken} | {"history"}
    names = []
    for title in titles:
        plain = _ILLEGAL.sub("\ufffd", title)
        start = _NOT_IN_NAMES.sub("_", plain).strip("'") or "_"
        name, number = start[:_LONGEST_NAME], 1
        while name.lower() in known:
            number += 1
            ending = f" ({number})"
            name = start[: _LONGEST_NAME - len(ending)] + ending
        known.add(name.lower())
        names.append(name)
    return names


def workbook(sheets: "Iterable[tuple[str, pd.DataFrame]]") -> bytes:
    """Return a workbook, whose sheets are requested one after the other."""
    try:
        from openpyxl import Workbook
    except ImportError as error:
        raise MissingDependencyError(
            'writing Excel files needs openpyxl: pip install "treepurify[excel]"'
        ) from error
    # Rows are written as they come: a workbook in memory takes a kilobyte per cell, and minutes.
    book = Workbook(write_only=True)
    for name, table in sheets:
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
