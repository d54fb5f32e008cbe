"""Wrappers of models: read where they are sums of trees, refused with the reason where not."""

import re

import numpy as np
import pytest
from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import RFE, RFECV
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, RANSACRegressor
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MinMaxScaler,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
)
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from xgboost import XGBClassifier

import treepurify as tp
from tests.models.pipelines.cases import (
    check_composed,
    columns,
    dense_one_hot,
    lgbm,
    make_data,
    xgb,
)
from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.models.parse import raw_margin

X, Y = make_data(300)
NUMERIC = X[["age", "income", "rooms"]]
CLASSES = np.digitize(Y, np.quantile(Y, [0.3, 0.6]))
BINARY = np.where(CLASSES > 0, "yes", "no")


def pipeline(model):
    return make_pipeline(columns(StandardScaler(), dense_one_hot()), model)


def pipeline_of_positions(model):
    """Bagging hands arrays on, so columns inside are chosen by position."""
    step = ColumnTransformer(
        [("num", StandardScaler(), [0, 1, 2]), ("cat", dense_one_hot(), [3, 4])]
    )
    return make_pipeline(step, model)


def forest():
    return RandomForestClassifier(4, max_depth=4, random_state=0)


@pytest.mark.parametrize(
    "model",
    [
        GridSearchCV(pipeline(xgb()), {"xgbregressor__max_depth": [2, 3]}, cv=2),
        RandomizedSearchCV(
            pipeline(xgb()), {"xgbregressor__max_depth": [2, 3]}, n_iter=1, cv=2, random_state=0
        ),
        FrozenEstimator(pipeline(xgb()).fit(X, Y)),
        BaggingRegressor(pipeline_of_positions(lgbm()), n_estimators=3, random_state=0),
        VotingRegressor([("a", pipeline(xgb())), ("b", pipeline(DecisionTreeRegressor()))]),
        VotingRegressor([("a", pipeline(lgbm())), ("b", pipeline(lgbm()))], weights=[0.2, 0.7]),
        TransformedTargetRegressor(pipeline(DecisionTreeRegressor()), transformer=StandardScaler()),
    ],
    ids=["grid", "random", "frozen", "bagging", "voting", "weighted", "scaled target"],
)
def test_regressors_around_pipelines(model):
    model.fit(X, Y)
    ensemble = tp.parse_model(model)
    np.testing.assert_allclose(ensemble.margin(X)[:, 0], model.predict(X), rtol=2e-6)
    np.testing.assert_allclose(raw_margin(model, X)[:, 0], model.predict(X), rtol=1e-6)


@pytest.mark.parametrize(
    "model",
    [
        RFE(DecisionTreeRegressor(max_depth=3), n_features_to_select=2),
        RFECV(xgb(), cv=2),
        make_pipeline(StandardScaler(), RFE(lgbm(), n_features_to_select=2)),
        GridSearchCV(RFE(lgbm()), {"n_features_to_select": [2]}, cv=2),
    ],
    ids=["RFE", "RFECV", "in a pipeline", "in a search"],
)
@pytest.mark.parametrize("rows", [NUMERIC, NUMERIC.to_numpy()], ids=["table", "array"])
def test_a_recursive_elimination_is_the_model_that_it_kept(model, rows):
    fitted = clone(model).fit(rows, Y)
    d = tp.purify(fitted, rows, weights="empirical", progress=False)
    np.testing.assert_allclose(d.predict(rows), fitted.predict(rows), rtol=1e-5)
    assert d.feature_names == (tuple(NUMERIC) if rows is NUMERIC else ("x0", "x1", "x2"))
    with pytest.raises(InvalidInputError, match=r"call fit\(\)"):
        tp.parse_model(model)


@pytest.mark.parametrize(
    "model",
    [
        SelfTrainingClassifier(forest()),
        SelfTrainingClassifier(GradientBoostingClassifier(n_estimators=5)),
        SelfTrainingClassifier(XGBClassifier(n_estimators=5)),
        GridSearchCV(SelfTrainingClassifier(forest()), {"threshold": [0.7]}, cv=2),
        RANSACRegressor(DecisionTreeRegressor(max_depth=4), min_samples=0.5, random_state=0),
        RANSACRegressor(lgbm(), min_samples=0.5, random_state=0),
    ],
    ids=["forest", "boosting", "XGBoost", "in a search", "RANSAC of a tree", "RANSAC of LightGBM"],
)
@pytest.mark.parametrize("rows", [NUMERIC, NUMERIC.to_numpy()], ids=["table", "array"])
def test_a_wrapper_that_trains_on_arrays_is_the_model_inside(model, rows):
    is_regressor = isinstance(model, RANSACRegressor)
    labels = np.where(np.arange(len(Y)) % 3 == 0, -1, CLASSES > 0)
    model = clone(model).fit(rows, Y if is_regressor else labels)
    d = tp.purify(model, rows, weights="empirical", progress=False)
    own = model.predict(rows) if is_regressor else model.predict_proba(rows)[:, 1]
    np.testing.assert_allclose(d.predict(rows, scale="response"), own, rtol=1e-5, atol=1e-12)
    assert d.feature_names == (tuple(NUMERIC) if rows is NUMERIC else ("x0", "x1", "x2"))
    if rows is NUMERIC:
        turned = NUMERIC[["rooms", "age", "income"]]
        np.testing.assert_array_equal(d.predict(turned), d.predict(rows))
        np.testing.assert_array_equal(raw_margin(model, turned), raw_margin(model, rows))


def ebm(kind):
    return kind(outer_bags=1, max_rounds=10, n_jobs=1, interactions=0)


@pytest.mark.parametrize(
    ("model", "target"),
    [
        (CalibratedClassifierCV(ebm(ExplainableBoostingClassifier), ensemble=False, cv=2), BINARY),
        (
            TransformedTargetRegressor(
                ebm(ExplainableBoostingRegressor), func=np.sinh, inverse_func=np.arcsinh
            ),
            Y,
        ),
        (VotingRegressor([("a", ebm(ExplainableBoostingRegressor))]), Y),
        (MultiOutputRegressor(ebm(ExplainableBoostingRegressor)), np.column_stack([Y, -Y])),
        (SelfTrainingClassifier(ebm(ExplainableBoostingClassifier)), CLASSES - 1),
        (TransformedTargetRegressor(lgbm(objective="poisson"), transformer=MinMaxScaler()), Y),
        (CalibratedClassifierCV(FrozenEstimator(ebm(ExplainableBoostingClassifier))), BINARY),
    ],
    ids=["calibrated", "target", "vote", "outputs", "self-trained", "response", "frozen"],
)
def test_the_advice_names_an_attribute_of_the_wrapper_that_can_be_purified(model, target):
    if isinstance(inside := getattr(model, "estimator", None), FrozenEstimator):
        inside.estimator.fit(NUMERIC, target)
    model.fit(NUMERIC, target)
    with pytest.raises(UnsupportedModelError) as caught:
        tp.parse_model(model)
    advice = re.search(r"Purify (each of )?the (\S+) of the (\w+) separately", str(caught.value))
    assert advice is not None
    assert advice[3] == type(model).__name__
    inside = eval(f"model.{advice[2]}")
    for one in inside if advice[1] else [inside]:
        assert tp.purify(one, NUMERIC, progress=False).components


def test_the_member_of_a_vote_that_is_not_read_is_named():
    members = [("trees", DecisionTreeRegressor()), ("gone", "drop"), ("line", LinearRegression())]
    vote = VotingRegressor(members).fit(NUMERIC, Y)
    reason = r"member 'line' of the vote: LinearRegression.*: tp\.hooker_anova\(model.predict, X\)$"
    with pytest.raises(UnsupportedModelError, match=reason):
        tp.parse_model(vote)


def test_a_search_is_purified_on_raw_columns():
    search = GridSearchCV(pipeline(xgb()), {"xgbregressor__max_depth": [2, 3]}, cv=2).fit(X, Y)
    d = tp.purify(search, X, weights="empirical")
    assert d.feature_names == tuple(X.columns)
    assert d.verify(search, X).source == "raw prediction of the library"
    assert d.verify(search, X).relative_difference < 1e-5


@pytest.mark.parametrize("names", [False, True])
def test_bagging_of_column_samples(names):
    rows = NUMERIC if names else NUMERIC.to_numpy()
    model = BaggingRegressor(
        DecisionTreeRegressor(max_depth=4), 5, max_features=2, random_state=0
    ).fit(rows, Y)
    margin = tp.parse_model(model).margin(rows)[:, 0]
    np.testing.assert_allclose(margin, model.predict(rows), rtol=1e-12)


@pytest.mark.parametrize("target", [BINARY, CLASSES], ids=["two", "three"])
@pytest.mark.parametrize(
    "model",
    [
        BaggingClassifier(DecisionTreeClassifier(max_depth=4), 4, random_state=0),
        VotingClassifier(
            [("a", forest()), ("b", DecisionTreeClassifier(max_depth=3))], voting="soft"
        ),
        FixedThresholdClassifier(forest(), threshold=0.3),
        TunedThresholdClassifierCV(forest(), cv=2),
    ],
    ids=["bagging", "voting", "fixed threshold", "tuned threshold"],
)
def test_probabilities_add_up(model, target):
    if "Threshold" in type(model).__name__ and target is CLASSES:
        pytest.skip("thresholds are for two classes")
    if "Threshold" in type(model).__name__:
        target = (target == "yes").astype(int)
    model.fit(NUMERIC, target)
    ensemble = tp.parse_model(model)
    probability = model.predict_proba(NUMERIC)
    own = probability[:, 1:] if probability.shape[1] == 2 else probability
    np.testing.assert_allclose(ensemble.margin(NUMERIC), own, atol=1e-12)
    assert ensemble.output_names == tuple(map(str, model.classes_[-own.shape[1] :]))


def test_outputs_side_by_side():
    targets = np.column_stack([Y, -2 * Y, np.sin(Y)])
    model = MultiOutputRegressor(pipeline(lgbm())).fit(X, targets)
    ensemble = tp.parse_model(model)
    np.testing.assert_allclose(ensemble.margin(X), model.predict(X), rtol=1e-12)
    assert ensemble.output_names == ("target0", "target1", "target2")


def test_classifiers_side_by_side():
    targets = np.column_stack([BINARY, CLASSES.astype(str)])
    model = MultiOutputClassifier(forest()).fit(NUMERIC, targets)
    ensemble = tp.parse_model(model)
    first, second = model.predict_proba(NUMERIC)
    own = np.column_stack([first[:, 1], second])
    np.testing.assert_allclose(ensemble.margin(NUMERIC), own, atol=1e-12)
    assert ensemble.output_names == ("target0:yes", "target1:0", "target1:1", "target1:2")


@pytest.mark.parametrize("target", [BINARY, CLASSES], ids=["two", "three"])
def test_one_against_the_rest(target):
    model = OneVsRestClassifier(GradientBoostingClassifier(n_estimators=5)).fit(NUMERIC, target)
    ensemble = tp.parse_model(model)
    response = ensemble.link.inverse(ensemble.margin(NUMERIC))
    own = model.predict_proba(NUMERIC)
    np.testing.assert_allclose(response, own[:, -response.shape[1] :], atol=1e-12)


@pytest.mark.parametrize(
    ("functions", "link"),
    [
        ((np.log, np.exp), "log"),
        ((np.log1p, np.expm1), "log1p"),
        ((np.sqrt, np.square), "transformed"),
        ((lambda y: np.arcsinh(y) ** 3, lambda z: np.sinh(np.cbrt(z))), "transformed"),
    ],
)
def test_functions_of_the_target_are_links(functions, link):
    model = TransformedTargetRegressor(
        DecisionTreeRegressor(max_depth=4), func=functions[0], inverse_func=functions[1]
    ).fit(NUMERIC, Y - Y.min() + 1)
    ensemble = tp.parse_model(model)
    assert ensemble.link.name == link
    response = ensemble.link.inverse(ensemble.margin(NUMERIC))[:, 0]
    np.testing.assert_allclose(response, model.predict(NUMERIC), rtol=1e-12)


@pytest.mark.parametrize(
    "transformer",
    [
        PowerTransformer(),
        QuantileTransformer(n_quantiles=50, output_distribution="normal"),
        QuantileTransformer(n_quantiles=50),
    ],
)
@pytest.mark.parametrize(
    "regressor",
    [
        GradientBoostingRegressor(n_estimators=20),
        RandomForestRegressor(n_estimators=10),
        # Its response is the exponential of its margin, and that is transformed back.
        HistGradientBoostingRegressor(loss="poisson", max_iter=20),
    ],
)
def test_the_response_is_what_the_fitted_transformer_of_the_target_makes(transformer, regressor):
    is_counted = isinstance(regressor, HistGradientBoostingRegressor)
    if is_counted and getattr(transformer, "output_distribution", "") != "uniform":
        pytest.skip("transformed targets below 0 are no counts")
    model = TransformedTargetRegressor(regressor, transformer=transformer, check_inverse=False)
    model.fit(NUMERIC, Y)
    ensemble = tp.parse_model(model)
    own = raw_margin(model, NUMERIC)
    np.testing.assert_allclose(ensemble.margin(NUMERIC), own, rtol=1e-12, atol=1e-12)
    assert ensemble.link.name == "transformed"
    assert (ensemble.link.before is not None) == is_counted
    response = ensemble.link.inverse(ensemble.margin(NUMERIC))[:, 0]
    np.testing.assert_allclose(response, model.predict(NUMERIC), rtol=1e-9)


def test_several_transformed_targets_are_taken_back_together():
    both = np.stack([Y, -2.0 * Y], axis=1)
    model = TransformedTargetRegressor(
        RandomForestRegressor(n_estimators=5), transformer=PowerTransformer()
    ).fit(NUMERIC, both)
    ensemble = tp.parse_model(model)
    response = ensemble.link.inverse(ensemble.margin(NUMERIC))
    np.testing.assert_allclose(response, model.predict(NUMERIC), rtol=1e-9)
    assert ensemble.link.inverse(np.zeros(2)).shape == (2,)
    assert ensemble.link.inverse(np.zeros((0, 2))).shape == (0, 2)


@pytest.mark.parametrize(
    "transform",
    [
        {"transformer": PowerTransformer()},
        {"transformer": QuantileTransformer(n_quantiles=50)},
        {"func": np.cbrt, "inverse_func": np.square, "check_inverse": False},
        {"func": lambda y: y / 3, "inverse_func": lambda y: y * 3},
        {"transformer": StandardScaler()},
        {"func": np.log, "inverse_func": np.exp},
    ],
)
def test_refits_of_a_model_with_a_transformed_target(transform):
    regressor = RandomForestRegressor(n_estimators=4, max_depth=3)
    model = TransformedTargetRegressor(regressor, **transform)
    refits = tp.refit(model, NUMERIC, Y, n=3, how="seeds", progress=False)
    shipped = clone(model).fit(NUMERIC, Y)
    d = tp.purify(shipped, NUMERIC, refits=refits, progress=False)
    response = d.predict(NUMERIC, scale="response")
    np.testing.assert_allclose(response, shipped.predict(NUMERIC), rtol=1e-9)
    means = np.array([tp.purify(each, NUMERIC).intercept[0] for each in refits])
    together = tp.purify(refits, NUMERIC, progress=False)
    assert together.intercept[0] == pytest.approx(means.mean())
    assert together.spread is not None


def test_refits_that_transform_the_target_in_other_ways_are_refused():
    model = TransformedTargetRegressor(
        DecisionTreeRegressor(max_depth=2), transformer=PowerTransformer()
    )
    refits = tp.refit(model, NUMERIC, Y, n=2, progress=False)
    with pytest.raises(InvalidInputError, match=r"own transform .* train the regressors inside"):
        tp.purify(refits, NUMERIC)
    own = {"func": np.cbrt, "inverse_func": np.square, "check_inverse": False}
    bags = TransformedTargetRegressor(DecisionTreeRegressor(max_depth=2), **own)
    d = tp.purify(tp.refit(bags, NUMERIC, Y, n=2, progress=False), NUMERIC)
    assert len(d.spread.stacked) > 0


def test_a_saved_decomposition_has_no_transformer_of_the_target(tmp_path):
    model = TransformedTargetRegressor(
        DecisionTreeRegressor(max_depth=2), transformer=PowerTransformer()
    ).fit(NUMERIC, Y)
    d = tp.purify(model, NUMERIC, weights="empirical")
    np.testing.assert_allclose(d.predict(NUMERIC, scale="response"), model.predict(NUMERIC))
    d.save(tmp_path / "effects.tpz")
    loaded = tp.load(tmp_path / "effects.tpz")
    np.testing.assert_array_equal(loaded.predict(NUMERIC), d.predict(NUMERIC))
    with pytest.raises(InvalidInputError, match=r"transformer_\.inverse_transform"):
        loaded.predict(NUMERIC, scale="response")
    with pytest.raises(UnsupportedModelError, match="'transformed' cannot be exported"):
        tp.export.to_sql(d, scale="response")


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (
            VotingClassifier([("a", GradientBoostingClassifier(n_estimators=2))], voting="soft"),
            "averages responses.*logit",
        ),
        (VotingClassifier([("a", forest())]), "counts votes.*soft"),
        (
            BaggingClassifier(GradientBoostingClassifier(n_estimators=2), 2),
            "averages responses.*logit",
        ),
        (StackingRegressor([("a", DecisionTreeRegressor())], cv=2), "final estimator"),
    ],
)
def test_what_is_no_sum_of_trees(model, reason):
    model.fit(NUMERIC, CLASSES if isinstance(model, StackingRegressor) else BINARY)
    with pytest.raises(UnsupportedModelError, match=reason):
        tp.parse_model(model)


def test_what_is_no_sum_is_refused_with_a_line_that_runs():
    X = np.random.default_rng(1).normal(size=(1500, 3))
    y = X[:, 0] * X[:, 1] + X[:, 2]
    member = GradientBoostingClassifier(n_estimators=5)
    stack = StackingRegressor([("a", GradientBoostingRegressor(n_estimators=5))], cv=2)
    votes = [
        VotingClassifier([("a", member)], voting=voting).fit(X, y > 0)
        for voting in ("soft", "hard")
    ]
    for model in (stack.fit(X, y), *votes):
        with pytest.raises(UnsupportedModelError) as caught:
            tp.purify(model, X)
        line = str(caught.value)[str(caught.value).index("tp.hooker_anova(") :]
        fitted = eval(line, {"tp": tp, "model": model, "X": X})
        assert fitted.certificate.fitted_share[0] > 0.2


def test_a_chain_feeds_predictions_forward():
    targets = np.column_stack([CLASSES > 0, CLASSES > 1]).astype(int)
    model = ClassifierChain(forest()).fit(NUMERIC, targets)
    with pytest.raises(UnsupportedModelError, match="predictions of the earlier ones"):
        tp.parse_model(model)


@pytest.mark.parametrize(
    "model", [GridSearchCV(xgb(), {}), VotingRegressor([("a", xgb())]), BaggingRegressor()]
)
def test_wrappers_must_be_fitted(model):
    with pytest.raises(InvalidInputError, match=r"call fit\(\)"):
        tp.parse_model(model)


def test_bagged_pipelines_know_different_labels():
    model = BaggingRegressor(
        pipeline_of_positions(DecisionTreeRegressor(max_depth=5)),
        n_estimators=4,
        max_samples=40,
        random_state=0,
    )
    ensemble = check_composed(model, X, Y, missing=False)
    assert set(ensemble.features[3].categories) <= set(X.color)
