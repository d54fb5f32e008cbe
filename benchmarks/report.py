"""How long do reports take to write, and how large are they?

* A model of adult with its audit: XGBoost, 600 trees of depth 2, 14 features; the audit compares
  four measures and resamples rows, the report holds 200 rows as examples. Aims: built within 5 s
  after purification, under 6 MB.
* Champion and challenger: default models of XGBoost and LightGBM of adult, set side by side.
  Aim: 4 s of processor time.
* Some 4500 effects: XGBoost, 3400 trees of depth 2 on 200 features. Aim: 3 s of processor time.

There is no peer. Run: ``python benchmarks/report.py`` (needs the adult data).
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from lightgbm import LGBMClassifier
from xgboost import XGBClassifier, XGBRegressor

import treepurify as tp
from examples.data import DATA_SETS, DataSet

ROUNDS = 3
N_WIDE = 200


def main() -> None:
    """Print seconds of the audit, and seconds and megabytes of each report."""
    data = DATA_SETS["adult"]()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        audited(data, path)
        compared(data, path)
        wide(path)


def audited(data: DataSet, path: Path) -> None:
    """Write the report of a model with its audit."""
    model = XGBClassifier(n_estimators=600, max_depth=2, enable_categorical=True, n_jobs=2)
    model.fit(data.X, data.y)
    d = tp.purify(model, data.X, weights="empirical", progress=False)
    start = time.perf_counter()
    audit = tp.audit(model, data.X, progress=False)
    print(f"{len(d)} effects; audit {time.perf_counter() - start:.1f} s")
    measure("report", lambda: tp.report.write_html(d, path, audit=audit, X=data.X.head(200)), path)


def compared(data: DataSet, path: Path) -> None:
    """Write the report of two default models."""
    models = {
        "champion": XGBClassifier(enable_categorical=True, n_jobs=2),
        "challenger": LGBMClassifier(verbose=-1, n_jobs=2),
    }
    both = {
        name: tp.purify(model.fit(data.X, data.y), data.X, progress=False)
        for name, model in models.items()
    }
    measure(
        "comparison",
        lambda: tp.report.write_comparison(both, path, X=data.X, progress=False),
        path,
    )


def wide(path: Path) -> None:
    """Write the report of a model with thousands of effects."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, N_WIDE))
    y = X @ rng.normal(size=N_WIDE)
    y += (X * X[:, rng.permutation(N_WIDE)]) @ rng.normal(size=N_WIDE)
    model = XGBRegressor(n_estimators=3400, max_depth=2, colsample_bytree=0.03, n_jobs=2)
    d = tp.purify(model.fit(X, y), X, weights="independent", progress=False)
    measure(f"{len(d)} effects", lambda: tp.report.write_html(d, path, progress=False), path)


def measure(name: str, write: Callable[[], Path], path: Path) -> None:
    """Print elapsed and processor seconds of writing a page some times, and its megabytes."""
    seconds, processor = [], []
    for _ in range(ROUNDS):
        start, used = time.perf_counter(), time.process_time()
        write()
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - used)
    print(
        f"{name}: first {seconds[0]:.1f} s, median of {ROUNDS} {statistics.median(seconds):.1f} s, "
        f"of the processor {statistics.median(processor):.1f} s, "
        f"{path.stat().st_size / 1e6:.1f} MB"
    )


if __name__ == "__main__":
    main()
