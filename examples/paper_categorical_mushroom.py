"""
The mushrooms of the categorical closed form
============================================

The ground truth study of section 5 and figure 2: main effects of the probability that a mushroom is
poisonous, compared with TreeSHAP. Part of ``paper_categorical.py``.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from examples.data import read_table
from examples.reproduction import Entry, Table
from treepurify import Decomposition, categorical_anova

# What the paper names as the most important features.
NAMED = ("odor", "gill_color", "spore_print_color")


def mushroom_tables(out: Path) -> list[Table]:
    """Return the fit of main effects to three functions, and importances; draw figure 2."""
    import xgboost

    table = read_table("mushroom")
    X = table.drop(columns="class")
    dummies = pd.get_dummies(X)
    labels = (table["class"] == "p").to_numpy().astype(float)
    model = xgboost.XGBClassifier(n_estimators=100, max_depth=5, random_state=0, n_jobs=1)
    model.fit(dummies.to_numpy(np.float64), labels)
    inputs = dummies.to_numpy(np.float64)
    functions = {
        "probability": model.predict_proba(inputs)[:, 1].astype(np.float64),
        "predicted class": model.predict(inputs).astype(np.float64),
        "log-odds": model.predict(inputs, output_margin=True).astype(np.float64),
    }
    entries, first = [], None
    for name, values in functions.items():
        d = categorical_anova(values, X, order=1, memory_budget=4 << 30, progress=False)
        first = first or d
        fit = d.diagnostics["fit"]["f"]
        rank = float(d.diagnostics["identifiability"]["rank"])
        printed = (86.0, 1.0, 1e-15) if name == "probability" else ()
        own = (rank, fit["r_squared"], fit["mean_squared_error"])
        entries.append(Entry(name, printed, {"ours": own}))
    fits = Table(
        "categorical_mushroom",
        "Mushrooms: main effects of XGBoost, 100 trees of depth 5",
        ("rank", "R²", "MSE"),
        entries,
        ".8g",
        (
            "On these rows the class, poisonous or not, is exactly a sum of main effects, and so "
            "is the predicted class, to rounding. A probability is not such a sum: it comes from "
            "a sum of trees, and distinguishes 0.999 from 1. An MSE of 1e-15 would mean "
            "that all probabilities are 0 or 1 up to rounding in single precision; after a hundred "
            "trees at the default rate they are not.",
        ),
    )
    return [fits, _importance(first, model, dummies, X, out)]


def _importance(
    d: Decomposition, model: Any, dummies: pd.DataFrame, X: pd.DataFrame, out: Path
) -> Table:
    """Return equation 22 and TreeSHAP, each as a share of its sum."""
    import matplotlib.pyplot as plt
    import xgboost

    # The columns of a feature's levels stand together.
    owner = np.array([column.rpartition("_")[0] for column in dummies.columns])
    by_dummy = _tree_shap(model, dummies.to_numpy(np.float64))
    codes = X.apply(lambda column: pd.factorize(column, sort=True)[0]).to_numpy(np.float64)
    labels = model.predict(dummies.to_numpy(np.float64))
    numbered = xgboost.XGBClassifier(n_estimators=100, max_depth=5, random_state=0, n_jobs=1)
    numbered.fit(codes, labels)
    sizes = {
        "main effects": np.array([_mean_absolute(d, name, X) for name in X]),
        "TreeSHAP, one column per level": np.array(
            [np.abs(by_dummy[:, owner == name].sum(axis=1)).mean() for name in X]
        ),
        "TreeSHAP, numbered levels": np.abs(_tree_shap(numbered, codes)).mean(axis=0),
    }
    shares = {name: own / own.sum() for name, own in sizes.items()}
    order = np.argsort(-shares["main effects"])
    figure, ax = plt.subplots(figsize=(9, 3.4), layout="constrained")
    for k, (name, own) in enumerate(shares.items()):
        ax.bar(np.arange(len(order)) + 0.28 * (k - 1), own[order], 0.28, label=name)
    labels_of = [X.columns[j] for j in order]
    ax.set_xticks(np.arange(len(order)), labels_of, rotation=60, ha="right", size=8)
    ax.legend()
    figure.savefig(out / "categorical_figure_2.png", dpi=70)
    plt.close(figure)
    shown = [*order[:6], *(j for j in range(X.shape[1]) if X.columns[j] in NAMED)]
    entries = []
    for j in dict.fromkeys(int(j) for j in shown):
        ranks = ", ".join(str(1 + int(np.sum(own > own[j]))) for own in shares.values())
        cells = (*(float(own[j]) for own in shares.values()), ranks)
        entries.append(Entry(str(X.columns[j]), (), {"ours": cells}))
    return Table(
        "categorical_figure_2",
        "Figure 2: importance on Mushrooms, as shares",
        (*shares, "rank in each column"),
        entries,
        ".3f",
        (
            "The paper names odor, gill color and spore print color as the most important of both"
            " methods. Main effects are those of the probability; TreeSHAP values are log-odds,"
            " path-dependent, of a model with one column per level (added up by feature) or with"
            " numbered levels: the paper does not say which. Features of Mushrooms nearly determine"
            " each other, so another model may use others.",
        ),
        "categorical_figure_2.png",
    )


def _tree_shap(model: Any, inputs: np.ndarray) -> np.ndarray:
    import xgboost

    values = model.get_booster().predict(xgboost.DMatrix(inputs), pred_contribs=True)
    return values[:, :-1].astype(np.float64)


def _mean_absolute(d: Decomposition, name: str, X: pd.DataFrame) -> float:
    return float(np.abs(d[name].evaluate(X)).mean()) if name in d else 0.0
