"""
A perceptron with dropout
=========================

Section D.2 of Ferrere et al.: layers of 128, 64 and 32 units, dropout after each, Adam with a
weight decay, and training that ends when the held-out loss has not fallen for 30 epochs. In NumPy,
as PyTorch would train it: weights and offsets start from its uniform draws, and the weight
decay is a part of the gradient.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from examples.paper_continuous_descent import Schedule, descend, loss
from examples.paper_continuous_perceptron import Perceptron

HIDDEN = (128, 64, 32)
DROPOUT = 0.1
LEARNING_RATE = 1e-3
WEIGHT_DECAY = 1e-4
BATCH = 256
PATIENCE = 30
MOST_EPOCHS = 500


@dataclass(frozen=True, eq=False)
class Trained:
    """A perceptron as its training went on.

    Parameters
    ----------
    at : mapping of int to Perceptron
        The network after some epochs.
    best : Perceptron
        The one with the least held-out loss.
    best_epoch, last_epoch : int
        Epochs after which that was, and after which training ended.
    """

    at: Mapping[int, Perceptron]
    best: Perceptron
    best_epoch: int
    last_epoch: int


def train(
    X: np.ndarray,
    y: np.ndarray,
    held_out: np.ndarray,
    held_out_y: np.ndarray,
    *,
    is_binary: bool,
    seed: int,
    most_epochs: int = MOST_EPOCHS,
    keep: Sequence[int] = (),
) -> Trained:
    """Train by Adam until the held-out loss has not fallen for `PATIENCE` epochs.

    Parameters
    ----------
    X, held_out : ndarray of shape (n_rows, n_features)
        Standardised rows to learn from, and held-out rows.
    y, held_out_y : ndarray of shape (n_rows,)
        Targets: 0 and 1 for a classifier, else numbers of about unit variance.
    is_binary : bool
        Whether the loss is cross-entropy of log-odds instead of mean squared error.
    seed : int
        Seed of the first weights, of the batches and of the dropout.
    most_epochs : int
        Epochs after which training ends in any case.
    keep : sequence of int
        Epochs after which the network is kept, where training reaches them.
    """
    rng = np.random.default_rng(seed)
    X, held_out = X.astype(np.float32), held_out.astype(np.float32)
    parameters = _first_parameters(X.shape[1], rng)
    found = descend(
        parameters,
        lambda own, batch: _gradients(own, X[batch], y[batch], rng, is_binary=is_binary),
        lambda own: loss(_network(own).values(held_out), held_out_y, is_binary=is_binary),
        len(y),
        Schedule(BATCH, LEARNING_RATE, PATIENCE, most_epochs),
        rng,
        keep,
    )
    at = {epoch: _network(own) for epoch, own in found.at.items()}
    return Trained(at, _network(found.best), found.best_epoch, found.last_epoch)


def _first_parameters(n_features: int, rng: np.random.Generator) -> list[np.ndarray]:
    found = []
    for n_in, n_out in pairwise((n_features, *HIDDEN, 1)):
        limit = 1 / np.sqrt(n_in)
        for shape in ((n_in, n_out), (n_out,)):
            found.append(rng.uniform(-limit, limit, shape).astype(np.float32))
    return found


def _network(parameters: Sequence[np.ndarray]) -> Perceptron:
    return Perceptron(tuple(parameters[0::2]), tuple(parameters[1::2]))


def _gradients(
    parameters: Sequence[np.ndarray],
    X: np.ndarray,
    y: np.ndarray,
    rng: np.random.Generator,
    *,
    is_binary: bool,
) -> list[np.ndarray]:
    """Return gradients of the mean loss of a batch with dropout, and of the weight decay."""
    weights, offsets = parameters[0::2], parameters[1::2]
    layers, slopes = [X], []
    for own, offset in zip(weights[:-1], offsets[:-1], strict=True):
        before = layers[-1] @ own + offset
        kept = rng.random(before.shape, dtype=np.float32) >= DROPOUT
        # Values of units that stay are enlarged, so that their mean is that without dropout.
        slopes.append(((before > 0) & kept) / np.float32(1 - DROPOUT))
        layers.append(before * slopes[-1])
    values = (layers[-1] @ weights[-1] + offsets[-1])[:, 0]
    slope = 1 / (1 + np.exp(-values)) - y if is_binary else 2 * (values - y)
    back = (slope / len(y)).astype(np.float32)[:, None]
    found: list[np.ndarray] = []
    for number in reversed(range(len(weights))):
        found = [layers[number].T @ back, back.sum(axis=0), *found]
        if number:
            back = (back @ weights[number].T) * slopes[number - 1]
    return [gradient + WEIGHT_DECAY * own for gradient, own in zip(found, parameters, strict=True)]
