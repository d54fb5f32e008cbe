"""Searches of sorted numbers. ``np.searchsorted`` takes ten times as long to compile."""

from treepurify._kernels.compiling import part


@part
def count_below(numbers, bound):
    """Return how many of some sorted numbers are below a bound."""
    first, last = 0, len(numbers)
    while first < last:
        middle = (first + last) // 2
        if numbers[middle] < bound:
            first = middle + 1
        else:
            last = middle
    return first
