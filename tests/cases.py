"""Inputs shared by the tests: rows that sit where parsers go wrong, and data sets."""

import os
from pathlib import Path

import numpy as np
import pytest

from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import parse_model


def rows_beside_cuts(
    ensemble: TreeEnsemble,
    n_rows: int,
    *,
    seed: int = 0,
    missing: float = 0.1,
    infinite: bool = True,
    unknown_codes: bool = True,
) -> np.ndarray:
    """Rows whose values lie on, just below and just above the cuts of `ensemble`.

    Neighbours are taken in double and in single precision. Categorical columns hold codes,
    with unknown and fractional ones among them where `unknown_codes`.
    """
    rng = np.random.default_rng(seed)
    rows = np.empty((n_rows, ensemble.n_features))
    for j, spec in enumerate(ensemble.features):
        at = (ensemble.feature == j) & (ensemble.category_ptr < 0)
        if spec.is_categorical:
            pool = np.arange(spec.n_codes, dtype=float)
            if unknown_codes:
                pool = np.concatenate([pool, pool + 0.5, [-0.5, -1.0, -7.0, spec.n_codes + 3.0]])
        else:
            cuts = np.unique(ensemble.cut[at])
            # CatBoost parts missing values at the largest single-precision number.
            with np.errstate(over="ignore"):
                single = cuts.astype(np.float32)
            pool = np.concatenate(
                [
                    cuts,
                    np.nextafter(cuts, -np.inf),
                    np.nextafter(cuts, np.inf),
                    single.astype(float),
                    np.nextafter(single, np.float32(-np.inf)).astype(float),
                    np.nextafter(single, np.float32(np.inf)).astype(float),
                    [0.0, -0.0, 1e-36, -1e-36, 1e-30],
                    rng.normal(size=8),
                    [np.inf, -np.inf] if infinite else [],
                ]
            )
        rows[:, j] = rng.choice(pool, size=n_rows)
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows


def needs_stored_labels(model: object) -> None:
    """Skip the test where a model does not know the labels of its categories.

    XGBoost stores them from 3.1 on.
    """
    if any(spec.is_categorical and spec.categories is None for spec in parse_model(model).features):
        pytest.skip("this version of XGBoost does not store the labels of categories")


def data_path(name: str) -> Path:
    """Path of a shared data set; skips the test where the file is not there."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    path = Path(os.environ.get("TREEPURIFY_DATA", default)) / f"{name}.parquet"
    if not path.exists():
        pytest.skip(f"{name}.parquet is not in TREEPURIFY_DATA nor in {default}")
    return path
