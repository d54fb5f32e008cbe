"""Parsed models of every family predict what their library predicts, beside every cut.

For long: ``TREEPURIFY_FUZZ_SECONDS=600 pytest -s tests/fuzz/test_parser_rows.py``; a failure is
repeated with ``TREEPURIFY_FUZZ_SEED`` set to the seed in its message.
"""

import sys
import warnings

import numpy as np
import pytest

from tests.fuzz.random_models import FAMILIES, TOLERANCE, rows_of
from tests.fuzz.trial_seeds import consecutive_seeds
from treepurify.models.parse import parse_model, raw_margin

pytestmark = pytest.mark.fuzz

MODULES = {"xgboost": "xgboost", "lightgbm": "lightgbm", "catboost": "catboost", "ebm": "interpret"}
N_SEEDS = {"ebm": 2, "catboost": 4}


@pytest.mark.parametrize("family", FAMILIES)
def test_parsed_models_predict_as_their_library(family):
    pytest.importorskip(MODULES.get(family, "sklearn"))
    n_models = n_rows = n_differing = 0
    failed = []
    for seed in consecutive_seeds(N_SEEDS.get(family, 8)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = FAMILIES[family](np.random.default_rng(seed))
            rows = rows_of(family, model, seed)
            expected = raw_margin(model, rows)
            parsed = parse_model(model)
            got = parsed.margin(rows)
        assert got.shape == expected.shape, f"{family}, TREEPURIFY_FUZZ_SEED={seed}"
        tolerance = TOLERANCE.get(parsed.source.kind, TOLERANCE.get(family, 0.0))
        allowed = tolerance * max(1.0, float(np.max(np.abs(expected))))
        differing = int(np.sum(np.any(~(np.abs(got - expected) <= allowed), axis=1)))
        n_models, n_rows, n_differing = n_models + 1, n_rows + len(got), n_differing + differing
        if differing:
            failed.append(seed)
    sys.stdout.write(
        f"parser rows, {family}: {n_models} models, {n_rows} rows, {n_differing} mismatches\n"
    )
    assert not failed, (
        f"{family}: {n_differing} rows differ from the library, of the seeds {failed[:10]}. Repeat "
        f"with TREEPURIFY_FUZZ_SEED={failed[0]}"
    )
