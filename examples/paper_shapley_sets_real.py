"""
Shapley Sets on real data
=========================

Tables 3 and 4 and figure 1 of Sivill and Flach (2023): deletion (equation 10), sensitivity
(equation 11) and deletion curves of Shapley Sets beside KernelSHAP and TreeSHAP, for models as
good as the paper's. Part of ``paper_shapley_sets.py``.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

import treepurify as tp
from examples.data import read_table
from examples.paper_shapley_sets_measures import deletion, deletion_curve, sensitivity
from examples.reproduction import Cell, Entry, Table, mean_and_spread

# R2 of the models; then deletion and sensitivity of the four columns, mean and deviation.
R_SQUARED = {"Boston": 0.90, "Diabetes": 0.899, "Correlation": 0.86}
DELETION = {
    "Boston": ((0.020, 0.022), (0.007, 0.006), (0.046, 0.047), (0.047, 0.048)),
    "Diabetes": ((0.081, 0.075), (0.050, 0.039), (0.103, 0.085), (0.010, 0.082)),
    "Correlation": ((0.005, 0.007), (0.033, 0.029), (0.075, 0.057), (0.072, 0.055)),
}
SENSITIVITY = {
    "Boston": ((0.015, 0.049), (0.006, 0.031), (0.029, 0.0), (0.030, 0.0)),
    "Diabetes": ((0.021, 0.099), (0.017, 0.067), (0.004, 0.0), (0.076, 0.0)),
    "Correlation": ((0.000, 0.010), (0.008, 0.020), (0.001, 0.0), (0.035, 0.0)),
}
COLUMNS = ("Sets, marginal", "Sets, conditional", "KernelSHAP", "TreeSHAP")


@dataclass(frozen=True, eq=False)
class Matched:
    """A model whose R2 is close to the paper's.

    Parameters
    ----------
    model : object
        The model.
    X : ndarray of shape (n_rows, n_features)
        The rows that it was trained on.
    test : ndarray of shape (n_test, n_features)
        Held-out rows.
    words : str
        What it is, with its R2.
    """

    model: Any
    X: np.ndarray
    test: np.ndarray
    words: str


def data_sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return features scaled to mean zero and variance one, and targets scaled to [0, 1]."""
    import shap
    from sklearn.datasets import load_diabetes

    boston = read_table("boston_housing")
    groups, target = shap.datasets.corrgroups60()
    tables = {
        "Boston": (boston.drop(columns="MEDV").to_numpy(float), boston["MEDV"].to_numpy(float)),
        "Diabetes": load_diabetes(return_X_y=True),
        "Correlation": (groups.to_numpy(), np.asarray(target)),
    }
    return {
        name: ((X - X.mean(axis=0)) / X.std(axis=0), (y - y.min()) / np.ptp(y))
        for name, (X, y) in tables.items()
    }


def _models(name: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Return models of the paper's kind, from weak to strong."""
    from xgboost import XGBRegressor

    if name == "Correlation":
        for rounds in (10, 15, 20, 30, 40, 60, 80, 100, 150, 200):
            yield (
                f"XGBoost, {rounds} rounds of depth 3",
                lambda rounds=rounds: XGBRegressor(n_estimators=rounds, max_depth=3),
            )
        return
    for depth in range(3, 16):
        yield (
            f"random forest of depth {depth}",
            lambda depth=depth: RandomForestRegressor(50, max_depth=depth, random_state=0),
        )


@cache
def matched(name: str, *, small: bool = False) -> Matched:
    """Return the model whose R2 is closest to the paper's: on held-out rows where one can be.

    Of all models, or of every fourth if `small`.

    No forest reaches 0.899 on held-out rows of Diabetes; that figure can only be one of the rows
    that the forest was trained on.
    """
    X, y = data_sets()[name]
    train, test, of_train, of_test = train_test_split(X, y, test_size=0.2, random_state=0)
    found = []
    for words, make in islice(_models(name), 0, None, 4 if small else 1):
        model = make().fit(train, of_train)
        scores = [
            float(model.score(rows, own)) for rows, own in ((test, of_test), (train, of_train))
        ]
        found.append((words, model, scores))
    goal = R_SQUARED[name]
    on = 0 if max(scores[0] for *_, scores in found) > goal - 0.03 else 1
    words, model, scores = min(found, key=lambda each: abs(each[2][on] - goal))
    where = ("held-out rows", "training rows")[on]
    return Matched(
        model,
        train,
        test,
        f"{name}: {words}, R² {scores[0]:.3f} on held-out and {scores[1]:.3f} on training rows"
        f" (matched to {goal} on {where})",
    )


@cache
def attributed(
    name: str, n_rows: int, *, small: bool = False
) -> tuple[np.ndarray, list[tp.results.ShapleySets], list[np.ndarray]]:
    """Return rows, Shapley Sets off and on the manifold, and both Shapley values."""
    import shap

    own = matched(name, small=small)
    rows = own.test[np.random.default_rng(1).permutation(len(own.test))[:n_rows]]
    options = {"sampling": tp.options.Sampling(draws=50), "progress": False}
    off = tp.shapley_sets(own.model, own.X, rows, value="mean", **options)
    on = tp.shapley_sets(own.model, own.X, rows, value="conditional", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernel = shap.KernelExplainer(own.model.predict, own.X.mean(axis=0, keepdims=True))
        by_kernel = kernel.shap_values(rows, silent=True, nsamples=500)
        by_tree = shap.TreeExplainer(own.model).shap_values(rows)
    return rows, [off, on], [by_kernel, by_tree]


def real_tables(n_rows: int, *, small: bool = False) -> list[Table]:
    """Return tables 3 and 4."""
    deleted, missing, words = [], [], []
    for name, printed in DELETION.items():
        rows, (off, on), values = attributed(name, n_rows, small=small)
        of_deletion = [deletion(off, rows), deletion(on, rows)]
        of_deletion += [deletion(off, rows, own, groups=[]) for own in values]
        of_sensitivity = [sensitivity(off, rows), sensitivity(on, rows)]
        of_sensitivity += [sensitivity(off, rows, own) for own in values]
        cells: list[list[Cell]] = [
            [mean_and_spread(own) for own in found] for found in (of_deletion, of_sensitivity)
        ]
        deleted.append(Entry(name, printed, {"ours": cells[0]}))
        missing.append(Entry(name, SENSITIVITY[name], {"ours": cells[1]}))
        sizes = [" ".join(str(len(group)) for group in own.groups) for own in (off, on)]
        words.append(
            f"{matched(name, small=small).words}; sizes of groups: {sizes[0]} / {sizes[1]}."
        )
    notes = (
        f"Mean and deviation over {n_rows} held-out rows; targets are scaled to [0, 1].",
        *words,
        "The paper does not say how its targets were scaled, nor the tolerance of its groups:"
        " compare columns, not numbers. Deletion rewards large groups, since a group takes more"
        " of the prediction with it. In the paper's table 3 TreeSHAP on Diabetes has 0.010 with"
        " a deviation of 0.082; the magnitude of the deviation suggests 0.100.",
        "The paper's own R² of Diabetes, 0.899, is out of reach on held-out rows, where a forest"
        " explains less than half of the variance: it must be that of the training rows.",
    )
    return [
        Table("shapley_sets_table_3", "Table 3: deletion", COLUMNS, deleted, ".3f", notes),
        Table("shapley_sets_table_4", "Table 4: sensitivity", COLUMNS, missing, ".3f", notes[:1]),
    ]


def figure_1(out: Path, n_rows: int, *, small: bool = False, shown: int = 2) -> Table:
    """Return how fast predictions fall on Boston, and draw two of them."""
    import matplotlib.pyplot as plt

    rows, (off, _), (by_kernel, _) = attributed("Boston", n_rows, small=small)
    curves = {
        "Shapley Sets": deletion_curve(off, rows),
        "KernelSHAP": deletion_curve(off, rows, by_kernel, groups=[]),
    }
    # Groups are taken away whole: on the axis of single features a curve jumps.
    worth = np.stack([off.value_function(rows, group)[:, 0] for group in off.groups], axis=1)
    order = np.argsort(-np.abs(worth), axis=1, kind="stable")
    sizes = np.array([len(group) for group in off.groups])
    steps = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(sizes[order], axis=1)], axis=1)
    base = float(off.base[0])
    figure, panels = plt.subplots(1, shown, figsize=(10, 3.4), layout="constrained")
    for k, panel in enumerate(panels):
        panel.step(steps[k], curves["Shapley Sets"][k], "g", where="post", label="Shapley Sets")
        panel.plot(curves["KernelSHAP"][k], "r", label="KernelSHAP")
        panel.axhline(curves["KernelSHAP"][k, 0], color="black", linewidth=0.8)
        panel.axhline(base, color="blue", linewidth=0.8)
        panel.set(xlabel="features taken away", ylabel="prediction")
    panels[0].legend()
    figure.savefig(out / "shapley_sets_figure_1.png", dpi=70)
    plt.close(figure)
    entries = []
    for count in (1, 2, 3, 5, 8):
        cells = []
        for name, curve in curves.items():
            at = (
                steps
                if name == "Shapley Sets"
                else np.tile(np.arange(curve.shape[1]), (len(rows), 1))
            )
            # The last point that takes away no more than `count` features.
            last = (at <= count).sum(axis=1) - 1
            left = np.abs(curve[np.arange(len(rows)), last] - base)
            cells.append(mean_and_spread(left))
        entries.append(Entry(f"{count} features at most", (), {"ours": cells}))
    return Table(
        "shapley_sets_figure_1",
        "Figure 1: distance to the mean prediction on Boston as features are taken away",
        ("Shapley Sets", "KernelSHAP"),
        entries,
        ".3f",
        (
            f"{n_rows} rows; the picture shows two of them, with the prediction in black and the"
            " prediction at the means in blue, as the paper does. The paper shows no numbers.",
        ),
        "shapley_sets_figure_1.png",
    )
