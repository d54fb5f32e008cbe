"""scikit-learn's histogram-based gradient boosting against the library itself."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from tests.cases import rows_beside_cuts
from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.links import Link
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.sklearn import parse, raw_margin

N_ROWS = 400
CODES = np.array([0.0, 3.0, 4.0, 7.0, 11.0, 40.0])


def _data() -> tuple[np.ndarray, np.ndarray]:
    """Numeric, coded, numeric, coded; both kinds with missing values."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N_ROWS, 4))
    X[:, 1] = rng.choice(CODES, N_ROWS)
    X[:, 3] = rng.integers(0, 3, N_ROWS)
    X[rng.random(N_ROWS) < 0.2, 0] = np.nan
    X[rng.random(N_ROWS) < 0.2, 3] = np.nan
    effect = np.where(np.isin(X[:, 1], [3.0, 11.0]), 2.0, -1.0)
    y = np.nan_to_num(X[:, 0], nan=1.5) * effect + np.abs(X[:, 2]) + np.nan_to_num(X[:, 3], nan=-2)
    return X, y + 0.1 * rng.normal(size=N_ROWS)


X, Y = _data()
TWO = np.where(np.median(Y) < Y, "yes", "no")
THREE = np.digitize(Y, [-1.0, 1.5]) * 10
WEIGHTS = np.random.default_rng(6).exponential(size=N_ROWS)
SMALL = {"max_iter": 12, "min_samples_leaf": 5, "random_state": 0}


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    # Starting threads takes far longer than growing these small trees.
    with threadpool_limits(1):
        yield


def _assert_equal(model, rows: np.ndarray | None = None) -> TreeEnsemble:
    ensemble = parse(model)
    if rows is None:
        rows = rows_beside_cuts(ensemble, 1000)
    np.testing.assert_array_equal(ensemble.margin(rows), raw_margin(model, rows), strict=True)
    return ensemble


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_leaf_nodes": None, "max_depth": 3},
        {"max_bins": 5},
        {"interaction_cst": "pairwise"},
        {"monotonic_cst": [1, 0, 0, -1]},
        {"loss": "absolute_error"},
        {"loss": "quantile", "quantile": 0.8},
        {"early_stopping": True, "n_iter_no_change": 1, "max_iter": 200, "tol": 0.05},
    ],
)
def test_regressor(options):
    model = HistGradientBoostingRegressor(**{**SMALL, **options})
    ensemble = _assert_equal(model.fit(X, Y, sample_weight=WEIGHTS))
    assert ensemble.n_trees == model.n_iter_
    assert ensemble.link == Link()
    np.testing.assert_array_equal(ensemble.margin(X)[:, 0], model.predict(X))


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_regressor_with_a_log_link(loss):
    model = HistGradientBoostingRegressor(loss=loss, **SMALL).fit(X, np.exp(Y / 4))
    ensemble = _assert_equal(model)
    assert ensemble.link == Link("log")
    np.testing.assert_allclose(ensemble.link.inverse(ensemble.margin(X))[:, 0], model.predict(X))


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_two_classes(class_weight):
    model = HistGradientBoostingClassifier(class_weight=class_weight, **SMALL).fit(X, TWO)
    ensemble = _assert_equal(model)
    assert ensemble.output_names == ("yes",)
    assert ensemble.link == Link("logit")
    np.testing.assert_array_equal(ensemble.margin(X)[:, 0], model.decision_function(X))


def test_three_classes():
    model = HistGradientBoostingClassifier(**SMALL).fit(X, THREE)
    ensemble = _assert_equal(model)
    assert ensemble.output_names == ("0", "10", "20")
    assert ensemble.n_trees == 3 * model.n_iter_
    probability = ensemble.link.inverse(ensemble.margin(X))
    np.testing.assert_allclose(probability, model.predict_proba(X), rtol=1e-12)


def test_single_class():
    model = HistGradientBoostingClassifier(**SMALL).fit(X, np.full(N_ROWS, "only"))
    assert _assert_equal(model).output_names == ("only",)


def test_constant_target_gives_single_leaves():
    ensemble = _assert_equal(HistGradientBoostingRegressor(**SMALL).fit(X, np.full(N_ROWS, 2.5)))
    assert len(ensemble.feature) == ensemble.n_trees == 12


def test_missing_values_are_reported_where_a_split_proves_them():
    model = HistGradientBoostingRegressor(**{**SMALL, "max_iter": 60}).fit(X, Y)
    seen = [spec.has_missing for spec in _assert_equal(model).features]
    assert seen == [True, False, False, True]


def test_split_that_parts_missing_values_from_all_others():
    rows = np.where(np.arange(60)[:, None] % 2, np.nan, 1.0 + np.arange(60)[:, None])
    target = np.arange(60) % 2
    model = HistGradientBoostingRegressor(max_iter=2, min_samples_leaf=5).fit(rows, target)
    assert np.isinf(model._predictors[0][0].nodes["num_threshold"][0])
    ensemble = _assert_equal(model, np.array([[np.inf], [-np.inf], [1e300], [np.nan]]))
    assert ensemble.features[0].has_missing


# scikit-learn itself warns where it computes quantiles of infinite values.
IGNORE_INFINITE = pytest.mark.filterwarnings("ignore:(invalid value|overflow) enc:RuntimeWarning")


@IGNORE_INFINITE
def test_infinite_training_values():
    rows = X.copy()
    rows[::7, 2], rows[1::7, 2] = np.inf, -np.inf
    _assert_equal(HistGradientBoostingRegressor(**SMALL).fit(rows, Y))


def test_threshold_that_is_not_a_number_sends_every_value_right():
    model = HistGradientBoostingRegressor(**SMALL).fit(X, Y)
    nodes = model._predictors[0][0].nodes
    nodes["num_threshold"][0] = np.nan
    _assert_equal(model)


# --- categories ----------------------------------------------------------------------------


@pytest.mark.parametrize("features", [[1, 3], [False, True, False, True], [1]])
@pytest.mark.parametrize("target", [Y, THREE], ids=["regressor", "classifier"])
def test_categories_in_an_array(features, target):
    kind = HistGradientBoostingRegressor if target is Y else HistGradientBoostingClassifier
    model = kind(categorical_features=features, **SMALL).fit(X, target)
    ensemble = parse(model)
    rows = _labelled_rows(ensemble, X)
    _assert_equal(model, rows)
    assert np.any(ensemble.category_ptr >= 0)
    spec = ensemble.features[1]
    assert (spec.kind, spec.n_codes, spec.numbers_are) == ("categorical", 6, "labels")
    assert spec.categories == tuple(CODES)
    assert ensemble.features[0].kind == ensemble.features[2].kind == "numeric"


def _labelled_rows(ensemble: TreeEnsemble, training: np.ndarray) -> np.ndarray:
    """Rows beside cuts, with known, unknown and fractional labels in categorical columns."""
    rows = rows_beside_cuts(ensemble, 1000)
    rng = np.random.default_rng(8)
    for j, spec in enumerate(ensemble.features):
        if spec.is_categorical:
            pool = [*np.unique(training[:, j]), -1.0, 0.5, 1.0, 99.0, 300.0, 259.0, np.nan]
            rows[:, j] = rng.choice(pool, len(rows))
    return rows


def test_unknown_categories_go_where_missing_values_go():
    model = HistGradientBoostingRegressor(categorical_features=[1, 3], **SMALL).fit(X, Y)
    ensemble = parse(model)
    rows = np.repeat(X[:50], 2, axis=0)
    rows[0::2, 3], rows[1::2, 3] = np.nan, 17.0
    margin = _assert_equal(model, rows).margin(rows)
    np.testing.assert_array_equal(margin[0::2], margin[1::2])
    nodes = np.flatnonzero(ensemble.category_ptr >= 0)
    n_codes = np.array([spec.n_codes for spec in ensemble.features])[ensemble.feature[nodes]]
    unknown = ensemble.category_left[ensemble.category_ptr[nodes] + n_codes]
    np.testing.assert_array_equal(unknown, ensemble.missing_left[nodes])


def _table() -> pd.DataFrame:
    words = np.array(["red", "green", "blue", "3", "x y", "é"])
    return pd.DataFrame(
        {
            "size": X[:, 0],
            "colour": pd.Categorical(words[np.searchsorted(CODES, X[:, 1])]),
            "weight": X[:, 2],
            "grade": pd.Categorical(np.array([30, 10, 20, None], dtype=object)[
                np.where(np.isnan(X[:, 3]), 3, X[:, 3]).astype(int)
            ]),
            "flag": pd.Categorical(X[:, 2] > 0.3),
        }
    )  # fmt: skip


def test_categories_from_a_table():
    table = _table()
    model = HistGradientBoostingRegressor(categorical_features="from_dtype", **SMALL).fit(table, Y)
    ensemble = parse(model)
    assert ensemble.feature_names == ("size", "colour", "weight", "grade", "flag")
    kinds = [spec.kind for spec in ensemble.features]
    assert kinds == ["numeric", "categorical", "numeric", "categorical", "categorical"]
    assert ensemble.features[1].categories == tuple(sorted(table["colour"].cat.categories))
    assert ensemble.features[3].categories == (10, 20, 30)
    assert ensemble.features[3].has_missing
    np.testing.assert_array_equal(ensemble.margin(table), raw_margin(model, table))
    assert np.any(ensemble.category_ptr >= 0)


def test_categories_from_a_table_in_another_order_with_unseen_levels():
    table = _table()
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", **SMALL)
    model.fit(table, THREE)
    new = table.sample(frac=1.0, random_state=0)
    new["colour"] = new["colour"].cat.add_categories(["violet"]).cat.reorder_categories(
        ["violet", "é", "x y", "red", "3", "blue", "green"]
    )  # fmt: skip
    new.loc[new.index[:80], "colour"] = "violet"
    new.loc[new.index[80:120], "colour"] = None
    ensemble = parse(model)
    np.testing.assert_array_equal(ensemble.margin(new), raw_margin(model, new))
    shuffled = new[["flag", "weight", "colour", "grade", "size"]]
    np.testing.assert_array_equal(ensemble.margin(shuffled), raw_margin(model, new))
    np.testing.assert_array_equal(raw_margin(model, shuffled), raw_margin(model, new))


def test_categories_by_name_and_as_text():
    table = _table().astype({"colour": object})
    model = HistGradientBoostingRegressor(categorical_features=["colour", "grade"], **SMALL)
    table["flag"] = table["flag"].astype(float)
    model.fit(table, Y)
    new = table.copy()
    new.loc[:60, "colour"] = "violet"
    new.loc[60:90, "colour"] = None
    np.testing.assert_array_equal(parse(model).margin(new), raw_margin(model, new))


def test_as_many_categories_as_there_can_be():
    rng = np.random.default_rng(9)
    rows = np.column_stack([rng.permutation(np.arange(1020) % 255), rng.normal(size=1020)])
    target = np.sin(rows[:, 0]) + rows[:, 1]
    model = HistGradientBoostingRegressor(
        categorical_features=[0], max_iter=5, min_samples_leaf=2, random_state=0
    ).fit(rows, target)
    ensemble = parse(model)
    assert ensemble.features[0].n_codes == 255
    _assert_equal(model, _labelled_rows(ensemble, rows))


@pytest.mark.parametrize("only", [[5.0, np.nan], [np.nan, np.nan]], ids=["one", "none"])
def test_hardly_any_categories(only):
    rows = X.copy()
    rows[:, 3] = np.where(np.isnan(X[:, 3]), only[1], only[0])
    model = HistGradientBoostingRegressor(categorical_features=[1, 3], **SMALL).fit(rows, Y)
    ensemble = parse(model)
    assert ensemble.features[3].is_categorical
    assert ensemble.features[3].n_codes == (0 if np.isnan(only[0]) else 1)
    _assert_equal(model, _labelled_rows(ensemble, rows))


def test_layout_before_version_1_4_where_categories_are_codes():
    # With the categorical column first and labels 0, 1, ..., the encoder changes nothing.
    rows = np.column_stack([np.searchsorted(CODES, X[:, 1]), X[:, [0, 2]]])
    model = HistGradientBoostingRegressor(categorical_features=[0], **SMALL).fit(rows, Y)
    expected = model.predict(rows)
    # Codes 2, 3, ... become 3, 4, ..., so that no training row has code 2.
    for iteration in model._predictors:
        words = iteration[0].raw_left_cat_bitsets
        words[:, 0] = (words[:, 0] & 3) | (words[:, 0] >> 2) << 3
    thresholds = model._bin_mapper.bin_thresholds_
    thresholds[0] = thresholds[0] + (thresholds[0] >= 2)
    model._preprocessor = None
    rows[:, 0] += rows[:, 0] >= 2
    ensemble = _assert_equal(model)
    np.testing.assert_array_equal(ensemble.margin(rows)[:, 0], expected)
    spec = ensemble.features[0]
    assert (spec.kind, spec.n_codes, spec.numbers_are) == ("categorical", 7, "codes")


# --- drawn models ------------------------------------------------------------------------

drawn_values = st.one_of(
    st.floats(-2, 2),
    st.sampled_from([0.0, -0.0, 5e-324, 1e-300, 1e300, 1.7e308, -1e38, np.inf, -np.inf, np.nan]),
    st.integers(-3, 3).map(float),
)


@st.composite
def drawn_models(draw):
    """A fitted model on awkward rows; the last column is categorical in half of them."""
    classify = draw(st.booleans())
    kind = HistGradientBoostingClassifier if classify else HistGradientBoostingRegressor
    n_rows, n_features = draw(st.integers(6, 24)), draw(st.integers(1, 3))
    cells = n_rows * n_features
    rows = np.array(draw(st.lists(drawn_values, min_size=cells, max_size=cells)))
    rows = rows.reshape(n_rows, n_features)
    categorical = None
    if draw(st.booleans()):
        categorical = [n_features - 1]
        codes = st.sampled_from([0.0, 1.0, 2.0, 5.0, np.nan])
        rows[:, -1] = draw(st.lists(codes, min_size=n_rows, max_size=n_rows))
    targets = draw(st.lists(st.integers(0, 2), min_size=n_rows, max_size=n_rows))
    model = kind(
        max_iter=draw(st.integers(1, 4)),
        min_samples_leaf=draw(st.integers(1, 3)),
        max_leaf_nodes=draw(st.sampled_from([None, 2, 5])),
        max_bins=draw(st.sampled_from([5, 255])),
        categorical_features=categorical,
        early_stopping=False,
    )
    return model.fit(rows, targets), rows


@IGNORE_INFINITE
@given(drawn=drawn_models())
@settings(max_examples=60, deadline=None)
def test_drawn_models(drawn):
    model, rows = drawn
    ensemble = parse(model)
    _assert_equal(model, np.concatenate([rows, _labelled_rows(ensemble, rows)[:200]]))


# --- refusals ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [HistGradientBoostingRegressor, HistGradientBoostingClassifier])
def test_unfitted(kind):
    with pytest.raises(InvalidInputError, match=rf"this {kind.__name__} is not fitted; call fit"):
        parse(kind())


def test_training_that_was_broken_off():
    model = HistGradientBoostingRegressor(**SMALL).fit(X, Y)
    model._predictors = []
    with pytest.raises(InvalidInputError, match="has no trees: its training did not finish"):
        parse(model)


def test_unknown_node_field():
    model = HistGradientBoostingRegressor(max_iter=2).fit(X, Y)
    for iteration in model._predictors:
        nodes = iteration[0].nodes
        wider = np.zeros(len(nodes), dtype=[*nodes.dtype.descr, ("slope", "<f8")])
        iteration[0].nodes = wider
    with pytest.raises(UnsupportedModelError, match=r"unknown fields: \['slope'\]\)\. Train"):
        parse(model)


def test_missing_node_field():
    model = HistGradientBoostingRegressor(max_iter=1).fit(X, Y)
    nodes = model._predictors[0][0].nodes
    kept = [name for name in nodes.dtype.names if name != "missing_go_to_left"]
    model._predictors[0][0].nodes = nodes[kept]
    with pytest.raises(UnsupportedModelError, match=r"missing fields: \['missing_go_to_left'\]"):
        parse(model)


def test_unknown_link():
    class CubeRootLink:
        pass

    model = HistGradientBoostingRegressor(max_iter=1).fit(X, Y)
    model._loss.link = CubeRootLink()
    with pytest.raises(UnsupportedModelError, match=r"HalfSquaredError has the link CubeRootLink"):
        parse(model)
