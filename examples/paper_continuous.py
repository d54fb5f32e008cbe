"""
The continuous closed form, number by number
============================================

Ferrere, Bousquet, Gamboa and Loubes, "Generalized Functional ANOVA in Closed-Form: A Unified View
of Additive Explanations". Prints the analytical cases with tables 7 and 8, tables 2, 3, 5 and 6,
and how near other explanations come to the main effects: the paper's numbers and treepurify's.
Classifiers are decomposed as log-odds.
Run: ``python examples/paper_continuous.py [--store FOLDER] [--small] [--data NAME ...]``;
``--store`` keeps tables and pictures for the documentation, ``--small`` trains on the smallest data
set only, and briefly; ``--data`` chooses data sets, the analytical cases, or what depends on the
training.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import treepurify as tp
from examples.data import DataUnavailableError
from examples.paper_continuous_analytical import (
    BOUNDED,
    UNBOUNDED,
    cosine_table,
    draw_curves,
    recovered,
    recovery_table,
    seeds_table,
)
from examples.paper_continuous_analytical_methods import figures_7_and_9, kernel_shap_table
from examples.paper_continuous_figures import figures
from examples.paper_continuous_geometry import geometry_table
from examples.paper_continuous_max_correlation import SHOWN, pair_table
from examples.paper_continuous_models import SEED, Explained, Task, explain, read_task
from examples.paper_continuous_settings import PAPER, PAPER_ROUTES, TITLES, decompose, measure
from examples.paper_continuous_training import bags_table, perceptrons_table
from examples.reproduction import Cell, Entry, Table, over_seeds, publish

SMALL = "pima_diabetes"
ANALYTICAL = "analytical"
# Tables of how much depends on the training, each of all the data sets that it has.
TRAINING = {"perceptrons": perceptrons_table, "bags": bags_table}
# How many seeds of the split, the training and the model; more where training is quick.
SEEDS = {"pima_diabetes": 5}
MOST_SEEDS = 3
# Training takes minutes: one seed.
SLOW = (("california_housing", "NAM"),)


def model_entry(
    name: str, kind: str, task: Task, seeds: Sequence[int], *, quick: bool = False
) -> tuple[Entry, Explained]:
    """Return the line of one model, and what was trained with the first seed."""
    printed = PAPER[name][kind]
    routes = (*PAPER_ROUTES, "own")
    figures_of: dict[str, list[tuple[float, ...]]] = {route: [] for route in routes}
    trained = [explain(task, kind, seed, quick=quick) for seed in seeds]
    for explained in trained:
        for route in routes:
            figures_of[route].append(measure(route, name, printed, task, explained))
    ours: dict[str, tuple[Cell, ...]] = {}
    for route, found in figures_of.items():
        ours[route] = over_seeds(found)
    paper = (printed.performance, printed.r_squared, printed.max_correlation, printed.seconds)
    return Entry(kind, paper, ours), trained[0]


def data_table(name: str, out: Path, *, quick: bool) -> list[Table]:
    """Return tables 2, 3, 5 and 6 of one data set, and its figures."""
    task = read_task(name)
    seeds = range(SEED, SEED + (1 if quick else SEEDS.get(name, MOST_SEEDS)))
    entries, trained = [], {}
    for kind in PAPER[name]:
        own_seeds = seeds[:1] if (name, kind) in SLOW else seeds
        entry, trained[kind] = model_entry(name, kind, task, own_seeds, quick=quick)
        entries.append(entry)
        print(f"  {TITLES[name]}, {kind}: done", file=sys.stderr)
    notes = [
        f"{task.X.shape[0]} rows, {task.X.shape[1]} features, seeds {seeds[0]} to {seeds[-1]}."
        " Seconds: ours are processor time on one core, the paper's wall-clock time on an Apple"
        " M4 with ten.",
    ]
    if (name, "NAM") in SLOW:
        notes.append("The NAM has one seed: its training takes minutes.")
    if "NAM" not in PAPER[name]:
        notes.append("The paper trained no NAM here, for computational reasons.")
    table = Table(
        f"continuous_tables_{name}",
        f"Tables 2, 3, 5 and 6: {TITLES[name]}",
        ("performance", "R²", "MaxCorr", "seconds"),
        entries,
        ".3f",
        notes,
    )
    printed = PAPER[name]
    decompositions = {
        kind: decompose("own", name, printed[kind], task, own.values)
        for kind, own in trained.items()
    }
    tables = [table, *figures(name, TITLES[name], task, trained, decompositions, out, quick=quick)]
    if name == SHOWN[0]:
        explained = trained[SHOWN[1]]
        by_route = {
            route: decompose(route, name, printed[SHOWN[1]], task, explained.values)
            for route in PAPER_ROUTES
        }
        tables.append(pair_table(by_route, task.X, explained.values))
    return tables


def compile_kernels() -> None:
    """Decompose a little, so that no compilation is timed."""
    X = np.random.default_rng(0).uniform(-1, 1, size=(300, 2))
    for density in ("legendre", "kernel"):
        tp.legendre_anova(X[:, 0] * X[:, 1], X, degree=3, density=density, progress=False)


def main() -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--store", type=Path, help="folder for tables and pictures")
    parser.add_argument("--small", action="store_true", help="the smallest data, briefly")
    parser.add_argument(
        "--data", nargs="*", choices=(ANALYTICAL, *TRAINING, *PAPER), help="data sets"
    )
    arguments = parser.parse_args()
    folder, small = arguments.store, arguments.small
    out = folder or Path("build/paper_continuous")
    out.mkdir(parents=True, exist_ok=True)
    compile_kernels()
    chosen = arguments.data or (ANALYTICAL, *TRAINING, *((SMALL,) if small else PAPER))
    if ANALYTICAL in chosen:
        for number, case in ((7, BOUNDED), (8, UNBOUNDED)):
            runs, n_rows = (3, 10_000) if small else (100, 100_000)
            publish(cosine_table(number, case, runs, n_rows), folder)
        for number, case in ((8, BOUNDED), (10, UNBOUNDED)):
            n_rows = 3000 if small else 10_000
            found = recovered(case, n_rows)
            draw_curves(case, found, out / f"continuous_figure_{number}.png")
            publish(recovery_table(number, case, found, n_rows), folder)
        seeds = range(2 if small else 20)
        publish(seeds_table({8: BOUNDED, 10: UNBOUNDED}, seeds, n_rows), folder)
        n_rows = 500 if small else 10_000
        for table in (*figures_7_and_9(out, n_rows), kernel_shap_table(n_rows)):
            publish(table, folder)
        publish(geometry_table(3000 if small else 10_000), folder)
    parts: list[Callable[[], list[Table]]] = []
    for name in chosen:
        if name in TRAINING:
            parts.append(lambda name=name: [TRAINING[name](small=small)])
        elif name in PAPER:
            parts.append(lambda name=name: data_table(name, out, quick=small))
    for part in parts:
        try:
            for table in part():
                publish(table, folder)
        except DataUnavailableError as error:
            print(f"\n  left out: {error}")


if __name__ == "__main__":
    main()
