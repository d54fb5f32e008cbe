"""
The tabular transformer of Poker Hand
=====================================

Section B.2 of Ferrere et al.: an encoder of 3 layers on one token of dimension 32 per column, whose
320 outputs go through 64 units to the classes. With attention rollout (Abnar and Zuidema 2020),
which figure 3 compares with. Needs PyTorch; heads, widths within a layer, learning rate and passes
are ours, since the paper does not give them. Part of ``paper_categorical.py --large``.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

DIMENSION = 32
LAYERS = 3
HEADS = 4
INNER = 128
HIDDEN = 64
BATCH = 256
LEARNING_RATE = 2e-3


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained transformer's view of all rows.

    Parameters
    ----------
    probabilities : ndarray of shape (n_rows, n_classes)
        Of each class.
    rollout : ndarray of shape (n_columns,)
        Attention rollout to each column, averaged over rows and over the columns that it comes
        from; sums to one.
    """

    probabilities: np.ndarray
    rollout: np.ndarray


def is_possible() -> bool:
    """Return whether PyTorch is installed."""
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


def train(codes: np.ndarray, labels: np.ndarray, rows: np.ndarray, *, passes: int) -> Trained:
    """Train on some rows, and predict all.

    Parameters
    ----------
    codes : ndarray of int, shape (n_rows, n_columns)
        Levels, from 0 in each column.
    labels : ndarray of int, shape (n_rows,)
        Classes, from 0.
    rows : ndarray of int
        The rows to learn from.
    passes : int
        How often training goes over them.
    """
    import torch

    torch.manual_seed(0)
    starts = np.concatenate([[0], np.cumsum(codes.max(axis=0) + 1)])
    tokens = torch.tensor(codes + starts[:-1])
    classes = torch.tensor(labels, dtype=torch.long)
    network = _network(int(starts[-1]), codes.shape[1], int(labels.max()) + 1)
    optimiser = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE, weight_decay=1e-4)
    n_steps = passes * -(-len(rows) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=LEARNING_RATE, total_steps=n_steps
    )
    rng = np.random.default_rng(0)
    for _ in range(passes):
        for batch in torch.tensor(rng.permutation(rows)).split(BATCH):
            outputs, _ = network(tokens[batch])
            loss = torch.nn.functional.cross_entropy(outputs, classes[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    probabilities, attention = [], []
    network.eval()
    with torch.no_grad():
        for part in tokens.split(2000):
            outputs, weights = network(part)
            probabilities.append(torch.softmax(outputs.double(), dim=1).numpy())
            attention.append(_rollout([own.double().numpy() for own in weights]))
    rollout = np.concatenate(attention).mean(axis=(0, 1))
    return Trained(np.concatenate(probabilities), rollout)


def _rollout(weights: list[np.ndarray]) -> np.ndarray:
    """Return rollout from each column to each, by row: half of each layer is the skip."""
    found = np.eye(weights[0].shape[-1])
    for own in weights:
        found = (0.5 * own + 0.5 * np.eye(own.shape[-1])) @ found
    return found


def _network(n_tokens: int, n_columns: int, n_classes: int) -> Any:
    import torch
    from torch import nn

    class Layer(nn.Module):
        """Attention and two dense layers, with what is attended to."""

        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(DIMENSION, HEADS, batch_first=True)
            self.norms = nn.ModuleList([nn.LayerNorm(DIMENSION) for _ in range(2)])
            self.dense = nn.Sequential(
                nn.Linear(DIMENSION, INNER), nn.GELU(), nn.Linear(INNER, DIMENSION)
            )

        def forward(self, x: Any) -> Any:
            own = self.norms[0](x)
            attended, weights = self.attention(own, own, own)
            x = x + attended
            return x + self.dense(self.norms[1](x)), weights

    class Network(nn.Module):
        """Tokens to classes, and the attention of each layer."""

        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(n_tokens, DIMENSION)
            self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
            self.head = nn.Sequential(
                nn.Linear(n_columns * DIMENSION, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, n_classes)
            )

        def forward(self, tokens: Any) -> Any:
            x, attention = self.embedding(tokens), []
            for layer in self.layers:
                x, weights = layer(x)
                attention.append(weights)
            return self.head(torch.flatten(x, 1)), attention

    return Network()
