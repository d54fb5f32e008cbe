"""Figures of decompositions, drawn with matplotlib.

Every function returns the axes it drew on; nothing is shown or saved. Without ``ax`` a new
figure is made through pyplot, so that notebooks and ``matplotlib.pyplot.show`` display it.
"""

from treepurify.plots.audits import finding
from treepurify.plots.beeswarm import beeswarm
from treepurify.plots.comparisons import comparison
from treepurify.plots.h_statistics import h_statistics
from treepurify.plots.importances import importance
from treepurify.plots.main_effects import main_effect
from treepurify.plots.mean_differences import mean_difference
from treepurify.plots.monotonicity import monotonicity
from treepurify.plots.network import network
from treepurify.plots.overlays import overlay
from treepurify.plots.pair_lines import pair_lines
from treepurify.plots.pairs import pair
from treepurify.plots.profiles import profile
from treepurify.plots.rows import waterfall
from treepurify.plots.simplification import simplification
from treepurify.plots.summaries import summary
from treepurify.plots.together import together
from treepurify.plots.weak_spots import weak_spots
from treepurify.plots.worth import worth

__all__ = [
    "beeswarm",
    "comparison",
    "finding",
    "h_statistics",
    "importance",
    "main_effect",
    "mean_difference",
    "monotonicity",
    "network",
    "overlay",
    "pair",
    "pair_lines",
    "profile",
    "simplification",
    "summary",
    "together",
    "waterfall",
    "weak_spots",
    "worth",
]


def __dir__() -> list[str]:
    return __all__
