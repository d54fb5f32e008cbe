"""What some functions take beyond numbers and words, as `purify` takes ``method``."""

from treepurify.engines.legendre import TermSelection
from treepurify.engines.tree.coarse_projection import CoarseProjection
from treepurify.engines.tree.routes import TreeProjection
from treepurify.grouping.sets import Sampling

__all__ = [
    "CoarseProjection",
    "Sampling",
    "TermSelection",
    "TreeProjection",
]


def __dir__() -> list[str]:
    return __all__
