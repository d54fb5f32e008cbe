"""
Factors of claim frequencies
============================

How does a boosted model of claim counts become the tariff that a pricing engine loads? A Poisson
model is trained on simulated policies and exported as a base and factors. Policies that
were insured for part of a year enter through an offset, so the model predicts claims per year.
"""

# %%
# Simulated policies
# ------------------
# The truth is known: young drivers of strong cars have more claims than age and power explain
# separately.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xgboost

import treepurify as tp

rng = np.random.default_rng(0)
n_policies = 20_000
policies = pd.DataFrame(
    {
        "age": rng.integers(18, 90, n_policies).astype(float),
        "power": rng.integers(4, 16, n_policies).astype(float),
        "region": pd.Categorical(rng.choice(["city", "country", "suburb"], n_policies)),
        "bonus": rng.integers(50, 120, n_policies).astype(float),
    }
)
exposure = rng.uniform(0.1, 1.0, n_policies)
log_frequency = (
    -2.2
    + 0.5 * (policies["age"] < 26)
    + 0.03 * (policies["power"] - 8)
    + 0.35 * (policies["region"] == "city")
    + 0.012 * (policies["bonus"] - 80)
    + 0.6 * ((policies["age"] < 26) & (policies["power"] > 10))
)
claims = rng.poisson(exposure * np.exp(log_frequency))

# %%
# Exposure is an offset
# ---------------------
# A policy of half a year has half the claims, so the logarithm of the exposure is added to the
# margin: ``base_margin`` of XGBoost, ``init_score`` of LightGBM, an offset in a GLM. It belongs to
# a policy and not to the tariff. The trees therefore learn the frequency per year, and only this
# frequency is decomposed. XGBoost replaces its own constant by the offset when it is given, so the
# mean level has to be in the offset as well, and is added to the margin afterwards.
level = np.log(claims.sum() / exposure.sum())
model = xgboost.XGBRegressor(
    objective="count:poisson", n_estimators=60, max_depth=2, learning_rate=0.1, n_jobs=1,
    enable_categorical=True, base_score=1.0,
).fit(policies, claims, base_margin=np.log(exposure) + level)  # fmt: skip
d = tp.purify(model, policies, sample_weight=exposure, weights="empirical", progress=False)
print(d)

# %%
# The base score is 1, whose logarithm is 0: the margin of `d` is the sum of the trees alone, and
# the frequency of a policy is ``exp(level)`` times its factors. For whole policies:
expected = exposure * np.exp(level) * np.exp(d.predict(policies))
given = model.predict(policies, base_margin=np.log(exposure) + level)
print(f"largest difference from the library: {np.abs(expected / given - 1).max():.1e}")
print(f"claims: {claims.sum()}; expected: {expected.sum():.0f}")

# %%
# Factors
# -------
# Every effect becomes factors, one per interval or category. Factors of main effects are relative
# to the interval or category with the largest exposure. The interaction is pure, so its factors are
# relative to the product of both main factors.
table = tp.export.to_relativities(d)
print(table.head(24).round(3).to_string(index=False))

# %%
# The base belongs to the trees, so the tariff is ``exp(level)`` times the base and the factors that
# are looked up. Here is the premium of one policy, and that of the model:
policy = policies.iloc[0]
premium = np.exp(level)
for term, cells in table.groupby("term", sort=False):
    found = np.ones(len(cells), dtype=bool)
    for k, name in enumerate(term.split(" & ") if term != "base" else [], start=1):
        if name == "region":
            found &= cells[f"cell_{k}"] == policy[name]
        else:
            found &= (cells[f"from_{k}"] <= policy[name]) & (policy[name] < cells[f"to_{k}"])
    premium *= cells.loc[found, "factor"].item()
print(f"{premium:.6f} and {expected[0] / exposure[0]:.6f}")

# %%
# As simulated, claims fall at 26 years, to about half.
tp.plots.main_effect(d, "age")
plt.show()

# %%
tp.plots.pair(d, ("age", "power"))
plt.show()
