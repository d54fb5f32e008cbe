"""Small random models of every family that is parsed, with rows where parsers go wrong."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from tests.cases import rows_beside_cuts
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import parse_model

__all__ = ["FAMILIES", "TOLERANCE", "rows_of"]

N_TRAINING, N_ROWS, N_CODES = 120, 200, 9
# Largest error over the largest margin, by family or kind: forests, LightGBM's ("rf") as well,
# divide before they add or after, and CatBoost and EBMs add in another order.
TOLERANCE = {"forest": 1e-14, "rf": 1e-14, "catboost": 3e-14, "ebm": 1e-14}


def _features(rng: np.random.Generator, *, missing: float) -> np.ndarray:
    """Numbers, rounded numbers with zeros, numbers of all sizes, category codes."""
    X = np.column_stack(
        [
            rng.normal(size=N_TRAINING),
            np.round(rng.normal(size=N_TRAINING), 1),
            rng.normal(size=N_TRAINING) * 10.0 ** rng.integers(-40, 30, N_TRAINING),
            rng.integers(0, N_CODES, N_TRAINING),
        ]
    )
    X[:, :3][rng.random((N_TRAINING, 3)) < missing] = np.nan
    return X


def _signal(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    known = np.nan_to_num(X)
    wave = np.sin(rng.integers(1, 9) * X[:, 3])
    return known[:, 0] * known[:, 1] + np.sign(known[:, 2]) + wave + rng.normal(size=len(X)) / 4


def _classes(signal: np.ndarray, n_classes: int) -> np.ndarray:
    return np.digitize(signal, np.quantile(signal, np.arange(1, n_classes) / n_classes))


def _pick(rng: np.random.Generator, options: list[Any]) -> Any:
    return options[rng.integers(len(options))]


def _xgboost(rng: np.random.Generator) -> Any:
    import xgboost

    X = _features(rng, missing=_pick(rng, [0.0, 0.2]))
    signal = _signal(rng, X)
    objective = _pick(
        rng,
        [
            "reg:squarederror", "reg:logistic", "reg:absoluteerror", "reg:gamma", "reg:tweedie",
            "binary:logistic", "binary:logitraw", "binary:hinge", "count:poisson",
            "multi:softmax", "multi:softprob", "rank:pairwise", "several",
        ],
    )  # fmt: skip
    settings = {
        "objective": objective,
        "booster": _pick(rng, ["gbtree", "dart"]),
        "rate_drop": 0.3,
        "max_depth": int(rng.integers(1, 6)),
        "max_cat_to_onehot": _pick(rng, [1, 100]),
        "eta": _pick(rng, [0.1, 1.0]),
        "nthread": 1,
        "verbosity": 0,
        "seed": int(rng.integers(1000)),
    }
    y = signal
    if objective == "several":
        y = np.column_stack([signal, signal**2])
        strategy = _pick(rng, ["one_output_per_tree", "multi_output_tree"])
        settings |= {"objective": "reg:squarederror", "multi_strategy": strategy}
        if strategy == "multi_output_tree":
            settings |= {"booster": "gbtree"}
    elif objective.startswith("multi"):
        y, settings["num_class"] = _classes(signal, 3), 3
    elif objective.startswith(("binary", "rank")) or objective == "reg:logistic":
        y = _classes(signal, 2)
    elif objective in ("reg:gamma", "reg:tweedie", "count:poisson"):
        y = np.exp(signal / 3)
    is_coded = objective != "several" and rng.random() < 0.6
    types = ["q", "q", "q", "c" if is_coded else "q"]
    data = xgboost.DMatrix(X, y, feature_types=types, enable_categorical=True)
    if objective.startswith("rank"):
        data.set_group([N_TRAINING // 2] * 2)
    with xgboost.config_context(verbosity=0):
        return xgboost.train(settings, data, int(rng.integers(0, 6)))


def _lightgbm(rng: np.random.Generator) -> Any:
    import lightgbm

    X = _features(rng, missing=_pick(rng, [0.0, 0.2]))
    objective = _pick(rng, ["regression", "binary", "multiclass", "multiclassova", "quantile"])
    y = _signal(rng, X)
    if objective == "binary":
        y = _classes(y, 2)
    elif objective.startswith("multi"):
        y = _classes(y, 3)
    boosting = _pick(rng, ["gbdt", "dart", "rf"])
    settings = {
        "objective": objective,
        "num_class": 3 if objective.startswith("multi") else 1,
        "boosting": boosting,
        "zero_as_missing": _pick(rng, [False, True]),
        "use_missing": _pick(rng, [False, True]),
        "num_leaves": int(rng.integers(2, 12)),
        "max_cat_to_onehot": _pick(rng, [1, 2, 100]),
        "min_data_in_leaf": 3,
        "min_data_per_group": 2,
        "cat_smooth": 1.0,
        "drop_rate": 0.5,
        "seed": int(rng.integers(1000)),
        "num_threads": 1,
        "verbose": -1,
    }
    if boosting == "rf":
        settings |= {"bagging_freq": 1, "bagging_fraction": 0.7}
    data = lightgbm.Dataset(X, y, categorical_feature=_pick(rng, [[], [3]]))
    return lightgbm.train(settings, data, int(rng.integers(1, 6)))


def _trees(rng: np.random.Generator) -> Any:
    """A single tree or gradient boosting of scikit-learn."""
    from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    seed = int(rng.integers(1000))
    depth = int(rng.integers(1, 6))
    one = _pick(rng, [DecisionTreeRegressor, DecisionTreeClassifier, None])
    if one is not None:
        X = _features(rng, missing=_pick(rng, [0.0, 0.2]))
        model = one(max_depth=depth, random_state=seed)
    else:
        X = _features(rng, missing=0.0)
        boosted = _pick(rng, [GradientBoostingRegressor, GradientBoostingClassifier])
        model = boosted(n_estimators=4, max_depth=depth, random_state=seed)
    return _fit_scikit_learn(model, X, _signal(rng, X), int(rng.integers(2, 4)))


def _forest(rng: np.random.Generator) -> Any:
    from sklearn.ensemble import (
        ExtraTreesClassifier,
        ExtraTreesRegressor,
        RandomForestClassifier,
        RandomForestRegressor,
    )

    X = _features(rng, missing=_pick(rng, [0.0, 0.2]))
    forest = _pick(
        rng,
        [RandomForestRegressor, RandomForestClassifier, ExtraTreesRegressor, ExtraTreesClassifier],
    )
    model = forest(
        n_estimators=int(rng.integers(1, 6)),
        max_depth=int(rng.integers(1, 6)),
        random_state=int(rng.integers(1000)),
    )
    return _fit_scikit_learn(model, X, _signal(rng, X), int(rng.integers(2, 4)))


def _histogram(rng: np.random.Generator) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    X = _features(rng, missing=_pick(rng, [0.0, 0.2]))
    boosted = _pick(rng, [HistGradientBoostingRegressor, HistGradientBoostingClassifier])
    model = boosted(
        max_iter=int(rng.integers(1, 6)),
        max_leaf_nodes=int(rng.integers(2, 12)),
        min_samples_leaf=3,
        categorical_features=_pick(rng, [None, [3]]),
        random_state=int(rng.integers(1000)),
    )
    return _fit_scikit_learn(model, X, _signal(rng, X), int(rng.integers(2, 4)))


def _fit_scikit_learn(model: Any, X: np.ndarray, signal: np.ndarray, n_classes: int) -> Any:
    return model.fit(X, _classes(signal, n_classes) if hasattr(model, "predict_proba") else signal)


def _catboost(rng: np.random.Generator) -> Any:
    import catboost

    X = _features(rng, missing=_pick(rng, [0.0, 0.2]))
    loss = _pick(rng, ["RMSE", "Logloss", "MultiClass", "MultiRMSE", "Quantile"])
    signal = _signal(rng, X)
    y = {
        "Logloss": _classes(signal, 2),
        "MultiClass": _classes(signal, 3),
        "MultiRMSE": np.column_stack([signal, signal**2]),
    }.get(loss, signal)
    settings = {
        "iterations": int(rng.integers(1, 6)),
        "depth": int(rng.integers(1, 5)),
        "loss_function": loss,
        "nan_mode": _pick(rng, ["Min", "Max"]),
        "random_seed": int(rng.integers(1000)),
        "verbose": 0,
        "allow_writing_files": False,
        "thread_count": 1,
    }
    if not loss.startswith("Multi"):
        settings["grow_policy"] = _pick(rng, ["SymmetricTree", "Depthwise", "Lossguide"])
    model_type = catboost.CatBoost
    if rng.random() < 0.5 or loss == "MultiRMSE":
        return model_type(settings).fit(X, y)
    coded = pd.DataFrame(X, columns=list("abcd"))
    coded["d"] = coded["d"].astype(int).astype(str)
    return model_type({**settings, "one_hot_max_size": 50}).fit(coded, y, cat_features=["d"])


def _ebm(rng: np.random.Generator) -> Any:
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    from tests.models.test_ebm import fit

    X = pd.DataFrame(_features(rng, missing=_pick(rng, [0.0, 0.2])), columns=list("abcd"))
    signal = _signal(rng, X.to_numpy())
    settings = {
        "outer_bags": 1,
        "max_rounds": 5,
        "max_bins": 16,
        "n_jobs": 1,
        "random_state": int(rng.integers(1000)),
    }
    types = ["continuous"] * 3 + [_pick(rng, ["continuous", "nominal"])]
    n_classes = int(rng.integers(1, 4))
    if n_classes > 1:
        several = {} if n_classes == 2 else {"interactions": 0}
        model = ExplainableBoostingClassifier(feature_types=types, **settings, **several)
        return fit(model, X, _classes(signal, n_classes))
    return fit(
        ExplainableBoostingRegressor(feature_types=types, interactions=2, **settings), X, signal
    )


FAMILIES: dict[str, Callable[[np.random.Generator], Any]] = {
    "xgboost": _xgboost,
    "lightgbm": _lightgbm,
    "trees": _trees,
    "forest": _forest,
    "histogram": _histogram,
    "catboost": _catboost,
    "ebm": _ebm,
}


def rows_of(family: str, model: Any, seed: int) -> Any:
    """Rows on, just below and just above every cut, missing, infinite, and of odd codes."""
    if family == "ebm":
        return _rows_of_ebm(model, seed)
    parsed = parse_model(model)
    assert isinstance(parsed, TreeEnsemble)
    if family in ("trees", "forest"):
        # The library refuses infinite values, and missing ones it has not met.
        tags = model.__sklearn_tags__().input_tags.allow_nan
        rows = rows_beside_cuts(
            parsed, N_ROWS, seed=seed, missing=0.1 if tags else 0.0, infinite=False
        )
        rows[np.abs(rows) > np.finfo(np.float32).max] = 0.0
        return rows
    rows = rows_beside_cuts(parsed, N_ROWS, seed=seed)
    if not parsed.features[3].is_categorical or family != "catboost":
        return rows
    table = pd.DataFrame(rows, columns=list("abcd"))
    labels = [*map(str, range(N_CODES)), "-1", "0.5", "never seen", "nan"]
    table["d"] = np.random.default_rng(seed).choice(labels, N_ROWS)
    return table


def _rows_of_ebm(model: Any, seed: int) -> pd.DataFrame:
    from tests.models.test_ebm import rows_of_trouble

    rng = np.random.default_rng(seed)
    codes = rng.choice([*range(N_CODES), -1.0, 0.5, 99.0, np.nan], N_ROWS)
    seen = pd.DataFrame({name: np.zeros(N_ROWS) for name in "abc"} | {"d": codes})
    rows = rows_of_trouble(model, seen, N_ROWS)
    return rows.sample(frac=1.0, random_state=seed, ignore_index=True)
