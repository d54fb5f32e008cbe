"""Take tables from what they explain on rows, and sum up how much that is."""

import numpy as np

from treepurify._kernels.compiling import kernel


# Sums in the order that fills the registers; the same in every run.
@kernel(fastmath={"reassoc", "contract"})
def take_off(codes, features, steps, table, first, last, weighted, index, part, rest, covariance):
    """Take the values of a table on the rows ``first:last`` from `rest`, and add their covariance.

    The cell of a row is the sum of ``steps[i] * codes[features[i], row]``. `table` has shape
    (n_outputs, n_cells), and `rest` and `weighted` (n_outputs, n_rows). The covariance is the sum
    over the rows of the values times `weighted`. `index` and `part` are room for as many rows as
    stay near the processor.
    """
    for start in range(first, last, len(index)):
        stop = start + len(index) if start + len(index) < last else last
        n = stop - start
        for k in range(n):
            index[k] = 0
        for i in range(len(features)):
            cells, step = codes[features[i], start:stop], steps[i]
            for k in range(n):
                index[k] += step * np.uint32(cells[k])
        for output in range(len(rest)):
            values = table[output]
            left, weights = rest[output, start:stop], weighted[output, start:stop]
            for k in range(n):
                part[k] = values[index[k]]
            total = 0.0
            for k in range(n):
                left[k] -= part[k]
                total += weights[k] * part[k]
            covariance[output] += total
