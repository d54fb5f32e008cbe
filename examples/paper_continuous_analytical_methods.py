"""
Figures 7 and 9 of the continuous closed form
=============================================

The true main effects of the analytical cases compared with KernelSHAP, TreeSHAP, TreeHFD, an
additive network and a boosting machine. Part of ``paper_continuous.py``.
"""

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from examples.paper_continuous_analytical import BOUNDED, MAINS, UNBOUNDED, Case, truth
from examples.paper_continuous_figures import (
    KERNEL_ROWS,
    by_additive_network,
    by_boosting_machine,
    by_kernel_shap,
    by_tree_hfd,
    by_tree_shap,
)
from examples.paper_continuous_models import Explained, Task, explain
from examples.reproduction import Entry, Table

# Shares of the largest differences that are left out, to show how much rests on a few rows.
KERNEL_LINES = (("ours", 0.0), ("ours, without the largest 5%", 0.05))
Attribute = Callable[[Explained, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
BACKGROUND = 50
# For KernelSHAP in figure 9: background rows, and shares of the largest distances left out.
BACKGROUNDS = (BACKGROUND, 200)
LEFT_OUT = (0.0, 0.01, 0.05)
METHODS: dict[str, tuple[str, Attribute]] = {
    "KernelSHAP": ("", by_kernel_shap),
    "TreeSHAP": ("XGB", by_tree_shap),
    "TreeHFD": ("XGB", by_tree_hfd),
    "NAM": ("NAM", by_additive_network),
    "EBM": ("EBM", by_boosting_machine),
}


def figures_7_and_9(out: Path, n_rows: int) -> list[Table]:
    """Return how far each method is from the true main effects, and draw them."""
    return [_figure(number, case, out, n_rows) for number, case in ((7, BOUNDED), (9, UNBOUNDED))]


def _figure(number: int, case: Case, out: Path, n_rows: int) -> Table:
    X = case.sample(n_rows, np.random.default_rng(3))
    values = sum(truth(case, X).values())
    spread = float(values.std())
    task = Task(pd.DataFrame(X, columns=["X1", "X2", "X3"]), values, is_binary=False)
    trained = {"": known(case, values)}
    trained |= {kind: explain(task, kind, quick=n_rows < 1000) for kind in ("XGB", "NAM", "EBM")}
    entries, drawn = [], {}
    for name, (kind, attribute) in METHODS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                at, found = attribute(trained[kind], X[:5000], X[-BACKGROUND:])
            except ImportError as error:
                missing = (f"no {error.name}", "", "", "")
                entries.append(Entry(name, (), {"ours": missing}))
                continue
        drawn[name] = (at, found)
        true = np.column_stack([truth(case, at)[subset] for subset in MAINS])
        ours = {}
        # The function itself has no limit in figure 9, unlike models that are trained on it.
        for words, share in KERNEL_LINES if not kind else KERNEL_LINES[:1]:
            distances = [distance(found[:, j], true[:, j], share) / spread for j in range(3)]
            ours[words] = (*distances, trained[kind].performance)
        entries.append(Entry(name, (), ours))
    _draw(case, drawn, out / f"continuous_figure_{number}.png")
    return Table(
        f"continuous_figure_{number}",
        f"Figure {number}: other methods compared with the true main effects, {case.name}",
        ("X1", "X2", "X3", "R² of the model"),
        entries,
        ".3f",
        (
            f"Root mean square distance, in standard deviations of the function; {n_rows} rows"
            f" for training, 5000 explained ({KERNEL_ROWS} by KernelSHAP, {BACKGROUND} background"
            " rows)."
            " KernelSHAP explains the function itself, the others a model trained on it. The paper"
            " shows curves only. Everything else in a curve, such as half of the interaction in "
            "Shapley values, counts as distance.",
        ),
        f"continuous_figure_{number}.png",
    )


def known(case: Case, values: np.ndarray) -> Explained:
    """Return the function itself as what is explained; `values` are its own at some rows."""
    return Explained(values, 1.0, lambda rows: sum(truth(case, rows).values()), None)


def kernel_shap_table(n_rows: int) -> Table:
    """Return how few rows the distance of KernelSHAP rests on in figure 9."""
    X = UNBOUNDED.sample(n_rows, np.random.default_rng(3))
    values = sum(truth(UNBOUNDED, X).values())
    entries = []
    for n_background in BACKGROUNDS:
        at, found = by_kernel_shap(known(UNBOUNDED, values), X[:5000], X[-n_background:])
        true = truth(UNBOUNDED, at)
        for subset in MAINS[:2]:
            own = found[:, subset[0]]
            cells = [float(distance(own, true[subset], k) / values.std()) for k in LEFT_OUT]
            label = f"{n_background} background rows, X{subset[0] + 1}"
            entries.append(Entry(label, (), {"ours": cells}))
    return Table(
        "continuous_figure_9_kernel_shap",
        "Figure 9: distance of KernelSHAP from the true main effects, without its largest",
        ("all rows", *(f"without the largest {share:.0%}" for share in LEFT_OUT[1:])),
        entries,
        ".3f",
        (
            f"Root mean square distance over {len(at)} rows, in standard deviations of the"
            " function. Each feature has its own rows of largest distances.",
        ),
    )


def distance(found: np.ndarray, true: np.ndarray, share: float = 0.0) -> float:
    """Return the root mean square of centred differences, without a share of the largest.

    Differences are ranked by their distance from the median, which a few large ones do not move.
    """
    differences = found - true
    order = np.argsort(np.abs(differences - np.median(differences)))
    return float(differences[order[: round((1 - share) * len(order))]].std())


def _draw(case: Case, drawn: dict[str, tuple[np.ndarray, np.ndarray]], path: Path) -> None:
    import matplotlib.pyplot as plt

    x = np.linspace(-0.95, 0.95, 200)
    figure, panels = plt.subplots(1, 3, figsize=(12, 3.2), layout="constrained")
    for j, panel in enumerate(panels):
        for name, (at, values) in drawn.items():
            panel.scatter(at[:, j], values[:, j] - values[:, j].mean(), s=1, label=name)
        grid = np.zeros((len(x), 3))
        grid[:, j] = x
        panel.plot(x, truth(case, grid)[MAINS[j]], "k", label="true")
        panel.set(title=f"X{j + 1}", ylim=(-3.2, 3.2))
    panels[0].legend(markerscale=6, fontsize=8)
    figure.savefig(path, dpi=60)
    plt.close(figure)
