"""What are effects worth on held-out rows, how long does it take to say, and how few will do?

``speed``: processor time of `effect_worth` for about 150 effects on 100 000 held-out rows, with and
without intervals and absorbing. ``exact``: the largest difference from predictions built again
without each effect, for every loss. ``planted``: in how many of 100 draws the interval of a useful
pair lies above zero and that of a useless pair of the same variance does not. ``simplify``: the
path on four data sets, the effects within 1% of the held-out loss, and their loss on rows that
took no part, compared with an EBM of as many terms that is trained on the same rows.
Run: ``python benchmarks/worth.py [speed exact planted simplify] [--draws 100] [--data adult]``.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import xgboost
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.metrics import (
    log_loss,
    mean_pinball_loss,
    mean_poisson_deviance,
    mean_squared_error,
    roc_auc_score,
)
from sklearn.model_selection import train_test_split

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import treepurify as tp
from examples.data import DATA_SETS, DataSet, DataUnavailableError

ROWS = 100_000
REAL = ("adult", "bike_sharing_hour", "california_housing", "compas_two_years")


def cost(function: Callable[[], object]) -> float:
    """Return processor seconds, the least of three after a warm-up."""
    function()
    seconds = []
    for _ in range(3):
        start = time.process_time()
        function()
        seconds.append(time.process_time() - start)
    return min(seconds)


def speed() -> None:
    """Print processor seconds for many effects on many rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2 * ROWS, 18))
    signal = X[:, :6].sum(axis=1) + X[:, 0] * X[:, 1]
    targets = {
        "squared_error": signal + rng.normal(size=len(X)),
        "log_loss": (signal + rng.normal(size=len(X)) > 0).astype(int),
        "poisson": rng.poisson(np.exp(0.2 * signal)),
    }
    kinds = {
        "squared_error": xgboost.XGBRegressor,
        "log_loss": xgboost.XGBClassifier,
        "poisson": lambda **options: xgboost.XGBRegressor(objective="count:poisson", **options),
    }
    print(f"{'loss':<16}{'effects':>8}{'intervals':>11}{'without':>9}{'absorbed':>10}  (CPU s)")
    for name, y in targets.items():
        model = kinds[name](n_estimators=600, max_depth=2, learning_rate=0.3, n_jobs=1)
        d = tp.purify(model.fit(X[:ROWS], y[:ROWS]), X[:ROWS], weights="empirical", progress=False)
        plain = {"loss": name, "absorb": False, "progress": False}
        ways = (
            plain,
            {**plain, "n_bootstrap": 0},
            {**plain, "n_bootstrap": 0, "absorb": "main"},
        )
        ask = partial(tp.effect_worth, d, X[ROWS:], y[ROWS:])
        seconds = [cost(partial(ask, **options)) for options in ways]
        print(
            f"{name:<16}{len(d):>8}{seconds[0]:>11.2f}{seconds[1]:>9.2f}{seconds[2]:>10.2f}",
            flush=True,
        )


def exact() -> None:
    """Print the largest difference from predictions that are built again."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 5))
    X[:, 1] += X[:, 0]
    signal = X[:, 0] + X[:, 1] * X[:, 2]
    noise = rng.normal(size=len(X))
    regressor, classifier = xgboost.XGBRegressor, xgboost.XGBClassifier
    cases = {
        "squared_error": (regressor, signal + noise, mean_squared_error),
        ("quantile", 0.8): (
            regressor,
            signal + noise,
            lambda y, p: mean_pinball_loss(y, p, alpha=0.8),
        ),
        "log_loss": (classifier, (signal + noise > 0).astype(int), log_loss),
        "auc": (
            classifier,
            (signal + noise > 0).astype(int),
            # Rounding must not tell rows in the same leaves apart.
            lambda y, p: 1 - roc_auc_score(y, p.round(12)),
        ),
        "poisson": (
            lambda **options: regressor(objective="count:poisson", **options),
            rng.poisson(np.exp(0.3 * signal)),
            mean_poisson_deviance,
        ),
    }
    print(f"{'loss':<20}{'largest difference from a rebuilt prediction':>46}")
    for loss, (kind, y, reference) in cases.items():
        model = kind(n_estimators=60, max_depth=2, n_jobs=1).fit(X[:2000], y[:2000])
        d = tp.purify(model, X[:2000], weights="empirical", progress=False)
        worth = tp.effect_worth(
            d, X[2000:], y[2000:], loss=loss, n_bootstrap=0, absorb=False, progress=False
        )
        margin = d.on_rows(X[2000:])
        base = reference(y[2000:], d.link.inverse(margin)[:, 0])
        errors = []
        for subset, value in zip(worth.subsets, worth.worth, strict=True):
            rebuilt = np.tile(d.intercept, (2000, 1))
            for other in d.components:
                if other != subset:
                    rebuilt += d.components[other].on_rows(X[2000:])
            expected = reference(y[2000:], d.link.inverse(rebuilt)[:, 0]) - base
            errors.append(abs(value - expected))
        print(f"{loss!s:<20}{max(errors):>46.1e}")


def planted(draws: int) -> None:
    """Print how often a useful and a useless pair of the same variance are told apart."""
    useful, useless, both = 0, 0, 0
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(3000, 4))
        y = X[:, 0] + 0.5 * X[:, 0] * X[:, 1] + rng.normal(size=3000)
        # The other pair is in the training rows alone, as large as the first one.
        trained = y + 0.5 * X[:, 2] * X[:, 3]
        model = GradientBoostingRegressor(max_depth=2, n_estimators=100, random_state=0)
        d = tp.purify(
            model.fit(X[:1000], trained[:1000]), X[:1000], weights="empirical", progress=False
        )
        worth = tp.effect_worth(d, X[1000:], y[1000:], absorb=False, progress=False, seed=seed)
        sees, takes = worth.of(("x0", "x1"))["low"] > 0, worth.of(("x2", "x3"))["low"] > 0
        useful, useless, both = useful + sees, useless + takes, both + (sees and not takes)
    print(f"draws {draws}: useful pair above zero {useful}, useless {useless}, told apart {both}")


def fresh_ebm(
    X: pd.DataFrame, y: np.ndarray, X_test: pd.DataFrame, n_pairs: int, *, is_binary: bool
) -> np.ndarray:
    """Return what an EBM with a number of pairs, which it picks itself, predicts for other rows."""
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    kind = ExplainableBoostingClassifier if is_binary else ExplainableBoostingRegressor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ebm = kind(interactions=n_pairs, n_jobs=1, random_state=0, outer_bags=8).fit(X, y)
    return ebm.predict_proba(X_test)[:, 1] if is_binary else ebm.predict(X_test)


def simplify_one(data: DataSet) -> None:
    """Print the path of one data set, and an EBM of the same size."""
    X, rest, y, y_rest = train_test_split(data.X, data.y, test_size=0.4, random_state=0)
    X_choose, X_test, y_choose, y_test = train_test_split(
        rest, y_rest, test_size=0.5, random_state=0
    )
    kind = xgboost.XGBClassifier if data.is_binary else xgboost.XGBRegressor
    model = kind(
        n_estimators=300, max_depth=2, learning_rate=0.1, enable_categorical=True, n_jobs=1
    ).fit(X, y)
    d = tp.purify(model, X, weights="empirical", missing_cells="always", progress=False)
    start = time.process_time()
    simple = tp.simplify(d, X_choose, y_choose, progress=False)
    print(f"\n{data.name}: {simple} (CPU {time.process_time() - start:.1f} s)")
    print(f"{'effects':>8}{'held-out loss':>15}{'rise':>9}")
    table = simple.to_frame()
    for row in table[:: max(len(table) // 15, 1)].to_dict("records"):
        print(f"{row['n_effects']:>8}{row['loss']:>15.6g}{row['rise']:>+9.2%}")
    few = simple.decomposition
    mains = [few.term_name(subset) for subset in few if len(subset) == 1]
    n_pairs = len(few) - len(mains)
    loss = log_loss if data.is_binary else mean_squared_error
    predicted = fresh_ebm(X[mains], y, X_test[mains], n_pairs, is_binary=data.is_binary)
    of_ebm = loss(y_test, predicted)
    of_all, of_few = (loss(y_test, each.predict(X_test, scale="response")) for each in (d, few))
    print(f"on rows that took no part: all {len(d)} effects {of_all:.6g}")
    print(f"  {len(few)} effects {of_few:.6g} ({of_few / of_all - 1:+.2%})")
    print(
        f"  fresh EBM of {len(mains)} main effects and {n_pairs} pairs {of_ebm:.6g} "
        f"({of_ebm / of_all - 1:+.2%})",
        flush=True,
    )


def simplify(names: Sequence[str]) -> None:
    """Print the paths on real data."""
    for name in names:
        try:
            simplify_one(DATA_SETS[name]())
        except DataUnavailableError as error:
            print(f"{name}: left out: {error}")


def main() -> None:
    """Run what is asked for; all by default."""
    questions = ("speed", "exact", "planted", "simplify")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", nargs="*", choices=[*questions, []], default=[])
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--data", nargs="*", choices=REAL, default=REAL)
    arguments = parser.parse_args()
    asked = arguments.which or questions
    if "speed" in asked:
        speed()
    if "exact" in asked:
        exact()
    if "planted" in asked:
        planted(arguments.draws)
    if "simplify" in asked:
        simplify(arguments.data)


if __name__ == "__main__":
    main()
