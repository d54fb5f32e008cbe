"""Tables of all sets of features of a projection, one after the other, for independent features.

`layout` is a `treepurify.engines.tree.coarse_problem.TableLayout`. A margin is the probability of
each cell of each feature, where ``layout.start`` says.
"""

from treepurify._kernels.compiling import kernel


@kernel
def anova(layout, margins, tables):
    """Move the means along each axis of each table to the smaller sets, from the largest on.

    Tables have shape (n_vectors, n_entries). Cells without mass are zero afterwards.
    """
    for v in range(len(tables)):
        table = tables[v]
        for index in range(len(layout.features) - 1, -1, -1):
            inner = layout.base[index + 1] - layout.base[index]
            outer = 1
            for slot in range(layout.features.shape[1]):
                feature = layout.features[index, slot]
                if feature < 0:
                    break
                n, start = layout.sizes[index, slot], layout.start[feature]
                inner //= n
                to = layout.base[layout.parts[index, slot]]
                for i in range(outer):
                    for k in range(inner):
                        first = layout.base[index] + i * n * inner + k
                        mean = 0.0
                        for cell in range(n):
                            mean += margins[start + cell] * table[first + cell * inner]
                        for cell in range(n):
                            has_mass = margins[start + cell] > 0
                            value = table[first + cell * inner] - mean
                            table[first + cell * inner] = value if has_mass else 0.0
                        table[to + i * inner + k] += mean
                outer *= n


@kernel
def list_parts(layout, owner, cells, entries):
    """List the entries of a set's table and of those of all its subsets at some cells.

    Each row of `entries` ends with them or before a -1.
    """
    for row in range(len(owner)):
        n = 0
        while n < layout.features.shape[1] and layout.features[owner[row], n] >= 0:
            n += 1
        for kept in range(entries.shape[1]):
            part, entry, stride = owner[row], 0, 1
            for slot in range(n - 1, -1, -1):
                if kept >> slot & 1:
                    entry += stride * cells[row, slot]
                    stride *= layout.sizes[owner[row], slot]
                else:
                    part = layout.parts[part, slot]
            entries[row, kept] = layout.base[part] + entry if kept < 1 << n else -1


@kernel
def sum_entries(entries, tables, sums):
    """Sum each of `tables` at the entries of each row, which end before a -1."""
    for v in range(len(tables)):
        table = tables[v]
        for row in range(len(entries)):
            total = 0.0
            for k in range(entries.shape[1]):
                if entries[row, k] < 0:
                    break
                total += table[entries[row, k]]
            sums[v, row] = total


@kernel
def add_products(layout, owner, cells, mass, margins, gram):
    """Add the inner products of indicators of cells to the upper triangle of a matrix.

    The product of two indicators has the probability of all cells that either requires, and
    is zero where they ask for different cells of a feature. ``mass[u]`` is the probability of
    the cells of indicator u.
    """
    n_slots = layout.features.shape[1]
    for i in range(len(owner)):
        for k in range(i, len(owner)):
            shared_mass, agrees = 1.0, True
            for r in range(n_slots):
                feature = layout.features[owner[i], r]
                if feature < 0:
                    break
                for s in range(n_slots):
                    if layout.features[owner[k], s] == feature:
                        cell = cells[i, r]
                        agrees = agrees and cell == cells[k, s]
                        shared_mass *= margins[layout.start[feature] + cell]
            if agrees:
                gram[i, k] += mass[i] * mass[k] / shared_mass
