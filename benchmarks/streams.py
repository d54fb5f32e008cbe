"""What does purifying under rows in batches cost, in time and memory, compared with prediction?

Memory: every measurement runs in a process of its own and prints processor seconds of one core and
the peak of its resident memory, that of the libraries included. Shallow: XGBoost with 500 trees of
depth two, 50 columns of Parquet, a million rows a file. Generated: ten columns that a callable
makes, so that no disk is needed. Deep: LightGBM with 500
trees of 63 leaves, 30 generated columns, and the same in memory on the first rows, for the share
explained. Dask: two processes of one thread; every worker's peak.
Time: pace lets us and XGBoost, which predicts the same batches of Parquet on one thread, take turns
in one process.
Run: ``OMP_NUM_THREADS=1 python benchmarks/streams.py [--rows 1e6 1e7] [--only shallow deep ...]``.
It writes 400 bytes a row to a temporary folder, or to --folder, which is kept.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import treepurify as tp
from benchmarks.timing import peak_memory

ROWS_A_FILE = 1_000_000
N_COLUMNS = {
    "shallow": 50,
    "pace": 50,
    "dask": 50,
    "generated": 10,
    "deep": 30,
    "deep-in-memory": 30,
}
IN_FILES = ("shallow", "pace", "dask")
IN_MEMORY_ROWS = 200_000
ROUNDS = 3
TRAINING_ROWS = 100_000
BATCH = 1 << 16


def rows_of(part: int, n_rows: int, n_columns: int) -> pd.DataFrame:
    """Return rows of dependent features."""
    values = np.random.default_rng(part).normal(size=(n_rows, n_columns))
    values[:, 1:] += 0.5 * values[:, :-1]
    return pd.DataFrame(values, columns=[f"x{j}" for j in range(n_columns)])


def target_of(X: pd.DataFrame) -> pd.Series:
    """Return a target with main effects and interactions of neighbours."""
    names = list(X)
    pairs = zip(names[::2], names[1::2], strict=False)
    return X.sum(axis=1) + sum(X[first] * X[second] for first, second in pairs)


def write_files(folder: Path, n_rows: int, n_columns: int) -> None:
    """Write a million rows a file, where they are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in range(max(n_rows // ROWS_A_FILE, 1)):
        path = folder / f"part-{part:04d}.parquet"
        if not path.exists():
            rows_of(part, min(n_rows, ROWS_A_FILE), n_columns).to_parquet(path, compression=None)


def train(kind: str, folder: Path) -> Path:
    """Train the model of a measurement once."""
    import lightgbm
    import xgboost

    is_deep = kind.startswith("deep")
    path = folder / ("deep.model.txt" if is_deep else f"{N_COLUMNS[kind]}.model.json")
    if path.exists():
        return path
    X = rows_of(10_000, TRAINING_ROWS, N_COLUMNS[kind])
    y = target_of(X)
    if is_deep:
        model = lightgbm.LGBMRegressor(n_estimators=500, num_leaves=63, verbose=-1, n_jobs=1)
        model.fit(X, y).booster_.save_model(path)
    else:
        shape = {"n_estimators": 500, "max_depth": 2, "n_jobs": 1}
        xgboost.XGBRegressor(**shape).fit(X, y).save_model(path)
    return path


def batches(n_rows: int, n_columns: int) -> Iterator[pd.DataFrame]:
    """Yield generated batches: one table again and again, moved a little each time."""
    table = rows_of(0, BATCH, n_columns)
    for number, start in enumerate(range(0, n_rows, BATCH)):
        yield table[: n_rows - start] + 1e-6 * number


def purify(model: Path, source: object, **options: object) -> str:
    """Purify, and say what came of it."""
    d = tp.purify(model, source, progress=False, **options)
    text = f"{d.diagnostics['rows']} rows, {len(d)} components, {d.diagnostics['method']}"
    fit = d.diagnostics.get("projection")
    if fit is not None:
        sampled = d.diagnostics["stream"]["sampled_rows"]
        shares = f"{fit['r_squared'][0]:.4f} on all rows, {fit['r_squared_of_sample'][0]:.4f}"
        text += f", R squared {shares} on a sample of {sampled}"
    return text


def purify_on_dask(model: Path, folder: Path) -> str:
    """Purify on a cluster of two processes, and give the peak memory of each."""
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True}
    with LocalCluster(**options, dashboard_address=None) as cluster, Client(cluster) as client:
        text = purify(model, dd.read_parquet(folder), weights="empirical")
        peaks = client.run(peak_memory).values()
    return f"{text}; peaks of the workers {', '.join(f'{peak:.2f} GB' for peak in peaks)}"


def predict(model: Path, folder: Path) -> float:
    """Predict the same batches with XGBoost, and return the seconds without reading them."""
    import xgboost

    from treepurify.rows.sources import as_source

    booster = xgboost.Booster(model_file=model, params={"nthread": 1})
    seconds = 0.0
    for batch in as_source(folder).batches(None):
        X = batch.table.to_pandas().to_numpy()
        start = time.process_time()
        booster.inplace_predict(X)
        seconds += time.process_time() - start
    return seconds


def keep_pace(model: Path, folder: Path) -> str:
    """Let purifying and predicting take turns, and return the medians of their seconds."""
    seconds: dict[str, list[float]] = {"purify": [], "predict and read": [], "predict": []}
    for _ in range(ROUNDS):
        start = time.process_time()
        tp.purify(model, folder, weights="empirical", progress=False)
        middle = time.process_time()
        alone = predict(model, folder)
        end = time.process_time()
        seconds["purify"].append(middle - start)
        seconds["predict and read"].append(end - middle)
        seconds["predict"].append(alone)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    words = ", ".join(f"{name} {value:.2f} s" for name, value in medians.items())
    ratio = medians["purify"] / medians["predict and read"]
    return f"medians of {ROUNDS}, in turns: {words}; purify / predict and read {ratio:.2f}"


def purify_in_memory(model: Path, n_rows: int) -> str:
    """Purify under the first of the generated rows, held in memory."""
    rows = pd.concat(batches(min(n_rows, IN_MEMORY_ROWS), 30), ignore_index=True)
    d = tp.purify(model, rows, weights="empirical", method="projection", progress=False)
    return f"{len(rows)} rows, R squared {d.diagnostics['projection']['r_squared'][0]:.4f}"


def measure(kind: str, n_rows: int, folder: Path) -> None:
    """Print one measurement; called in a process of its own."""
    model = train(kind, folder)
    data = folder / f"{N_COLUMNS[kind]}-{n_rows}"
    # Kernels are loaded and compiled on a few rows.
    method = "projection" if kind.startswith("deep") else "auto"
    tp.purify(
        model,
        [rows_of(0, 1000, N_COLUMNS[kind])],
        weights="empirical",
        method=method,
        progress=False,
    )
    before, start, wall = peak_memory(), time.process_time(), time.perf_counter()
    generated = partial(batches, n_rows, N_COLUMNS[kind])
    if kind == "generated":
        text = purify(model, generated, weights="empirical")
    elif kind == "deep":
        text = purify(model, generated, weights="empirical", method="projection")
    elif kind == "deep-in-memory":
        text = purify_in_memory(model, n_rows)
    elif kind == "pace":
        text = keep_pace(model, data)
    elif kind == "dask":
        text = purify_on_dask(model, data)
    else:
        text = purify(model, data, weights="empirical")
    seconds, wall = time.process_time() - start, time.perf_counter() - wall
    print(
        f"{kind:<14} {seconds:8.1f} s of one core ({wall:.1f} s by the clock), peak "
        f"{peak_memory():.2f} GB ({before:.2f} before): {text}",
        flush=True,
    )


def main() -> None:
    """Write the rows, then run every measurement in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6, 1e7])
    parser.add_argument("--only", nargs="+", choices=N_COLUMNS, default=list(N_COLUMNS))
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--one", action="store_true", help="one measurement in this process")
    given = parser.parse_args()
    if given.one:
        measure(given.only[0], int(given.rows[0]), given.folder)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        for kind in given.only:
            for n_rows in map(int, given.rows):
                if kind in IN_FILES:
                    write_files(folder / f"{N_COLUMNS[kind]}-{n_rows}", n_rows, N_COLUMNS[kind])
                folder.mkdir(parents=True, exist_ok=True)
                train(kind, folder)
                words = ["--one", "--only", kind, "--rows", str(n_rows), "--folder", str(folder)]
                subprocess.run([sys.executable, __file__, *words], check=True)


if __name__ == "__main__":
    main()
