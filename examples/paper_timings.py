"""
The papers' times and ours
==========================

Collects what the stored tables of the other scripts say of times, and counts what the Shapley Sets
paper says of the number of steps. Nothing is timed here. Run:
``python examples/paper_timings.py [--store FOLDER] [--small]``.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import treepurify as tp
from examples.data import REPOSITORY
from examples.paper_continuous_settings import PAPER
from examples.reproduction import Entry, Table, publish

RESULTS = REPOSITORY / "docs" / "reproductions" / "results"


def timed(name: str, settings: tuple[str, ...]) -> list[Entry]:
    """Return the times of a stored table, of some settings, or of all if none is named."""
    stored = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    title = stored["title"].split(": ")[-1]
    column = stored["columns"].index("seconds")
    found: dict[str, dict[str, float]] = {}
    for label, setting, *cells in stored["lines"]:
        if setting != "difference":
            of_label = found.setdefault(label, {})
            of_label[setting] = float(cells[column].split(" ± ")[0])
    orders = PAPER.get(name.removeprefix("continuous_tables_"))
    return [
        Entry(
            f"{title}, {label}",
            (),
            {
                setting: (
                    *([str(orders[label].order)] if orders else []),
                    own["paper"],
                    own[setting],
                    own["paper"] / own[setting],
                )
                for setting in settings or [name for name in own if name != "paper"]
            },
        )
        for label, own in found.items()
    ]


def times(
    paper: str,
    pattern: str,
    settings: tuple[str, ...] = (),
    first: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
) -> Table:
    """Return the times of all tables of a paper."""
    names = sorted(path.stem for path in RESULTS.glob(f"{pattern}.json"))
    return Table(
        f"timings_{paper}",
        f"Seconds of the {paper} closed form",
        (*first, "paper", "ours", "paper over ours"),
        [entry for name in names for entry in timed(name, settings)],
        ".3g",
        (
            "Ours are processor times of one run or means over seeds, the paper's wall-clock times"
            " on an Apple M4 with ten cores.",
            *notes,
        ),
    )


def all_times() -> list[Table]:
    """Return the times of both papers that print some."""
    notes = (
        "K is the largest number of features of an effect.",
        "Superconductivity has a third of the paper's rows here.",
    )
    return [
        times("continuous", "continuous_tables_*", ("as the paper", "own"), ("K",), notes),
        times("categorical", "categorical_large_*"),
    ]


def tests_of_groups(sizes: tuple[int, ...]) -> Table:
    """Return how many tests find all groups, of functions without and with interactions."""
    entries = []
    for n in sizes:
        X = np.random.default_rng(0).uniform(-1, 1, (200, n))
        counts = []
        for f in (lambda X: X.sum(axis=1), lambda X: (X[:, 0::2] * X[:, 1::2]).sum(axis=1)):
            sets = tp.shapley_sets(f, X, method="recursive", progress=False)
            counts.append(int(sets.diagnostics["tests"]))
        bound = n * np.log2(n)
        entries.append(
            Entry(f"{n} features", (), {"ours": (*counts, bound, f"{counts[1] / bound:.2f}")})
        )
    return Table(
        "timings_shapley_sets",
        "Section 3 of Shapley Sets: O(n log n), in tests of two groups",
        ("additive", "n / 2 pairs", "n log2 n", "pairs, relative"),
        entries,
        ".0f",
        (
            "Each test evaluates the function four times on 100 pairs of rows. The paper says that"
            " the *runtime* is O(n log n); it is the number of tests, each of which takes a time"
            " that grows with n.",
        ),
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--store", type=Path, help="folder for tables")
    parser.add_argument("--small", action="store_true", help="few features")
    arguments = parser.parse_args()
    for table in all_times():
        publish(table, arguments.store)
    publish(tests_of_groups((8, 16) if arguments.small else (8, 32, 128, 512)), arguments.store)


if __name__ == "__main__":
    main()
