"""A table as a file: CSV, Parquet or JSON."""

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from treepurify.errors import MissingDependencyError
from treepurify.storage import write_atomically

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["KINDS", "table_bytes", "write_table"]

# The kinds of files, which are also the endings of their names.
KINDS = ("csv", "parquet", "json")


def write_table(frame: "pd.DataFrame", path: Path, kind: str) -> None:
    """Write a table to a file of a kind, whole or not at all."""
    write_atomically(path, table_bytes(frame, kind))


def table_bytes(frame: "pd.DataFrame", kind: str) -> bytes:
    """Return a table as the bytes of a file.

    Parameters
    ----------
    frame : DataFrame
        The table; its index is left out.
    kind : {"csv", "parquet", "json"}
        The kind of file. JSON is a list of objects, one per row, with null for NaN.

    Raises
    ------
    MissingDependencyError
        If pyarrow is needed and not installed.

    Examples
    --------
    >>> import pandas as pd
    >>> table_bytes(pd.DataFrame({"term": ["age"], "worth": [0.1]}), "json")
    b'[{"term":"age","worth":0.1}]'
    """
    if kind == "csv":
        return frame.to_csv(index=False).encode("utf-8")
    if kind == "json":
        return frame.to_json(orient="records", double_precision=15).encode("utf-8")
    buffer = BytesIO()
    try:
        frame.to_parquet(buffer, index=False)
    except ImportError as error:
        raise MissingDependencyError(
            'writing Parquet files needs pyarrow: pip install "treepurify[parquet]"'
        ) from error
    return buffer.getvalue()
