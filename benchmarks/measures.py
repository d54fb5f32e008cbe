"""Which measure brings effects from few rows nearest to those of the population?

``truth``: components against the exact decomposition of the function that made the data, a linear
Gaussian model with interactions. The model's own error is in every number, as it is in the floor,
the same model under 60 000 fresh rows; so is treehfd, where it can be run.
``population``: components of one model against those of the same model under 60 000 fresh rows, for
populations of skewed, discrete and heavy-tailed margins, dependence that is no Gaussian copula's,
and categories. ``real``: effects from a tenth of the rows of a data set against those from all.
``coarse``: measures on 4 to 32 cells of each feature, within which nothing depends; and models
projected on coarse cells, by default or with 4 to 16 of each feature in pairs, where the rest is
left in the remainder.
``cost``: processor time of a purification over that under the rows. ``sampling``: what
`with_sampling_error` estimates, compared with the error of fresh samples.

The first prints summed squared errors; the next two root summed squared differences over the
standard deviation of the response (of the model for ``real``). What is measured is kept in a file,
one entry per line of a table, seed and measure, and only what is not there is measured: the line
on which least time was spent comes first, so that cheap lines reach 20 seeds and dear ones fewer.
The tables, which `measures_tables.py` prints, say how many. Run:
``OMP_NUM_THREADS=1 python benchmarks/measures.py [truth population real coarse cost sampling]
[--seeds 20] [--minutes 60]``; more threads wait for one another in matrices as small as these.
"""

import argparse
import json
import re
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import xgboost

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import treepurify as tp
from benchmarks.measures_tables import (
    COARSE,
    PROJECTED,
    STORE,
    WEIGHTS,
    Store,
    print_tables,
)
from benchmarks.populations import (
    POPULATIONS,
    Effects,
    gaussian_rows,
    product_effects,
    product_response,
)
from examples.data import DataUnavailableError, read_table

POPULATION_ROWS, TEST_ROWS = 60_000, 20_000
TREES, RATE = 100, 0.1
LONGEST_LINE = 300  # seconds


def trained(X: pd.DataFrame | np.ndarray, y: np.ndarray, depth: int) -> xgboost.XGBRegressor:
    """A model of 100 trees."""
    model = xgboost.XGBRegressor(
        n_estimators=TREES, max_depth=depth, learning_rate=RATE, n_jobs=1, enable_categorical=True
    )
    return model.fit(X, y)


def effects_of(d: tp.Decomposition, X: pd.DataFrame | np.ndarray) -> Effects:
    """The components on rows."""
    return {s: component.on_rows(X)[:, 0] for s, component in d.components.items()}


def treehfd_effects(model: xgboost.XGBRegressor, X: np.ndarray, new: np.ndarray) -> Effects:
    """The components of treehfd on new rows."""
    from treehfd import XGBTreeHFD

    with redirect_stderr(StringIO()):  # its progress bars
        hfd = XGBTreeHFD(model)
        hfd.fit(X, interaction_order=2, verbose=False)
        mains, pairs = hfd.predict(new, verbose=False)[:2]
    effects: Effects = {(j,): mains[:, j] for j in range(X.shape[1])}
    for k, (i, j) in enumerate(hfd.interaction_list):
        effects[(int(min(i, j)), int(max(i, j)))] = pairs[:, k]
    return effects


def squared_distance(first: Effects, second: Effects) -> float:
    """Summed mean squared differences of all components."""
    return sum(
        float(np.mean((np.asarray(first.get(s, 0.0)) - second.get(s, 0.0)) ** 2))
        for s in first.keys() | second.keys()
    )


def coarse_rows(X: np.ndarray, bins: int) -> np.ndarray:
    """Copies of the rows, each value drawn anew among those of its quantile bin."""
    rng = np.random.default_rng(0)
    copies = np.tile(X, (max(4, -(-(1 << 15) // len(X))), 1))
    for j, column in enumerate(X.T):
        cuts = np.quantile(column, np.arange(1, bins) / bins)
        bin_of_row, bin_of_copy = (np.searchsorted(cuts, v) for v in (column, copies[:, j]))
        for place in range(bins):
            into = np.flatnonzero(bin_of_copy == place)
            copies[into, j] = rng.choice(column[bin_of_row == place], len(into)) if len(into) else 0
    return copies


def purified(
    model: object, X: object, weights: str, method: str | tp.options.CoarseProjection = "auto"
) -> tp.Decomposition:
    """A purification with memory for the tables of deep models."""
    if weights.startswith("coarse"):
        X, weights = coarse_rows(X, int(weights.split()[1])), "empirical"
    elif weights == "copula":
        weights = tp.weights.Smoothed(np.inf, 0.0)
    elif weights.startswith("projected"):
        cells = int(weights.split()[1]) if " " in weights else None
        weights, method = "empirical", tp.options.CoarseProjection(pair_cells=cells)
    return tp.purify(
        model, X, weights=weights, method=method, progress=False, memory_budget=4 << 30
    )


@dataclass(frozen=True)
class Line:
    """One line of a table: what it is called, what there is to measure, and how."""

    table: str
    name: str
    measures: tuple[str, ...]
    measure: Callable[[int, list[str]], dict[str, float]]
    work: float

    def missing(self, store: Store, seed: int) -> list[str]:
        """The measures that it still wants for a seed; those of no verdict have five."""
        there = store.get(self.table, {}).get(self.name, {})
        found = [name for name, values in there.items() if values[seed:][:1] not in ([], [None])]
        wanted = [name for name in self.measures if name not in found]
        return [name for name in wanted if seed < 5 or name in ("empirical", "auto", "floor")]


def truth_line(
    correlation: float, n_features: int, depth: int, n_rows: int, measures: tuple[str, ...]
) -> Line:
    """Errors of one model under several measures, and of treehfd."""
    rows = gaussian_rows(correlation, n_features)

    def measure(seed: int, wanted: list[str]) -> dict[str, float]:
        rng = np.random.default_rng(seed)
        X, new = rows(rng, n_rows), rows(rng, TEST_ROWS)
        model = trained(X, product_response(X) + 0.5 * rng.normal(size=n_rows), depth)
        exact = product_effects(new, correlation)
        distances = {}
        for name in wanted:
            if name == "treehfd":
                found = treehfd_effects(model, X, new)
            elif name == "floor":
                found = effects_of(purified(model, rows(rng, POPULATION_ROWS), "empirical"), new)
            else:
                found = effects_of(purified(model, X, name), new)
            distances[name] = squared_distance(found, exact)
        return distances

    name = f"{correlation:g} | {n_features} | {depth} | {n_rows}"
    return Line("truth", name, measures, measure, n_rows * 2.0**depth * n_features)


def truth_lines() -> Iterator[Line]:
    """Against the exact components of the response."""
    for n_features in (5, 20):
        for correlation in (0.0, 0.5, 0.9):
            for depth in (2, 3, 6):
                for n_rows in (300, 1000, 4000, 30_000):
                    case = correlation, n_features, depth, n_rows
                    yield truth_line(*case, ("empirical", "auto", "floor"))
                    if n_rows <= 4000 and depth <= 3 and n_features == 5:
                        yield truth_line(*case, ("treehfd",))


def population_line(population: str, depth: int, n_rows: int, table: str = "population") -> Line:
    """Distances from the same model under many fresh rows."""
    rows, response = POPULATIONS[population]

    def measure(seed: int, wanted: list[str]) -> dict[str, float]:
        rng = np.random.default_rng(seed)
        X, new = rows(rng, n_rows), rows(rng, TEST_ROWS)
        model = trained(X, response(X) + 0.3 * rng.normal(size=n_rows), depth)
        fresh = effects_of(purified(model, rows(rng, POPULATION_ROWS), "empirical"), new)
        scale = float(np.std(response(new)))
        return {
            weights: np.sqrt(squared_distance(effects_of(purified(model, X, weights), new), fresh))
            / scale
            for weights in wanted
        }

    name = f"{population} | {depth} | {n_rows}"
    measures = WEIGHTS if table == "population" else ("empirical", "auto", *COARSE, *PROJECTED)
    return Line(table, name, measures, measure, n_rows * 2.0**depth * 10)


def population_lines() -> Iterator[Line]:
    """Against the same model under many fresh rows."""
    for population in POPULATIONS:
        for depth in (2, 3, 6):
            for n_rows in (300, 1000, 4000, 30_000):
                yield population_line(population, depth, n_rows)


REAL_SETS: dict[str, tuple[str, list[str]]] = {
    "california_housing": ("MedHouseVal", []),
    "superconductivity_subset": ("critical_temp", []),
    "bike_sharing_hour": ("cnt", ["instant", "dteday", "casual", "registered"]),
    "electrical_grid": ("stab", ["stabf"]),
    "pima_diabetes": ("Outcome", []),
    "boston_housing": ("MEDV", []),
    "adult": ("income", ["fnlwgt"]),
    "mushroom": ("class", []),
    "nursery": ("class", []),
    "car_evaluation": ("class", []),
}
MOST_COLUMNS = 25


def real_data(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Features, the first 25 at most, and the target as numbers."""
    table = read_table(name)
    target, dropped = REAL_SETS[name]
    X = table.drop(columns=[target, *dropped]).iloc[:, :MOST_COLUMNS].copy()
    for column in X:
        if X[column].dtype.kind not in "if":
            X[column] = X[column].astype("category")
    y = table[target]
    if y.dtype.kind not in "if":
        return X, np.unique(y, return_inverse=True)[1].astype(float)
    return X, y.to_numpy(float)


def coarse_lines() -> Iterator[Line]:
    """The same for coarse cells, of the measure or of what the model is projected on."""
    for population in POPULATIONS:
        if population not in ("20 features, correlation 0.5", "categories in a chain"):
            for depth in (2, 3):
                for n_rows in (300, 1000, 4000):
                    yield population_line(population, depth, n_rows, "coarse")


def real_line(name: str, depth: int) -> Line:
    """Distances of effects from a tenth of the rows from those from all."""

    def measure(seed: int, wanted: list[str]) -> dict[str, float]:
        X, y = real_data(name)
        model = trained(X, y, depth)
        new = X.sample(min(len(X), 5000), random_state=0)
        every = effects_of(purified(model, X, "empirical"), new)
        scale = float(np.std(model.predict(X)))
        tenth = X.sample(len(X) // 10, random_state=seed)
        return {
            weights: np.sqrt(
                squared_distance(effects_of(purified(model, tenth, weights), new), every)
            )
            / scale
            for weights in wanted
        }

    return Line("real", f"{name} | {depth}", WEIGHTS, measure, 1e5 * 2.0**depth)


def real_lines() -> Iterator[Line]:
    """Effects from a tenth of the rows against those from all."""
    for name in REAL_SETS:
        try:
            read_table(name)
        except DataUnavailableError as reason:
            print(f"{name}: left out, {reason}")
            continue
        for depth in (2, 4):
            yield real_line(name, depth)


def cost_table(rounds: int) -> None:
    """Processor time, alternating: medians after one round to warm up."""
    print("\nProcessor time of weights='auto' over that of 'empirical'")
    for n_features in (5, 20):
        for n_rows in (1000, 10_000, 100_000, 200_000):
            for depth in (2, 3, 6):
                rng = np.random.default_rng(0)
                X = gaussian_rows(0.5, n_features)(rng, n_rows)
                model = trained(X, product_response(X), depth)
                seconds: dict[str, list[float]] = {"empirical": [], "auto": []}
                for _ in range(1 + rounds):
                    for weights, found in seconds.items():
                        start = time.process_time()
                        purified(model, X, weights)
                        found.append(time.process_time() - start)
                ours, rows = (float(np.median(seconds[w][1:])) for w in ("auto", "empirical"))
                print(
                    f"{n_features} features, {n_rows} rows, depth {depth}: "
                    f"{rows:.2f} s, {ours:.2f} s, ratio {ours / rows:.2f}",
                    flush=True,
                )


def sampling_table(samples: int) -> None:
    """What halves of the rows say of the error of a sample, and that of fresh samples."""
    print(
        "\nSquared error that with_sampling_error estimates over that of fresh samples of the rows"
    )
    for population, (rows, response) in POPULATIONS.items():
        for depth, sizes in ((2, (300, 1000, 4000)), (3, (300, 2000))):
            rng = np.random.default_rng(0)
            X = rows(rng, 3000)
            model = trained(X, response(X) + 0.3 * rng.normal(size=3000), depth)
            fresh = rows(rng, 5000)
            exact = purified(model, rows(rng, POPULATION_ROWS), "empirical", method="exact")
            truth, scale = effects_of(exact, fresh), float(np.var(model.predict(fresh)))
            for n_rows in sizes:
                true, estimated = 0.0, 0.0
                for _ in range(samples):
                    sample = rows(rng, n_rows)
                    d = purified(model, sample, "empirical", method="exact")
                    true += squared_distance(effects_of(d, fresh), truth) / scale
                    found = tp.with_sampling_error(
                        d, model, sample, splits=2, progress=False
                    ).certificate
                    estimated += found.sampling_error[0] ** 2
                print(
                    f"{population}, depth {depth}, {n_rows} rows: {estimated / samples:.4f} for "
                    f"{true / samples:.4f}, ratio {estimated / true:.2f}",
                    flush=True,
                )


LINES: dict[str, Callable[[], Iterator[Line]]] = {
    "truth": truth_lines,
    "population": population_lines,
    "real": real_lines,
    "coarse": coarse_lines,
}


def keep(store: Store, line: Line, seed: int, distances: dict[str, float]) -> None:
    """Keep distances in memory and in the file, at the place of their seed."""
    there = store.setdefault(line.table, {}).setdefault(line.name, {})
    for name, distance in distances.items():
        values = there.setdefault(name, [])
        values += [None] * (seed + 1 - len(values))
        values[seed] = float(f"{distance:.4g}")
    text = json.dumps(store, indent=1)
    # One line for each list.
    STORE.write_text(re.sub(r"\[[^\]]*\]", lambda found: "".join(found[0].split()), text) + "\n")


def give_up(_signal: int, _frame: object) -> None:
    """End a line that takes too long."""
    raise TimeoutError


def measure_lines(lines: list[Line], seeds: int, minutes: float) -> None:
    """Measure what is not there yet, least time spent first, until the time is over."""
    store: Store = json.loads(STORE.read_text()) if STORE.exists() else {}
    end = time.monotonic() + 60 * minutes
    spent = {line: 1e-6 * line.work for line in lines}
    signal.signal(signal.SIGALRM, give_up)
    while spent and time.monotonic() < end:
        line = min(spent, key=lambda line: spent[line])
        seed = next((s for s in range(seeds) if line.missing(store, s)), None)
        if seed is None:
            del spent[line]
            continue
        start = time.process_time()
        signal.alarm(LONGEST_LINE)
        try:
            keep(store, line, seed, line.measure(seed, line.missing(store, seed)))
        except TimeoutError:
            print(f"{line.table}, {line.name}: more than {LONGEST_LINE} seconds", flush=True)
            del spent[line]
            continue
        finally:
            signal.alarm(0)
        spent[line] += time.process_time() - start
        print(f"{line.table}, {line.name}, seed {seed}: {spent[line]:.1f} s so far", flush=True)


def main() -> None:
    """Measure and print the tables that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "tables", nargs="*", choices=[*LINES, "cost", "sampling", []], help="all by default"
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=60.0)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    tables = [name for name in LINES if name in (chosen.tables or LINES)]
    if tables:
        lines = [line for name in tables for line in LINES[name]()]
        measure_lines(lines, chosen.seeds, chosen.minutes)
    print_tables()
    if "cost" in (chosen.tables or ["cost"]):
        cost_table(5)
    if "sampling" in (chosen.tables or ["sampling"]):
        sampling_table(4)


if __name__ == "__main__":
    main()
