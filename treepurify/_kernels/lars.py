"""Least angle regression and the LASSO path on a Gram matrix, with Cholesky updates."""

import numpy as np

from treepurify._kernels.compiling import inlined, kernel, part


@part
def _lower_solve(factor, size, vector):
    """Solve ``L y = vector`` in place."""
    for i in range(size):
        # Four sums at a time: one alone would wait for itself.
        first, second, third, fourth = vector[i], 0.0, 0.0, 0.0
        whole = i - i % 4
        for j in range(0, whole, 4):
            first -= factor[i, j] * vector[j]
            second -= factor[i, j + 1] * vector[j + 1]
            third -= factor[i, j + 2] * vector[j + 2]
            fourth -= factor[i, j + 3] * vector[j + 3]
        for j in range(whole, i):
            first -= factor[i, j] * vector[j]
        vector[i] = ((first + second) + (third + fourth)) / factor[i, i]


@inlined
def _upper_solve(factor, size, vector):
    """Solve ``L^T y = vector`` in place, reading the rows of L."""
    for i in range(size - 1, -1, -1):
        vector[i] /= factor[i, i]
        own = vector[i]
        for j in range(i):
            vector[j] -= factor[i, j] * own


@part
def _new_pivot(gram, factor, active, size, candidate, row):
    """Fill the row that `candidate` would add to the factor; return its squared pivot."""
    for i in range(size):
        row[i] = gram[candidate, active[i]]
    _lower_solve(factor, size, row)
    pivot = gram[candidate, candidate]
    for i in range(size):
        pivot -= row[i] * row[i]
    return pivot


@inlined
def _delete_row(factor, size, at):
    """Delete one row of a factor and make the rest triangular again with rotations."""
    for i in range(at, size - 1):
        for j in range(i + 2):
            factor[i, j] = factor[i + 1, j]
    for i in range(at, size - 1):
        first = factor[i, i]
        second = factor[i, i + 1]
        norm = np.hypot(first, second)
        cosine = first / norm
        sine = second / norm
        factor[i, i] = norm
        factor[i, i + 1] = 0.0
        for k in range(i + 1, size - 1):
            first = factor[k, i]
            second = factor[k, i + 1]
            factor[k, i] = cosine * first + sine * second
            factor[k, i + 1] = cosine * second - sine * first


@part
def _grown(array, wanted):
    """Return a longer copy of an array; what is behind is not set."""
    twice = 2 * len(array)
    larger = np.empty(wanted if wanted > twice else twice, array.dtype)
    for i in range(len(array)):
        larger[i] = array[i]
    return larger


@inlined
def _grown_factor(factor, size):
    """Return a copy with twice the number of rows and columns."""
    larger = np.empty((2 * size, 2 * size))
    for i in range(size):
        for j in range(i + 1):
            larger[i, j] = factor[i, j]
    return larger


@inlined
def _next_join(
    gram, factor, active, size, correlations, change, state, level, resting, tie, pivot_share, row
):
    """Return the step to the next column that joins, and that column (-1 for none).

    Columns that are combinations of the active ones keep the same correlations as these: they
    are excluded for good. A column that just left, `resting`, can come
    back with the other sign only. Of columns that join at the same step but for rounding it is
    the first: which of several equal ones is taken must not depend on the order of the rows.
    """
    best = level
    joining = -1
    for j in range(len(state)):
        if state[j] != 0:
            continue
        for side in range(2):
            sign = 1.0 if side == 0 else -1.0
            if j == resting and sign * correlations[j] > 0.0:
                continue
            rest = level - sign * correlations[j]
            speed = 1.0 - sign * change[j]
            if rest <= tie * level and speed <= tie:
                pivot = _new_pivot(gram, factor, active, size, j, row)
                if pivot <= pivot_share * gram[j, j]:
                    state[j] = 2
                    break
                continue
            if speed <= 0.0:
                continue
            step = rest / speed if rest > 0.0 else 0.0
            if step < best - tie * level:
                best = step
                joining = j
    return best, joining


@inlined
def _join(gram, factor, active, size, candidate, pivot_share, row):
    """Append a column to the factor unless it depends on the active ones.

    Return the factor, grown where it was full, and whether the column joined.
    """
    pivot = _new_pivot(gram, factor, active, size, candidate, row)
    if pivot <= pivot_share * gram[candidate, candidate]:
        return factor, False
    if size == len(factor):
        factor = _grown_factor(factor, size)
    for i in range(size):
        factor[size, i] = row[i]
    factor[size, size] = np.sqrt(pivot)
    active[size] = candidate
    return factor, True


@inlined
def _aim(gram, factor, active, size, signs, direction, change):
    """Fill the equiangular direction and how fast it changes each correlation."""
    for i in range(size):
        direction[i] = signs[i]
    _lower_solve(factor, size, direction)
    _upper_solve(factor, size, direction)
    slope = 0.0
    for i in range(size):
        slope += direction[i] * signs[i]
    for j in range(len(change)):
        change[j] = 0.0
    # Four columns at a time, so that what they add to is read and written once for all four.
    whole = size - size % 4
    for i in range(0, whole, 4):
        first, second = direction[i], direction[i + 1]
        third, fourth = direction[i + 2], direction[i + 3]
        one, two = gram[active[i]], gram[active[i + 1]]
        three, four = gram[active[i + 2]], gram[active[i + 3]]
        for j in range(len(change)):
            change[j] += (first * one[j] + second * two[j]) + (third * three[j] + fourth * four[j])
    for i in range(whole, size):
        own, line = direction[i], gram[active[i]]
        for j in range(len(change)):
            change[j] += own * line[j]
    return slope


@inlined
def _walk(step, direction, coefficients, size, change, correlations):
    """Go one step along the direction."""
    for i in range(size):
        coefficients[i] += step * direction[i]
    for j in range(len(change)):
        correlations[j] -= step * change[j]


@inlined
def _level_off(correlations, active, signs, size, level):
    """Set the correlations of active columns, which are known, free of rounding."""
    for i in range(size):
        correlations[active[i]] = signs[i] * level


@inlined
def _first_crossing(coefficients, direction, size, step):
    """Return the first step at which a coefficient reaches zero, and which one (-1 for none)."""
    leaving = -1
    for i in range(size):
        if direction[i] * coefficients[i] < 0.0:
            crossing = -coefficients[i] / direction[i]
            if crossing < step:
                step = crossing
                leaving = i
    return step, leaving


@inlined
def _leave(factor, active, coefficients, signs, size, leaving):
    """Take one column out of the active ones."""
    _delete_row(factor, size, leaving)
    for i in range(leaving, size - 1):
        active[i] = active[i + 1]
        coefficients[i] = coefficients[i + 1]
        signs[i] = signs[i + 1]


@inlined
def _initial_state(gram):
    """Exclude columns without variance."""
    state = np.empty(len(gram), np.int8)
    for j in range(len(gram)):
        state[j] = 2 if gram[j, j] <= 0.0 else 0
    return state


@inlined
def _largest(correlations, state, tie):
    """Return the largest absolute correlation of the columns in use, and its column.

    Of those that are equal but for rounding it is the first.
    """
    level = 0.0
    column = -1
    for j in range(len(state)):
        if state[j] == 0 and abs(correlations[j]) > level * (1.0 + tie):
            level = abs(correlations[j])
            column = j
    return level, column


@inlined
def _stored(columns, values, n_stored, active, coefficients, size):
    """Append the coefficients that are not zero to what was stored before."""
    if n_stored + size > len(columns):
        columns = _grown(columns, n_stored + size)
        values = _grown(values, n_stored + size)
    for i in range(size):
        if coefficients[i] != 0.0:
            columns[n_stored] = active[i]
            values[n_stored] = coefficients[i]
            n_stored += 1
    return columns, values, n_stored


@kernel
def least_angle_path(
    gram,
    correlations,
    total,
    most_active,
    most_steps,
    pivot_share,
    penalty,
    noise,
    floor,
    tie,
):
    """Follow the path from no columns to all, or until no larger support can be better.

    `correlations` (columns by response) is overwritten. ``state`` is 0 for a column that is
    not active at the end, 1 for an active one and 2 for one excluded as a combination of the
    others. The path ends where ``rss / noise + penalty * columns`` cannot fall below its least
    value even if the sum of squares fell to `floor` and a tenth of the columns left again.
    """
    n_columns = len(correlations)
    state = _initial_state(gram)
    factor = np.empty((64, 64))
    active = np.empty(n_columns, np.int64)
    coefficients = np.empty(n_columns)
    signs = np.empty(n_columns)
    direction = np.empty(n_columns)
    row = np.empty(n_columns)
    change = np.empty(n_columns)
    levels = np.empty(most_steps + 1)
    squares = np.empty(most_steps + 1)
    ends = np.empty(most_steps + 1, np.int64)
    columns = np.empty(1024, np.int64)
    values = np.empty(1024)
    level, joining = _largest(correlations, state, tie)
    start = level
    rss = total
    best = np.inf
    # Numbers of known width: what takes a literal is compiled once more for it.
    size, steps, n_stored, resting = np.int64(0), np.int64(0), np.int64(0), np.int64(-1)
    while True:
        before = n_stored
        columns, values, n_stored = _stored(columns, values, n_stored, active, coefficients, size)
        levels[steps] = level
        squares[steps] = rss
        ends[steps] = n_stored
        criterion = rss / noise + penalty * (n_stored - before)
        best = criterion if criterion < best else best
        least = floor / noise + penalty * (0.9 * size - 10.0)
        if steps >= most_steps or level <= 1e-13 * start or best < least:
            break
        if joining >= 0 and size >= most_active:
            break
        if joining >= 0:
            factor, joined = _join(gram, factor, active, size, joining, pivot_share, row)
            state[joining] = 1 if joined else 2
            if joined:
                coefficients[size] = 0.0
                signs[size] = 1.0 if correlations[joining] > 0 else -1.0
                size += 1
        if size == 0:
            break
        slope = _aim(gram, factor, active, size, signs, direction, change)
        step, joining = _next_join(
            gram,
            factor,
            active,
            size,
            correlations,
            change,
            state,
            level,
            resting,
            tie,
            pivot_share,
            row,
        )
        step, leaving = _first_crossing(coefficients, direction, size, step)
        rss = max(rss - step * slope * (2.0 * level - step), 0.0)
        level -= step
        _walk(step, direction, coefficients, size, change, correlations)
        _level_off(correlations, active, signs, size, level)
        resting = np.int64(-1)
        if leaving >= 0:
            joining = -1
            resting = active[leaving]
            state[resting] = 0
            _leave(factor, active, coefficients, signs, size, leaving)
            size -= 1
        steps += 1
    last = steps + 1
    return levels[:last], squares[:last], ends[:last], columns[:n_stored], values[:n_stored], state
