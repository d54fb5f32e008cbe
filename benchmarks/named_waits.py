"""What people waited for most, task by task: is it quick now?

Each task runs in a process of its own and is timed once its kernels are compiled and stored, with
the training of its model left out. ``--root`` measures another checkout, such as an older one, to
compare with.
Run: ``python benchmarks/named_waits.py [--root FOLDER] [--tasks "..." ...]``, on a quiet machine.
"""

import argparse
import os
import pickle
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parent))

from limited import run_limited, timed

SECONDS, START, GIB = 240.0, 1200.0, 8.0
FOLDER = "TREEPURIFY_NAMED_WAITS"
QUIET = {"progress": False}


def rows(n: int, n_features: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Dependent numbers, and a target with pairs."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, n_features))
    X[:, 1:] += 0.3 * X[:, :1]
    y = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + X[:, 3] * (X[:, 4] > 0)
    names = [f"x{j}" for j in range(n_features)]
    return pd.DataFrame(X, columns=names), y + 0.3 * rng.normal(size=n)


def kept(name: str, train: Callable[[], Any]) -> Any:
    """Return what was trained under a name in an earlier process, or train it."""
    path = Path(os.environ[FOLDER]) / f"{name}.pickle"
    if not path.exists():
        path.write_bytes(pickle.dumps(train()))
    return pickle.loads(path.read_bytes())


def boosted(n: int, p: int, depth: int, trees: int) -> tuple[Any, pd.DataFrame, np.ndarray]:
    """XGBoost."""
    from xgboost import XGBRegressor

    X, y = rows(n, p)
    make = XGBRegressor(n_estimators=trees, max_depth=depth, n_jobs=2)
    return kept(f"boosted {n} {p} {depth} {trees}", lambda: make.fit(X, y)), X, y


def forest(n: int, p: int, trees: int) -> tuple[Any, pd.DataFrame]:
    """A forest of scikit-learn at its defaults."""
    from sklearn.ensemble import RandomForestRegressor

    X, y = rows(n, p)
    make = RandomForestRegressor(trees, random_state=0, n_jobs=2)
    return kept(f"forest {n} {p} {trees}", lambda: make.fit(X, y)), X


def audit_of_ebm() -> Callable[[], object]:
    """A default EBM of 15 000 rows and 23 features."""
    from interpret.glassbox import ExplainableBoostingRegressor

    import treepurify as tp

    X, y = rows(15_000, 23)
    model = kept("ebm", lambda: ExplainableBoostingRegressor(n_jobs=2).fit(X, y))
    return lambda: tp.audit(model, X, **QUIET)


def values_of_forest(trees: int, n_background: int) -> Callable[[], object]:
    """Interventional Shapley values of 20 rows."""
    import treepurify as tp

    model, X = forest(5000, 10, trees)
    background = X.iloc[:n_background]
    return lambda: tp.interventional_shapley_values(model, X.iloc[:20], background, **QUIET)


def values_of_probability() -> Callable[[], object]:
    """A probability of a boosted classifier of 30 features, for one row."""
    from xgboost import XGBClassifier

    import treepurify as tp
    from treepurify.engines.common.functions import response_function

    X, y = rows(5000, 30)
    model = kept("classifier", lambda: XGBClassifier().fit(X, y > 0))
    f = response_function(model)
    row, background = X.iloc[:1], X.iloc[:100]
    return lambda: tp.interventional_shapley_values(
        f, row, background, estimate="permutations", **QUIET
    )


def report_of_many() -> Callable[[], object]:
    """The report of some thousand effects."""
    import treepurify as tp

    model, X, _ = boosted(5000, 95, 2, 6000)
    d = tp.purify(model, X, **QUIET)
    path = Path(os.environ[FOLDER]) / "report.html"
    return lambda: tp.report.write_html(d, path)


def local_effects() -> Callable[[], object]:
    """ALE of 200 trees of depth 6 with 50 features."""
    import treepurify as tp

    model, X, _ = boosted(5000, 50, 6, 200)
    return lambda: tp.ale_anova(model, X, **QUIET)


def sparse_forest() -> Callable[[], object]:
    """Twenty forest trees on 300 rows of 100 features."""
    import treepurify as tp

    model, X = forest(300, 100, 20)
    return lambda: tp.purify(model, X, **QUIET)


def deep_lightgbm() -> Callable[[], object]:
    """690 trees of LightGBM of a depth up to 24."""
    from lightgbm import LGBMRegressor

    import treepurify as tp

    X, y = rows(3000, 20)
    make = LGBMRegressor(n_estimators=690, num_leaves=63, max_depth=24, verbose=-1, n_jobs=2)
    model = kept("lightgbm", lambda: make.fit(X, y))
    return lambda: tp.purify(model, X, **QUIET)


def purify_boosted(n: int, p: int, depth: int, trees: int) -> Callable[[], object]:
    """XGBoost, purified."""
    import treepurify as tp

    model, X, _ = boosted(n, p, depth, trees)
    return lambda: tp.purify(model, X, **QUIET)


def closed_form_of_categories() -> Callable[[], object]:
    """The exact categorical form of 2500 rows with missing values."""
    from lightgbm import LGBMRegressor

    import treepurify as tp

    X, y = rows(2500, 6)
    X = X.mask(np.random.default_rng(2).random(X.shape) < 0.2)
    model = kept("missing", lambda: LGBMRegressor(verbose=-1, n_jobs=2).fit(X, y))
    return lambda: tp.categorical_anova(model, X, **QUIET)


def partial_dependence() -> Callable[[], object]:
    """Partial dependence of a default forest on 5000 rows, main effects and pairs."""
    import treepurify as tp

    model, X = forest(5000, 10, 100)
    return lambda: tp.partial_dependence_anova(model, X, **QUIET)


def all_orders() -> Callable[[], object]:
    """All orders for 30 independent features."""
    import treepurify as tp

    model, X, _ = boosted(5000, 30, 6, 100)
    return lambda: tp.purify(model, X, order=None, weights="independent", **QUIET)


def worth_of_effects() -> Callable[[], object]:
    """The worth of about 150 effects on 100 000 rows, others absorbing."""
    import treepurify as tp

    model, X, y = boosted(100_000, 18, 2, 600)
    d = tp.purify(model, X, **QUIET)
    return lambda: tp.effect_worth(d, X, y, absorb="main", **QUIET)


def twenty_trainings() -> Callable[[], object]:
    """Twenty trainings of XGBoost at its defaults, and their mean."""
    import xgboost

    import treepurify as tp

    X, y = rows(5000, 10)

    def train() -> list[Any]:
        rng = np.random.default_rng(0)
        drawn = (rng.integers(0, len(X), len(X)) for _ in range(20))
        return [xgboost.XGBRegressor(n_jobs=2).fit(X.iloc[some], y[some]) for some in drawn]

    models = kept("trainings", train)
    return lambda: tp.purify(models, X, **QUIET)


TASKS: dict[str, Callable[[], Callable[[], object]]] = {
    "`audit`, default EBM, 15 000 x 23": audit_of_ebm,
    "interventional Shapley values, 100 trees, 20 rows x 100": partial(values_of_forest, 100, 100),
    "the same, 500 trees, 20 rows x 5000": partial(values_of_forest, 500, 5000),
    "Shapley values of a probability, 30 features, one row": values_of_probability,
    "report of thousands of effects": report_of_many,
    "`ale_anova`, 200 trees of depth 6, 5000 x 50": local_effects,
    "20 forest trees on 300 x 100": sparse_forest,
    "LightGBM, 690 trees of up to 63 leaves, 3000 x 20": deep_lightgbm,
    "XGBoost, 200 trees of depth 8, 600 x 20": partial(purify_boosted, 600, 20, 8, 200),
    "`categorical_anova`, 2500 x 6 with missing values": closed_form_of_categories,
    "`partial_dependence_anova`, default forest, 5000 x 10": partial_dependence,
    '`purify(order=None, weights="independent")`, 5000 x 30': all_orders,
    "XGBoost of depth 6, 50 000 x 100": partial(purify_boosted, 50_000, 100, 6, 100),
    "XGBoost of depth 2, 50 000 x 500": partial(purify_boosted, 50_000, 500, 2, 1000),
    "`effect_worth`, 100 000 rows, others absorbing": worth_of_effects,
    "twenty trainings at XGBoost's defaults, 5000 x 10": twenty_trainings,
}


def main() -> None:
    """Measure, or do one task."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", help="do it in this process")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    chosen = parser.parse_args()
    if chosen.task:
        print(timed(TASKS[chosen.task]()))
        return
    os.environ["PYTHONPATH"] = str(chosen.root)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault(FOLDER, folder)
        for task in chosen.tasks:
            # The first process trains, compiles and stores.
            for _ in range(2):
                ended = run_limited(__file__, task, seconds=SECONDS, start=START, gib=GIB)
            print(
                f"{task} | {ended.seconds:.1f} s | {ended.processor:.1f} s | {ended.memory:.2f} GB "
                f"| {ended.how}",
                flush=True,
            )


if __name__ == "__main__":
    main()
