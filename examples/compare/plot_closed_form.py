"""
Two independent methods, the same effects
=========================================

There are two ways to the same decomposition. One reads the trees, and solves one system for each
pair of features. The other does not look inside: it uses predictions of the model on rows, and
solves one large system. If both are right, they agree.
"""

# %%
# Four dependent features of three levels each, and a model of a function with one pair.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from xgboost import XGBRegressor

import treepurify as tp
from treepurify import plots

rng = np.random.default_rng(0)
names = ["soil", "slope", "shade", "water"]
common = rng.integers(0, 3, 4000)
codes = {name: np.where(rng.random(4000) < 0.6, common, rng.integers(0, 3, 4000)) for name in names}
levels = ["little", "some", "much"]
X = pd.DataFrame({name: pd.Categorical.from_codes(own, levels) for name, own in codes.items()})
y = codes["soil"] * (codes["water"] == 2) + 0.5 * codes["slope"] - 0.3 * codes["shade"]
y += rng.normal(size=4000)
model = XGBRegressor(n_estimators=80, max_depth=2, enable_categorical=True, n_jobs=1).fit(X, y)

# %%
# From the trees, under the rows as they are.
from_trees = tp.purify(model, X, weights="empirical", progress=False)
from_trees

# %%
# From predictions alone: ``model.predict`` is a function, and nothing else is known about it. The
# closed form of Ferrere et al. (2026) is valid for any dependence between the features.
closed = tp.categorical_anova(model.predict, X, order=2, progress=False)
closed

# %%
# How far do they agree?
print(tp.compare(from_trees, closed, X))

# %%
# The largest difference of any effect on any row is due to single precision, in which XGBoost sums
# its leaves for the predictions.
worst = max(
    float(np.abs(from_trees[subset].evaluate(X) - closed[subset].evaluate(X)).max())
    for subset in from_trees
)
print(f"{worst:.1e}")

# %%
# The pair in the data, from the trees and from the closed form.
figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
for ax, (name, own) in zip(axes, {"trees": from_trees, "closed form": closed}.items(), strict=True):
    plots.pair(own, ("soil", "water"), ax=ax)
    ax.set_title(name)
plt.show()

# %%
# Which to use? Trees allow exact answers for hundreds of features, missing values and numeric
# thresholds. The closed form needs nothing but predictions, so it also works for a neural network.
# Used together, they check each other, because they have no step in common.
