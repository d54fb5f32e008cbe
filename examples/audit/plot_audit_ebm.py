"""
Find effects that an EBM hides
==============================

An explainable boosting machine (EBM) shows its effects, and people read them. But a part of a main
effect can be moved into an interaction without changing a single prediction. Here this is done on
purpose, and the audit finds it.
"""

# %%
# An EBM of the progression of diabetes, with three pairs.
import copy

import matplotlib.pyplot as plt
import numpy as np
from interpret.glassbox import ExplainableBoostingRegressor
from sklearn.datasets import load_diabetes

import treepurify as tp
from treepurify import plots
from treepurify.export import to_ebm

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
ebm = ExplainableBoostingRegressor(
    interactions=[("bmi", "bp"), ("bmi", "s5"), ("age", "sex")],
    max_bins=32,
    max_interaction_bins=32,
    outer_bags=1,
    max_rounds=300,
    random_state=0,
    n_jobs=1,
).fit(X, y)

# %%
# interpret does not purify the pairs of an EBM. Here they are small next to the main effects, so
# little of the variance moves to another effect, and the audit, which reports what concerns 1% of
# the variance of the prediction, finds nothing.
honest = tp.audit(ebm, X, progress=False)
honest

# %%
# Now the terms are changed by hand. Twice the effect of the body mass index is subtracted from its
# main effect, whose sign is then reversed, and added to the pair with the blood pressure, by the
# same amount at every blood pressure.
told = copy.deepcopy(ebm)
bmi, pair = (ebm.term_names_.index(name) for name in ("bmi", "bmi & bp"))
moved = 2 * ebm.term_scores_[bmi]
told.term_scores_[bmi] = ebm.term_scores_[bmi] - moved
told.term_scores_[pair] = ebm.term_scores_[pair] + moved[:, None]
float(np.abs(told.predict(X) - ebm.predict(X)).max())

# %%
# No prediction has changed. But the plots of the EBM now say that a high body mass index is good
# for patients.
found = tp.audit(told, X, progress=False)
found

# %%
# The first of the two contradictions, with its region shaded: there the EBM's own curve has the
# wrong sign. On the other side it has, too, which is the second contradiction.
kinds = [finding.kind for finding in found.findings]
plots.finding(found, kinds.index("contradiction"))
plt.show()

# %%
# Both EBMs have the same purified effects, since they are the same function.
tp.compare(honest.decomposition, found.decomposition)

# %%
# The purified form can be converted back to an EBM. It has the same predictions, and its terms can
# be read as effects.
mended = to_ebm(found.decomposition)
print(f"largest change of a prediction: {np.abs(mended.predict(X) - told.predict(X)).max():.1e}")
position = mended.term_names_.index("bmi")
low, high = mended.term_scores_[position][1], mended.term_scores_[position][-2]
print(f"effect of the lowest and of the highest body mass index: {low:+.1f} and {high:+.1f}")
