"""
AND, OR, XOR: one interaction
=============================

The logical functions AND, OR and XOR (exclusive or) look like three interactions. They are one:
apart from main effects, each is a multiple of the same table. It is an accident of training which
of them a model seems to contain. Purification shows the same interaction for all three.
"""

# %%
# Three functions of two switches, each as a table. Each switch is on half of the time.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from treepurify import plots

tables = {
    "AND": np.array([[0.0, 0.0], [0.0, 1.0]]),
    "OR": np.array([[0.0, 1.0], [1.0, 1.0]]),
    "XOR": np.array([[0.0, 1.0], [1.0, 0.0]]),
}
even = np.full((2, 2), 0.25)
for name, table in tables.items():
    pure = tp.purify_tensors({(0, 1): table}, even)
    main, pair = pure[0].values[:, 0], pure[0, 1].values[..., 0]
    print(f"{name:3} intercept {pure.intercept[0]:.2f}, each main effect {main}, pair {pair[0]}")

# %%
# After purification the pair is the same checkerboard each time, up to its size and sign: 0.25 for
# AND, -0.25 for OR, and -0.5 for XOR, the only one without main effects.
#
# A boosted model is full of such tables. This one has trees of depth two on ten measurements.
X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
model = GradientBoostingRegressor(
    n_estimators=150, max_depth=2, learning_rate=0.05, random_state=0
).fit(X, y)
d = tp.purify(model, X, weights="empirical")
before = d.as_trained()

# %%
# ``as_trained`` writes the same function as the sum of the model's own terms: the trees, sorted by
# the features that they use. Both give the same predictions.
float(np.abs(before.predict(X) - d.predict(X)).max())

# %%
# But how much of it is interaction?
shares = {
    name: own.importance(details=True).groupby("order")["share"].sum()
    for name, own in {"as trained": before, "purified": d}.items()
}
pd.DataFrame(shares).round(3)

# %%
# After purification, the interaction that was largest before is among the small effects. A negative
# share by covariance is that of an effect which works against the others.
figure, axes = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
for ax, own, title in zip(axes, (before, d), ("as trained", "purified"), strict=True):
    plots.importance(own, top=8, ax=ax)
    ax.set_title(title, pad=24)  # above the legend
plt.show()

# %%
# This interaction before and after purification. Before, it looks like the sum of two main effects,
# and mostly is. Little is left: the colours on the right span about a quarter of the range on the
# left.
pairs = before.importance(order=2)["effect"]
key = tuple(pairs.iloc[0].split(" & "))
figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
plots.pair(d, key, before=True, ax=axes[0])
axes[0].set_title("as trained")
plots.pair(d, key, ax=axes[1])
axes[1].set_title("purified")
plt.show()

# %%
# The same comparison in words and numbers.
tp.compare(before, d, names=("as trained", "purified"))
