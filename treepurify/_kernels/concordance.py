"""How often a score ranks rows of one class above rows of the other: the area under the curve."""

from treepurify._kernels.compiling import kernel


@kernel
def concordant_share(scores, labels, weights, tie):
    """Return the weighted share of pairs of a 1 and a 0 that are ranked rightly; ties count half.

    The rows come in the order of their scores, and neighbours that differ by at most `tie` are
    tied. NaN where one class has no weight.
    """
    below, concordant, ones = 0.0, 0.0, 0.0
    row = 0
    while row < len(scores):
        tied_zeros, tied_ones = 0.0, 0.0
        score = scores[row]
        while row < len(scores) and scores[row] - score <= tie:
            score = scores[row]
            if labels[row] > 0:
                tied_ones += weights[row]
            else:
                tied_zeros += weights[row]
            row += 1
        concordant += tied_ones * (below + 0.5 * tied_zeros)
        below += tied_zeros
        ones += tied_ones
    if ones == 0.0 or below == 0.0:
        return float("nan")
    return concordant / (ones * below)
