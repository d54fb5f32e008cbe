"""Do effects rank the columns and pairs of a default CatBoost as CatBoost itself does?

Trains CatBoost (300 iterations, its own defaults otherwise) on adult with its categories as
strings, and purifies it under 5000 rows. Effects are added up by the raw columns that they, or the
derived columns in them, are made from:

* pairs: the standard deviation over these rows of the sum of all effects that have two raw columns
  together, next to CatBoost's ``Interaction``;
* columns: the mean absolute Shapley value over 1000 rows, that of a derived column divided equally
  among its raw columns, next to the mean absolute ``ShapValues`` of CatBoost.

Prints the five leading ones of each and Spearman's rank correlations. Nothing is timed.
Run: ``python benchmarks/catboost_importances.py [--write]``; ``--write`` puts the table into
``docs/measured/catboost_importances.csv``.
"""

import argparse
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from catboost import CatBoostClassifier, Pool
from scipy.stats import spearmanr

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import treepurify as tp
from examples.data import DATA_SETS, REPOSITORY

STORED = REPOSITORY / "docs" / "measured" / "catboost_importances.csv"
ITERATIONS, N_ROWS, N_EXPLAINED, N_LEADING = 300, 5000, 1000, 5


def trained() -> tuple[CatBoostClassifier, pd.DataFrame]:
    """Return the model, and the rows of the effects."""
    data = DATA_SETS["adult"]()
    X = data.X.copy()
    labels = list(X.select_dtypes("category"))
    X[labels] = X[labels].astype(object).fillna("?").astype(str)
    model = CatBoostClassifier(
        iterations=ITERATIONS, cat_features=labels, random_seed=0, thread_count=2, verbose=0,
        allow_writing_files=False,
    )  # fmt: skip
    return model.fit(X, data.y), X.sample(N_ROWS, random_state=0)


def of_pairs(d: tp.Decomposition, X: pd.DataFrame) -> pd.Series:
    """Return the standard deviation of the effects that join each two raw columns."""
    parts = d.contributions(X)
    sums = {pair: np.zeros(len(X)) for pair in combinations(sorted(X), 2)}
    for subset in d.components:
        raw = {name for j in subset for name in d.inputs.features[j].raw_columns}
        for pair in combinations(sorted(raw), 2):
            sums[pair] += parts[d.term_name(subset)].to_numpy()
    return pd.Series({" & ".join(pair): values.std() for pair, values in sums.items()})


def own_pairs(model: CatBoostClassifier, X: pd.DataFrame) -> pd.Series:
    """Return CatBoost's interaction strength of each two raw columns."""
    found = pd.Series(0.0, [" & ".join(pair) for pair in combinations(sorted(X), 2)])
    for first, second, strength in model.get_feature_importance(type="Interaction"):
        found[" & ".join(sorted((X.columns[int(first)], X.columns[int(second)])))] = strength
    return found


def of_columns(d: tp.Decomposition, X: pd.DataFrame) -> pd.Series:
    """Return the mean absolute Shapley value of each raw column."""
    values = d.shapley_values(X).values[:, :, 0]
    sums = {name: np.zeros(len(X)) for name in X}
    for spec, column in zip(d.inputs.features, values.T, strict=False):
        for name in spec.raw_columns:
            sums[name] += column / len(spec.raw_columns)
    return pd.Series({name: np.abs(total).mean() for name, total in sums.items()})


def own_columns(model: CatBoostClassifier, X: pd.DataFrame) -> pd.Series:
    """Return the mean absolute SHAP value of each raw column, by CatBoost."""
    pool = Pool(X, cat_features=model.get_cat_feature_indices())
    values = model.get_feature_importance(pool, type="ShapValues")[:, :-1]
    return pd.Series(np.abs(values).mean(axis=0), X.columns)


def table(compared: dict[str, tuple[pd.Series, pd.Series]]) -> pd.DataFrame:
    """Return the leading ones of each ranking, and below them the rank correlations."""
    columns = {"place": [*map(str, range(1, N_LEADING + 1)), "rank correlation"]}
    for names, (ours, own) in compared.items():
        correlation = spearmanr(ours, own[ours.index]).statistic
        for of, sizes in (("effects", ours), ("CatBoost", own)):
            leading = sizes.sort_values(ascending=False).index[:N_LEADING]
            last = f"{correlation:.2f}" if of == "effects" else ""
            columns[f"{names}, {of}"] = [*leading, last]
    return pd.DataFrame(columns)


def main() -> None:
    """Print the table; with ``--write``, store it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"write {STORED.name}")
    write = parser.parse_args().write
    model, X = trained()
    d = tp.purify(model, X, progress=False)
    few = X.head(N_EXPLAINED)
    found = table(
        {
            "pairs": (of_pairs(d, X), own_pairs(model, X)),
            "columns": (of_columns(d, few), own_columns(model, few)),
        }
    )
    print(found.to_string(index=False))
    if write:
        found.to_csv(STORED, index=False)


if __name__ == "__main__":
    main()
