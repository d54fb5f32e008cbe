"""The figure of weak spots names each slice in full."""

from itertools import pairwise

import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp


def test_slices_have_one_whole_line_per_feature():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(3000, 2)), columns=["annual_mean_income", "household_size"])
    y = rng.normal(size=3000) * np.where((X > 0.5).all(axis=1), 4.0, 0.5)
    model = GradientBoostingRegressor(n_estimators=20).fit(X, X.sum(axis=1))
    d = tp.purify(model, X, progress=False)
    found = tp.weak_spots(d, X, y, n_spots=3, progress=False)
    ax = tp.plots.weak_spots(found)
    ax.figure.canvas.draw()
    labels = ax.get_yticklabels()
    assert [label.get_text().replace("\n", " ") for label in labels] == [*found.to_frame()["slice"]]
    assert all(label.get_text().count("\n") == label.get_text().count("&") for label in labels)
    boxes = [label.get_window_extent() for label in labels]
    assert not any(one.overlaps(other) for one, other in pairwise(boxes))
    assert ax.get_xlabel().startswith("mean squared error minus the mean of all rows")
