"""Products of many pair tables, and of their matrices, with numbers for their slices.

They stand one after the other as in `pair_equations`.
"""

from treepurify._kernels.compiling import kernel
from treepurify._kernels.slice_sums import two_product, two_sum


# Sums in the order that fills the registers; the same in every run.
@kernel(fastmath={"reassoc", "contract"})
def multiply_tables(sizes, tables, of_slices, products):
    """Set, for each slice, the sum of its cells times the numbers of the slices across."""
    cell, first = 0, 0
    for t in range(len(sizes)):
        n_columns = sizes[t, 1]
        of_columns = of_slices[first : first + n_columns]
        columns = products[first : first + n_columns]
        for j in range(n_columns):
            columns[j] = 0.0
        first += n_columns
        for s in range(first, first + sizes[t, 0]):
            row, of_row, total = tables[cell : cell + n_columns], of_slices[s], 0.0
            for j in range(n_columns):
                columns[j] += row[j] * of_row
                total += row[j] * of_columns[j]
            products[s] = total
            cell += n_columns
        first += sizes[t, 0]


@kernel(fastmath={"reassoc", "contract"})
def multiply_matrices(sizes, matrices, share, of_slices, products, magnitudes):
    """Set, for each column, the sum of entries times the numbers less a share of its own.

    And the sum of the absolute values of these products. Rows are left as they are.
    """
    entry, first = 0, 0
    for t in range(len(sizes)):
        n_columns = sizes[t, 1]
        others = of_slices[first : first + n_columns]
        for j in range(n_columns):
            row = matrices[entry : entry + n_columns]
            own, total, magnitude = share * others[j], 0.0, 0.0
            for k in range(n_columns):
                product = row[k] * (others[k] - own)
                total += product
                magnitude += abs(product)
            products[first + j], magnitudes[first + j] = total, magnitude
            entry += n_columns
        first += n_columns + sizes[t, 0]


@kernel
def sum_slices_twofold(sizes, weight, values, high, low, total, rest, workspace):
    """Set the sum over each slice of weighted values less parts ``high + low``.

    It is ``total + rest`` in twofold precision, as of `add_slice_sums_twofold`. `workspace`, of
    shape (2, any), is as long as the widest table.
    """
    cell, first = 0, 0
    products, errors = workspace[0], workspace[1]
    for t in range(len(sizes)):
        n_columns = sizes[t, 1]
        last = first + n_columns
        high_of, low_of = high[first:last], low[first:last]
        sums, rests = total[first:last], rest[first:last]
        for j in range(n_columns):
            sums[j] = rests[j] = 0.0
        for s in range(last, last + sizes[t, 0]):
            own, mass = values[cell : cell + n_columns], weight[cell : cell + n_columns]
            high_of_row, low_of_row = high[s], low[s]
            for j in range(n_columns):
                left, error = two_sum(own[j], -high_of[j])
                left, other = two_sum(left, -high_of_row)
                left, error = two_sum(left, error + other - low_of[j] - low_of_row)
                product, lost = two_product(mass[j], left)
                products[j], errors[j] = product, lost + mass[j] * error
                sums[j], lost = two_sum(sums[j], product)
                rests[j] += lost + errors[j]
            row, row_rest = 0.0, 0.0
            for j in range(n_columns):
                row, lost = two_sum(row, products[j])
                row_rest += lost + errors[j]
            total[s], rest[s] = row, row_rest
            cell += n_columns
        first = last + sizes[t, 0]


@kernel(fastmath={"nnan", "nsz"})
def take_parts(sizes, values, parts, pure, largest):
    """Set the tables without the parts of their slices.

    And, for each table, its largest entry before and after, and the largest difference between it
    and the sum of what it was split into; they only grow.
    """
    cell, first = 0, 0
    for t in range(len(sizes)):
        n_columns = sizes[t, 1]
        of_columns = parts[first : first + n_columns]
        before, after, wrong = largest[t, 0], largest[t, 1], largest[t, 2]
        first += n_columns
        for s in range(first, first + sizes[t, 0]):
            own, rest = values[cell : cell + n_columns], pure[cell : cell + n_columns]
            of_row = parts[s]
            for j in range(n_columns):
                left = own[j] - of_columns[j] - of_row
                rest[j] = left
                difference = abs(left - own[j] + of_columns[j] + of_row)
                before = abs(own[j]) if abs(own[j]) > before else before
                after = abs(left) if abs(left) > after else after
                wrong = difference if difference > wrong else wrong
            cell += n_columns
        first += sizes[t, 0]
        largest[t, 0], largest[t, 1], largest[t, 2] = before, after, wrong


@kernel(fastmath={"nnan", "nsz"})
def largest_with_mass(sizes, cell_mass, values, largest):
    """Set the largest absolute value of each table in cells with mass; it only grows."""
    cell = 0
    for t in range(len(sizes)):
        stop = cell + sizes[t, 0] * sizes[t, 1]
        own, mass, most = values[cell:stop], cell_mass[cell:stop], largest[t]
        for i in range(len(own)):
            value = abs(own[i])
            value = value if mass[i] > 0 else 0.0
            most = value if value > most else most
        largest[t] = most
        cell = stop
