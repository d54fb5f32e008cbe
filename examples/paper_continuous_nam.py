"""
Neural Additive Models
======================

Section D.2 of Ferrere et al.: one small network per feature, trained together, so that the model is
a sum of curves. In NumPy, since no other model here needs a library of networks. What differs from
the paper: weights start from normal draws of He's variance, and the penalty on outputs is the mean
square of the curves.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from examples.paper_continuous_descent import Schedule, descend, loss

WIDTHS = (1, 64, 64, 32, 1)
LEARNING_RATE = 6.74e-3
DECAY = 0.995
WEIGHT_DECAY = 1e-6
OUTPUT_PENALTY = 1e-3
BATCH = 1024
PATIENCE = 50

Layer = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class AdditiveNetwork:
    """One network per feature and a constant.

    Parameters
    ----------
    layers : tuple of (weights, offsets)
        Weights of shape (n_features, n_in, n_out), offsets of shape (n_features, 1, n_out).
    constant : float
        Added to the sum of the curves.
    centre, spread : ndarray of shape (n_features,)
        Features are standardised by these.
    """

    layers: tuple[Layer, ...]
    constant: float
    centre: np.ndarray
    spread: np.ndarray

    def curves(self, X: np.ndarray) -> np.ndarray:
        """Return the part of each feature, shape (n_rows, n_features)."""
        scaled = ((X - self.centre) / self.spread).astype(np.float32)
        return _forward(self.layers, scaled)[-1][:, :, 0].T.astype(np.float64)

    def values(self, X: np.ndarray) -> np.ndarray:
        """Return the sum, shape (n_rows,): log-odds of a classifier."""
        return self.constant + self.curves(X).sum(axis=1)


def train(
    X: np.ndarray,
    y: np.ndarray,
    held_out: np.ndarray,
    held_out_y: np.ndarray,
    *,
    is_binary: bool,
    seed: int,
    most_epochs: int = 1000,
) -> AdditiveNetwork:
    """Train by Adam until the held-out loss has not fallen for `PATIENCE` epochs.

    Parameters
    ----------
    X, held_out : ndarray of shape (n_rows, n_features)
        Rows to learn from, and held-out rows.
    y, held_out_y : ndarray of shape (n_rows,)
        Targets: 0 and 1 for a classifier, else numbers of about unit variance.
    is_binary : bool
        Whether the loss is cross-entropy instead of mean squared error.
    seed : int
        Seed of the first weights and of the batches.
    most_epochs : int
        Epochs after which training ends in any case.
    """
    rng = np.random.default_rng(seed)
    centre, spread = X.mean(axis=0), X.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    scaled, new = ((rows - centre) / spread for rows in (X, held_out))
    scaled, new = scaled.astype(np.float32), new.astype(np.float32)
    parameters = _first_parameters(X.shape[1], rng)
    # The constant is trained with the rest; it stands last.
    parameters.append(np.zeros(1, dtype=np.float32))
    found = descend(
        parameters,
        lambda own, batch: _gradients(own, scaled[batch], y[batch], is_binary=is_binary),
        lambda own: loss(_sum(own, new), held_out_y, is_binary=is_binary),
        len(y),
        Schedule(BATCH, LEARNING_RATE, PATIENCE, most_epochs, DECAY),
        rng,
    )
    return AdditiveNetwork(_layers(found.best), float(found.best[-1][0]), centre, spread)


def _first_parameters(n_features: int, rng: np.random.Generator) -> list[np.ndarray]:
    found = []
    for n_in, n_out in pairwise(WIDTHS):
        weights = rng.normal(scale=np.sqrt(2 / n_in), size=(n_features, n_in, n_out))
        found += [weights.astype(np.float32), np.zeros((n_features, 1, n_out), np.float32)]
    # Offsets of the first layer place the kinks of its units over the range of the feature.
    found[1] = rng.normal(size=found[1].shape).astype(np.float32)
    return found


def _layers(parameters: list[np.ndarray]) -> tuple[Layer, ...]:
    return tuple(zip(parameters[0:-1:2], parameters[1:-1:2], strict=True))


def _forward(layers: tuple[Layer, ...], X: np.ndarray) -> list[np.ndarray]:
    """Return the input and the values of every layer, shape (n_features, n_rows, width)."""
    values = [np.ascontiguousarray(X.T)[:, :, None]]
    for number, (weights, offsets) in enumerate(layers):
        following = values[-1] @ weights + offsets
        values.append(following if number == len(layers) - 1 else np.maximum(following, 0))
    return values


def _sum(parameters: list[np.ndarray], X: np.ndarray) -> np.ndarray:
    return _forward(_layers(parameters), X)[-1][:, :, 0].sum(axis=0) + parameters[-1]


def _gradients(
    parameters: list[np.ndarray], X: np.ndarray, y: np.ndarray, *, is_binary: bool
) -> list[np.ndarray]:
    layers = _layers(parameters)
    values = _forward(layers, X)
    outputs = values[-1][:, :, 0]
    total = outputs.sum(axis=0) + parameters[-1]
    slope = 1 / (1 + np.exp(-total)) - y if is_binary else 2 * (total - y)
    slope = (slope / len(y)).astype(np.float32)
    back = slope + OUTPUT_PENALTY * 2 * outputs / outputs.size
    back = back[:, :, None].astype(np.float32)
    found: list[np.ndarray] = [np.array([slope.sum()], dtype=np.float32)]
    for number in reversed(range(len(layers))):
        weights = layers[number][0]
        before = values[number]
        own = before.transpose(0, 2, 1) @ back + WEIGHT_DECAY * weights
        found = [own, back.sum(axis=1, keepdims=True), *found]
        if number:
            back = (back @ weights.transpose(0, 2, 1)) * (before > 0)
    return found
