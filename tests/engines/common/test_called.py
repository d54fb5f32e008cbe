"""What is called instead of parsed: every engine takes and refuses the same."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import treepurify as tp

rng = np.random.default_rng(0)
X = rng.integers(0, 3, size=(60, 3)).astype(float)
# Labels 0, 1 and 2, which look like numbers.
y = X[:, 0].astype(int)

ENGINES = {
    "ale": partial(tp.ale_anova, progress=False),
    "categorical": partial(tp.categorical_anova, progress=False),
    "h statistics": partial(tp.h_statistics, progress=False),
    "hooker": partial(tp.hooker_anova, n_points=200, progress=False),
    "legendre": partial(tp.legendre_anova, degree=1, progress=False),
    "partial dependence": partial(tp.partial_dependence_anova, progress=False),
    "shapley sets": partial(tp.shapley_sets, progress=False),
}
every_engine = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)


@every_engine
@pytest.mark.parametrize(
    ("classifier", "advice"),
    [
        (LogisticRegression(), r"lambda X: model\.predict_proba\(X\)\[:, 1\]"),
        (make_pipeline(StandardScaler(), LogisticRegression()), r"model\.predict_proba"),
        (RidgeClassifier(), r"lambda X: model\.decision_function\(X\)"),
        (OneClassSVM(), r"lambda X: model\.score_samples\(X\)"),
    ],
    ids=["probabilities", "pipeline", "decision function", "outliers"],
)
def test_labels_are_refused(engine, classifier, advice):
    classifier.fit(X, y)
    for labels in (classifier, classifier.predict, partial(classifier.predict)):
        with pytest.raises(tp.errors.InvalidInputError, match=advice):
            engine(labels, X)


@every_engine
def test_labels_of_a_tree_that_could_be_parsed_are_refused(engine):
    with pytest.raises(tp.errors.InvalidInputError, match="predict of the classifier Decision"):
        engine(DecisionTreeClassifier(max_depth=2).fit(X, y).predict, X)


@every_engine
def test_scores_and_regressions_are_taken(engine):
    classifier = LogisticRegression().fit(X, y > 0)
    regression = LinearRegression().fit(X, X[:, 0])
    for asked in (lambda X: classifier.predict_proba(X)[:, 1], regression, regression.predict):
        assert engine(asked, X) is not None


@every_engine
@pytest.mark.parametrize(
    "function",
    [
        lambda X: np.ones(len(X)) * 1j,
        lambda X: [10**400] * len(X),
        lambda X: [[1.0], [1.0, 2.0]] * (len(X) // 2),
        lambda X: np.repeat("label", len(X)),
        lambda X: None,
    ],
    ids=["complex", "huge", "ragged", "text", "nothing"],
)
def test_functions_that_give_no_real_numbers(engine, function):
    with pytest.raises(tp.errors.InvalidInputError):
        engine(function, X)


@every_engine
def test_every_engine_says_the_same_of_a_fault(engine):
    noise = np.random.default_rng(0)
    faults = {
        lambda X: np.full(len(X), np.nan): r"not finite \(NaN or infinite\)",
        lambda X: np.zeros((len(X), 2, 2)): "expected one value per row, or one row of outputs",
        lambda X: np.zeros((len(X), 0)): "expected one value per row, or one row of outputs",
        lambda X: X[:, 0] + noise.normal(size=len(X)): "different values for the same rows",
        lambda X: X[:, 0] - X[0, 0]: "different values for the same rows",
        lambda X: np.repeat("label", len(X)): "the function must return one number",
    }
    for function, message in faults.items():
        with pytest.raises(tp.errors.InvalidInputError, match=message):
            engine(function, X)


@every_engine
def test_tables_of_every_kind_reach_a_function_as_it_knows_them(engine):
    frame = pd.DataFrame(X.astype(int), columns=["a", "b", "c"])

    def f(rows):
        assert all(dtype.kind in "if" for dtype in rows.dtypes)
        return (rows["a"] + 10 * rows["b"] * rows["c"]).to_numpy()

    assert engine(f, frame) is not None
    assert engine(f, pytest.importorskip("polars").from_pandas(frame)) is not None
    assert engine(lambda rows: rows[1] * rows[2], pd.DataFrame(X)) is not None


@every_engine
def test_names_of_features_mean_the_same(engine):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    assert engine(lambda X: X[:, 0], X, feature_names=["a", "b", "c"]).feature_names == (*"abc",)
    assert engine(lambda X: X["a"], frame, feature_names=["a", "b", "c"]).feature_names == (*"abc",)
    with pytest.raises(tp.errors.InvalidInputError, match="rename its columns"):
        engine(lambda X: X["a"], frame, feature_names=["a", "b", "d"])
    with pytest.raises(
        tp.errors.InvalidInputError, match="feature_names must be 3 different names"
    ):
        engine(lambda X: X[:, 0], X, feature_names=["a", "b"])


def test_whole_numbers_are_not_cut_off():
    table = pd.DataFrame({"a": [0, 1, 2, 5], "b": [1, 0, 1, 0]})
    sets = tp.shapley_sets(lambda X: X["a"] * 1.0, table, table, value="mean", progress=False)
    assert sets.base[0] == 2.0
    sets = tp.shapley_sets(lambda X: X["b"] * 1.0, table, table, value="mean", progress=False)
    assert sets.base[0] == 0.5


def test_labels_that_a_function_was_not_read_with_are_refused():
    table = pd.DataFrame({"town": ["Ulm", "Bonn"] * 20, "size": np.arange(40.0)})
    d = tp.ale_anova(lambda X: (X["town"] == "Ulm") * X["size"], table, progress=False)
    with pytest.raises(tp.errors.InvalidInputError, match="'town' has values that did not occur"):
        d.remainder.on_rows(pd.DataFrame({"town": ["Jena"], "size": [1.0]}))


def test_categories_can_be_grouped():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"town": rng.choice([*"abc"], 80), "x": rng.normal(size=80), "y": 1.0})
    table["y"] = rng.normal(size=80)

    def f(X):
        return (X["town"] == "a") * X["x"] + X["y"]

    assert tp.shapley_sets(f, table, table[:3], progress=False).groups == ((0, 1), (2,))
    with pytest.raises(tp.errors.InvalidInputError, match="numbers without missing values"):
        tp.shapley_sets(f, table, value="mean", progress=False)


def test_rows_to_explain_are_matched_by_name():
    table = pd.DataFrame(X, columns=["a", "b", "c"])

    def f(rows):
        return np.asarray(rows["a"] + 10 * rows["b"])

    plain = tp.shapley_sets(f, table, table[:4], progress=False)
    turned = tp.shapley_sets(f, table, table[:4][["c", "b", "a"]], progress=False)
    np.testing.assert_array_equal(plain.values, turned.values)
    with pytest.raises(tp.errors.InvalidInputError, match="missing: 'a'; unexpected: 'z'"):
        tp.shapley_sets(f, table, table[:4].rename(columns={"a": "z"}), progress=False)


def test_what_a_function_raises_says_which_rows_it_got():
    def f(rows):
        raise ValueError("feature_names mismatch")

    with pytest.raises(ValueError, match="feature_names mismatch") as caught:
        tp.hooker_anova(f, X, progress=False)
    (note,) = caught.value.__notes__
    assert note.startswith("The function raised this when called with ")


@every_engine
@pytest.mark.parametrize("cell", [[1.0, 2.0], np.array([1.0, 2.0]), {"a": 1.0}], ids=type)
def test_cells_that_are_lists_are_refused_by_column(engine, cell):
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
        e=pd.Series([cell] * len(X), dtype=object)
    )
    with pytest.raises(tp.errors.InvalidInputError, match="column 'e' contains values of type"):
        engine(lambda rows: rows["a"].to_numpy(), frame)


@every_engine
@pytest.mark.parametrize("as_model", [True, False])
def test_columns_of_the_other_byte_order_are_read(engine, as_model):
    """As FITS and netCDF have them; pandas itself takes no rows of such columns."""
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    other = pd.DataFrame({name: frame[name].to_numpy().astype(">f8") for name in frame})
    other["c"] = frame["c"].to_numpy().astype(">i4")
    model = DecisionTreeRegressor(max_depth=3, random_state=0).fit(frame, X[:, 0] * X[:, 1])
    f = model if as_model else model.predict
    found, expected = engine(f, other), engine(f, frame)
    if isinstance(found, tp.Decomposition):
        np.testing.assert_allclose(found.predict(other), expected.predict(frame), atol=1e-12)
