"""How far effects are off because the points of a measure were drawn."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from treepurify.grids.grid import Subset
from treepurify.purification.cascade import Purified
from treepurify.typing import Array
from treepurify.weights.points import MeasurePoints
from treepurify.weights.weighting import MassTables

__all__ = ["DrawError", "draw_error"]


@dataclass(frozen=True, eq=False)
class DrawError:
    """Standard errors of effects that come from a draw of points.

    Parameters
    ----------
    intercept : ndarray of float64, shape (n_outputs,)
        That of the mean.
    effects : mapping of tuple of int to ndarray of float64, shape (n_outputs,)
        Of each component the root of the mean square over the measure.
    """

    intercept: Array
    effects: Mapping[Subset, Array]

    @property
    def largest(self) -> float:
        """The largest of them."""
        return max(float(error.max()) for error in (self.intercept, *self.effects.values()))


def draw_error(
    points: MeasurePoints, find: Callable[[MeasurePoints], Purified], mass: MassTables
) -> DrawError:
    """Return the errors, from the effects of each half of the draw.

    The halves are independent of each other, and each is half of the points: so half of the
    difference of their effects is as large as the error of the effects of both.

    Parameters
    ----------
    points : MeasurePoints
        The points, of which some were drawn.
    find : callable
        Returns the purified effects that points give.
    mass : mapping of tuple of int to ndarray of float64
        Mass of the cells of each effect.
    """
    one, two = (find(points.without_half(other)) for other in (1, 2))
    effects = {}
    for subset, table in one.effects.items():
        square = (table - two.effects[subset]) ** 2 * mass[subset][..., None]
        effects[subset] = np.sqrt(square.sum(axis=tuple(range(square.ndim - 1)))) / 2
    return DrawError(np.abs(one.intercept - two.intercept) / 2, effects)
