"""Shapley values: what each feature adds to a row's margin."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from treepurify.arguments import check_choice
from treepurify.budget import DEFAULT_BUDGET, check_budget
from treepurify.components import Component, evaluate_each
from treepurify.decomposition import Decomposition
from treepurify.grids.grid import Subset
from treepurify.progress import ProgressReport, effect_progress, no_report
from treepurify.remainder import Difference, SumOfParts, stack_rows, used_features
from treepurify.row_results import Groups, ShapleyValues
from treepurify.rows.columns import FeatureSpec
from treepurify.rows.tables import row_labels
from treepurify.typing import Array, Indices

if TYPE_CHECKING:
    pass


def shapley_values(
    decomposition: Decomposition,
    X: Any,
    *,
    groups: Groups | None = None,
    memory_budget: int = DEFAULT_BUDGET,
    report: ProgressReport = no_report,
) -> ShapleyValues:
    r"""Split each effect evenly among its features.

    The Shapley value of the game ``v(T) = sum over S in T of f_S(x)`` is
    ``phi_i = sum over S containing i of f_S(x) / |S|``. Its meaning depends on the
    decomposition: terms of partial dependence give the interventional values of Lundberg et
    al. (2020) for their background rows; effects under independent features give the values of
    independent features; effects under dependent features give the values of the generalised
    functional ANOVA.

    Parameters
    ----------
    decomposition : Decomposition
        From any engine.
    X : array_like or table of shape (n_rows, n_features)
        The rows.
    groups : {"raw"}, optional
        ``"raw"``: features that are made from the same raw columns get one value together, as one
        player of the game. By default each feature gets a value.
    memory_budget : int
        Bytes that the values and the rows may take.
    report : callable
        Progress.

    Returns
    -------
    ShapleyValues
        On the margin scale. Effects above the decomposition's order are also split if their
        features are known; if not, they are `ShapleyValues.remainder`. The remainder of
        `categorical_anova` is one effect of all features and split evenly among them
        (Ferrere et al. 2026, equation 23).

    Raises
    ------
    InvalidInputError
        If the rows do not fit the model, or `groups` is unknown.
    MemoryBudgetError
        If the values would take too much memory.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> d.shapley_values(X).values[:, :, 0]
    array([[-0.125, -0.125],
           [-0.375,  0.125],
           [ 0.125, -0.375],
           [ 0.375,  0.375]])
    """
    every = range(len(decomposition.feature_names))
    n_rows, blocks = decomposition.inputs.blocks(X, every)
    players = _find_players(decomposition, groups)
    n_players = len(players.features)
    check_budget(
        8 * n_rows * (n_players * (decomposition.n_outputs + 1) + len(every)),
        memory_budget,
        f"the Shapley values of {n_rows} rows",
        "Pass fewer rows at a time.",
    )
    by_player = np.zeros((n_players, n_rows, decomposition.n_outputs))
    data, left, stop = np.empty((n_rows, n_players)), [], 0
    progress = effect_progress(n_evaluated(decomposition), n_rows, report)
    for columns in blocks:
        start, stop = stop, stop + columns.n_rows
        data[start:stop] = players.data(columns.matrix())
        for subset, values in evaluated_components(decomposition, columns):
            progress(columns.n_rows)
            if subset is None:
                left.append(values)
                continue
            concerned = players.among(subset)
            share = values / len(concerned)
            for player in concerned:
                by_player[player, start:stop] += share
    rest, remainder = decomposition.remainder, stack_rows(left) if left else None
    if remainder is not None and isinstance(rest, Difference) and rest.is_joint:
        by_player += remainder / n_players
        remainder = None
    return ShapleyValues(
        by_player.transpose(1, 0, 2),
        decomposition.intercept,
        remainder,
        data,
        tuple(spec.name for spec in players.features),
        decomposition.output_names,
        decomposition.measure,
        row_labels(X),
        players.features,
    )


@dataclass(frozen=True, eq=False)
class _Players:
    """Who gets a value: each feature, or several together.

    Parameters
    ----------
    of_feature : ndarray of intp, shape (n_features,)
        The player of each feature.
    features : tuple of FeatureSpec
        The feature that is a player alone, or one with the names of all raw columns of a group.
    """

    of_feature: Indices
    features: tuple[FeatureSpec, ...]

    def among(self, subset: Subset) -> list[int]:
        """Return the players that features belong to."""
        return sorted({int(self.of_feature[j]) for j in subset})

    def data(self, matrix: Array) -> Array:
        """Return the values of players that are one feature; NaN of others."""
        values = np.full((len(matrix), len(self.features)), np.nan)
        alone = np.bincount(self.of_feature)[self.of_feature] == 1
        values[:, self.of_feature[alone]] = matrix[:, alone]
        return values


def _find_players(d: Decomposition, groups: Groups | None) -> _Players:
    specs = d.inputs.features
    if groups is None:
        return _Players(np.arange(len(specs)), specs)
    check_choice("groups", groups, get_args(Groups))
    of_feature = _connected_by_sources(specs, used_features(d.components, d.remainder))
    players = []
    for player in range(of_feature.max(initial=-1) + 1):
        members = [specs[j] for j in np.flatnonzero(of_feature == player)]
        raws = dict.fromkeys(name for spec in members for name in spec.raw_columns)
        name = " + ".join(raws)
        players.append(members[0] if len(members) == 1 else FeatureSpec(name))
    return _Players(of_feature, tuple(players))


def _connected_by_sources(specs: Sequence[FeatureSpec], used: Sequence[int]) -> Indices:
    """Return the group of each feature: used ones with a raw column in common have the same.

    Groups are numbered in the order of their first features.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    # Raw columns are further nodes behind the features.
    node: dict[str, int] = {}
    edges = [
        (j, node.setdefault(name, len(specs) + len(node)))
        for j in used
        for name in specs[j].raw_columns
    ]
    first, second = np.array(edges, dtype=np.intp).reshape(-1, 2).T
    size = len(specs) + len(node)
    graph = coo_array((np.ones(len(edges)), (first, second)), shape=(size, size))
    _, label = connected_components(graph, directed=False)
    _, start, of_feature = np.unique(label[: len(specs)], return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(start))
    return np.asarray(rank[of_feature], dtype=np.intp)


def evaluated_components(
    decomposition: Decomposition, columns: Any
) -> Iterator[tuple[Subset | None, Array]]:
    """Yield every component with its values on the rows; None stands for unknown features.

    A remainder that is made of components is yielded part by part.
    """
    known: list[tuple[Subset, Component]] = list(decomposition.components.items())
    rest = decomposition.remainder
    if isinstance(rest, SumOfParts):
        known += [(part.features, part) for part in rest.parts]
    values = evaluate_each([component for _, component in known], columns)
    for (subset, _), on_rows in zip(known, values, strict=True):
        yield subset, on_rows
    if rest is not None and not isinstance(rest, SumOfParts):
        yield None, rest.on_rows(columns)


def evaluated_effects(decomposition: Decomposition) -> list[Subset]:
    """Return the features of each effect that `evaluated_components` yields."""
    rest = getattr(decomposition.remainder, "parts", ())
    return [*decomposition.components, *(part.features for part in rest)]


def n_evaluated(decomposition: Decomposition) -> int:
    """Return how many parts `evaluated_components` yields."""
    rest = decomposition.remainder
    beyond = len(rest.parts) if isinstance(rest, SumOfParts) else int(rest is not None)
    return len(decomposition) + beyond
