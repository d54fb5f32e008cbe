"""Every public call works within a small memory budget, or says that it does not fit.

The calls run in a child process that may not take more memory than it has, the budget and a
little room: what is allocated without being counted is refused by the system there.
"""

import json
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.linalg.blas import dgemm

import treepurify as tp
from tests.reference.ensembles import complete_ensemble
from treepurify.export import to_sql
from treepurify.grouping.sets import Sampling
from treepurify.rows.columns import FeatureSpec
from treepurify.threads import available_threads

MIB = 1 << 20
BUDGET = 24 * MIB
# Copies of rows, the interpreter's own memory, and what is compiled while a call runs.
ROOM = 160 * MIB
HUGE = 10**9
# An audit works on some distributions at a time, and on some trees of each.
_THREADS_OF_BLAS = available_threads() ** 2 + 2


def _rows(n_rows: int, n_features: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n_rows, n_features))


def _product(X) -> np.ndarray:
    X = np.asarray(X, dtype=np.float64)
    return X[:, 0] * X[:, 1] + X[:, -1]


def _forest(n_features: int, n_trees: int, depth: int = 3):
    rng = np.random.default_rng(1)
    return complete_ensemble(rng, n_features=n_features, depth=depth, n_trees=n_trees)


def missing(n_rows: int, n_features: int) -> np.ndarray:
    """Continuous columns in which every tenth value is missing."""
    rows = _rows(n_rows, n_features)
    rows[np.random.default_rng(3).random(rows.shape) < 0.1] = np.nan
    return rows


def _filled(X) -> np.ndarray:
    return _product(np.nan_to_num(np.asarray(X, dtype=np.float64)))


def towns(n_rows: int, n_towns: int) -> pd.DataFrame:
    """A column of very many categories, one of few, and a number with missing values."""
    rng = np.random.default_rng(4)
    table = pd.DataFrame({"town": rng.integers(0, n_towns, n_rows).astype(str)})
    table["kind"] = pd.Categorical(rng.integers(0, 4, n_rows).astype(str))
    table["size"] = missing(n_rows, 1)[:, 0]
    return table


def _of_towns(X) -> np.ndarray:
    length = X["town"].astype(str).str.len().to_numpy()
    return length * np.nan_to_num(X["size"].to_numpy()) + (X["kind"].astype(str) == "1")


def _sparse_forest(n_features: int, n_used: int):
    """A forest that tests few of very many features."""
    forest = _forest(n_used, 40, 3)
    features = tuple(FeatureSpec(f"x{j}") for j in range(n_features))
    return replace(forest, features=features)


def further_calls(large: bool) -> dict[str, Callable[[], object]]:
    """Return the calls on missing values, on many categories and on features without use."""
    holes = missing(3000 if large else 30, 5)
    many = towns(4000 if large else 30, 3000 if large else 3)
    wide = missing(300 if large else 20, 2000 if large else 8)
    forest, thin = (
        _forest(5, 200 if large else 3, 5 if large else 2),
        _sparse_forest(2000 if large else 8, 6),
    )
    own = {"memory_budget": BUDGET, "progress": False}
    found: dict[str, Callable[[], object]] = {}
    for name, model, X in [
        ("missing", forest, holes),
        ("missing, function", _filled, holes[:400]),
        ("towns", _of_towns, many),
        ("wide", thin, wide),
    ]:
        parsed = {"categorical": tp.categorical_anova, "hooker": tp.hooker_anova}
        parsed |= {"ale": tp.ale_anova, "partial dependence": tp.partial_dependence_anova}
        parsed |= {"h statistics": tp.h_statistics}
        if model in (forest, thin):
            parsed |= {"purify": tp.purify, "indices": tp.interaction_indices, "audit": tp.audit}
        for call, verb in parsed.items():
            found[f"{call} of {name}"] = partial(verb, model, X, **own)
        found[f"legendre of {name}"] = partial(
            tp.legendre_anova, model, X, order=1, degree=2, **own
        )
        shapley = partial(tp.interventional_shapley_values, model, X[:50], X[:300], **own)
        found[f"interventional of {name}"] = shapley
    for selection, rank in (("greedy", None), ("least-norm", None), ("lars", 8)):
        found[f"categorical of missing, {selection}"] = partial(
            tp.categorical_anova, forest, holes, selection=selection, rank=rank, **own
        )
        found[f"categorical of towns, {selection}"] = partial(
            tp.categorical_anova, _of_towns, many, selection=selection, rank=rank, order=2, **own
        )
    weights = np.random.default_rng(5).random(len(holes))
    found["categorical of missing, weighted"] = partial(
        tp.categorical_anova, forest, holes, sample_weight=weights, **own
    )
    return found


def calls(large: bool) -> dict[str, Callable[[], object]]:
    """Return every call, on a question that is too large for the budget, or on a small one."""
    n_rows = 20_000 if large else 30
    X = _rows(n_rows, 6)
    few = _rows(200, 6)
    huge = HUGE if large else 4
    wide = _rows(60, 400 if large else 5)
    forest = _forest(6, 400 if large else 3, 6 if large else 2)
    labels = np.random.default_rng(2).integers(0, 60 if large else 3, size=(n_rows, 4))
    own = {"memory_budget": BUDGET, "progress": False}
    pair = tp.purify_tensors({(0, 1): _rows(400, 400) if large else _rows(3, 3)}, progress=False)
    many = np.zeros((3_000_000 if large else 30, 2))
    small = tp.purify(_forest(6, 3, 2), few, weights="empirical", progress=False)
    budget = {"memory_budget": BUDGET}
    return {
        "purify": lambda: tp.purify(
            forest, X, order=None, method="exact", **{"weights": "empirical", **own}
        ),
        "purify, projected": lambda: tp.purify(
            forest, X, method="projection", **{"weights": "empirical", **own}
        ),
        "purify, independent": lambda: tp.purify(
            forest, X, weights="independent", order=None, **own
        ),
        "purify_tensors": lambda: tp.purify_tensors(
            {tuple(range(k)): np.zeros((4,) * k) for k in [9 if large else 2]}, **own
        ),
        "partial dependence": lambda: tp.partial_dependence_anova(forest, X, order=None, **own),
        "partial dependence, called": lambda: tp.partial_dependence_anova(
            _product, wide, background_size=50, **own
        ),
        "categorical": lambda: tp.categorical_anova(_product, few, **own),
        "categorical, labels": lambda: tp.categorical_anova(_product, labels, **own),
        "categorical, trees": lambda: tp.categorical_anova(forest, few, **own),
        "categorical, bins": lambda: tp.categorical_anova(_product, X, bins=huge, **own),
        "ale": lambda: tp.ale_anova(_product, few, bins=huge, **own),
        "ale, categories": lambda: tp.ale_anova(forest, few, bins=100 if large else 3, **own),
        "hooker": lambda: tp.hooker_anova(_product, few, n_points=huge, weights="uniform", **own),
        "hooker, bins": lambda: tp.hooker_anova(_product, X, bins=huge, **own),
        "legendre, degree": lambda: tp.legendre_anova(
            _product, few, degree=huge if large else 2, progress=False
        ),
        "legendre, density": lambda: tp.legendre_anova(
            _product, few, degree=2, density="legendre", density_degree=huge, progress=False
        ),
        "interaction indices": lambda: tp.interaction_indices(
            _forest(1500 if large else 3, 200 if large else 2), weights="uniform", **own
        ),
        "h statistics": lambda: tp.h_statistics(forest, X, order=3, **own),
        "interventional": lambda: tp.interventional_shapley_values(forest, X, few, **own),
        "shapley sets": lambda: tp.shapley_sets(_product, few, sampling=Sampling(huge), **own),
        "shapley sets, conditional": lambda: tp.shapley_sets(
            _product, few, value="conditional", sampling=Sampling(draws=huge), **own
        ),
        "purify, batches": lambda: tp.purify(
            forest, iter([X]), order=None, method="exact", **{"weights": "empirical", **own}
        ),
        "audit": lambda: tp.audit(
            forest, X, order=None, n_bootstrap=1, measures=["uniform"], **own
        ),
        "contributions": lambda: pair.contributions(many, **budget),
        "shapley_values": lambda: pair.shapley_values(many, **budget),
        "shapley_interactions": lambda: pair.shapley_interactions(many, **budget),
        "shapley_residuals": lambda: pair.shapley_residuals(many, **budget),
        "evaluate": lambda: pair.predict(many[: len(many) // 8]),
        "compare": lambda: tp.compare(small, small),
        "as_trained": small.as_trained,
        "importance": lambda: (small.importance(), small.orthogonality(), small.to_frame()),
        "verify": lambda: small.verify(_forest(6, 3, 2), few),
        "export": partial(_exported, small),
        "save": partial(_saved, small),
    }


def _exported(d) -> None:
    to_sql(d)


def _saved(d) -> None:
    with tempfile.TemporaryDirectory() as folder:
        d.save(Path(folder) / "d.tpz")
        tp.load(Path(folder) / "d.tpz")


def _outcome(call: Callable[[], object]) -> str:
    try:
        call()
    except tp.errors.MemoryBudgetError:
        return "refused"
    except tp.errors.InvalidInputError as error:
        if "cannot determine" in str(error):  # said before the work, too
            return "refused"
        return f"{type(error).__name__}: {error}"
    except MemoryError:
        return "took more than the budget"
    except Exception as error:  # noqa: BLE001  # whatever it is, the parent names it
        return f"{type(error).__name__}: {error}"
    return "worked"


def _map_work_memory_of_blas() -> None:
    """Let BLAS map some 32 MiB for each thread that calls it while others do.

    It keeps them for later calls. Where a limit refuses them, it ends the process or tries forever.
    """
    square, together = np.eye(1024), threading.Barrier(_THREADS_OF_BLAS)

    def multiply(product: Callable[[], object]) -> None:
        together.wait()
        product()

    # NumPy and SciPy have a BLAS each.
    for product in (partial(np.matmul, square, square), partial(dgemm, 1.0, square, square)):
        with ThreadPoolExecutor(_THREADS_OF_BLAS) as pool:
            list(pool.map(multiply, [product] * _THREADS_OF_BLAS))


def _child() -> None:
    import warnings

    warnings.simplefilter("ignore")
    _map_work_memory_of_blas()
    make = {"calls": calls, "further calls": further_calls}[sys.argv[1]]
    small = make(large=False)
    warm = {name: _outcome(call) for name, call in small.items()}
    found = {}
    for name, call in make(large=True).items():
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit = pages * resource.getpagesize() + BUDGET + ROOM
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        found[name] = _outcome(call)
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    sys.stdout.write(json.dumps({"warm": warm, "large": found}))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory and sizes as on Linux")
@pytest.mark.parametrize("which", ["calls", "further calls"])
def test_every_call_keeps_to_a_small_budget(which):
    done = subprocess.run(
        [sys.executable, "-m", "tests.engines.test_public_memory", which],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert {n: o for n, o in found["warm"].items() if o not in ("worked", "refused")} == {}
    assert {n: o for n, o in found["large"].items() if o not in ("worked", "refused")} == {}
    # The budget refuses what it is for, and does not refuse everything.
    assert set(found["large"].values()) == {"worked", "refused"}


if __name__ == "__main__":
    _child()
