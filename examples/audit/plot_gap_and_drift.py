"""
Gaps between groups, and drift
==============================

A boosted model of income (adult) was never shown the sex of a person. Which effects make the mean
prediction for women differ from the one for men? And which effects change the predictions if the
population gets older?

If the data are missing on the machine that builds this page, a made-up table with the same columns
is used, and the numbers in the text do not apply to it.
"""

# %%
import sys

import matplotlib.pyplot as plt
import xgboost
from sklearn.model_selection import train_test_split

import treepurify as tp

# Wherever this page is run from, the folder of the examples is here or above it.
sys.path += [".", "..", "../.."]

from examples.data import adult
from examples.made_up import or_made_up

data = or_made_up(adult)

sex = data.X["sex"].to_numpy()
X, X_test, y, y_test, _, sex_test = train_test_split(
    data.X.drop(columns="sex"), data.y, sex, test_size=0.5, random_state=0
)
model = xgboost.XGBClassifier(
    n_estimators=100, max_depth=2, learning_rate=0.2, enable_categorical=True, n_jobs=1
).fit(X, y)
d = tp.purify(model, X, weights="empirical", missing_cells="always", progress=False)

# %%
# From one group to the other
# ---------------------------
# The bars add up exactly from the mean of women to the mean of men. Sex is not in the model, but
# features that are correlated with it are.
gap = tp.group_gap(d, X_test, sex_test, y_test, threshold=0.5, progress=False)
print(gap)
tp.plots.mean_difference(gap, top=10)
plt.show()

# %%
# Rates at the threshold of 0.5, first of women, then of men. ``approval`` is the share of people
# with a predicted probability of 0.5 or more:
print(gap.rates.to_frame().to_string(index=False))

# %%
# Drift
# -----
# The difference in mean predictions between two data sets is divided in the same way. Here they are
# people up to 40, as if these were the data of last year, and other people of any age. The mean
# log-odds rise by 0.87: by 0.37 through age itself, and by 0.31 through relationship and marital
# status, which go with age. The loss rises, too: many of the later people are older than anyone
# before.
half = len(X_test) // 2
young = (X_test["age"] <= 40).to_numpy()[:half]
found = tp.drift(
    d,
    X_test[:half][young],
    X_test[half:],
    y_test[:half][young],
    y_test[half:],
    names=("up to 40", "any age"),
    progress=False,
)
print(found)
print(found.features_frame().head(4).to_string(index=False))
tp.plots.mean_difference(found, top=8)
plt.show()
