"""Are models that real data made purified exactly, whichever library trained them?

Trains XGBoost, LightGBM, HistGradientBoosting, CatBoost and EBM models with main effects and
pairs on five public data sets, each with the library's own handling of categories and missing
values, purifies them under the training rows, and prints one row per model.
Run: ``python benchmarks/real_models.py [--data NAME] [--library NAME] [--write]``;
``--write`` puts the tables into ``docs/real_models.md``.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import treepurify as tp
from examples.data import DATA_SETS, REPOSITORY, DataSet, DataUnavailableError
from treepurify.models.parse import raw_margin

COMMAND = "python benchmarks/real_models.py --write"
LEARNING_RATE = 0.1
DEPTH = 2
THREADS = 2


@dataclass(frozen=True)
class Figures:
    """What is shown of one purified model; errors are relative."""

    data: str
    library: str
    n_rows: int
    n_features: int
    n_components: int
    sum_error: float
    parse_error: float
    additivity: float
    conditional_mean: float
    cosine: float
    unidentified: int
    empty_slices: int
    seconds: float
    variance_shares: tuple[float, float]
    covariance_shares: tuple[float, float]


def train_xgboost(data: DataSet, rounds: int) -> tuple[Any, pd.DataFrame]:
    """Train on pandas categories."""
    from xgboost import XGBClassifier, XGBRegressor

    model = (XGBClassifier if data.is_binary else XGBRegressor)(
        n_estimators=rounds,
        max_depth=DEPTH,
        learning_rate=LEARNING_RATE,
        enable_categorical=True,
        n_jobs=THREADS,
    )
    return model.fit(data.X, data.y), data.X


def train_lightgbm(data: DataSet, rounds: int) -> tuple[Any, pd.DataFrame]:
    """Train on pandas categories."""
    from lightgbm import LGBMClassifier, LGBMRegressor

    model = (LGBMClassifier if data.is_binary else LGBMRegressor)(
        n_estimators=rounds,
        max_depth=DEPTH,
        learning_rate=LEARNING_RATE,
        n_jobs=THREADS,
        verbose=-1,
    )
    return model.fit(data.X, data.y), data.X


def train_hist_gradient_boosting(data: DataSet, rounds: int) -> tuple[Any, pd.DataFrame]:
    """Train on pandas categories."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    model = (HistGradientBoostingClassifier if data.is_binary else HistGradientBoostingRegressor)(
        max_iter=rounds,
        max_depth=DEPTH,
        learning_rate=LEARNING_RATE,
        categorical_features="from_dtype",
        early_stopping=False,
    )
    return model.fit(data.X, data.y), data.X


def train_catboost(data: DataSet, rounds: int) -> tuple[Any, pd.DataFrame]:
    """Train on strings; CatBoost takes a missing label as a label of its own."""
    from catboost import CatBoostClassifier, CatBoostRegressor

    X = _with_text(data.X, "missing")
    model = (CatBoostClassifier if data.is_binary else CatBoostRegressor)(
        iterations=rounds,
        depth=DEPTH,
        learning_rate=LEARNING_RATE,
        cat_features=_labels(data.X),
        # Larger sets of labels would be replaced by statistics of the target.
        one_hot_max_size=255,
        thread_count=THREADS,
        allow_writing_files=False,
        verbose=0,
    )
    return model.fit(X, data.y), X


def train_ebm(data: DataSet, rounds: int) -> tuple[Any, pd.DataFrame]:
    """Train on strings, with ten pairs that the library picks."""
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    X = _with_text(data.X, None)
    labels = _labels(data.X)
    model = (ExplainableBoostingClassifier if data.is_binary else ExplainableBoostingRegressor)(
        feature_types=["nominal" if name in labels else "continuous" for name in X],
        interactions=10,
        max_rounds=rounds,
        outer_bags=4,
        n_jobs=1,
    )
    with warnings.catch_warnings():
        # interpret says that its own plots leave missing values out.
        warnings.filterwarnings("ignore", "Missing values detected", UserWarning)
        return model.fit(X, data.y), X


LIBRARIES: dict[str, Callable[[DataSet, int], tuple[Any, pd.DataFrame]]] = {
    "XGBoost": train_xgboost,
    "LightGBM": train_lightgbm,
    "HistGradientBoosting": train_hist_gradient_boosting,
    "CatBoost": train_catboost,
    "EBM": train_ebm,
}


def _labels(X: pd.DataFrame) -> list[str]:
    return [str(name) for name in X if isinstance(X[name].dtype, pd.CategoricalDtype)]


def _with_text(X: pd.DataFrame, missing: str | None) -> pd.DataFrame:
    """Return the table with its categories as plain strings."""
    text = {name: X[name].astype(object).where(X[name].notna(), missing) for name in _labels(X)}
    return X.assign(**text)


def measure(data: DataSet, library: str, *, rounds: int, repeats: int = 3) -> Figures:
    """Train, purify and check one model on all rows."""
    model, X = LIBRARIES[library](data, rounds)
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        d = tp.purify(model, X, weights="empirical", progress=False)
        seconds.append(time.perf_counter() - start)
    certificate = d.certificate
    verification = d.verify(model, X)
    if verification.source != "raw prediction of the library":
        raise RuntimeError(f"{library} was not asked for its own prediction")
    return Figures(
        data=data.name,
        library=library,
        n_rows=len(X),
        n_features=X.shape[1],
        n_components=len(d),
        sum_error=verification.relative_difference,
        parse_error=_parse_error(model, X),
        additivity=certificate.additivity,
        conditional_mean=certificate.conditional_mean,
        cosine=certificate.cosine,
        unidentified=certificate.unidentified,
        empty_slices=sum(solve["empty_slices"] for solve in d.diagnostics["solves"]),
        seconds=min(seconds),
        variance_shares=_shares(d, "square"),
        covariance_shares=_shares(d, "share"),
    )


def _parse_error(model: Any, X: pd.DataFrame) -> float:
    """Compare the parsed model, added up in the library's own precision, on every row."""
    library = raw_margin(model, X)
    own = tp.parse_model(model).margin(X)
    return float(np.max(np.abs(own - library)) / np.max(np.abs(library)))


def _shares(d: tp.Decomposition, column: str) -> tuple[float, float]:
    table = d.importance(details=True)
    parts = table.assign(square=table["size"] ** 2).groupby("order")[column].sum()
    shares = parts / parts.sum()
    return float(shares.get(1, 0.0)), float(shares.get(2, 0.0))


def by_library(rows: list[Figures]) -> str:
    """Return the worst of each library as a Markdown table."""
    lines = [
        "| library | models | difference from its prediction | main effect left in interactions "
        "| time of `purify` | main effects |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for library in dict.fromkeys(row.library for row in rows):
        own = [row for row in rows if row.library == library]
        mains = [row.covariance_shares[0] for row in own]
        lines.append(
            f"| {library} | {len(own)} | {max(row.sum_error for row in own):.1e} "
            f"| {max(row.conditional_mean for row in own):.1e} "
            f"| {min(row.seconds for row in own):.3f} to {max(row.seconds for row in own):.3f} s "
            f"| {min(mains):.1%} to {max(mains):.1%} |"
        )
    return "\n".join(lines)


def exactness_table(rows: list[Figures]) -> str:
    """Return the checks as a Markdown table."""
    head = (
        "| data set | library | rows | features | effects | difference of the sum "
        "| difference of the parsed model | largest error in any cell "
        "| largest main effect left in a pair | cosine | undetermined | intervals without rows |"
    )
    lines = [head, "|---|---|" + "---:|" * 10]
    for row in rows:
        lines.append(
            f"| {row.data} | {row.library} | {row.n_rows} | {row.n_features} "
            f"| {row.n_components} | {row.sum_error:.1e} | {row.parse_error:.1e} "
            f"| {row.additivity:.1e} | {row.conditional_mean:.1e} | {row.cosine:.1e} "
            f"| {row.unidentified} | {row.empty_slices} |"
        )
    return "\n".join(lines)


def share_table(rows: list[Figures]) -> str:
    """Return the time and the shares of variance as a Markdown table."""
    head = (
        "| data set | library | seconds | variance: main effects | pairs "
        "| covariance: main effects | pairs |"
    )
    lines = [head, "|---|---|" + "---:|" * 5]
    for row in rows:
        shares = (*row.variance_shares, *row.covariance_shares)
        lines.append(
            f"| {row.data} | {row.library} | {row.seconds:.3f} | "
            + " | ".join(f"{share:.1%}" for share in shares)
            + " |"
        )
    return "\n".join(lines)


def page(rows: list[Figures], rounds: int) -> str:
    """Return the page of the documentation."""
    worst = max(rows, key=lambda row: row.sum_error)
    double = max(row.sum_error for row in rows if row.library != "XGBoost")
    return f"""# Real models

Do the effects of real models add up to their predictions, whichever library trained them? Yes: in
all {len(rows)} models of this page the effects sum to the library's own prediction on every row.
They have trees of depth {DEPTH}; deeper ones are on [Deep models of real data](deep_models.md).
The largest difference is {worst.sum_error:.1e} of the largest prediction for XGBoost, which sums in
single precision, and {double:.1e} for all others.

{by_library(rows)}

* **Difference from its prediction**: the largest difference on any row between the sum of the
  effects and the raw prediction of the library, relative to the largest raw prediction.
* **Main effect left in interactions**: the largest mean of an interaction given one of its
  features, relative to the largest effect. Zero means that interactions are pure.
* **Time of `purify`**: from the trained model to the certificate, the shortest of three calls, on
  two cores.
* **Main effects**: their share of the variance of the predictions, by covariance. Pairs account
  for all others, since trees of depth 2 have no larger effects. On the bicycle data, trees of depth
  2 nearly miss the interaction of the hour and the working day, which deeper trees find: a tree
  seldom splits on a feature without a main effect.

The models have {rounds} rounds of trees (EBM: main effects and ten pairs, at most
{rounds} rounds each, four bags). Each library treats categories and missing values in its own way.
Effects are averaged over the training rows, and checked on **all** of them.

## Every model

The script that prints this page needs the data sets:

```console
{COMMAND}
```

{exactness_table(rows)}

* **difference of the sum**: of the effects from the library, as above (`d.verify`). The
  largest is that of {worst.library} on {worst.data}. XGBoost sums its leaves in single precision,
  treepurify in double precision; this is the whole difference, as the next column shows.
* **difference of the parsed model**: from the library, if the leaves are summed in the precision
  and order of the library. Zero means equal to the last bit.
* **largest error in any cell**: the largest difference, in any combination of intervals of any
  table, between the model and the sum of its effects, relative to the largest effect. Combinations
  without rows are included.
* **largest main effect left in a pair**: as *main effect left in interactions* above. **cosine**:
  the largest cosine between a pair and one of its main effects. Both are zero for a pure
  interaction. The cosine is relative to the size of the pair, so it is larger if the pair is small.
* **undetermined**: the number of levels that the data leave open. If the rows form groups that
  share no value, raising one effect for one group and lowering another effect by the same amount
  changes no prediction on the rows.
* **intervals without rows**: intervals of a feature without rows in some table. Their effects
  are a convention.

## Main effects and pairs

{share_table(rows)}

* **variance**: share of the sum of the variances of all effects.
* **covariance**: share of the variance of the model, `Cov(effect, model) / Var(model)`. It takes
  into account that features depend on each other."""


def warm_up() -> None:
    """Load the compiled kernels, so that the first model is timed like the others."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    X = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 3)), columns=list("abc"))
    model = HistGradientBoostingRegressor(max_depth=DEPTH, max_iter=5).fit(X, X["a"] * X["b"])
    tp.purify(model, X, weights="empirical", progress=False)


def main() -> None:
    """Print the tables; with ``--write``, write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=DATA_SETS, action="append")
    parser.add_argument("--library", choices=LIBRARIES, action="append")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--write", action="store_true", help="write docs/real_models.md")
    chosen = parser.parse_args()
    warm_up()
    rows = []
    for name in chosen.data or DATA_SETS:
        try:
            data = DATA_SETS[name]()
        except DataUnavailableError as reason:
            print(f"{name} is left out: {reason}", file=sys.stderr)
            continue
        for library in chosen.library or LIBRARIES:
            rows.append(measure(data, library, rounds=chosen.rounds))
            print(f"{name}, {library}: done", file=sys.stderr)
    if not rows:
        raise SystemExit("no data set was found")
    print(exactness_table(rows), share_table(rows), sep="\n\n")
    if chosen.write:
        (REPOSITORY / "docs" / "real_models.md").write_text(page(rows, chosen.rounds), "utf-8")


if __name__ == "__main__":
    main()
