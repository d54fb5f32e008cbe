"""What the page of the categorical paper says, checked on small cases and on the data."""

import numpy as np
import pandas as pd
import pytest

from examples import paper_categorical as paper
from examples import paper_categorical_dota2 as dota2
from examples import paper_categorical_large as large
from examples import paper_categorical_transformer as transformer
from tests.cases import data_path
from treepurify.engines.categorical import categorical_anova


def test_table_1_to_the_printed_digits():
    for entry in paper.table_1().entries:
        # The paper cuts off.
        assert 0 <= entry.ours["ours"][0] - entry.paper[0] < 1e-3


def test_all_goes_to_the_copy_that_comes_first():
    first, second = (entry.ours["ours"] for entry in paper.remark_4_3().entries)
    assert first[0] > 1
    assert first[0] == pytest.approx(second[1])
    assert [*first[1:], second[0], second[2]] == pytest.approx([0.0] * 4, abs=1e-20)


def test_greedy_selection_explains_the_columns_that_come_first():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            f"{kind}{k}": rng.integers(n, size=600)
            for k in (1, 2)
            for kind, n in (("S", 4), ("C", 6))
        }
    )
    values = (X["C1"] == X["C2"]).to_numpy(float)
    case = large.Case("equal ranks", X.astype(str), values, {"order": 2})
    explained = [entry.ours["ours"][0] for entry in large.orders_of_columns(case, 45).entries]
    in_file, by_variance, ranks_first = explained
    assert ranks_first == pytest.approx(by_variance) == pytest.approx(1.0)
    assert ranks_first > in_file + 0.1


def test_kernel_shap_with_the_whole_factorial_is_the_anova():
    rng = np.random.default_rng(0)
    shape = (3, 2, 4)
    values = rng.normal(size=(*shape, 2))
    codes = np.indices(shape).reshape(3, -1).T
    X = pd.DataFrame(codes.astype(str), columns=list("abc"))
    on_rows = values[tuple(codes.T)]
    d = categorical_anova(on_rows, X, progress=False)
    ours = paper.anova_shapley(d, X)
    theirs = paper.kernel_shap(values, codes)[(slice(None), *codes.T)]
    np.testing.assert_allclose(theirs, ours, atol=1e-12)
    part = paper.kernel_shap(values, codes[:4])[(slice(None), *codes.T)]
    assert np.abs(part - ours).max() > 0.1


def test_biased_rows_give_the_errors_of_table_3():
    data_path("car_evaluation")
    from sklearn.ensemble import RandomForestClassifier

    errors, _ = paper.integrated_errors(
        "car_evaluation",
        lambda seed: RandomForestClassifier(50, random_state=seed),
        1,
        as_codes=True,
        held_out=0.3,
    )
    first, random = errors[0]
    printed = np.array(paper.TABLE_3)
    np.testing.assert_allclose(first, printed, atol=0.06, rtol=0.35)
    assert random.sum() < printed.sum() / 10


def test_the_class_of_a_mushroom_is_a_sum_of_main_effects():
    data_path("mushroom")
    table = paper.read_table("mushroom")
    X = table.drop(columns="class")
    labels = (table["class"] == "p").to_numpy().astype(float)
    d = categorical_anova(labels, X, order=1, memory_budget=4 << 30, progress=False)
    assert d.diagnostics["fit"]["f"]["mean_squared_error"] < 1e-20


def test_the_forest_of_connect_4_learns_three_classes_and_its_win_is_explained():
    data_path("connect4")
    (case,) = large.connect4(small=True)
    won = large.read_table("connect4").loc[case.X.index, "class"].to_numpy() == "win"
    assert case.values[won].mean() > 0.75
    assert case.values[~won].mean() < 0.5
    assert case.words.endswith("of three classes")


def test_dota2_has_the_rows_of_both_files():
    data_path("dota2_train")
    data_path("dota2_test")
    table = large.read_dota2()
    assert table.shape == (102_944, 114)
    assert set(np.unique(table.drop(columns="win"))) == {-1, 0, 1}


def test_a_transformer_learns_a_sum_and_attends_to_all_columns():
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, size=(1500, 4))
    labels = (codes[:, 0] + codes[:, 2] > 2).astype(np.int64)
    found = transformer.train(codes, labels, np.arange(1200), passes=25)
    right = found.probabilities.argmax(axis=1) == labels
    assert right[1200:].mean() > 0.95
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1.0)
    assert found.rollout.shape == (4,)
    assert found.rollout.sum() == pytest.approx(1.0)
    # Half of each layer is the skip, so that no column has less than an eighth of its own token's.
    assert found.rollout.min() > 1 / 8 / 4


def test_two_levels_of_three_leave_one_function_a_hero():
    rng = np.random.default_rng(0)
    codes = rng.integers(-1, 2, size=(3000, 3))
    # What the function of code 0 against code 1 can say, and what it cannot.
    said = 2.0 * (codes[:, 0] == 0) / np.mean(codes[:, 0] == 0)
    said -= 2.0 * (codes[:, 0] == 1) / np.mean(codes[:, 0] == 1)
    functions = dota2.two_level_functions(codes)
    rank, r_squared, *_ = dota2.least_squares(functions, said)
    assert (rank, r_squared) == (4, pytest.approx(1.0))
    not_said = (codes[:, 0] == -1).astype(float)
    assert dota2.least_squares(functions, not_said)[1] < 0.02
    table = dota2.levels_table(codes, {"a": said + not_said})
    ranks = [cells[0] for cells in table.entries[0].ours.values()]
    assert ranks == [7, 4, 4]
