"""
Would another training show the same effects?
=============================================

A purified effect describes one model. Another training would have given another model. Here a model
of recidivism (COMPAS) is trained again on twenty bootstrap samples, and each of them is purified.
The figures show which effects stay the same, which have no clear sign, and which
interactions only some of the models have. The bands are for one more bootstrap of these rows; a
model of new rows varies more (`other_rows=True`).

If the data are missing on the machine that builds this page, a made-up table with the same columns
is used, and the numbers in the text do not apply to it.
"""

# sphinx_gallery_thumbnail_number = 2

# %%
import sys

import matplotlib.pyplot as plt
import xgboost

import treepurify as tp
from treepurify import plots

# Wherever this page is run from, the folder of the examples is here or above it.
sys.path += [".", "..", "../.."]

from examples.data import compas_two_years
from examples.made_up import or_made_up

data = or_made_up(compas_two_years)
print(f"{data.name}: {len(data.X)} rows of {', '.join(data.X.columns)}")

# %%
# The model to explain, and twenty trainings of the same kind on rows that are drawn from its
# training rows with replacement.
estimator = xgboost.XGBClassifier(
    n_estimators=100, max_depth=2, learning_rate=0.1, enable_categorical=True, n_jobs=1
)
model = estimator.fit(data.X, data.y)
others = tp.refit(estimator, data.X, data.y, n=20, progress=False)

# %%
# The effects describe the model, the spread its refits. Each bootstrap model has other split
# points; its effects are averaged over the cells of the model's.
d = tp.purify(model, data.X, refits=others, weights="empirical", progress=False)
print(d)
print(d.spread)

# %%
# How far do trainings agree? ``size_lower`` and ``size_upper`` bound the size that an effect would
# have in one more training, and ``present`` is the share of trainings that have it.
table = d.importance(details=True)
columns = ["effect", "size", "size_lower", "size_upper", "present"]
print(table[columns].head(12).to_string(float_format="{:.4f}".format))

# %%
# Effects whose band contains zero for more than 95% of the rows: the sign that they would have in
# another training is not clear.
unsure = [d.term_name(subset) for subset, _ in d.spread.no_clear_sign()]
print(f"{len(unsure)} effects have no clear sign, such as {', '.join(unsure[:5])}")

# %%
# The largest main effects with their bands. A band holds for each interval separately.
mains = [subset for subset in d if len(subset) == 1]
largest = sorted(mains, key=lambda subset: -d[subset].variance[0])[:2]
figure, axes = plt.subplots(1, 3, figsize=(15, 4), layout="constrained")
for subset, ax in zip(largest, axes, strict=False):
    plots.main_effect(d, subset[0], before=False, ax=ax)
plots.importance(d, top=10, ax=axes[2])
plt.show()

# %%
# The largest pair: in dotted fields, another training could have the opposite sign.
pairs = [subset for subset in d if len(subset) == 2]
ax = plt.figure(figsize=(7.5, 5.5), layout="constrained").add_subplot()
plots.pair(d, max(pairs, key=lambda subset: d[subset].variance[0]), ax=ax)
plt.show()

# %%
# The features that interact: the faint lines show how large a pair may be in another training, and
# dashed pairs may be zero.
plots.network(d)
plt.show()

# %%
# One person: the contribution of each effect, and where its bar could end in another training.
plots.waterfall(d, data.X, index=0, top=5)
plt.show()

# %%
# Of the effects with at least 1% of the variance, an audit of several trainings lists those that
# depend on the training. Most of those without a clear sign are smaller.
audit = tp.audit([*others], data.X, n_bootstrap=0, measures=[], progress=False)
for finding in audit.findings:
    if finding.kind == "training":
        print(f"{finding.severity:.2%}: {finding.sentence}")
