"""How long do a validator's questions take, and how often do their intervals hold?

Run: ``python benchmarks/validation.py``, with ``--questions`` for some of ``times``, ``gap`` and
``weak``, and ``--draws`` for another number of draws. Times need a machine that has nothing else to
do: reasons of 10 000 rows (100 trees of depth 2), and the monotonicity of 100 trees of depth 6
along each of 20 features, on 10 000 rows. Coverage is over draws of rows of a known population: 95%
intervals of the gap of two groups and of the drift of two data sets, and of weak spots, where all
must hold at once. A rate of 0.95 over 1000 draws has a standard error of 0.7%.
"""

import argparse
from functools import partial

import numpy as np
import xgboost
from sklearn.ensemble import GradientBoostingRegressor
from timing import alternate, show

import treepurify as tp

Array = np.ndarray
N_FEATURES, N_ROWS, ROUNDS = 20, 10_000, 5
QUIET = {"progress": False}
WEAK_ROWS = 6000
# What the margin lacks of the observations, by the third feature.
NOISES = {
    "normal noise": lambda rng, x: rng.normal(size=len(x)),
    "normal noise, twice as large where x3 > 1": lambda rng, x: (
        rng.normal(size=len(x)) * (1 + (x > 1))
    ),
    "noise with t distribution, 5 degrees of freedom": lambda rng, x: rng.standard_t(
        5, size=len(x)
    ),
}


def rows(rng: np.random.Generator, n_rows: int, n_features: int = N_FEATURES) -> Array:
    """Return normal features."""
    return rng.normal(size=(n_rows, n_features))


def target(X: Array) -> Array:
    """Return a smooth function that rises with the first feature, with one interaction."""
    return X[:, 0] + np.sin(X[:, 1]) + X[:, 1] * X[:, 2]


def print_times() -> None:
    """Print the times of reasons and of proofs."""
    rng = np.random.default_rng(0)
    X = rows(rng, N_ROWS)
    y = target(X) + rng.normal(size=N_ROWS)
    shallow = xgboost.XGBRegressor(n_estimators=100, max_depth=2, n_jobs=2).fit(X, y)
    d = tp.purify(shallow, X, **QUIET)
    reasons = partial(tp.reason_codes, d, X, reference=X, **QUIET)
    seconds = alternate({"reasons": reasons}, ROUNDS)
    show(f"{N_ROWS} rows, 100 trees of depth 2", seconds, ROUNDS)
    signs = "(" + ",".join(["1"] * N_FEATURES) + ")"
    deep = {
        name: xgboost.XGBRegressor(
            n_estimators=100, max_depth=6, n_jobs=2, monotone_constraints=constraints
        ).fit(X, y)
        for name, constraints in (("constrained", signs), ("free", None))
    }
    directions = {f"x{j}": "increasing" for j in range(N_FEATURES)}
    calls = {
        name: partial(tp.check_monotonicity, model, X, directions, **QUIET)
        for name, model in deep.items()
    }
    title = f"monotonicity of {N_FEATURES} features, 100 trees of depth 6, {N_ROWS} rows"
    show(title, alternate(calls, 1), 1)
    for name, call in calls.items():
        verdicts = [check.verdict for check in call().checks]
        counted = ", ".join(f"{verdicts.count(one)} {one}" for one in dict.fromkeys(verdicts))
        print(f"  {name}: {counted}")


def shallow_model() -> tp.Decomposition:
    """Return the effects of a small model, whose trees have depth 2."""
    rng = np.random.default_rng(0)
    X = rows(rng, 2000, 6)
    model = GradientBoostingRegressor(max_depth=2, random_state=0).fit(X, target(X))
    return tp.purify(model, X, **QUIET)


def print_gap_and_drift(n_draws: int) -> None:
    """Print how often intervals of differences of means hold those of the population."""
    d = shallow_model()

    def groups(rng: np.random.Generator, n_rows: int) -> tuple[Array, Array]:
        X = rows(rng, n_rows, 6)
        return X, np.where(X[:, 0] + rng.normal(size=n_rows) > 0.5, "new", "old")

    def differences(X: Array, group: Array) -> Array:
        parts = [d[name].evaluate(X) for name in ("x0", "x1", "x1 & x2")]
        return np.array(
            [p[group == "old"].mean() - p[group == "new"].mean() for p in (d.predict(X), *parts)]
        )

    truth = differences(*groups(np.random.default_rng(1), 4_000_000))
    held = {"gap": np.zeros(4), "drift": np.zeros(4)}
    for draw in range(n_draws):
        X, group = groups(np.random.default_rng(100 + draw), 1000)
        old, new = X[group == "old"], X[group == "new"]
        for name, found in (
            ("gap", tp.group_gap(d, X, group, **QUIET)),
            ("drift", tp.drift(d, new, old, **QUIET)),
        ):
            terms = found.to_frame().set_index("term").loc[["x0", "x1", "x1 & x2"]]
            total = found.differences.total
            low = np.append(total.low, terms["low"])
            high = np.append(total.high, terms["high"])
            held[name] += (low <= truth) & (truth <= high)
    print(f"\n95% intervals of 1000 rows, rate over {n_draws} draws: sum, x0, x1, x1 & x2")
    for name, rates in held.items():
        print(f"  {name:<6} {'  '.join(f'{rate / n_draws:.1%}' for rate in rates)}")


def print_weak_spots(n_draws: int) -> None:
    """Print how often a slice is confirmed that is none, and how often all intervals hold."""
    d = shallow_model()
    for name, noise in NOISES.items():
        rng = np.random.default_rng(1)
        many = rows(rng, 300_000, 6)
        losses = noise(rng, many[:, 3]) ** 2
        wrong = held = confirmed = 0
        for draw in range(n_draws):
            rng = np.random.default_rng(100 + draw)
            X = rows(rng, WEAK_ROWS, 6)
            y = d.predict(X) + noise(rng, X[:, 3])
            found = tp.weak_spots(d, X, y, seed=draw, **QUIET)
            truth = np.array(
                [losses[found.rows_in(i, many)].mean() for i in range(len(found.spots))]
            )
            frame = found.to_frame()
            excess = truth - losses.mean()
            # Where nothing is planted every true excess is zero.
            wrong += bool((frame["low"] > np.maximum(excess, 0.0)).any())
            held += bool(((frame["low"] <= excess) & (excess <= frame["high"])).all())
            confirmed += bool(frame["is_confirmed"].any())
        print(
            f"\nweak spots of {WEAK_ROWS} rows, {name}: a lower end too high {wrong / n_draws:.1%},"
            f" all intervals hold {held / n_draws:.1%}, some slice confirmed "
            f"{confirmed / n_draws:.1%} ({n_draws} draws)"
        )


def main() -> None:
    """Answer the questions that were chosen."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = ("times", "gap", "weak")
    parser.add_argument("--questions", nargs="+", choices=names, default=names)
    parser.add_argument("--draws", type=int, default=1000)
    arguments = parser.parse_args()
    answers = {
        "times": print_times,
        "gap": partial(print_gap_and_drift, arguments.draws),
        "weak": partial(print_weak_spots, arguments.draws),
    }
    for question in arguments.questions:
        answers[question]()


if __name__ == "__main__":
    main()
