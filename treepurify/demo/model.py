"""A model for the demonstration: gradient boosting at the defaults of its library."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from treepurify.demo.data import DemoData

_SEED = 0
_FOLDS = 5


@dataclass(frozen=True, eq=False)
class DemoModel:
    """A model that was trained on all rows, with its score in cross-validation.

    Parameters
    ----------
    model : object
        The model.
    description : str
        What it is, in words.
    score : float
        R squared for regression, share of right answers for classification: the mean over
        five folds, each scored by a model that was trained on the other four.
    """

    model: Any
    description: str
    score: float


def train_demo_model(data: DemoData) -> DemoModel:
    """Train boosted trees at their defaults, and score such models by cross-validation.

    XGBoost where it is installed, else scikit-learn's histogram gradient boosting.
    """
    from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score

    make = _xgboost_model if find_spec("xgboost") is not None else _sklearn_model
    model, library = make(data)
    split = StratifiedKFold if data.task == "classification" else KFold
    folds = split(_FOLDS, shuffle=True, random_state=_SEED)
    score = float(np.mean(cross_val_score(model, data.X, data.y, cv=folds)))
    model.fit(data.X, data.y)
    return DemoModel(model, f"{library} with default settings", score)


def _xgboost_model(data: DemoData) -> tuple[Any, str]:
    import xgboost

    kind = xgboost.XGBRegressor if data.task == "regression" else xgboost.XGBClassifier
    return kind(enable_categorical=True, random_state=_SEED), f"XGBoost {xgboost.__version__}"


def _sklearn_model(data: DemoData) -> tuple[Any, str]:
    import sklearn
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    regression = data.task == "regression"
    kind = HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
    model = kind(categorical_features="from_dtype", random_state=_SEED)
    return model, f"scikit-learn {sklearn.__version__} histogram gradient boosting"
