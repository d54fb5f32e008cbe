"""Walk through the increasing choices of some positions out of many."""

from treepurify._kernels.compiling import part


@part
def next_combination(chosen, size, n):
    """Advance to the next increasing choice of `size` out of `n`; return whether there is one."""
    k = size - 1
    while k >= 0 and chosen[k] == n - size + k:
        k -= 1
    if k < 0:
        return False
    chosen[k] += 1
    for rest in range(k + 1, size):
        chosen[rest] = chosen[rest - 1] + 1
    return True
