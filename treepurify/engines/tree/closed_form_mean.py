"""The functional ANOVA of leaf boxes under independent features, in closed form."""

import numpy as np
import numpy.typing as npt

from treepurify.effects.accumulate import LeafBoxes

__all__ = ["centred", "closed_form_mean"]

Array = npt.NDArray[np.float64]


def centred(values: Array, margins: list[Array]) -> Array:
    """Take the conditional means out of a tensor along every axis.

    Under independence the component of S of a leaf with value v and box probabilities p is
    ``v * prod_{i in S} (1_i - p_i) * prod_{j not in S} p_j``: no solve, at any depth. Leaves
    are summed before the products are multiplied out, as conditional expectations given S,
    and centring the sum along each axis multiplies them out for all leaves at once.

    Parameters
    ----------
    values : ndarray of shape (cells..., n_outputs)
        Conditional expectation given the features of the axes.
    margins : list of ndarray
        Mass of the cells along each axis.
    """
    for axis, margin in enumerate(margins):
        # Twice: the second pass takes out what rounding left in the first.
        for _ in range(2):
            mean = np.tensordot(values, margin, axes=(axis, 0))
            values = values - np.expand_dims(mean, axis)
    return values


def closed_form_mean(boxes: LeafBoxes, probability: Array, n_outputs: int) -> Array:
    """Return the expectation of the trees: each leaf's value times its box's probability."""
    weight = np.ones(len(boxes.values))
    leaf = np.repeat(np.arange(len(weight)), np.diff(boxes.entry_ptr))
    np.multiply.at(weight, leaf, probability)
    weight[boxes.leaf_subset < 0] = 0.0
    mean = np.zeros(n_outputs)
    scalar = boxes.output >= 0
    np.add.at(mean, boxes.output[scalar], weight[scalar] * boxes.values[scalar, 0])
    if not scalar.all():
        mean += weight[~scalar] @ boxes.values[~scalar]
    return mean
