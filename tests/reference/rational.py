"""Purification in rational arithmetic: no rounding, for tables of a few dozen cells.

Tables are mappings from a cell, a tuple of levels, to a number. Only cells with mass are there.
"""

from collections.abc import Iterable
from fractions import Fraction
from itertools import combinations
from math import lcm

import numpy as np

Cell = tuple[int, ...]
Subset = tuple[int, ...]
Numbers = list[Fraction]
Table = dict[Cell, Numbers]


def eliminate(rows: list[list[Fraction]], n_columns: int) -> tuple[list[list[int]], list[int]]:
    """Row echelon form in whole numbers (Bareiss), and the columns of its pivots."""
    scaled = []
    for row in rows:
        common = lcm(*(Fraction(entry).denominator for entry in row))
        scaled.append([int(entry * common) for entry in row])
    pivots: list[int] = []
    previous = 1
    for column in range(n_columns):
        top = len(pivots)
        found = next((r for r in range(top, len(scaled)) if scaled[r][column]), None)
        if found is None:
            continue
        scaled[top], scaled[found] = scaled[found], scaled[top]
        head = scaled[top]
        pivot = head[column]
        for r in range(top + 1, len(scaled)):
            factor = scaled[r][column]
            scaled[r] = [
                (pivot * a - factor * b) // previous for a, b in zip(scaled[r], head, strict=True)
            ]
        previous = pivot
        pivots.append(column)
    return scaled[: len(pivots)], pivots


def rank(rows: list[list[int]]) -> int:
    """Rank over the rational numbers."""
    return len(eliminate(rows, len(rows[0]))[1]) if rows else 0


def solve(system: list[list[Fraction]], right: list[Numbers]) -> list[Numbers]:
    """Solve a consistent system for several right sides; free unknowns are zero."""
    n, n_right = len(system[0]), len(right[0])
    rows, pivots = eliminate([a + b for a, b in zip(system, right, strict=True)], n)
    solution = [[Fraction(0)] * n_right for _ in range(n)]
    for row, pivot in zip(reversed(rows), reversed(pivots), strict=True):
        used = [k for k in pivots if k > pivot]
        solution[pivot] = [
            (row[n + o] - sum(row[k] * solution[k][o] for k in used)) / Fraction(row[pivot])
            for o in range(n_right)
        ]
    return solution


def margin(mass: dict[Cell, Fraction], kept: Iterable[int]) -> dict[Cell, Fraction]:
    """Mass of the cells with mass on the given axes."""
    kept = tuple(kept)
    found: dict[Cell, Fraction] = {}
    for cell, own in mass.items():
        part = tuple(cell[i] for i in kept)
        found[part] = found.get(part, Fraction(0)) + own
    return found


def read_mass(mass: np.ndarray) -> dict[Cell, Fraction]:
    """Cells with mass of a joint table, with a total of one."""
    cells = {c: Fraction(float(mass[c])) for c in np.ndindex(mass.shape) if mass[c] > 0}
    total = sum(cells.values())
    return {cell: own / total for cell, own in cells.items()}


def project_off(values: Table, mass: dict[Cell, Fraction]) -> tuple[Table, list[Table]]:
    """The pure table and the parts moved out of it, those of least norm in L2 of the margins.

    With the normal equations N p = r and the mass G of the slices, the part of least norm is
    p = G^-1 N q for any q that solves N G^-1 N q = r.
    """
    order = len(next(iter(mass)))
    slices = [(i, cell) for i in range(order) for cell in margin(mass, _without(order, i))]
    number = {own: k for k, own in enumerate(slices)}
    n, n_outputs = len(slices), len(next(iter(values.values())))
    normal = [[Fraction(0)] * n for _ in range(n)]
    right = [[Fraction(0)] * n_outputs for _ in range(n)]
    members = {c: [number[i, c[:i] + c[i + 1 :]] for i in range(order)] for c in mass}
    for cell, own in mass.items():
        for s in members[cell]:
            for t in members[cell]:
                normal[s][t] += own
            right[s] = [a + own * b for a, b in zip(right[s], values[cell], strict=True)]
    scaled = [[entry / normal[s][s] for entry in normal[s]] for s in range(n)]
    square = [
        [sum(normal[s][k] * scaled[k][t] for k in range(n) if normal[s][k]) for t in range(n)]
        for s in range(n)
    ]
    chosen = solve(square, right)
    parts = [
        [sum(scaled[s][k] * chosen[k][o] for k in range(n)) for o in range(n_outputs)]
        for s in range(n)
    ]
    pure = {
        cell: [values[cell][o] - sum(parts[s][o] for s in members[cell]) for o in range(n_outputs)]
        for cell in mass
    }
    moved: list[Table] = [{} for _ in range(order)]
    for (axis, cell), part in zip(slices, parts, strict=True):
        moved[axis][cell] = part
    return pure, moved


def purify(
    tensors: dict[Subset, np.ndarray], mass: np.ndarray, intercept: np.ndarray
) -> dict[Subset, Table]:
    """Pure effects on the cells with mass, the intercept under ()."""
    joint = read_mass(mass)
    effects: dict[Subset, Table] = {}
    for subset in closure(tensors):
        own = margin(joint, subset)
        values = tensors.get(subset)
        effects[subset] = {
            cell: [Fraction(0)] * len(intercept)
            if values is None
            else [Fraction(float(v)) for v in values[cell]]
            for cell in own
        }
    effects[()] = {(): [Fraction(float(v)) for v in intercept]}
    for subset in sorted(closure(tensors), key=len, reverse=True):
        effects[subset], moved = project_off(effects[subset], margin(joint, subset))
        for axis, part in enumerate(moved):
            below = effects[subset[:axis] + subset[axis + 1 :]]
            for cell, entry in part.items():
                below[cell] = [a + b for a, b in zip(below[cell], entry, strict=True)]
    return effects


def closure(subsets: Iterable[Subset]) -> list[Subset]:
    """All non-empty subsets of the given ones."""
    found = {p for s in subsets for n in range(1, len(s) + 1) for p in combinations(s, n)}
    return sorted(found, key=lambda subset: (len(subset), subset))


def undetermined(mass: np.ndarray) -> int:
    """Dimension of the pure effects of fewer features whose sum no cell with mass shows.

    A pure effect of v is a function on its n_v cells with mass, orthogonal to the r_v
    dimensions of functions of fewer features there. Those of all v inside u have
    sum(n_v - r_v) dimensions together, of which the cells of u see r_u.
    """
    joint = read_mass(mass)
    everything = tuple(range(mass.ndim))
    total = 1
    for subset in closure([everything])[:-1]:
        cells = margin(joint, subset)
        total += len(cells) - rank_of_fewer(cells)
    return total - rank_of_fewer(joint)


def rank_of_fewer(cells: Iterable[Cell]) -> int:
    """Rank, on the given cells, of the functions of one feature fewer."""
    cells = [*cells]
    order = len(cells[0])
    number: dict[tuple[int, Cell], int] = {}
    members = [
        [number.setdefault((i, c[:i] + c[i + 1 :]), len(number)) for i in range(order)]
        for c in cells
    ]
    return rank([[int(k in own) for k in range(len(number))] for own in members])


def _without(order: int, axis: int) -> Cell:
    return tuple(i for i in range(order) if i != axis)
