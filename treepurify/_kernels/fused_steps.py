"""Steps that come nearer to each other until little of their total variation is left."""

import numpy as np

from treepurify._kernels.compiling import kernel


@kernel
def fuse_steps(values, weights, share):
    """Bring the total variation of each column down to a share of what it was, in place.

    For growing `penalty` the minimiser of ``sum of weights (u - values)^2 / 2 + penalty * total
    variation of u`` moves on straight lines, and neighbours that have met stay together: so the
    one with the wanted variation is reached in as many steps as there are rows.

    `values` has shape (n_cells, n_columns), and so have the positive `weights`.
    """
    n_cells, n_columns = values.shape
    level = np.empty(n_cells)
    weight = np.empty(n_cells)
    slope = np.empty(n_cells)
    first = np.empty(n_cells + 1, dtype=np.int64)
    for column in range(n_columns):
        count = 0
        for cell in range(n_cells):
            if count > 0 and level[count - 1] == values[cell, column]:
                weight[count - 1] += weights[cell, column]
                continue
            level[count] = values[cell, column]
            weight[count] = weights[cell, column]
            first[count] = cell
            count += 1
        variation, largest = 0.0, 0.0
        for step in range(count):
            largest = max(largest, abs(level[step]))
            if step > 0:
                variation += abs(level[step] - level[step - 1])
        met = 1e-13 * largest
        target = share * variation
        while count > 1 and variation > target:
            for step in range(count):
                pull = 0.0
                if step > 0:
                    pull += 1.0 if level[step - 1] > level[step] else -1.0
                if step < count - 1:
                    pull += 1.0 if level[step + 1] > level[step] else -1.0
                slope[step] = pull / weight[step]
            shortest = np.inf
            rate = 0.0
            for step in range(count - 1):
                gap = level[step + 1] - level[step]
                closing = slope[step] - slope[step + 1]
                rate += closing if gap > 0 else -closing
                if gap * closing > 0 and gap / closing < shortest:
                    shortest = gap / closing
            if rate * shortest >= variation - target:
                shortest = (variation - target) / rate
                for step in range(count):
                    level[step] += shortest * slope[step]
                break
            kept = 0
            variation = 0.0
            for step in range(count):
                moved = level[step] + shortest * slope[step]
                if kept > 0 and abs(moved - level[kept - 1]) <= met:
                    weight[kept - 1] += weight[step]
                    continue
                level[kept] = moved
                weight[kept] = weight[step]
                first[kept] = first[step]
                if kept > 0:
                    variation += abs(level[kept] - level[kept - 1])
                kept += 1
            count = kept
        first[count] = n_cells
        for step in range(count):
            for cell in range(first[step], first[step + 1]):
                values[cell, column] = level[step]
