"""SciPy sparse input: duck-typed, and read column by column."""

from typing import Any

import numpy as np

from treepurify.budget import DEFAULT_BUDGET, check_budget
from treepurify.errors import InvalidInputError
from treepurify.typing import Array

__all__ = [
    "by_columns",
    "check_dense_size",
    "check_sparse",
    "dense_rows",
    "is_sparse",
    "sparse_column",
]

_ADVICE = (
    "Sparse rows are read into dense columns: pass fewer of them, or those columns only that the "
    "model needs."
)


def is_sparse(X: Any) -> bool:
    """Return whether something is a sparse matrix or a sparse array of SciPy."""
    return hasattr(X, "tocsc") and hasattr(X, "toarray") and not isinstance(X, type)


def check_sparse(X: Any, name: str) -> None:
    """Refuse sparse rows of complex numbers, or of another number of dimensions than two."""
    if len(X.shape) != 2 or X.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"{name} must be a two-dimensional array (rows, features) of real numbers, got sparse "
            f"values of shape {X.shape} and type {X.dtype}"
        )


def check_dense_size(n_rows: int, n_columns: int) -> None:
    """Raise `MemoryBudgetError` if that many dense columns exceed the budget."""
    what = f"{n_columns} columns of {n_rows} sparse rows"
    check_budget(8 * n_rows * n_columns, DEFAULT_BUDGET, what, _ADVICE)


def dense_rows(X: Any) -> Array:
    """Return sparse rows as an array; what is absent is zero."""
    check_dense_size(*X.shape)
    return np.asarray(X.toarray())


def by_columns(X: Any) -> Any:
    """Return the same rows stored by column, each entry once."""
    columns = X.tocsc()
    if not columns.has_canonical_format:
        columns = columns.copy()
        columns.sum_duplicates()
    return columns


def sparse_column(X: Any, position: int, absent: float) -> Array:
    """Return one dense column of what `by_columns` returned.

    Parameters
    ----------
    X : sparse matrix or array in compressed columns
        The rows.
    position : int
        Which column.
    absent : float
        The value of entries that are not stored; those stored as zero are zero.
    """
    column = np.full(X.shape[0], absent)
    entries = slice(X.indptr[position], X.indptr[position + 1])
    column[X.indices[entries]] = X.data[entries]
    return column
