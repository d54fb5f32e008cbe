"""What comes out: do default jobs and the papers' small scripts still give the numbers stored here?

Twelve jobs train default models on made-up rows and decompose them; six more run the papers'
scripts with ``--small``. Their numbers (effects on fixed rows, sizes, figures of the certificate,
tables) are in ``outcomes.json`` beside this file. Prints the largest difference of each job,
relative to the largest number of its array, and exits with 1 where one exceeds the tolerance.
Numbers of another version of a library differ: the versions that made them are stored, too.
Run: ``python benchmarks/outcomes.py [--only NAME ...] [--write] [--tolerance 1e-6]``; with
``--write`` what was run is stored anew.
"""

import argparse
import contextlib
import importlib
import io
import json
import sqlite3
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

import treepurify as tp

REPOSITORY = Path(__file__).resolve().parents[1]
STORED = Path(__file__).with_suffix(".json")
LIBRARIES = ("numpy", "scipy", "scikit-learn", "xgboost", "lightgbm", "catboost", "interpret-core")
PAPERS = ("categorical", "chapter", "continuous", "purification", "shapley_sets", "timings")
# More is a difference; where a solver changed, effects may differ by as much as it allows.
TOLERANCE = 1e-6
# Tables of times, in which a run never gives what another gave.
TIMED = {"timings_categorical", "timings_continuous"}
Numbers = dict[str, list[float]]
JOBS: dict[str, Callable[[], Numbers]] = {}


def job(function: Callable[[], Numbers]) -> Callable[[], Numbers]:
    """Add a job under the name of its function."""
    JOBS[function.__name__] = function
    return function


def table(n_rows: int = 1500, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    """Return six dependent features, one of them of categories, with shared and missing values."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=n_rows)
    X = pd.DataFrame({name: (rng.normal(size=n_rows) + common).round(2) for name in "abcd"})
    X["whole"] = rng.poisson(2, n_rows)
    kinds = rng.choice(["north", "south", "east"], n_rows, p=[0.5, 0.3, 0.2])
    X["kind"] = pd.Categorical(kinds)
    signal = X["a"] * X["b"] + np.sin(X["c"]) + (kinds == "south") * X["whole"]
    y = (signal + rng.normal(size=n_rows) / 4).rename("y")
    X.loc[rng.random(n_rows) < 0.05, "d"] = np.nan
    return X, y


def numeric(n_rows: int = 1500) -> tuple[pd.DataFrame, pd.Series]:
    """Return the table without its categories and missing values."""
    X, y = table(n_rows)
    return X.drop(columns="kind").fillna(0.0), y


def flat(values: Any) -> list[float]:
    """Return numbers of any shape in one list; None becomes NaN."""
    return [float(value) for value in np.ravel(np.asarray(values, dtype=float))]


def of_effects(d: tp.Decomposition, X: Any, model: Any = None) -> Numbers:
    """Return effects on three rows, the size of each on all, and what the certificate says."""
    effects = d.contributions(X)
    sizes = effects.std(ddof=0)
    found = {f"size of {name}": [float(size)] for name, size in sizes.items()}
    for name in sizes.sort_values(kind="stable").index[-12:]:
        found[f"{name} on rows"] = flat(effects[name].iloc[[0, 7, 42]])
    found["intercept"] = flat(d.intercept)
    found["unidentified"] = [d.certificate.unidentified, d.certificate.fit_unidentified]
    found["explained by the fit"] = flat(d.certificate.fitted_share)
    off = np.abs(effects.sum(axis=1) - np.ravel(d.predict(X))).max()
    found["effects sum to the prediction"] = [float(off < 1e-9)]
    if model is not None:
        checked = d.verify(model, X)
        found["agrees with the library"] = [float("differ" not in str(checked).lower())]
    return found


@job
def xgboost_depth_2() -> Numbers:
    """A default booster of main effects and pairs, which comes apart exactly."""
    from xgboost import XGBRegressor

    X, y = table()
    model = XGBRegressor(max_depth=2, enable_categorical=True, n_jobs=1).fit(X, y)
    return of_effects(tp.purify(model, X, progress=False), X, model)


@job
def xgboost_depth_6() -> Numbers:
    """A default booster, under the rows as they are and smoothed."""
    from xgboost import XGBClassifier

    X, y = numeric()
    model = XGBClassifier(n_estimators=40, n_jobs=1).fit(X, y > y.median())
    found = of_effects(tp.purify(model, X, progress=False), X, model)
    raw = tp.purify(model, X, weights="empirical", progress=False)
    return found | {f"empirical {name}": own for name, own in of_effects(raw, X).items()}


@job
def lightgbm_default() -> Numbers:
    """A default LightGBM with categories and missing values."""
    from lightgbm import LGBMRegressor

    X, y = table()
    model = LGBMRegressor(n_jobs=1, deterministic=True, force_row_wise=True, verbose=-1).fit(X, y)
    return of_effects(tp.purify(model, X, progress=False), X, model)


@job
def forest() -> Numbers:
    """A default forest of scikit-learn, on few rows."""
    from sklearn.ensemble import RandomForestClassifier

    X, y = numeric(400)
    model = RandomForestClassifier(30, random_state=0).fit(X, np.digitize(y, [0, 2]))
    d = tp.purify(model, X, progress=False)
    return {
        "effects on rows": flat(d.contributions(X[:4])),
        "intercept": flat(d.intercept),
        "predictions": flat(d.predict(X[:4])),
        "variances": flat(np.sort(d.importance(details=True)["size"]) ** 2),
    }


@job
def ebm() -> Numbers:
    """A default EBM of two classes with pairs."""
    from interpret.glassbox import ExplainableBoostingClassifier

    X, y = table()
    model = ExplainableBoostingClassifier(
        outer_bags=2, max_rounds=200, interactions=4, n_jobs=1
    ).fit(X, np.where(y > y.median(), "yes", "no"))
    return of_effects(tp.purify(model, X, progress=False), X, model)


@job
def catboost() -> Numbers:
    """A default CatBoost, which counts its categories, and one that reads them one by one."""
    from catboost import CatBoostRegressor

    X, y = table()
    X["kind"] = X["kind"].astype(str) + (X["whole"] % 3).astype(str)
    options = {"iterations": 60, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
    found: Numbers = {}
    for words, more in {"counted": {}, "one-hot": {"one_hot_max_size": 20, "depth": 3}}.items():
        model = CatBoostRegressor(cat_features=["kind"], **options, **more).fit(X, y)
        own = of_effects(tp.purify(model, X, progress=False), X)
        found |= {f"{words}: {name}": numbers for name, numbers in own.items()}
    return found


@job
def pipeline() -> Numbers:
    """A pipeline whose columns are scaled, filled and encoded, in its raw columns."""
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, PowerTransformer, StandardScaler

    X, y = table()
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["a", "d"]),
        (PowerTransformer(), ["b"]),
        (OneHotEncoder(sparse_output=False), ["kind"]),
        remainder="passthrough",
    )
    model = make_pipeline(columns, HistGradientBoostingRegressor(max_iter=40)).fit(X, y)
    return of_effects(tp.purify(model, X, progress=False), X, model)


@job
def few_rows() -> Numbers:
    """A default booster on 150 rows under each kind of distribution that has a name."""
    from xgboost import XGBRegressor

    X, y = numeric(150)
    model = XGBRegressor(n_estimators=30, max_depth=2, n_jobs=1).fit(X, y)
    found: Numbers = {}
    for name in ("auto", "empirical", "independent", "uniform", "laplace"):
        d = tp.purify(model, X, weights=name, progress=False)
        own = of_effects(d, X)
        found |= {f"{name}: {key}": n for key, n in own.items() if key.startswith("size")}
        found[f"{name}: effects"] = flat(d.contributions(X[:3]))
    return found


@job
def engines() -> Numbers:
    """One function by every other engine."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 4, (600, 3)) * 1.0, columns=list("abc"))
    X["b"] = np.where(rng.random(600) < 0.4, X["a"], X["b"])

    def f(X: Any) -> Any:
        X = np.asarray(X, dtype=float)
        return X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + (X[:, 1] > 1) * X[:, 2]

    found: Numbers = {}
    smooth = X + rng.normal(size=X.shape).round(3)
    others = (tp.legendre_anova, tp.ale_anova, tp.hooker_anova, tp.partial_dependence_anova)
    for engine in (tp.categorical_anova, *others):
        name = engine.__name__
        rows = smooth if engine in others else X.astype(int).astype(str)
        d = engine(f, rows, progress=False)
        effects = d.contributions(rows)
        found |= {f"{name}: size of {k}": [float(s)] for k, s in effects.std(ddof=0).items()}
        found[f"{name}: effects"] = flat(effects.iloc[[0, 7, 42]])
    return found


@job
def rows_and_interactions() -> Numbers:
    """Shapley values, indices, H-statistics and groups of one booster."""
    from xgboost import XGBRegressor

    X, y = numeric(500)
    model = XGBRegressor(n_estimators=30, max_depth=3, n_jobs=1).fit(X, y)
    d = tp.purify(model, X, weights="empirical", order=3, progress=False)
    interventional = tp.interventional_shapley_values(model, X[:3], X[:100], progress=False)
    interactions = d.shapley_interactions(X[:2]).values
    indices = tp.interaction_indices(model, X, progress=False)
    h = tp.h_statistics(model, X, sample_size=100, progress=False)
    sets = tp.shapley_sets(model, X, progress=False)
    pairs = h.pairs().sort_values(["first", "second"])
    return {
        "interventional": flat(interventional.values),
        "additive": flat(d.shapley_values(X[:3]).values),
        "interactions": flat([own for _, own in sorted(interactions.items())]),
        "indices": flat(indices.variance_by_order) + flat(indices.feature_total),
        "pair totals": flat(indices.pair_total),
        "H": flat(pairs["h_squared"]) + flat(pairs["purified_share"]),
        "groups": flat([len(group) for group in sets.groups]),
    }


@job
def audit_and_validation() -> Numbers:
    """An audit's findings, and what evidence and validation say of one booster."""
    from xgboost import XGBRegressor

    X, y = table(800)
    model = XGBRegressor(n_estimators=40, max_depth=2, enable_categorical=True, n_jobs=1)
    model.fit(X, y)
    d = tp.purify(model, X, progress=False)
    audit = tp.audit(model, X, n_bootstrap=4, progress=False)
    kinds = pd.Series([finding.kind for finding in audit.findings]).value_counts()
    gap = tp.group_gap(d, X, X["kind"] == "south", progress=False)
    later = X.assign(a=X["a"] + 0.5)
    two = tp.compare(d, tp.purify(model, X, weights="independent", progress=False), X)
    worth = tp.effect_worth(d, X, y)
    found = {f"findings: {kind}": [float(count)] for kind, count in kinds.items()}
    for name, result in {
        "gap": gap, "drift": tp.drift(d, X, later, progress=False), "compare": two, "worth": worth,
        "weak spots": tp.weak_spots(d, X, y, progress=False),
    }.items():  # fmt: skip
        frame = result.to_frame() if hasattr(result, "to_frame") else result.terms
        numbers = frame.select_dtypes("number")
        found |= {f"{name}: {column}": flat(numbers[column])[:8] for column in numbers}
    sampled = tp.with_sampling_error(d, model, X, progress=False)
    found["sampling error"] = flat(sampled.certificate.sampling_error)
    steps = tp.check_monotonicity(
        model, X, {"a": "increasing", "whole": "increasing"}, progress=False
    )
    found["steps"] = [float(check.verdict == "proved") for check in steps.checks]
    return found


@job
def exports() -> Numbers:
    """What leaves: an EBM, the rows of a query, shap's explanation, a table and a saved file."""
    from xgboost import XGBRegressor

    X, y = numeric(400)
    model = XGBRegressor(n_estimators=30, max_depth=2, n_jobs=1).fit(X, y)
    d = tp.purify(model, X, weights="empirical", progress=False)
    found = {"EBM": flat(tp.export.to_ebm(d).predict(X[:6]))}
    with contextlib.closing(sqlite3.connect(":memory:")) as data:
        X.reset_index().to_sql("data", data)
        query = tp.export.to_sql(d, keep=["index"])
        rows = sorted(data.execute(query).fetchall())[:6]
    found["query"] = [float(row[-1]) for row in rows]
    explained = tp.export.to_shap(tp.interventional_shapley_values(model, X[:3], X[:50]))
    found["shap"] = flat(explained.values) + flat(explained.base_values)
    for key in ("a", ("a", "b")):
        numbers = d.to_frame(key).select_dtypes("number")
        found |= {f"table of {key}: {column}": flat(numbers[column])[:8] for column in numbers}
    with tempfile.TemporaryDirectory() as folder:
        d.save(Path(folder) / "d.tpz")
        found["loaded"] = flat(tp.load(Path(folder) / "d.tpz").contributions(X[:3]))
    return found


def paper(name: str) -> Numbers:
    """Run the small form of a paper's script; return the numbers of its tables but the times."""
    from examples import reproduction

    found: Numbers = {}

    def keep(table: Any, folder: Path) -> None:
        timed = [table.name in TIMED or "second" in str(column) for column in table.columns]
        for entry in table.entries:
            for setting, cells in entry.ours.items():
                shown = [
                    number
                    for cell, skipped in zip(cells, timed, strict=False)
                    if not skipped and cell is not None and not isinstance(cell, str)
                    for number in flat(cell)
                ]
                if shown:
                    found[f"{table.name}: {entry.label}: {setting}"] = shown

    with tempfile.TemporaryDirectory() as folder, mock.patch.object(reproduction, "store", keep):
        arguments = [f"paper_{name}.py", "--small", "--store", folder]
        with mock.patch.object(sys, "argv", arguments):
            importlib.import_module(f"examples.paper_{name}").main()
    return found


JOBS |= {f"paper_{name}": partial(paper, name) for name in PAPERS}


def differences(stored: Numbers, now: Numbers) -> Iterator[tuple[float, str]]:
    """Yield the largest difference of each array relative to its largest number, and its name.

    What is a millionth of the job's largest number is relative to that, since it may be rounding.
    """
    numbers = np.concatenate([*map(np.array, stored.values()), [0.0]])
    least = max(1e-6 * np.abs(numbers[np.isfinite(numbers)]).max(), 1e-12)
    for name in [*stored, *(set(now) - set(stored))]:
        before, after = (np.array(own.get(name, [])) for own in (stored, now))
        finite = np.isfinite(before)
        if before.shape != after.shape or not np.array_equal(finite, np.isfinite(after)):
            yield np.inf, name
        elif finite.any():
            before, after = before[finite], after[finite]
            yield float(np.abs(before - after).max() / max(np.abs(before).max(), least)), name


def main() -> int:
    """Run the jobs and compare, or store, what they give."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", default=list(JOBS), choices=list(JOBS), metavar="NAME")
    parser.add_argument("--write", action="store_true", help="store what comes out")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE)
    arguments = parser.parse_args()
    stored = json.loads(STORED.read_text()) if STORED.exists() else {"jobs": {}}
    versions = {name: version(name) for name in LIBRARIES}
    if changed := [n for n in LIBRARIES if stored.get("versions", versions)[n] != versions[n]]:
        print(f"other versions than those that made the stored numbers: {', '.join(changed)}")
    failed = False
    for name in arguments.only:
        start = time.perf_counter()
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            now = JOBS[name]()
        words = f"{name:<22} {sum(map(len, now.values())):5} numbers"
        worst, where = max(differences(stored["jobs"].get(name, {}), now))
        failed |= worst > arguments.tolerance
        print(f"{words}  {worst:8.1e}  {time.perf_counter() - start:6.1f} s  {where}", flush=True)
        if arguments.write:
            stored["jobs"][name] = now
    if arguments.write:
        content = {"versions": versions, "jobs": dict(sorted(stored["jobs"].items()))}
        STORED.write_text(_as_lines(content), encoding="utf-8")
    return int(failed and not arguments.write)


def _as_lines(content: Mapping[str, Any]) -> str:
    """Return JSON with one line an array, so that a difference is read as lines."""
    text = json.dumps(content, indent=1, ensure_ascii=False)
    lines = text.replace("[\n    ", "[").replace(",\n    ", ", ").replace("\n   ]", "]")
    return f"{lines}\n"


if __name__ == "__main__":
    sys.path.insert(0, str(REPOSITORY))
    raise SystemExit(main())
