"""What the example of the paper prints."""

import numpy as np
import pytest

from examples import paper_shapley_sets as paper


def test_worked_examples(capsys):
    paper.show_examples()
    printed = capsys.readouterr().out
    assert "Shapley Sets:   {x0} 1.00, {x1 & x2} 2.00" in printed
    assert "Shapley values: [1. 1. 1.]" in printed
    lines = [line for line in printed.splitlines() if "conditional Shapley" in line]
    # The paper: conditional Shapley halves x3's part once x2 is there, Shapley Sets do not.
    assert "[0.5  0.25 0.25]" in lines[0]
    assert lines[0].split("{x1 & x2} ")[1][:4] == lines[1].split("{x1} ")[1][:4]


@pytest.mark.parametrize("name", paper.FUNCTIONS)
def test_table_1(name):
    for seed in range(3):
        right, ours, theirs = paper.table_1_errors(name, seed, 5)
        assert right
        assert np.all(ours < 1e-12)
        assert theirs.mean() > 0.05
