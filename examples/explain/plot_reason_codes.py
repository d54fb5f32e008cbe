"""
Reasons for decisions about people
==================================

Why does a model rank this person below the people that it accepts? `tp.reason_codes` gives at most
four exact reasons. The page also shows how certain each reason is, and what nobody should read into
it.

The model predicts from the adult data whether a person earns more than 50 000 dollars. Suppose that
it decides about credit: people with a predicted probability of at least a half are accepted.
"""

# sphinx_gallery_thumbnail_number = 1

# %%
import sys

import matplotlib.pyplot as plt
import numpy as np
import xgboost

import treepurify as tp

# Wherever this page is run from, the folder of the examples is here or above it.
sys.path += [".", "..", "../.."]

from examples.data import adult
from examples.made_up import or_made_up

data = or_made_up(adult)

# %%
# Who is compared with whom
# -------------------------
# A reason says why a person lies below a *reference population*, here the accepted people. It is
# the Shapley value of a game: each group of features has either the values of the person or the
# values of an accepted person, averaged over all accepted people. It depends on nothing else: no
# distribution of the effects, no sampling.
#
# Features that are one reason to a reader are one group, and each has a text.
groups = {
    "education": ["education", "education_num"],
    "work": ["workclass", "occupation", "hours_per_week"],
    "family": ["marital_status", "relationship"],
    "capital": ["capital_gain", "capital_loss"],
}
texts = {
    "education": {"low": "Education"},
    "work": {"low": "Kind or hours of work"},
    "family": {"low": "Family situation"},
    "capital": {"low": "Little income from capital"},
    "age": {"low": "Age"},
}

model = xgboost.XGBClassifier(
    n_estimators=100, max_depth=2, learning_rate=0.2, enable_categorical=True, n_jobs=1
).fit(data.X, data.y)
score = model.predict_proba(data.X)[:, 1]
accepted, rejected = data.X[score >= 0.5], data.X[score < 0.5]
reasons = tp.reason_codes(
    model,
    rejected[:1000],
    reference=accepted,
    adverse="low",
    groups=groups,
    texts=texts,
    progress=False,
)
print(reasons)

# %%
# One person
# ----------
# One line per reason, in the units of the prediction (log-odds).
table = reasons.table()
print(table[table["row"] == table["row"].iloc[0]].to_string(index=False))

# %%
# The last reason is ``fnlwgt``, a weight from the survey that says nothing about a person. Nobody
# could put that into a letter, and the list shows that the model should not have been given it. The
# same holds for sex, age and marital status, by which credit may not be decided in many countries.
#
# The reasons shown, the other adverse reasons and the favourable ones sum to the difference between
# this person and the mean of the accepted people.
sums = reasons.sums().drop(columns=["n_adverse", "gap", "is_close"])
print(sums.head(3).round(4).to_string(index=False))

# %%
# The same as a picture, with the favourable contributions.
order = reasons.ranked.order[0][::-1]
names = [reasons.groups.names[group] for group in order]
values = reasons.values[0][order]
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
is_shown = reasons.ranked.shown[0][order]
colours = np.where(is_shown, "#c0504d", np.where(values < 0, "#e6b8b7", "#9bbb59"))
axes.barh(names, values, color=colours)
axes.axvline(0, color="black", linewidth=0.8)
axes.set_xlabel("added to the log-odds, compared with those accepted")
axes.set_title("Dark: the reasons shown; pale: adverse, not shown; green: favourable", size=9)
plt.show()

# %%
# How sure
# --------
# Would another training of the same model have given the same reasons? A reason that appears in
# half of the trainings should not be in a letter. ``is_close`` marks people for whom a very small
# change would show other reasons.
trainings = tp.refit(model, data.X, data.y, n=5, progress=False)
people = rejected[:200]
sure = tp.reason_codes(
    model,
    people,
    reference=accepted,
    adverse="low",
    groups=groups,
    texts=texts,
    refits=trainings,
    progress=False,
)
print(sure)
by_rank = sure.table().groupby("rank")["in_trainings"].mean()
print(by_rank.round(2))

# %%
# The picture shows which reasons are certain: first reasons appear in nearly every training, fourth
# reasons less often.
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.bar([f"reason {rank}" for rank in by_rank.index], by_rank)
axes.set_ylabel("share of other trainings")
plt.show()
