"""At what rate do bands of refits hold what they are said to hold, on a known truth?

Run: ``python benchmarks/coverage_of_bands.py [--repetitions 200]``. Each repetition draws training
rows of a known function and trains 20 models of every kind: on fresh rows each time, by bootstrap,
on folds, with other seeds. The effects of all are purified under one large sample of rows. Asked
is how often the 90% band holds

* one more model of the same kind: what the band is for;
* a model trained on rows that are new altogether, in the band and in the wider one of
  ``band(..., other_rows=True)``;
* the mean effect of a thousand models trained on new rows;

and how often the interval of the mean's standard error, another number, holds the true effect. A
rate is the mean over the repetitions, of cells by their mass. Its standard error is over the
repetitions, which are independent, as cells are not.
"""

import argparse

import numpy as np
from scipy.special import stdtrit
from sklearn.ensemble import HistGradientBoostingRegressor

import treepurify as tp

LEVEL = 0.9
N_ROWS, N_LEVELS, N_MODELS, N_EXPECTED = 500, 6, 20, 1000
KEYS = {"x0": (0,), "x1": (1,), "x2": (2,), "x0 & x1": (0, 1)}
KINDS = ("fresh rows", "bootstrap", "folds", "seeds")
QUESTIONS = (
    "one more of its kind",
    "one on new rows",
    "one on new rows, wider band",
    "mean of many on new rows",
    "the truth, by standard error",
)
ESTIMATOR = HistGradientBoostingRegressor(
    max_depth=2, max_iter=60, early_stopping=False, max_features=0.4
)


def draw(rng: np.random.Generator, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows on few levels, so that all models have the same cells, and their targets."""
    X = rng.integers(N_LEVELS, size=(n_rows, 3)).astype(float)
    X[:, 1] = np.where(rng.uniform(size=n_rows) < 0.3, X[:, 0], X[:, 1])
    return X, truth(X) + rng.normal(size=n_rows)


def truth(X: np.ndarray) -> np.ndarray:
    """Return the known function: two main effects, one pair, and a feature without an effect."""
    return 0.4 * X[:, 0] + np.sin(X[:, 1]) + 0.5 * (X[:, 0] > 2) * (X[:, 1] > 2)


def on_fresh_rows(rng: np.random.Generator, n: int) -> list[object]:
    """Return models trained on rows of the truth, new ones for each."""
    seeds = rng.integers(1 << 31, size=n).tolist()
    parameters = ESTIMATOR.get_params()
    return [
        HistGradientBoostingRegressor(**{**parameters, "random_state": seed}).fit(
            *draw(rng, N_ROWS)
        )
        for seed in seeds
    ]


def true_effects(rows: np.ndarray) -> dict[str, np.ndarray]:
    """Return the effects of the known function under the rows."""
    joint = np.zeros((N_LEVELS,) * 3)
    np.add.at(joint, tuple(rows.astype(int).T), 1.0)
    first, second = np.meshgrid(*[np.arange(float(N_LEVELS))] * 2, indexing="ij")
    table = truth(np.stack([first.ravel(), second.ravel()], axis=1)).reshape(first.shape)
    d = tp.purify_tensors({(0, 1): table, (2,): np.zeros(N_LEVELS)}, joint, progress=False)
    return {name: d.components[key].values[..., 0] for name, key in KEYS.items()}


def effects(models: list[object], rows: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the effects of each model (n_models, n_levels...), and the share of rows."""
    spread = tp.purify(models, rows, weights="empirical", progress=False).spread
    found = {}
    for name, key in KEYS.items():
        shape = (N_LEVELS,) * len(key)
        points = np.zeros((N_LEVELS ** len(key), 3))
        points[:, list(key)] = np.indices(shape).reshape(len(key), -1).T
        values = np.zeros((len(points), len(models)))
        if key in spread:
            values = spread.stacked[key].evaluate(points)
        mass = np.zeros(shape)
        np.add.at(mass, tuple(rows[:, j].astype(int) for j in key), 1 / len(rows))
        found[name] = values.T.reshape(-1, *shape), mass
    return found


def rates(
    values: np.ndarray, mass: np.ndarray, others: tuple[np.ndarray, ...], n: int
) -> list[float]:
    """Return the mass of the cells in which each question is answered with yes."""
    same, fresh, expected, true = others
    mean, deviation = values.mean(axis=0), values.std(axis=0, ddof=1)
    t = float(stdtrit(n - 1, 0.5 + LEVEL / 2)) * deviation
    one, wider, error = (t * np.sqrt(f) for f in (1 + 1 / n, 2 + 1 / n, 1 / n))
    asked = ((same, one), (fresh, one), (fresh, wider), (expected, one), (true, error))
    return [float(mass[np.abs(value - mean) <= half].sum()) for value, half in asked]


def main() -> None:
    """Print one table for each question."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=200)
    n_repetitions, n = parser.parse_args().repetitions, N_MODELS
    rows, _ = draw(np.random.default_rng(12345), 4000)
    many = effects(on_fresh_rows(np.random.default_rng(54321), N_EXPECTED), rows)
    expected = {name: values.mean(axis=0) for name, (values, _) in many.items()}
    true = true_effects(rows)
    found: dict[tuple[str, str], list[list[float]]] = {}
    for repetition in range(n_repetitions):
        rng = np.random.default_rng(repetition)
        X, y = draw(rng, N_ROWS)
        (fresh,) = on_fresh_rows(rng, 1)
        for kind in KINDS:
            if kind == "fresh rows":
                models = on_fresh_rows(rng, n + 1)
            else:
                seed = int(rng.integers(1 << 31))
                n_trained = n if kind == "folds" else n + 1
                models = list(
                    tp.refit(ESTIMATOR, X, y, n=n_trained, how=kind, seed=seed, progress=False)
                )
            # Of twenty folds there is no further one: the last stands aside.
            n_used = len(models) - 1
            for name, (values, mass) in effects([*models, fresh], rows).items():
                others = (values[-2], values[-1], expected[name], true[name])
                answers = rates(values[:n_used], mass, others, n_used)
                found.setdefault((kind, name), []).append(answers)
    for position, question in enumerate(QUESTIONS):
        print(f"\n{question}: rate at {LEVEL:.0%}, {n_repetitions} repetitions")
        for (kind, name), answers in found.items():
            values = np.array(answers)[:, position]
            rate, error = values.mean(), values.std(ddof=1) / np.sqrt(len(values))
            off = f"{(rate - LEVEL) / error:+.1f} standard errors off" if error > 1e-9 else ""
            print(f"  {kind:<11} {name:<8} {rate:6.1%} +- {error:.1%}  {off}")


if __name__ == "__main__":
    main()
