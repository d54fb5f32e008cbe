"""Sums of tables on rows, and sums of rows in the cells of tables: each the other's transpose."""

from treepurify._kernels.compiling import kernel


@kernel
def add_tables(cells, starts, tables, on_rows):
    """Add to each row the entries of its cells: row `i` is in cell ``cells[t, i]`` of table `t`.

    The entries of table `t` begin at ``starts[t]`` of `tables` (n_cells, n_outputs).
    """
    for table in range(len(cells)):
        start = starts[table]
        for row in range(cells.shape[1]):
            cell = start + cells[table, row]
            for output in range(on_rows.shape[1]):
                on_rows[row, output] += tables[cell, output]


@kernel
def add_rows(cells, starts, on_rows, tables):
    """Add the values of each row to its cells, where `add_tables` would read them."""
    for table in range(len(cells)):
        start = starts[table]
        for row in range(cells.shape[1]):
            cell = start + cells[table, row]
            for output in range(on_rows.shape[1]):
                tables[cell, output] += on_rows[row, output]
