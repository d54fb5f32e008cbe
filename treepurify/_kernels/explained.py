"""Add up tables on rows, and how much they explain of a function there."""

import numpy as np

from treepurify._kernels.compiling import kernel


# Sums in the order that fills the registers; the same in every run.
@kernel(fastmath={"reassoc", "contract"})
def add_tables(
    codes,
    features,
    steps,
    feature_starts,
    tables,
    cell_starts,
    first,
    last,
    weighted,
    index,
    part,
    sums,
    covariances,
):
    """Add the values of tables on the rows ``first:last`` to `sums`, and the covariance of each.

    Table t stands from ``cell_starts[t]`` on in `tables` (n_outputs, n_cells). The cell of a row is
    there the sum of ``steps[i] * codes[features[i], row]`` for i from ``feature_starts[t]`` to
    ``feature_starts[t + 1]``. `weighted` has shape (n_outputs, n_rows), `sums` only these rows, and
    the covariances (n_tables, n_outputs): the sums over the rows of the values times `weighted`.
    `index` and `part` are workspace, of as many rows as the cache holds.
    """
    for t in range(len(cell_starts)):
        for start in range(first, last, len(index)):
            stop = start + len(index) if start + len(index) < last else last
            n = stop - start
            for k in range(n):
                index[k] = 0
            for i in range(feature_starts[t], feature_starts[t + 1]):
                cells, step = codes[features[i], start:stop], steps[i]
                for k in range(n):
                    index[k] += step * np.uint32(cells[k])
            for output in range(len(sums)):
                values = tables[output, cell_starts[t] :]
                own, weights = sums[output, start - first :], weighted[output, start:stop]
                for k in range(n):
                    part[k] = values[index[k]]
                total = 0.0
                for k in range(n):
                    own[k] += part[k]
                    total += weights[k] * part[k]
                covariances[t, output] += total
