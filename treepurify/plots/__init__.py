"""Figures of decompositions, drawn with matplotlib.

Every function returns the axes it drew on; nothing is shown or saved. Without ``ax`` a new
figure is made through pyplot, so that notebooks and ``matplotlib.pyplot.show`` display it.
"""

from treepurify.plots.importances import importance
from treepurify.plots.main_effects import main_effect
from treepurify.plots.pairs import pair

__all__ = ["importance", "main_effect", "pair"]
