"""Interventional Shapley values of a tree ensemble, exactly, with any number of background rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify._kernels.shapley_twigs import add_leaf_pairs, add_tables, count_states
from treepurify.budget import DEFAULT_BUDGET, check_budget
from treepurify.columns import Columns, table_names
from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.models.catboost import label_categories
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import parse_model
from treepurify.progress import progress_report
from treepurify.shapley.twigs import TABLE_BITS, Twigs, lay_out_twigs, states_of, tables_of_twig
from treepurify.shapley.values import ShapleyValues
from treepurify.threads import map_threads

__all__ = ["interventional_shapley_values"]

Array = npt.NDArray[np.float64]

_ROWS_A_BLOCK = 2048
_BYTES_OF_TABLES = 1 << 26
# A block's values should stay in the cache of a core.
_ENTRIES_A_BLOCK = 1 << 18


@dataclass(frozen=True, eq=False)
class _TwigTables:
    """Tables of one twig: of Shapley values, or of the background's patterns on a long path."""

    root: int
    features: list[int]
    outputs: list[int]
    tables: Array
    patterns: npt.NDArray[np.uint64] | None = None


def interventional_shapley_values(
    model: Any,
    X: Any,
    background: Any = None,
    *,
    background_weight: npt.ArrayLike | None = None,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> ShapleyValues:
    """Return the interventional Shapley values of a tree ensemble.

    The value of a coalition T is the mean of ``f(x_T, b_rest)`` over the background rows b:
    the game of ``shap.TreeExplainer(model, background)`` (Lundberg et al. 2020), summed
    over all background rows at once. What a leaf adds depends on which features of its path
    a row passes, and on how many background rows pass which: rows and background are counted
    by pattern, never paired, so the cost is linear in both. Paths of more than 12 different
    features are summed by pairs of distinct patterns instead. Nothing is sampled.

    Parameters
    ----------
    model : object, str or Path
        A tree ensemble of any supported library, a model file, or a parsed model.
    X : array_like or table of shape (n_rows, n_features)
        The rows to explain.
    background : array_like or table of shape (n_background, n_features), optional
        The rows that stand for the distribution; `X` by default.
    background_weight : array_like of shape (n_background,), optional
        Weight of each background row, finite and not negative.
    memory_budget : int
        Bytes that the values may take.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    ShapleyValues
        On the margin scale. Base and values sum to the margin of the row.

    Raises
    ------
    UnsupportedModelError
        If the model is no tree ensemble that can be parsed.
    InvalidInputError
        If rows or weights cannot be used.
    MemoryBudgetError
        If the values would not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> model = DecisionTreeRegressor().fit(X, [0, 0, 0, 1])
    >>> interventional_shapley_values(model, X[3:], X).values[0, :, 0]
    array([0.375, 0.375])
    """
    ensemble = label_categories(parse_model(model), X)
    if not isinstance(ensemble, TreeEnsemble):
        raise UnsupportedModelError(
            "interventional Shapley values are computed for tree ensembles; for an EBM use "
            "purify(...).shapley_values(X)"
        )
    columns = ensemble.columns(X)
    reference = columns if background is None else ensemble.columns(background)
    weights = _weights(reference.n_rows, background_weight)
    shape = (ensemble.n_outputs, ensemble.n_features, columns.n_rows)
    check_budget(
        8 * int(np.prod(shape, dtype=object)) + 8 * ensemble.n_features * reference.n_rows,
        memory_budget,
        f"the Shapley values of {columns.n_rows} rows",
        "Pass fewer rows at a time, or raise memory_budget.",
    )
    report = progress_report(progress)
    twigs = lay_out_twigs(ensemble)
    phi = np.zeros(shape)
    counted = _feature_major(reference)
    explained = counted if background is None else _feature_major(columns)
    for trees in _chunks(ensemble, twigs):
        report("Shapley values of trees", trees.start, ensemble.n_trees)
        tables = _tables(ensemble, twigs, trees, counted, weights)
        _add_chunk(ensemble, twigs, trees, tables, explained, phi)
    names = None if ensemble.has_feature_names else table_names(X)
    return ShapleyValues(
        phi.transpose(2, 1, 0),
        np.average(ensemble.margin(reference, precision="float64"), axis=0, weights=weights),
        None,
        columns.matrix(),
        tuple(names) if names is not None else ensemble.feature_names,
        ensemble.output_names,
        f"interventional, {reference.n_rows} background rows",
        getattr(X, "index", None) if hasattr(X, "iloc") else None,
    )


def _weights(n_rows: int, given: npt.ArrayLike | None) -> Array:
    if n_rows == 0:
        raise InvalidInputError("the background has no rows; pass rows that stand for the data")
    if given is None:
        return np.full(n_rows, 1.0 / n_rows)
    weights = np.asarray(given, dtype=np.float64)
    if weights.shape != (n_rows,) or not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise InvalidInputError(
            f"background_weight must be {n_rows} finite numbers, none negative; got an array of "
            f"shape {weights.shape}"
        )
    if not np.any(weights > 0):
        raise InvalidInputError("background_weight is zero for every row; one must be positive")
    scaled = weights / weights.max()
    return np.asarray(scaled / scaled.sum())


def _feature_major(columns: Columns) -> Array:
    values = np.empty((len(columns.values), columns.n_rows))
    for j, column in enumerate(columns.values):
        values[j] = column
    return values


def _chunks(ensemble: TreeEnsemble, twigs: Twigs) -> Iterator[range]:
    """Split the trees so that the tables of a chunk stay small; at least one tree each."""
    start, size = 0, 0
    for tree in range(ensemble.n_trees):
        own = 0
        for root in twigs.roots_of(*ensemble.tree_ptr[tree : tree + 2]):
            bits = twigs.n_state_bits(root)
            own += 8 * ensemble.value.shape[1] * bits << min(bits, TABLE_BITS)
        if size and size + own > _BYTES_OF_TABLES:
            yield range(start, tree)
            start, size = tree, 0
        size += own
    if start < ensemble.n_trees:
        yield range(start, ensemble.n_trees)


def _tables(
    ensemble: TreeEnsemble, twigs: Twigs, trees: range, values: Array, weights: Array
) -> dict[int, list[_TwigTables]]:
    def of_tree(tree: int) -> list[_TwigTables]:
        roots = twigs.roots_of(*ensemble.tree_ptr[tree : tree + 2])
        short = [root for root in roots if twigs.n_state_bits(root) <= TABLE_BITS]
        long = [root for root in roots if twigs.n_state_bits(root) > TABLE_BITS]
        counts = {root: np.zeros(1 << twigs.n_state_bits(root)) for root in short}
        patterns: dict[int, list[npt.NDArray[np.uint64]]] = {root: [] for root in long}
        for start in range(0, values.shape[1], _ROWS_A_BLOCK):
            block = slice(start, start + _ROWS_A_BLOCK)
            own = np.ascontiguousarray(values[:, block])
            for _, states in states_of(ensemble, twigs, range(tree, tree + 1), own):
                for root in short:
                    count_states(states[twigs.buffer_row[root]], weights[block], counts[root])
                for root in long:
                    patterns[root].append(states[twigs.buffer_row[root]].astype(np.uint64))
        found = []
        for root in short:
            features = twigs.features(root, ensemble)
            if features:
                table = tables_of_twig(ensemble, twigs, root, features, counts[root])
                found.append(_TwigTables(root, features, _outputs(ensemble, tree), table))
        for root in long:
            distinct, inverse = np.unique(np.concatenate(patterns[root]), return_inverse=True)
            shares = np.asarray(np.bincount(inverse.reshape(-1), weights=weights), dtype=np.float64)
            found.append(
                _TwigTables(
                    root, _by_bit(ensemble, twigs, root), _outputs(ensemble, tree), shares, distinct
                )
            )
        return found

    return dict(zip(trees, map_threads(of_tree, trees), strict=True))


def _outputs(ensemble: TreeEnsemble, tree: int) -> list[int]:
    own = int(ensemble.tree_output[tree])
    return [own] if own >= 0 else list(range(ensemble.n_outputs))


def _by_bit(ensemble: TreeEnsemble, twigs: Twigs, leaf: int) -> list[int]:
    """Return the features of the path to a leaf, by bit."""
    features = [0] * int(twigs.n_bits[leaf])
    node = int(twigs.parent[leaf])
    while node >= 0:
        features[int(twigs.bit[node])] = int(ensemble.feature[node])
        node = int(twigs.parent[node])
    return features


def _add_chunk(
    ensemble: TreeEnsemble,
    twigs: Twigs,
    trees: range,
    tables: dict[int, list[_TwigTables]],
    values: Array,
    phi: Array,
) -> None:
    size = int(np.clip(_ENTRIES_A_BLOCK // (phi.shape[0] * phi.shape[1]), 64, _ROWS_A_BLOCK))

    def add_block(start: int) -> None:
        block = slice(start, start + size)
        own = np.ascontiguousarray(values[:, block])
        part = np.ascontiguousarray(phi[:, :, block])
        for tree, states in states_of(ensemble, twigs, trees, own):
            for held in tables[tree]:
                state = states[twigs.buffer_row[held.root]]
                if held.patterns is not None:
                    _add_long_path(ensemble, held, state, part)
                    continue
                for value, k in enumerate(held.outputs):
                    for slot, j in enumerate(held.features):
                        add_tables(state, held.tables[value, slot], part[k, j])
        phi[:, :, block] = part

    map_threads(add_block, range(0, values.shape[1], size))


def _add_long_path(
    ensemble: TreeEnsemble, held: _TwigTables, state: npt.NDArray[Any], part: Array
) -> None:
    patterns, inverse = np.unique(state.astype(np.uint64), return_inverse=True)
    width = len(held.features)
    leaf_phi = np.zeros((len(patterns), width))
    assert held.patterns is not None  # noqa: S101 - told by the caller
    add_leaf_pairs(patterns, held.patterns, held.tables, width, leaf_phi)
    of_rows = leaf_phi[inverse.reshape(-1)].T
    for value, k in enumerate(held.outputs):
        part[k, held.features] += ensemble.value[held.root, value] * of_rows
