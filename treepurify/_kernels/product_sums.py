"""Count rows where products of indicators are one: 64 rows at a time, as the bits of a word.

A side is a set of cells of one feature, given as runs of cells; a product is one where the rows
are on all of its sides. Rows come in the order of the leaves of a tree, and a chunk of them has
one leaf, or a few small ones. Most sides hold all of it or nothing: what they are a factor of is
zero there, or another product. The others are formed, and every two of them are counted. Words of
different products stand side by side, so that one is counted with several others at a time.
"""

import numpy as np
from numba import types
from numba.extending import intrinsic

from treepurify._kernels.compiling import inlined, kernel, part
from treepurify._kernels.gram import subtract_gram

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
    workspace : treepurify.engines.tree.product_sums.ProductWorkspace
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
