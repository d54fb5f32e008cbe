"""A decomposition as a spreadsheet with one sheet for each kind of fact."""

import re
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError, MissingDependencyError
from treepurify.export.frame import effects_frame
from treepurify.storage import write_atomically

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["to_excel"]

# Excel's own limit, less the header.
_MOST_ROWS = 1_048_575
# A workbook is XML, which has no form for most control characters and for halves of pairs.
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_excel(d: Decomposition, path: str | Path) -> list[str]:
    """Write a decomposition as an Excel workbook.

    Sheets: ``importance``, ``effects`` (one row a cell and output, the most important
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

    path = Path(path)
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
    import pandas as pd

    buffer = BytesIO()
    try:
        with pd.ExcelWriter(buffer, engine="openpyxl") as writer:
            for name, sheet in sheets.items():
                sheet.map(_legal).to_excel(writer, sheet_name=name, index=False)
                _keep_texts(writer.sheets[name])
    except ImportError as error:
        raise MissingDependencyError(
            'writing Excel files needs openpyxl: pip install "treepurify[excel]"'
        ) from error
    return buffer.getvalue()


def _legal(value: object) -> object:
    return _ILLEGAL.sub("\ufffd", value) if isinstance(value, str) else value


def _keep_texts(sheet: Any) -> None:
    """Undo that openpyxl takes labels such as ``=1`` for formulas, and ``#N/A`` for errors."""
    for row in sheet.iter_rows():
        for cell in row:
            if cell.data_type in ("f", "e"):
                cell.data_type = "s"
