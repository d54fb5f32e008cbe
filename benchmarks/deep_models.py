"""How much of a library-default model do main effects and pairs explain?

Trains XGBoost, LightGBM, HistGradientBoosting, CatBoost and random forests with the library's own
defaults (100 trees; CatBoost 100 iterations) on four fifths of three public data sets and purifies
them under those rows, at order 1 and 2. Prints the share of the model's variance explained on
these rows and on the other fifth, the largest cosine between a component and one on
a subset of its features, and seconds.
Run: ``python benchmarks/deep_models.py [--data NAME] [--library NAME] [--write]``;
``--write`` puts the table into ``docs/deep_models.md``.
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import treepurify as tp
from examples.data import DATA_SETS, REPOSITORY, DataSet, DataUnavailableError

COMMAND = "python benchmarks/deep_models.py --write"
NAMES = ("california_housing", "adult", "bike_sharing_hour")
TREES, THREADS, BUDGET, ORDERS = 100, 2, 2 << 30, (1, 2)


@dataclass(frozen=True)
class Outcome:
    """One purified model at one order."""

    data: str
    library: str
    leaves: int
    order: int
    method: str
    fitted: float
    new: float
    cosine: float
    seconds: float


def xgboost_default(data: DataSet) -> tuple[Any, pd.DataFrame]:
    """Depth 6."""
    from xgboost import XGBClassifier, XGBRegressor

    kind = XGBClassifier if data.is_binary else XGBRegressor
    return kind(n_estimators=TREES, enable_categorical=True, n_jobs=THREADS), data.X


def lightgbm_default(data: DataSet) -> tuple[Any, pd.DataFrame]:
    """31 leaves."""
    from lightgbm import LGBMClassifier, LGBMRegressor

    kind = LGBMClassifier if data.is_binary else LGBMRegressor
    return kind(n_estimators=TREES, n_jobs=THREADS, verbose=-1), data.X


def hist_gradient_boosting_default(data: DataSet) -> tuple[Any, pd.DataFrame]:
    """31 leaves."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingClassifier if data.is_binary else HistGradientBoostingRegressor
    return kind(max_iter=TREES, early_stopping=False, random_state=0), data.X


def catboost_default(data: DataSet) -> tuple[Any, pd.DataFrame]:
    """Depth 6; categories one-hot, since statistics of combinations are derived columns."""
    from catboost import CatBoostClassifier, CatBoostRegressor

    labels = [n for n in data.X if isinstance(data.X[n].dtype, pd.CategoricalDtype)]
    text = {n: data.X[n].astype(object).where(data.X[n].notna(), "missing") for n in labels}
    model = (CatBoostClassifier if data.is_binary else CatBoostRegressor)(
        iterations=TREES,
        cat_features=labels,
        one_hot_max_size=255,
        thread_count=THREADS,
        allow_writing_files=False,
        verbose=0,
    )
    return model, data.X.assign(**text)


def forest(data: DataSet, **limits: int) -> tuple[Any, pd.DataFrame]:
    """Return a random forest on category codes."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    kind = RandomForestClassifier if data.is_binary else RandomForestRegressor
    model = kind(TREES, n_jobs=THREADS, random_state=0, **limits)
    codes = {
        n: data.X[n].cat.codes.astype(float)
        for n in data.X
        if isinstance(data.X[n].dtype, pd.CategoricalDtype)
    }
    return model, data.X.assign(**codes)


LIBRARIES: dict[str, Callable[[DataSet], tuple[Any, pd.DataFrame]]] = {
    "XGBoost": xgboost_default,
    "LightGBM": lightgbm_default,
    "HistGradientBoosting": hist_gradient_boosting_default,
    "CatBoost": catboost_default,
    "RandomForest": forest,
    "RandomForest, 64 leaves": lambda data: forest(data, max_leaf_nodes=64),
}


def measure(data: DataSet, library: str) -> list[Outcome]:
    """Train one model and purify it at every order that fits the memory budget."""
    model, X = LIBRARIES[library](data)
    new = np.arange(len(X)) % 5 == 4
    y = np.asarray(data.y)
    rows, others = X[~new].reset_index(drop=True), X[new].reset_index(drop=True)
    model.fit(rows, y[~new])
    parsed = tp.parse_model(model)
    leaves = int(np.sum(parsed.feature < 0))
    found = []
    for order in ORDERS:
        start = time.perf_counter()
        try:
            # Other rows may hold labels that these rows, and the model, do not.
            d = tp.purify(
                model,
                rows,
                weights="empirical",
                order=order,
                missing_cells="always",
                memory_budget=BUDGET,
                progress=False,
            )
        except tp.errors.MemoryBudgetError as reason:
            print(f"{data.name}, {library}, order {order}: {reason}", file=sys.stderr)
            break
        seconds = time.perf_counter() - start
        explained = [float(np.mean(d.r_squared(part))) for part in (rows, others)]
        method = str(d.diagnostics["method"])
        cosine = d.certificate.cosine
        found.append(
            Outcome(data.name, library, leaves, order, method, *explained, cosine, seconds)
        )
    return found


def shares_on_new_rows(outcomes: list[Outcome]) -> str:
    """Return a Markdown table: main effects alone, and with pairs, by model and data set."""
    found = {(o.library, o.data, o.order): o.new for o in outcomes}
    names = list(dict.fromkeys(o.data for o in outcomes))
    titles = [name.replace("_", " ") for name in names]
    lines = ["| model | " + " | ".join(titles) + " |", "|---|" + "---:|" * len(names)]
    for library in dict.fromkeys(o.library for o in outcomes):
        cells = [
            " → ".join(
                f"{found[library, name, order]:.1%}"
                for order in ORDERS
                if (library, name, order) in found
            )
            for name in names
        ]
        lines.append(f"| {library} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def answer(outcomes: list[Outcome]) -> str:
    """Return the sentences with which the page begins."""
    kinds = {
        "boosted trees": lambda o: "Forest" not in o.library,
        "forests of at most 64 leaves a tree": lambda o: "64" in o.library,
        "forests without limits": lambda o: o.library == "RandomForest",
    }
    ranges = []
    for kind, belongs in kinds.items():
        shares = [o.new for o in outcomes if belongs(o) and o.order == max(ORDERS)]
        if shares:
            ranges.append(f"* {kind}: {100 * min(shares):.1f} to {100 * max(shares):.1f}%")
    return (
        "How much of a deep model do main effects and interactions of two features explain? On "
        "new rows,\nthey explain these shares of the variance of its predictions (one split of "
        "each data set):\n\n" + "\n".join(ranges)
    )


def table(outcomes: list[Outcome]) -> str:
    """Return the outcomes as a Markdown table."""
    lines = [
        "| data set | model | leaves | order | route | R², rows used for the effects "
        "| R², new rows | largest cosine | seconds |",
        "|---|---|---:|---:|---|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {o.data} | {o.library} | {o.leaves} | {o.order} | {o.method} | {o.fitted:.4f} "
        f"| {o.new:.4f} | {o.cosine:.0e} | {o.seconds:.1f} |"
        for o in outcomes
    ]
    return "\n".join(lines)


def page(outcomes: list[Outcome]) -> str:
    """Return the page of the documentation."""
    return f"""# Deep models of real data

{answer(outcomes)}

{shares_on_new_rows(outcomes)}

The first number is the share of main effects alone, the second that of main effects and pairs. All
models have {TREES} trees and the defaults of their library, apart from the forests with a limit of
64 leaves. They were trained on four fifths of the rows, over which the effects are averaged as well
(`weights="empirical"`). The last fifth is new.

* **Random forests without limits** have nearly as many leaves as rows, so each tree describes
  single rows. The sum of all trees is fitted on coarse intervals (route `coarse`). The effects
  can explain more of the forest on new rows than on its training rows, where the forest also
  follows their noise.
* **CatBoost** is trained with `one_hot_max_size=255`. By default it replaces larger sets of labels
  by statistics of the target, many of them of combinations, which are [derived
  columns](pipelines.md#steps-that-mix-columns).
* **Forests** read categories as codes.

## All numbers

The script that prints this page needs the data sets:

```console
{COMMAND}
```

{table(outcomes)}

R² is the share of the variance of the raw prediction (log-odds for the classifiers of `adult`) that
the effects explain. The cosine is the largest between an effect and one of fewer of its features:
zero means orthogonal. Seconds are those of one call of `tp.purify` on two cores; the first calls of
a route also load compiled code. [Deep models](deep.md#how-exact-it-is) explains the routes."""


def main() -> None:
    """Print the table; with ``--write``, write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=NAMES, action="append")
    parser.add_argument("--library", choices=LIBRARIES, action="append")
    parser.add_argument("--write", action="store_true", help="write docs/deep_models.md")
    chosen = parser.parse_args()
    outcomes: list[Outcome] = []
    for name in chosen.data or NAMES:
        try:
            data = DATA_SETS[name]()
        except DataUnavailableError as reason:
            print(f"{name} is left out: {reason}", file=sys.stderr)
            continue
        for library in chosen.library or LIBRARIES:
            outcomes += measure(data, library)
            print(f"{name}, {library}: done", file=sys.stderr, flush=True)
    if not outcomes:
        raise SystemExit("no data set was found")
    print(table(outcomes))
    if chosen.write:
        (REPOSITORY / "docs" / "deep_models.md").write_text(page(outcomes), "utf-8")


if __name__ == "__main__":
    main()
