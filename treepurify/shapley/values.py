"""Shapley values: what each feature adds to a row's margin."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from treepurify.budget import DEFAULT_BUDGET, check_budget
from treepurify.components import Component, evaluate_each
from treepurify.decomposition import Decomposition
from treepurify.grids.grid import Subset
from treepurify.html_summary import html_summary
from treepurify.progress import ProgressReport, effect_progress, no_report
from treepurify.remainder import Difference, SumOfParts, stack_rows
from treepurify.rows.columns import FeatureSpec
from treepurify.typing import Array

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Estimate",
    "ShapleyValues",
    "evaluated_components",
    "evaluated_effects",
    "n_evaluated",
    "shapley_values",
]

Estimate = Literal["permutations", "rescaled"]


@dataclass(frozen=True, eq=False, repr=False)
class ShapleyValues:
    """The contribution of each feature to the margin of each row.

    Base, values and remainder add up to the model's margin.

    Parameters
    ----------
    values : ndarray of float64, shape (n_rows, n_features, n_outputs)
        Shapley values on the margin scale.
    base : ndarray of float64, shape (n_outputs,)
        Mean of the model under the measure, the value of no feature.
    remainder : ndarray of float64, shape (n_rows, n_outputs), optional
        The part of the margin that no feature could be given: a sum of effects above the
        order of a decomposition that are not split by feature. None where there is none.
    data : ndarray of float64, shape (n_rows, n_features)
        The rows as the model reads them; categories are codes.
    feature_names, output_names : tuple of str
        Names.
    measure : str
        The distribution that the values refer to, in words.
    index : Any, optional
        Labels of the rows, where the table had some.
    features : tuple of FeatureSpec
        How the columns were read, with the labels of categories.
    estimate : {"permutations", "rescaled"}, optional
        How values were estimated, see `interventional_shapley_values`; None where they are exact.
    standard_error : ndarray of float64, shape (n_rows, n_features, n_outputs), optional
        Of values from permutations, on the scale of the values; zero marks those that are exact.
    """

    values: Array
    base: Array
    remainder: Array | None
    data: Array
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]
    measure: str
    index: Any = None
    features: tuple[FeatureSpec, ...] = ()
    estimate: Estimate | None = None
    standard_error: Array | None = None

    def __repr__(self) -> str:
        """Return the sizes and the measure, not the entries."""
        rows, features, outputs = self.values.shape
        return (
            f"ShapleyValues({rows} rows x {features} features x {outputs} outputs, distribution: "
            f"{self.measure})"
        )

    def _repr_html_(self) -> str:
        rows, features, _ = self.values.shape
        line = f"Shapley values of {features} features on {rows} rows; distribution: {self.measure}"
        return html_summary([line], self.importance(), self.to_frame())

    def total(self) -> Array:
        """Return base, values and remainder summed: the margin, shape (n_rows, n_outputs)."""
        total: Array = self.base + self.values.sum(axis=1)
        return total if self.remainder is None else total + self.remainder

    def to_frame(self) -> "pd.DataFrame":
        """Return the values as a table.

        Returns
        -------
        DataFrame of shape (n_rows, 1 + n_features [+ 1])
            Columns ``"base"``, one per feature, and ``"remainder"`` where there is one; rows
            sum to the margin. For several outputs the columns are ``(output, feature)``.
        """
        import pandas as pd

        rows, _, outputs = self.values.shape
        parts = [np.tile(self.base, (rows, 1, 1)).reshape(rows, 1, outputs), self.values]
        names = ["base", *self.feature_names]
        if self.remainder is not None:
            parts.append(self.remainder[:, None, :])
            names.append("remainder")
        table = np.concatenate(parts, axis=1)
        if outputs == 1:
            return pd.DataFrame(table[:, :, 0], columns=names, index=self.index)
        labels = pd.MultiIndex.from_product([self.output_names, names], names=["output", "feature"])
        flat = table.transpose(0, 2, 1).reshape(rows, -1)
        return pd.DataFrame(flat, columns=labels, index=self.index)

    def importance(self) -> "pd.DataFrame":
        """Return how much each feature matters over the rows, the largest first.

        Returns
        -------
        DataFrame
            One row per feature and output: ``mean_absolute`` and ``mean`` of the values,
            their ``standard_deviation``, and ``share``, the mean absolute value divided by
            the sum over features.
        """
        import pandas as pd

        rows, features, outputs = self.values.shape
        shape = (features, outputs)
        size = np.abs(self.values).mean(axis=0) if rows else np.full(shape, np.nan)
        whole = size.sum(axis=0)
        frame = pd.DataFrame(
            {
                "feature": np.repeat(self.feature_names, outputs),
                "output": np.tile(self.output_names, features),
                "mean_absolute": size.ravel(),
                "share": (size / np.where(whole > 0, whole, 1.0)).ravel(),
                "mean": (self.values.mean(axis=0) if rows else size).ravel(),
                "standard_deviation": (self.values.std(axis=0) if rows else size).ravel(),
            }
        )
        frame = frame.sort_values("mean_absolute", ascending=False, kind="stable")
        return frame.reset_index(drop=True)


def shapley_values(
    decomposition: Decomposition,
    X: Any,
    *,
    memory_budget: int = DEFAULT_BUDGET,
    report: ProgressReport = no_report,
) -> ShapleyValues:
    r"""Split each component evenly among its features.

    The Shapley value of the game ``v(T) = sum over S in T of f_S(x)`` is
    ``phi_i = sum over S containing i of f_S(x) / |S|``. What it means depends on the
    decomposition: terms of partial dependence give the interventional values of Lundberg et
    al. (2020) for their background rows; a product measure gives those of independent
    features; purified effects under dependent features give the values of the generalised
    functional ANOVA.

    Parameters
    ----------
    decomposition : Decomposition
        From any engine.
    X : array_like or table of shape (n_rows, n_features)
        The rows.
    memory_budget : int
        Bytes that the values and the rows may take.
    report : callable
        Progress.

    Returns
    -------
    ShapleyValues
        Effects above the decomposition's order are split too where their features are
        known, and are reported as `ShapleyValues.remainder` where they are not. What
        `categorical_anova` leaves is one effect of all features and split evenly among them
        (Ferrere et al. 2026, equation 23).

    Raises
    ------
    InvalidInputError
        If the rows do not fit the model.
    MemoryBudgetError
        If the values would not fit.

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
    n_features = len(decomposition.feature_names)
    check_budget(
        8 * n_features * n_rows * (decomposition.n_outputs + 1),
        memory_budget,
        f"the Shapley values of {n_rows} rows",
        "Pass fewer rows at a time.",
    )
    by_feature = np.zeros((n_features, n_rows, decomposition.n_outputs))
    data, left, stop = np.empty((n_rows, n_features)), [], 0
    progress = effect_progress(n_evaluated(decomposition), n_rows, report)
    for columns in blocks:
        start, stop = stop, stop + columns.n_rows
        data[start:stop] = columns.matrix()
        for subset, values in evaluated_components(decomposition, columns):
            progress(columns.n_rows)
            if subset is None:
                left.append(values)
                continue
            share = values / len(subset)
            for j in subset:
                by_feature[j, start:stop] += share
    rest, remainder = decomposition.remainder, stack_rows(left) if left else None
    if remainder is not None and isinstance(rest, Difference) and rest.is_joint:
        by_feature += remainder / n_features
        remainder = None
    return ShapleyValues(
        by_feature.transpose(1, 0, 2),
        decomposition.intercept,
        remainder,
        data,
        decomposition.feature_names,
        decomposition.output_names,
        decomposition.measure,
        getattr(X, "index", None) if hasattr(X, "iloc") else None,
        decomposition.inputs.features,
    )


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
