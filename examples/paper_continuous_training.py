"""
What depends on how a model was trained
=======================================

Tables 5 and 6 of Ferrere et al. once more: perceptrons with dropout, as their training goes on,
and boosting machines of as many outer bags as in the paper. Part of ``paper_continuous.py``.
"""

from collections.abc import Mapping, Sequence

from examples.paper_continuous_dropout import MOST_EPOCHS
from examples.paper_continuous_models import (
    BAGGED,
    SEED,
    Explained,
    Task,
    explain,
    read_task,
    with_dropout,
)
from examples.paper_continuous_settings import PAPER, PAPER_ROUTES, TITLES, measure
from examples.reproduction import Entry, Table, over_seeds

# Performance, R2 and equation 94.
Measured = tuple[float, ...]

EPOCHS = (10, 20, 40, 80)
SMALL_EPOCHS = 12
SMALL = ("pima_diabetes",)
# Where the paper's numbers do not come out with the quicker training, and the smallest data.
PERCEPTRON_DATA = ("bike_sharing_hour", *SMALL)
BAG_DATA = ("california_housing", *SMALL)
BEST = "least held-out loss"
SEEDS = 3
COLUMNS = ("performance", "R²", "MaxCorr")


def perceptrons_table(*, small: bool = False) -> Table:
    """Return tables 3 and 5 for networks with dropout, as training goes on."""
    entries: list[Entry] = []
    best_epochs: dict[str, list[int]] = {}
    for name in SMALL if small else PERCEPTRON_DATA:
        task = read_task(name)
        by_stage: dict[str, list[dict[str, Measured]]] = {}
        for seed in range(SEED, SEED + (1 if small else SEEDS)):
            most = SMALL_EPOCHS if small else MOST_EPOCHS
            at, best, best_epoch = with_dropout(task, seed, EPOCHS, most)
            stages = {f"{epoch} epochs": own for epoch, own in at.items()}
            for stage, own in (stages | {BEST: best}).items():
                by_stage.setdefault(stage, []).append(_by_route(name, "MLP", task, own))
            best_epochs.setdefault(TITLES[name], []).append(best_epoch)
        entries += _entries(name, "MLP", by_stage)
    reached = (f"{', '.join(map(str, own))} ({name})" for name, own in best_epochs.items())
    return Table(
        "continuous_perceptrons",
        "Tables 3 and 5: perceptrons with dropout, as training goes on",
        COLUMNS,
        entries,
        ".3f",
        (
            f"{SEEDS} seeds from {SEED} on. Layers of 128, 64 and 32 units, dropout 0.1, weight"
            " decay 1e-4, batches of 256 rows, and an end when the held-out loss has not fallen for"
            f" 30 epochs. Epochs with the {BEST}: {'; '.join(reached)}.",
        ),
    )


def bags_table(*, small: bool = False) -> Table:
    """Return tables 3 and 6 for boosting machines of one bag and of as many as the paper has."""
    entries: list[Entry] = []
    for name in SMALL if small else BAG_DATA:
        task = read_task(name)
        by_kind = {
            words: [_by_route(name, "EBM", task, explain(task, kind, quick=small))]
            for words, kind in (("one bag", "EBM"), (BAGGED.removeprefix("EBM of "), BAGGED))
        }
        entries += _entries(name, "EBM", by_kind)
    return Table(
        "continuous_bags",
        "Table 6: boosting machines of one outer bag and of 14",
        COLUMNS,
        entries,
        ".3f",
        (f"Seed {SEED}.",),
    )


def _by_route(name: str, kind: str, task: Task, explained: Explained) -> dict[str, Measured]:
    printed = PAPER[name][kind]
    return {route: measure(route, name, printed, task, explained)[:3] for route in PAPER_ROUTES}


def _entries(
    name: str, kind: str, by_setting: Mapping[str, Sequence[Mapping[str, Measured]]]
) -> list[Entry]:
    """Return a line for each route: the paper's numbers, and ours over the seeds by setting."""
    printed = PAPER[name][kind]
    paper = (printed.performance, printed.r_squared, printed.max_correlation)
    return [
        Entry(
            f"{TITLES[name]}, {route}",
            paper,
            {own: over_seeds([found[route] for found in s]) for own, s in by_setting.items()},
        )
        for route in PAPER_ROUTES
    ]
