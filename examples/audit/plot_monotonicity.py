"""
Prove that a model is monotone
==============================

The predicted price of a house must not fall as the income of its district rises. Constraints in
training are meant to ensure this, but do not with every loss: for the absolute error, XGBoost
replaces the values of the leaves after it has grown a tree. `tp.check_monotonicity` proves the
rule for every combination of values, or shows rows that break it.
"""

# %%
# A model of house prices in California, in which the price must rise with income. Its loss is the
# absolute error.
import sys

import matplotlib.pyplot as plt
from xgboost import XGBRegressor

import treepurify as tp

sys.path += [".", "..", "../.."]

from examples.data import california_housing
from examples.made_up import or_made_up

houses = or_made_up(california_housing)
X, y = houses.X, houses.y
constraint = {"MedInc": 1}
options = {"n_estimators": 100, "max_depth": 2, "monotone_constraints": constraint, "n_jobs": 1}
model = XGBRegressor(objective="reg:absoluteerror", **options).fit(X, y)

# %%
# The trained model contains its constraint, and this constraint is checked.
found = tp.check_monotonicity(model, X)
found

# %%
# The two rows differ in income only, and the model itself prefers the poorer one.
check = found.check("MedInc")
two = check.worst.to_frame()
two.assign(prediction=model.predict(two))

# %%
# Which effects break the rule? The table has the contribution of each effect to this step; effects
# against the direction come first. The main effect goes in the right direction, the interactions
# take away more.
d = tp.purify(model, X)
check.by_effect(d)

# %%
# The interaction that contributes most to the worst step, and the step (shaded).
tp.plots.monotonicity(found, d)
plt.show()

# %%
# With squared error, the constraint is kept. This is proved for every combination of values,
# although these trees have depth six.
options["max_depth"] = 6
kept = tp.check_monotonicity(XGBRegressor(**options).fit(X, y), X)
kept
