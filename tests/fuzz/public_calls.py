"""Every public callable with arguments that it takes, and what each argument stands for."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
import treepurify.results
from tests.fuzz.bad_values import frame
from treepurify import precompiling
from treepurify.links import Link

__all__ = ["KINDS", "Call", "calls", "none_is_wrong", "public_callables"]

# What an argument stands for, by its name; a call may say otherwise.
KINDS = {
    "X": "table",
    "absorb": "flag",
    "columns": "choice",
    "a": "result",
    "audit": "result",
    "ax": "axes",
    "refits": "other trainings",
    "b": "result",
    "baseline": "row of numbers",
    "before": "flag",
    "centred": "flag",
    "compared": "result",
    "d": "result",
    "estimate": "choice",
    "density": "choice",
    "column_scale": "choice",
    "criterion": "choice",
    "f": "function",
    "feature_names": "names",
    "groups": "groups",
    "index": "choice",
    "interactions": "interactions",
    "key": "key",
    "level": "rate",
    "memory_budget": "budget",
    "method": "choice",
    "missing_cells": "choice",
    "model": "model",
    "of": "choice",
    "order": "order",
    "orthogonal": "flag",
    "other_rows": "flag",
    "output": "output",
    "parts": "choice",
    "path": "path",
    "progress": "flag",
    "purified": "flag",
    "ranking": "choice",
    "remainder": "choice",
    "resolution": "choice",
    "row": "row",
    "sample_weight": "weights",
    "scale": "choice",
    "selection": "choice",
    "sets": "result",
    "show": "choice",
    "show_empty": "flag",
    "to": "path",
    "tolerance": "share",
    "threshold": "number",
    "together": "flag",
    "weights": "weighting",
    "with_mains": "flag",
}
WHOLE = """
    background_size bins degree density_degree draws least_rows lines main_cells
    max_candidates max_steps most most_pairs most_rows n_bootstrap n_points
    pair_cells pairs permutations
    probes rank sample_rows sample_size seed size top
"""
for _name in WHOLE.split():
    KINDS[_name] = "whole"


@dataclass(frozen=True)
class Call:
    """A callable, arguments that it takes, and kinds that differ from those by name."""

    name: str
    function: Callable[..., Any]
    arguments: dict[str, Any] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)

    def parameters(self) -> dict[str, inspect.Parameter]:
        return dict(inspect.signature(self.function).parameters)

    def kind(self, parameter: str) -> str:
        return self.kinds.get(parameter) or KINDS.get(parameter, "")


def none_is_wrong(parameter: inspect.Parameter) -> bool:
    """Whether None is a wrong value of the parameter too."""
    return parameter.default is not None and "None" not in str(parameter.annotation)


def halves() -> list[str]:
    """Two groups of rows."""
    return ["one" if row % 2 else "other" for row in range(len(frame()))]


def weak_spots_of(d: Any) -> Any:
    """Slices of many rows, one of which loses more than the others."""
    return tp.weak_spots(d, **noisy_rows(), n_spots=2, progress=False)


def noisy_rows() -> dict[str, Any]:
    """Rows of which a third are far from what is predicted."""
    X = pd.concat([frame()] * 40, ignore_index=True)
    return {"X": X, "y": X.a * X.b + X.c + 5.0 * (X.c > 1) * np.arange(len(X)) % 3}


@cache
def world() -> dict[str, Any]:
    """Small results of every kind."""
    X = frame()
    y = X.a * X.b + X.c
    model = GradientBoostingRegressor(max_depth=2, n_estimators=4, random_state=0).fit(X, y)
    parsed = tp.parse_model(model)
    quiet = {"progress": False}
    d = tp.purify(parsed, X, **{"weights": "empirical", **quiet})
    sets = tp.shapley_sets(parsed, X, X.iloc[:3], method="index", **quiet)
    return {
        "X": X,
        "y": y,
        "model": parsed,
        "d": d,
        "function": lambda table: np.asarray(table)[:, 1] * np.asarray(table)[:, 2],
        "audit": tp.audit(parsed, X, n_bootstrap=1, **quiet),
        "gap": tp.group_gap(d, X, halves(), **quiet),
        "drift": tp.drift(d, X, X, **quiet),
        "weak": weak_spots_of(d),
        "monotone": tp.check_monotonicity(parsed, X, {"a": "decreasing"}, **quiet),
        "compared": tp.compare(d, d.as_trained()),
        "h": tp.h_statistics(parsed, X, **quiet),
        "indices": tp.interaction_indices(parsed, X, **quiet),
        "shapley": d.shapley_values(X),
        "interactions": d.shapley_interactions(X),
        "sets": sets,
        "simple": tp.simplify(d, X, y, **quiet),
        "worth": tp.effect_worth(d, X, y, n_bootstrap=2, **quiet),
        "several": tp.purify([parsed, parsed], X, **{"weights": "empirical", **quiet}),
    }


def engines() -> Iterator[Call]:
    w = world()
    model, X, d, f = w["model"], w["X"], w["d"], w["function"]
    on_rows = {"model": model, "X": X, "progress": False}
    black = {"model": f, "X": X, "progress": False}
    yield Call("purify", tp.purify, on_rows, {"X": "table or batches"})
    kinds = {"nodes": "nodes", "X": "table or batches"}
    yield Call("ale_anova", tp.ale_anova, on_rows, kinds)
    called = {**on_rows, "model": f}
    as_function = {"model": "function", "X": "batches of a function"}
    kinds = {"nodes": "nodes", **as_function}
    yield Call("ale_anova of a function", tp.ale_anova, called, kinds)
    kinds = {"splits": "whole", "model": "other model"}
    yield Call("with_sampling_error", tp.with_sampling_error, {"d": d}, kinds)
    halved = {"d": d, "model": model, "X": X, "splits": 1, "progress": False}
    kinds = {"splits": "whole", "X": "table or batches"}
    yield Call("with_sampling_error of a model", tp.with_sampling_error, halved, kinds)
    kinds = {"measures": "measures", "held_out": "held-out rows", "X": "table or batches"}
    yield Call("audit", tp.audit, {**on_rows, "n_bootstrap": 0}, kinds)
    kinds = {"neighbours": "mapping"}
    free = {**kinds, "model": "function", "X": "batches of labels"}
    yield Call("categorical_anova", tp.categorical_anova, black, free)
    kinds["model"] = "function"
    kinds["X"] = "table or batches"
    yield Call("categorical_anova of a model", tp.categorical_anova, on_rows, kinds)
    kinds = {"names": "names of two", "X": "table or batches"}
    yield Call("compare", tp.compare, {"a": d, "b": d, "X": X}, kinds)
    yield Call("Decomposition.as_trained", d.as_trained)
    yield Call("h_statistics", tp.h_statistics, on_rows, {"X": "table or batches"})
    yield Call("h_statistics of a function", tp.h_statistics, called, as_function)
    small = {**on_rows, "n_points": 100}
    yield Call("hooker_anova", tp.hooker_anova, small, {"X": "table or batches"})
    yield Call("hooker_anova of a function", tp.hooker_anova, {**small, "model": f}, as_function)
    yield Call("interaction_indices", tp.interaction_indices, on_rows, {"X": "table or batches"})
    kinds = {"background": "table", "X": "rows"}
    yield Call(
        "interventional_shapley_values", tp.interventional_shapley_values,
        {**on_rows, "background": X}, kinds,
    )  # fmt: skip
    kinds = {
        "X": "rows or batches", "reference": "table or batches", "groups": "mapping",
        "texts": "mapping", "refits": "other trainings",
        "closeness": "share", "adverse": "choice",
    }  # fmt: skip
    yield Call("reason_codes", tp.reason_codes, {**on_rows, "reference": X}, kinds)
    quick = {"degree": 2, "density": "legendre", "density_degree": 2}
    kinds = {"density_clip": "number", "scaling": "mapping", **as_function}
    yield Call("legendre_anova", tp.legendre_anova, {**black, **quick}, kinds)
    kinds = {**kinds, "X": "table of a function"}
    yield Call(
        "legendre_anova of values", tp.legendre_anova, {**black, **quick, "model": w["y"]}, kinds
    )
    kinds = {"background": "table", "X": "table or batches"}
    yield Call("partial_dependence_anova", tp.partial_dependence_anova, on_rows, kinds)
    kinds = {**kinds, **as_function}
    yield Call(
        "partial_dependence_anova of a function", tp.partial_dependence_anova,
        {**on_rows, "model": f}, kinds,
    )  # fmt: skip
    others = {"ignore": "tensor names"}
    yield Call("parse_model", tp.parse_model, {"model": model}, others)
    kinds = {"tensors": "tensors", "weights": "masses", "intercept": "intercept",
             "output_names": "output names", "feature_names": "tensor names"}  # fmt: skip
    tensors = {(0, 1): [[0.0, 1.0], [2.0, 5.0]]}
    yield Call("purify_tensors", tp.purify_tensors, {"tensors": tensors}, kinds)
    explained = {"model": model, "X": X, "x": X.iloc[:2], "progress": False}
    kinds = {"model": "function", "x": "rows", "value": "choice", "sampling": "result",
             "X": "table or batches"}  # fmt: skip
    yield Call("shapley_sets", tp.shapley_sets, explained, kinds)
    few = tp.options.Sampling(probes=3, draws=3)
    called = {**explained, "model": f, "sampling": few}
    kinds["X"] = "batches of a function"
    yield Call("shapley_sets of a function", tp.shapley_sets, called, kinds)


def about_data() -> Iterator[Call]:
    w = world()
    along = {"model": w["model"], "X": w["X"], "feature": "a", "progress": False}
    kinds = {"feature": "key", "y": "one number a row", "X": "table or batches"}
    yield Call("feature_profile", tp.feature_profile, along, kinds)


def held_out_rows() -> Iterator[Call]:
    w = world()
    d, X = w["d"], w["X"]
    held_out = {"d": d, "X": X, "y": w["y"], "n_bootstrap": 3, "progress": False}
    losses = {"loss": "choice", "y": "observations", "coverage": "number"}
    yield Call("effect_worth", tp.effect_worth, held_out, losses)
    del held_out["n_bootstrap"]
    smoothed = {"d": d, "key": "a"}
    yield Call("warmup", warmup_of_nothing)
    yield Call("smooth_effect", tp.smooth_effect, smoothed, {"amount": "number"})
    few = {**held_out, "X": pd.concat([X, X]), "y": pd.concat([w["y"], w["y"]]), "repeats": 1}
    kinds = {"repeats": "whole", **losses}
    yield Call("missed_effects", tp.missed_effects, few, kinds)
    yield Call("simplify", tp.simplify, held_out, {"hierarchical": "flag", **losses})
    of_groups = {"d": d, "X": X, "group": halves(), "threshold": 0.5, "progress": False}
    kinds = {
        "group": "groups of rows", "threshold": "number", "adverse": "choice", "y": "observations",
    }  # fmt: skip
    yield Call("group_gap", tp.group_gap, of_groups, kinds)
    of_two = {"d": d, "X_before": X, "X_after": X, "y_before": w["y"], "y_after": w["y"],
              "progress": False}  # fmt: skip
    kinds = {
        "X_before": "rows or batches", "X_after": "rows or batches", "y_before": "observations",
        "y_after": "observations", "weight_before": "weights", "weight_after": "weights",
        "names": "two names", **losses,
    }  # fmt: skip
    yield Call("drift", tp.drift, of_two, kinds)
    kinds = {"order": "whole", "n_spots": "whole", "min_share": "number", **losses}
    weak = {"d": d, **noisy_rows(), "n_spots": 1, "progress": False}
    yield Call("weak_spots", tp.weak_spots, weak, kinds)
    checked = {"model": w["model"], "X": X, "directions": {"a": "increasing"}, "progress": False}
    kinds = {"directions": "directions", "X": "table or batches"}
    yield Call("check_monotonicity", tp.check_monotonicity, checked, kinds)


def warmup_of_nothing(progress: bool = True) -> None:
    """Check the arguments, and compile nothing, which takes a minute."""
    with mock.patch.object(precompiling, "_JOBS", {}):
        tp.warmup(progress=progress)


def constructors() -> Iterator[Call]:
    yield Call("Empirical", tp.weights.Empirical)
    yield Call("Independent", tp.weights.Independent)
    yield Call("Laplace", tp.weights.Laplace, {}, {"smoothing": "number", "variant": "choice"})
    smoothing = {"bandwidth": "width", "level_share": "number", "n_points": "whole"}
    yield Call("Smoothed", tp.weights.Smoothed, {}, smoothing)
    yield Call("Auto", tp.weights.Auto)
    yield Call("Uniform", tp.weights.Uniform, {}, {"by": "choice", "missing": "flag"})
    kinds = {"table": "joint masses", "features": "features"}
    yield Call("JointTable", tp.weights.JointTable, {"table": np.ones((2, 2))}, kinds)
    yield Call("TreeProjection", tp.options.TreeProjection)
    yield Call("CoarseProjection", tp.options.CoarseProjection)
    yield Call("TermSelection", tp.options.TermSelection)
    yield Call("Sampling", tp.options.Sampling)


def edit_by(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of any number of effects, as a function of one."""

    def edit(term: Any, absorb: Any = False) -> Any:
        return method(term, absorb=absorb)

    return edit


def repeated_training() -> Iterator[Call]:
    w = world()
    several = {"model": w["model"], "X": w["X"], "refits": [w["model"], w["model"]]}
    several |= {"weights": "empirical", "progress": False}
    kinds = {"X": "table or batches"}
    yield Call("purify with refits", tp.purify, several, kinds)
    small = {"estimator": GradientBoostingRegressor(n_estimators=1), "X": w["X"], "y": w["y"]}
    kinds = {
        "estimator": "estimator",
        "y": "targets",
        "n": "whole",
        "how": "choice",
        "X": "table of a function",
    }
    yield Call("refit", tp.refit, {**small, "n": 2, "progress": False}, kinds)
    spread = w["several"].spread
    names = ("band", "covers_zero", "mean", "standard_deviation", "standard_error", "values")
    for name in (*names, "variances", "training_variance", "size_interval"):
        yield Call(f"Spread.{name}", getattr(spread, name), {"key": "a"})
    yield Call("Spread.importance", spread.importance)
    yield Call("Spread.present", spread.present)
    yield Call("Spread.no_clear_sign", spread.no_clear_sign)


def results() -> Iterator[Call]:
    w = world()
    d, X = w["d"], w["X"]
    yield Call("Decomposition.importance", d.importance, {}, {"details": "flag"})
    for name in ("orthogonality", "tensor_components"):
        yield Call(f"Decomposition.{name}", getattr(d, name))
    batches = {"X": "table or batches"}
    yield Call("Decomposition.r_squared", d.r_squared, {"X": X}, batches)
    for name in ("contributions", "evaluate", "predict", "shapley_interactions", "shapley_values"):
        yield Call(f"Decomposition.{name}", getattr(d, name), {"X": X}, {"X": "rows"})
    residuals = {"X": X, "groups": ["a", ["a", "b"]]}
    kinds = {"X": "rows", "groups": "several effects"}
    yield Call("Decomposition.shapley_residuals", d.shapley_residuals, residuals, kinds)
    yield Call("Decomposition.verify", d.verify, {"model": w["model"], "X": X}, batches)
    yield Call("Decomposition.to_frame", d.to_frame)
    yield Call("Decomposition.__getitem__", d.__getitem__, {"key": "a"})
    yield Call("Decomposition.term_name", d.term_name, {"subset": (0, 1)}, {"subset": "features"})
    for name in ("without", "only"):
        method = getattr(d, name)

        yield Call(f"Decomposition.{name}", edit_by(method), {"term": "a"}, {"term": "key"})
    taking_out = edit_by(partial(tp.without_features, d))
    yield Call("without_features", taking_out, {"term": "a"}, {"term": "key"})
    values = {"key": "a", "values": d["a"].values}
    yield Call("Decomposition.with_effect", d.with_effect, values, {"values": "cells"})
    yield Call("EffectWorth.of", w["worth"].of, {"key": "a"})
    simple = w["simple"]
    yield Call("Simplification.at", simple.at, {"n_effects": 1}, {"n_effects": "whole"})
    yield Call("Simplification.to_frame", simple.to_frame)
    yield Call("Simplification.summary", simple.summary)
    yield Call("EffectWorth.to_frame", w["worth"].to_frame)
    yield Call("EffectWorth.summary", w["worth"].summary)
    yield Call("EffectWorth.ends", w["worth"].ends, {"most": 4})
    reasons = tp.reason_codes(d, X, reference=X, progress=False)
    for name in ("table", "sums", "summary"):
        yield Call(f"ReasonCodes.{name}", getattr(reasons, name))
    component = d["a"]
    yield Call("TensorComponent.evaluate", component.evaluate, {"X": X}, {"X": "rows"})
    yield Call("TensorComponent.centred_raw", component.centred_raw)
    for name in ("features_frame", "summary", "to_frame"):
        yield Call(f"Drift.{name}", getattr(w["drift"], name))
    for name in ("summary", "to_frame"):
        yield Call(f"WeakSpots.{name}", getattr(w["weak"], name))
        yield Call(f"GroupGap.{name}", getattr(w["gap"], name))
        yield Call(f"Monotonicity.{name}", getattr(w["monotone"], name))
    yield Call("WeakSpot.words", w["weak"].spots[0].words)
    kinds = {"number": "whole", "X": "rows"}
    yield Call("WeakSpots.rows_in", w["weak"].rows_in, {"number": 0, "X": X}, kinds)
    monotone = w["monotone"]
    yield Call("Monotonicity.check", monotone.check, {"feature": "a"}, {"feature": "key"})
    yield Call("MonotonicityCheck.sentence", monotone.check("a").sentence)
    yield Call("MonotonicityCheck.by_effect", monotone.check("a").by_effect, {"d": d})
    yield Call("WrongStep.to_frame", monotone.check("a").worst.to_frame)
    yield Call("Audit.summary", w["audit"].summary)
    yield Call("Audit.to_frame", w["audit"].to_frame)
    yield Call("Certificate.details", d.certificate.details)
    yield Call("Comparison.verdict", w["compared"].verdict)
    yield Call("Comparison.to_frame", w["compared"].to_frame)
    for name in ("features", "overall", "pairs", "triples"):
        yield Call(f"HStatistics.{name}", getattr(w["h"], name))
    yield Call("HStatistics.sets", w["h"].sets, {"size": 2})
    yield Call("InteractionIndices.pairs", w["indices"].pairs)
    along = tp.feature_profile(w["model"], X, "a", w["y"], progress=False)
    yield Call("FeatureProfile.to_frame", along.to_frame)
    yield Call("ShapleyInteractions.matrix", w["interactions"].matrix)
    yield Call("ShapleyInteractions.to_frame", w["interactions"].to_frame)
    for name in ("by_feature", "to_frame", "total"):
        yield Call(f"ShapleySets.{name}", getattr(w["sets"], name))
    for name in ("importance", "to_frame", "total"):
        yield Call(f"ShapleyValues.{name}", getattr(w["shapley"], name))


def figures() -> Iterator[Call]:
    w = world()
    d, X, plots = w["d"], w["X"], tp.plots
    yield Call("plots.beeswarm", plots.beeswarm, {"d": d, "X": X}, {"X": "table or batches"})
    yield Call("plots.comparison", plots.comparison, {"compared": w["compared"]})
    what = {"what": "finding"}
    yield Call("plots.finding", plots.finding, {"audit": w["audit"], "what": 0}, what)
    statistics = {"statistics": "result"}
    yield Call("plots.h_statistics", plots.h_statistics, {"statistics": w["h"]}, statistics)
    yield Call("plots.importance", plots.importance, {"d": d})

    def together(term: Any, X: Any = None, output: Any = 0, seed: Any = 0, ax: Any = None) -> Any:
        return plots.together(d, term, "b", X=X, output=output, seed=seed, ax=ax)

    yield Call("plots.together", together, {"term": "a"}, {"term": "key", "X": "table"})
    yield Call("plots.main_effect", plots.main_effect, {"d": d, "key": "a"})
    yield Call("plots.summary", plots.summary, {"d": d}, {"columns": "whole"})
    yield Call("plots.network", plots.network, {"d": d})
    several = {"decompositions": "several named results"}
    both = {"decompositions": {"one": d, "two": d}, "key": "a"}
    yield Call("plots.overlay", plots.overlay, both, several)
    yield Call("plots.pair", plots.pair, {"d": d, "key": ("a", "b")}, {"second": "key"})
    along = tp.feature_profile(w["model"], X, "a", w["y"], progress=False)
    shown = {"profile": "result", "curves": "flag", "effects": "result"}
    yield Call("plots.profile", plots.profile, {"profile": along}, shown)
    yield Call("plots.pair_lines", plots.pair_lines, {"d": d, "key": ("a", "b")}, {"second": "key"})
    found = {"found": "result"}
    yield Call("plots.mean_difference", plots.mean_difference, {"found": w["gap"]}, found)
    yield Call("plots.weak_spots", plots.weak_spots, {"found": w["weak"]}, found)
    checked = {"found": w["monotone"], "d": d, "feature": "a"}
    kinds = {**found, "feature": "key"}
    yield Call("plots.monotonicity", plots.monotonicity, checked, kinds)
    drawn = {"simple": "result", "whole": "flag", "worth": "result"}
    yield Call("plots.simplification", plots.simplification, {"simple": w["simple"]}, drawn)
    yield Call("plots.worth", plots.worth, {"worth": w["worth"]}, drawn)
    yield Call("plots.waterfall", plots.waterfall, {"d": d, "row": X.iloc[:1]})


def files(folder: Path) -> Iterator[Call]:
    w = world()
    d = w["d"]
    saved = folder / "d.tpz"
    d.save(saved)
    yield Call("load", tp.load, {"path": saved}, {"function": "function of a file"})
    reasons = tp.reason_codes(d, w["X"], reference=w["X"], progress=False)
    for name in ("csv", "json"):
        path = folder / f"reasons.{name}"
        yield Call(f"ReasonCodes.to_{name}", getattr(reasons, f"to_{name}"), {"path": path})
    yield Call("Decomposition.save", d.save, {"path": folder / "again.tpz"})
    yield Call("export.to_ebm", tp.export.to_ebm, {"d": d}, {"classes": "classes"})
    with_log = replace(d, link=Link("log"))
    yield Call("export.to_relativities", tp.export.to_relativities, {"d": with_log})
    shapley = {"values": "result", "output": "position"}
    yield Call("export.to_shap", tp.export.to_shap, {"values": w["shapley"]}, shapley)
    query = {"table": "text", "keep": "tensor names"}
    yield Call("export.to_sql", tp.export.to_sql, {"d": d}, query)
    page = {"d": d, "path": folder / "page.html", "top": 0}
    kinds = {"command": "text", "files": "names", "X": "rows", "worth": "result",
             "simple": "result", "results": "several results"}  # fmt: skip
    yield Call("report.write_html", tp.report.write_html, page, kinds)
    validation = {"model": d, "X": w["X"], "path": folder / "v.html"}
    kinds = {"y": "names", "about": "mapping", "refits": "several results",
             "X": "table or batches", "after": "table or batches"}  # fmt: skip
    yield Call("report.write_validation", tp.report.write_validation, validation, kinds)
    several = {"decompositions": [d, d.as_trained()], "path": folder / "both.html", "top": 0}
    kinds = {"command": "text", "files": "names", "decompositions": "several results",
             "X": "table or batches"}  # fmt: skip
    yield Call("report.write_comparison", tp.report.write_comparison, several, kinds)


def calls(folder: Path) -> list[Call]:
    """All public callables, with a folder for their files."""
    return [
        *engines(),
        *about_data(),
        *held_out_rows(),
        *constructors(),
        *repeated_training(),
        *results(),
        *figures(),
        *files(folder),
    ]


# What callers do not make themselves; engines do.
MADE_BY_ENGINES = {
    "Audit", "Certificate", "Comparison", "Component", "Decomposition",
    "EffectWorth", "FeatureProfile", "Finding", "HStatistics", "InteractionIndices",
    "ReasonCodes", "Drift", "GroupGap", "Monotonicity",
    "MonotonicityCheck", "WeakSpot", "WeakSpots", "WrongStep",
    "ShapleyInteractions", "ShapleySets", "ShapleyValues", "Simplification", "Spread",
    "TensorComponent", "Weighting",
}  # fmt: skip
# Methods by which parts of the package speak to each other.
INTERNAL = {
    "noted",
    "row_stream",
    "tables",
    "on_cells",
    "on_rows",
    "stored",
    "fitted",
    "evaluate_parts",
    "rank",
    "row_blocks",
}


def public_callables() -> set[str]:
    """The names that `calls` has to have."""
    names = set()
    for module in (tp, tp.weights, tp.options, treepurify.results, tp.plots, tp.report, tp.export):
        prefix = module.__name__.removeprefix("treepurify").removeprefix(".")
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) and not issubclass(value, BaseException):
                names |= {f"{name}.{method}" for method in _methods(value)}
                names |= {name} - MADE_BY_ENGINES
            elif inspect.isfunction(value):
                names.add(f"{prefix}.{name}" if prefix else name)
    return names


def _methods(cls: type) -> set[str]:
    inherited = {"Component.evaluate"} | {
        f"{name}.describe"
        for name in (
            "Auto",
            "Empirical",
            "Independent",
            "Laplace",
            "Smoothed",
            "Uniform",
            "JointTable",
            "Weighting",
        )
    }
    found = {n for n, v in vars(cls).items() if inspect.isfunction(v) and not n.startswith("_")}
    return {n for n in found - INTERNAL if f"{cls.__name__}.{n}" not in inherited}
