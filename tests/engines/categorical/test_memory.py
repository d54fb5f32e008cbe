"""The closed form for categories keeps to its memory budget, whatever the rows are."""

import tracemalloc

import numpy as np
import pytest

import treepurify as tp
from tests.engines.categorical.test_anova import quiet
from treepurify.engines.categorical import cells

MIB = 1 << 20


def peak_of(work):
    """Return the most bytes that `work` held at a time, once its kernels are compiled."""
    found = []
    for _ in range(2):
        tracemalloc.start()
        try:
            work()
        except tp.errors.MemoryBudgetError:
            pass
        finally:
            found.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    return found[-1]


def test_no_table_is_made_of_candidates_beyond_the_rank(monkeypatch):
    """Six columns of 32 bins have a table of 32**6 cells, but 200 rows need no pair but one."""
    numbered = []
    add = cells.NumberedCells.add

    def count(self, observations, subset):
        numbered.append(subset)
        return add(self, observations, subset)

    monkeypatch.setattr(cells.NumberedCells, "add", count)
    rows = np.random.default_rng(0).normal(size=(200, 6))
    d = tp.categorical_anova(
        rows[:, 0] * rows[:, 1], rows, order=2, selection="greedy", progress=False
    )
    assert max(map(len, d.components)) == 2
    assert len(numbered) < 15
    assert d.diagnostics["selection"]["exhausted"] is False


def columns_of_one():
    """Columns that are copies of one, so that no candidate adds anything to the first."""
    return np.repeat(np.random.default_rng(1).integers(0, 60, size=(300, 1)), 5, axis=1)


def nearly_columns_of_one():
    return columns_of_one() + np.random.default_rng(2).integers(0, 3, size=(300, 5))


def all_combinations():
    return np.array(np.meshgrid(*[[0, 1]] * 13)).reshape(13, -1).T


def many_cells():
    return np.random.default_rng(3).integers(0, 50, size=(2000, 5))


def normal_columns():
    return np.random.default_rng(4).normal(size=(200, 6))


def missing_columns():
    """Missing values are the last level and the most frequent one."""
    rows = np.random.default_rng(5).normal(size=(300, 3))
    rows[np.random.default_rng(6).random(rows.shape) < 0.3] = np.nan
    return rows


@pytest.mark.filterwarnings("ignore::treepurify.errors.SupportWarning")
@pytest.mark.parametrize("selection", ["auto", "greedy", "least-norm", "lars"])
@pytest.mark.parametrize(
    "make",
    [
        columns_of_one,
        nearly_columns_of_one,
        all_combinations,
        many_cells,
        normal_columns,
        missing_columns,
    ],
)
def test_every_selection_keeps_to_the_budget(make, selection):
    rows = make()
    values = np.sin(np.nan_to_num(rows.astype(float)).sum(axis=1) ** 2)
    budget = 8 * MIB
    peak = peak_of(lambda: quiet(values, rows, selection=selection, memory_budget=budget))
    assert peak < 1.6 * budget + 4 * rows.nbytes


@pytest.mark.parametrize("weighted", [False, True])
def test_continuous_columns_with_missing_values_need_no_dense_tables(weighted):
    """Functions of pairs and triples, written out in all cells, took 700 MiB."""
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(500, 3))
    values = np.sin(3 * rows.sum(axis=1))
    rows[rng.random(rows.shape) < 0.1] = np.nan
    weights = 1 + rng.random(500) if weighted else None
    budget = 64 * MIB

    def decompose():
        options = {"bins": 60, "selection": "greedy", "memory_budget": budget}
        return quiet(values, rows, sample_weight=weights, **options)

    assert decompose().certificate.conditional_mean < 1e-12
    assert peak_of(decompose) < budget


def test_conditional_means_are_counted_before_they_are_made():
    rows = all_combinations()
    values = np.arange(len(rows)) % 7.0
    with pytest.raises(tp.errors.MemoryBudgetError, match=r"conditional means of .* smaller order"):
        quiet(values, rows, memory_budget=MIB)
    assert len(quiet(values, rows, order=1, memory_budget=MIB).components) == 13
