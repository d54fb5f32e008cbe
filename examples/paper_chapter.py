"""
The chapter on functional decomposition, formula by formula
===========================================================

The chapter has no tables of its own. Its formulas are computed here on a function whose components
are known: the functional ANOVA with uniform expectations, the H-statistics with the denominator as
printed and as meant, interactions of more than three features, and what dependence does to the
decomposition of the variance. Run: ``python examples/paper_chapter.py [--store FOLDER] [--small]``.
"""

import argparse
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
from sklearn.tree import DecisionTreeRegressor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import treepurify as tp
from examples.reproduction import Entry, Table, mean_and_spread, publish

LEVELS = np.array([-1.5, -0.5, 0.5, 1.5])
# Variance of one level with even odds.
V = float(LEVELS.var())
NAMES = ["x1", "x2", "x3", "x4"]
TERMS = {(0,): V, (1, 2): V**2, (0, 1, 2, 3): V**4}


def function(X: np.ndarray) -> np.ndarray:
    """Return ``x1 + x2 x3 + x1 x2 x3 x4``: its terms are its components if levels are even."""
    return X[:, 0] + X[:, 1] * X[:, 2] + X.prod(axis=1)


def factorial() -> np.ndarray:
    """Return every combination of levels once: independent, uniform features."""
    axes = np.meshgrid(*[LEVELS] * len(NAMES), indexing="ij")
    return np.stack([axis.ravel() for axis in axes], axis=1)


def dependent_rows(n_rows: int, seed: int) -> np.ndarray:
    """Draw levels that follow each other, with correlations of about 0.6."""
    rng = np.random.default_rng(seed)
    correlation = np.full((4, 4), 0.7) + 0.3 * np.eye(4)
    # The default decomposition, by singular values, may give other rows on another machine.
    gaussian = rng.multivariate_normal(np.zeros(4), correlation, n_rows, method="cholesky")
    return LEVELS[np.digitize(gaussian, [-0.7, 0.0, 0.7])]


def tree() -> DecisionTreeRegressor:
    """Return a tree that is the function, level by level."""
    X = factorial()
    return DecisionTreeRegressor(random_state=0).fit(X, function(X))


def variance_table(n_rows: int, seeds: int) -> Table:
    """Return the variance of each component, the sum of all, and that of the function."""
    model = tree()
    subsets = [*TERMS, *(s for s in [(0, 1), (0, 3)] if s not in TERMS)]
    X = factorial()
    uniform = tp.purify(model, X, weights="uniform", order=None, progress=False)
    cells = _variances(uniform, X, subsets)
    entries = [Entry("uniform expectations", _truth(subsets), {"ours": cells})]
    found = []
    for seed in range(seeds):
        rows = dependent_rows(n_rows, seed)
        dependence = tp.partial_dependence_anova(model, rows, order=4, progress=False)
        found.append(_variances(dependence, rows, subsets))
    cells = tuple(mean_and_spread(column) for column in np.array(found).T)
    entries.append(Entry("partial dependence, dependent rows", (), {"ours": cells}))
    found = []
    for seed in range(seeds):
        rows = dependent_rows(n_rows, seed)
        d = tp.purify(model, rows, weights="empirical", order=None, progress=False)
        found.append(_variances(d, rows, subsets))
    cells = tuple(mean_and_spread(column) for column in np.array(found).T)
    entries.append(Entry("generalised, dependent rows", (), {"ours": cells}))
    names = ["g" + "".join(str(j + 1) for j in subset) for subset in subsets]
    return Table(
        "chapter_variance",
        "Variance of the components of x1 + x2 x3 + x1 x2 x3 x4",
        (*names, "sum of all", "variance of f"),
        entries,
        ".2f",
        (
            f"The first row marked *paper* is the formula. Dependent rows: {seeds} seeds,"
            f" {n_rows} rows."
            " With independent features variances add up; with dependent ones they do not, "
            "neither for partial dependence nor for the generalised ANOVA. The generalised ANOVA"
            " remains orthogonal along the hierarchy, and its covariances are in"
            " `d.importance()`.",
        ),
    )


def _truth(subsets: list[tuple[int, ...]]) -> tuple[float, ...]:
    own = [TERMS.get(subset, 0.0) for subset in subsets]
    return (*own, sum(TERMS.values()), sum(TERMS.values()))


def _variances(
    d: tp.Decomposition, rows: np.ndarray, subsets: list[tuple[int, ...]]
) -> tuple[float, ...]:
    variance = {s: float(c.variance[0]) for s, c in d.components.items()}
    values = [variance.get(subset, 0.0) for subset in subsets]
    return (*values, sum(variance.values()), float(function(rows).var()))


def denominator_table(n_rows: int, seeds: int) -> Table:
    """Return H-squared of pairs with both denominators, by the definition."""
    entries = []
    for j, k in ((1, 2), (0, 1)):
        found = []
        for seed in range(seeds):
            rows = dependent_rows(n_rows, seed)
            found.append(_pair_by_definition(rows, j, k))
        columns = np.array(found).T
        cells = tuple(mean_and_spread(column) for column in columns)
        entries.append(Entry(f"{NAMES[j]}, {NAMES[k]}", (), {"ours": cells}))
    return Table(
        "chapter_denominator",
        "The H-statistic of a pair with the denominator as printed, and squared",
        ("numerator", "sum, as printed", "sum of squares", "H² with squares", "tp.h_statistics"),
        entries,
        ".3g",
        (
            f"{seeds} seeds, {n_rows} dependent rows. The chapter's second form of H²_jk sums the"
            " centred partial dependence in its denominator without squaring it. That sum is zero"
            " up to rounding, whatever the model. Its first form, a ratio of variances, and"
            " Friedman and Popescu (2008) have the square. The last column is the library's,"
            " exact from the leaves of the tree.",
        ),
    )


def _pair_by_definition(rows: np.ndarray, j: int, k: int) -> tuple[float, ...]:
    def dependence(*features: int) -> np.ndarray:
        means = np.empty(len(rows))
        for i, row in enumerate(rows):
            mixed = rows.copy()
            mixed[:, features] = row[list(features)]
            means[i] = function(mixed).mean()
        return means - means.mean()

    both = dependence(j, k)
    numerator = float(np.sum((both - dependence(j) - dependence(k)) ** 2))
    squares = float(np.sum(both**2))
    ours = tp.h_statistics(tree(), rows, purified=False, progress=False)
    own = float(ours.interactions[j, k].h_squared[0])
    return numerator, float(np.sum(both)), squares, numerator / squares, own


def _true_h_squared(subset: tuple[int, ...]) -> float:
    """Return H-squared of a subset, of one feature with all others, if features are independent."""
    if len(subset) == 1:
        joint = [s for s in TERMS if subset[0] in s and len(s) > 1]
        return sum(TERMS[s] for s in joint) / sum(TERMS.values())
    return TERMS.get(subset, 0.0) / sum(TERMS[s] for s in TERMS if set(s) <= set(subset))


def order_table(n_rows: int, seeds: int) -> Table:
    """Return H-squared of up to four features, and the number of functions behind it."""
    model = tree()
    X = factorial()
    even = tp.h_statistics(model, X, order=4, progress=False)
    rows_by_seed = [dependent_rows(n_rows, seed) for seed in range(seeds)]
    on_rows = [
        tp.h_statistics(model, rows, order=4, weights="uniform", progress=False)
        for rows in rows_by_seed
    ]
    entries = []
    for subset in ((0,), (1,), (0, 1), (1, 2), (1, 2, 3), (0, 1, 2, 3)):
        truth = _true_h_squared(subset)
        found = [h.interactions[subset] for h in on_rows]
        spread = mean_and_spread([own.h_squared[0] for own in found])
        shares = mean_and_spread([own.purified[0] for own in found])
        cells = (float(even.interactions[subset].h_squared[0]), shares, spread)
        count = sum(1 for r in range(len(subset) + 1) for _ in combinations(subset, r))
        label = f"{', '.join(NAMES[j] for j in subset)}: {count} functions"
        if len(subset) == 1:
            label = f"{NAMES[subset[0]]} with all others"
        entries.append(Entry(label, (truth, truth, None), {"ours": cells}))
    return Table(
        "chapter_orders",
        "H-statistics of a feature with all others and of sets, and with uniform expectations",
        ("all combinations once", "dependent rows, uniform expectations", "dependent rows"),
        entries,
        ".3f",
        (
            "The rows marked *paper* are ratios of variances if features are independent and"
            f" uniform; {seeds} seeds, {n_rows} dependent rows. An interaction of k features needs"
            " the 2^k partial dependence functions of its subsets (the empty one among them), as"
            " the chapter says. Uniform expectations are"
            ' `tp.h_statistics(..., weights="uniform")`, in the column `purified_share`.',
        ),
    )


def main() -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--store", type=Path, help="folder for tables")
    parser.add_argument("--small", action="store_true", help="few rows and seeds")
    arguments = parser.parse_args()
    n_rows, seeds = (100, 2) if arguments.small else (1000, 10)
    publish(variance_table(n_rows, seeds), arguments.store)
    publish(denominator_table(min(n_rows, 300), seeds), arguments.store)
    publish(order_table(n_rows, seeds), arguments.store)


if __name__ == "__main__":
    main()
