"""Values between nodes."""

import numpy as np

from treepurify._kernels.compiling import kernel


@kernel
def interpolate_pair(values, first, second, total):
    """Fill `total` with values at nodes, bilinear in between, at places on the scale of nodes.

    ``values[i, k]`` are the outputs at two nodes. A place on a node is no step from it, also where
    there is none after it. Rows that have no place, NaN, are left as they are.
    """
    n_first, n_second, n_outputs = values.shape
    for row in range(len(total)):
        if np.isnan(first[row]) or np.isnan(second[row]):
            continue
        i, k = np.int64(first[row]), np.int64(second[row])
        i -= i > 0 and i == n_first - 1
        k -= k > 0 and k == n_second - 1
        above, right = first[row] - i, second[row] - k
        below, left = 1.0 - above, 1.0 - right
        next_i, next_k = i + (n_first > 1), k + (n_second > 1)
        for output in range(n_outputs):
            total[row, output] = (
                below * left * values[i, k, output]
                + below * right * values[i, next_k, output]
                + above * left * values[next_i, k, output]
                + above * right * values[next_i, next_k, output]
            )
