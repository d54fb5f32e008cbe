"""What do people wait for? Public functions, figures aside, on ten settings; the worst twenty.

Each call runs in a process of its own with default arguments, after `purify` of 200 of its rows has
loaded the kernels, with a limit of 30 processor seconds and 4 GiB. What is refused is listed with
what it says. Models are trained once, into a temporary folder.
Run: ``nice -n 10 python benchmarks/worst_waits.py [--setting NAME] [--call NAME] [--write]``;
``--write`` keeps all in ``worst_waits.json``, and the table in ``docs/developers_measured.md``.
"""

import argparse
import json
import os
import pickle
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parent))

from limited import Ended, run_limited, timed, write_between

COMMAND = "nice -n 10 python benchmarks/worst_waits.py --write"
SECONDS, START, GIB, WORST = 30.0, 180.0, 4.0, 20
FOLDER = "TREEPURIFY_WORST_WAITS"
STORE = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).resolve().parents[1] / "docs" / "developers_measured.md"


@dataclass(frozen=True)
class Setting:
    """A trained model with the rows and the target that it was trained on."""

    model: Any
    X: pd.DataFrame
    y: np.ndarray


def rows(n: int, n_features: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Dependent numbers, and a target with pairs."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, n_features))
    X[:, 1:] += 0.3 * X[:, :1]
    y = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + X[:, 3] * (X[:, 4] > 0)
    names = [f"x{j}" for j in range(n_features)]
    return pd.DataFrame(X, columns=names), y + 0.3 * rng.normal(size=n)


def boosted(n: int, n_features: int, depth: int, trees: int = 100) -> Setting:
    """XGBoost."""
    from xgboost import XGBRegressor

    X, y = rows(n, n_features)
    return Setting(XGBRegressor(n_estimators=trees, max_depth=depth, n_jobs=2).fit(X, y), X, y)


def forest() -> Setting:
    """A default forest of scikit-learn."""
    from sklearn.ensemble import RandomForestRegressor

    X, y = rows(2000, 10)
    return Setting(RandomForestRegressor(random_state=0, n_jobs=2).fit(X, y), X, y)


def ebm() -> Setting:
    """A default EBM."""
    from interpret.glassbox import ExplainableBoostingRegressor

    X, y = rows(4000, 20)
    return Setting(ExplainableBoostingRegressor(n_jobs=2).fit(X, y), X, y)


def pipeline() -> Setting:
    """Scaled numbers and one-hot categories before gradient boosting."""
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    X, y = with_categories(5000)
    numbers = [name for name in X if X[name].dtype.kind == "f"]
    others = [name for name in X if name not in numbers]
    columns = make_column_transformer(
        (StandardScaler(), numbers), (OneHotEncoder(sparse_output=False), others)
    )
    return Setting(make_pipeline(columns, HistGradientBoostingRegressor()).fit(X, y), X, y)


def many_classes() -> Setting:
    """Twelve classes."""
    from xgboost import XGBClassifier

    X, y = rows(5000, 20)
    labels = y.argsort().argsort() * 12 // len(y)
    return Setting(XGBClassifier(n_estimators=50, max_depth=4, n_jobs=2).fit(X, labels), X, labels)


def with_categories(n: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Ten numbers, and six columns of up to forty labels."""
    X, y = rows(n, 10)
    rng = np.random.default_rng(1)
    for k, size in enumerate((2, 3, 5, 10, 20, 40)):
        codes = rng.integers(0, size, n)
        y = y + rng.normal(size=size)[codes] * X["x0"].to_numpy()
        X[f"c{k}"] = pd.Categorical([f"label {code}" for code in codes])
    return X, y


def categories() -> Setting:
    """LightGBM on columns of categories."""
    from lightgbm import LGBMRegressor

    X, y = with_categories(5000)
    return Setting(LGBMRegressor(verbose=-1, n_jobs=2).fit(X, y), X, y)


def missing() -> Setting:
    """A fifth of the values missing."""
    from lightgbm import LGBMRegressor

    X, y = rows(5000, 15)
    X = X.mask(np.random.default_rng(2).random(X.shape) < 0.2)
    return Setting(LGBMRegressor(verbose=-1, n_jobs=2).fit(X, y), X, y)


SETTINGS: dict[str, Callable[[], Setting]] = {
    "few rows": lambda: boosted(400, 10, 6),
    "many rows": lambda: boosted(200_000, 20, 4),
    "wide": lambda: boosted(5000, 300, 3),
    "deep": lambda: boosted(5000, 15, 10),
    "forest": forest,
    "EBM": ebm,
    "pipeline": pipeline,
    "many classes": many_classes,
    "categories": categories,
    "missing values": missing,
}


def calls_of_models(setting: Setting) -> dict[str, Callable[[], object]]:
    """Return the public calls that take a model or rows, by name."""
    import treepurify as tp

    model, X, y = setting.model, setting.X, setting.y
    quiet = {"progress": False}
    on_rows = {"model": model, "X": X, **quiet}
    return {
        "parse_model": lambda: tp.parse_model(model),
        "purify": lambda: tp.purify(**on_rows),
        "purify, order=1": lambda: tp.purify(**on_rows, order=1),
        "purify, the rows": lambda: tp.purify(**on_rows, weights="empirical"),
        "purify, independent": lambda: tp.purify(**on_rows, weights="independent"),
        "purify, all orders": lambda: tp.purify(**on_rows, order=None, weights="independent"),
        "partial_dependence_anova": lambda: tp.partial_dependence_anova(**on_rows),
        "ale_anova": lambda: tp.ale_anova(**on_rows),
        "categorical_anova": lambda: tp.categorical_anova(**on_rows),
        "hooker_anova": lambda: tp.hooker_anova(**on_rows),
        "legendre_anova": lambda: tp.legendre_anova(**on_rows),
        "interaction_indices": lambda: tp.interaction_indices(**on_rows),
        "h_statistics": lambda: tp.h_statistics(**on_rows),
        "audit": lambda: tp.audit(**on_rows),
        "shapley_sets": lambda: tp.shapley_sets(model, X.iloc[:20], X.iloc[:100], **quiet),
        "interventional_shapley_values": lambda: tp.interventional_shapley_values(
            model, X.iloc[:20], X.iloc[:100], **quiet
        ),
        "reason_codes": lambda: tp.reason_codes(model, X.iloc[:20], reference=X, **quiet),
        "check_monotonicity": lambda: tp.check_monotonicity(
            model, X, {X.columns[0]: "increasing"}, **quiet
        ),
        "refit of 5, purified": lambda: tp.purify(tp.refit(model, X, y, n=5, **quiet), X, **quiet),
    }


def calls_of_effects(setting: Setting) -> dict[str, Callable[[Any], object]]:
    """Return the public calls that take a decomposition, by name."""
    import treepurify as tp

    X, y, first, half = setting.X, setting.y, setting.X.columns[0], len(setting.X) // 2
    groups = np.where(np.arange(len(X)) % 2 == 0, "one", "other")
    folder, quiet = Path(os.environ[FOLDER]), {"progress": False}
    return {
        "contributions": lambda of: of.contributions(X),
        "shapley_values": lambda of: of.shapley_values(X),
        "shapley_interactions": lambda of: of.shapley_interactions(X.iloc[:1000]),
        "importance": lambda of: of.importance(),
        "verify": lambda of: of.verify(setting.model, X),
        "save": lambda of: of.save(folder / f"{os.getpid()}.tpz"),
        "with_sampling_error": tp.with_sampling_error,
        "compare": lambda of: tp.compare(of, of),
        "effect_worth": lambda of: tp.effect_worth(of, X, y, **quiet),
        "simplify": lambda of: tp.simplify(of, X, y, **quiet),
        "missed_effects": lambda of: tp.missed_effects(of, X, y, **quiet),
        "feature_profile": lambda _: tp.feature_profile(setting.model, X, first, y),
        "group_gap": lambda of: tp.group_gap(of, X, groups, **quiet),
        "drift": lambda of: tp.drift(of, X.iloc[:half], X.iloc[half:], **quiet),
        "report": lambda of: tp.report.write_html(of, folder / f"{os.getpid()}.html", X=X),
    }


def do(task: str) -> str:
    """Do one call on one setting, and return how it ended as a line."""
    import treepurify as tp

    name, call = task.split(" / ")
    setting = pickle.loads((Path(os.environ[FOLDER]) / f"{name}.pickle").read_bytes())
    tp.purify(setting.model, setting.X.iloc[:200], progress=False)
    of_models = calls_of_models(setting)
    if call in of_models:
        return timed(of_models[call])
    of = tp.purify(setting.model, setting.X, progress=False)
    return timed(partial(calls_of_effects(setting)[call], of))


def table(found: dict[str, Ended]) -> str:
    """Return the worst waits in Markdown; what ended by a limit or an error comes first."""
    lines = ["| setting | call | processor seconds | peak memory | how it ended |"]
    lines.append("|---|---|---:|---:|---|")
    ranked = sorted(found.items(), key=lambda item: (item[1].how == "done", -item[1].processor))
    for task, ended in ranked[:WORST]:
        setting, call = task.split(" / ")
        memory = "not known" if np.isnan(ended.memory) else f"{ended.memory:.2f} GB"
        how = ended.how.split(". ")[0]
        lines.append(f"| {setting} | {call} | {ended.processor:.1f} | {memory} | {how} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, or do one task."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", help="setting and call")
    parser.add_argument("--setting", choices=SETTINGS, help="only this one")
    parser.add_argument("--call", help="only this one")
    parser.add_argument("--write", action="store_true", help="write docs/developers_measured.md")
    chosen = parser.parse_args()
    if chosen.task:
        print(do(chosen.task))
        return
    found: dict[str, Ended] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ[FOLDER] = folder
        for name in [chosen.setting] if chosen.setting else SETTINGS:
            setting = SETTINGS[name]()
            (Path(folder) / f"{name}.pickle").write_bytes(pickle.dumps(setting))
            every = [*calls_of_models(setting), *calls_of_effects(setting)]
            for call in [chosen.call] if chosen.call else every:
                task = f"{name} / {call}"
                found[task] = run_limited(__file__, task, seconds=SECONDS, start=START, gib=GIB)
                print(task, found[task], flush=True)
    print(table(found))
    if chosen.write:
        kept = {task: vars(ended) for task, ended in found.items()}
        STORE.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
        write_between(PAGE, "worst waits", table(found))


if __name__ == "__main__":
    main()
