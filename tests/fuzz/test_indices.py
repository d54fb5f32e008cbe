"""Random ensembles: interaction indices, exact and sampled, against the dense functional ANOVA.

``TREEPURIFY_FUZZ_SECONDS`` bounds the time, ``TREEPURIFY_FUZZ_SEED`` is the first seed.
"""

import numpy as np
import pytest

import treepurify as tp
from tests.engines.tree.test_purify import WEIGHTINGS, scene
from tests.fuzz.trial_seeds import consecutive_seeds
from tests.interactions.test_indices import ask, assert_close, dense_variances, force

pytestmark = pytest.mark.fuzz

_SEEDS = 10


def drawn_scene(seed):
    rng = np.random.default_rng(seed)
    n_features = int(rng.integers(1, 4))
    ensemble, X = scene(
        seed,
        missing=bool(rng.random() < 0.3),
        n_rows=int(rng.integers(20, 200)),
        n_trees=int(rng.integers(1, 40)),
        n_features=n_features,
        n_categorical=int(rng.integers(0, n_features + 1)),
        n_codes=int(rng.integers(2, 5)),
        depth=int(rng.integers(1, 7)),
        n_outputs=int(rng.integers(1, 4)),
        vector_leaves=bool(rng.random() < 0.5),
    )
    # Few rows leave cells without mass, and columns constant.
    rows = X[rng.integers(len(X), size=int(rng.integers(1, 8)))] if rng.random() < 0.3 else X
    try:
        ask(ensemble, rows)
    except tp.errors.InvalidInputError:  # a categorical column whose few values are all unknown
        rows = X
    return ensemble, rows


def check(seed, monkeypatch):
    """Compare exact indices with the truth, and a sample with its own errors."""
    ensemble, X = drawn_scene(seed)
    variances = dense_variances(ensemble, X, WEIGHTINGS["independent"])
    scale = max(float(np.max(np.abs(ensemble.value), initial=0.0)) ** 2, 1.0)
    force(monkeypatch, 0)
    found = ask(ensemble, X)
    assert_close(found, variances, 1e-12 * scale * ensemble.n_trees**2)
    force(monkeypatch, 256)
    sampled = ask(ensemble, X, seed=seed)
    for name, error in (("pair_total", "pair_"), ("feature_total", "feature_")):
        deviation = np.abs(getattr(sampled, name) - getattr(found, name))
        allowed = 8 * getattr(sampled, f"{error}standard_error")
        assert np.all(deviation <= allowed + 1e-3 * found.variance.max() + 1e-10)


def test_random_ensembles(monkeypatch):
    trials = 0
    for seed in consecutive_seeds(_SEEDS):
        try:
            check(seed, monkeypatch)
        except Exception as error:
            raise AssertionError(
                f"seed {seed}: repeat with TREEPURIFY_FUZZ_SEED={seed} "
                "python -m pytest tests/fuzz/test_indices.py"
            ) from error
        trials += 1
    print(f"interaction indices: {trials} trials, 0 violations")  # noqa: T201
