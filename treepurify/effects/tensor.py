"""An effect tensor: the part of a model that depends on one subset of the features."""

from typing import NamedTuple

from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.typing import Array


class EffectTensor(NamedTuple):
    """Effect of one subset of features in every cell of its axes.

    Parameters
    ----------
    subset : tuple of int
        Features, increasing.
    axes : tuple of FeatureAxis
        The axes, one per feature.
    values : ndarray of float64, shape (cells..., n_outputs)
        Effect on the margin scale.
    """

    subset: Subset
    axes: tuple[FeatureAxis, ...]
    values: Array


class EffectTensors(NamedTuple):
    """A model as an intercept plus effect tensors: their sum is the margin.

    Parameters
    ----------
    intercept : ndarray of float64, shape (n_outputs,)
        Constant part.
    tensors : dict of tuple of int to EffectTensor
        Ordered by size of the subset, then by feature.
    """

    intercept: Array
    tensors: dict[Subset, EffectTensor]
