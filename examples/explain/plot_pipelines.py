"""
Effects of a pipeline in its raw columns
========================================

A model in production is rarely a booster alone. It is a pipeline that imputes, scales and one-hot
encodes, found by a search. Must its explanation then consist of sixteen dummies of *education* and
standardised ages? No: a test on a transformed column is a test on the raw column. So the whole
pipeline is a sum of trees on the raw columns, with the same predictions.

If the data are missing on the machine that builds this page, a made-up table with the same columns
is used, and the numbers in the text do not apply to it.
"""

# %%
import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xgboost
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import treepurify as tp
from treepurify import plots
from treepurify.errors import UnsupportedModelError
from treepurify.plots.style import AFTER, FRAME, style_axes

# Wherever this page is run from, the folder of the examples is here or above it.
sys.path += [".", "..", "../.."]

from examples.data import adult, bike_sharing_hour
from examples.made_up import or_made_up


def searched(load, model, drop=()):
    """Search a pipeline of XGBoost at its defaults."""
    data = or_made_up(load)
    X = data.X.drop(columns=list(drop))
    labels = make_column_selector(dtype_include="category")
    numbers = make_column_selector(dtype_exclude="category")
    split = ColumnTransformer(
        [
            ("labels", OneHotEncoder(handle_unknown="ignore"), labels),
            ("numbers", StandardScaler(), numbers),
        ],
        sparse_threshold=0.0,
    )
    pipeline = Pipeline([("columns", split), ("model", model)])
    return GridSearchCV(pipeline, {"model__min_child_weight": [1, 5]}, cv=3).fit(X, data.y), X


# %%
# Income
# ------
# Does a person earn more than 50 000 dollars a year? The search is passed as it is, with the raw
# rows. The column of years of education is left out, since it repeats the level.
search, X = searched(adult, xgboost.XGBClassifier(n_jobs=1), drop=["education_num"])
d = tp.purify(search, X, weights="empirical", progress=False)
d

# %%
# The effect of education is one function of education, and `verify` compares with the pipeline:
print(d.verify(search, X))
plots.main_effect(d, "education")
plt.show()

# %%
# Compared with the sum over its dummies
# --------------------------------------
# Explanation packages attribute a prediction to the transformed columns, and at best add up what
# the dummies of one column get. Here are the contributions that XGBoost itself computes (the
# path-dependent Shapley values that are the default in other packages as well), added up over the
# sixteen dummies, and two answers in the raw columns: the Shapley values of the pipeline itself,
# with 200 rows as background, and the Shapley values that follow from the purified effects.
rng = np.random.default_rng(0)
rows, background = (X.iloc[rng.choice(len(X), 200, replace=False)] for _ in range(2))
transformed, transformed_background = (
    search.best_estimator_[:-1].transform(part) for part in (rows, background)
)
trees = tp.parse_model(search, columns="transformed")
dummies = [k for k, spec in enumerate(trees.features) if spec.made_from == ("education",)]
column = list(X.columns).index("education")

booster = search.best_estimator_[-1].get_booster()
contributions = booster.predict(xgboost.DMatrix(transformed), pred_contribs=True)
split_up = tp.interventional_shapley_values(
    trees, transformed, transformed_background, progress=False
)
whole = tp.interventional_shapley_values(search, rows, background, progress=False)
education = pd.DataFrame(
    {
        "sum over dummies (path-dependent)": contributions[:, dummies].sum(axis=1),
        "sum over dummies (interventional)": split_up.values[:, dummies, 0].sum(axis=1),
        "education (interventional)": whole.values[:, column, 0],
        "education (purified)": d.shapley_values(rows).values[:, column, 0],
    }
)
print("mean absolute value\n", education.abs().mean().round(3).to_string())
for name in education.columns[[0, 1, 3]]:
    off = education[name] - education["education (interventional)"]
    signs = np.sign(education[name]) != np.sign(education["education (interventional)"])
    print(f"{name}: off by {off.abs().mean():.3f}, at most {off.abs().max():.3f}; ", end="")
    print(f"other sign in {signs.mean():.0%} of the rows")
usual, whole = (education[name] for name in education.columns[[0, 2]])
ax = plt.figure(figsize=(4.5, 4.2), layout="constrained").add_subplot()
ax.axline((0, 0), slope=1, color=FRAME, linewidth=0.8)
ax.scatter(usual, whole, s=8, color=AFTER)
style_axes(ax)
ax.set(xlabel=f"{usual.name}, log-odds", ylabel=f"{whole.name}, log-odds")
plt.show()

# %%
# The usual values differ from the interventional ones by a quarter of the effect, and for one
# person in ten in sign. The dummies are not the reason: nearly all of it is one shift (the dots are
# parallel to the line), since path-dependent values average over the weights that training gave to
# rows, and a classifier weights people by how uncertain their income is. With interventional
# values, the sum over the dummies differs from the value of the column by only 1% of the effect.
# The difference arises where a path tests two dummies of one column: some coalitions then describe
# a person with two degrees, or with none. In the raw columns there are no such people, and no
# interactions within a column. The values from purified effects differ for another reason: they
# average over the rows as they are, not over independently exchanged values, and leave the
# remainder undivided.
#
# Bicycles
# --------
# How many are rented in an hour? The figure has hours and working days, not standard deviations
# of them. The felt temperature is left out, since it repeats the temperature.
search, X = searched(bike_sharing_hour, xgboost.XGBRegressor(n_jobs=1), drop=["atemp"])
d = tp.purify(search, X, weights="empirical", progress=False)
d

# %%
plots.pair_lines(d, ("hr", "workingday"))
plt.show()

# %%
# Steps that mix columns
# ----------------------
# Principal components mix columns. Each is a feature of the decomposition, whose summary counts it
# as a combination of columns; rows are passed with the raw columns as before.
mixed = make_pipeline(PCA(3), xgboost.XGBRegressor(max_depth=2, n_jobs=1))
numbers = X.select_dtypes("number")
mixed.fit(numbers, or_made_up(bike_sharing_hour).y)
tp.purify(mixed, numbers, weights="empirical", progress=False)

# %%
# If all features must be raw columns, pass ``columns="raw"``: then such a pipeline is refused, and
# the message names the step.
try:
    tp.parse_model(mixed, columns="raw")
except UnsupportedModelError as error:
    print(error)
