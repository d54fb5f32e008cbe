"""
Which features belong together?
===============================

A function may be a sum of parts that have no feature in common, ``f(x) = g(x_A) + h(x_B) + ...``.
Then its features need not be explained one by one: each group has one value, and no interaction has
to be divided. Shapley Sets finds the groups.
"""

# %%
# A model of nine features. By construction, the features of two triples and of a pair interact, and
# the last feature has only a main effect. The model has learned this from data.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from xgboost import XGBRegressor

import treepurify as tp
from treepurify import plots

rng = np.random.default_rng(0)
names = ["rain", "sun", "wind", "sand", "clay", "lime", "plough", "seed", "year"]
X = pd.DataFrame(rng.uniform(-1, 1, size=(4000, 9)), columns=names)
y = (
    2 * X["rain"] * X["sun"] * (X["wind"] > 0)
    + X["rain"]
    + 1.5 * np.sin(2 * X["sand"]) * X["clay"]
    + X["clay"] * X["lime"]
    + np.abs(X["plough"] + X["seed"])
    + 0.5 * X["year"]
)
model = XGBRegressor(n_estimators=400, max_depth=3, learning_rate=0.1, n_jobs=1).fit(X, y)

# %%
# The groups, and the value of each for the first rows. The remainder is the interaction between
# groups: boosting adds weak interactions that the data do not have. It is small in most rows (its
# standard deviation is 0.10, that of the model 1.14); the second row below has the largest one of
# the first 400.
found = tp.shapley_sets(model, X, X.iloc[:4], progress=False)
found

# %%
found.to_frame().round(3)

# %%
# Because of these weak interactions, features join a group only if their interaction has more than
# 1.25% of the variance of the model; ``tolerance`` sets another threshold. The table shows at which
# thresholds groups join. The wide gap around 1.25% shows that the groups do not depend on the exact
# threshold.
found.strengths.to_frame().round(4)

# %%
# Which features interact? Friedman's H-statistics of pairs show interactions of two features. Rain,
# sun and wind interact as three: rain & wind is near zero, and sun & wind has hardly any effect as
# a pair, so its ratio says little (grey). The statistics of three features, in the second figure,
# show them together.
statistics = tp.h_statistics(model, X.iloc[:500], order=3, progress=False)
plots.h_statistics(statistics, top=12)
plt.show()

# %%
plots.h_statistics(statistics, of="triples", top=6)
plt.show()

# %%
# The same for each feature with all others, in the units of the prediction: the year, which has
# only a main effect, comes last.
plots.h_statistics(statistics, of="features", show="strength")
plt.show()
