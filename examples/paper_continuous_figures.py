"""
Main effects compared with other explanations
=============================================

Figures 1 to 5 and 11 to 23 of Ferrere et al.: for each data set the main effects of the closed form
next to TreeSHAP and TreeHFD (XGBoost), KernelSHAP and DeepSHAP (the perceptron), and the curves
that boosting machines and additive networks have themselves.
Part of ``paper_continuous.py``.
"""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from examples.paper_continuous_models import Explained, Task
from examples.paper_continuous_perceptron import deep_shap
from examples.reproduction import Entry, Table
from treepurify import Decomposition, plots

# As many rows as the paper explains, fewer for KernelSHAP, and the background rows of remark D.1.
ROWS = 5000
KERNEL_ROWS = 500
BACKGROUND = {"bike_sharing_hour": 200, "california_housing": 200, "pima_diabetes": 200}
SMALL_BACKGROUND = 50
QUICK_ROWS, QUICK_BACKGROUND = 100, 10
SHOWN = 4
# Figures of the network of one row and of the pushes of one row.
NETWORK_DATA = "bike_sharing_hour"
FORCE_DATA = "electrical_grid"
PUSHES = 8

# The rows that a method explains, and what each feature gets there.
Attributed = tuple[np.ndarray, np.ndarray]


def by_tree_shap(explained: Explained, rows: np.ndarray, _: np.ndarray) -> Attributed:
    """Return path-dependent TreeSHAP values, from XGBoost's own code."""
    import xgboost

    data = xgboost.DMatrix(rows)
    values = explained.model.get_booster().predict(
        data, pred_contribs=True, iteration_range=(0, explained.model.best_iteration + 1)
    )
    return rows, values[:, :-1].astype(np.float64)


def by_tree_hfd(explained: Explained, rows: np.ndarray, _: np.ndarray) -> Attributed:
    """Return the main effects of TreeHFD, fitted to the rows."""
    from treehfd import XGBTreeHFD

    fitted = XGBTreeHFD(explained.model)
    fitted.fit(rows, interaction_order=1, verbose=False)
    return rows, fitted.predict(rows, verbose=False)[0]


def by_kernel_shap(explained: Explained, rows: np.ndarray, background: np.ndarray) -> Attributed:
    """Return KernelSHAP values of the first rows."""
    import shap

    explainer = shap.KernelExplainer(explained.function, background)
    some = rows[:KERNEL_ROWS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = explainer.shap_values(some, silent=True)
    return some, np.asarray(values)


def by_deep_shap(explained: Explained, rows: np.ndarray, background: np.ndarray) -> Attributed:
    """Return DeepSHAP values."""
    return rows, deep_shap(explained.model, rows, background)


def by_boosting_machine(explained: Explained, rows: np.ndarray, _: np.ndarray) -> Attributed:
    """Return the boosting machine's own main effects."""
    terms = explained.model.eval_terms(rows)
    singles = [k for k, term in enumerate(explained.model.term_features_) if len(term) == 1]
    values = np.zeros(rows.shape)
    for k in singles:
        values[:, explained.model.term_features_[k][0]] = terms[:, k]
    return rows, values


def by_additive_network(explained: Explained, rows: np.ndarray, _: np.ndarray) -> Attributed:
    """Return the additive network's own curves."""
    return rows, explained.model.curves(rows)


METHODS: dict[str, dict[str, Callable[[Explained, np.ndarray, np.ndarray], Attributed]]] = {
    "XGB": {"TreeSHAP": by_tree_shap, "TreeHFD": by_tree_hfd},
    "MLP": {"KernelSHAP": by_kernel_shap, "DeepSHAP": by_deep_shap},
    "EBM": {"EBM's own": by_boosting_machine},
    "NAM": {"NAM's own": by_additive_network},
}


def main_effects(d: Decomposition, rows: np.ndarray, task: Task) -> np.ndarray:
    """Return our main effects at some rows, shape (n_rows, n_features)."""
    table = task.X.iloc[:0].reindex(range(len(rows)))
    table[:] = rows
    found = np.zeros(rows.shape)
    for subset, component in d.components.items():
        if len(subset) == 1:
            found[:, subset[0]] = component.evaluate(table)
    return found


def agreement(ours: np.ndarray, theirs: np.ndarray) -> tuple[float, float]:
    """Return how near attributions are to main effects, over all features.

    Returns
    -------
    tuple of float
        Mean correlation, each feature weighed by the variance of its main effect; and the
        root mean square of the differences over that of the main effects.
    """
    ours, theirs = ours - ours.mean(axis=0), theirs - theirs.mean(axis=0)
    size, other = ours.std(axis=0), theirs.std(axis=0)
    both = (size > 0) & (other > 0)
    correlation = np.zeros(len(size))
    correlation[both] = (ours * theirs).mean(axis=0)[both] / (size * other)[both]
    distance = float(np.sqrt(np.mean((ours - theirs) ** 2) / np.mean(ours**2)))
    return float(np.average(correlation, weights=size**2)), distance


def figures(
    name: str,
    title: str,
    task: Task,
    trained: Mapping[str, Explained],
    decompositions: Mapping[str, Decomposition],
    out: Path,
    *,
    quick: bool,
) -> list[Table]:
    """Return how near each explanation is to our main effects, and draw the largest."""
    X = task.X.to_numpy()
    order = np.random.default_rng(0).permutation(len(X))
    rows = X[order[: QUICK_ROWS if quick else ROWS]]
    n_background = QUICK_BACKGROUND if quick else BACKGROUND.get(name, SMALL_BACKGROUND)
    background = X[order[-n_background:]]
    entries, drawn = [], {}
    for kind, explained in trained.items():
        drawn[kind] = {"ours": (rows, main_effects(decompositions[kind], rows, task))}
        for method, attribute in METHODS[kind].items():
            try:
                at, values = attribute(explained, rows, background)
            except ImportError as error:
                entries.append(Entry(f"{kind}, {method}", (), {"ours": (f"no {error.name}", "")}))
                continue
            cells = agreement(main_effects(decompositions[kind], at, task), values)
            entries.append(Entry(f"{kind}, {method}", (), {"ours": cells}))
            drawn[kind][method] = (at, values)
    _draw(drawn, task, out / f"continuous_figures_{name}.png")
    _draw_row(name, task, decompositions, out)
    return [
        Table(
            f"continuous_figures_{name}",
            f"Main effects of the closed form and of other explanations: {title}",
            ("correlation", "relative distance"),
            entries,
            ".3f",
            (
                f"{len(rows)} rows ({min(KERNEL_ROWS, len(rows))} for KernelSHAP);"
                f" {len(background)} background rows for KernelSHAP and DeepSHAP.",
            ),
            f"continuous_figures_{name}.png",
        )
    ]


def _draw(drawn: Mapping[str, Mapping[str, Attributed]], task: Task, path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(
        len(drawn), SHOWN, figsize=(12, 2.4 * len(drawn)), layout="constrained", squeeze=False
    )
    for line, (kind, methods) in zip(panels, drawn.items(), strict=True):
        size = methods["ours"][1].std(axis=0)
        for panel, j in zip(line, np.argsort(-size)[:SHOWN], strict=True):
            for name, (at, values) in reversed(methods.items()):
                colour = "black" if name == "ours" else None
                panel.scatter(
                    at[:, j], values[:, j] - values[:, j].mean(), s=2, label=name, color=colour
                )
            panel.set_title(f"{kind}: {task.X.columns[j]}", size=9)
        line[0].legend(markerscale=4, fontsize=8)
    figure.savefig(path, dpi=60)
    plt.close(figure)


def _draw_row(
    name: str, task: Task, decompositions: Mapping[str, Decomposition], out: Path
) -> None:
    """Draw one row as figures 2 and 5 do: as a network, or as pushes."""
    import matplotlib.pyplot as plt

    if name not in (NETWORK_DATA, FORCE_DATA):
        return
    row: Any = task.X.iloc[[100]]
    figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
    if name == NETWORK_DATA:
        plots.network(decompositions["MLP"], row=row, ax=ax)
    else:
        _draw_pushes(decompositions["MLP"], row, ax)
    number = 2 if name == NETWORK_DATA else 5
    figure.savefig(out / f"continuous_figure_{number}.png", dpi=60)
    plt.close(figure)


def _draw_pushes(d: Decomposition, row: Any, ax: Any) -> None:
    """Draw the largest effects that raise (red) and lower (blue) one prediction, on one line."""
    effects: Any = d.contributions(row).iloc[0].drop("intercept")
    effects = effects.sort_values(key=np.abs, ascending=False).head(PUSHES)
    prediction = float(d.predict(row)[0])
    for sign, colour, place in ((1, "tab:red", 0.0), (-1, "tab:blue", 0.53)):
        own = effects[sign * effects > 0]
        ax.barh(0, own, left=prediction - own.cumsum(), color=colour, edgecolor="white")
        listed = "\n".join(f"{name}  {size:+.3g}" for name, size in own.items())
        ax.annotate(
            listed, (place, 0.0), (0, -24), xycoords="axes fraction", textcoords="offset points",
            va="top", color=colour, size=8,
        )  # fmt: skip
    ax.axvline(prediction, color="black")
    ax.axvline(d.intercept[0], color="grey", linestyle="--")
    ax.set(yticks=[], title=f"prediction {prediction:.4g}, mean {d.intercept[0]:.4g}")
