"""How near does `legendre_anova` come to the effects of the population under dependence?

Two features with given margins and a Gaussian copula of correlation 0, 0.5 and 0.9; products,
smooth functions, a step and a kink; 5000 rows, or ``--rows``. The truth is the
functional ANOVA of the population, by least squares on a grid of 400 x 400 normal scores. Errors
are root mean squares in standard deviations of the function, on the rows of the fit and on 20 000
new ones, as geometric means over functions and correlations. ``bounded`` is x1 x2 under the
density (1 + 0.9 x1 x2) / 4 on a square.
Run: ``python benchmarks/legendre_dependence.py [--rows 400] [margin ... | bounded]``
"""

import argparse
import warnings
from collections import defaultdict
from collections.abc import Callable

import numpy as np
from scipy.stats import lognorm, norm, t, uniform

import treepurify as tp

NEW_ROWS, POINTS = 20_000, 400
MARGINS = {"uniform": uniform, "normal": norm, "t, 3 degrees": t(3), "lognormal": lognorm(1)}
FUNCTIONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "x1 x2": lambda a, b: a * b,
    "sin(2 x1) cos(x2) + x1": lambda a, b: np.sin(2 * a) * np.cos(b) + a,
    "step": lambda a, b: (a > 0.3) * 1.0 * (b > -0.5) + 0.3 * a,
    "max(x1, x2)": np.maximum,
}
SETTINGS = {
    "default": {},
    "ranks": {"scaling": "rank"},
    "ranks, series of densities": {"scaling": "rank", "density": "legendre"},
    "ranks, kernel densities": {"scaling": "rank", "density": "kernel"},
    "tanh, series, as the paper but projected": {"scaling": "tanh", "density": "legendre"},
    "range": {"scaling": "minmax"},
}


def main_effects(
    f: Callable[[np.ndarray, np.ndarray], np.ndarray], margin: object, correlation: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Normal scores, both main effects there, and the mean, by least squares on a grid."""
    score = (np.arange(POINTS) + 0.5) * (8.4 / POINTS) - 4.2
    exponent = score[:, None] ** 2 - 2 * correlation * np.outer(score, score) + score**2
    mass = np.exp(-exponent / (2 * (1 - correlation**2)))
    x = margin.ppf(norm.cdf(score))
    return score, *solved_main_effects(mass / mass.sum(), f(x[:, None], x))


def solved_main_effects(
    mass: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Both main effects of a table under a mass, and the mean, by least squares."""
    mean = float((mass * values).sum())
    first, second = mass.sum(axis=1), mass.sum(axis=0)
    matrix = np.block([[np.diag(first), mass], [mass.T, np.diag(second)]])
    weighted = mass * (values - mean)
    right = np.concatenate([weighted.sum(axis=1), weighted.sum(axis=0)])
    one, two = np.split(np.linalg.lstsq(matrix, right, rcond=1e-12)[0], 2)
    shift = float(first @ one)
    return one - shift, two + shift, mean


def scores(n_rows: int, correlation: float, seed: int) -> np.ndarray:
    """Normal scores of rows."""
    normal = np.random.default_rng(seed).normal(size=(n_rows, 2))
    normal[:, 1] = correlation * normal[:, 0] + np.sqrt(1 - correlation**2) * normal[:, 1]
    return normal


def errors(
    margin_name: str, function_name: str, correlation: float, rows: int
) -> dict[str, list[float]]:
    """Errors of main effect and pair, fitted and new rows, by settings."""
    margin, f = MARGINS[margin_name], FUNCTIONS[function_name]
    grid, one, two, mean = main_effects(f, margin, correlation)
    cases = []
    for n_rows, seed in ((rows, 0), (NEW_ROWS, 1)):
        normal = scores(n_rows, correlation, seed)
        X = margin.ppf(norm.cdf(normal))
        main = np.interp(normal[:, 0], grid, one)
        pair = f(X[:, 0], X[:, 1]) - mean - main - np.interp(normal[:, 1], grid, two)
        cases.append((X, main, pair))
    X = cases[0][0]
    values = f(X[:, 0], X[:, 1])
    found = {}
    for name, options in SETTINGS.items():
        d = tp.legendre_anova(values, X, progress=False, **options)
        found[name] = [
            float(np.sqrt(np.mean((part - truth) ** 2)) / values.std())
            for table, *truths in cases
            for subset, truth in zip([(0,), (0, 1)], truths, strict=True)
            for part in [d[subset].evaluate(table) if subset in d else np.zeros(len(table))]
        ]
    return found


def bounded_rows(n_rows: int, seed: int) -> np.ndarray:
    """Rows of density (1 + 0.9 x1 x2) / 4 on the square, by rejection."""
    rng = np.random.default_rng(seed)
    square = rng.uniform(-1, 1, (4 * n_rows, 2))
    return square[rng.uniform(0, 1.9, len(square)) < 1 + 0.9 * square.prod(axis=1)][:n_rows]


def bounded_table(rows: int) -> None:
    """Print errors on new rows of a density that is bounded away from zero."""
    grid = (np.arange(POINTS) + 0.5) * (2 / POINTS) - 1
    mass = 1 + 0.9 * np.outer(grid, grid)
    one, two, mean = solved_main_effects(mass / mass.sum(), np.outer(grid, grid))
    X, new = bounded_rows(rows, 0), bounded_rows(NEW_ROWS, 1)
    mains = [np.interp(new[:, j], grid, table) for j, table in enumerate((one, two))]
    truths = {(0,): mains[0], (1,): mains[1], (0, 1): new.prod(axis=1) - mean - sum(mains)}
    settings = {
        "default": {},
        "series of densities, as the paper": {"density": "legendre", "orthogonal": False},
    }
    print("\nbounded density: main effects and pair on new rows")
    for name, options in settings.items():
        d = tp.legendre_anova(X.prod(axis=1), X, progress=False, **options)
        found = [
            np.sqrt(np.mean((d[s].evaluate(new) - truth) ** 2)) / X.prod(axis=1).std()
            for s, truth in truths.items()
        ]
        print(f"  {name:<42}" + " ".join(f"{value:8.3f}" for value in found))


def main() -> None:
    """Print one table for each margin, and one for a bounded density."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("margins", nargs="*", default=[*MARGINS, "bounded"])
    parser.add_argument("--rows", type=int, default=5000)
    asked = parser.parse_args()
    if "bounded" in asked.margins:
        bounded_table(asked.rows)
    for margin in [name for name in asked.margins if name != "bounded"]:
        lists = defaultdict(list)
        for function in FUNCTIONS:
            for correlation in (0.0, 0.5, 0.9):
                for name, found in errors(margin, function, correlation, asked.rows).items():
                    lists[name].append(found)
        print(f"\n{margin}: main effect and pair on fitted rows, on new rows")
        for name, found in lists.items():
            means = np.exp(np.mean(np.log(np.maximum(found, 1e-4)), axis=0))
            print(f"  {name:<42}" + " ".join(f"{value:8.3f}" for value in means))


if __name__ == "__main__":
    main()
