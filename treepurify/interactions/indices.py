"""Variance by order and total interaction indices of an ensemble, under independent features."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_whole
from treepurify.budget import DEFAULT_BUDGET, check_memory_budget
from treepurify.decomposition import Decomposition
from treepurify.engines.common.functions import rows_for_model
from treepurify.engines.common.inputs import read_model_rows, row_weights, with_note
from treepurify.engines.tree.independent_leaves import independent_leaves
from treepurify.engines.tree.purify import purify
from treepurify.engines.tree.second_moments import MOST_PAIRS, InteractionIndices, leaf_indices
from treepurify.errors import InvalidInputError
from treepurify.models.additive_tables import AdditiveTables
from treepurify.progress import progress_report
from treepurify.weights import Weighting, as_weighting


def interaction_indices(
    model: Any,
    X: Any = None,
    *,
    weights: str | Weighting = "independent",
    sample_weight: npt.ArrayLike | str | None = None,
    feature_names: Sequence[str] | None = None,
    most_pairs: int = MOST_PAIRS,
    seed: int = 0,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> InteractionIndices:
    """Return the share of a model's variance at each order, and which features interact.

    Under independent features the ANOVA components of an ensemble are uncorrelated, and the
    variance by order and the total interaction index ``sum over S containing i and j of
    Var(f_S)`` can be computed exactly, at any depth, without any table of effects: from the second
    moments of all pairs of leaves, which are products over features. If these are too many, the
    numbers are means over sampled rows, of squares that are exact on each row, and every number has
    a standard error. For an EBM they are sums over its purified tables.

    Parameters
    ----------
    model : object, str or Path
        A trained model, a model file, or what `parse_model` returned.
    X : array_like, table of shape (n_rows, n_features), or rows in batches, optional
        Rows that give the distribution of each feature; not needed for ``weights="uniform"``. For
        rows in batches, as in `purify`, a weighted sample of at most 100 000 is used; ``measure``
        of the result says so.
    weights : {"independent", "uniform"} or Weighting
        A weighting under which features are independent.
    sample_weight : array_like of shape (n_rows,) or str, optional
        Weight of each row, finite and not negative. For rows in batches, the name of the column
        of weights.
    feature_names : sequence of str, optional
        Names of the features, in the order of the model.
    most_pairs : int
        Largest amount of work for exact numbers, as a number of pairs of leaves with paths of
        six features. If more is needed, numbers are estimated, with standard errors, on 1000 to
        20 000 rows; a larger `most_pairs` uses more rows.
    seed : int
        Seed of these rows, and of a sample of rows.
    memory_budget : int
        Bytes that tables may take; more is refused before it is allocated.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    InteractionIndices
        Variances are in squared units of the margin.

    Raises
    ------
    InvalidInputError
        If the weighting does not make features independent.
    MemoryBudgetError
        If the tables of pairs would take too much memory.

    See Also
    --------
    h_statistics : Interaction strength from partial dependence.
    purify : Main effects and interactions of a tree model.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> indices = tp.interaction_indices(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> indices.variance_by_order
    array([[0.125 , 0.0625]])
    """
    check_whole("most_pairs", most_pairs, 1)
    check_whole("seed", seed, 0)
    check_memory_budget(memory_budget)
    weighting = as_weighting(weights)
    if not weighting.is_product:
        raise InvalidInputError(
            'interaction indices need independent features: use weights="independent" or '
            f'"uniform", not {weighting.describe()!r}'
        )
    report = progress_report(progress)
    if not weighting.needs_rows:
        row_weights(None, weighting, sample_weight)
    sample = rows_for_model(
        model, X, feature_names, sample_weight, memory_budget, report, seed=seed
    )
    parsed, rows = read_model_rows(
        model, sample.table, weighting, feature_names, sample.weights, progress=progress
    )
    if isinstance(parsed, AdditiveTables):
        d = purify(
            parsed,
            sample.table,
            weights=weighting,
            sample_weight=sample.weights,
            order=None,
            memory_budget=memory_budget,
            progress=progress,
        )
        return indices_of_effects(with_note(d, sample))
    words = f", {sample.words}" if sample.words else ""
    return leaf_indices(
        independent_leaves(parsed, rows, weighting, report),
        f"{weighting.describe()}{words}",
        most_pairs=most_pairs,
        seed=seed,
        report=report,
        memory_budget=memory_budget,
    )


def indices_of_effects(d: Decomposition) -> InteractionIndices:
    """Return sums over components, which are uncorrelated under independent features."""
    n_outputs, n_features = d.n_outputs, len(d.feature_names)
    by_order = np.zeros((n_outputs, max(map(len, d.components), default=1)))
    of_pairs = np.zeros((n_outputs, n_features, n_features))
    of_features = np.zeros((n_outputs, n_features))
    for subset, component in d.components.items():
        members = list(subset)
        by_order[:, len(members) - 1] += component.variance
        of_features[:, members] += component.variance[:, None]
        for j in members:
            others = [k for k in members if k != j]
            of_pairs[:, j, others] += component.variance[:, None]
    return InteractionIndices(
        d.feature_names,
        by_order,
        of_pairs,
        of_features,
        np.zeros_like(by_order),
        np.zeros_like(of_pairs),
        np.zeros_like(of_features),
        np.zeros(n_outputs),
        "tables",
        0,
        d.measure,
    )
