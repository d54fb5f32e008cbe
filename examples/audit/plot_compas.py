"""
Reasons and gaps between groups, on COMPAS
==========================================

Why does a model predict that one person will be accused again, and another will not? Which effects
make its predictions for two groups differ, and what happens if effects are taken out? The model is
trained on the records that ProPublica published. It is not the COMPAS score, and nobody should
decide about people by it.

If the data are missing on the machine that builds this page, a made-up table with the same columns
is used, and the numbers in the text do not apply to it.
"""

# %%
import sys

import matplotlib.pyplot as plt
import pandas as pd
import xgboost
from sklearn.model_selection import train_test_split

import treepurify as tp

# Wherever this page is run from, the folder of the examples is here or above it.
sys.path += [".", "..", "../.."]

from examples.data import compas_two_years
from examples.made_up import or_made_up

data = or_made_up(compas_two_years)

# %%
# The model does not get race and sex. They are only used to compare groups.
groups = data.X[["race", "sex"]].astype(str)
X, X_test, y, y_test, _, groups_test = train_test_split(
    data.X.drop(columns=["race", "sex"]), data.y, groups, test_size=0.5, random_state=0
)
model = xgboost.XGBClassifier(
    n_estimators=60, max_depth=2, learning_rate=0.1, enable_categorical=True, n_jobs=1
).fit(X, y)
d = tp.purify(model, X, weights="empirical", missing_cells="always", progress=False)
print(d)

# %%
# Reasons for single people
# -------------------------
# The first people of the test rows with a predicted probability of 0.5 or more are compared with
# all people below it. A high prediction is adverse here.
high = model.predict_proba(X_test)[:, 1] >= 0.5
reasons = tp.reason_codes(
    d, X_test[high][:3], reference=X_test[~high], adverse="high", progress=False
)
shown = reasons.table()[["row", "reason", "value", "contribution"]]
print(shown.to_string(index=False))

# %%
# The gap by race
# ---------------
# Nearly all of the gap is age and the number of prior charges: the model needs no race to score
# groups differently. No decomposition can say whether prior charges show what people do or whom the
# police watch.
by_race = tp.group_gap(
    d,
    X_test,
    pd.Categorical(groups_test["race"]).set_categories(["Caucasian", "African-American"]),
    y_test,
    threshold=0.5,
    adverse="high",
    progress=False,
)
print(by_race)
tp.plots.mean_difference(by_race, top=8)
plt.show()

# %%
# Error rates of both groups. If people of one group are charged again more often, a model whose
# predictions mean the same in both groups cannot, in general, have equal false positive and equal
# false negative rates (Chouldechova 2017).
print(by_race.rates.to_frame().round(3).to_string(index=False))

# %%
# The gap by sex
# --------------
by_sex = tp.group_gap(d, X_test, groups_test["sex"], progress=False)
tp.plots.mean_difference(by_sex, top=8)
plt.show()
