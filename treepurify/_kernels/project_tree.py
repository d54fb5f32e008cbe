"""Passes over rows for the projection of one tree by conjugate gradients."""

import numpy as np

from treepurify._kernels.compiling import kernel


@kernel
def term_entries(cells, features, strides, base, entries):
    """Write the entry of each term's table that each row falls into, once for all steps.

    ``features[t, s]`` is the column of `cells` along axis s of term t, -1 behind the last.
    """
    for row in range(cells.shape[0]):
        for term in range(features.shape[0]):
            entry = base[term]
            for slot in range(features.shape[1]):
                if features[term, slot] < 0:
                    break
                entry += cells[row, features[term, slot]] * strides[term, slot]
            entries[row, term] = entry


@kernel
def gather(entries, scores, weights, size):
    """Return the sum of the weighted scores of the rows in each entry of every term's table."""
    table = np.zeros(size)
    for row in range(entries.shape[0]):
        score = scores[row] * weights[row]
        for term in range(entries.shape[1]):
            table[entries[row, term]] += score
    return table


@kernel
def rows_image(entries, table, weights):
    """Return, for each entry, the weighted sum over its rows of the values of all terms.

    One pass over the entries; eight sums run side by side since one would wait for itself.
    """
    image = np.zeros(len(table))
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
    return image
