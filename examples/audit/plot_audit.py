"""
Audit a model
=============

Can this model be read effect by effect? An audit purifies it under several distributions, repeats
this on resampled rows, and ranks what a reader should know before quoting an effect.
"""

# %%
# The model predicts the rent of a flat. The data contain an interaction: a lift is worth nothing on
# the ground floor, and 45 more with every floor.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from xgboost import XGBRegressor

import treepurify as tp
from treepurify import plots

rng = np.random.default_rng(0)
n_flats = 3000
flats = pd.DataFrame(
    {
        "area": rng.gamma(9.0, 8.0, n_flats),
        "floor": rng.integers(0, 9, n_flats).astype(float),
        "age": rng.uniform(0, 100, n_flats),
    }
)
# Most high houses have lifts: floor and lift are correlated.
has_lift = rng.random(n_flats) < 1 / (1 + np.exp(3 - flats["floor"]))
flats["lift"] = has_lift.astype(float)
rent = 12 * flats["area"] + 45 * flats["floor"] * (flats["lift"] - 0.4) - 1.5 * flats["age"]
rent += rng.normal(scale=40, size=n_flats)
model = XGBRegressor(n_estimators=200, max_depth=2, learning_rate=0.1, n_jobs=1).fit(flats, rent)

# %%
# What should a reader know about it? The model stores trees. Leaves whose path tests one feature
# add up to a curve of it, and those that test two to a table: these are the effects that the model
# stores.
found = tp.audit(model, flats)
found

# %%
# The first findings, each with its figure.
for rank in range(min(3, len(found.findings))):
    plots.finding(found, rank)
    plt.show()

# %%
# The interaction of the data, as lines: without a lift the rent falls on the whole from floor to
# floor, with a lift it rises. Few high flats have no lift, and few on the ground floor have one:
# there the lines are unreliable. (On the ground floor they should meet.)
d = found.decomposition
plots.pair_lines(d, ("floor", "lift"))
plt.show()

# %%
# The features that interact.
plots.network(d)
plt.show()

# %%
# The effects of one flat add up to its predicted rent.
plots.waterfall(d, flats.iloc[[0]])
plt.show()

# %%
# The same for many flats.
plots.beeswarm(d, flats)
plt.show()

# %%
# The same model as an explainable boosting machine of the interpret package, with the purified
# effects as its terms: its predictions are the same but for the rounding of single precision, and
# its own plots show the purified effects.
from treepurify.export import to_ebm  # noqa: E402

ebm = to_ebm(d)
float(np.abs(ebm.predict(flats) - model.predict(flats)).max())
