import copy
import json
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest

from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.models import ebm as reader
from treepurify.models.additive_tables import term_cells

glassbox = pytest.importorskip("interpret.glassbox")
privacy = pytest.importorskip("interpret.privacy")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:interpret")

SETTINGS = {"max_rounds": 50, "outer_bags": 2, "n_jobs": 1, "random_state": 0}
NOMINAL = [None, ["a", "b", "c", "d"], "nominal", "nominal", None, "nominal", "nominal"]


def fit(estimator, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # interpret warns of missing values and small data
        return estimator.fit(X, y)


def data(n_rows=300):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "real": rng.normal(size=n_rows),
            "text": rng.choice(list("abcd"), n_rows),
            "integer": rng.integers(-1, 3, n_rows),
            "flag": rng.random(n_rows) > 0.5,
            "category": pd.Categorical(rng.choice(list("xyz"), n_rows)),
            "decimal": rng.choice([0.5, 1.0, -0.0, 0.1, 1e16], n_rows),
            "single": rng.choice([0.1, 2.0, 0.3], n_rows).astype(np.float32),
        }
    )
    y = X["real"] + (X["text"] == "a") * X["flag"] + X["integer"] * (X["category"] == "z")
    X.loc[::5, "real"] = np.nan
    X.loc[::11, "text"] = None
    return X, y.to_numpy()


def rows_of_trouble(model, X, n_rows=300):
    """Rows on and beside the cuts, with missing values and unseen labels."""
    rng = np.random.default_rng(1)
    columns = {}
    for position, name in enumerate(X.columns):
        drawn = X[name].sample(n_rows, replace=True, random_state=position)
        if model.feature_types_in_[position] == "continuous":
            cuts = np.concatenate([*model.bins_[position], [0.0]])
            beside = [cuts, np.nextafter(cuts, -np.inf), np.nextafter(cuts, np.inf)]
            columns[name] = rng.choice(np.concatenate([*beside, [np.nan, np.inf, -np.inf]]), n_rows)
            continue
        column = drawn.to_numpy().copy()
        if column.dtype.kind not in "biuf":
            column = column.astype(object)
            column[::5] = "never seen"
            column[::7] = None
        elif column.dtype.kind == "f":
            column[::5] = 77.25
            column[::7] = np.nan
        columns[name] = column
    return pd.DataFrame(columns)


def assert_same_margin(tables, model, X):
    expected = reader.raw_margin(model, X)
    got = tables.margin(X)
    assert got.shape == expected.shape == (len(X), tables.n_outputs)
    scale = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-14 * scale)


def check(model, X):
    tables = reader.parse(model)
    assert_same_margin(tables, model, X)
    assert_same_margin(tables, model, rows_of_trouble(model, X))
    for term in tables.terms:
        assert list(term.features) == sorted(term.features)
        assert term.scores.shape == (*term.weights.shape, tables.n_outputs)
        for axis, (feature, cuts) in enumerate(zip(term.features, term.cuts, strict=True)):
            spec = tables.features[feature]
            n_cells = spec.n_codes + 2 if cuts is None else len(cuts) + 2
            assert term.weights.shape[axis] == n_cells
    return tables


def assert_masses_count_rows(tables, X):
    columns = tables.columns(X)
    for term in tables.terms:
        cells = [
            term_cells(columns.values[j], tables.features[j], cuts)
            for j, cuts in zip(term.features, term.cuts, strict=True)
        ]
        counts = np.zeros(term.weights.shape)
        np.add.at(counts, tuple(cells), 1.0)
        np.testing.assert_allclose(term.weights, counts)


def test_regressor_with_pairs_on_coarser_bins():
    X, y = data()
    model = glassbox.ExplainableBoostingRegressor(
        **SETTINGS, interactions=3, max_interaction_bins=4
    )
    tables = check(fit(model, X, y), X)
    assert tables.link.name == "identity"
    assert tables.output_names == ("margin",)
    assert tables.has_feature_names
    assert tables.feature_names == tuple(X.columns)
    missing = {spec.name for spec in tables.features if spec.has_missing}
    assert missing == {"real", "text"}
    assert tables.source.notes == ()
    assert_masses_count_rows(tables, X)


def test_unsorted_terms_and_three_way_terms_of_every_type():
    X, y = data()
    model = glassbox.ExplainableBoostingRegressor(
        **SETTINGS,
        feature_types=NOMINAL,
        interactions=[(4, 1), ("real", "text", "integer"), (6, 5, 2)],
    )
    fit(model, X, y)
    assert (6, 5, 2) in model.term_features_  # interpret keeps the order it was given
    tables = check(model, X)
    assert [term.features for term in tables.terms[7:]] == [(1, 4), (0, 1, 2), (2, 5, 6)]
    assert tables.features[5].categories == ("0", "0.1", "0.5", "1", "1e+16")
    assert_masses_count_rows(tables, X)


def test_labels_are_read_as_interpret_reads_them():
    X, y = data()
    model = glassbox.ExplainableBoostingRegressor(**SETTINGS, feature_types=NOMINAL, interactions=0)
    tables = reader.parse(fit(model, X, y))
    as_objects = X.astype({"integer": object, "flag": object, "decimal": object, "single": object})
    as_text = X.assign(integer=X["integer"].astype(str), flag=np.where(X["flag"], "1", "0"))
    as_nullable = X.astype({"integer": "Int64", "flag": "boolean", "decimal": "Float64"})
    as_categories = X.astype(
        {"integer": "category", "flag": "category", "decimal": "category", "single": "category"}
    )
    as_floats = X.assign(integer=X["integer"].astype(float), flag=X["flag"].astype(int))
    numpy_flags = X.assign(flag=pd.Series(list(X["flag"].to_numpy()), dtype=object))
    for table in (as_objects, as_text, as_nullable, as_categories, as_floats, numpy_flags):
        assert_same_margin(tables, model, table)
        np.testing.assert_array_equal(tables.margin(table), tables.margin(X))
    assert_same_margin(tables, model, X.to_numpy(dtype=object))


def test_binary_classifier_with_monotone_effect():
    X, y = data()
    model = glassbox.ExplainableBoostingClassifier(
        **SETTINGS, interactions=[(0, 1), (2, 1, 0)], monotone_constraints=[1, 0, 0, 0, 0, 0, 0]
    )
    tables = check(fit(model, X, np.where(y > 1, "yes", "no")), X)
    assert tables.output_names == ("yes",)
    response = tables.link.inverse(tables.margin(X))[:, 0]
    np.testing.assert_allclose(response, model.predict_proba(X)[:, 1], rtol=1e-12)


def test_multiclass_with_interactions():
    X, y = data()
    classes = np.array(["p", "q", "r"])[np.digitize(y, [0, 2])]
    model = glassbox.ExplainableBoostingClassifier(**SETTINGS, interactions=[(0, 1), (2, 1, 0)])
    tables = check(fit(model, X, classes), X)
    assert tables.output_names == ("p", "q", "r")
    response = tables.link.inverse(tables.margin(X))
    np.testing.assert_allclose(response, model.predict_proba(X), rtol=1e-12)


def test_one_against_the_rest():
    X, y = data()
    model = glassbox.ExplainableBoostingClassifier(**SETTINGS, interactions=0)
    fit(model, X, np.digitize(y, [0, 2]))._ovrize()
    tables = check(model, X)
    response = tables.link.inverse(tables.margin(X))
    np.testing.assert_allclose(response, model.predict_proba(X), rtol=1e-12)


def test_log_link():
    X, y = data()
    model = glassbox.ExplainableBoostingRegressor(**SETTINGS, objective="poisson_deviance")
    tables = check(fit(model, X, np.abs(y)), X)
    response = tables.link.inverse(tables.margin(X))[:, 0]
    np.testing.assert_allclose(response, model.predict(X), rtol=1e-12)


def test_array_without_names():
    X, y = data()
    rows = X.to_numpy(dtype=object)
    model = fit(glassbox.ExplainableBoostingRegressor(**SETTINGS, interactions=1), rows, y)
    tables = reader.parse(model)
    assert not tables.has_feature_names
    assert tables.feature_names[:2] == ("x0", "x1")
    assert_same_margin(tables, model, rows)


def test_without_main_effects():
    X, y = data()
    model = glassbox.ExplainableBoostingRegressor(
        **SETTINGS, exclude="mains", interactions=[(0, 1)]
    )
    tables = check(fit(model, X, y), X)
    assert [term.features for term in tables.terms] == [(0, 1)]
    assert tables.n_features == 7


def test_merged_models():
    X, y = data()
    halves = [
        fit(
            glassbox.ExplainableBoostingRegressor(**SETTINGS, interactions=[(0, 1), pair]),
            X[rows],
            y[rows],
        )
        for rows, pair in ((slice(0, 150), (0, 2)), (slice(150, 300), (1, 2)))
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        merged = glassbox.merge_ebms(halves)
    tables = check(merged, X)
    assert {(0, 1), (0, 2), (1, 2)} <= {term.features for term in tables.terms}


@pytest.mark.parametrize(
    "name", ["DPExplainableBoostingClassifier", "DPExplainableBoostingRegressor"]
)
def test_differentially_private_models(name):
    X, y = data()
    X = X.assign(real=X["real"].fillna(0.0), text=X["text"].fillna("a"))
    target = y > 1 if "Classifier" in name else y
    check(fit(getattr(privacy, name)(epsilon=20.0, random_state=0), X, target), X)


def test_labels_that_share_a_bin_split_its_mass():
    X, y = data()
    model = glassbox.ExplainableBoostingRegressor(**SETTINGS, interactions=[(0, 1)])
    fit(model, X, y)
    totals = [weights.sum() for weights in model.bin_weights_]
    model.bins_[1] = [{"a": 1, "b": 2, "c": 3, "d": 4, "e": 2, "f": 2}]
    tables = check(model, X)
    assert tables.features[1].categories == ("a", "b", "e", "f", "c", "d")
    np.testing.assert_allclose([term.weights.sum() for term in tables.terms], totals)
    main = tables.terms[1]
    np.testing.assert_allclose(main.weights[1:4], model.bin_weights_[1][2] / 3)
    np.testing.assert_array_equal(main.scores[1], main.scores[2])


def test_label_that_only_some_terms_know():
    X, y = data()
    model = glassbox.ExplainableBoostingRegressor(**SETTINGS, interactions=[(0, 1)])
    fit(model, X, y)
    model.bins_[1] = [{"a": 1, "b": 2, "c": 3, "d": 4}, {"b": 1, "d": 2, "a": 3, "e": 4}]
    tables = check(model, X.assign(text=X["text"].replace("c", "e")))
    assert tables.features[1].categories == ("a", "b", "c", "d", "e")
    assert tables.terms[1].weights[4] == 0.0
    np.testing.assert_array_equal(tables.terms[1].scores[4], tables.terms[1].scores[5])
    np.testing.assert_allclose(tables.terms[-1].weights.sum(), model.bin_weights_[-1].sum())


def test_text_in_a_numeric_feature_is_said():
    X, y = data()
    X = X.astype({"real": object})
    X.loc[:2, "real"] = "broken"
    model = glassbox.ExplainableBoostingRegressor(
        **SETTINGS, feature_types=["continuous", *NOMINAL[1:]], interactions=0
    )
    tables = reader.parse(fit(model, X, y))
    assert "'real'" in tables.source.notes[0]
    assert_same_margin(tables, model, rows_of_trouble(model, X))


@pytest.mark.parametrize("detail", ["minimal", "interpretable", "all"])
@pytest.mark.parametrize("kind", ["regression", "binary", "multiclass"])
def test_json(kind, detail, tmp_path):
    X, y = data()
    settings = {**SETTINGS, "interactions": [(0, 1)], "feature_types": NOMINAL}
    if kind == "regression":
        model = fit(glassbox.ExplainableBoostingRegressor(**settings), X, y)
    else:
        bounds = [0] if kind == "binary" else [0, 2]
        classes = np.array(["p", "q", "r"])[np.digitize(y, bounds)]
        model = fit(glassbox.ExplainableBoostingClassifier(**settings), X, classes)
    model.bins_[1][0]["e"] = 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.to_json(tmp_path / "model.json", detail=detail)
    tables = reader.parse_document(json.loads((tmp_path / "model.json").read_text()))
    direct = reader.parse(model)
    assert tables.output_names == direct.output_names
    assert tables.link == direct.link
    rows = rows_of_trouble(model, X)
    np.testing.assert_array_equal(tables.margin(rows), direct.margin(rows))
    if detail == "minimal":
        assert all(term.weights is None for term in tables.terms)
    else:
        assert tables.features == direct.features
        for term, expected in zip(tables.terms, direct.terms, strict=True):
            np.testing.assert_array_equal(term.weights, expected.weights)


def test_refusals():
    with pytest.raises(InvalidInputError, match="not trained"):
        reader.parse(glassbox.ExplainableBoostingRegressor())
    with pytest.raises(UnsupportedModelError, match="explainable boosting machines"):
        reader.parse(glassbox.LinearRegression())
    X, _ = data()
    single = fit(glassbox.ExplainableBoostingClassifier(**SETTINGS), X, np.zeros(len(X)))
    with pytest.raises(UnsupportedModelError, match="single class"):
        reader.parse(single)


def test_damaged_models_and_documents():
    X, y = data()
    model = fit(glassbox.ExplainableBoostingRegressor(**SETTINGS, interactions=0), X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        document = model.to_jsonable()
    with pytest.raises(UnsupportedModelError, match="version"):
        reader.parse_document({**document, "version": "2.0"})
    with pytest.raises(UnsupportedModelError, match="damaged"):
        reader.parse_document({"version": "1.0"})
    for damaged in (np.inf, np.nan):
        model.intercept_ = damaged
        with pytest.raises(UnsupportedModelError, match=r"intercept .*finite.*Train it again"):
            reader.parse(model)
    document["ebm"]["intercept"] = ["+inf"]
    with pytest.raises(UnsupportedModelError, match=r"intercept .*finite"):
        reader.parse_document(document)
    model.intercept_ = 0.0
    model.term_scores_[0] = model.term_scores_[0][:-1]
    with pytest.raises(UnsupportedModelError, match="shape"):
        reader.parse(model)


@pytest.fixture(scope="module")
def document():
    X, y = data()
    settings = {**SETTINGS, "interactions": [(0, 1)], "feature_types": NOMINAL}
    model = fit(glassbox.ExplainableBoostingRegressor(**settings), X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return json.loads(json.dumps(model.to_jsonable()))


def place(document, path):
    for key in path:
        document = document[key]
    return document


def is_numeric(feature):
    return "cuts" in feature and len(feature["cuts"][0]) > 1


@pytest.mark.parametrize(
    ("path", "changed", "message"),
    [
        (["intercept"], [float("nan")], "finite"),
        (["intercept"], ["+inf"], "finite"),
        (["intercept"], [None], "other than numbers"),
        (["intercept"], [10**400], "other than numbers|damaged"),
        (["terms", 0, "term_features"], [], "no features"),
        (["terms", 2, "bin_weights", 1], "nan", "not finite"),
        (["terms", 2, "scores", 1], "nan", "not finite"),
        (["terms", 2, "scores", 1], True, "shape|numbers|layout"),
    ],
)
def test_numbers_that_are_not_finite(document, path, changed, message):
    document = copy.deepcopy(document)
    place(document["ebm"], path[:-1])[path[-1]] = changed
    if changed is True:
        document["ebm"]["terms"][2]["scores"] = [True, False]
    with pytest.raises(UnsupportedModelError, match=message):
        reader.parse_document(document)


def test_names_cuts_and_labels_that_say_nothing(document):
    numeric = next(j for j, f in enumerate(document["ebm"]["features"]) if is_numeric(f))
    nominal = next(j for j, f in enumerate(document["ebm"]["features"]) if "categories" in f)

    def changed(change):
        copied = copy.deepcopy(document)
        change(copied["ebm"])
        return copied

    def repeat_name(ebm):
        ebm["features"][1]["name"] = ebm["features"][0]["name"]

    def repeat_label(ebm):
        labels = ebm["features"][nominal]["categories"][0]
        labels[1] = labels[0]

    def turn_cuts(ebm):
        ebm["features"][numeric]["cuts"][0].reverse()

    def name_twice(ebm):
        ebm["terms"][-1]["term_features"][1] = ebm["terms"][-1]["term_features"][0]

    for change, message in (
        (repeat_name, "same name"),
        (repeat_label, "two bins"),
        (turn_cuts, "increasing order"),
        (name_twice, "twice"),
    ):
        with pytest.raises(UnsupportedModelError, match=message):
            reader.parse_document(changed(change))


def test_a_pair_of_features_whose_labels_all_share_a_bin():
    labels = [[f"label{i}" for i in range(20_000)]]
    features = [
        {"name": name, "type": "nominal", "categories": [labels], "cuts": []} for name in "ab"
    ]
    term = {"term_features": ["a", "b"], "scores": np.zeros((3, 3)).tolist()}
    ebm = {
        "features": features,
        "terms": [term],
        "intercept": [0.0],
        "outputs": [{"link": "identity"}],
    }
    tracemalloc.start()
    with pytest.raises(UnsupportedModelError, match="share a bin"):
        reader.parse_document({"version": "1.0", "ebm": ebm})
    assert tracemalloc.get_traced_memory()[1] < 1e8
    tracemalloc.stop()
