"""Products of the splits of a tree: which there are, their masses, and sums of their multiples."""

from treepurify._kernels.compiling import inlined, kernel, part


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
