"""Purify trained tree models into their functional ANOVA, exactly and with a certificate."""

# isort: off
# First of all, so that Ctrl-C while the rest loads ends the command without a traceback.
from treepurify import interruption as _interruption  # noqa: F401

# isort: on
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treepurify import errors, export, options, plots, report, weights
    from treepurify.auditing.audit import audit
    from treepurify.comparing.compare import compare
    from treepurify.decomposition import Decomposition
    from treepurify.engines.ale.anova import ale_anova
    from treepurify.engines.categorical import categorical_anova
    from treepurify.engines.hooker.anova import hooker_anova
    from treepurify.engines.legendre import legendre_anova
    from treepurify.engines.partial_dependence.anova import partial_dependence_anova
    from treepurify.engines.tree.purify import purify
    from treepurify.engines.tree.raw_tensors import purify_tensors
    from treepurify.evidence.editing import without_features
    from treepurify.evidence.missed import missed_effects
    from treepurify.evidence.refit import refit
    from treepurify.evidence.sampling import with_sampling_error
    from treepurify.evidence.simplification import simplify
    from treepurify.evidence.smoothing import smooth_effect
    from treepurify.evidence.worth import effect_worth
    from treepurify.grouping.partition import shapley_sets
    from treepurify.interactions.h_statistics import h_statistics
    from treepurify.interactions.indices import interaction_indices
    from treepurify.models.parse import parse_model
    from treepurify.precompiling import warmup
    from treepurify.profiles.feature_profile import feature_profile
    from treepurify.shapley.interventional import interventional_shapley_values
    from treepurify.storage import load
    from treepurify.validation.drift import drift
    from treepurify.validation.group_gap import group_gap
    from treepurify.validation.monotonicity import check_monotonicity
    from treepurify.validation.reason_codes import reason_codes
    from treepurify.validation.weak_spots import weak_spots

__version__ = "0.1.0"

__all__ = [
    "Decomposition",
    "__version__",
    "ale_anova",
    "audit",
    "categorical_anova",
    "check_monotonicity",
    "compare",
    "drift",
    "effect_worth",
    "errors",
    "export",
    "feature_profile",
    "group_gap",
    "h_statistics",
    "hooker_anova",
    "interaction_indices",
    "interventional_shapley_values",
    "legendre_anova",
    "load",
    "missed_effects",
    "options",
    "parse_model",
    "partial_dependence_anova",
    "plots",
    "purify",
    "purify_tensors",
    "reason_codes",
    "refit",
    "report",
    "shapley_sets",
    "simplify",
    "smooth_effect",
    "warmup",
    "weak_spots",
    "weights",
    "with_sampling_error",
    "without_features",
]

# The module of each name, imported on first use: one engine does not wait for the imports of all.
_HOME = {
    "Decomposition": "decomposition",
    "ale_anova": "engines.ale.anova",
    "audit": "auditing.audit",
    "categorical_anova": "engines.categorical",
    "check_monotonicity": "validation.monotonicity",
    "compare": "comparing.compare",
    "drift": "validation.drift",
    "effect_worth": "evidence.worth",
    "errors": "errors",
    "export": "export",
    "feature_profile": "profiles.feature_profile",
    "group_gap": "validation.group_gap",
    "h_statistics": "interactions.h_statistics",
    "hooker_anova": "engines.hooker.anova",
    "interaction_indices": "interactions.indices",
    "interventional_shapley_values": "shapley.interventional",
    "legendre_anova": "engines.legendre",
    "load": "storage",
    "missed_effects": "evidence.missed",
    "options": "options",
    "parse_model": "models.parse",
    "partial_dependence_anova": "engines.partial_dependence.anova",
    "plots": "plots",
    "purify": "engines.tree.purify",
    "purify_tensors": "engines.tree.raw_tensors",
    "reason_codes": "validation.reason_codes",
    "refit": "evidence.refit",
    "report": "report",
    "shapley_sets": "grouping.partition",
    "simplify": "evidence.simplification",
    "smooth_effect": "evidence.smoothing",
    "warmup": "precompiling",
    "weak_spots": "validation.weak_spots",
    "weights": "weights",
    "with_sampling_error": "evidence.sampling",
    "without_features": "evidence.editing",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = import_module(f"{__name__}.{_HOME[name]}")
    value = found if name == _HOME[name] else getattr(found, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
