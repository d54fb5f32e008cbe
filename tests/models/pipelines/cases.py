"""Data, models and rows on which composed pipelines go wrong."""

import os
import warnings

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder
from sklearn.tree import DecisionTreeRegressor

import treepurify as tp
from treepurify.models.ensemble import TreeEnsemble

# Ten times as many are asked for in the long search.
N_ROWS = int(os.environ.get("TREEPURIFY_PIPELINE_ROWS", "10000"))
NUMBERS = ["age", "income", "rooms"]
TEXTS = ["color", "size"]
UNKNOWN = "never seen"


def make_data(n_rows=600, *, missing=(), seed=0):
    """A table of numbers and texts, some of them missing, and a response."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.normal(40, 10, n_rows),
            "income": rng.lognormal(3, 1, n_rows),
            "rooms": rng.integers(0, 5, n_rows).astype(float),
            "color": rng.choice(
                ["red", "green", "blue", "teal", "rare", "rarer"],
                n_rows,
                p=[0.3, 0.3, 0.2, 0.18, 0.01, 0.01],
            ),
            "size": rng.choice(["S", "M", "L"], n_rows),
        }
    )
    y = X.age / 10 + np.log(X.income) + X.rooms + 2.0 * ((X.color == "red") & (X["size"] == "L"))
    for name in missing:
        X.loc[rng.random(n_rows) < 0.1, name] = np.nan
    return X, y + rng.normal(size=n_rows) * 0.1


def xgb(**options):
    import xgboost

    return xgboost.XGBRegressor(n_estimators=15, max_depth=4, n_jobs=1, **options)


def lgbm(**options):
    import lightgbm

    return lightgbm.LGBMRegressor(n_estimators=15, verbose=-1, n_jobs=1, **options)


def catboost_model():
    import catboost

    return catboost.CatBoostRegressor(
        iterations=15, depth=4, verbose=0, allow_writing_files=False, thread_count=1
    )


# Each with whether it takes missing values.
FAMILIES = {
    "xgboost": (xgb, True),
    "lightgbm": (lgbm, True),
    "catboost": (catboost_model, True),
    "tree": (lambda: DecisionTreeRegressor(max_depth=7), True),
    "forest": (lambda: RandomForestRegressor(5, max_depth=6, random_state=0), True),
    "extra trees": (lambda: ExtraTreesRegressor(5, max_depth=6, random_state=0), True),
    "boosting": (lambda: GradientBoostingRegressor(n_estimators=15, random_state=0), False),
    "histogram": (lambda: HistGradientBoostingRegressor(max_iter=15), True),
}


def columns(numbers, texts, **options):
    """A ColumnTransformer of the numbers and the texts of `make_data`."""
    return ColumnTransformer([("num", numbers, NUMBERS), ("cat", texts, TEXTS)], **options)


def filled(step, **options):
    return make_pipeline(SimpleImputer(**options), step)


def ordinal(**options):
    return OrdinalEncoder(
        **({"handle_unknown": "use_encoded_value", "unknown_value": -1} | options)
    )


def dense_one_hot(**options):
    return OneHotEncoder(**({"handle_unknown": "ignore", "sparse_output": False} | options))


def raw_rows(ensemble: TreeEnsemble, X, n_rows=N_ROWS, *, missing=True, unknown=True, seed=1):
    """Rows on, just below and just above every raw cut, with unknown and missing labels."""
    rng = np.random.default_rng(seed)
    table = {}
    for j, spec in enumerate(ensemble.features):
        column = X[spec.name]
        is_text = column.dtype.kind not in "fiub"
        values = column.dropna().to_numpy()
        if is_text:
            pool = np.array([*np.unique(values), *([UNKNOWN] * unknown)], dtype=object)
        elif spec.is_categorical:
            pool = np.array([*np.unique(values), *([values.max() + 1.0] * unknown)])
        else:
            dtype = column.dtype if column.dtype == np.float32 else np.dtype(np.float64)
            cuts = ensemble.cut[(ensemble.feature == j) & (ensemble.category_ptr < 0)]
            cuts = cuts[np.isfinite(cuts)].astype(dtype)
            up, down = np.array(np.inf, dtype=dtype), np.array(-np.inf, dtype=dtype)
            beside = [cuts, np.nextafter(cuts, up), np.nextafter(cuts, down)]
            pool = np.concatenate([*beside, rng.choice(values, 40).astype(dtype)])
            pool = pool[np.isfinite(pool)]
        chosen = rng.choice(pool, n_rows)
        if missing:
            chosen[rng.random(n_rows) < 0.1] = np.nan
        table[spec.name] = pd.Series(chosen, dtype=object if is_text else chosen.dtype)
    return pd.DataFrame(table)


def check_composed(model, X, y, *, missing=True, unknown=True):
    """Fit, compose, and compare with the pipeline's own predictions; return the composed form."""
    with warnings.catch_warnings():
        # The libraries' own: unknown categories, and names of columns.
        warnings.simplefilter("ignore")
        model.fit(X, y)
        ensemble = tp.parse_model(model, X=X)
        rows = raw_rows(ensemble, X, missing=missing, unknown=unknown)
        own = np.asarray(model.predict(rows), dtype=float)
    composed = ensemble.margin(rows)[:, 0]
    assert ensemble.feature_names == tuple(X.columns)
    differs = np.abs(composed - own) > 1e-12 * np.abs(own).max()
    assert not differs.any(), f"{differs.sum()} rows, the first:\n{rows[differs][:3]}"
    return ensemble
