"""
Purify an XGBoost model
=======================

Boosted trees of depth two are sums of main effects and interactions, but the trees do not show
which part belongs to which effect. Purification does. This example goes from a trained model to its
effects and its certificate.
"""

# %%
# The model predicts the progression of diabetes from ten measurements of each patient.
import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from xgboost import XGBRegressor

import treepurify as tp
from treepurify import plots

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
model = XGBRegressor(n_estimators=150, max_depth=2, learning_rate=0.05, n_jobs=1).fit(X, y)

# %%
# One call turns it into effects. They refer to the distribution of ``X``.
d = tp.purify(model, X, weights="empirical")
d

# %%
# Nothing is lost: the intercept and the effects add up to the model's own prediction. XGBoost
# adds in single precision, hence the last digits.
d.verify(model, X)

# %%
# How large is each effect? The size is its standard deviation, in the units of the prediction; the
# share is that of the variance of the prediction, by covariance.
d.importance().head(8).round(4)

# %%
plots.importance(d, top=8)
plt.show()

# %%
# The trees hardly have main effects, since nearly every leaf lies below splits on two features. The
# main effect of the body mass index was hidden in its interactions:
plots.main_effect(d, "bmi")
plt.show()

# %%
# Here is one of them. Before purification it mostly shows the two main effects; afterwards only the
# part that they cannot explain. Hatched cells have no patients.
pairs = d.importance(order=2)["effect"]
key = tuple(pairs.iloc[0].split(" & "))
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
plots.pair(d, key, before=True, ax=left)
left.set_title("before purification")
plots.pair(d, key, ax=right)
right.set_title("purified")
plt.show()

# %%
# The certificate states in numbers how exact the effects are, and whether the rows determine them.
print("\n".join(d.certificate.details()))
