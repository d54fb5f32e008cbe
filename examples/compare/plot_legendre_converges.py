"""
The continuous closed form approaches purified effects
======================================================

Two engines that share no code explain one model: `treepurify.purify` reads the trees,
`legendre_anova` fits polynomials to the values of the model. If features are independent and
uniform, both estimate the same effects. As the degree of the polynomials grows, the second comes
closer to the first.
"""

# %%
# A model of trees of depth 2 has main effects and pairs, all of them step functions.
import warnings

import matplotlib.pyplot as plt
import numpy as np
import xgboost

import treepurify as tp
from treepurify.plots.style import INK, MANY, legend_above, style_axes

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(20_000, 3))
y = np.sin(3 * X[:, 0]) + X[:, 0] * X[:, 1] + np.abs(X[:, 2])
model = xgboost.XGBRegressor(n_estimators=150, max_depth=2, learning_rate=0.1, n_jobs=2).fit(X, y)
purified = tp.purify(model, X, weights=tp.weights.Uniform(by="length"), progress=False)

# %%
# The densities are known here to be constant, which a series of degree 0 represents; then the
# functions are orthogonal under the uniform distribution itself, and no projection on the rows is
# needed. All columns are kept: the question is how well polynomials of a degree can fit, not which
# of them to select. Steps have jumps, so no degree reproduces them; the error of a truncated series
# of a function with jumps falls as one over the square root of the degree. A warning names the
# effects that low degrees leave in the remainder, here on purpose.
warnings.simplefilter("ignore", tp.errors.FitWarning)
DEGREES = [1, 2, 3, 4, 6, 8, 12, 16, 20]
many = rng.uniform(-1, 1, size=(30_000, 3))
fits = {
    degree: tp.legendre_anova(
        model,
        many,
        degree=degree,
        density="legendre",
        density_degree=0,
        scaling="minmax",
        selection="all",
        orthogonal=False,
        progress=False,
    )
    for degree in DEGREES
}

# %%
# The distance is the root mean square of the difference on new rows, in standard deviations of the
# model; the first line is the size of the effect itself.
new = rng.uniform(-1, 1, size=(20_000, 3))
scale = np.std(purified.predict(new))


def distance(d: tp.Decomposition, subset: tuple[int, ...]) -> float:
    """Root mean square difference from the purified component, relative to the model."""
    difference = d[subset].evaluate(new) - purified[subset].evaluate(new)
    return float(np.sqrt(np.mean(difference**2)) / scale)


subsets = list(purified.components)
distances = {degree: [distance(d, subset) for subset in subsets] for degree, d in fits.items()}
print(
    "degree  " + " ".join(f"{purified.term_name(subset):>9}" for subset in subsets) + "        R2"
)
sizes = [np.sqrt(purified.components[subset].variance[0]) / scale for subset in subsets]
print("size    " + " ".join(f"{size:9.4f}" for size in sizes))
for degree, row in distances.items():
    (fit,) = fits[degree].diagnostics["fit"].values()
    print(f"{degree:>6}  " + " ".join(f"{e:9.4f}" for e in row) + f" {fit['r_squared']:9.5f}")

# %%
# From degree 1 to degree 20 all distances fall, though not at every step: an odd function gains
# nothing from degree 2. The distance of ``x1`` falls slowly: the data have no such effect, and the
# model's effect consists of many small steps, which only high degrees can follow.
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
x = np.linspace(-1, 1, 800)
at = np.zeros((len(x), 3))
at[:, 0] = x
left.plot(x, purified["x0"].evaluate(at), color=INK, linewidth=1, label="purified")
for degree, color in zip((2, 6, 20), MANY, strict=False):
    left.plot(x, fits[degree]["x0"].evaluate(at), color=color, label=f"degree {degree}")
left.set(xlabel="x0", ylabel="effect on the prediction")
for k, subset in enumerate(subsets):
    line = [distances[degree][k] for degree in DEGREES]
    name = purified.term_name(subset)
    right.loglog(DEGREES, line, "o-", color=MANY[k], markersize=4, label=name)
right.set(xlabel="degree", ylabel="distance from the purified component")
right.set_xticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
right.set_yticks([0.01, 0.03, 0.1, 0.3], ["0.01", "0.03", "0.1", "0.3"])
for ax in (left, right):
    style_axes(ax)
    ax.minorticks_off()
    legend_above(ax, 3)
plt.show()
