"""
The categorical closed form, number by number
=============================================

Ferrere, Bousquet, Gamboa, Loubes and Mure (2026), "Exact Functional ANOVA Decomposition for
Categorical Inputs Models" (arXiv:2603.02673). Prints the paper's tables beside what treepurify
computes. Forests and multi-layer perceptrons of scikit-learn replace the paper's PyTorch
networks, so figures that depend on the fit of a model are similar to the paper's, not equal.
Run: ``python examples/paper_categorical.py [--large] [--selection]``; ``--large`` adds tables 6 and
7, ``--selection`` the selection by LARS.
"""

import argparse
import sys
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.neural_network import MLPClassifier

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples.data import DataUnavailableError, read_table
from examples.paper_categorical_large import show_large
from examples.paper_categorical_selection import show_selection
from examples.paper_categorical_treehfd import show_table_8
from treepurify.engines.categorical import categorical_anova

TABLE_1 = {
    "intercept": 0.111,
    "X1": 0.518,
    "X2": 0.074,
    "X4": 0.0,
    "X1 & X2": 0.074,
    "X1 & X4": 0.0,
    "X2 & X4": 0.0,
    "X1 & X2 & X4": 0.0,
}
# 100 x ISE, one row per class, one column per feature.
TABLE_3 = (
    (2.01, 1.30, 0.01, 0.28, 0.03, 0.30),
    (0.16, 0.15, 0.00, 0.04, 0.01, 0.05),
    (2.89, 1.46, 0.02, 0.71, 0.05, 0.71),
    (0.21, 0.09, 0.01, 0.04, 0.04, 0.12),
)
TABLE_4 = (
    (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    (1.6, 3.7, 0.3, 0.3, 0.2, 0.0, 0.3, 1.8),
    (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    (1.9, 4.4, 0.2, 0.0, 0.1, 0.0, 0.1, 1.7),
    (0.2, 0.3, 0.1, 0.1, 0.0, 0.0, 0.1, 0.3),
)
BACKGROUND_ROWS = 200


def table_1() -> dict[str, float]:
    """Squared norms of the components of the analytical case (equation 20)."""
    free = np.indices((3, 3, 3)).reshape(3, -1).T
    X = np.column_stack([free[:, 0], free[:, 1], free[:, 1], free[:, 2], np.ones(27)])
    values = np.sign(X[:, 0] - X[:, 1] + 0.5 * X[:, 2])
    names = ["X1", "X2", "X3", "X4", "X5"]
    d = categorical_anova(values, X, feature_names=names, progress=False)
    norms = {"intercept": float(d.intercept[0] ** 2)}
    for subset, component in d.components.items():
        norms[d.term_name(subset)] = float(component.variance[0])
    for sentence in d.diagnostics["identifiability"]["sentences"]:
        print(f"  {sentence}")
    return norms


def show_table_1() -> None:
    """Print Table 1."""
    print("\nTable 1: squared norms of the components, f = sign(X1 - X2 + 0.5 X3), X3 = X2")
    norms = table_1()
    print(f"  {'term':<16}{'paper':>8}{'ours':>10}")
    for term, value in norms.items():
        print(f"  {term:<16}{TABLE_1[term]:>8.3f}{value:>10.5f}")
    print("  The exact value of X1 is 14/27 = 0.51852: the paper cuts it off.")


def kernel_shap(values: np.ndarray, background: np.ndarray) -> np.ndarray:
    """KernelSHAP with every coalition, of a function given on a full grid.

    With as few features as here KernelSHAP solves for all coalitions, and its solution is the
    Shapley value of ``v(S) = mean over the background of f(x_S, b)``.

    Parameters
    ----------
    values : ndarray of shape (levels..., n_outputs)
        The function.
    background : ndarray of int, shape (n_background, n_features)
        Rows as levels.

    Returns
    -------
    ndarray of shape (n_features, levels..., n_outputs)
    """
    d = background.shape[1]
    shape = values.shape[:-1]
    games = {}
    for inside in product([False, True], repeat=d):
        total = 0.0
        for row in background:
            place = tuple(
                slice(None) if own else slice(b, b + 1) for own, b in zip(inside, row, strict=True)
            )
            total = total + values[place]
        games[inside] = total / len(background)
    factorial = np.cumprod([1, *range(1, d + 1)])
    found = np.zeros((d, *values.shape))
    for inside, with_all in games.items():
        size = sum(inside)
        for j in range(d):
            if inside[j]:
                without = games[tuple(own and i != j for i, own in enumerate(inside))]
                weight = factorial[size - 1] * factorial[d - size] / factorial[d]
                found[j] += weight * np.broadcast_to(with_all - without, (*shape, values.shape[-1]))
    return found


def anova_shapley(d: object, X: pd.DataFrame) -> np.ndarray:
    """Sum over the components with a feature of f_A / |A|, shape (n_features, n_rows, K)."""
    found = np.zeros((len(d.feature_names), len(X), d.n_outputs))
    columns = d.inputs.columns(X)
    for subset, component in d.components.items():
        share = component.evaluate(columns) / len(subset)
        for j in subset:
            found[j] += share
    return found


def integrated_errors(name: str, model: object) -> tuple[np.ndarray, float, float]:
    """100 x ISE by class and feature (equation 21), seconds, and the accuracy of the model."""
    table = read_table(name)
    X = table.drop(columns="class")
    codes = X.apply(lambda column: pd.factorize(column, sort=True)[0]).to_numpy()
    one_hot = pd.get_dummies(X).to_numpy(np.float64)
    # Multi-layer perceptrons stop at their limit of steps, as those of the paper do.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(one_hot, table["class"])
    values = model.predict_proba(one_hot)
    categorical_anova(values[:, 0], X, order=1, progress=False)
    start = time.perf_counter()
    d = categorical_anova(values, X, memory_budget=4 << 30, progress=False)
    ours = anova_shapley(d, X)
    seconds = time.perf_counter() - start
    shape = tuple(codes.max(axis=0) + 1)
    on_grid = np.empty((*shape, values.shape[1]))
    on_grid[tuple(codes.T)] = values
    rows = np.random.default_rng(0).choice(len(codes), BACKGROUND_ROWS, replace=False)
    theirs = kernel_shap(on_grid, codes[rows])[(slice(None), *codes.T)]
    accuracy = float((model.predict(one_hot) == table["class"]).mean())
    return 100 * ((theirs - ours) ** 2).mean(axis=1).T, seconds, accuracy


def show_errors(number: int, name: str, model: object, paper: tuple, paper_seconds: float) -> None:
    """Print Table 3 or 4."""
    print(f"\nTable {number}: 100 x ISE between KernelSHAP and the ANOVA's Shapley values, {name}")
    errors, seconds, accuracy = integrated_errors(name, model)
    print(f"  accuracy of {type(model).__name__}: {accuracy:.4f}")
    for own, printed in zip(errors, paper, strict=True):
        print(f"  paper {' '.join(f'{value:6.2f}' for value in printed)}")
        print(f"  ours  {' '.join(f'{value:6.2f}' for value in own)}")
    print(f"  decomposition and Shapley values: paper {paper_seconds} s, ours {seconds:.3f} s")


def show_mushroom() -> None:
    """Print the ground truth study."""
    from xgboost import XGBClassifier

    print("\nMushrooms: main effects of the probability of class 1 (XGBoost, 100 trees, depth 5)")
    table = read_table("mushroom")
    X = table.drop(columns="class")
    one_hot = pd.get_dummies(X).to_numpy(np.float64)
    model = XGBClassifier(n_estimators=100, max_depth=5, random_state=0)
    model.fit(one_hot, (table["class"] == "p").astype(int))
    values = model.predict_proba(one_hot)[:, 1].astype(np.float64)
    categorical_anova(values[:200], X[:200], order=1, progress=False)
    start = time.perf_counter()
    d = categorical_anova(values, X, order=1, memory_budget=4 << 30, progress=False)
    seconds = time.perf_counter() - start
    fit = d.diagnostics["fit"]["f"]
    print(f"  rank: paper 86, ours {d.diagnostics['identifiability']['rank']}")
    print(f"  R2: paper about 1, ours {fit['r_squared']:.6f}; MSE {fit['mean_squared_error']:.1e}")
    print(f"  seconds: paper 0.3, ours {seconds:.3f}")
    largest = d.importance().sort_values("mean_absolute", ascending=False)["term"].head(5)
    print(f"  largest in l1 norm (equation 22): {', '.join(largest)}")


def main() -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--large", action="store_true", help="tables 6 and 7 too (minutes)")
    parser.add_argument("--selection", action="store_true", help="selection by LARS too (minutes)")
    arguments = parser.parse_args()
    show_table_1()
    try:
        forest = RandomForestClassifier(100, random_state=0)
        show_errors(3, "car_evaluation", forest, TABLE_3, 0.5)
        network = MLPClassifier((64, 32), random_state=0, max_iter=100)
        show_errors(4, "nursery", network, TABLE_4, 54.0)
        show_mushroom()
    except DataUnavailableError as error:
        print(f"  left out: {error}")
    show_table_8()
    if arguments.large:
        show_large()
    if arguments.selection:
        show_selection()


if __name__ == "__main__":
    main()
