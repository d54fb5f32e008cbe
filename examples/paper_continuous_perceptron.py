"""
A perceptron and its DeepSHAP values
====================================

Lundberg and Lee (2017) propagate differences from a background row through a network with the
rescale rule of DeepLIFT (Shrikumar et al. 2017): a linear layer multiplies by its weights, a ReLU
by the ratio of the differences behind and before it. Values are means over background rows, and add
up to the prediction less the mean prediction of the background. In NumPy, so that no library of
networks is needed; ``shap.DeepExplainer`` gives the same values of the same network in PyTorch.
"""

from dataclasses import dataclass

import numpy as np

# Where less than this comes in, the slope of the ReLU takes the place of the ratio, as in shap.
NO_DIFFERENCE = 1e-6
# Pairs of a row and a background row that are propagated at a time.
PAIRS = 20_000


@dataclass(frozen=True, eq=False)
class Perceptron:
    """Layers with a ReLU between them, and one output.

    Parameters
    ----------
    weights : tuple of ndarray
        Shape (n_in, n_out) each.
    offsets : tuple of ndarray
        Shape (n_out,) each.
    """

    weights: tuple[np.ndarray, ...]
    offsets: tuple[np.ndarray, ...]

    def before_relu(self, rows: np.ndarray) -> list[np.ndarray]:
        """Return what enters each ReLU, and the output as the last."""
        found, layer = [], rows
        for weights, offsets in zip(self.weights, self.offsets, strict=True):
            found.append(layer @ weights + offsets)
            layer = np.maximum(found[-1], 0.0)
        return found

    def values(self, rows: np.ndarray) -> np.ndarray:
        """Return the output, shape (n_rows,)."""
        return self.before_relu(rows)[-1][:, 0]

    def in_units_of(
        self, centre: np.ndarray, spread: np.ndarray, constant: float, factor: float
    ) -> "Perceptron":
        """Return ``constant + factor * f((rows - centre) / spread)`` as a network."""
        first = self.weights[0] / spread[:, None]
        weights = [first, *self.weights[1:]]
        offsets = [self.offsets[0] - centre @ first, *self.offsets[1:]]
        weights[-1] = weights[-1] * factor
        offsets[-1] = offsets[-1] * factor + constant
        return Perceptron(tuple(weights), tuple(offsets))


def deep_shap(network: Perceptron, rows: np.ndarray, background: np.ndarray) -> np.ndarray:
    """Return DeepSHAP values, shape (n_rows, n_features).

    Parameters
    ----------
    network : Perceptron
        What is explained.
    rows, background : ndarray of shape (n_rows, n_features) and (n_background, n_features)
        Where it is explained, and what that is compared with.
    """
    step = max(PAIRS // len(background), 1)
    reference = network.before_relu(background)[:-1]
    parts = (rows[start : start + step] for start in range(0, len(rows), step))
    return np.concatenate([_propagated(network, part, background, reference) for part in parts])


def _propagated(
    network: Perceptron, rows: np.ndarray, background: np.ndarray, reference: list[np.ndarray]
) -> np.ndarray:
    own = network.before_relu(rows)[:-1]
    last = network.weights[-1][:, 0]
    multipliers = np.broadcast_to(last, (len(rows), len(background), len(last)))
    for layer in reversed(range(len(own))):
        before, other = own[layer][:, None, :], reference[layer][None, :, :]
        difference = before - other
        behind = np.maximum(before, 0.0) - np.maximum(other, 0.0)
        is_large = np.abs(difference) > NO_DIFFERENCE
        ratio = behind / np.where(is_large, difference, 1.0)
        slope = np.where(is_large, ratio, before > 0)
        multipliers = (multipliers * slope) @ network.weights[layer].T
    of_background = np.einsum("nbj,bj->nj", multipliers, background) / len(background)
    return rows * multipliers.mean(axis=1) - of_background
