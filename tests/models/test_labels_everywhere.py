"""Every public function that takes a model agrees with its library on labels, or refuses.

The table is libraries x rows x functions; the truth is what the library predicts for the same rows.
"""

import re

import numpy as np
import pandas as pd
import pytest

import treepurify as tp
from treepurify.engines.common.functions import response_function
from treepurify.errors import InvalidInputError, ModelMismatchError, UnsupportedModelError

LABELS = ["≤10", "10-20", ">20", "größer", "東京"]
N_ROWS = 240


def _table(seed=1):
    rng = np.random.default_rng(seed)
    k = rng.choice(LABELS, N_ROWS).tolist()
    x = rng.normal(size=N_ROWS)
    return pd.DataFrame({"k": pd.Categorical(k, categories=LABELS), "x": x})


def _with_missing(X, missing):
    """Return the table as objects, with a kind of missing values in a fifth of the labels."""
    k = X["k"].astype(object).to_numpy().copy()
    k[::5] = missing
    return X.assign(k=pd.Series(k, dtype=object))


def _as_polars(X):
    return pytest.importorskip("polars").DataFrame({"k": list(X["k"]), "x": X["x"].to_numpy()})


def _as_arrow(X):
    return pytest.importorskip("pyarrow").table({"k": list(X["k"]), "x": X["x"].to_numpy()})


def _reordered(X):
    return X.assign(k=X["k"].cat.set_categories([*LABELS[2:], *LABELS[:2]]))


def _subset(X):
    part = X[X["k"].isin(LABELS[1:3])]
    return part.assign(k=part["k"].cat.remove_unused_categories())


def _no_category(X):
    return X.assign(k=X["k"].where(np.arange(N_ROWS) % 5 > 0))


# What a model is trained on, and the rows that are explained.
ROWS = {
    "the same rows": (lambda X: X, lambda X: X),
    "another order": (lambda X: X, _reordered),
    "a subset": (lambda X: X, _subset),
    "no category": (_no_category, _no_category),
    "text": (lambda X: X.assign(k=X["k"].astype(object)),) * 2,
    "None": (lambda X: _with_missing(X, None),) * 2,
    "NaN": (lambda X: _with_missing(X, np.nan),) * 2,
    "NaN after None": (lambda X: _with_missing(X, None), lambda X: _with_missing(X, np.nan)),
    "None after NaN": (lambda X: _with_missing(X, np.nan), lambda X: _with_missing(X, None)),
    "nulls of polars": (lambda X: _as_polars(_with_missing(X, None)),) * 2,
    "nulls of Arrow": (lambda X: _as_arrow(_with_missing(X, None)),) * 2,
}


def _xgboost():
    return pytest.importorskip("xgboost").XGBRegressor(
        n_estimators=6, max_depth=3, enable_categorical=True, n_jobs=1
    )


def _lightgbm():
    return pytest.importorskip("lightgbm").LGBMRegressor(
        n_estimators=6,
        min_child_samples=3,
        min_data_per_group=3,
        cat_smooth=1,
        verbose=-1,
        n_jobs=1,
    )


def _catboost():
    return pytest.importorskip("catboost").CatBoostRegressor(
        iterations=6,
        depth=3,
        cat_features=["k"],
        verbose=False,
        thread_count=1,
        allow_writing_files=False,
    )


def _sklearn():
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(max_iter=6, min_samples_leaf=3, categorical_features=["k"])


def _ebm():
    return pytest.importorskip("interpret.glassbox").ExplainableBoostingRegressor(
        outer_bags=1, max_rounds=30, interactions=1, n_jobs=1
    )


LIBRARIES = {
    "xgboost": _xgboost,
    "lightgbm": _lightgbm,
    "catboost": _catboost,
    "scikit-learn": _sklearn,
    "interpret": _ebm,
}


def _loaded(d, folder):
    d.save(folder / "d.tpz")
    return tp.load(folder / "d.tpz")


def _values(model, rows, X):
    shapley = tp.interventional_shapley_values(model, rows, X)
    return shapley.values.sum(axis=1) + shapley.base


def _reasons(model, rows, X):
    reasons = tp.reason_codes(model, rows, reference=X)
    return reasons.values.sum(axis=1) + reasons.reference_margin


# Predictions for some rows, each made by a default call for the rows X.
FUNCTIONS = {
    "purify": lambda m, X, rows, _: tp.purify(m, X).predict(rows),
    "saved": lambda m, X, rows, folder: _loaded(tp.purify(m, X), folder).predict(rows),
    "parse_model": lambda m, X, rows, _: tp.parse_model(m).margin(rows),
    "parse_model for rows": lambda m, X, rows, _: tp.parse_model(m, X=X).margin(rows),
    "purify what was parsed": lambda m, X, rows, _: tp.purify(tp.parse_model(m), X).predict(rows),
    "response_function": lambda m, X, rows, _: response_function(m)(rows),
    "interventional_shapley_values": lambda m, X, rows, _: _values(m, rows, X),
    "reason_codes": lambda m, X, rows, _: _reasons(m, rows, X),
    "hooker_anova": lambda m, X, rows, _: tp.hooker_anova(m, X).predict(rows),
    "ale_anova": lambda m, X, rows, _: tp.ale_anova(m, X).predict(rows),
    "partial_dependence_anova": lambda m, X, rows, _: tp.partial_dependence_anova(m, X).predict(
        rows
    ),
    "legendre_anova": lambda m, X, rows, _: tp.legendre_anova(m, X).predict(rows),
    "categorical_anova": lambda m, X, rows, _: tp.categorical_anova(m, X).predict(rows),
}
# Rows of which a decomposition may lack the cells: it refuses them, and says so.
MAY_REFUSE = {"NaN after None", "None after NaN"}
_OF_CATEGORIES = ["the same rows", "another order", "a subset", "no category"]
TAKEN = {
    "xgboost": _OF_CATEGORIES,
    "lightgbm": _OF_CATEGORIES,
    "catboost": ["the same rows", "another order", "a subset", "text"],
    "scikit-learn": list(ROWS),
    "interpret": [kind for kind in ROWS if "nulls" not in kind],
}


def _trained(library, kind):
    """Return a trained model, its rows, those to explain, and what the library predicts."""
    of_training, explained = ROWS[kind]
    X, rows, place = of_training(_table()), explained(_table()), np.arange(N_ROWS) % 5 == 0
    codes = _table()["k"].cat.codes.to_numpy()
    y = codes**2 * 0.5 + _table()["x"].to_numpy() * (codes == 1) + 3.0 * place
    model = LIBRARIES[library]().fit(X, y)
    if library == "xgboost":
        # It refuses, or misreads, labels that it has cut up: the same in the order of the training.
        return model, X, rows, model.predict(rows.assign(k=rows["k"].cat.set_categories(LABELS)))
    return model, X, rows, np.asarray(model.predict(rows), dtype=np.float64)


@pytest.mark.filterwarnings(
    "ignore::treepurify.errors.FitWarning", "ignore:Missing values:UserWarning"
)
@pytest.mark.parametrize(
    ("library", "kind"), [(library, kind) for library, taken in TAKEN.items() for kind in taken]
)
def test_every_function_predicts_as_the_library(library, kind, tmp_path):
    model, X, rows, truth = _trained(library, kind)
    refused = {}
    for name, predict in FUNCTIONS.items():
        try:
            found = np.asarray(predict(model, X, rows, tmp_path)).ravel()
        except InvalidInputError as error:
            refused[name] = str(error)
            continue
        np.testing.assert_allclose(found, truth, atol=1e-5, err_msg=name)
    # Of XGBoost only a table says what the labels are.
    may = (
        "stores cut up" if library == "xgboost" else "missing values|levels" * (kind in MAY_REFUSE)
    )
    assert all(may and re.search(may, error) for error in refused.values()), refused


def test_the_labels_of_a_table_are_those_of_the_effects(tmp_path):
    """XGBoost keeps labels cut up: they are shown, saved and exported as the table has them."""
    model, X, rows, truth = _trained("xgboost", "another order")
    d = _loaded(tp.purify(model, X), tmp_path)
    assert list(d.to_frame("k")["k"]) == LABELS
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as database:
        database.register("data", rows.assign(k=rows["k"].astype(str)))
        found = database.execute(tp.export.to_sql(d)).fetchdf().iloc[:, -1]
    np.testing.assert_allclose(found, truth, atol=1e-5)


def test_other_categories_are_refused_where_no_label_is_known():
    model, X, rows, _ = _trained("xgboost", "another order")
    with pytest.raises(
        InvalidInputError, match=r"'k' was trained with 5 categories.*another order"
    ):
        tp.purify(model, rows)
    by_code = X.assign(k=X["k"].cat.codes.astype(float))
    d = tp.purify(model, by_code)
    np.testing.assert_allclose(d.predict(X), model.predict(X), atol=1e-5)
    with pytest.raises(InvalidInputError, match="stores cut up"):
        d.predict(rows)


@pytest.mark.parametrize("library", ["xgboost", "catboost", "scikit-learn"])
def test_a_label_that_the_model_does_not_know_is_named(library):
    """XGBoost before 3.4 takes a new label in front of its own for one that it knows."""
    X = _table().assign(k=_table()["k"].cat.rename_categories(list("bcdef")).astype(str))
    X = X if library != "xgboost" else X.assign(k=X["k"].astype("category"))
    model = LIBRARIES[library]().fit(X, X["x"] + (X["k"] == "c"))
    new = X.assign(k=X["k"].astype(str).where(np.arange(N_ROWS) != 3, "amber"))
    if library == "xgboost":
        new = new.assign(k=new["k"].astype("category"))
        try:  # later versions refuse such rows themselves
            said = tp.purify(model, new).certificate.note
        except ModelMismatchError as error:
            said = str(error)
        refused = r"does not know .'amber' in 'k'.*Leave these"
        assert re.search(rf"{refused}|did not predict.*`amber`", said)
        assert "Stack trace" not in said
    else:
        np.testing.assert_allclose(tp.purify(model, new).predict(new), model.predict(new))


@pytest.mark.parametrize("kind", [None, np.nan])
def test_a_database_has_one_kind_of_missing_values(kind):
    """NULL is None where the model has None as a category and never saw NaN."""
    X = _with_missing(_table(), None)
    X.loc[:20, "k"] = kind
    model = _sklearn().fit(X, X["x"] + 2.0 * X["k"].isna())
    d = tp.purify(model, X)
    with pytest.raises(UnsupportedModelError, match="None as a category"):
        tp.export.to_ebm(d)
    if kind is not None:
        with pytest.raises(UnsupportedModelError, match="None as a category and NaN"):
            tp.export.to_sql(d)
        return
    with pytest.importorskip("duckdb").connect() as database:
        database.register("data", X)
        found = database.execute(tp.export.to_sql(d)).fetchdf().iloc[:, -1]
    np.testing.assert_allclose(found, model.predict(X), atol=1e-9)


@pytest.mark.parametrize("table", ["pandas", "nulls of polars", "nulls of Arrow"])
def test_a_function_gets_none_where_the_table_has_it(table):
    X = _with_missing(_table(), None)
    given = X if table == "pandas" else ROWS[table][0](_table())
    model = _sklearn().fit(X, X["x"] + 2.0 * X["k"].isna())
    d = tp.hooker_anova(model.predict, given)
    np.testing.assert_allclose(d.predict(given), model.predict(X), atol=1e-9)
