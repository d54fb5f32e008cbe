"""How long does it take to compose a pipeline with its trees, and to read those trees alone?

A ColumnTransformer fills, scales and one-hot encodes 100 columns, 20 of them texts, before 1000
trees of XGBoost. CPU time of one thread, kernels compiled. Aim: at most 1 s for composing.
Run: ``python benchmarks/compose_pipelines.py``.
"""

import statistics
import time

import numpy as np
import pandas as pd
import xgboost
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PowerTransformer, StandardScaler

import treepurify as tp

N_ROWS, N_NUMBERS, N_TEXTS, N_TREES = 4000, 80, 20, 1000


def make_pipelines() -> dict[str, tuple[object, pd.DataFrame]]:
    """Return fitted pipelines and their rows, by what is before the trees."""
    rng = np.random.default_rng(0)
    numbers = pd.DataFrame(rng.lognormal(size=(N_ROWS, N_NUMBERS))).add_prefix("n")
    labels = np.array([f"label {k}" for k in range(12)])
    texts = pd.DataFrame(rng.choice(labels, (N_ROWS, N_TEXTS))).add_prefix("t")
    X = pd.concat([numbers, texts], axis=1)
    y = np.log(numbers).sum(axis=1) + (texts == labels[0]).sum(axis=1) + rng.normal(size=N_ROWS)
    made = {}
    for name, scaler, threshold in (
        ("scaled, dense", StandardScaler(), 0.0),
        ("scaled, sparse", StandardScaler(), 1.0),
        ("power, dense", PowerTransformer(), 0.0),
    ):
        step = ColumnTransformer(
            [
                ("numbers", make_pipeline(SimpleImputer(), scaler), list(numbers)),
                ("texts", OneHotEncoder(handle_unknown="ignore"), list(texts)),
            ],
            sparse_threshold=threshold,
        )
        trees = xgboost.XGBRegressor(n_estimators=N_TREES, max_depth=6, n_jobs=1)
        made[name] = make_pipeline(step, trees).fit(X, y), X
    return made


def main() -> None:
    """Print the CPU time of reading the trees, and of reading and composing the pipeline."""
    print(f"{N_NUMBERS} numbers and {N_TEXTS} texts, {N_TREES} trees of depth 6; medians of 5")
    for name, (pipeline, X) in make_pipelines().items():
        seconds: dict[str, list[float]] = {"trees": [], "pipeline": []}
        for turn in range(6):
            for what, model in (("trees", pipeline[-1]), ("pipeline", pipeline)):
                start = time.process_time()
                parsed = tp.parse_model(model)
                if turn:
                    seconds[what].append(time.process_time() - start)
        alone, both = (statistics.median(seconds[what]) for what in ("trees", "pipeline"))
        same = np.array_equal(parsed.margin(X)[:, 0], pipeline.predict(X))
        print(
            f"  {name:<16} trees {alone:5.2f} s, pipeline {both:5.2f} s, composing "
            f"{both - alone:5.2f} s; {parsed.n_leaves} leaves; predictions are equal: {same}"
        )


if __name__ == "__main__":
    main()
