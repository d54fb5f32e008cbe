"""Would narwhals read tables as well as `treepurify.rows` does, and as fast?

Reads columns of numbers and of 50 categories with gaps, from pandas, polars and Arrow: by
`read_columns`, and through narwhals, whose columns give up labels but no codes. Then prints
what narwhals makes of columns that `read_columns` reads. The reasons why it is not used are in
`treepurify/rows/tables.py`. Run: ``python benchmarks/table_reader.py [rows]``.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from treepurify.rows.columns import FeatureSpec
from treepurify.rows.table_reader import read_columns

N_COLUMNS = 20
TOWNS = tuple(f"town {i}" for i in range(50))


def tables(n_rows: int) -> dict[str, dict[str, Any]]:
    """Return the same tables of numbers and of categories, by kind of table."""
    rng = np.random.default_rng(0)
    numbers = pd.DataFrame({f"x{j}": rng.normal(size=n_rows) for j in range(N_COLUMNS)})
    codes = rng.integers(-1, len(TOWNS), size=(N_COLUMNS, n_rows))
    towns = pd.DataFrame(
        {f"x{j}": pd.Categorical.from_codes(codes[j], TOWNS) for j in range(N_COLUMNS)}
    )
    pandas = {"numbers": numbers, "categories": towns}
    arrow = {name: pa.Table.from_pandas(table) for name, table in pandas.items()}
    polars = {name: pl.DataFrame(pl.from_arrow(table)) for name, table in arrow.items()}
    return {"pandas": pandas, "polars": polars, "Arrow": arrow}


def through_narwhals(table: Any, specs: tuple[FeatureSpec, ...]) -> list[Any]:
    """Return the columns, categories looked up by their labels."""
    frame = nw.from_native(table, eager_only=True)
    columns = []
    for spec in specs:
        column = frame[spec.name]
        if spec.categories is not None:
            column = column.cast(nw.String).replace_strict(
                TOWNS, range(len(TOWNS)), default=len(TOWNS), return_dtype=nw.Float64
            )
        columns.append(column.to_numpy())
    return columns


def seconds(read: Callable[[], object]) -> float:
    """Return the shorter of two runs."""
    times = []
    for _ in range(2):
        start = time.perf_counter()
        read()
        times.append(time.perf_counter() - start)
    return min(times)


def print_losses() -> None:
    """Print what narwhals makes of columns that `read_columns` reads."""
    gaps = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), ["b", "a"])
    arrow = nw.from_native(pa.table({"x": gaps}), eager_only=True)
    print(f"Arrow dictionary b, a, missing, as an array:  {arrow['x'].to_numpy().tolist()}")
    levels = pd.DataFrame({"x": pd.Categorical([3, 1], categories=[3, 1, 7])})
    kept = nw.from_native(levels, eager_only=True)["x"].cast(nw.String).to_list()
    print(f"pandas categories 3, 1 of 3, 1, 7, as labels: {kept}")
    try:
        nw.from_native(pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]), eager_only=True)
    except nw.exceptions.DuplicateError as error:
        print(f"two columns of one name:                      {str(error).splitlines()[0]}")


def main() -> None:
    """Print seconds for each kind of table, and what is lost."""
    n_rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    print(f"{n_rows} rows of {N_COLUMNS} columns   read_columns   narwhals {nw.__version__}")
    for kind, pair in tables(n_rows).items():
        for what, table in pair.items():
            labels = TOWNS if what == "categories" else None
            form = ("categorical", labels, len(TOWNS)) if labels else ("numeric",)
            specs = tuple(FeatureSpec(f"x{j}", *form) for j in range(N_COLUMNS))
            ours = seconds(lambda table=table, specs=specs: read_columns(table, specs))
            theirs = seconds(lambda table=table, specs=specs: through_narwhals(table, specs))
            print(f"{kind:<8} {what:<24} {ours:10.3f} s {theirs:12.3f} s")
    print_losses()


if __name__ == "__main__":
    main()
