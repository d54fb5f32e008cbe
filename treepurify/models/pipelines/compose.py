"""Compose a tree ensemble with the transformers before it: trees on the raw columns."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from treepurify._kernels.compose_trees import (
    CELL,
    FEATURE,
    LEFT,
    MISSING_LEFT,
    N_FIELDS,
    NO_NODE,
    ORIGIN,
    RIGHT,
    TEST,
    compose_trees,
)
from treepurify.budget import check_budget
from treepurify.errors import UnsupportedModelError
from treepurify.models.ensemble import LEAF, NUMERIC_NODE, TreeEnsemble
from treepurify.models.pipelines.axes import RawAxis, cells_of, raw_axes
from treepurify.models.pipelines.columns import IN_TRANSFORMED_COLUMNS, Column
from treepurify.models.pipelines.node_tests import NodeTests, node_tests
from treepurify.typing import Array, Integers, Mask

__all__ = ["compose"]

_MOST_BYTES = 4 << 30
_BYTES_A_NODE = 8 * (N_FIELDS + 10)


def compose(
    ensemble: TreeEnsemble,
    raws: Sequence[Column],
    columns: Sequence[Column],
    types: Sequence[np.dtype[Any] | None],
    *,
    has_names: bool,
    zero_is_absent: bool,
) -> TreeEnsemble:
    """Return the ensemble as a function of the raw columns.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The model on the transformed columns.
    raws, columns : sequence of Column
        The raw columns, and the transformed ones in the order of the model.
    types : sequence of (dtype or None)
        Types of the raw columns, where they are known; numbers are in double precision otherwise.
    has_names : bool
        Whether the names of the raw columns are the user's.
    zero_is_absent : bool
        Whether a transformed zero is missing to the model.

    Returns
    -------
    TreeEnsemble
        The same leaves, with the tests rewritten.

    Raises
    ------
    UnsupportedModelError
        If trees test a column that depends on several raw columns, or in an unknown way.
    MemoryBudgetError
        If the trees on the raw columns take too much memory.
    """
    uses = {t: columns[t] for t in ensemble.used_features}
    _check_uses(list(uses.values()), raws)
    axes = raw_axes(ensemble, raws, uses, types, zero_is_absent=zero_is_absent)
    read = cells_of(ensemble, uses, axes, zero_is_absent=zero_is_absent)
    return _rebuilt(ensemble, axes, node_tests(ensemble, uses, axes, read), has_names=has_names)


def _check_uses(used: Sequence[Column], raws: Sequence[Column]) -> None:
    """Refuse columns that are no functions of one raw column, before any work."""
    refused: dict[str, list[Column]] = {}
    for column in used:
        if column.refusal:
            refused.setdefault(column.refusal, []).append(column)
    if not refused:
        return
    reason, columns = next(iter(refused.items()))
    made_from = sorted({raw for column in columns for raw in column.raw})
    names = ", ".join(repr(raws[raw].name) for raw in made_from[:8])
    more = f" and {len(made_from) - 8} more" if len(made_from) > 8 else ""
    raise UnsupportedModelError(
        f"the pipeline is not a sum of trees on its raw columns: {reason}. The columns "
        f'concerned are {names}{more}. With columns="auto" the features are the columns of '
        "the last step, which the steps compute from raw tables. Or use a function that needs only "
        "predictions, such as treepurify.legendre_anova(pipeline.predict, X)."
    )


def _rebuilt(
    ensemble: TreeEnsemble, axes: Sequence[RawAxis], tests: NodeTests, *, has_names: bool
) -> TreeEnsemble:
    specs = tuple(axis.spec for axis in axes)
    codes = [axis.spec.n_codes if axis.spec.is_categorical else -1 for axis in axes]
    capacity = len(ensemble.feature)
    while True:
        check_budget(
            capacity * (_BYTES_A_NODE + 8 * ensemble.value.shape[1]),
            _MOST_BYTES,
            f"the trees on the raw columns (more than {capacity // 2} nodes)",
            "A test on one transformed column, such as a one-hot column of a number, can become "
            "several cuts of the raw column. " + IN_TRANSFORMED_COLUMNS,
        )
        tree_ptr = np.empty(ensemble.n_trees + 1, dtype=np.int64)
        nodes = np.empty((capacity, N_FIELDS), dtype=np.int64)
        n_nodes = compose_trees(
            ensemble.tree_ptr,
            ensemble.left.astype(np.int64),
            ensemble.right.astype(np.int64),
            tests.node_test,
            tests.arrays,
            np.array([*codes, -1], dtype=np.int64),
            np.array([axis.n_cells for axis in axes], dtype=np.int64),
            tree_ptr,
            nodes,
        )
        if n_nodes != NO_NODE:
            break
        capacity *= 2
    nodes = nodes[:n_nodes]
    feature, cell, test = nodes[:, FEATURE], nodes[:, CELL], nodes[:, TEST]
    inner = feature != NO_NODE
    is_table = inner & (np.array([*codes, -1])[feature] >= 0)
    is_cut = inner & ~is_table
    # The cuts of all columns one after the other, the one below all numbers first.
    cuts = [np.concatenate([[-np.inf], axis.breaks]) for axis in axes]
    first_cut = np.concatenate([[0], np.cumsum([len(part) for part in cuts])])
    cut = np.full(n_nodes, np.nan)
    cut[is_cut] = np.concatenate(cuts)[first_cut[feature[is_cut]] + cell[is_cut]]
    category_ptr = np.full(n_nodes, NUMERIC_NODE, dtype=np.int64)
    category_ptr[is_table] = tests.table_ptr[test[is_table]]
    return replace(
        ensemble,
        tree_ptr=tree_ptr,
        feature=np.where(inner, feature, LEAF).astype(np.int32),
        cut=cut,
        left=nodes[:, LEFT].astype(np.int32),
        right=nodes[:, RIGHT].astype(np.int32),
        missing_left=nodes[:, MISSING_LEFT] != 0,
        category_ptr=category_ptr,
        category_left=tests.table,
        value=np.where(inner[:, None], 0.0, ensemble.value[nodes[:, ORIGIN]]),
        features=specs,
        has_feature_names=has_names,
        cover=_cover(ensemble, nodes[:, ORIGIN], inner),
    )


def _cover(ensemble: TreeEnsemble, origin: Integers, inner: Mask) -> Array | None:
    """Return the weights of leaves; a leaf in several places has none of its own in any."""
    leaves = origin[~inner]
    if ensemble.cover is None or len(np.unique(leaves)) < len(leaves):
        return None
    return np.where(inner, 0.0, ensemble.cover[origin])
