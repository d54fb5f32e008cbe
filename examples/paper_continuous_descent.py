"""
Training of networks by Adam until the held-out loss stops falling
==================================================================

What the perceptrons with dropout and the additive networks of section D.2 of Ferrere et al. share.
In NumPy. Part of ``paper_continuous.py``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Parameters = list[np.ndarray]


@dataclass(frozen=True)
class Schedule:
    """How long steps are, and when they end.

    Parameters
    ----------
    batch : int
        Number of rows in a step.
    rate : float
        Learning rate of the first epoch.
    patience : int
        Number of epochs without a smaller held-out loss after which training ends.
    most_epochs : int
        Number of epochs after which training ends in any case.
    decay : float
        Factor of the learning rate after each epoch.
    """

    batch: int
    rate: float
    patience: int
    most_epochs: int
    decay: float = 1.0


@dataclass(frozen=True, eq=False)
class Descent:
    """Parameters as training went on.

    Parameters
    ----------
    at : mapping of int to list of ndarray
        Those after some epochs.
    best : list of ndarray
        Those with the least held-out loss.
    best_epoch, last_epoch : int
        Epochs after which that was, and after which training ended.
    """

    at: Mapping[int, Parameters]
    best: Parameters
    best_epoch: int
    last_epoch: int


def descend(
    parameters: Parameters,
    gradients: Callable[[Parameters, np.ndarray], Parameters],
    held_out_loss: Callable[[Parameters], float],
    n_rows: int,
    schedule: Schedule,
    rng: np.random.Generator,
    keep: Sequence[int] = (),
) -> Descent:
    """Train by Adam until the held-out loss has not fallen for some epochs.

    Parameters
    ----------
    parameters : list of ndarray
        The first ones.
    gradients : callable
        Gradients at some parameters for a batch of row numbers.
    held_out_loss : callable
        Loss on held-out rows.
    n_rows : int
        Number of rows to learn from.
    schedule : Schedule
        How long steps are, and when they end.
    rng : Generator
        Draws the batches.
    keep : sequence of int
        Epochs after which parameters are kept, where training reaches them.
    """
    moments = [(np.zeros_like(p), np.zeros_like(p)) for p in parameters]
    at: dict[int, Parameters] = {}
    best, best_loss, best_epoch, epoch, step = parameters, np.inf, 0, 0, 0
    rate = schedule.rate
    while epoch < schedule.most_epochs and epoch - best_epoch < schedule.patience:
        order = rng.permutation(n_rows)
        for start in range(0, n_rows, schedule.batch):
            own = gradients(parameters, order[start : start + schedule.batch])
            step += 1
            parameters, moments = _adam(parameters, own, moments, step, rate)
        epoch += 1
        rate *= schedule.decay
        if epoch in keep:
            at[epoch] = parameters
        own_loss = held_out_loss(parameters)
        if own_loss < best_loss:
            best, best_loss, best_epoch = parameters, own_loss, epoch
    return Descent(at, best, best_epoch, epoch)


def loss(values: np.ndarray, y: np.ndarray, *, is_binary: bool) -> float:
    """Return the mean squared error, or the cross-entropy of log-odds."""
    if is_binary:
        return float(np.mean(np.logaddexp(0, values) - y * values))
    return float(np.mean((values - y) ** 2))


def _adam(
    parameters: Parameters,
    gradients: Parameters,
    moments: list[tuple[np.ndarray, np.ndarray]],
    step: int,
    rate: float,
) -> tuple[Parameters, list[tuple[np.ndarray, np.ndarray]]]:
    """Return parameters and moments after one step of Kingma and Ba (2014)."""
    new, kept = [], []
    for own, gradient, (first, second) in zip(parameters, gradients, moments, strict=True):
        mean = 0.9 * first + 0.1 * gradient
        square = 0.999 * second + 0.001 * gradient**2
        size = rate * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        new.append((own - size * mean / (np.sqrt(square) + 1e-8)).astype(np.float32))
        kept.append((mean, square))
    return new, kept
