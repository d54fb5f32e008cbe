"""Random families of tensors under masses that are hard to purify under."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

Subset = tuple[int, ...]

MILD = ("support", "counts", "rows")
HARD = ("decades", "clusters", "nearly copies")


@dataclass(frozen=True)
class Case:
    """Whole-number tensors and a mass, for `treepurify.purify_tensors`."""

    kind: str
    mass: np.ndarray
    tensors: dict[Subset, np.ndarray]
    intercept: np.ndarray


def draw_case(seed: int) -> Case:
    """One case of a seed: up to 4 features, up to about 36 cells, 1 or 2 outputs."""
    rng = np.random.default_rng(seed)
    shape = _draw_shape(rng)
    kind = str(rng.choice(MILD + HARD))
    mass = _draw_mass(rng, kind, shape)
    n_outputs = int(rng.integers(1, 3))
    every = [s for n in range(1, len(shape) + 1) for s in combinations(range(len(shape)), n)]
    chosen = [s for s in every if rng.random() < 0.4]
    if rng.random() < 0.6 or not chosen:
        chosen = [*{*chosen, every[-1]}]
    tensors = {}
    for subset in chosen:
        own = (*(shape[j] for j in subset), n_outputs)
        values = rng.integers(-4, 5, size=own) * (rng.random(own) < rng.choice([0.2, 1.0]))
        # Those of the largest subset are sometimes zero: then only its mass counts.
        tensors[subset] = values.astype(float) * (rng.random() < 0.9)
    return Case(kind, mass, tensors, rng.integers(-3, 4, size=n_outputs).astype(float))


def draw_support(seed: int) -> np.ndarray:
    """Draw equal masses on some cells of 3 or 4 features, on about half of them most often."""
    rng = np.random.default_rng(seed)
    order = 3 if rng.random() < 0.9 else 4
    shape = tuple(int(size) for size in rng.integers(2, 5 if order == 3 else 4, size=order))
    mass = (rng.random(shape) < rng.uniform(0.25, 0.75)).astype(float)
    mass.flat[rng.integers(mass.size)] = 1.0
    return mass


def _draw_shape(rng: np.random.Generator) -> tuple[int, ...]:
    order = int(rng.choice([1, 2, 3, 4], p=[0.04, 0.4, 0.5, 0.06]))
    highest = {1: 7, 2: 7, 3: 5, 4: 3}[order]
    while True:
        shape = tuple(int(size) for size in rng.integers(1 + (rng.random() < 0.9), highest, order))
        if np.prod(shape) <= 36:
            return shape


def _draw_mass(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    there = rng.random(shape) < rng.uniform(0.25, 1.0)
    if kind == "support":
        mass = there.astype(float)
    elif kind == "counts":
        mass = rng.integers(0, 6, size=shape).astype(float)
    elif kind == "rows":
        mass = np.zeros(shape)
        rows = rng.integers(0, shape, size=(int(rng.integers(1, 30)), len(shape)))
        np.add.at(mass, tuple(rows.T), 1.0)
    elif kind == "decades":
        mass = there * 2.0 ** -rng.integers(0, int(rng.choice([8, 24, 60])), size=shape)
    else:
        mass = _draw_linked(rng, kind, shape)
    if not mass.any():
        mass.flat[rng.integers(mass.size)] = 1.0
    return mass


def _draw_linked(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    """Cells whose levels are of one cluster hold the mass, the others next to none of it."""
    if kind == "clusters":
        labels = [rng.integers(0, 2, size=size) for size in shape]
    else:
        labels = [np.arange(size) for size in shape]
    grid = np.meshgrid(*labels, indexing="ij")
    same = np.all([own == grid[0] for own in grid], axis=0)
    link = 2.0 ** -int(rng.integers(4, 58))
    linked = rng.random(shape) < rng.uniform(0.0, 0.6)
    return rng.integers(1, 5, size=shape) * np.where(same, 1.0, link * linked)
