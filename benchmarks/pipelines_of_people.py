"""Which of a hundred kinds of pipelines that people build are read, and are they read exactly?

Each kind is built as tutorials and notebooks do it, on a small made-up table with numbers, missing
values, labels, texts, dates, whole numbers and truth values. It is fitted, purified, and compared
with its own prediction on new rows: the largest difference relative to the largest prediction.
The number is how common a kind is (5 often, 1 rare). What a library that is not installed is
needed for is skipped. Nothing is timed. Aim: none wrong, at most 12 refused.
Run: ``python benchmarks/pipelines_of_people.py``; words narrow it down to the kinds with these in
their names.
"""

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
from sklearn import ensemble as trees
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.decomposition import PCA
from sklearn.experimental import enable_halving_search_cv, enable_iterative_imputer  # noqa: F401
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import (
    RFE,
    RFECV,
    SelectFromModel,
    SelectKBest,
    SelectPercentile,
    VarianceThreshold,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import IterativeImputer, KNNImputer, MissingIndicator, SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    HalvingGridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.tree import DecisionTreeRegressor

import treepurify as tp
from treepurify.errors import ModelMismatchError, TreepurifyError

N_TRAINING, N_NEW = 1000, 3000
# Boosters keep single precision, and predict in it.
LARGEST_DIFFERENCE = 1e-5
NUMBERS = ["age", "fare", "income", "area"]
WHOLE = ["fare", "income", "area"]
LABELS = ["city", "plan"]
MIXED = [*NUMBERS, *LABELS]


def made_up(n: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a table of each kind of column, and what is to be predicted."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.normal(40, 12, n),
            "fare": rng.lognormal(3, 1, n),
            "income": rng.lognormal(1, 0.5, n),
            "area": rng.uniform(20, 200, n),
            "hour": rng.integers(0, 24, n),
            "rooms": rng.integers(1, 7, n),
            "code": rng.choice([3, 7, 20, 41], n),
            "member": rng.random(n) < 0.4,
            "city": rng.choice(
                ["Rome", "Oslo", "Lima", "Bonn", "Cork"], n, p=[0.4, 0.3, 0.2, 0.09, 0.01]
            ),
            "plan": rng.choice(["free", "basic", "gold"], n),
            "text": rng.choice(["red car fast", "old red van", "blue bike", "fast bike"], n),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, n), "D"),
        }
    )
    score = (
        np.log(X["fare"])
        + (X["city"] == "Rome") * X["age"] / 20
        + X["income"] / X["area"] * 20
        + np.sin(X["hour"] / 4)
        + (X["plan"] == "gold")
        + X["day"].dt.month / 6
        + X["text"].str.contains("red")
        + X["member"] * X["rooms"] / 4
        + (X["code"] == 7)
    )
    X.loc[rng.random(n) < 0.1, "age"] = np.nan
    y = pd.DataFrame({"price": np.exp(score / 3), "high": (score > 7.0).astype(int)})
    y["count"] = rng.poisson(y["price"])
    y["level"] = np.where(score < 6, "low", np.where(score < 8, "middle", "top"))
    y["number of level"] = (score > 6).astype(int) + (score > 8)
    y["is top"] = (score > 8).astype(int)
    return X, y


class Own(BaseEstimator, TransformerMixin):
    """A class of the user's that learns nothing."""

    def fit(self, X: Any, y: Any = None) -> "Own":
        """Return itself."""
        return self


class Ratio(Own):
    """Adds a ratio, as ``FeatureEngineer`` of many notebooks does."""

    def transform(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return one more column."""
        return X.assign(per_area=X["income"] / X["area"])


class DateParts(Own):
    """Takes dates apart."""

    def transform(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return numbers in place of dates."""
        return date_parts(X)


class Drop(Own):
    """Drops columns by name."""

    def transform(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return fewer columns."""
        return X.drop(columns=["fare"])


class Outlier(BaseEstimator, TransformerMixin):
    """Learns quantiles, and clips."""

    def fit(self, X: Any, y: Any = None) -> "Outlier":
        """Learn two quantiles of each column."""
        self.low_, self.high_ = np.nanquantile(np.asarray(X), [0.05, 0.95], axis=0)
        return self

    def transform(self, X: Any) -> Any:
        """Return clipped columns."""
        return np.clip(np.asarray(X), self.low_, self.high_)


class Nearness(BaseEstimator, TransformerMixin):
    """Similarity to the centres of clusters, as in a well-known book."""

    def fit(self, X: Any, y: Any = None) -> "Nearness":
        """Find the centres."""
        self.clusters_ = KMeans(3, n_init=1, random_state=0).fit(X)
        return self

    def transform(self, X: Any) -> Any:
        """Return one column for each centre."""
        from sklearn.metrics.pairwise import rbf_kernel

        return rbf_kernel(X, self.clusters_.cluster_centers_, gamma=1e-4)

    def get_feature_names_out(self, names: Any = None) -> list[str]:
        """Name the columns."""
        return [f"cluster {k}" for k in range(3)]


def date_parts(X: pd.DataFrame) -> pd.DataFrame:
    """Return month and weekday in place of a date."""
    parts = {"month": X["day"].dt.month, "weekday": X["day"].dt.dayofweek}
    return X.drop(columns="day").assign(**parts)


def column_ratio(X: Any) -> Any:
    """Return the ratio of two columns."""
    X = np.asarray(X)
    return X[:, [0]] / X[:, [1]]


def as_categories(X: pd.DataFrame) -> pd.DataFrame:
    """Return labels as pandas' categories."""
    levels = {"city": ["Bonn", "Cork", "Lima", "Oslo", "Rome"], "plan": ["basic", "free", "gold"]}
    return X.assign(**{c: pd.Categorical(X[c], categories=levels[c]) for c in LABELS})


def lib(module: str) -> Any:
    """Return a module that need not be installed."""
    return import_module(module)


def forest(**options: Any) -> Any:
    """Return a small random forest."""
    return trees.RandomForestRegressor(8, max_depth=4, random_state=0, **options)


def forest_classifier(**options: Any) -> Any:
    """Return a small random forest of classes."""
    return trees.RandomForestClassifier(8, max_depth=4, random_state=0, **options)


def boosting() -> Any:
    """Return small gradient boosting."""
    return trees.GradientBoostingRegressor(n_estimators=15, random_state=0)


def boosting_classifier() -> Any:
    """Return small gradient boosting of classes."""
    return trees.GradientBoostingClassifier(n_estimators=15, random_state=0)


def histogram(**options: Any) -> Any:
    """Return small histogram boosting."""
    return trees.HistGradientBoostingRegressor(max_iter=15, max_depth=4, **options)


def xgb(**options: Any) -> Any:
    """Return a small model of XGBoost."""
    return lib("xgboost").XGBRegressor(n_estimators=15, max_depth=3, **options)


def xgb_classifier(**options: Any) -> Any:
    """Return a small classifier of XGBoost."""
    return lib("xgboost").XGBClassifier(n_estimators=15, max_depth=3, **options)


def lgb(**options: Any) -> Any:
    """Return a small model of LightGBM."""
    return lib("lightgbm").LGBMRegressor(n_estimators=15, max_depth=3, verbose=-1, **options)


def lgb_classifier(**options: Any) -> Any:
    """Return a small classifier of LightGBM."""
    return lib("lightgbm").LGBMClassifier(n_estimators=15, max_depth=3, verbose=-1, **options)


def cat(**options: Any) -> Any:
    """Return a CatBoost model that writes no files."""
    settings = {"iterations": 15, "depth": 3, "verbose": 0, "allow_writing_files": False}
    return lib("catboost").CatBoostRegressor(**{**settings, **options})


def encoder(name: str, **options: Any) -> Any:
    """Return an encoder of category_encoders."""
    return getattr(lib("category_encoders"), name)(**options)


def one_hot(**options: Any) -> Any:
    """Return the usual one-hot encoder."""
    return OneHotEncoder(handle_unknown="ignore", **options)


def ordinal(**options: Any) -> Any:
    """Return the usual ordinal encoder."""
    return OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, **options)


def split(numbers: Any = None, labels: Any = None, **options: Any) -> ColumnTransformer:
    """Return what most notebooks begin with: numbers filled and scaled, labels encoded."""
    numbers = numbers or make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    return ColumnTransformer(
        [("num", numbers, NUMBERS), ("cat", labels or one_hot(), LABELS)], **options
    )


def on(columns: Sequence[str] | str, step: Any, **options: Any) -> ColumnTransformer:
    """Return a step on some columns; all others pass."""
    return ColumnTransformer([("s", step, columns)], remainder="passthrough", **options)


def filled(*steps: Any) -> Pipeline:
    """Return steps behind an imputer."""
    return make_pipeline(SimpleImputer(), *steps)


def search(model: Any, grid: dict[str, list[Any]]) -> GridSearchCV:
    """Return a search with two folds."""
    return GridSearchCV(model, grid, cv=2)


def calibrated_fitted(model: Any, X: Any, y: Any) -> Any:
    """Return the calibration of a model that is fitted before."""
    half = len(X) // 2
    fitted = FrozenEstimator(model.fit(X[:half], y[:half]))
    return CalibratedClassifierCV(fitted, ensemble=False).fit(X[half:], y[half:])


def fitted(model: Any, X: Any, y: Any) -> Any:
    """Fit a model as it is."""
    return model.fit(X, y)


@dataclass(frozen=True)
class Kind:
    """One kind of pipeline.

    Parameters
    ----------
    name : str
        Its name.
    commonness : int
        From 1, rare, on.
    make : callable
        Returns the pipeline, not fitted.
    columns : list of str
        The columns that it takes.
    target : str or list of str
        What it predicts.
    fit : callable
        Fits it.
    as_taken : callable, optional
        Makes the rows that the pipeline is given from a data frame.
    """

    name: str
    commonness: int
    make: Callable[[], Any]
    columns: Sequence[str] = tuple(MIXED)
    target: str | list[str] = "price"
    fit: Callable[[Any, Any, Any], Any] = fitted
    as_taken: Callable[[pd.DataFrame], Any] | None = None

    def rows(self, X: pd.DataFrame) -> Any:
        """Return the columns that it takes."""
        X = X[list(self.columns)]
        return X if self.as_taken is None else self.as_taken(X)


SEARCHED = {"randomforestclassifier__max_depth": [2, 3]}
DATED = [*WHOLE, "day"]
HOUR = ["hour", "fare"]

BASIC = (
    Kind("titanic_rf", 5, lambda: make_pipeline(split(), forest_classifier()), target="high"),
    Kind(
        "titanic_xgb_grid",
        5,
        lambda: search(
            make_pipeline(split(), xgb_classifier()), {"xgbclassifier__max_depth": [2, 3]}
        ),
        target="high",
    ),
    Kind(
        "titanic_lgbm_rand",
        5,
        lambda: RandomizedSearchCV(
            make_pipeline(split(), lgb_classifier()),
            {"lgbmclassifier__num_leaves": [4, 6]},
            n_iter=2,
            cv=2,
            random_state=0,
        ),
        target="high",
    ),
    Kind("titanic_gbc", 5, lambda: make_pipeline(split(), boosting_classifier()), target="high"),
    Kind(
        "mixed_types_selectpercentile",
        3,
        lambda: make_pipeline(
            split(labels=make_pipeline(one_hot(), SelectPercentile(percentile=50))),
            forest_classifier(),
        ),
        target="high",
    ),
    Kind(
        "sk_gb_cat_onehot",
        4,
        lambda: make_pipeline(on(LABELS, one_hot(sparse_output=False)), histogram()),
    ),
    Kind("sk_gb_cat_ordinal", 4, lambda: make_pipeline(on(LABELS, ordinal()), histogram())),
    Kind("sk_gb_cat_target", 3, lambda: make_pipeline(on(LABELS, TargetEncoder()), histogram())),
    Kind(
        "sk_gb_ordinal_native_cat",
        3,
        lambda: make_pipeline(on(LABELS, ordinal()), histogram(categorical_features=[0, 1])),
    ),
    Kind(
        "hgb_native_from_dtype",
        3,
        lambda: histogram(categorical_features="from_dtype"),
        as_taken=as_categories,
    ),
    Kind(
        "permutation_importance_rf",
        3,
        lambda: Pipeline(
            [("preprocess", split(SimpleImputer(), ordinal())), ("rf", forest_classifier())]
        ),
        target="high",
    ),
    Kind(
        "poisson_claims",
        2,
        lambda: make_pipeline(on(LABELS, ordinal()), histogram(loss="poisson")),
        target="count",
    ),
    Kind(
        "poisson_linear_prep",
        2,
        lambda: make_pipeline(
            ColumnTransformer(
                [
                    ("bins", KBinsDiscretizer(5, random_state=0), ["area"]),
                    ("log", make_pipeline(FunctionTransformer(np.log), StandardScaler()), ["fare"]),
                    ("labels", one_hot(), LABELS),
                ],
                remainder="drop",
            ),
            xgb(objective="count:poisson"),
        ),
        [*WHOLE, *LABELS],
        "count",
    ),
    Kind(
        "cyclical_sincos",
        2,
        lambda: make_pipeline(
            ColumnTransformer(
                [
                    ("sin", FunctionTransformer(lambda x: np.sin(x / 24 * 2 * np.pi)), ["hour"]),
                    ("cos", FunctionTransformer(lambda x: np.cos(x / 24 * 2 * np.pi)), ["hour"]),
                ],
                remainder="passthrough",
            ),
            histogram(),
        ),
        HOUR,
    ),
    Kind(
        "cyclical_spline",
        2,
        lambda: make_pipeline(
            on(["hour"], SplineTransformer(n_knots=5, extrapolation="periodic")), histogram()
        ),
        HOUR,
    ),
)

WRAPPERS = (
    Kind(
        "stacking_sk",
        3,
        lambda: trees.StackingRegressor(
            [("rf", make_pipeline(split(), forest())), ("gb", make_pipeline(split(), boosting()))],
            cv=2,
        ),
    ),
    Kind(
        "voting_reg_with_lr",
        3,
        lambda: trees.VotingRegressor(
            [("gb", boosting()), ("rf", forest()), ("lr", LinearRegression())]
        ),
        WHOLE,
    ),
    Kind(
        "voting_soft_boosters",
        3,
        lambda: trees.VotingClassifier(
            [("x", xgb_classifier()), ("l", lgb_classifier())], voting="soft"
        ),
        WHOLE,
        "high",
    ),
    Kind(
        "voting_hard",
        2,
        lambda: trees.VotingClassifier([("a", forest_classifier()), ("b", boosting_classifier())]),
        WHOLE,
        "high",
    ),
    Kind(
        "voting_reg_trees_pipelines",
        3,
        lambda: trees.VotingRegressor(
            [("rf", make_pipeline(split(), forest())), ("gb", make_pipeline(split(), boosting()))]
        ),
    ),
    Kind(
        "stacking_clf",
        2,
        lambda: trees.StackingClassifier(
            [("rf", forest_classifier()), ("gb", boosting_classifier())], LogisticRegression(), cv=2
        ),
        WHOLE,
        "high",
    ),
    Kind(
        "calibrated_rf_cv",
        3,
        lambda: CalibratedClassifierCV(forest_classifier(), cv=3),
        WHOLE,
        "high",
    ),
    Kind(
        "calibrated_xgb_prefit_style",
        2,
        xgb_classifier,
        NUMBERS,
        "high",
        calibrated_fitted,
    ),
    Kind(
        "calibrated_pipeline",
        2,
        lambda: CalibratedClassifierCV(
            make_pipeline(split(), boosting_classifier()), cv=2, ensemble=False
        ),
        target="high",
    ),
    Kind("multioutput_rf", 2, lambda: make_pipeline(split(), forest()), target=["price", "count"]),
    Kind(
        "multioutput_xgb_pipe",
        2,
        lambda: make_pipeline(split(), MultiOutputRegressor(xgb())),
        target=["price", "count"],
    ),
    Kind(
        "multioutput_clf",
        1,
        lambda: MultiOutputClassifier(forest_classifier()),
        WHOLE,
        ["high", "number of level"],
    ),
    Kind("ovr_gb", 1, lambda: OneVsRestClassifier(boosting_classifier()), WHOLE, "level"),
    Kind(
        "ttr_log1p",
        4,
        lambda: TransformedTargetRegressor(
            make_pipeline(split(), boosting()), func=np.log1p, inverse_func=np.expm1
        ),
    ),
    Kind(
        "ttr_power",
        2,
        lambda: TransformedTargetRegressor(
            make_pipeline(split(), boosting()), transformer=PowerTransformer()
        ),
    ),
    Kind(
        "tuned_threshold",
        1,
        lambda: TunedThresholdClassifierCV(boosting_classifier()),
        WHOLE,
        "high",
    ),
    Kind(
        "fixedthreshold",
        1,
        lambda: FixedThresholdClassifier(boosting_classifier(), threshold=0.3),
        WHOLE,
        "high",
    ),
    Kind(
        "halving",
        1,
        lambda: HalvingGridSearchCV(
            make_pipeline(split(), forest_classifier()), SEARCHED, cv=2, random_state=0
        ),
        target="high",
    ),
    Kind(
        "adaboost",
        2,
        lambda: trees.AdaBoostClassifier(n_estimators=10, random_state=0),
        WHOLE,
        "high",
    ),
    Kind(
        "bagging_dt",
        1,
        lambda: trees.BaggingRegressor(DecisionTreeRegressor(max_depth=4), 5),
        WHOLE,
    ),
    Kind("bagging_xgb_clf", 1, lambda: trees.BaggingClassifier(xgb_classifier(), 3), WHOLE, "high"),
)

SELECTED = (
    Kind(
        "select_from_model",
        4,
        lambda: make_pipeline(split(), SelectFromModel(forest_classifier()), xgb_classifier()),
        target="high",
    ),
    Kind(
        "selectkbest",
        3,
        lambda: make_pipeline(split(), SelectKBest(k=5), forest_classifier()),
        target="high",
    ),
    Kind("rfe", 2, lambda: make_pipeline(RFE(forest(), n_features_to_select=2), boosting()), WHOLE),
    Kind("rfecv_itself", 2, lambda: RFECV(forest(), cv=2), WHOLE),
    Kind("varthresh", 2, lambda: make_pipeline(VarianceThreshold(), boosting()), WHOLE),
    Kind("slice_select", 1, lambda: make_pipeline(split(), SelectKBest(k=5), forest())[:], MIXED),
)

FILLED = (
    Kind("knn_imputer", 3, lambda: make_pipeline(KNNImputer(), forest()), NUMBERS),
    Kind("iterative_imputer", 3, lambda: make_pipeline(IterativeImputer(), forest()), NUMBERS),
    Kind(
        "missing_indicator",
        1,
        lambda: make_pipeline(
            FeatureUnion([("fill", SimpleImputer()), ("is missing", MissingIndicator())]), forest()
        ),
        NUMBERS,
    ),
)

MIXING = (
    Kind("pca_rf", 4, lambda: make_pipeline(StandardScaler(), PCA(2), forest()), WHOLE),
    Kind("poly", 2, lambda: make_pipeline(PolynomialFeatures(2), xgb()), WHOLE),
    Kind(
        "poly_interaction_unused",
        1,
        lambda: make_pipeline(
            PolynomialFeatures(2, interaction_only=True), DecisionTreeRegressor(max_depth=3)
        ),
        WHOLE,
    ),
    Kind(
        "poly_single_column",
        1,
        lambda: make_pipeline(
            ColumnTransformer(
                [("p", PolynomialFeatures(3), ["area"]), ("n", "passthrough", ["fare"])]
            ),
            forest(),
        ),
        WHOLE,
    ),
    Kind(
        "kmeans_feat",
        1,
        lambda: make_pipeline(
            FeatureUnion([("s", StandardScaler()), ("k", KMeans(3, n_init=1, random_state=0))]),
            forest(),
        ),
        WHOLE,
    ),
    Kind(
        "random_trees_embedding",
        1,
        lambda: make_pipeline(trees.RandomTreesEmbedding(3, max_depth=2, random_state=0), forest()),
        WHOLE,
    ),
    Kind("normalizer", 1, lambda: make_pipeline(Normalizer(), forest()), WHOLE),
)

TEXTS = (
    Kind(
        "tfidf",
        4,
        lambda: make_pipeline(TfidfVectorizer(), forest_classifier()),
        ["text"],
        "high",
        lambda model, X, y: model.fit(X["text"], y),
    ),
    Kind(
        "tfidf_mixed",
        3,
        lambda: make_pipeline(
            ColumnTransformer(
                [("t", TfidfVectorizer(), "text"), ("c", one_hot(), ["city"])],
                remainder="passthrough",
            ),
            xgb_classifier(),
        ),
        ["text", "city", "fare"],
        "high",
    ),
)

OWN = (
    Kind(
        "custom_transformer_ratio",
        8,
        lambda: make_pipeline(Ratio(), split(remainder="passthrough"), forest_classifier()),
        target="high",
    ),
    Kind("custom_transformer_dates", 4, lambda: make_pipeline(DateParts(), xgb()), DATED),
    Kind(
        "functiontransformer_df_dates",
        3,
        lambda: make_pipeline(FunctionTransformer(date_parts), lgb()),
        DATED,
    ),
    Kind("custom_drop", 3, lambda: make_pipeline(Drop(), forest()), WHOLE),
    Kind("custom_clip", 3, lambda: make_pipeline(SimpleImputer(), Outlier(), forest()), NUMBERS),
    Kind(
        "ft_to_category",
        2,
        lambda: make_pipeline(FunctionTransformer(as_categories), lgb()),
    ),
    Kind(
        "handson_housing",
        4,
        lambda: make_pipeline(
            ColumnTransformer(
                [
                    (
                        "ratio",
                        filled(
                            FunctionTransformer(
                                column_ratio,
                                feature_names_out=lambda self, names: ["ratio"],
                            ),
                            StandardScaler(),
                        ),
                        ["income", "area"],
                    ),
                    ("log", filled(FunctionTransformer(np.log), StandardScaler()), ["fare"]),
                    ("near", Nearness(), ["fare", "area"]),
                    (
                        "cat",
                        make_pipeline(SimpleImputer(strategy="most_frequent"), one_hot()),
                        make_column_selector(dtype_exclude=np.number),
                    ),
                ],
                remainder=filled(StandardScaler()),
            ),
            forest(),
        ),
    ),
    Kind(
        "log1p_num",
        3,
        lambda: make_pipeline(
            split(make_pipeline(SimpleImputer(), FunctionTransformer(np.log1p))), forest()
        ),
    ),
)

TYPES = (
    Kind(
        "ordinal_explicit",
        2,
        lambda: make_pipeline(
            on(["plan"], OrdinalEncoder(categories=[["free", "basic", "gold"]])), forest()
        ),
        ["fare", "plan"],
    ),
    Kind(
        "set_output_pandas_lgb_cat",
        2,
        lambda: make_pipeline(
            split(SimpleImputer(), ordinal(), verbose_feature_names_out=False).set_output(
                transform="pandas"
            ),
            lgb(),
        ),
        fit=lambda model, X, y: model.fit(X, y, lgbmregressor__categorical_feature=LABELS),
    ),
    Kind(
        "xgb_enable_categorical_pipe",
        3,
        lambda: make_pipeline(
            ColumnTransformer(
                [("n", SimpleImputer(), NUMBERS)],
                remainder="passthrough",
                verbose_feature_names_out=False,
            ).set_output(transform="pandas"),
            xgb(enable_categorical=True),
        ),
        as_taken=as_categories,
    ),
    Kind("catboost_default_cats", 4, lambda: cat(cat_features=LABELS)),
    Kind("catboost_numeric_pipe", 4, lambda: make_pipeline(split(), cat())),
    Kind(
        "labels_str_target",
        2,
        lambda: make_pipeline(split(), forest_classifier()),
        target="level",
    ),
    Kind(
        "xgb_multiclass_pipe",
        2,
        lambda: make_pipeline(split(), xgb_classifier()),
        target="number of level",
    ),
    Kind(
        "bool_onehot_ifbinary",
        1,
        lambda: make_pipeline(on(["member"], OneHotEncoder(drop="if_binary")), forest()),
        ["member", "fare"],
    ),
    Kind("empty_pipeline_none", 1, lambda: Pipeline([("none", None), ("f", forest())]), WHOLE),
    Kind(
        "integer_cats_onehot",
        2,
        lambda: make_pipeline(on(["code", "rooms"], one_hot()), xgb()),
        ["code", "rooms", "fare"],
    ),
    Kind(
        "xgbrf", 1, lambda: make_pipeline(split(), lib("xgboost").XGBRFRegressor(10, max_depth=3))
    ),
    Kind(
        "numpy_input_ct_idx",
        2,
        lambda: make_pipeline(
            ColumnTransformer([("s", StandardScaler(), [0, 2])], remainder="passthrough"), forest()
        ),
        WHOLE,
        as_taken=lambda X: X.to_numpy(),
    ),
    Kind(
        "multilabel_rf",
        1,
        lambda: make_pipeline(split(), forest_classifier()),
        target=["high", "is top"],
    ),
)

SCALED = (
    Kind(
        "quantile_uniform",
        1,
        lambda: make_pipeline(QuantileTransformer(n_quantiles=50), xgb()),
        WHOLE,
    ),
    Kind("power", 1, lambda: make_pipeline(PowerTransformer(), forest()), NUMBERS),
    Kind(
        "binarizer_union",
        1,
        lambda: make_pipeline(
            FeatureUnion(
                [
                    ("b", Binarizer(threshold=20.0)),
                    ("r", RobustScaler()),
                    ("m", make_pipeline(MinMaxScaler(), MaxAbsScaler())),
                ]
            ),
            forest(),
        ),
        WHOLE,
    ),
)


def sampled(module: str, name: str) -> Any:
    """Return an ensemble of imbalanced-learn."""
    return getattr(lib(module), name)(n_estimators=3, random_state=0)


IMBALANCED = (
    Kind(
        "smote_rf",
        3,
        lambda: lib("imblearn.pipeline").make_pipeline(
            split(), lib("imblearn.over_sampling").SMOTE(random_state=0), forest_classifier()
        ),
        target="high",
    ),
    Kind(
        "balanced_rf",
        2,
        lambda: make_pipeline(
            split(), lib("imblearn.ensemble").BalancedRandomForestClassifier(5, max_depth=4)
        ),
        target="high",
    ),
    Kind(
        "easy_ensemble",
        1,
        lambda: sampled("imblearn.ensemble", "EasyEnsembleClassifier"),
        WHOLE,
        "high",
    ),
    Kind("rusboost", 1, lambda: sampled("imblearn.ensemble", "RUSBoostClassifier"), WHOLE, "high"),
)

ENCODED = (
    Kind("ce_target_lgb", 3, lambda: make_pipeline(encoder("TargetEncoder"), lgb())),
    Kind("ce_catboost", 1, lambda: make_pipeline(encoder("CatBoostEncoder"), xgb())),
    Kind(
        "ce_woe", 1, lambda: make_pipeline(encoder("WOEEncoder"), xgb_classifier()), target="high"
    ),
    Kind("ce_loo", 1, lambda: make_pipeline(encoder("LeaveOneOutEncoder"), xgb())),
    Kind("ce_count", 1, lambda: make_pipeline(encoder("CountEncoder"), xgb())),
    Kind("ce_binary", 1, lambda: make_pipeline(encoder("BinaryEncoder"), xgb())),
    Kind("ce_hash", 1, lambda: make_pipeline(encoder("HashingEncoder", max_process=1), xgb())),
    Kind(
        "ce_in_ct",
        1,
        lambda: make_pipeline(split(labels=encoder("TargetEncoder")), xgb()),
    ),
)


def engine(module: str, name: str, **options: Any) -> Any:
    """Return a transformer of feature_engine."""
    return getattr(lib(f"feature_engine.{module}"), name)(**options)


OTHER_LIBRARIES = (
    Kind(
        "fe_basic",
        2,
        lambda: Pipeline(
            [
                ("i", engine("imputation", "MeanMedianImputer", variables=["age"])),
                ("r", engine("encoding", "RareLabelEncoder", n_categories=2)),
                ("e", engine("encoding", "OrdinalEncoder", unseen="encode")),
                ("m", forest()),
            ]
        ),
    ),
    Kind(
        "fe_transform",
        1,
        lambda: Pipeline(
            [
                ("w", engine("outliers", "Winsorizer", variables=["fare"])),
                ("l", engine("transformation", "LogTransformer", variables=["income"])),
                ("m", forest()),
            ]
        ),
        WHOLE,
    ),
    Kind(
        "fe_wrapper",
        1,
        lambda: Pipeline(
            [
                (
                    "s",
                    engine(
                        "wrappers",
                        "SklearnTransformerWrapper",
                        transformer=StandardScaler(),
                        variables=["fare", "area"],
                    ),
                ),
                ("m", forest()),
            ]
        ),
        WHOLE,
    ),
    Kind(
        "fe_datetime",
        1,
        lambda: Pipeline([("d", engine("datetime", "DatetimeFeatures")), ("m", forest())]),
        DATED,
    ),
    Kind(
        "skrub_tv",
        3,
        lambda: make_pipeline(lib("skrub").TableVectorizer(), histogram()),
        [*MIXED, "day"],
    ),
    Kind("skrub_tabular", 2, lambda: lib("skrub").tabular_pipeline(histogram()), [*MIXED, "day"]),
    Kind(
        "skrub_lowcard",
        1,
        lambda: make_pipeline(
            lib("skrub").TableVectorizer(low_cardinality=ordinal()), forest_classifier()
        ),
        [*WHOLE, *LABELS],
        "high",
    ),
    Kind("ngb", 1, lambda: lib("ngboost").NGBRegressor(n_estimators=10, verbose=False), WHOLE),
    Kind("ebm_pipe", 2, lambda: make_pipeline(StandardScaler(), machine()), WHOLE),
    Kind("ebm_pipe_onehot", 1, lambda: make_pipeline(split(sparse_threshold=0), machine())),
)


def machine() -> Any:
    """Return a small explainable boosting machine."""
    glassbox = lib("interpret.glassbox")
    return glassbox.ExplainableBoostingRegressor(max_rounds=20, outer_bags=2, n_jobs=1)


KINDS = (
    *BASIC,
    *WRAPPERS,
    *SELECTED,
    *FILLED,
    *MIXING,
    *TEXTS,
    *OWN,
    *TYPES,
    *SCALED,
    *IMBALANCED,
    *ENCODED,
    *OTHER_LIBRARIES,
)


def own_prediction(model: Any, X: Any) -> np.ndarray:
    """Return the probabilities of a classifier, or the numbers that a regressor predicts."""
    if not hasattr(model, "predict_proba"):
        return np.asarray(model.predict(X), dtype=float)
    answer = model.predict_proba(X)
    return np.hstack(answer) if isinstance(answer, list) else np.asarray(answer)


def difference(effects: tp.Decomposition, model: Any, X: Any, expected: np.ndarray) -> float:
    """Return the largest difference of predictions, relative to the largest prediction.

    Where no response follows from the margin, the margins are compared.
    """
    if effects.link.name == "unknown":
        return effects.verify(model, X).relative_difference
    got = effects.predict(X, scale="response")
    expected = expected[:, 1:] if expected.ndim == 2 and got.size < expected.size else expected
    return float(np.max(np.abs(got.reshape(expected.shape) - expected)) / np.max(np.abs(expected)))


def survey(kind: Kind) -> tuple[str, str]:
    """Return what becomes of a kind, and the difference or the reason of a refusal."""
    X, y = made_up(N_TRAINING, seed=0)
    try:
        model = kind.fit(kind.make(), kind.rows(X), y[kind.target])
    except ImportError as error:
        return "skipped", str(error)
    rows = kind.rows(made_up(N_NEW, seed=1)[0])
    expected = own_prediction(model, rows["text"] if kind.name == "tfidf" else rows)
    try:
        effects = tp.purify(model, kind.rows(X), progress=False)
        largest = difference(effects, model, rows, expected)
    except ModelMismatchError as error:
        return "wrong", str(error)
    except TreepurifyError as error:
        return "refused", str(error)
    is_derived = any(spec.made_from for spec in effects.inputs.features)
    how = "derived columns" if is_derived else "raw columns"
    return how if largest < LARGEST_DIFFERENCE else "wrong", f"{largest:.1e}"


def main() -> None:
    """Print a line for each kind, and counts."""
    words = sys.argv[1:]
    kinds = [kind for kind in KINDS if not words or any(word in kind.name for word in words)]
    counts: Counter[str] = Counter()
    weights: Counter[str] = Counter()
    for kind in kinds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome, detail = survey(kind)
        counts[outcome] += 1
        weights[outcome] += kind.commonness
        print(f"{kind.name:<29} [{kind.commonness}] {outcome:<22} {detail}", flush=True)
    print(f"\n{'of ' + str(len(kinds)) + ' kinds':<24} {'kinds':>5} {'by commonness':>14}")
    for outcome, count in counts.most_common():
        print(f"{outcome:<24} {count:>5} {weights[outcome]:>14}")


if __name__ == "__main__":
    main()
