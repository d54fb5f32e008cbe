"""What tests of several figures share."""

import pytest


@pytest.fixture
def every_cell(monkeypatch):
    """Draw every cell, over the whole range, so that a figure can be compared with its table."""
    monkeypatch.setattr("treepurify.plots.limits.central_range", lambda axis, mass: None)
    monkeypatch.setattr("treepurify.plots.pairs.MOST_CELLS_OF_PAIR", 1 << 20)
    monkeypatch.setattr("treepurify.plots.curves.MOST_CELLS", 1 << 20)
