"""
Six definitions of the effect of a feature
==========================================

If features are independent, partial dependence, accumulated local effects and purified effects are
one curve, up to a constant; Shapley values add half of the interaction to it. Here a model has two
correlated features, and each of six ways answers another question. Five are compared with their
formulas.
"""

# %%
# The model learns ``f = x0 + x0 * x1``, and the features are Gaussian with correlation 0.8.
import matplotlib.pyplot as plt
import numpy as np
import xgboost

import treepurify as tp
from treepurify.plots.style import INK, MANY, style_axes

R = 0.8
rng = np.random.default_rng(0)
X = rng.multivariate_normal([0, 0], [[1, R], [R, 1]], size=10_000)
y = X[:, 0] + X[:, 0] * X[:, 1]
model = xgboost.XGBRegressor(n_estimators=200, max_depth=4, learning_rate=0.1, n_jobs=2).fit(X, y)

# %%
# **Partial dependence** sets ``x0`` by hand and leaves ``x1`` as it is in the data. It evaluates
# the model at pairs of values that do not occur together; the result says how often.
interventional = tp.partial_dependence_anova(model, X)
print(interventional.certificate.note)

# %%
# **Independent features** are the same idea for all effects at once: the functional ANOVA as if
# ``x0`` and ``x1`` were independent. Main effects equal partial dependence up to a constant, since
# partial dependence starts from the mean of the data as they are.
independent = tp.purify(model, X, weights="independent")

# %%
# **Purified effects** keep the dependence. With two features, as here, the main effects are the
# best additive approximation of the model, in mean square over the data, and the interaction is
# what only the pair can explain.
purified = tp.purify(model, X, weights="empirical")

# %%
# **Accumulated local effects** sum the changes of the prediction for small moves of ``x0``, near
# the data.
local = tp.ale_anova(model, X)

# %%
# **Shapley values** split the interaction between the features instead of keeping it separate.
# Path-dependent values (``tree_path_dependent``) average along the branches of the trees, and
# depend on how the trees happen to be built. XGBoost computes them, with the main effects on the
# diagonal.
some = X[:1500]
shapley = interventional.shapley_values(some).values[:, 0, 0]
booster = model.get_booster()
by_path = booster.predict(xgboost.DMatrix(some), pred_interactions=True)[:, 0, 0]

# %%
# The formulas: with Gaussian features of correlation ``r``,
#
# * independence: ``x0``, because ``x1`` has mean zero; partial dependence: ``x0 - r``, since the
#   mean of the model over the data is ``r``;
# * purified: ``x0 + r / (1 + r**2) * (x0**2 - 1)``, what an additive function can explain of
#   ``x0 * x1``, shared evenly with ``x1``;
# * accumulated: ``x0 + r * (x0**2 - 1) / 2``, since ``x1`` is about ``r * x0`` where ``x0`` moves;
# * interventional Shapley values: ``x0`` plus half of ``x0 * x1 - r``, a cloud, because they
#   depend on ``x1`` too.
x = np.linspace(-2.2, 2.2, 200)
at = np.stack([x, np.zeros(200)], axis=1)
square = x**2 - 1
panels = [
    ("partial dependence", interventional["x0"].evaluate(at), x - R),
    ("independent", independent["x0"].evaluate(at), x),
    ("purified, empirical", purified["x0"].evaluate(at), x + R / (1 + R**2) * square),
    ("accumulated local effects", local["x0"].evaluate(at), x + R * square / 2),
]
figure, axes = plt.subplots(2, 3, figsize=(11, 6.5), sharex=True, sharey=True, layout="constrained")
for axis, (title, effect, truth) in zip(axes.flat, panels, strict=False):
    axis.plot(x, effect, color=MANY[0], label="model")
    axis.plot(x, truth, "--", color=INK, linewidth=1, label="formula")
    axis.set_title(title, fontsize=10, color=INK)
axes.flat[0].legend(frameon=False)
clouds = [("interventional Shapley value", shapley), ("path-dependent, main effect", by_path)]
for axis, (title, values) in zip(axes.flat[4:], clouds, strict=True):
    axis.scatter(some[:, 0], values, s=2, alpha=0.4, color=MANY[0])
    axis.set_title(title, fontsize=10, color=INK)
axes.flat[4].scatter(
    some[:, 0], some[:, 0] + (some[:, 0] * some[:, 1] - R) / 2, s=1, color=INK, label="formula"
)
axes.flat[4].legend(frameon=False)
for axis in axes[1]:
    axis.set_xlabel("x0")
for axis in axes.flat:
    style_axes(axis)
axes.flat[0].set_xlim(-2.2, 2.2)
axes.flat[0].set_ylim(-4, 6)
plt.show()

# %%
# How far is each curve from its formula where ``x0`` is within 1.5 of its mean, as in 87% of the
# rows? Further out, partial dependence and independence are up to 0.8 away: there the trees
# extrapolate.
for title, effect, truth in panels:
    near = np.abs(x) < 1.5
    print(f"{title:28} largest distance {np.max(np.abs(effect - truth)[near]):.2f}")

# %%
# How much of the model is interaction? Friedman's ``h_squared`` uses partial dependence;
# ``purified_share`` is the same share for independent features. For the model both are more than a
# third. For the function itself they would be 0.62 and 0.50; the model has less, because its trees
# are flat where there are no rows. On the data, where the second feature follows the first, it is a
# few percent.
h = tp.h_statistics(model, X)
print(h.pairs().round(3).to_string())
print(purified.importance().round(3).to_string())
