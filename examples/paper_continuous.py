"""
The continuous closed form, number by number
============================================

Ferrere, Bousquet, Gamboa and Loubes, "Generalized Functional ANOVA in Closed-Form: A Unified View
of Additive Explanations". Prints the analytical cases with tables 7 and 8, tables 2, 3, 5 and 6,
and how near other explanations come to the main effects: the paper's figures beside treepurify's.
Classifiers are decomposed as log-odds.
Run: ``python examples/paper_continuous.py [--store FOLDER] [--small] [--data NAME ...]``;
``--store`` keeps tables and pictures for the documentation, ``--small`` trains on the smallest data
set only, and briefly; ``--data`` chooses data sets, or the analytical cases.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
)
from examples.paper_continuous_analytical_methods import figures_7_and_9
from examples.paper_continuous_figures import figures
from examples.paper_continuous_geometry import geometry_table
from examples.paper_continuous_max_correlation import SHOWN, pair_table
from examples.paper_continuous_models import SEED, Explained, Task, explain, read_task
from examples.reproduction import Cell, Entry, Table, publish
from treepurify.decomposition import Decomposition
from treepurify.errors import SupportWarning


@dataclass(frozen=True)
class Printed:
    """One model of one data set in the paper.

    Parameters
    ----------
    order, degree, density_degree, density_clip : numbers
        Table 4.
    performance, r_squared, max_correlation : float
        Tables 3, 5 and 6.
    seconds : float
        Table 2, on an Apple M4.
    """

    order: int
    degree: int
    density_degree: int
    density_clip: float
    performance: float
    r_squared: float
    max_correlation: float
    seconds: float


PAPER: dict[str, dict[str, Printed]] = {
    "pima_diabetes": {
        "XGB": Printed(2, 5, 4, 0.1, 0.74, 0.85, 9.56e-2, 0.237),
        "MLP": Printed(2, 5, 4, 0.01, 0.73, 0.99, 0.0, 0.230),
        "EBM": Printed(2, 5, 4, 0.01, 0.76, 0.97, 0.0, 0.230),
        "NAM": Printed(1, 10, 4, 0.01, 0.73, 1.00, 0.0, 0.013),
    },
    "electrical_grid": {
        "XGB": Printed(2, 4, 4, 0.01, 0.93, 0.89, 7.41e-3, 1.420),
        "MLP": Printed(2, 4, 4, 0.01, 0.98, 0.95, 6.61e-3, 1.407),
        "EBM": Printed(2, 4, 4, 0.01, 0.94, 0.99, 5.58e-3, 1.365),
        "NAM": Printed(1, 4, 4, 0.01, 0.88, 1.00, 0.0, 0.039),
    },
    "bike_sharing_hour": {
        "XGB": Printed(2, 10, 5, 0.01, 0.86, 0.92, 9.49e-2, 9.806),
        "MLP": Printed(2, 8, 6, 0.01, 0.85, 0.91, 8.83e-2, 5.741),
        "EBM": Printed(2, 10, 4, 0.01, 0.83, 0.96, 9.52e-2, 9.721),
    },
    "california_housing": {
        "XGB": Printed(2, 10, 4, 0.01, 0.84, 0.86, 6.35e-2, 11.048),
        "MLP": Printed(1, 10, 4, 0.01, 0.81, 0.88, 0.0, 0.129),
        "EBM": Printed(2, 10, 4, 0.01, 0.83, 0.89, 4.04e-2, 11.077),
        "NAM": Printed(1, 10, 4, 0.01, 0.76, 0.94, 0.0, 0.126),
    },
    "adult": {
        "XGB": Printed(1, 10, 4, 0.01, 0.88, 0.91, 0.0, 0.575),
        "MLP": Printed(1, 10, 4, 0.01, 0.85, 0.94, 0.0, 0.597),
        "EBM": Printed(1, 10, 6, 0.01, 0.88, 0.90, 0.0, 0.691),
    },
    "superconductivity_subset": {
        "XGB": Printed(1, 10, 10, 0.01, 0.93, 0.86, 0.0, 3.520),
        "MLP": Printed(1, 10, 10, 0.01, 0.91, 0.89, 0.0, 3.547),
        "EBM": Printed(1, 10, 10, 0.01, 0.90, 0.88, 0.0, 3.501),
    },
}
TITLES = {
    "pima_diabetes": "Diabetes",
    "electrical_grid": "Electrical Grid",
    "bike_sharing_hour": "Bike Sharing",
    "california_housing": "California Housing",
    "adult": "Census Income",
    "superconductivity_subset": "Superconductivity",
}
# Which scale of columns the selection sees.
PAPER_ROUTES = {"as the paper": "density", "polynomials not normalised": "polynomial"}
SMALL = "pima_diabetes"
ANALYTICAL = "analytical"
# How many seeds of the split, the training and the model; more where training is quick.
SEEDS = {"pima_diabetes": 5}
MOST_SEEDS = 3
# Training takes minutes: one seed.
SLOW = (("california_housing", "NAM"),)
# An hour is one of 24 values, whose effect jumps at the rush hours.
OWN_SCALING = {"bike_sharing_hour": {"hr": "levels"}}


def decompose(
    route: str, name: str, printed: Printed, task: Task, values: np.ndarray
) -> Decomposition:
    """Return the decomposition of one of `PAPER_ROUTES`, or with our ``"own"`` settings.

    The routes of the paper have the settings of table 4 without a projection, and differ in the
    scale of columns that the selection sees. The own settings keep the paper's order, degree and
    clipping: levels and scores, kernel densities, a path of up to 1000 steps instead of
    scikit-learn's 500, and components that are made orthogonal.
    """
    options: dict[str, Any] = {
        "density": "kernel",
        "scaling": OWN_SCALING.get(name, "auto"),
        "selection": tp.options.TermSelection(column_scale="density", max_steps=1000),
    }
    if route in PAPER_ROUTES:
        options = {
            "density": "legendre",
            "density_degree": printed.density_degree,
            "scaling": "tanh",
            "selection": tp.options.TermSelection(column_scale=PAPER_ROUTES[route], max_steps=500),
            "orthogonal": False,
        }
    # The series of the paper are clipped on many rows; MaxCorr shows what that does, and R2 what
    # BIC leaves in the remainder.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)
        warnings.simplefilter("ignore", tp.errors.FitWarning)
        return tp.legendre_anova(
            values,
            task.X,
            order=printed.order,
            degree=printed.degree,
            density_clip=printed.density_clip,
            memory_budget=4 << 30,
            progress=False,
            **options,
        )


def measure(
    route: str, name: str, printed: Printed, task: Task, explained: Explained
) -> tuple[float, float, float, float]:
    """Return performance, R2, equation 94 and processor seconds of one decomposition."""
    start = time.process_time()
    d = decompose(route, name, printed, task, explained.values)
    seconds = time.process_time() - start
    fit = d.diagnostics["fit"]["f"]
    return explained.performance, fit["r_squared"], fit["max_correlation"], seconds


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
        columns = np.array(found).T
        spread = [(float(c.mean()), float(c.std())) for c in columns]
        ours[route] = tuple(spread if len(seeds) > 1 else [mean for mean, _ in spread])
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
    parser.add_argument("--data", nargs="*", choices=(ANALYTICAL, *PAPER), help="data sets")
    arguments = parser.parse_args()
    folder, small = arguments.store, arguments.small
    out = folder or Path("build/paper_continuous")
    out.mkdir(parents=True, exist_ok=True)
    compile_kernels()
    chosen = arguments.data or ((ANALYTICAL, SMALL) if small else (ANALYTICAL, *PAPER))
    if ANALYTICAL in chosen:
        for number, case in ((7, BOUNDED), (8, UNBOUNDED)):
            runs, n_rows = (3, 10_000) if small else (100, 100_000)
            publish(cosine_table(number, case, runs, n_rows), folder)
        for number, case in ((8, BOUNDED), (10, UNBOUNDED)):
            n_rows = 3000 if small else 10_000
            found = recovered(case, n_rows)
            draw_curves(case, found, out / f"continuous_figure_{number}.png")
            publish(recovery_table(number, case, found, n_rows), folder)
        for table in figures_7_and_9(out, 500 if small else 10_000):
            publish(table, folder)
        publish(geometry_table(3000 if small else 10_000), folder)
    for name in (own for own in chosen if own != ANALYTICAL):
        try:
            for table in data_table(name, out, quick=small):
                publish(table, folder)
        except DataUnavailableError as error:
            print(f"\n  left out: {error}")


if __name__ == "__main__":
    main()
