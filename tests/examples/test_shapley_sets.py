"""What the example of the paper prints."""

import numpy as np
import pytest

from examples import paper_shapley_sets as paper
from examples import paper_shapley_sets_examples as examples


def cells(table, label):
    (entry,) = (own for own in table.entries if own.label == label)
    return entry.ours["ours"]


def test_worked_examples():
    table = examples.example_1()
    groups, values = cells(table, "with x2")
    without, _ = cells(table, "without x2")
    assert values == "x1 0.50, x2 0.25, x3 0.25"
    # The paper: conditional Shapley halves x3's part once x2 is there, Shapley Sets do not.
    assert groups.split("{x2 & x3} ")[1] == without.split("{x3} ")[1]
    table = examples.example_2()
    groups, values, base = cells(table, "independent, off the manifold")
    assert groups == "{x1} 1.00, {x2 & x3} 2.00"
    assert values == "1.00 1.00 1.00"
    assert base == pytest.approx(0.0)
    groups, _, base = cells(table, "x1 = x2 / 2, on the manifold")
    assert groups == f"{{x1 & x2 & x3}} {3 - base:.2f}"


def test_sources_of_the_examples():
    for entry in examples.sources().entries:
        for own, implied in zip(entry.ours["ours"], entry.paper, strict=True):
            assert implied in (None, own)


@pytest.mark.parametrize("name", paper.FUNCTIONS)
def test_table_1(name):
    for seed in range(3):
        right, ours, theirs = paper.table_1_errors(name, seed, 5)
        assert right
        assert np.all(ours < 1e-12)
        assert theirs.mean() > 0.05
