"""What functions return, to be recognised and looked up; tensors can be made by hand, too."""

from treepurify.auditing.findings import Finding
from treepurify.auditing.ranked_findings import Audit
from treepurify.certificate import Certificate
from treepurify.comparing.comparison import Comparison
from treepurify.components import Component, TensorComponent
from treepurify.engines.tree.second_moments import InteractionIndices
from treepurify.evidence.effect_worth_table import EffectWorth
from treepurify.evidence.simplification import Simplification
from treepurify.grouping.sets import ShapleySets
from treepurify.interactions.h_statistics import HStatistics
from treepurify.profiles.feature_profile import FeatureProfile
from treepurify.row_results import ShapleyInteractions, ShapleyValues
from treepurify.spread import Spread
from treepurify.validation.drift import Drift
from treepurify.validation.group_gap import GroupGap
from treepurify.validation.monotonicity_result import Monotonicity, MonotonicityCheck, WrongStep
from treepurify.validation.reasons import ReasonCodes
from treepurify.validation.weak_spots import WeakSpot, WeakSpots

__all__ = [
    "Audit",
    "Certificate",
    "Comparison",
    "Component",
    "Drift",
    "EffectWorth",
    "FeatureProfile",
    "Finding",
    "GroupGap",
    "HStatistics",
    "InteractionIndices",
    "Monotonicity",
    "MonotonicityCheck",
    "ReasonCodes",
    "ShapleyInteractions",
    "ShapleySets",
    "ShapleyValues",
    "Simplification",
    "Spread",
    "TensorComponent",
    "WeakSpot",
    "WeakSpots",
    "WrongStep",
]


def __dir__() -> list[str]:
    return __all__
