"""
Shapley Sets, table by table
============================

Sivill and Flach (2023), "Shapley Sets: Feature Attribution via Recursive Function
Decomposition". Prints the paper's worked examples, tables and figure 1, and what treepurify
computes. Run: ``python examples/paper_shapley_sets.py [--store FOLDER] [--small]``.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import factorial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import treepurify as tp
from examples.data import DataUnavailableError
from examples.paper_shapley_sets_examples import example_1, example_2, products, sources
from examples.paper_shapley_sets_measures import attribution_error
from examples.paper_shapley_sets_published import (
    PublishedWorth,
    published_groups,
    published_shapley,
    published_values,
)
from examples.paper_shapley_sets_real import figure_1, real_tables
from examples.paper_shapley_sets_residuals import residuals
from examples.reproduction import Cell, Entry, Table, mean_and_spread, publish
from treepurify.results import ShapleySets

# Name: the function, its groups, and the part of each group.
FUNCTIONS = {
    "f1": (
        lambda X: (
            X[:, 0]
            + X[:, 1] / (2 + X[:, 4])
            + 2 * X[:, 2] * X[:, 3]
            + np.sin(2 * X[:, 5] + X[:, 6])
        ),
        ((0,), (1, 4), (2, 3), (5, 6)),
        (
            lambda X: X[:, 0],
            lambda X: X[:, 1] / (2 + X[:, 4]),
            lambda X: 2 * X[:, 2] * X[:, 3],
            lambda X: np.sin(2 * X[:, 5] + X[:, 6]),
        ),
    ),
    "f2": (
        lambda X: (
            2 * np.sign(X[:, 0])
            + np.sign(X[:, 1] * X[:, 2] * X[:, 3])
            + np.sign(X[:, 4] * X[:, 5] * X[:, 6])
        ),
        ((0,), (1, 2, 3), (4, 5, 6)),
        (
            lambda X: 2 * np.sign(X[:, 0]),
            lambda X: np.sign(X[:, 1] * X[:, 2] * X[:, 3]),
            lambda X: np.sign(X[:, 4] * X[:, 5] * X[:, 6]),
        ),
    ),
    "f3": (
        lambda X: (
            2 * X[:, 0] * X[:, 2] * X[:, 3] + 4 * X[:, 4] * X[:, 5] - 3 * X[:, 1] ** 2 - X[:, 6]
        ),
        ((0, 2, 3), (1,), (4, 5), (6,)),
        (
            lambda X: 2 * X[:, 0] * X[:, 2] * X[:, 3],
            lambda X: -3 * X[:, 1] ** 2,
            lambda X: 4 * X[:, 4] * X[:, 5],
            lambda X: -X[:, 6],
        ),
    ),
}
TABLE_1 = {"f1": (0.335, 0.400), "f2": (1.143, 0.990), "f3": (0.540, 0.580)}
TABLE_2 = {
    "g1": ((0.204, 0.114), (0.226, 0.121), (0.211, 0.127)),
    "g2": ((0.071, 0.031), (0.082, 0.032), (0.073, 0.031)),
    "g3": ((0.074, 0.044), (0.110, 0.068), (0.150, 0.059)),
}
COEFFICIENTS = np.array([1.0, 0.5, 0.2, 0.8, 0.5])
# Section 6.2 writes the term of x3 before that of x2, and lists the coefficients in that order.
AS_LISTED = COEFFICIENTS[[0, 1, 3, 2, 4]]
RHO = 0.9
# Largest non-additivity that counts as none in the authors' notebook of table 2.
NOTEBOOK_TOLERANCE = 0.15
# How x0 is drawn, of which section 6.2 says nothing.
FIRST = {
    "N(-1, 1)": lambda rng, n_rows: rng.normal(-1, 1, size=n_rows),
    "uniform": lambda rng, n_rows: rng.uniform(0, 1, size=n_rows),
}
# Name of a truth: how x0 is drawn, the coefficients, and whether features are centred.
TRUTHS = {
    "x0 N(-1, 1), c (x - E[x])": ("N(-1, 1)", COEFFICIENTS, True),
    "x0 N(-1, 1), c x": ("N(-1, 1)", COEFFICIENTS, False),
    "x0 uniform on (0, 1), c (x - E[x])": ("uniform", COEFFICIENTS, True),
    "x0 uniform on (0, 1), c as listed": ("uniform", AS_LISTED, True),
}


def exact_shapley(
    value: Callable[[np.ndarray, Sequence[int]], np.ndarray], rows: np.ndarray
) -> np.ndarray:
    """Return Shapley values by the definition (equation 1), one output."""
    n = rows.shape[1]
    subsets = [s for size in range(n + 1) for s in combinations(range(n), size)]
    worth = {s: value(rows, s)[:, 0] if s else np.zeros(len(rows)) for s in subsets}
    phi = np.zeros(rows.shape)
    for s in subsets:
        for i in set(range(n)) - set(s):
            weight = factorial(len(s)) * factorial(n - len(s) - 1) / factorial(n)
            phi[:, i] += weight * (worth[tuple(sorted((*s, i)))] - worth[s])
    return phi


def sets_errors(name: str, seed: int, n_rows: int) -> tuple[bool, np.ndarray]:
    """Return whether Shapley Sets find the groups, and the mean error of each row."""
    f, groups, parts = FUNCTIONS[name]
    X = np.random.default_rng(seed).uniform(-1, 1, size=(1000, 7))
    rows, reference = X[:n_rows], X[-1:]
    sets = tp.shapley_sets(
        f, X, rows, value="baseline", baseline=reference, seed=seed, progress=False
    )
    truth = of_groups(groups, parts, rows, reference)
    return sets.groups == groups, attribution_error(sets.by_feature(), truth)


def of_groups(
    groups: Sequence[Sequence[int]],
    parts: Sequence[Callable[[np.ndarray], np.ndarray]],
    rows: np.ndarray,
    references: np.ndarray,
) -> np.ndarray:
    """Return the truth of each feature: its group's part of the function, less the reference's."""
    truth = np.zeros(rows.shape)
    for group, part in zip(groups, parts, strict=True):
        truth[:, list(group)] = (part(rows) - part(references))[:, None]
    return truth


def value_errors(name: str, rows: np.ndarray, references: np.ndarray) -> np.ndarray:
    """Return the errors of Shapley values, feature by feature, each row against its reference."""
    f, groups, parts = FUNCTIONS[name]

    def worth(rows: np.ndarray, subset: Sequence[int]) -> np.ndarray:
        present = np.isin(np.arange(rows.shape[1]), subset)
        return (f(np.where(present, rows, references)) - f(references))[:, None]

    return np.abs(exact_shapley(worth, rows) - of_groups(groups, parts, rows, references))


def table_1(seeds: int, n_rows: int, n_pairs: int) -> list[Table]:
    """Return the errors of Shapley Sets, and those of Shapley values of pairs of rows."""
    sets_entries, value_entries = [], []
    rows, references = np.random.default_rng(0).uniform(-1, 1, size=(2, n_pairs, 7))
    for name, printed in TABLE_1.items():
        found = [sets_errors(name, seed, n_rows) for seed in range(seeds)]
        right = sum(correct for correct, _ in found)
        errors = mean_and_spread(np.concatenate([ours for _, ours in found]))
        sets_entries.append(
            Entry(name, ((0.0, 0.0), None), {"ours": (errors, f"{right} of {seeds}")})
        )
        of_pairs = value_errors(name, rows, references)
        means, deviations = of_pairs.mean(axis=1), of_pairs.std(axis=1)
        median = (float(np.median(means)), float(np.median(deviations)))
        below = f"{(means < printed[0] + 5e-4).mean():.0%}"
        near = (np.abs(means - printed[0]) < 0.05) & (np.abs(deviations - printed[1]) < 0.05)
        value_entries.append(
            Entry(name, (printed, None, None), {"ours": (median, below, f"{near.mean():.0%}")})
        )
    return [
        Table(
            "shapley_sets_table_1",
            "Table 1: mean absolute error of Shapley Sets",
            ("error", "groups right"),
            sets_entries,
            ".3f",
            (f"{seeds} seeds of {n_rows} rows against one reference.",),
        ),
        Table(
            "shapley_sets_table_1_values",
            "Table 1: mean absolute error of Shapley values, one row against one reference",
            ("median over pairs", "pairs with no larger mean", "pairs with both within 0.05"),
            value_entries,
            ".3f",
            (
                f"{n_pairs} pairs of a row and a reference, all features uniform on (-1, 1); mean"
                " and deviation over the seven features of one pair, as in the notebook that the"
                " authors published. The paper's text has N(-1, 1), where f1 has a pole, and 100"
                " rows. f2 has few possible values: 8/7 ± √48/7, the paper's 1.143 ± 0.990, is that"
                " of a pair with one change of sign in each of the two groups of three, which 9/64"
                " of all pairs have.",
            ),
        ),
    ]


def dependent_rows(rng: np.random.Generator, n_rows: int, first: str, *, dummy: bool) -> np.ndarray:
    """Return the rows of section 6.2: x1 follows x0, and x5 copies x0."""
    x0 = FIRST[first](rng, n_rows)
    X = np.column_stack([x0, RHO * x0, rng.normal(-1, 1, size=(n_rows, 3))])
    return np.column_stack([X, x0]) if dummy else X


@dataclass(frozen=True, eq=False)
class Attributions:
    """What three methods say of some rows, one column for each of x0 to x4.

    Parameters
    ----------
    rows, mean : ndarray of shape (n_rows, 5) and (5,)
        The rows, and the means of those that the model was trained on.
    sets : ShapleySets
        Shapley Sets, conditional.
    marginal, conditional : ndarray of shape (n_rows, 5)
        Shapley values.
    """

    rows: np.ndarray
    mean: np.ndarray
    sets: ShapleySets
    marginal: np.ndarray
    conditional: np.ndarray

    def errors(self, coefficients: np.ndarray, *, centred: bool) -> list[tuple[float, float]]:
        """Return the errors of the three methods; the truth of a group is the sum of its parts."""
        truth = (self.rows - (self.mean if centred else 0.0)) * coefficients
        of_groups = np.zeros(truth.shape)
        for group in self.sets.groups:
            members = [j for j in group if j < 5]
            of_groups[:, members] = truth[:, members].sum(axis=1, keepdims=True)
        pairs = (
            (self.sets.by_feature()[:, :5], of_groups),
            (self.marginal, truth),
            (self.conditional, truth),
        )
        return [mean_and_spread(attribution_error(*pair)) for pair in pairs]


def attributions(name: str, first: str, n_rows: int) -> Attributions:
    """Train ``"g1"``, ``"g2"`` or ``"g3"``, and explain some rows."""
    from sklearn.linear_model import LinearRegression
    from xgboost import XGBRegressor

    rng = np.random.default_rng(0)
    train, rows = (dependent_rows(rng, size, first, dummy=name == "g3") for size in (2000, n_rows))
    y = train[:, :5] @ COEFFICIENTS
    model = LinearRegression() if name == "g1" else XGBRegressor(n_jobs=1, random_state=0)
    model.fit(train, y)
    options = {"sampling": tp.options.Sampling(draws=100), "progress": False}
    sets = tp.shapley_sets(model, train, rows, value="conditional", **options)
    by_mean = tp.shapley_sets(model, train, value="mean", groups=[], **options)
    values = [
        exact_shapley(value, rows)[:, :5] for value in (by_mean.value_function, sets.value_function)
    ]
    return Attributions(rows[:, :5], train[:, :5].mean(axis=0), sets, *values)


def notebook_rows(rng: np.random.Generator, n_rows: int, *, dummy: bool) -> np.ndarray:
    """Return the rows of the authors' notebook: x1 = 2 x0, and x5 = 5 x0."""
    X = rng.uniform(-1, 1, size=(n_rows, 6))
    X[:, 1], X[:, 5] = 2 * X[:, 0], 5 * X[:, 0]
    return X if dummy else X[:, :5]


def notebook_errors(name: str, seed: int) -> list[np.ndarray]:
    """Return the errors of ten rows as the authors' notebook computes them.

    Of Shapley Sets with the groups of the text, of marginal and of conditional Shapley values, and
    of Shapley Sets whose groups are searched for each row, as the notebook does.
    """
    from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor

    X = notebook_rows(np.random.default_rng(seed), 2000, dummy=name == "g3")
    train, rows = X[:1340], X[1340:1350]
    coefficients = np.append(COEFFICIENTS, 0.0)[: X.shape[1]]
    model = (
        GradientBoostingRegressor(random_state=0)
        if name == "g2"
        else RandomForestRegressor(max_depth=10, random_state=0)
    )
    model.fit(train, train @ coefficients)
    worth = PublishedWorth(lambda filled: np.asarray(model.predict(filled)), X)
    at_means = worth.f(worth.mean[None])

    def marginal(rows: np.ndarray, subset: Sequence[int]) -> np.ndarray:
        present = np.isin(np.arange(X.shape[1]), subset)
        return (worth.f(np.where(present, rows, worth.mean)) - at_means)[:, None]

    truth = rows * coefficients
    of_text = [[0, 1, *range(5, X.shape[1])], [2], [3], [4]]
    rng = np.random.default_rng(seed)
    searched = [published_groups(worth, NOTEBOOK_TOLERANCE, rng, probes=1) for _ in rows]
    return [
        _errors_of_groups(worth, rows, truth, [of_text] * len(rows)),
        attribution_error(exact_shapley(marginal, rows), truth),
        attribution_error(published_shapley(worth, rows), truth),
        _errors_of_groups(worth, rows, truth, searched),
    ]


def _errors_of_groups(
    worth: PublishedWorth,
    rows: np.ndarray,
    truth: np.ndarray,
    groups: Sequence[Sequence[Sequence[int]]],
) -> np.ndarray:
    """Return the mean error of each row over its groups; the truth of a group is the sum."""
    errors = []
    for row, own, partition in zip(rows, truth, groups, strict=True):
        values = published_values(worth, row, partition)
        errors.append(np.mean(np.abs(values - [own[list(group)].sum() for group in partition])))
    return np.array(errors)


def notebook_cells(name: str, seeds: int) -> dict[str, list[Cell]]:
    """Return the notebook's errors over seeds: the mean, and the mean deviation over ten rows."""
    found = np.array([notebook_errors(name, seed) for seed in range(seeds)])
    cells = [(float(own.mean()), float(own.std(axis=1).mean())) for own in np.moveaxis(found, 1, 0)]
    low, high = found.mean(axis=2).min(axis=0), found.mean(axis=2).max(axis=0)
    ranges = [f"{a:.3f} to {b:.3f}" for a, b in zip(low, high, strict=True)]
    model = "gradient boosting" if name == "g2" else "a forest"
    return {
        f"the notebook, {model}: mean of {seeds} times ten rows": [*cells[:3]],
        "smallest and largest of these means": [*ranges[:3]],
        "the notebook, groups searched for each row": [cells[3], None, None],
    }


def table_2(n_rows: int) -> Table:
    """Return the errors where features depend on each other in the data."""
    entries, groups = [], []
    for name, printed in TABLE_2.items():
        found = {first: attributions(name, first, n_rows) for first in FIRST}
        ours: dict[str, list[Cell]] = {
            title: [*found[first].errors(coefficients, centred=centred)]
            for title, (first, coefficients, centred) in TRUTHS.items()
        }
        if name != "g1":
            ours |= notebook_cells(name, 2 if n_rows < 100 else 5)
        entries.append(Entry(name, printed, ours))
        groups += [f"{name}, {k}: {' | '.join(own.sets.group_names)}" for k, own in found.items()]
    return Table(
        "shapley_sets_table_2",
        f"Table 2: mean absolute error where features depend on each other, x1 = {RHO} x0",
        ("Shapley Sets, conditional", "Shapley, marginal", "Shapley, conditional"),
        entries,
        ".3f",
        (
            f"{n_rows} rows; g1 is linear, g2 and g3 are XGBoost at its defaults. The paper gives"
            " neither rho nor the distribution of x0, nor how the truth of a group is formed; here"
            " it is the sum. It prints the truth as c x, while values are relative to a mean, so"
            f" both are shown. Groups: {'; '.join(groups)}.",
            "g1 is linear and is fitted exactly, and its conditional means are linear, so Shapley"
            " Sets have no error against the centred truth. The paper's errors appear if two"
            " coefficients are exchanged: section 6.2 lists them for x0, x1, x3, x2, x4 in this"
            " order, and here they are applied to x0, x1, x2, x3, x4 (rows *c as listed*). Then"
            " 0.8 and 0.2 change places, and every method is off by 0.12 (|x2 - E[x2]| + |x3 -"
            " E[x3]|), 0.19 on average; 100 rows leave some noise. The printed errors of"
            " g2 are below 0.19, so the authors computed it with the coefficients in the right"
            " order.",
            "The numbers of g2 and g3 agree within the printed deviations if the notebook that the"
            " authors published is followed instead of the text: features uniform on (-1, 1); x1 ="
            " 2 x0; ten rows; conditional values that depend on the first feature of an order"
            " only; for g2 no copy, and gradient boosting of scikit-learn where the text says"
            " XGBoost; for g3 a copy x5 = 5 x0, which counts as a sixth feature with truth 0, and"
            " a random forest of depth 10.",
            "The notebook's own run of g3 has 0.117, 0.157 and, for Shapley Sets, 0.151 ± 0.067,"
            " since it searches groups anew for each row and misses the copy; with the groups of"
            " the text the error is that of the paper. With XGBoost at its defaults nearly nothing"
            " changes from g2 to g3, since the copy is never split on.",
        ),
    )


def main() -> None:
    """Print every part; data that are not there are left out with the reason."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--store", type=Path, help="folder for tables and pictures")
    parser.add_argument("--small", action="store_true", help="few seeds and rows")
    arguments = parser.parse_args()
    folder, small = arguments.store, arguments.small
    out = folder or Path("build/paper_shapley_sets")
    out.mkdir(parents=True, exist_ok=True)
    of_groups = {name: (f, groups) for name, (f, groups, _) in FUNCTIONS.items()}
    of_residuals = residuals(of_groups, 20)
    for table in (example_1(), example_2(), sources(), of_residuals, products()):
        publish(table, folder)
    for table in table_1(*((2, 10, 100) if small else (50, 100, 4000))):
        publish(table, folder)
    try:
        publish(table_2(20 if small else 100), folder)
        for table in real_tables(4 if small else 25, small=small):
            publish(table, folder)
        publish(figure_1(out, 4 if small else 25, small=small), folder)
    except (DataUnavailableError, ImportError) as reason:
        print(f"left out: {reason}")


if __name__ == "__main__":
    main()
