"""
Predict without Python: SQL, and an EBM to edit
===============================================

A purified model is an intercept and tables. So it can run without Python in a database, or become
an EBM that somebody edits with interpret. Here one model of incomes is exported in both ways, and
each is compared with the decomposition on every row.

If the data are missing on the machine that builds this page, a made-up table with the same columns
is used, and the numbers in the text do not apply to it.
"""

# %%
import sqlite3
import sys
from contextlib import closing

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

import treepurify as tp

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
# key; DuckDB runs the same text.
query = tp.export.to_sql(d, table="people", keep=["id"])
print("\n".join(query.splitlines()[:4]), "\n  ...")
stored = X.astype(dict.fromkeys(X.select_dtypes("category"), object))
with closing(sqlite3.connect(":memory:")) as connection:
    stored.rename_axis("id").to_sql("people", connection)
    found = pd.read_sql(query, connection).sort_values("id")["margin"].to_numpy()
in_database = np.abs(found - margins).max() / deviation
print(f"{len(query)} characters; off by {in_database:.1e} standard deviations at most")

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

# %%
# The effect of *age* before and after.
edited = tp.purify(ebm, X, weights="empirical", progress=False)
tp.plots.overlay({"model": d, "edited": edited}, "age")
plt.show()
