"""
How much is each effect worth, and which can be left out?
=========================================================

A boosted model of income (adult) has dozens of effects. Which of them improve predictions for
people that it never saw, how few are enough, and what changes when one is taken out?
Short answers for bicycle rentals, house prices and recidivism (COMPAS) follow.

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

from examples.data import (
    adult,
    bike_sharing_hour,
    california_housing,
    compas_two_years,
)
from examples.made_up import or_made_up


def trained(load):
    """Train on half of the rows and purify."""
    data = or_made_up(load)
    X, X_test, y, y_test = train_test_split(data.X, data.y, test_size=0.5, random_state=0)
    kind = xgboost.XGBClassifier if data.is_binary else xgboost.XGBRegressor
    model = kind(
        n_estimators=200, max_depth=2, learning_rate=0.1, enable_categorical=True, n_jobs=1
    ).fit(X, y)
    d = tp.purify(model, X, weights="empirical", missing_cells="always", progress=False)
    return d, X_test, y_test


# %%
# Worth compared with variance
# ----------------------------
# Dark bars: the rise of the log loss on held-out people if the effect is left out, with an interval
# over these people. Light bars: the share of the effect in the variance of the predictions.
income = trained(adult)
worth = tp.effect_worth(*income, progress=False)
tp.plots.worth(worth, top=12)
plt.show()

# %%
# An effect can have size and no worth. These interactions are the largest among the
# ones that do not visibly help:
table = worth.to_frame()
idle = table[(table["order"] == 2) & (table["low"] <= 0)]
print(idle.nlargest(5, "size")[["term", "size", "worth", "low", "high"]])

# %%
# How few are enough?
# -------------------
# Effects are left out one after the other, always the one whose absence costs least; the remaining
# main effects are adjusted to compensate. Within 1% of the loss:
simple = tp.simplify(*income, progress=False)
print(simple)
tp.plots.simplification(simple)
plt.show()

# %%
# Taking one out
# --------------
# Without the effect of sex, the result is an ordinary decomposition, which states the change:
without = income[0].without("sex")
print(next(line for line in without.certificate.details() if line.startswith("Edited")))
print(tp.effect_worth(without, *income[1:], progress=False).summary(0)[0])

# %%
# Effects that the model missed
# -----------------------------
# The residuals of the same people, decomposed in the same way: ``in_model`` is the variance of an
# effect in the model, ``missed`` that of the correction which the held-out residuals call for; it
# may enlarge the effect or shrink it. The first row is not to be read: its spread is larger than
# itself, and comes from a few people whose predictions are almost certain. The next one, capital
# gains, hardly depends on the split, and is worth another training.
print(tp.missed_effects(*income, repeats=2, progress=False).head(5))

# %%
# Bicycles, houses, recidivism
# ----------------------------
for load in (bike_sharing_hour, california_housing, compas_two_years):
    found = trained(load)
    print(f"{load.__name__}:", *tp.simplify(*found, progress=False).summary()[:2])

# %%
# A smoother curve has a price. With three degrees of freedom the effect of the age of houses loses
# its last steps, those of the oldest houses, and the loss rises by 0.4%:
houses = trained(california_housing)
d, X_test, y_test = houses
smooth = tp.smooth_effect(d, "HouseAge", amount=3)
tp.plots.overlay({"as it was": d, "three degrees of freedom": smooth}, "HouseAge")
plt.show()
for name, each in (("as it was", d), ("smoothed", smooth)):
    loss = tp.effect_worth(each, X_test, y_test, n_bootstrap=0, progress=False).model_loss
    print(f"{name}: {loss:.5f}")
