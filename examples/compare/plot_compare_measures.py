"""
One model under four distributions
==================================

An effect is an average over the other features, so it depends on the distribution of these
features. Here the same model is purified under four distributions, and the effects are compared.
"""

# %%
import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_diabetes
from xgboost import XGBRegressor

import treepurify as tp
from treepurify import plots

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
model = XGBRegressor(n_estimators=150, max_depth=2, learning_rate=0.05, n_jobs=1).fit(X, y)

# %%
# The same predictions, split into effects in four ways.
measures = ["empirical", "laplace", "uniform", "independent"]
by_measure = {name: tp.purify(model, X, weights=name) for name in measures}
shares = {
    name: d.importance(details=True).groupby("order")["share"].sum()
    for name, d in by_measure.items()
}
pd.DataFrame(shares).rename(index={1: "main effects", 2: "pairs"}).round(3)

# %%
# The effect of the body mass index under each distribution, shifted to mean zero, so that only the
# shapes differ.
plots.overlay(by_measure, "bmi")
plt.show()

# %%
# How far are two of them apart? For this model it matters little: the effect that differs most,
# that of s5, differs by 13% of its size, and no main effect changes its sign. Small interactions
# differ more.
compared = tp.compare(by_measure["empirical"], by_measure["uniform"])
compared

# %%
# The difference of two effects (grey) may be larger than the difference of their sizes.
plots.comparison(compared, top=10)
plt.show()

# %%
# The effects that differ most, and where main effects have opposite signs.
compared.terms.head(5).round(3)

# %%
compared.places.head(5).round(3)

# %%
# Purification itself changes far more than the distribution: before it, the trees have nearly
# everything in interactions.
d = by_measure["empirical"]
tp.compare(d.as_trained(), d)
