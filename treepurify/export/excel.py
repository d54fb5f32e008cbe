"""A decomposition as a spreadsheet with one sheet for each kind of fact."""

from pathlib import Path

from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError, MissingDependencyError
from treepurify.export.frame import effects_frame

__all__ = ["to_excel"]

# Excel's own limit, less the header.
_MOST_ROWS = 1_048_575


def to_excel(d: Decomposition, path: str | Path) -> list[str]:
    """Write a decomposition as an Excel workbook.

    Sheets: ``importance``, ``effects`` (one row a cell and output, the most important
    component first) and ``facts`` (measure, intercept, certificate).

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
        If the name does not end in ``.xlsx``, or a component is not a table of cells.
    MissingDependencyError
        If openpyxl is not installed.
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
    try:
        with pd.ExcelWriter(path, engine="openpyxl") as writer:
            d.importance().to_excel(writer, sheet_name="importance", index=False)
            effects.to_excel(writer, sheet_name="effects", index=False)
            pd.DataFrame(facts, columns=["fact", "value"]).to_excel(
                writer, sheet_name="facts", index=False
            )
    except ImportError as error:
        raise MissingDependencyError(
            'writing Excel files needs openpyxl: pip install "treepurify[excel]"'
        ) from error
    return left_out
