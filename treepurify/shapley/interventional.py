"""Interventional Shapley values, exactly: from the leaves of trees, or from all coalitions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from treepurify._kernels.shapley_twigs import add_tables, count_states
from treepurify.arguments import check_choice, check_whole
from treepurify.budget import DEFAULT_BUDGET, check_budget, check_memory_budget
from treepurify.engines.common.functions import RowFunction, parsed_or_none, read_function
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.progress import ProgressReport, progress_report
from treepurify.row_results import Estimate, ShapleyValues
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import read_row_weights, row_shares
from treepurify.rows.table_reader import check_distribution
from treepurify.rows.tables import row_labels
from treepurify.shapley.coalitions import coalition_values
from treepurify.shapley.few_rows import add_few_rows, bytes_of_walk, choose_walks
from treepurify.shapley.table_values import additive_values
from treepurify.shapley.twigs import Twigs, TwigWorkspace, lay_out_twigs, states_of, tables_of_twig
from treepurify.threads import available_threads, map_threads
from treepurify.typing import Array, Integers

_ROWS_A_BLOCK = 2048
_LEAST_ROWS_A_BLOCK = 64
_BYTES_OF_TABLES = 1 << 26
_BYTES_OF_STATES = 1 << 26
# A block's values should stay in the cache of a core.
_ENTRIES_A_BLOCK = 1 << 18

# Trees, each with the roots of those of its twigs whose tables are held at a time.
_Chunk = dict[int, list[int]]


@dataclass(frozen=True, eq=False)
class _TwigTables:
    """Tables of Shapley values of one twig."""

    root: int
    players: list[int]
    outputs: list[int]
    tables: Array


def interventional_shapley_values(
    model: Any,
    X: Any,
    background: Any = None,
    *,
    feature_names: Sequence[str] | None = None,
    sample_weight: npt.ArrayLike | None = None,
    estimate: Estimate | None = None,
    permutations: int = 1000,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> ShapleyValues:
    """Return the interventional Shapley values of a model or function.

    The value of a coalition T is the mean of ``f(x_T, b_rest)`` over the background rows b, as
    in ``shap.TreeExplainer(model, background)`` (Lundberg et al. 2020), summed
    over all background rows at once. The contribution of a leaf depends on the features of its
    path whose tests a row passes, and on the number of background rows that pass each combination
    of tests. Rows and background rows are counted, never paired, so the cost is linear in both.
    If both are few, or paths have more than 12 different features, each row goes down the tree
    together with all background rows, without those that cannot reach a leaf with it. Nothing is
    sampled. The terms of an EBM are tables, and so are their values.

    For any other function, such as the probability of a classifier, all coalitions are
    evaluated, also exactly: a row and a background row that differ in d features take ``2^d``
    calls of the function, and no pair may differ in more than 16 features. With more,
    request estimates by ``estimate="permutations"``: mean contributions of the features when they
    are added in a random order, with the standard error of each value; base and values still sum
    to the prediction. Pairs of rows that differ in few features stay exact. The orders are the
    same in every call.

    Parameters
    ----------
    model : object, str, Path or callable
        A model that `parse_model` knows (on its margin scale), an object with ``predict``, or
        a function X -> (n_rows,) or (n_rows, n_outputs).
    X : array_like or table of shape (n_rows, n_features)
        The rows to explain.
    background : array_like or table of shape (n_background, n_features), optional
        The rows that represent the distribution; `X` by default.
    feature_names : sequence of str, optional
        Names of the features, in the order of the model.
    sample_weight : array_like of shape (n_background,), optional
        Weight of each background row, finite and not negative.
    estimate : {"permutations"}, optional
        How to estimate values if too many coalitions would have to be evaluated; by default
        nothing is estimated. Values of trees and EBMs are exact in any case.
    permutations : int
        Number of orders of the features that ``"permutations"`` uses for each row, half of them
        reverses of the others. They are divided among the background rows, at least four each.
    memory_budget : int
        Bytes that tables may take; more is refused before it is allocated. Leaves whose
        tables do not fit at the same time are computed one after the other.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    ShapleyValues
        On the margin scale for parsed models, else on the scale of the function. Base and
        values sum to the prediction of the row on that scale.

    Raises
    ------
    InvalidInputError
        If rows, weights or the function's values cannot be used, or if a function would have to
        be called with too many rows.
    MemoryBudgetError
        If the values, the rows and the tables of one leaf would take too much memory.

    See Also
    --------
    Decomposition.shapley_values : Effects split among their features, on each row.
    reason_codes : Ranked reasons for the predictions of single rows.
    partial_dependence_anova : Partial dependence of any order, for any function.
    treepurify.export.to_shap : Shapley values for the figures of shap.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> model = DecisionTreeRegressor().fit(X, [0, 0, 0, 1])
    >>> tp.interventional_shapley_values(model, X[3:], X).values[0, :, 0]
    array([0.375, 0.375])
    """
    check_memory_budget(memory_budget)
    if estimate is not None:
        check_choice("estimate", estimate, get_args(Estimate))
    check_whole("permutations", permutations, 4)
    reference = X if background is None else background
    parsed = parsed_or_none(model, feature_names, reference)
    given = (X, background, sample_weight, memory_budget, progress_report(progress))
    if parsed is not None:
        return _values_of_model(parsed, *given)
    # The background has the categories that rows may be set to.
    function, columns = read_function(model, reference, feature_names)
    orders = permutations if estimate == "permutations" else None
    return _values_of_function(function, columns, *given, orders)


def _values_of_model(
    model: Model,
    X: Any,
    background: Any,
    sample_weight: npt.ArrayLike | None,
    memory_budget: int,
    report: ProgressReport,
) -> ShapleyValues:
    columns = model.columns(X)
    reference = columns if background is None else model.columns(background)
    weights = _shares(reference, sample_weight)
    given = (columns, reference, weights, memory_budget, report)
    if isinstance(model, TreeEnsemble):
        values = tree_values(model, *given)
    else:
        values = additive_values(model, *given)
    base = np.average(model.margin(reference, precision="float64"), axis=0, weights=weights)
    return ShapleyValues(
        values, base, None, columns.matrix(), measure=_measure(reference), **_labels(model, X)
    )


def tree_values(
    ensemble: TreeEnsemble,
    columns: Columns,
    reference: Columns,
    weights: Array,
    memory_budget: int,
    report: ProgressReport,
    player_of_feature: Integers | None = None,
) -> Array:
    """Return the Shapley values of trees, exactly, shape (n_rows, n_players, n_outputs).

    Parameters
    ----------
    ensemble : TreeEnsemble
        The trees.
    columns, reference : Columns
        The rows to explain and those that stand for the distribution.
    weights : ndarray of float64, shape (n_background,)
        Weight of each background row.
    memory_budget : int
        Bytes that values, rows and tables may take.
    report : callable
        Progress.
    player_of_feature : ndarray of int64, shape (n_features,), optional
        The player that each feature belongs to, counted from zero: features of one player join
        coalitions together. Each is one by itself by default.

    Raises
    ------
    MemoryBudgetError
        If the values, the rows and the tables of one leaf would not fit.
    """
    twigs = lay_out_twigs(ensemble, player_of_feature)
    walks = choose_walks(ensemble, twigs, columns.n_rows, reference.n_rows)
    tabled = twigs.roots[~walks]
    n_players = ensemble.n_features
    if player_of_feature is not None:
        n_players = int(player_of_feature.max(initial=-1)) + 1
    free_bytes = _free_bytes(
        ensemble,
        columns,
        reference,
        bytes_of_walk(ensemble, walks, columns.n_rows, reference.n_rows, n_players),
        max((_bytes_of_twig(ensemble, twigs, root) for root in tabled), default=0),
        memory_budget,
    )
    phi = np.zeros((ensemble.n_outputs, n_players, columns.n_rows))
    counted = np.array(reference.values, dtype=np.float64)
    explained = counted if columns is reference else np.array(columns.values, dtype=np.float64)
    add_few_rows(ensemble, twigs, walks, explained, counted, weights, phi, report)
    size = _rows_a_block(twigs, free_bytes)
    for chunk in _chunks(ensemble, twigs, tabled, min(_BYTES_OF_TABLES, free_bytes // 2)):
        report("Shapley values of trees", min(chunk), ensemble.n_trees)
        tables = _tables(ensemble, twigs, chunk, counted, weights, size)
        _add_chunk(ensemble, twigs, tables, explained, phi, size)
    return phi.transpose(2, 1, 0)


def _values_of_function(
    function: RowFunction,
    reference: Columns,
    X: Any,
    background: Any,
    sample_weight: npt.ArrayLike | None,
    memory_budget: int,
    report: ProgressReport,
    permutations: int | None,
) -> ShapleyValues:
    columns = reference if background is None else function.columns(X)
    weights = _shares(reference, sample_weight)
    found = coalition_values(
        function,
        columns,
        reference,
        weights,
        function.n_outputs,
        function.used_features,
        memory_budget,
        report,
        permutations=permutations,
    )
    result = ShapleyValues(
        found.values,
        weights @ function(reference),
        None,
        columns.matrix(),
        measure=_measure(reference),
        **_labels(function, X),
    )
    if found.standard_error is None or not found.standard_error.any():
        return result
    return replace(
        result,
        measure=f"{result.measure}, estimated from {permutations} permutations",
        estimate="permutations",
        standard_error=found.standard_error,
    )


def _shares(reference: Columns, sample_weight: npt.ArrayLike | None) -> Array:
    check_distribution(reference, "rows that represent the data", "the background")
    return row_shares(reference.n_rows, read_row_weights(sample_weight, reference.n_rows))


def _measure(reference: Columns) -> str:
    return f"interventional, {reference.n_rows} background rows"


def _labels(source: Model | RowFunction, X: Any) -> dict[str, Any]:
    """Return the fields of `ShapleyValues` that name its rows, features and outputs."""
    return {
        "feature_names": tuple(spec.name for spec in source.features),
        "output_names": source.output_names,
        "index": row_labels(X),
        "features": source.features,
    }


def _free_bytes(
    ensemble: TreeEnsemble,
    columns: Columns,
    reference: Columns,
    walk: int,
    largest_table: int,
    memory_budget: int,
) -> int:
    """Return the bytes that the values and the rows leave for tables, after checking them.

    Raises
    ------
    MemoryBudgetError
        If the values, and the lists of a walk or the tables of a single twig, would not fit.
    """
    n_tables = ensemble.n_outputs + 1 + (reference is not columns)
    values = 8 * ensemble.n_features * (n_tables * columns.n_rows + reference.n_rows)
    check_budget(
        values + max(walk, largest_table),
        memory_budget,
        f"the Shapley values of {columns.n_rows} rows with {reference.n_rows} background rows",
        "Pass fewer rows at a time.",
    )
    return memory_budget - values


def _bytes_of_twig(ensemble: TreeEnsemble, twigs: Twigs, root: int) -> int:
    bits = twigs.n_state_bits(root)
    n_tables = int(ensemble.value.shape[1]) * bits + 1
    return 8 * n_tables << bits


def _rows_a_block(twigs: Twigs, free_bytes: int) -> int:
    """Return the rows whose states are held at a time; deep trees have many states per row."""
    bytes_a_row = 8 * (int(twigs.buffer_row.max(initial=0)) + 1) * available_threads()
    fitting = min(_BYTES_OF_STATES, free_bytes // 4) // bytes_a_row
    return int(np.clip(fitting, _LEAST_ROWS_A_BLOCK, _ROWS_A_BLOCK))


def _chunks(
    ensemble: TreeEnsemble, twigs: Twigs, roots: Integers, most_bytes: int
) -> Iterator[_Chunk]:
    """Split the twigs, in the order of the trees, so that the tables of a chunk stay small."""
    chunk: _Chunk = {}
    size = 0
    of_root = np.searchsorted(ensemble.tree_ptr, roots, side="right") - 1
    for tree, root in zip(of_root.tolist(), roots.tolist(), strict=True):
        n_bytes = _bytes_of_twig(ensemble, twigs, root)
        if chunk and size + n_bytes > most_bytes:
            yield chunk
            chunk, size = {}, 0
        chunk.setdefault(tree, []).append(root)
        size += n_bytes
    if chunk:
        yield chunk


def _tables(
    ensemble: TreeEnsemble,
    twigs: Twigs,
    chunk: _Chunk,
    values: Array,
    weights: Array,
    size: int,
) -> dict[int, list[_TwigTables]]:
    n_rows = values.shape[1]

    def of_tree(tree: int) -> list[_TwigTables]:
        alone = _twigs_of(ensemble, twigs, tree, tree)
        counts = {root: np.zeros(1 << twigs.n_state_bits(root)) for root in chunk[tree]}
        for start in range(0, n_rows, size):
            block = slice(start, start + size)
            block_values = np.ascontiguousarray(values[:, block])
            for _, states in states_of(ensemble, alone, [tree], block_values):
                for root, count in counts.items():
                    count_states(states[twigs.buffer_row[root]], weights[block], count)
        outputs = _outputs(ensemble, tree)
        workspace = TwigWorkspace.of(max(map(twigs.n_state_bits, counts), default=0))
        of_twigs = []
        for root, count in counts.items():
            players = twigs.players(root)
            if players:
                table = tables_of_twig(ensemble, twigs, root, players, count, workspace)
                of_twigs.append(_TwigTables(root, players, outputs, table))
        return of_twigs

    return dict(zip(chunk, map_threads(of_tree, chunk), strict=True))


def _twigs_of(ensemble: TreeEnsemble, twigs: Twigs, first: int, last: int) -> Twigs:
    """Return the twigs with the roots of some trees only: `states_of` asks each for its width."""
    return replace(twigs, roots=twigs.roots_of(*ensemble.tree_ptr[[first, last + 1]]))


def _outputs(ensemble: TreeEnsemble, tree: int) -> list[int]:
    output = int(ensemble.tree_output[tree])
    return [output] if output >= 0 else list(range(ensemble.n_outputs))


def _add_chunk(
    ensemble: TreeEnsemble,
    twigs: Twigs,
    tables: dict[int, list[_TwigTables]],
    values: Array,
    phi: Array,
    most_rows: int,
) -> None:
    alone = _twigs_of(ensemble, twigs, min(tables), max(tables))
    fitting = _ENTRIES_A_BLOCK // (phi.shape[0] * phi.shape[1])
    size = int(np.clip(fitting, _LEAST_ROWS_A_BLOCK, most_rows))

    def add_block(start: int) -> None:
        block = slice(start, start + size)
        block_values = np.ascontiguousarray(values[:, block])
        part = np.ascontiguousarray(phi[:, :, block])
        for tree, states in states_of(ensemble, alone, list(tables), block_values):
            for held in tables[tree]:
                state = states[twigs.buffer_row[held.root]]
                for value, k in enumerate(held.outputs):
                    for slot, j in enumerate(held.players):
                        add_tables(state, held.tables[value, slot], part[k, j])
        phi[:, :, block] = part

    map_threads(add_block, range(0, values.shape[1], size))
