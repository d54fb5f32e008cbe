"""Compile what default calls need before anyone waits for it: for images and installers."""

import os
import subprocess
import sys
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.auditing.audit import audit
from treepurify.comparing.compare import compare
from treepurify.engines.ale.anova import ale_anova
from treepurify.engines.categorical import categorical_anova
from treepurify.engines.hooker.anova import hooker_anova
from treepurify.engines.legendre import legendre_anova
from treepurify.engines.partial_dependence.anova import partial_dependence_anova
from treepurify.engines.tree.purify import purify
from treepurify.engines.tree.raw_tensors import purify_tensors
from treepurify.errors import TreepurifyError
from treepurify.evidence.editing import without_features
from treepurify.evidence.missed import missed_effects
from treepurify.evidence.sampling import with_sampling_error
from treepurify.evidence.simplification import simplify
from treepurify.evidence.smoothing import smooth_effect
from treepurify.evidence.worth import effect_worth
from treepurify.grouping.partition import shapley_sets
from treepurify.interactions.h_statistics import h_statistics
from treepurify.interactions.indices import interaction_indices
from treepurify.profiles.feature_profile import feature_profile
from treepurify.progress import progress_report
from treepurify.shapley.interventional import interventional_shapley_values
from treepurify.threads import available_threads
from treepurify.validation.drift import drift
from treepurify.validation.group_gap import group_gap
from treepurify.validation.monotonicity import check_monotonicity
from treepurify.validation.reason_codes import reason_codes
from treepurify.validation.weak_spots import weak_spots

if TYPE_CHECKING:
    import pandas as pd

# Fewer rows are counted and located without a kernel.
_MANY_ROWS = 30_000
_SECONDS_TO_LOOK = 0.2


def warmup(*, progress: bool = True) -> None:
    """Compile the code of the default calls of all public functions in advance, and store it.

    Compiled code is stored where it also would be after those calls (the folder of the package,
    the user's cache, or ``NUMBA_CACHE_DIR``); with it there, nothing is compiled again until
    treepurify's kernels, Numba or Python change. One process per core works on it.

    Parameters
    ----------
    progress : bool, default True
        Whether to report progress on standard error.

    Raises
    ------
    TreepurifyError
        If one of the calls fails, with what it printed.

    See Also
    --------
    purify : Main effects and interactions of a tree model.

    Examples
    --------
    >>> import treepurify as tp
    >>> tp.warmup(progress=False)  # doctest: +SKIP
    """
    report = progress_report(progress)
    waiting = deque(_JOBS)
    running: list[tuple[str, subprocess.Popen[str]]] = []
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    try:
        while waiting or running:
            while waiting and len(running) < available_threads():
                job = waiting.popleft()
                code = f"from treepurify.precompiling import run_job; run_job({job!r})"
                command = [sys.executable, "-c", code]
                process = subprocess.Popen(
                    command, env=environment, stderr=subprocess.PIPE, text=True
                )
                running.append((job, process))
            report("compiling", len(_JOBS) - len(waiting) - len(running), len(_JOBS))
            running = [one for one in running if not _is_done(*one)]
    finally:
        for _, process in running:
            process.kill()
            process.wait()


def _is_done(job: str, process: "subprocess.Popen[str]") -> bool:
    """Wait a little for a process, and return whether it has ended.

    Raises
    ------
    TreepurifyError
        If it failed.
    """
    try:
        _, errors = process.communicate(timeout=_SECONDS_TO_LOOK)
    except subprocess.TimeoutExpired:
        return False
    if process.returncode:
        raise TreepurifyError(f"compilation failed while warming up {job}:\n{errors}")
    return True


def run_job(name: str) -> None:
    """Make default calls of some public functions on a small model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the answers, which nobody reads
        _JOBS[name]()


def _rows(n_rows: int) -> "pd.DataFrame":
    """Return rows with missing values in the first column and a category in the last."""
    import pandas as pd

    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(n_rows, 6)), columns=list("uvwxyz"))
    rows.loc[::20, "u"] = np.nan
    rows["z"] = pd.Categorical(rng.integers(0, 8, n_rows).astype(str))
    return rows


def _target(rows: "pd.DataFrame") -> "pd.Series":
    return rows["v"] * rows["w"] + rows["x"] * (rows["z"] == "1") + rows["y"]


def _boosted(n_rows: int) -> tuple[Any, "pd.DataFrame"]:
    """Return a default boosted model of scikit-learn, and rows."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    rows = _rows(n_rows)
    return HistGradientBoostingRegressor(max_iter=20).fit(rows, _target(rows)), rows


def _numeric() -> tuple[Any, "pd.DataFrame"]:
    """Return a small forest, and rows of numbers without missing values."""
    from sklearn.ensemble import RandomForestRegressor

    rows = _rows(2000)[list("vwxy")]
    target = rows["v"] * rows["w"] + rows["x"]
    return RandomForestRegressor(10, random_state=0).fit(rows, target), rows


def _purify_boosted() -> None:
    for n_rows in (_MANY_ROWS, 500):
        model, rows = _boosted(n_rows)
        d = purify(model, rows, progress=False)
        d.predict(rows)
        purify(model, rows.head(500), weights="auto", progress=False)


def _purify_xgboost() -> None:
    if find_spec("xgboost") is None:
        return
    import xgboost

    rows = _rows(_MANY_ROWS)
    for depth in (2, 6):
        model = xgboost.XGBRegressor(n_estimators=20, max_depth=depth, enable_categorical=True)
        purify(model.fit(rows, _target(rows)), rows, progress=False)
        without = rows.drop(columns="z")
        purify(model.fit(without, _target(rows)), without, progress=False)
    few = without.head(400)
    purify(model.fit(few, _target(rows).head(400)), few, progress=False)


def _purify_forest() -> None:
    model, rows = _numeric()
    purify(model, rows, progress=False)
    few = rows.head(400)
    purify(model.fit(few, few["v"] * few["w"]), few, progress=False)


def _audit() -> None:
    model, rows = _boosted(500)
    audit(model, rows, n_bootstrap=2, progress=False)
    model, rows = _boosted(2000)
    audit(model, rows, n_bootstrap=2, progress=False)


def _partial_dependence() -> None:
    model, rows = _boosted(_MANY_ROWS)
    partial_dependence_anova(model, rows, progress=False)
    partial_dependence_anova(model, rows, background="cover", progress=False)


def _accumulated_local_effects() -> None:
    ale_anova(*_boosted(_MANY_ROWS), progress=False)


def _hooker() -> None:
    hooker_anova(*_boosted(2000), progress=False)


def _legendre() -> None:
    model, rows = _numeric()
    legendre_anova(model, rows, progress=False)


def _categorical() -> None:
    model, rows = _numeric()
    categorical_anova(model, rows.head(200), progress=False)
    labels = _rows(2000)[["z"]].assign(y=np.arange(2000) % 3)
    categorical_anova(lambda table: table["y"] * (table["z"] == "1"), labels, progress=False)
    # Which columns determine others is found where the rows leave effects open.
    twice = labels.assign(x=labels["z"])
    categorical_anova(lambda table: table["y"] * (table["z"] == "1"), twice, progress=False)


def _strengths() -> None:
    model, rows = _boosted(2000)
    interaction_indices(model, rows, progress=False)
    h_statistics(model, rows.head(200), progress=False)


def _shapley() -> None:
    model, rows = _boosted(2000)
    interventional_shapley_values(model, rows.head(20), rows.head(100), progress=False)
    purify(model, rows, progress=False).shapley_values(rows)


def _shapley_sets() -> None:
    model, rows = _boosted(2000)
    shapley_sets(model, rows, rows.head(3), progress=False)
    model, rows = _numeric()
    shapley_sets(model.predict, rows.head(300), rows.head(3))


def _held_out() -> None:
    model, rows = _boosted(2000)
    target, d = _target(rows), purify(model, rows, progress=False)
    effect_worth(d, rows, target, n_bootstrap=2, progress=False)
    simplify(d, rows, target, progress=False)
    weak_spots(d, rows, target + rows["v"].gt(0) * rows["w"] * rows["x"], progress=False)


def _missed() -> None:
    model, rows = _boosted(2000)
    missed_effects(purify(model, rows, progress=False), rows, _target(rows), progress=False)


def _validation() -> None:
    model, rows = _boosted(2000)
    check_monotonicity(model, rows, {"v": "increasing"}, progress=False)
    reason_codes(model, rows.head(20), reference=rows, progress=False)
    d = purify(model, rows, progress=False)
    drift(d, rows.head(1000), rows.tail(1000), progress=False)
    group_gap(d, rows, rows["v"] > 0, progress=False)


def _of_data() -> None:
    model, rows = _boosted(2000)
    feature_profile(model, rows, "v", _target(rows), progress=False)


def _of_tables() -> None:
    from sklearn.ensemble import HistGradientBoostingRegressor

    rows = _rows(2000)
    model = HistGradientBoostingRegressor(max_iter=20, max_depth=2).fit(rows, _target(rows))
    d = purify(model, rows, weights="empirical", progress=False)
    with_sampling_error(d, model, rows, splits=1, progress=False)
    compare(d, d.as_trained(), progress=False)
    smooth_effect(d, "w")
    without_features(d, "w")
    purify_tensors({(0, 1): [[0.0, 1.0], [2.0, 5.0]]}, progress=False)


# The longest first.
_JOBS: Mapping[str, Callable[[], None]] = {
    "purify with XGBoost": _purify_xgboost,
    "purify with scikit-learn": _purify_boosted,
    "partial_dependence_anova": _partial_dependence,
    "purify with a forest": _purify_forest,
    "interventional_shapley_values": _shapley,
    "missed_effects": _missed,
    "audit": _audit,
    "ale_anova": _accumulated_local_effects,
    "hooker_anova": _hooker,
    "legendre_anova": _legendre,
    "categorical_anova": _categorical,
    "interaction_indices": _strengths,
    "effect_worth": _held_out,
    "shapley_sets": _shapley_sets,
    "check_monotonicity": _validation,
    "feature_profile": _of_data,
    "with_sampling_error": _of_tables,
}
