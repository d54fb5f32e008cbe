"""Which effect sizes are real: variances of effects without the noise of few rows."""

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_whole
from treepurify.budget import DEFAULT_BUDGET
from treepurify.decomposition import Decomposition
from treepurify.engines.tree.purify import purify
from treepurify.engines.tree.refits import read_refits
from treepurify.errors import InvalidInputError
from treepurify.models.parse import parse_model
from treepurify.progress import progress_report
from treepurify.rows.row_weights import read_row_weights, row_shares
from treepurify.rows.tables import check_table, take_rows
from treepurify.typing import Array, Indices
from treepurify.weights import Weighting

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["unbiased_importance"]

_PARTS = 3
_LEAST_ROWS = 6


def unbiased_importance(
    model: Any,
    X: Any,
    *,
    weights: str | Weighting = "empirical",
    order: int | None = 2,
    sample_weight: npt.ArrayLike | None = None,
    feature_names: Sequence[str] | None = None,
    repeats: int = 5,
    seed: int = 0,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> "pd.DataFrame":
    """Return how much each component matters, with the noise of few rows taken out.

    The variance of a component is that of the effect and of the noise that the rows, as a sample,
    leave in it; with few rows that of an interaction can be mostly noise. So the rows are split
    into three parts. The model is purified under two of them, and the mean
    product of the two components over the third, centred there, is free of that noise: the
    squared norm of what such a part of the rows gives in the mean. It can be negative where
    there is nothing. Parts take turns, and several splits are averaged.

    Parameters
    ----------
    model : object, str or Path
        A trained model, a model file, or what `parse_model` returned. Two or more of these in a
        list, or as `Refits`, as `purify` takes them.
    X : array_like or table of shape (n_rows, n_features)
        The rows; where there are any, those that the model was not trained on.
    weights : str or Weighting
        The distribution of the features; see `purify`.
    order : int or None
        Largest number of features of a component that is kept apart; see `purify`.
    sample_weight : array_like of shape (n_rows,), optional
        Weight of each row, finite and not negative.
    feature_names : sequence of str, optional
        Names of the features, in the order of the model.
    repeats : int
        Number of splits.
    seed : int
        Seed of the splits.
    memory_budget : int
        Bytes that tables may take; more is refused before it is allocated. It holds for each
        purification.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    DataFrame
        `Decomposition.importance` under all rows, with two more columns, in its units.
        ``unbiased_variance`` is the corrected variance. ``sampling_variance`` is the mean
        square by which a component from all rows is off because they are a sample: half the
        mean squared difference of the components of two parts, over three, as if errors fell
        with the root of the number of rows. Both are NaN for the remainder. Of several models,
        ``training_variance`` stands beside it: how far the training, and how far the rows.

    Raises
    ------
    InvalidInputError
        If there are fewer than six rows of positive weight, or an option cannot be used; see
        also `purify`.
    MemoryBudgetError
        If the tables would not fit.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.ensemble import GradientBoostingRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3))
    >>> y = X[:, 0] + rng.normal(size=500)
    >>> model = GradientBoostingRegressor(max_depth=2, random_state=0).fit(X, y)
    >>> table = tp.unbiased_importance(model, X, repeats=2)
    >>> [name for name in table if name.endswith("_variance")]
    ['unbiased_variance', 'sampling_variance']
    """
    check_whole("repeats", repeats, 1)
    check_whole("seed", seed, 0)
    check_table(X)
    refits = read_refits(model, X, feature_names, memory_budget)
    parsed = parse_model(model, X=X) if refits is None else refits.centre
    report = progress_report(progress)

    def purified(rows: Any, weight_of_rows: Any, what: Any) -> Decomposition:
        return purify(
            what,
            rows,
            weights=weights,
            order=order,
            sample_weight=weight_of_rows,
            feature_names=feature_names,
            # A part of the rows may have no missing value where another has one.
            missing_cells="always",
            memory_budget=memory_budget,
            progress=False,
        )

    whole = purified(X, sample_weight, model)
    n_rows = whole.diagnostics["rows"]
    row_weights = read_row_weights(sample_weight, n_rows)
    counted = np.arange(n_rows) if row_weights is None else np.flatnonzero(row_weights > 0)
    if len(counted) < _LEAST_ROWS:
        raise InvalidInputError(
            f"effects of {_PARTS} parts of the rows are compared, which takes {_LEAST_ROWS} rows "
            f"of positive weight; X has {len(counted)}"
        )
    rng = np.random.default_rng(seed)
    product, difference = (
        {subset: np.zeros(whole.n_outputs) for subset in whole.components} for _ in range(2)
    )
    for step in range(repeats):
        report("purifying parts of the rows", step, repeats)
        parts: list[Indices] = np.array_split(rng.permutation(counted), _PARTS)
        of_parts = [
            purified(take_rows(X, part), None if row_weights is None else row_weights[part], parsed)
            for part in parts
        ]
        for first, second in combinations(range(_PARTS), 2):
            third = parts[_PARTS - first - second]
            shares = row_shares(len(third), None if row_weights is None else row_weights[third])
            rows = take_rows(X, third)
            for subset in whole.components:
                one, other = (_centred(of_parts[k], subset, rows, shares) for k in (first, second))
                product[subset] += shares @ (one * other) / (_PARTS * repeats)
                difference[subset] += shares @ (one - other) ** 2 / (_PARTS * repeats)
    table = whole.importance()
    names = [whole.term_name(subset) for subset in whole.components]
    for column, values in (
        ("unbiased_variance", product),
        ("sampling_variance", {s: v / (2 * _PARTS) for s, v in difference.items()}),
    ):
        table[column] = _looked_up(table, names, list(values.values()), whole.output_names)
    return table


def _centred(d: Decomposition, subset: tuple[int, ...], rows: Any, shares: Array) -> Array:
    """Return a component on rows, less its mean there, shape (n_rows, n_outputs)."""
    values = np.reshape(d.components[subset].evaluate(rows), (len(shares), -1))
    return np.asarray(values - shares @ values)


def _looked_up(
    table: "pd.DataFrame", names: list[str], values: list[Any], outputs: Sequence[str]
) -> list[float]:
    """Return the value of each line of the table: of its term and its output."""
    of_term = dict(zip(names, values, strict=True))
    of_output = {output: k for k, output in enumerate(outputs)}
    places = (
        [of_output[name] for name in table["output"]] if "output" in table else [0] * len(table)
    )
    return [
        float(of_term[term][k]) if term in of_term else np.nan
        for term, k in zip(table["term"], places, strict=True)
    ]
