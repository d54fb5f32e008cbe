"""
Predict without Python: SQL, ONNX, a scorecard, an EBM
======================================================

A purified model is an intercept and tables. So it can run without Python: in a database, in a
runtime for ONNX, as a printed card, or as an EBM that somebody edits with interpret. Here one model
of incomes is exported in all four ways, and each is compared with the decomposition on every row.

If the data are missing on the machine that builds this page, a made-up table with the same columns
is used, and the numbers in the text do not apply to it.
"""

# %%
import sqlite3
import sys
from contextlib import closing

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime
import pandas as pd
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier

import treepurify as tp
from treepurify.plots.style import AFTER, BEFORE, FRAME, UP, legend_above, style_axes

# Wherever this page is run from, the folder of the examples is here or above it.
sys.path += [".", "..", "../.."]

from examples.data import adult
from examples.made_up import or_made_up

data = or_made_up(adult)

# %%
# One model, and its effects
# --------------------------
# Trees of depth two, so that there are only main effects and pairs. `missing_cells="always"` gives
# every column an effect for missing and unknown values, since new rows may have them. Weights of
# the census (*fnlwgt*) and years of education, which repeat its level, are left out.
X, y = data.X.drop(columns=["fnlwgt", "education_num"]), data.y
model = HistGradientBoostingClassifier(
    max_depth=2, max_iter=60, categorical_features="from_dtype", random_state=0
).fit(X, y)
d = tp.purify(model, X, weights="empirical", missing_cells="always", progress=False)
print(len(d), "effects,", sum(c.n_cells for c in d.components.values()), "cells")
margins = d.predict(X)
deviation = margins.std()

# %%
# In the database
# ---------------
# The query is one `SELECT` of `CASE` expressions. Here SQLite runs it on all rows, which have a
# key. DuckDB and PostgreSQL write numbers and missing values differently; ``dialect`` chooses the
# database.
query = tp.export.to_sql(d, table="people", dialect="sqlite", keep=["id"])
print("\n".join(query.splitlines()[:4]), "\n  ...")
stored = X.astype(dict.fromkeys(X.select_dtypes("category"), object))
with closing(sqlite3.connect(":memory:")) as connection:
    stored.rename_axis("id").to_sql("people", connection)
    found = pd.read_sql(query, connection).sort_values("id")["margin"].to_numpy()
in_database = np.abs(found - margins).max() / deviation
print(f"{len(query)} characters; off by {in_database:.1e} standard deviations at most")

# %%
# In a runtime for ONNX
# ---------------------
# One input per column: numbers in double precision, categories as text, empty where missing.
model_file = tp.export.to_onnx(d).SerializeToString()
session = onnxruntime.InferenceSession(model_file)
feeds = {}
for given in session.get_inputs():
    column = X[given.name]
    if given.type == "tensor(string)":
        feeds[given.name] = column.astype(object).fillna("").to_numpy(dtype=object)[:, None]
    else:
        feeds[given.name] = column.to_numpy(dtype=float)[:, None]
(found,) = session.run(None, feeds)
in_onnx = np.abs(found[:, 0] - margins).max() / deviation
print(f"{len(model_file)} bytes; off by {in_onnx:.1e} standard deviations at most")

# %%
# On a printed card
# -----------------
# A scorecard gives whole points, and every 20 points double the odds. The card states the error
# that rounding causes.
card = tp.export.to_scorecard(d, base_points=500, base_odds=1, points_to_double=20)
print(card.rounding)
table = card.to_frame()
print(table[table["characteristic"].isin(["base points", "education"])].to_string(index=False))

# %%
# Left: the scores of people who earn more than 50 000 dollars, and of all others. Right: the
# probability given by the points, compared with the probability of the model.
scores = card.score(X)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
bins = np.arange(scores.min(), scores.max() + 10, 10)
for is_rich, label, color in ((False, "up to 50 000", BEFORE), (True, "more", UP)):
    left.hist(scores[y == is_rich], bins=bins, alpha=0.6, color=color, label=label)
left.set(xlabel="score", ylabel="people")
some = np.arange(0, len(X), 25)
right.scatter(expit(margins[some]), card.probability(X)[some], s=4, color=AFTER)
right.plot([0, 1], [0, 1], color=FRAME, linewidth=0.8)
right.set(xlabel="probability of the model", ylabel="probability of the points")
for ax in (left, right):
    style_axes(ax)
legend_above(left, 2, "dollars a year")
plt.show()

# %%
# In the hands of an editor
# -------------------------
# As an EBM the model can be edited with interpret: here the effect of *age* is made monotone, and
# *sex* is taken out with its pairs.
ebm = tp.export.to_ebm(d)
in_ebm = np.abs(ebm.decision_function(X) - margins).max() / deviation
print(f"before editing off by {in_ebm:.1e} standard deviations at most")
ebm.monotonize("age", increasing=True)
ebm.remove_terms([name for name in ebm.term_names_ if "sex" in name.split(" & ")])
kept = np.mean((ebm.decision_function(X) > 0) == (margins > 0))
print(f"after editing {kept:.1%} of the decisions are the same")
