"""How long does a report of a model of adult take, with its audit, and how large is the file?

XGBoost, 600 trees of depth 2, 14 features; the audit compares four measures and resamples rows,
the report holds 200 rows as examples. Aims: built within 5 s after purification, under 6 MB.
There is no peer. Run: ``python benchmarks/report.py`` (needs the adult data).
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from xgboost import XGBClassifier

import treepurify as tp
from examples.data import DATA_SETS

ROUNDS = 3


def main() -> None:
    """Print seconds of the audit and of the report, and megabytes."""
    data = DATA_SETS["adult"]()
    model = XGBClassifier(n_estimators=600, max_depth=2, enable_categorical=True, n_jobs=2)
    model.fit(data.X, data.y)
    d = tp.purify(model, data.X, weights="empirical", progress=False)
    start = time.perf_counter()
    audit = tp.audit(model, data.X, progress=False)
    print(f"{len(d)} effects; audit {time.perf_counter() - start:.1f} s")
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(ROUNDS):
            start = time.perf_counter()
            path = tp.report.write_html(
                d, Path(folder) / "adult.html", audit=audit, X=data.X.head(200)
            )
            seconds.append(time.perf_counter() - start)
        megabytes = path.stat().st_size / 1e6
    print(
        f"report: first {seconds[0]:.1f} s, median of {ROUNDS} {statistics.median(seconds):.1f} s, "
        f"{megabytes:.1f} MB"
    )


if __name__ == "__main__":
    main()
