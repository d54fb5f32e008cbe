"""Products of the splits of a tree: which there are, their sums over rows by leaf, their masses."""

import numpy as np
from numba import types
from numba.extending import intrinsic

from treepurify._kernels.compiling import inlined, kernel, part
from treepurify._kernels.gram import subtract_gram


@kernel
def sort_by_leaf(
    codes,
    feature,
    left,
    right,
    first_right,
    missing_left,
    category_ptr,
    category_left,
    missing_cell,
    other,
    waiting,
    order,
    leaves,
    leaf_ptr,
    leaf,
):
    """Sort `order`, some rows, by the leaves of one tree from left to right.

    Node i tests ``feature[i]``, -1 at a leaf; the root is node 0. Cells before ``first_right[i]``
    go to ``left[i]``, or those of ``category_left`` from ``category_ptr[i]`` on; ``missing_cell``
    is -1 for features without one. ``leaves`` become the leaves in this order and ``leaf_ptr`` the
    first row of each, and the end; ``leaf`` becomes the place of each row's leaf. Rows of a leaf
    keep their order. `other`, as long as `order`, and `waiting`, of shape (n_nodes + 1, 3), are
    workspace: allocated here, they would take long to compile.
    """
    # Nodes that wait, each with its first and last row.
    waiting[0, 0], waiting[0, 1], waiting[0, 2] = 0, 0, len(order)
    n_waiting, n_leaves = 1, 0
    while n_waiting > 0:
        n_waiting -= 1
        node, first = waiting[n_waiting, 0], waiting[n_waiting, 1]
        last = waiting[n_waiting, 2]
        if feature[node] < 0:
            leaves[n_leaves], leaf_ptr[n_leaves] = node, first
            for i in range(first, last):
                leaf[order[i]] = n_leaves
            n_leaves += 1
            continue
        missing, column = missing_cell[feature[node]], codes[feature[node]]
        rows = order[first:last]
        if category_ptr[node] < 0:
            also_left = missing if missing_left[node] else -1
            n_left = _divide(column, first_right[node], also_left, rows, other)
        else:
            is_left = category_left[category_ptr[node] :]
            n_left = _divide_categories(column, is_left, missing, missing_left[node], rows, other)
        middle = first + n_left
        for i in range(last - middle):
            order[middle + i] = other[i]
        waiting[n_waiting, 0], waiting[n_waiting, 1] = right[node], middle
        waiting[n_waiting, 2] = last
        waiting[n_waiting + 1, 0], waiting[n_waiting + 1, 1] = left[node], first
        waiting[n_waiting + 1, 2] = middle
        n_waiting += 2
    leaf_ptr[n_leaves] = len(order)


@part
def _divide(column, first_right, also_left, rows, other):
    """Move the rows that go left to the front and put the rest in `other`; return how many.

    Rows are written to both in any case: a branch would often be guessed wrong.
    """
    n_left, n_right = 0, 0
    for i in range(len(rows)):
        row = rows[i]
        is_left = (column[row] < first_right) | (column[row] == also_left)
        rows[n_left] = row
        other[n_right] = row
        n_left += is_left
        n_right += not is_left
    return n_left


@part
def _divide_categories(column, is_left, missing_cell, missing_left, rows, other):
    """Do the same where ``is_left`` says it of each category."""
    n_left, n_right = 0, 0
    for i in range(len(rows)):
        row = rows[i]
        goes_left = missing_left if column[row] == missing_cell else is_left[column[row]]
        rows[n_left] = row
        other[n_right] = row
        n_left += goes_left
        n_right += not goes_left
    return n_left


@kernel
def add_leaf_values_of_rows(leaf, values, columns, total):
    """Add to some columns of `total` the values of the leaf that each row reaches."""
    for k in range(len(columns)):
        column = columns[k]
        for row in range(len(leaf)):
            total[row, column] += values[leaf[row], k]


BITS = 64
# A chunk ends with a leaf once it has this number of words, and at the latest with the second
# number, which stay in the cache. Where weights are added, there are 64 numbers to a word.
_ENOUGH_WORDS, MOST_WORDS, MOST_WEIGHED = 16, 256, 16
_ONE, _NONE, _ALL = np.uint64(1), np.uint64(0), ~np.uint64(0)
# Times eight bytes of zero or one, the highest byte has them as its bits.
_BYTES, _AS_BITS, _HIGHEST = 8, np.uint64(0x0102040810204080), np.uint64(56)
# What a side holds of a chunk.
_NOTHING, _EVERYTHING, _SOME = np.uint8(0), np.uint8(1), np.uint8(2)
# Among the places of products that differ on a chunk, those of what is zero, and one, everywhere.
_ZERO, _EVERYWHERE = 0, 1
# Words to a register, and words of a product that are counted before their sum is stored.
LANES, _UNROLLED = 8, 4
_TILE = 32


@intrinsic
def _count_bits(typing_context, word):
    """Return how many bits of a word are one."""

    def generate(context, builder, signature, values):
        return builder.ctpop(values[0])

    return types.uint64(types.uint64), generate


@kernel
def count_products(
    codes, order, leaf_ptr, sides, products, parts, workspace, times, of_leaves, of_pairs
):
    """Count the rows of each leaf in each product, and those in every two products.

    Parameters
    ----------
    codes : ndarray of unsigned int, shape (n_features, n_rows)
        Cells of the rows.
    order : ndarray of uint32
        Rows in the order of leaves.
    leaf_ptr : ndarray of int64, shape (n_leaves + 1,)
        First row of each leaf among them.
    sides : treepurify.engines.tree.split_products.Sides
        The sides.
    products : ndarray of int64, shape (n_products, order)
        Sides of each product, -1 beyond its last. The first product is one everywhere.
    parts : ndarray of int64, shape (n_products, order)
        The product without each of its sides, which comes before it.
    workspace : treepurify.engines.tree.projection.ProductWorkspace
        Workspace, which would take long to compile here.
    times : float
        How often each row counts.
    of_leaves : ndarray of float64, shape (n_leaves, n_products)
        To which the rows in each leaf are added.
    of_pairs : ndarray of float64, shape (n_products, n_products)
        To which those in two products are added, on and above the diagonal.
    """
    words, in_leaf = workspace.words, workspace.of_places
    while True:
        n, n_places = _read_chunk(codes, order, leaf_ptr, sides, products, parts, workspace)
        if n == 0:
            break
        for w in range(n):
            _add_bits(words[w], in_leaf[:n_places])
            if w == n - 1 or workspace.leaf_of_word[w] != workspace.leaf_of_word[w + 1]:
                _add_same(in_leaf, workspace.same, times, of_leaves[workspace.leaf_of_word[w]])
                for i in range(n_places):
                    in_leaf[i] = 0
        _count_pairs(workspace.flat_words, n, words.shape[1], n_places, workspace.sums)
        _add_pairs(workspace.sums, n_places, workspace.same, times, of_pairs)


@kernel
def weigh_products(
    routine,
    codes,
    order,
    leaf_ptr,
    sides,
    products,
    parts,
    workspace,
    roots,
    weights,
    of_leaves,
    of_pairs,
):
    """Add the weights of rows instead of counting them; see `count_products`.

    A matrix, `roots`, has the root of the weight where a row is in a product, and 0 elsewhere;
    `routine` is that of `_kernels.gram`, for the products of its columns.
    """
    words, sums, in_word = workspace.words, workspace.sums, workspace.of_places
    while True:
        n, n_places = _read_chunk(codes, order, leaf_ptr, sides, products, parts, workspace)
        if n == 0:
            break
        for w in range(n):
            in_word[:] = 0.0
            for b in range(BITS):
                row = w * BITS + b
                _write_roots(
                    words[w, :n_places], b, weights[workspace.rows[row]], roots[row], in_word
                )
            _add_same(in_word, workspace.same, 1.0, of_leaves[workspace.leaf_of_word[w]])
        sums[:n_places, :n_places] = 0.0
        subtract_gram(routine, roots[: n * BITS, :n_places], sums[:n_places, :n_places])
        for i in range(n_places):
            for k in range(i, n_places):
                sums[i, k] = -sums[i, k]
        _add_pairs(sums, n_places, workspace.same, 1.0, of_pairs)


@part
def _read_chunk(codes, order, leaf_ptr, sides, products, parts, workspace):
    """Read the next chunk; return the number of its words, 0 at the end, and of its places."""
    of_sides, n_places = workspace.of_sides, 0
    n = _fill_chunk(
        order, leaf_ptr, workspace.place, workspace.rows, workspace.leaf_of_word, of_sides
    )
    if n > 0:
        _read_sides(
            codes,
            workspace.rows,
            sides,
            n,
            workspace.cells,
            of_sides,
            workspace.holds,
            workspace.is_inside,
            workspace.inside_words,
        )
        n_places = _list_products(
            workspace.holds, products, parts, workspace.same, workspace.factors
        )
        for w in range(n):
            _multiply_sides(of_sides[w], workspace.factors, n_places, workspace.words[w])
    return n, n_places


@inlined
def _fill_chunk(order, leaf_ptr, place, rows, leaf_of_word, of_sides):
    """Take rows from where the last chunk ended, and return the number of words; 0 at the end.

    `place` is the leaf and the rows of it that were taken. Each leaf begins a word; bits beyond its
    last row are zero in the first column of `of_sides`, and have a row of the leaf, which is read
    for nothing.
    """
    n, leaf, taken = 0, place[0], place[1]
    while n < len(leaf_of_word) and leaf < len(leaf_ptr) - 1:
        first = leaf_ptr[leaf] + taken
        left = leaf_ptr[leaf + 1] - first
        if left == 0:
            leaf, taken = leaf + 1, 0
            if n >= _ENOUGH_WORDS:
                break
            continue
        size = left if left < BITS else BITS
        for b in range(BITS):
            rows[n * BITS + b] = order[first + (b if b < size else 0)]
        of_sides[n, 0] = _ALL if size == BITS else (_ONE << np.uint64(size)) - _ONE
        leaf_of_word[n] = leaf
        taken += size
        n += 1
    place[0], place[1] = leaf, taken
    return n


@inlined
def _read_sides(codes, rows, sides, n_words, cells, of_sides, holds, is_inside, inside_words):
    """Write what each side holds of a chunk, and the bits of those that hold some of it.

    Those of a side are behind its number, since all rows come first.
    """
    # Once: every entry of a tuple that is read takes its time to compile.
    tested, place = sides.tested, sides.place
    run_ptr, run_start, run_stop = sides.run_ptr, sides.run_start, sides.run_stop
    n_rows, side = n_words * BITS, 0
    for i in range(len(tested)):
        column, to = codes[tested[i]], cells[i, :n_rows]
        for k in range(n_rows):
            to[k] = column[rows[k]]
        low = high = to[0]
        for k in range(n_rows):
            low = to[k] if to[k] < low else low
            high = to[k] if to[k] > high else high
        while side < len(place) and place[side] == i:
            held = _NOTHING
            for run in range(run_ptr[side], run_ptr[side + 1]):
                start, stop = run_start[run], run_stop[run]
                if start <= high and low < stop:
                    held = _EVERYTHING if start <= low and high < stop else _SOME
            if held == _SOME:
                for k in range(n_rows):
                    is_inside[k] = 0
                for run in range(run_ptr[side], run_ptr[side + 1]):
                    _add_run(to, run_start[run], run_stop[run], is_inside)
                _write_bits(inside_words, n_words, of_sides, side + 1)
            holds[side] = held
            side += 1


@inlined
def _add_run(cells, start, stop, is_inside):
    # In the type of the cells, of which there are most to a register. A run of all cells that it
    # can distinguish holds everything. Below the start, the difference without a sign is large.
    as_cell = cells.dtype.type
    first, size = as_cell(start), as_cell(stop - start)
    for k in range(len(cells)):
        is_inside[k] |= as_cell(cells[k] - first) < size


@inlined
def _write_bits(is_inside, n_words, words, column):
    """Write the lowest bit of each byte, eight to a number, of rows only."""
    for w in range(n_words):
        word = _NONE
        for k in range(_BYTES):
            bits = (is_inside[w * _BYTES + k] * _AS_BITS) >> _HIGHEST
            word |= bits << np.uint64(k * _BYTES)
        words[w, column] = word & words[w, 0]


@inlined
def _list_products(holds, products, parts, same, factors):
    """Write the place of each product on a chunk, and the sides of each place; return their number.

    A product that is zero, or is another one, has no place of its own. A side is written as its
    column, 0 beyond the last.
    """
    same[0] = _EVERYWHERE
    n = _EVERYWHERE + 1
    for k in range(len(factors)):
        factors[k, _EVERYWHERE] = 0
    for u in range(1, len(products)):
        same[u] = n
        for k in range(products.shape[1]):
            side = products[u, k]
            if side < 0:
                break
            if holds[side] == _NOTHING:
                same[u] = _ZERO
                break
            if holds[side] == _EVERYTHING:
                same[u] = same[parts[u, k]]
                break
        if same[u] == n:
            for k in range(products.shape[1]):
                factors[k, n] = products[u, k] + 1
            n += 1
    return n


@inlined
def _multiply_sides(of_sides, factors, n_places, words):
    """Write one word of each place."""
    for i in range(_EVERYWHERE, n_places):
        words[i] = of_sides[0]
    for k in range(len(factors)):
        for i in range(_EVERYWHERE, n_places):
            words[i] &= of_sides[factors[k, i]]


@inlined
def _add_bits(words, counts):
    for i in range(len(counts)):
        counts[i] += np.int64(_count_bits(words[i]))


@inlined
def _count_pairs(words, n_words, width, n_places, sums):
    """Write how many rows there are in every two places, on and above the diagonal."""
    width = np.uint64(width)
    step = np.uint64(_UNROLLED) * width
    last = np.uint64(n_words) * width
    for i in range(_EVERYWHERE, n_places):
        start = np.uint64(i - i % LANES)
        to = sums[i, start:n_places]
        n, place = np.uint64(len(to)), np.uint64(i)
        for k in range(n):
            to[k] = 0
        w = np.uint64(0)
        while w + step <= last:
            x, y = w + width, w + width + width
            z = y + width
            a, b, c, d = words[w + place], words[x + place], words[y + place], words[z + place]
            w, x, y, z = w + start, x + start, y + start, z + start
            for k in range(n):
                to[k] += np.int64(
                    _count_bits(a & words[w + k])
                    + _count_bits(b & words[x + k])
                    + _count_bits(c & words[y + k])
                    + _count_bits(d & words[z + k])
                )
            w += step - start
        while w < last:
            a = words[w + place]
            for k in range(n):
                to[k] += np.int64(_count_bits(a & words[w + start + k]))
            w += width


@inlined
def _write_roots(words, bit, weight, roots, sums):
    """Write the root of a row's weight for each product that it is in, and add its weight there."""
    root, shift = np.sqrt(weight), np.uint64(bit)
    for i in range(len(words)):
        is_in = np.float64((words[i] >> shift) & _ONE)
        roots[i] = is_in * root
        sums[i] += is_in * weight


@part
def _add_pairs(sums, n_places, same, times, of_pairs):
    """Add the sums of places to those of all their products; `sums` is made symmetric."""
    _copy_below(sums[_EVERYWHERE:n_places, _EVERYWHERE:n_places])
    for i in range(n_places):
        sums[i, _ZERO] = 0
    for u in range(len(same)):
        if same[u] != _ZERO:
            _add_same(sums[same[u]], same[u:], times, of_pairs[u, u:])


@inlined
def _copy_below(matrix):
    """Copy what stands above the diagonal to below it, tile by tile, which stay in the cache."""
    n = len(matrix)
    for top in range(0, n, _TILE):
        for left in range(0, top + 1, _TILE):
            for i in range(top, top + _TILE if top + _TILE < n else n):
                for k in range(left, left + _TILE if left + _TILE < i else i):
                    matrix[i, k] = matrix[k, i]


@part
def _add_same(of_places, same, times, to):
    for k in range(len(to)):
        to[k] += times * of_places[same[k]]


@kernel
def list_products(left, right, sides_of_node, feature_of_side, most, waiting, path, keys):
    """List the products of at most `most` sides of different features on one path.

    Parameters
    ----------
    left, right : ndarray of int64, shape (n_nodes,)
        Children, negative at leaves; the root is node 0.
    sides_of_node : ndarray of int64, shape (n_nodes, n)
        Sides that a split has, -1 for none.
    feature_of_side : ndarray of int64, shape (n_sides,)
        Feature of each side.
    most : int
        Largest number of sides in a product, up to three.
    waiting, path : ndarray of int64, shape (n_nodes + 1, 2) and (number of entries of those sides,)
        Workspace, which would take long to compile here.
    keys : ndarray of int64
        To which products are written as numbers with the digits ``side + 1``, increasing, to the
        base ``n_sides + 1``; some more than once. What goes beyond its end is counted only.

    Returns
    -------
    int
        How many there are.
    """
    width = sides_of_node.shape[1]
    waiting[0, 0], waiting[0, 1] = 0, 0
    n_waiting, n_keys = 1, 0
    while n_waiting > 0:
        n_waiting -= 1
        node, n_above = waiting[n_waiting, 0], waiting[n_waiting, 1]
        if left[node] < 0:
            continue
        n_path = n_above
        for i in range(width):
            side = sides_of_node[node, i]
            if side >= 0:
                n_keys = _list_with(side, path[:n_above], feature_of_side, most, keys, n_keys)
                path[n_path] = side
                n_path += 1
        for k in range(2):
            waiting[n_waiting + k, 0] = right[node] if k == 0 else left[node]
            waiting[n_waiting + k, 1] = n_path
        n_waiting += 2
    return n_keys


@inlined
def _list_with(side, above, feature, most, keys, n):
    """List the products of a side with sides above it."""
    base = len(feature) + 1
    n = _write(side + 1, keys, n)
    for i in range(len(above) if most > 1 else 0):
        a = above[i]
        if feature[a] == feature[side]:
            continue
        low, high = (a, side) if a < side else (side, a)
        n = _write((low + 1) * base + high + 1, keys, n)
        for k in range(i if most > 2 else 0):
            b = above[k]
            if feature[b] == feature[side] or feature[b] == feature[a]:
                continue
            first = b if b < low else low
            last = b if b > high else high
            middle = a + b + side - first - last
            n = _write(((first + 1) * base + middle + 1) * base + last + 1, keys, n)
    return n


@part
def _write(key, keys, n):
    if n < len(keys):
        keys[n] = key
    return n + 1


@kernel
def multiply_masses(products, feature_of_side, mass, both, given, of_pairs):
    """Write the mass of every two products where features are independent, on both triangles.

    `mass` is that of each side, and ``both[s, t]`` that of two sides of one feature together.
    `given` is workspace of one number more than sides: each given the first of two products, and
    one where there is no side.
    """
    n_sides = len(mass)
    given[n_sides] = 1.0
    for u in range(len(products)):
        for t in range(n_sides):
            given[t] = mass[t]
        of_first = 1.0
        for k in range(products.shape[1]):
            s = products[u, k]
            if s < 0:
                break
            of_first *= mass[s]
            for t in range(n_sides):
                if feature_of_side[t] == feature_of_side[s]:
                    given[t] = both[s, t] / mass[s] if mass[s] > 0 else 0.0
        for v in range(u + 1):
            total = of_first
            for k in range(products.shape[1]):
                total *= given[products[v, k]]
            of_pairs[u, v] = total
            of_pairs[v, u] = total


@kernel
def common_masses(
    ptr, start, stop, feature, other_ptr, other_start, other_stop, other_feature, margins, common
):
    """Write the mass that sets of cells of one feature have in common, 0 for other features.

    Each is given by its runs of cells and its feature; `margins` are a
    `treepurify.engines.tree.split_products.Margins`.
    """
    for a in range(len(feature)):
        first = margins.start[feature[a]]
        for b in range(len(other_feature)):
            common[a, b] = 0.0
            if feature[a] != other_feature[b]:
                continue
            for i in range(ptr[a], ptr[a + 1]):
                for k in range(other_ptr[b], other_ptr[b + 1]):
                    low = start[i] if start[i] > other_start[k] else other_start[k]
                    high = stop[i] if stop[i] < other_stop[k] else other_stop[k]
                    if low < high:
                        mass = margins.cumulative[first + high] - margins.cumulative[first + low]
                        common[a, b] += mass


@kernel
def mass_in_leaves(
    products, feature_of_side, mass, entry_ptr, entry_feature, of_entry, inside, sums
):
    """Write the mass of each product in each leaf where features are independent.

    The box of a leaf is restricted along ``entry_feature[entry_ptr[leaf]:entry_ptr[leaf + 1]]``,
    each of mass ``of_entry``; ``inside[entry, side]`` is the mass of an entry and a side of its
    feature together. ``sums`` has shape (n_leaves, n_products).
    """
    for leaf in range(len(entry_ptr) - 1):
        for u in range(len(products)):
            total = 1.0
            for entry in range(entry_ptr[leaf], entry_ptr[leaf + 1]):
                factor = of_entry[entry]
                for k in range(products.shape[1]):
                    side = products[u, k]
                    if side >= 0 and feature_of_side[side] == entry_feature[entry]:
                        factor = inside[entry, side]
                total *= factor
            for k in range(products.shape[1]):
                side = products[u, k]
                is_restricted = side < 0
                for entry in range(entry_ptr[leaf], entry_ptr[leaf + 1]):
                    is_restricted |= feature_of_side[side] == entry_feature[entry]
                if not is_restricted:
                    total *= mass[side]
            sums[leaf, u] = total


@kernel
def centre(products, parts, mass, coefficients):
    """Turn multiples of products into those of products of sides less their masses, in place.

    ``parts[u, k]`` is the product u without its k-th side, a smaller one before it.
    """
    most = products.shape[1]
    for u in range(len(products)):
        size = 0
        while size < most and products[u, size] >= 0:
            size += 1
        for left_out in range(1, 1 << size):
            part, factor = u, 1.0
            for k in range(size - 1, -1, -1):
                if left_out >> k & 1:
                    factor *= mass[products[u, k]]
                    part = parts[part, k]
            for output in range(coefficients.shape[1]):
                coefficients[part, output] += factor * coefficients[u, output]


@kernel
def add_products(products, differences, coefficients, offset, stride, outputs, chosen, totals):
    """Add multiples of products, each side less its mass, to tables of differences.

    Parameters
    ----------
    products : ndarray of int64, shape (n_products, order)
        Sides of each, -1 beyond its last.
    differences : treepurify.engines.tree.split_products.SideDifferences
        Those of each side less its mass.
    coefficients : ndarray of float64, shape (n_products, n_columns)
        The multiples.
    offset : ndarray of int64, shape (n_products,)
        First entry of the table of each product's features in `totals`.
    stride : ndarray of int64, shape (n_products, order)
        How far apart neighbours along each of these are.
    outputs : ndarray of int64, shape (n_columns,)
        Where among the outputs of a cell each column is added.
    chosen : ndarray of int64, shape (order,)
        Workspace, which would take long to compile here.
    totals : ndarray of float64
        All tables; sums along all axes turn differences into values.
    """
    ptr, cells, steps = differences.ptr, differences.cells, differences.steps
    most = products.shape[1]
    for u in range(len(products)):
        size = 0
        while size < most and products[u, size] >= 0:
            chosen[size] = ptr[products[u, size]]
            size += 1
        side, step_of_cell = products[u, size - 1], stride[u, size - 1]
        while True:
            start, factor = offset[u], 1.0
            for k in range(size - 1):
                start += cells[chosen[k]] * stride[u, k]
                factor *= steps[chosen[k]]
            for last in range(ptr[side], ptr[side + 1]):
                at, step = start + cells[last] * step_of_cell, factor * steps[last]
                for output in range(len(outputs)):
                    totals[at + outputs[output]] += step * coefficients[u, output]
            k = size - 2
            while k >= 0:
                chosen[k] += 1
                if chosen[k] < ptr[products[u, k] + 1]:
                    break
                chosen[k] = ptr[products[u, k]]
                k -= 1
            if k < 0:
                break
