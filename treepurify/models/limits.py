"""Limits to what a model may claim to hold beyond what its file describes."""

from treepurify.errors import UnsupportedModelError

# Wide enough for every model we know of, and read within a second.
_MOST_UNNAMED_FEATURES = 1 << 17
_MOST_OUTPUTS = 1 << 14
_MOST_TABLE_BYTES = 1 << 27
_MOST_CELLS = 1 << 23
_MOST_CELLS_PER_NUMBER = 16


def check_features(n_features: int, n_listed: int = 0) -> None:
    """Refuse a number of features far beyond those that the model describes.

    Parameters
    ----------
    n_features : int
        Number of features that the model states.
    n_listed : int
        Number of features that it names.

    Raises
    ------
    UnsupportedModelError
        If there are too many; nothing was allocated.
    """
    most = max(_MOST_UNNAMED_FEATURES, n_listed)
    if n_features > most:
        raise UnsupportedModelError(
            f"the model states {n_features} features but describes only {n_listed}; at most {most} "
            "can be read. The file may be damaged; if it is not, train on named columns."
        )


def check_outputs(n_outputs: int, n_trees: int) -> None:
    """Refuse a number of outputs far beyond the trees of the model.

    Parameters
    ----------
    n_outputs : int
        Number of outputs that the model states.
    n_trees : int
        Number of its trees.

    Raises
    ------
    UnsupportedModelError
        If there are too many; nothing was allocated.
    """
    most = max(_MOST_OUTPUTS, n_trees)
    if n_outputs > most:
        raise UnsupportedModelError(
            f"the model states {n_outputs} outputs but has {n_trees} trees; at most {most} outputs "
            "can be read. The file may be damaged."
        )


def check_category_tables(n_entries: int) -> None:
    """Refuse tables of categories that take too much memory.

    Parameters
    ----------
    n_entries : int
        Number of entries of all tables, one byte each.

    Raises
    ------
    UnsupportedModelError
        If there are too many; nothing was allocated.
    """
    if n_entries > _MOST_TABLE_BYTES:
        raise UnsupportedModelError(
            f"the categorical splits of the model need tables of {n_entries} entries, more than "
            f"{_MOST_TABLE_BYTES}: codes are too large for the number of splits. Encode the "
            "categories as 0, 1, 2, ... before training, or join rare categories."
        )


def check_cells(n_cells: int, n_stored: int) -> None:
    """Refuse tables of cells far larger than the numbers that they are filled from.

    Parameters
    ----------
    n_cells : int
        Number of cells of all tables.
    n_stored : int
        Number of values that the model stores for them.

    Raises
    ------
    UnsupportedModelError
        If there are too many; nothing was allocated.
    """
    if n_cells > max(_MOST_CELLS, _MOST_CELLS_PER_NUMBER * n_stored):
        raise UnsupportedModelError(
            f"the tables of the model would need {n_cells} cells for {n_stored} stored values, "
            "because too many labels share a bin. Join rare labels before training, or train "
            "without interactions."
        )
