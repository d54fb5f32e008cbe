"""Models of every library on real data, a sample of the rows and few rounds of each.

`benchmarks/real_models.py` does the same on all rows. Means are taken here over the rows
themselves, with no table of masses in between.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import treepurify as tp
from benchmarks.real_models import LIBRARIES
from examples.data import DATA_SETS, DataSet
from tests.cases import data_path
from treepurify.components import locate_cells
from treepurify.models.parse import raw_margin

pytestmark = pytest.mark.libraries

MODULES = {
    "XGBoost": "xgboost",
    "LightGBM": "lightgbm",
    "HistGradientBoosting": "sklearn",
    "CatBoost": "catboost",
    "EBM": "interpret",
}
N_ROWS = 1500
ROUNDS = 30
EXACT = 1e-12
# XGBoost adds leaves in single precision; the terms are exact in double precision.
SINGLE_PRECISION = 1e-6


def sample(name: str) -> DataSet:
    data_path(name)
    data = DATA_SETS[name]()
    rows = np.sort(np.random.default_rng(0).choice(len(data.y), N_ROWS, replace=False))
    return replace(data, X=data.X.iloc[rows].reset_index(drop=True), y=data.y[rows])


@pytest.fixture(
    scope="module",
    params=[(n, lib) for n in DATA_SETS for lib in LIBRARIES],
    ids="-".join,
)
def purified(request: pytest.FixtureRequest) -> tuple[Any, pd.DataFrame, tp.Decomposition, str]:
    name, library = request.param
    pytest.importorskip(MODULES[library])
    model, X = LIBRARIES[library](sample(name), ROUNDS)
    return model, X, tp.purify(model, X, weights="empirical", progress=False), library


def test_sum_of_terms_is_the_raw_prediction(purified):
    model, X, d, library = purified
    margin = raw_margin(model, X)
    scale = np.max(np.abs(margin))
    assert scale > 0
    tolerance = SINGLE_PRECISION if library == "XGBoost" else EXACT
    assert np.max(np.abs(d.contributions(X).sum(axis=1) - margin[:, 0])) <= tolerance * scale
    assert d.verify(model, X).relative_difference <= tolerance


def test_parsed_margin_is_the_raw_prediction_to_the_last_bit(purified):
    model, X, _, library = purified
    margin = raw_margin(model, X)
    # CatBoost adds leaves in blocks, in an order of its own.
    tolerance = 1e-14 * np.max(np.abs(margin)) if library == "CatBoost" else 0.0
    assert np.max(np.abs(tp.parse_model(model).margin(X) - margin)) <= tolerance


def test_certificate_is_exact(purified):
    certificate = purified[2].certificate
    assert "stopped" not in certificate.note
    assert certificate.additivity <= EXACT
    assert certificate.conditional_mean <= EXACT
    # The pairs of an EBM are pure on their own bins, which are coarser than those of main effects.
    assert certificate.cosine <= (0.1 if "finer bins" in certificate.note else EXACT)


def test_every_effect_has_mean_zero_given_fewer_features(purified):
    _, X, d, _ = purified
    columns = d.inputs.columns(X)
    pairs = [subset for subset in d if len(subset) == 2]
    assert pairs
    for subset, component in d.components.items():
        values = pd.Series(component.on_rows(X)[:, 0])
        given = [np.zeros(N_ROWS)]
        if len(subset) == 2:
            given = [
                locate_cells(columns, j, axis)
                for j, axis in zip(subset, component.axes, strict=True)
            ]
        for cells in given:
            largest = values.groupby(cells).mean().abs().max()
            assert largest <= EXACT * d.certificate.scale, d.term_name(subset)


def test_shares_of_the_variance_sum_to_one(purified):
    _, X, d, _ = purified
    table = d.importance()
    assert table["share"].sum() == pytest.approx(1.0, abs=1e-9)
    contributions = d.contributions(X)
    largest = table["effect"].iloc[0]
    assert table["size"].iloc[0] == pytest.approx(contributions[largest].std(ddof=0))
