"""
Where is a model worse than elsewhere?
======================================

Weak spots are slices of the rows, of one or two features, where the error of a model is largest.
Here the model predicts prices of houses in California. The slices are found on one half of the
held-out rows and tested on the other half; the end of the page shows how much of the error is bias.

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

from examples.data import california_housing
from examples.made_up import or_made_up

data = or_made_up(california_housing)

X, X_test, y, y_test = train_test_split(data.X, data.y, test_size=0.5, random_state=0)
model = xgboost.XGBRegressor(n_estimators=100, max_depth=2, learning_rate=0.2, n_jobs=1)
d = tp.purify(model.fit(X, y), X, progress=False)

# %%
# Found on one half, tested on the other
# --------------------------------------
# Tens of thousands of slices are compared, so the worst one would look bad even if nothing were
# wrong. The other half of the rows had no part in the choice; its intervals are valid for all
# slices together.
found = tp.weak_spots(d, X_test, y_test, progress=False)
print(found)
tp.plots.weak_spots(found)
plt.show()

# %%
# ``search_excess`` is the excess loss on the rows that chose a slice; ``excess`` is its excess loss
# on the other rows.
columns = ["slice", "share", "search_excess", "excess", "low", "high"]
print(found.to_frame()[columns].round(3).to_string(index=False))

# %%
# Loss, or bias?
# --------------
# Prices vary more in some places than in others, and no model can change that. But a model could
# still learn the effects that its residuals have on held-out rows.
missed = tp.missed_effects(d, X_test, y_test, progress=False)
print(missed.head(6).round(4).to_string(index=False))

# %%
# The rows of the first slice, to look at: is the mean residual far from zero, or are the residuals
# merely large? They are merely large: outcomes vary more there, and the loss is not bias.
inside = found.rows_in(0, X_test)
residual = y_test - model.predict(X_test)
print(found.spots[0].words())
print(f"mean residual: {residual[inside].mean():+.3f}; of all rows: {residual.mean():+.3f}")
print(f"their spread:  {residual[inside].std():.3f}; of all rows: {residual.std():.3f}")
