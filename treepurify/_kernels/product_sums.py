"""Count rows where products of indicators are one: 64 rows at a time, as the bits of a word.

A side is a set of cells of one feature, given as runs of cells; a product is one where the rows
are on all of its sides. Rows come in the order of the leaves of a tree, and a chunk of them has
one leaf, or a few small ones. Most sides hold all of it or nothing: what they are a factor of is
zero there, or another product. The others are formed, and every two of them are counted.
"""

import numpy as np
from numba import types
from numba.extending import intrinsic

from treepurify._kernels.compiling import kernel, part
from treepurify._kernels.lapack import subtract_gram

_BITS = 64
# A chunk ends with a leaf when it has so many words, and at the latest when it has so many more,
# which stay near the processor. Where weights are added, there are 64 numbers to a word.
_ENOUGH_WORDS, _MOST_WORDS, _MOST_WEIGHED = 16, np.int64(256), np.int64(16)
_ONE, _NONE, _ALL = np.uint64(1), np.uint64(0), ~np.uint64(0)
# Times eight bytes of zero or one, the highest byte has them as its bits.
_BYTES, _AS_BITS, _HIGHEST = 8, np.uint64(0x0102040810204080), np.uint64(56)
# What a side holds of a chunk.
_NOTHING, _EVERYTHING, _SOME = np.uint8(0), np.uint8(1), np.uint8(2)
_ZERO = -1


@intrinsic
def _count_bits(typing_context, word):
    """Return how many bits of a word are one."""

    def generate(context, builder, signature, values):
        return builder.ctpop(values[0])

    return types.uint64(types.uint64), generate


@kernel
def count_products(codes, order, leaf_ptr, sides, products, parts, of_leaves, of_pairs):
    """Count the rows of each leaf in each product, and those in every two products.

    Parameters
    ----------
    codes : ndarray of unsigned int, shape (n_features, n_rows)
        Cells of the rows.
    order : ndarray of uint32
        Rows in the order of leaves.
    leaf_ptr : ndarray of int64, shape (n_leaves + 1,)
        First row of each leaf among them.
    sides : treepurify.engines.tree.split_sides.Sides
        The sides.
    products : ndarray of int64, shape (n_products, order)
        Sides of each product, -1 beyond its last. The first product is one everywhere.
    parts : ndarray of int64, shape (n_products, order)
        The product without each of its sides, which comes before it.
    of_leaves : ndarray of int64, shape (n_leaves, n_products)
        To which the rows in each leaf are added.
    of_pairs : ndarray of int64, shape (n_products, n_products)
        To which those in two products are added, on and above the diagonal.
    """
    room = _make_room(_MOST_WORDS, codes, order, sides, products)
    leaf_of_word, words, same, met, listed = room[1:6]
    sums = np.empty((len(products), len(products)), dtype=np.int64)
    while True:
        n, n_met = _read_chunk(codes, order, leaf_ptr, sides, products, parts, room)
        if n == 0:
            break
        for product in range(len(products)):
            if same[product] != _ZERO:
                some = words[met[same[product]], :n]
                for w in range(n):
                    of_leaves[leaf_of_word[w], product] += _count_bits(some[w])
        _count_pairs(words, n, met[:n_met], sums)
        _add_pairs(sums, n_met, same, listed, of_pairs)


@kernel
def weigh_products(
    routines, codes, order, leaf_ptr, sides, products, parts, weights, of_leaves, of_pairs
):
    """Add the weights of rows instead of counting them; see `count_products`.

    A matrix has the root of the weight where a row is in a product, and 0 elsewhere; `routines`
    are those of `_kernels.lapack`, for the products of its columns.
    """
    room = _make_room(_MOST_WEIGHED, codes, order, sides, products)
    rows, leaf_of_word, words, same, met, listed = room[:6]
    sums = np.empty((len(products), len(products)))
    of_word, in_word = np.empty(len(products), dtype=np.uint64), np.empty(len(products))
    roots = np.empty((_MOST_WEIGHED * _BITS, len(products)))
    while True:
        n, n_met = _read_chunk(codes, order, leaf_ptr, sides, products, parts, room)
        if n == 0:
            break
        for w in range(n):
            for i in range(n_met):
                of_word[i], in_word[i] = words[met[i], w], 0.0
            for b in range(_BITS):
                row = w * _BITS + b
                _write_roots(of_word[:n_met], b, weights[rows[row]], roots[row], in_word)
            for product in range(len(products)):
                if same[product] != _ZERO:
                    of_leaves[leaf_of_word[w], product] += in_word[same[product]]
        for i in range(n_met):
            for k in range(n_met):
                sums[i, k] = 0.0
        subtract_gram(routines, roots[: n * _BITS, :n_met], sums[:n_met, :n_met])
        for i in range(n_met):
            for k in range(i, n_met):
                sums[i, k] = -sums[i, k]
        _add_pairs(sums, n_met, same, listed, of_pairs)


@part
def _make_room(n_words, codes, order, sides, products):
    """Return what a chunk of so many words is read into.

    Its rows, the leaf of each word, the bits of products, for each product its place among those
    that differ, these, and those that are not zero; cells and bits of sides, what each side holds,
    whether it holds each row, and the next row.
    """
    n_rows, n_sides = n_words * _BITS, len(sides.feature)
    return (
        np.empty(n_rows, dtype=order.dtype),
        np.empty(n_words, dtype=np.int64),
        np.empty((len(products), n_words), dtype=np.uint64),
        np.empty(len(products), dtype=np.int64),
        np.empty(len(products), dtype=np.int64),
        np.empty(len(products), dtype=np.int64),
        np.empty((len(sides.tested), n_rows), dtype=codes.dtype),
        np.empty((n_sides, n_words), dtype=np.uint64),
        np.empty(n_sides, dtype=np.uint8),
        np.empty(n_rows, dtype=np.uint8),
        np.zeros(2, dtype=np.int64),
    )


@part
def _read_chunk(codes, order, leaf_ptr, sides, products, parts, room):
    """Read the next chunk; return the number of its words, 0 at the end, and of its products."""
    rows, leaf_of_word, words, same, met, _, cells, of_sides, holds, is_inside, place = room
    n, n_met = _fill_chunk(order, leaf_ptr, place, rows, leaf_of_word, words[0]), 0
    if n > 0:
        _read_sides(codes, rows, sides, words[0, :n], cells, of_sides, holds, is_inside)
        n_met = _multiply_sides(of_sides, holds, products, parts, words, n, same, met)
    return n, n_met


@part
def _fill_chunk(order, leaf_ptr, place, rows, leaf_of_word, is_row):
    """Take rows from where the last chunk ended, and return the number of words; 0 at the end.

    `place` is the leaf and the rows of it that were taken. Each leaf begins a word; bits beyond its
    last row are zero in `is_row`, and have a row of the leaf, which is read for nothing.
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
        size = left if left < _BITS else _BITS
        for b in range(_BITS):
            rows[n * _BITS + b] = order[first + (b if b < size else 0)]
        is_row[n] = _ALL if size == _BITS else (_ONE << np.uint64(size)) - _ONE
        leaf_of_word[n] = leaf
        taken += size
        n += 1
    place[0], place[1] = leaf, taken
    return n


@part
def _read_sides(codes, rows, sides, is_row, cells, of_sides, holds, is_inside):
    """Write what each side holds of a chunk, and the bits of those that hold some of it."""
    n_rows, side = len(is_row) * _BITS, 0
    for i in range(len(sides.tested)):
        column, to = codes[sides.tested[i]], cells[i, :n_rows]
        for k in range(n_rows):
            to[k] = column[rows[k]]
        low = high = to[0]
        for k in range(n_rows):
            low = to[k] if to[k] < low else low
            high = to[k] if to[k] > high else high
        while side < len(sides.feature) and sides.place[side] == i:
            first, last = sides.run_ptr[side], sides.run_ptr[side + 1]
            holds[side] = _NOTHING
            for run in range(first, last):
                if sides.run_start[run] <= low and high < sides.run_stop[run]:
                    holds[side] = _EVERYTHING
                elif sides.run_start[run] <= high and low < sides.run_stop[run]:
                    holds[side] = _SOME
            if holds[side] == _SOME:
                for k in range(n_rows):
                    is_inside[k] = 0
                for run in range(first, last):
                    _add_run(to, sides.run_start[run], sides.run_stop[run], is_inside)
                _write_bits(is_inside.view(np.uint64), is_row, of_sides[side])
            side += 1


@part
def _add_run(cells, start, stop, is_inside):
    # In the type of the cells, of which there are most to a register. A run of all cells that it
    # can tell apart holds everything. Below the start, the difference without a sign is large.
    as_cell = cells.dtype.type
    first, size = as_cell(start), as_cell(stop - start)
    for k in range(len(cells)):
        is_inside[k] |= as_cell(cells[k] - first) < size


@part
def _write_bits(is_inside, is_row, words):
    """Write the lowest bit of each byte, eight to a number, of rows only."""
    for w in range(len(is_row)):
        word = _NONE
        for k in range(_BYTES):
            bits = (is_inside[w * _BYTES + k] * _AS_BITS) >> _HIGHEST
            word |= bits << np.uint64(k * _BYTES)
        words[w] = word & is_row[w]


@part
def _multiply_sides(of_sides, holds, products, parts, words, n, same, met):
    """List the products that differ on a chunk, write their bits, and return how many they are.

    ``same[u]`` becomes the place in the list of what product u is there, -1 where it is zero.
    """
    same[0], met[0] = 0, 0
    n_met = 1
    for u in range(1, len(products)):
        same[u] = n_met
        some = _ALL
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
        if same[u] != n_met:
            continue
        for k in range(products.shape[1]):
            if products[u, k] >= 0:
                before = words[0, :n] if k == 0 else words[u, :n]
                some = _both(of_sides[products[u, k], :n], before, words[u, :n])
        if some == _NONE:
            same[u] = _ZERO
            continue
        met[n_met] = u
        n_met += 1
    return n_met


@part
def _both(one, other, words):
    some = _NONE
    for w in range(len(words)):
        words[w] = one[w] & other[w]
        some |= words[w]
    return some


@part
def _count_pairs(words, n, met, sums):
    """Write how many rows there are in every two of some products, on and above the diagonal."""
    for i in range(len(met)):
        a, to = words[met[i], :n], sums[i]
        k = i
        while k + 3 < len(met):
            b, c = words[met[k], :n], words[met[k + 1], :n]
            d, e = words[met[k + 2], :n], words[met[k + 3], :n]
            to[k], to[k + 1], to[k + 2], to[k + 3] = _count_four(a, b, c, d, e)
            k += 4
        while k < len(met):
            b = words[met[k], :n]
            to[k] = _count_four(a, b, b, b, b)[0]
            k += 1


@part
def _count_four(a, b, c, d, e):
    """Return how many bits the first has in common with each of the others."""
    p = q = r = s = _NONE
    for w in range(len(a)):
        word = a[w]
        p += _count_bits(word & b[w])
        q += _count_bits(word & c[w])
        r += _count_bits(word & d[w])
        s += _count_bits(word & e[w])
    return p, q, r, s


@part
def _write_roots(words, bit, weight, roots, sums):
    """Write the root of a row's weight for each product that it is in, and add its weight there."""
    root, shift = np.sqrt(weight), np.uint64(bit)
    for i in range(len(words)):
        is_in = np.float64((words[i] >> shift) & _ONE)
        roots[i] = is_in * root
        sums[i] += is_in * weight


@part
def _add_pairs(sums, n_met, same, listed, of_pairs):
    """Add the sums of products that differ to all that are the same; `sums` is made symmetric."""
    for i in range(n_met):
        for k in range(i):
            sums[i, k] = sums[k, i]
    n = 0
    for u in range(len(same)):
        listed[n] = u
        n += same[u] != _ZERO
    for i in range(n):
        row, to = sums[same[listed[i]]], of_pairs[listed[i]]
        for k in range(i, n):
            to[np.uint64(listed[k])] += row[np.uint64(same[listed[k]])]
