"""Cumulative sums of difference tables."""

from treepurify._kernels.compiling import kernel


@kernel
def cumulate(tables, offsets, shapes, orders, n_outputs):
    """Replace difference tables by their cumulative sums along every axis, in place.

    Table t stands from ``offsets[t]`` to ``offsets[t + 1]``, and has the first ``orders[t]`` of
    ``shapes[t]`` as its cells.
    """
    for t in range(len(orders)):
        inner = n_outputs
        for axis in range(orders[t] - 1, -1, -1):
            step = inner
            inner = step * shapes[t, axis]
            for start in range(offsets[t], offsets[t + 1], inner):
                if step == 1:
                    total = 0.0
                    for at in range(start, start + inner):
                        total += tables[at]
                        tables[at] = total
                else:
                    for at in range(start + step, start + inner):
                        tables[at] += tables[at - step]
