"""Rows in the cells of two normal scores of which the second is freed of the first."""

import numpy as np

from treepurify._kernels.compiling import kernel


@kernel
def add_score_cells(first, cells, second, known, slope, scale, ends, starts, finest, shares, table):
    """Add the share of each known row to the cell of its two scores.

    The second score counts as ``scale * (second - slope * first)``; `cells` has the cell of the
    first. `ends` are the ends between cells, and ``starts[k]`` is the first cell that reaches
    beyond the k-th of equal steps, `finest` to a unit, which lie around zero.
    """
    middle = len(starts) // 2
    for row in range(len(first)):
        if not known[row]:
            continue
        score = scale * (second[row] - slope * first[row])
        # `min` and `max` would each take long to compile.
        step = np.int64(score * finest + middle)
        if step < 0:
            step = np.int64(0)
        elif step >= len(starts):
            step = np.int64(len(starts) - 1)
        cell = starts[step]
        while cell < len(ends) and ends[cell] <= score:
            cell += 1
        table[cells[row], cell] += shares[row]
