"""
The analytical cases of the continuous closed form
==================================================

Equations 87 to 93 and section D.8 of Ferrere et al.: three dependent features, a function whose
components are known in closed form, tables 7 and 8, and how well the components are recovered
from 10 000 rows. Part of ``paper_continuous.py``.
"""

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import eval_legendre

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import treepurify as tp
from examples.reproduction import Entry, Table, mean_and_spread
from treepurify import Decomposition

RHO = 0.5
INSIDE = 0.98
FIGURE_SEED = 1
ROUTES = ("settings of the paper", "series of degree 4", "kernels")
TABLE_7 = ((0.0027, 0.0018), (0.0026, 0.0019), (0.0024, 0.0020), (0.0022, 0.0017), (0.0028, 0.0024))
TABLE_8 = ((0.0023, 0.0017), (0.0025, 0.0019), (0.0033, 0.0020), (0.0017, 0.0013), (0.0087, 0.0132))
Subset = tuple[int, ...]
MAINS: tuple[Subset, ...] = ((0,), (1,), (2,))
PAIRS: tuple[Subset, ...] = ((0, 1), (0, 2), (1, 2))
ORTHOGONAL: tuple[tuple[Subset, Subset], ...] = (
    ((0,), ()),
    ((1,), ()),
    ((0, 1), ()),
    ((0, 1), (0,)),
    ((0, 1), (1,)),
)


@dataclass(frozen=True)
class Case:
    """A distribution with known densities of one and of two features.

    Parameters
    ----------
    name : str
        Words for the output.
    sample : callable
        ``sample(n_rows, rng)`` returns an array of shape (n_rows, 3) in (-1, 1).
    density : callable
        ``density(x)`` of one feature.
    pair_density : callable
        ``pair_density(x, y)`` of two.
    table : tuple
        The paper's cosines, mean and standard deviation.
    """

    name: str
    sample: Callable[[int, np.random.Generator], np.ndarray]
    density: Callable[[np.ndarray], np.ndarray]
    pair_density: Callable[[np.ndarray, np.ndarray], np.ndarray]
    table: tuple[tuple[float, float], ...]


def sample_bounded(n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Draw from equation 87 by rejection, as the paper does."""
    kept: list[np.ndarray] = []
    while sum(map(len, kept)) < n_rows:
        x = rng.uniform(-1, 1, size=(2 * n_rows, 3))
        likelihood = 1 + RHO * (x[:, 0] * x[:, 1] + x[:, 1] * x[:, 2] + x[:, 0] * x[:, 2])
        kept.append(x[rng.uniform(0, 1 + 3 * RHO, len(x)) < likelihood])
    return np.concatenate(kept)[:n_rows]


def sample_unbounded(n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Draw tanh of correlated Gaussians (section D.8)."""
    correlation = np.full((3, 3), RHO) + (1 - RHO) * np.eye(3)
    return np.tanh(rng.multivariate_normal(np.zeros(3), correlation, n_rows))


def tanh_density(x: np.ndarray) -> np.ndarray:
    """Equation 99."""
    return np.exp(-(np.arctanh(x) ** 2) / 2) / (np.sqrt(2 * np.pi) * (1 - x**2))


def tanh_pair_density(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Equation 100."""
    a, b, rest = np.arctanh(x), np.arctanh(y), 1 - RHO**2
    exponent = -(a**2 - 2 * RHO * a * b + b**2) / (2 * rest)
    return np.exp(exponent) / (2 * np.pi * np.sqrt(rest) * (1 - x**2) * (1 - y**2))


BOUNDED = Case(
    "bounded densities",
    sample_bounded,
    lambda x: np.full_like(x, 0.5),
    lambda x, y: (1 + RHO * x * y) / 4,
    TABLE_7,
)
UNBOUNDED = Case("unbounded densities", sample_unbounded, tanh_density, tanh_pair_density, TABLE_8)


def normalised(degree: int, x: np.ndarray) -> np.ndarray:
    """Equation 17."""
    return np.sqrt((2 * degree + 1) / 2) * eval_legendre(degree, x)


def truth(case: Case, X: np.ndarray) -> dict[Subset, np.ndarray]:
    """Equations 91 to 93: the components at the rows of X, the others being zero."""
    x, y = X[:, 0], X[:, 1]
    first = np.sqrt(2 / 7) * normalised(3, x) - np.sqrt(2 / 3) * normalised(1, x)
    second = np.sqrt(2 / 3) * normalised(1, y) + np.sqrt(2 / 5) * normalised(2, y)
    pair = 2 / 9 * normalised(4, x) * normalised(4, y)
    pair += 2 / 17 * normalised(8, x) * normalised(8, y)
    found = {subset: np.zeros(len(X)) for subset in MAINS + PAIRS}
    found[0,] = first / case.density(x)
    found[1,] = second / case.density(y)
    found[0, 1] = pair / case.pair_density(x, y)
    return found


def absolute_cosines(components: Mapping[Subset, np.ndarray]) -> list[float]:
    """Equations 96 and 97 for the pairs of table 7."""
    cosines = []
    for subset, part in ORTHOGONAL:
        own = components[subset]
        other = components[part] if part else np.ones(len(own))
        scale = np.sqrt(np.mean(own**2) * np.mean(other**2))
        cosines.append(float(abs(np.mean(own * other)) / scale))
    return cosines


def cosine_table(number: int, case: Case, runs: int, n_rows: int) -> Table:
    """Return Table 7 or 8."""
    rng = np.random.default_rng(0)
    samples = (case.sample(n_rows, rng) for _ in range(runs))
    cosines = np.array([absolute_cosines(truth(case, X)) for X in samples])
    entries = [
        Entry(
            f"{label(subset)}, {label(part)}",
            (case.table[k],),
            {"ours": (mean_and_spread(cosines[:, k]),)},
        )
        for k, (subset, part) in enumerate(ORTHOGONAL)
    ]
    return Table(
        f"continuous_table_{number}",
        f"Table {number}: absolute cosines of the true components, {case.name}",
        ("absolute cosine",),
        entries,
        ".4f",
        (f"{runs} runs of {n_rows} rows.",),
    )


def label(subset: Subset) -> str:
    """Name a subset as the paper does, from 1 on."""
    return "{" + ", ".join(str(j + 1) for j in subset) + "}"


def recover(case: Case, X: np.ndarray, route: str) -> Decomposition:
    """Decompose the function, known by its values only, from the rows of X.

    Parameters
    ----------
    case : Case
        The distribution.
    X : ndarray of shape (n_rows, 3)
        Rows.
    route : str
        One of `ROUTES`. The first has the settings of figure 8; the others select columns at
        unit length and project, and differ in the densities.
    """
    options: dict[str, Any] = {
        ROUTES[0]: {
            "density": "legendre",
            "density_degree": 10,
            "selection": tp.options.TermSelection(column_scale="density", max_steps=500),
            "orthogonal": False,
        },
        ROUTES[1]: {"density": "legendre", "density_degree": 4},
        ROUTES[2]: {"density": "kernel"},
    }
    # Where densities fall to zero, polynomials follow the true components up to the ends only
    # roughly; the table of errors says by how much.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tp.errors.FitWarning)
        return tp.legendre_anova(
            sum(truth(case, X).values()),
            X,
            degree=10,
            density_clip=0.01,
            scaling="minmax",
            progress=False,
            **options[route],
        )


def evaluate(d: Decomposition, X: np.ndarray) -> dict[Subset, np.ndarray]:
    """Components of `d` at the rows of X, zero where `d` has none."""
    columns = d.inputs.columns(X)
    return {
        subset: d.components[subset].evaluate(columns)
        if subset in d.components
        else np.zeros(len(X))
        for subset in MAINS + PAIRS
    }


def errors(
    true: Mapping[Subset, np.ndarray], own: Mapping[Subset, np.ndarray], rows: np.ndarray
) -> list[float]:
    """Root mean square error of each component over the standard deviation of the function."""
    scale = np.std(sum(true.values())[rows])
    return [float(np.sqrt(np.mean((own[s] - true[s])[rows] ** 2)) / scale) for s in true]


def recovered(
    case: Case, n_rows: int = 10_000, seed: int = FIGURE_SEED
) -> dict[str, Decomposition]:
    """Return decompositions of the function, known by its values on some rows, by route."""
    X = case.sample(n_rows, np.random.default_rng(seed))
    return {route: recover(case, X, route) for route in ROUTES}


def recovery_table(
    number: int, case: Case, found: Mapping[str, Decomposition], n_rows: int
) -> Table:
    """Return how far recovered components are from the true ones, on new rows.

    Where densities fall to zero the true components grow without limit towards the ends, so
    the error is also given without the rows beyond `INSIDE`.
    """
    new = case.sample(10_000, np.random.default_rng(2))
    true = truth(case, new)
    inside = np.abs(new).max(axis=1) < INSIDE
    entries = []
    for name, d in found.items():
        own = evaluate(d, new)
        correlation = d.diagnostics["fit"]["f"]["max_correlation"]
        for where, rows in (("all rows", slice(None)), (f"{inside.mean():.1%} of rows", inside)):
            cells = (*errors(true, own, rows), f"{correlation:.0e}")
            entries.append(Entry(f"{name}, {where}", (), {"ours": cells}))
    return Table(
        f"continuous_figure_{number}",
        f"Figure {number}: the function decomposed from its values, {case.name}",
        (*(label(subset) for subset in MAINS + PAIRS), "MaxCorr"),
        entries,
        ".4f",
        (
            f"From {n_rows} rows; root mean square error of the components on 10 000 new rows, in"
            " standard deviations of the function. The paper shows curves only.",
        ),
        f"continuous_figure_{number}.png",
    )


def seeds_table(cases: Mapping[int, Case], seeds: Sequence[int], n_rows: int) -> Table:
    """Return how far figures 8 and 10 depend on the rows that were drawn.

    Parameters
    ----------
    cases : mapping of int to Case
        Number of the figure to its distribution.
    seeds : sequence of int
        One sample for each.
    n_rows : int
        Rows of a sample.
    """
    entries = []
    for number, case in cases.items():
        new = case.sample(10_000, np.random.default_rng(2))
        true = truth(case, new)
        inside = np.abs(new).max(axis=1) < INSIDE
        found: dict[str, list[list[float]]] = {}
        for seed in seeds:
            for route, d in recovered(case, n_rows, seed).items():
                own = evaluate(d, new)
                for where, rows in (("all rows", slice(None)), ("without the ends", inside)):
                    label_of = f"Figure {number}, {route}, {where}"
                    found.setdefault(label_of, []).append(errors(true, own, rows))
        for label_of, by_seed in found.items():
            pair = np.array(by_seed)[:, len(MAINS)]
            others = np.delete(np.array(by_seed), len(MAINS), axis=1).max(axis=1)
            cells = (np.median(pair), pair.min(), pair.max(), np.median(others))
            entries.append(Entry(label_of, (), {"ours": [float(cell) for cell in cells]}))
    return Table(
        "continuous_figures_8_and_10_seeds",
        "Figures 8 and 10 over samples: error of the pair {1, 2}",
        ("median", "smallest", "largest", "median of the largest of the others"),
        entries,
        ".3f",
        (
            f"{len(seeds)} samples of {n_rows} rows, seeds {seeds[0]} to {seeds[-1]}; the figures"
            f" show seed {FIGURE_SEED}. Root mean square errors on the same 10 000 new rows, in"
            f" standard deviations of the function. *Without the ends*: rows within {INSIDE}.",
        ),
    )


def draw_curves(case: Case, found: Mapping[str, Decomposition], path: Path) -> None:
    """Draw the main effects and the pair at constant second feature, true and recovered."""
    import matplotlib.pyplot as plt

    x = np.linspace(-0.95, 0.95, 200)
    figure, axes = plt.subplots(1, 4, figsize=(13, 3), layout="constrained")
    for j, axis in enumerate(axes):
        at = np.full((len(x), 3), 0.5)
        at[:, min(j, 2) if j < 3 else 0] = x
        subset = (j,) if j < 3 else (0, 1)
        axis.plot(x, truth(case, at)[subset], "k", label="true")
        for name, d in found.items():
            axis.plot(x, evaluate(d, at)[subset], "--", label=name)
        axis.set_title(label(subset) + ("" if j < 3 else ", second feature 0.5"))
    axes[0].legend()
    figure.savefig(path, dpi=70)
    plt.close(figure)
