"""The margin that is read off tables against the trees themselves."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

import treepurify as tp
from treepurify.effects import grid_margin
from treepurify.effects.accumulate import ensemble_cuts
from treepurify.effects.leaf_boxes import leaf_boxes
from treepurify.grids.grid import make_grid


@pytest.mark.parametrize("numbers_at_once", [1, 1 << 23])
@pytest.mark.parametrize("seed", range(5))
def test_the_margin_is_that_of_the_trees(seed, numbers_at_once, monkeypatch):
    monkeypatch.setattr(grid_margin, "_NUMBERS_AT_ONCE", numbers_at_once)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 3))
    X[::7, 1] = np.nan
    labels = rng.integers(3, size=200)
    model = tp.parse_model(HistGradientBoostingClassifier(max_iter=4, max_depth=2).fit(X, labels))
    columns = model.columns(X)
    grid, rows = make_grid(columns, model.features, ensemble_cuts(model), match_names=False)
    found = grid_margin.margin_in_cells(model, grid, leaf_boxes(model, grid), rows.codes, 1 << 20)
    np.testing.assert_allclose(found, model.margin(X), atol=1e-12)
