"""Values of the rows in cells."""

from treepurify._kernels.compiling import kernel


@kernel
def add_values_of_cells(cell, values, columns, total):
    """Add to some columns of `total` the values of each row's joint cell."""
    for k in range(len(columns)):
        column = columns[k]
        for row in range(len(cell)):
            total[row, column] += values[cell[row], k]
