"""Does each family predict what its own library does, on 100 000 rows on and beside its cuts?

Trains a model of each family on made-up numbers with missing values and, where the library takes
them, codes of categories. Draws rows whose values lie on, just below and just above its cuts, in
double and in single precision, with missing, infinite and unknown ones where the library takes
them. Prints for how many rows the margin of the parsed model differs from that of the library in
any bit, and for how many by more than the rounding of a sum: the largest margin times 1e-13, or
2e-6 where the library adds up in single precision. Aim: no row of the second kind.
Labels and combinations of CatBoost are in ``tests/models/test_catboost_statistics.py``, with as
many rows. What is not installed is skipped. Nothing is timed.
Run: ``python -m benchmarks.models_beside_cuts [--rows 100000]``; words narrow it down to the
families with these in their names.
"""

import argparse
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd

from tests.cases import rows_beside_cuts
from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.parse import parse_model, raw_margin

N_TRAINING = 3000
ROUNDING = {"float64": 1e-13, "float32": 2e-6}
CODES = 3


def made_up(*, missing: bool = True, codes: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Return three columns of numbers, one of them whole, and one of codes, and the target."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_TRAINING, 4))
    X[:, 2] = rng.integers(-2, 3, N_TRAINING)
    X[:, CODES] = rng.integers(0, 12, N_TRAINING)
    y = X[:, 0] * X[:, 1] + (X[:, 2] == 0) + np.sin(5 * X[:, CODES])
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return (X if codes else X[:, :CODES]), y + 0.1 * rng.normal(size=N_TRAINING)


def xgboost() -> Any:
    """Return XGBoost with categories."""
    X, y = made_up()
    library = import_module("xgboost")
    data = library.DMatrix(X, y, feature_types=["q", "q", "q", "c"], enable_categorical=True)
    return library.train({"max_depth": 6, "nthread": 2, "max_cat_to_onehot": 4}, data, 100)


def lightgbm() -> Any:
    """Return LightGBM with categories."""
    X, y = made_up()
    library = import_module("lightgbm")
    data = library.Dataset(X, y, categorical_feature=[CODES])
    options = {"verbose": -1, "num_threads": 2, "min_data_per_group": 5}
    return library.train(options, data, 100)


def histogram_boosting() -> Any:
    """Return scikit-learn's histogram gradient boosting with categories."""
    kind = import_module("sklearn.ensemble").HistGradientBoostingClassifier
    X, y = made_up()
    return kind(categorical_features=[CODES], random_state=0).fit(X, y > 0)


def gradient_boosting() -> Any:
    """Return scikit-learn's gradient boosting, which takes no missing values."""
    kind = import_module("sklearn.ensemble").GradientBoostingRegressor
    return kind(random_state=0).fit(*made_up(missing=False))


def forest() -> Any:
    """Return a random forest of classes."""
    kind = import_module("sklearn.ensemble").RandomForestClassifier
    X, y = made_up()
    return kind(30, max_leaf_nodes=64, random_state=0).fit(X, np.digitize(y, [-0.5, 1.0]))


def extra_trees() -> Any:
    """Return extremely random trees."""
    kind = import_module("sklearn.ensemble").ExtraTreesRegressor
    return kind(30, max_leaf_nodes=64, random_state=0).fit(*made_up(missing=False))


def isolation_forest() -> Any:
    """Return an isolation forest."""
    kind = import_module("sklearn.ensemble").IsolationForest
    return kind(n_estimators=50, random_state=0).fit(made_up(missing=False)[0])


def catboost() -> Any:
    """Return CatBoost of numbers."""
    options = {"iterations": 100, "verbose": 0, "allow_writing_files": False, "thread_count": 2}
    return import_module("catboost").CatBoostRegressor(**options, random_seed=0).fit(*made_up())


def treelite() -> Any:
    """Return Treelite's form of LightGBM with categories."""
    return import_module("treelite").frontend.from_lightgbm(lightgbm())


def machine() -> Any:
    """Return an explainable boosting machine with labels of text."""
    kind = import_module("interpret.glassbox").ExplainableBoostingRegressor
    X, y = made_up()
    rows = pd.DataFrame(X, columns=list("abcd"))
    rows["d"] = rows["d"].map("label {:g}".format, na_action="ignore")
    return kind(max_rounds=100, outer_bags=2, n_jobs=1, random_state=0).fit(rows, y)


# Each with whether its library takes missing and infinite values, and unknown categories.
FAMILIES: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "XGBoost": (xgboost, {}),
    "LightGBM": (lightgbm, {}),
    "HistGradientBoosting": (histogram_boosting, {}),
    "GradientBoosting": (gradient_boosting, {"missing": 0.0, "infinite": False}),
    "RandomForest": (forest, {"infinite": False}),
    "ExtraTrees": (extra_trees, {"missing": 0.0, "infinite": False}),
    "IsolationForest": (isolation_forest, {"missing": 0.0, "infinite": False}),
    "CatBoost": (catboost, {}),
    "Treelite": (treelite, {}),
    "EBM": (machine, {}),
}


def rows_of_tables(tables: AdditiveTables, n_rows: int) -> pd.DataFrame:
    """Return rows on and beside the cuts of an EBM, with missing and unknown values."""
    rng = np.random.default_rng(0)
    columns = {}
    for j, spec in enumerate(tables.features):
        cuts = [
            own
            for term in tables.terms
            for feature, own in zip(term.features, term.cuts, strict=True)
            if feature == j and own is not None
        ]
        if spec.is_categorical:
            pool = np.array([*spec.labels, "never seen", None], dtype=object)
        else:
            at = np.concatenate(cuts)
            beside = [at, np.nextafter(at, -np.inf), np.nextafter(at, np.inf)]
            pool = np.concatenate([*beside, [np.nan, np.inf, -np.inf]])
        columns[spec.name] = rng.choice(pool, n_rows)
    return pd.DataFrame(columns)


def differences(model: Any, n_rows: int, options: dict[str, Any]) -> tuple[int, int, float]:
    """Return rows that differ in any bit, rows that differ by more, and the largest difference."""
    parsed = parse_model(model)
    if isinstance(parsed, AdditiveTables):
        rows, precision = rows_of_tables(parsed, n_rows), "float64"
    else:
        rows, precision = rows_beside_cuts(parsed, n_rows, **options), parsed.accumulation
        if not options.get("infinite", True):
            # A split for missing values alone has an infinite cut.
            rows[np.abs(rows) > np.finfo(np.float32).max] = 0.0
    own = raw_margin(model, rows)
    if own is None:
        raise ImportError("its runtime is not installed")
    off = np.abs(parsed.margin(rows) - own).max(axis=1)
    largest = np.abs(own).max()
    return int(np.sum(off > 0)), int(np.sum(off > ROUNDING[precision] * largest)), off.max()


def main() -> None:
    """Print a line for each family."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--rows", type=int, default=100_000)
    chosen = parser.parse_args()
    print(f"{'family':<22}{'any bit':>9}{'beyond rounding':>17}{'largest':>10}")
    for name, (make, options) in FAMILIES.items():
        if chosen.words and not any(word.lower() in name.lower() for word in chosen.words):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                bits, wrong, largest = differences(make(), chosen.rows, options)
            except ImportError as error:
                print(f"{name:<22}skipped: {error}")
                continue
        print(f"{name:<22}{bits:>9}{wrong:>17}{largest:>10.1e}", flush=True)


if __name__ == "__main__":
    main()
