"""
A deep model: its effects, and single predictions
=================================================

Gradient boosting of trees with fifteen leaves, in a pipeline with missing values and categories,
predicts the risk of loans. The page shows the most important effects, one skewed feature, and the
prediction for one applicant.
"""

# sphinx_gallery_thumbnail_number = 4

# %%
# Simulated loans, so that the truth is known: the risk falls with the logarithm of the income, more
# steeply for people without a job, and rises with the debt as a share of the income, and with old
# debts.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import treepurify as tp
from treepurify import plots

rng = np.random.default_rng(0)
n = 2400
X = pd.DataFrame({"income": np.exp(10.4 + 0.8 * rng.normal(size=n)).round()})
X["debt"] = (X["income"] * rng.gamma(2.0, 0.2, size=n)).round()
X["age"] = rng.integers(18, 80, size=n).astype(float)
X["years of debt"] = np.where(rng.random(n) < 0.15, np.nan, rng.integers(0, 20, size=n))
X["job"] = rng.choice(["employee", "self-employed", "retired", "none"], n, p=[0.6, 0.2, 0.15, 0.05])
margin = -1.2 * np.log(X["income"] / 33_000) * np.where(X["job"] == "none", 2.0, 1.0)
margin += 2.0 * (X["debt"] / X["income"] - 0.4) + 0.08 * X["years of debt"].fillna(2.0)
y = (margin + rng.logistic(size=n) > 1.0).astype(int)
train, test = slice(0, 1800), slice(1800, n)

pipeline = make_pipeline(
    make_column_transformer((OneHotEncoder(), ["job"]), remainder="passthrough"),
    HistGradientBoostingClassifier(max_iter=40, max_leaf_nodes=15, random_state=0),
).fit(X[train], y[train])
d = tp.purify(pipeline, X[train], weights="empirical", progress=False)
d

# %%
# As simulated, income dominates, and income and debt interact, since their ratio counts. The
# interaction of income and job is there, but weak, since few people have no job. The interactions
# with the years of debt and with the age were not simulated: the model learned them from noise, and
# they are effects of the model all the same. Income and debt are correlated and act in opposite
# directions, so the share of debt is negative. The job is one feature here, although the trees see
# four dummies of it. Effects of more than two features are in the remainder, whose share is known.
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
plots.importance(d, top=10, ax=left)
plots.beeswarm(d, X[test], top=10, ax=right)
plt.show()

# %%
# Incomes are skewed: a logarithmic axis has more space for the incomes of most people. A pair can
# have another scale for each of its features.
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.0), layout="constrained")
plots.main_effect(d, "income", scale="log", ax=left)
plots.pair(d, ("income", "debt"), scale=("log", "log"), ax=right)
plt.show()

# %%
# **One applicant**, by position in the table: the effects that build up the log-odds, with the
# probability on the axis above, and the Shapley values into which they can be divided. The
# remainder, of effects of three and more features, cannot be divided and is a separate bar.
figure, (left, right) = plt.subplots(1, 2, figsize=(12.5, 4.6), layout="constrained")
plots.waterfall(d, X[test], index=3, top=7, ax=left)
plots.waterfall(d, X[test], index=3, parts="shapley", ax=right)
plt.show()

# %%
# **Compared with observations**: do observed means differ from predicted ones by more than their
# bars? These are intervals of 95%, so about one of twenty misses by chance, as one does here;
# several in a row would be a fault of the model. Curves of probabilities are not parallel even
# without interactions; with ``scale="margin"``, in log-odds, curves that are not parallel show one.
# Accumulated effects are sums of differences, so they may leave the range from 0 to 1.
profile = tp.feature_profile(pipeline, X[test], "income", y[test], progress=False)
plots.profile(profile, curves=True, scale="log")
plt.show()
