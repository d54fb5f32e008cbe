"""Transformers of numbers: rows on both sides of each raw cut fall where the pipeline puts them."""

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

import treepurify as tp
from tests.models.pipelines.cases import (
    FAMILIES,
    NUMBERS,
    check_composed,
    columns,
    dense_one_hot,
    filled,
    make_data,
    xgb,
)
from treepurify.errors import UnsupportedModelError

TRANSFORMERS = {
    "standard": StandardScaler,
    "min-max": MinMaxScaler,
    "clipped": lambda: MinMaxScaler(clip=True),
    "max-abs": MaxAbsScaler,
    "robust": RobustScaler,
    "quantile": lambda: QuantileTransformer(n_quantiles=50),
    "normal": lambda: QuantileTransformer(n_quantiles=50, output_distribution="normal"),
    "power": PowerTransformer,
    "bins": lambda: KBinsDiscretizer(5, encode="ordinal", strategy="kmeans"),
    "one-hot bins": lambda: KBinsDiscretizer(5, encode="onehot-dense", strategy="uniform"),
    "binarizer": lambda: Binarizer(threshold=12),
    "square": lambda: FunctionTransformer(np.square),
    "negative": lambda: FunctionTransformer(np.negative),
    "distance": lambda: make_pipeline(StandardScaler(), FunctionTransformer(np.abs)),
    "nothing": FunctionTransformer,
    "power, then scaled": lambda: make_pipeline(PowerTransformer(), MinMaxScaler()),
    "encoded bins": lambda: make_pipeline(
        KBinsDiscretizer(5, encode="ordinal", strategy="uniform"),
        OneHotEncoder(sparse_output=False),
    ),
    "hole": lambda: SimpleImputer(missing_values=3.0, add_indicator=True),
}


# What takes infinite numbers: all else refuses them.
INFINITE = {
    "as they are": lambda: ColumnTransformer([("n", "passthrough", NUMBERS)]),
    "nothing": FunctionTransformer,
    "exp": lambda: make_pipeline(
        FunctionTransformer(np.negative), FunctionTransformer(np.exp, validate=False)
    ),
    "cube root": lambda: FunctionTransformer(np.cbrt),
    "tangent": lambda: FunctionTransformer(np.arctan),
    "logarithm": lambda: FunctionTransformer(np.log1p),
    "square": lambda: FunctionTransformer(np.square),
    "distance": lambda: FunctionTransformer(np.abs),
    "twice": lambda: FeatureUnion([("a", "passthrough"), ("b", FunctionTransformer(np.negative))]),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_filled_numbers(family, name):
    X, y = make_data(missing=["age"])
    step = columns(filled(TRANSFORMERS[name]()), dense_one_hot())
    check_composed(make_pipeline(step, FAMILIES[family][0]()), X, y)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_sparse_columns_have_absent_zeros(name):
    X, y = make_data(missing=["age"])
    step = columns(filled(TRANSFORMERS[name]()), OneHotEncoder(handle_unknown="ignore"))
    step.set_params(sparse_threshold=1.0)
    check_composed(make_pipeline(step, xgb()), X, y)
    assert step.sparse_output_


@pytest.mark.parametrize("family", ["xgboost", "lightgbm", "catboost", "forest", "histogram"])
@pytest.mark.parametrize(
    "step",
    [
        StandardScaler(),
        "passthrough",
        FunctionTransformer(np.log1p),
        FunctionTransformer(np.sqrt),
        SimpleImputer(add_indicator=True),
        SimpleImputer(strategy="constant", fill_value=-999, add_indicator=True),
        filled(StandardScaler(), add_indicator=True),
        MissingIndicator(features="all"),
        FeatureUnion([("a", StandardScaler()), ("b", MissingIndicator(features="all"))]),
    ],
    ids=["scaled", "as it is", "log1p", "sqrt", "indicator", "constant", "both", "only", "union"],
)
def test_missing_numbers(family, step):
    function = getattr(step, "func", None)
    if family == "forest" and function is np.log1p:
        pytest.skip("the logarithm of 0 is infinite, which the model refuses")
    X, y = make_data(missing=["age", "income"])
    check_composed(make_pipeline(columns(step, dense_one_hot()), FAMILIES[family][0]()), X, y)


def test_an_indicator_that_refuses_new_missing_values():
    X, y = make_data(missing=["age"])
    X = X[NUMBERS]
    union = FeatureUnion([("a", SimpleImputer()), ("b", MissingIndicator())])
    pipeline = make_pipeline(union, FAMILIES["forest"][0]()).fit(X, y + 9 * X["age"].isna())
    margin = tp.parse_model(pipeline).margin(X)[:, 0]
    np.testing.assert_allclose(margin, pipeline.predict(X), rtol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["standard", "min-max", "quantile", "power", "square"])
def test_single_precision(name, family):
    X, y = make_data()
    X = X[NUMBERS].astype(np.float32)
    check_composed(make_pipeline(filled(TRANSFORMERS[name]()), FAMILIES[family][0]()), X, y)


@pytest.mark.parametrize("function", [np.cbrt, np.exp, np.arctan])
def test_neighbours_of_numbers_at_which_a_split_is(function):
    """Some libraries round a cube root down right beside a number where they round it up."""
    rng = np.random.default_rng(0)
    X = rng.lognormal(size=(600, 1))
    model = FAMILIES["histogram"][0]()
    pipeline = make_pipeline(FunctionTransformer(function), model).fit(X, np.log(X[:, 0]))
    beside = X.view(np.int64) + np.arange(-12, 13)
    rows = beside.view(np.float64).reshape(-1, 1)
    margin = tp.parse_model(pipeline, X=X).margin(rows)[:, 0]
    np.testing.assert_allclose(margin, pipeline.predict(rows), rtol=1e-12)


@pytest.mark.parametrize("family", ["xgboost", "lightgbm", "catboost", "histogram"])
@pytest.mark.parametrize("name", INFINITE)
def test_infinite_numbers(name, family):
    """Infinite raw numbers, one column after the other, fall where the pipeline puts them."""
    X, y = make_data()
    X = X[NUMBERS]
    pipeline = make_pipeline(INFINITE[name](), FAMILIES[family][0]()).fit(X, y)
    ensemble = tp.parse_model(pipeline, X=X)
    for column in NUMBERS:
        for infinite in (np.inf, -np.inf):
            rows = X.assign(**{column: infinite})
            with np.errstate(invalid="ignore", divide="ignore"):
                own = pipeline.predict(rows)
            np.testing.assert_allclose(ensemble.margin(rows)[:, 0], own, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_have_positions_for_names(dtype):
    X, y = make_data()
    array = X[NUMBERS].to_numpy(dtype)
    pipeline = make_pipeline(StandardScaler(), xgb()).fit(array, y)
    ensemble = tp.parse_model(pipeline, X=array)
    cuts = [np.unique(ensemble.cut[ensemble.feature == j]).astype(dtype) for j in range(3)]
    rng = np.random.default_rng(0)
    rows = np.column_stack(
        [
            np.nextafter(rng.choice(c, 2000), rng.choice([-np.inf, np.inf], 2000).astype(dtype))
            for c in cuts
        ]
    )
    assert ensemble.feature_names == ("x0", "x1", "x2")
    np.testing.assert_array_equal(ensemble.margin(rows)[:, 0], pipeline.predict(rows))


@pytest.mark.parametrize("family", FAMILIES)
def test_box_cox_takes_positive_numbers_only(family):
    X, y = make_data()
    step = ColumnTransformer(
        [("b", PowerTransformer(method="box-cox"), ["income"]), ("r", "passthrough", ["rooms"])]
    )
    model = make_pipeline(step, FAMILIES[family][0]())
    check_composed(model, X[["income", "rooms"]], y, missing=False)


@pytest.mark.parametrize("sparse", [False, True])
def test_numbers_encoded_by_value(sparse):
    X, y = make_data()
    step = ColumnTransformer(
        [
            ("n", "passthrough", ["age", "income"]),
            ("r", OneHotEncoder(handle_unknown="ignore", sparse_output=sparse), ["rooms"]),
        ],
        sparse_threshold=float(sparse),
    )
    ensemble = check_composed(make_pipeline(step, xgb()), X[NUMBERS], y)
    assert ensemble.features[2].categories == (0.0, 1.0, 2.0, 3.0, 4.0)


def test_numbers_as_they_are_and_by_value():
    X, y = make_data()
    encoded = ColumnTransformer([("r", OneHotEncoder(handle_unknown="ignore"), ["rooms"])])
    y = y + 3.0 * (X.rooms == 2)
    step = FeatureUnion([("n", "passthrough"), ("r", encoded)])
    ensemble = check_composed(make_pipeline(step, xgb()), X[NUMBERS], y)
    assert not ensemble.features[2].is_categorical


def test_an_unknown_function_is_refused_by_name():
    X, y = make_data()
    step = FunctionTransformer(lambda x: x + 1)
    with pytest.raises(UnsupportedModelError, match=r"functiontransformer.*<lambda>.*numpy.log1p"):
        tp.parse_model(make_pipeline(step, xgb()).fit(X[NUMBERS], y), "raw")
