"""Project one tree on functions of a few of its own features, by conjugate gradients.

A term is a table over two columns of cells. A term of one feature has the constant column as
its other column, one of three features a column that combines two of them.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def term_entries(cells, first, second, base, width, entries):
    """Write the entry of each term's table that each row falls into, once for all steps."""
    for row in range(cells.shape[0]):
        for term in range(len(first)):
            entries[row, term] = (
                base[term] + cells[row, first[term]] * width[term] + cells[row, second[term]]
            )


@njit(cache=True, nogil=True)
def _gather(entries, scores, weights, table):
    """Add the weighted score of each row to its entry of every term's table."""
    table[:] = 0.0
    for row in range(entries.shape[0]):
        score = scores[row] * weights[row]
        for term in range(entries.shape[1]):
            table[entries[row, term]] += score


@njit(cache=True, nogil=True)
def _rows_image(entries, table, weights, image):
    """Write, for each entry, the weighted sum over its rows of what all terms say of the row.

    One pass over the entries; eight sums run side by side since one would wait for itself.
    """
    image[:] = 0.0
    n_terms = entries.shape[1]
    paired = n_terms - n_terms % 8
    for row in range(entries.shape[0]):
        own = entries[row]
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        for term in range(0, paired, 8):
            a += table[own[term]] + table[own[term + 4]]
            b += table[own[term + 1]] + table[own[term + 5]]
            c += table[own[term + 2]] + table[own[term + 6]]
            d += table[own[term + 3]] + table[own[term + 7]]
        for term in range(paired, n_terms):
            a += table[own[term]]
        score = ((a + b) + (c + d)) * weights[row]
        for term in range(n_terms):
            image[own[term]] += score


@njit(cache=True, nogil=True)
def _product_image(first, second, base, width, start, margins, table, share, image):
    """Add `share` times the expectation of all terms given each term, under the margins.

    ``margins[start[c] + k]`` is the mass of cell k of column c.
    """
    given = np.zeros(start[-1])
    mean = 0.0
    own_mean = np.zeros(len(first))
    own_first = np.zeros(start[-1])
    own_second = np.zeros(start[-1])
    for sweep in range(2):
        for term in range(len(first)):
            a, b = start[first[term]], start[second[term]]
            n_a = start[first[term] + 1] - a
            n_b = start[second[term] + 1] - b
            own_first[:n_a] = 0.0
            own_second[:n_b] = 0.0
            own = 0.0
            for i in range(n_a):
                for k in range(n_b):
                    entry = table[base[term] + i * width[term] + k]
                    own_first[i] += margins[b + k] * entry
                    own_second[k] += margins[a + i] * entry
                    own += margins[a + i] * margins[b + k] * entry
            if sweep == 0:
                own_mean[term] = own
                mean += own
                for i in range(n_a):
                    given[a + i] += own_first[i] - own
                for k in range(n_b):
                    given[b + k] += own_second[k] - own
                continue
            for i in range(n_a):
                for k in range(n_b):
                    at = base[term] + i * width[term] + k
                    # What other terms say of either column, and of neither.
                    others = mean - own
                    others += given[a + i] - (own_first[i] - own)
                    others += given[b + k] - (own_second[k] - own)
                    image[at] += share * margins[a + i] * margins[b + k] * (others + table[at])


@njit(cache=True, nogil=True)
def project_on_terms(
    entries,
    first,
    second,
    base,
    width,
    start,
    margins,
    share,
    target,
    weights,
    right_side,
    tolerance,
    most_steps,
):
    """Fit a sum of term tables by weighted least squares, from zero.

    The measure mixes the weighted rows with ``share`` of the product of the margins;
    `right_side` holds the latter's part of the inner products of the target with the terms'
    cells. Jacobi preconditioning makes the limit the solution of least norm under the mass.

    Returns the tables, the number of steps, and the norm of the last preconditioned residual
    relative to the first.
    """
    size = base[-1]
    mass = np.zeros(size)
    residual = np.zeros(size)
    _gather(entries, np.ones(len(target)), weights, mass)
    _gather(entries, target, weights, residual)
    residual += right_side
    if share > 0.0:
        for term in range(len(first)):
            a, b = start[first[term]], start[second[term]]
            for i in range(start[first[term] + 1] - a):
                for k in range(start[second[term] + 1] - b):
                    at = base[term] + i * width[term] + k
                    mass[at] += share * margins[a + i] * margins[b + k]
    inverse = np.zeros(size)
    for at in range(size):
        if mass[at] > 0.0:
            inverse[at] = 1.0 / mass[at]
    table = np.zeros(size)
    image = np.zeros(size)
    direction = inverse * residual
    energy = (residual * direction).sum()
    first_energy = energy
    steps = 0
    while steps < most_steps and energy > tolerance * tolerance * first_energy:
        _rows_image(entries, direction, weights, image)
        if share > 0.0:
            _product_image(first, second, base, width, start, margins, direction, share, image)
        curvature = (direction * image).sum()
        if curvature <= 0.0:
            break
        length = energy / curvature
        table += length * direction
        residual -= length * image
        preconditioned = inverse * residual
        renewed = (residual * preconditioned).sum()
        direction = preconditioned + renewed / energy * direction
        energy = renewed
        steps += 1
    relative = np.sqrt(energy / first_energy) if first_energy > 0.0 else 0.0
    return table, steps, relative
