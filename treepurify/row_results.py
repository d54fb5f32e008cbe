"""What a decomposition says of rows: Shapley values, interactions, differences from the model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from treepurify.arguments import read_output
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Subset
from treepurify.html_summary import html_summary
from treepurify.rows.columns import FeatureSpec
from treepurify.terms import term_name
from treepurify.typing import Array

if TYPE_CHECKING:
    import pandas as pd

Estimate = Literal["permutations"]
Groups = Literal["raw"]
InteractionIndex = Literal["SII", "k-SII", "STII", "FSII"]
INDICES: tuple[InteractionIndex, ...] = get_args(InteractionIndex)


@dataclass(frozen=True, eq=False, repr=False)
class ShapleyValues:
    """The contribution of each feature to the margin of each row.

    Base, values and remainder add up to the model's margin.

    Parameters
    ----------
    values : ndarray of float64, shape (n_rows, n_features, n_outputs)
        Shapley values on the margin scale, or on that of the explained function; if features were
        grouped, one value per group, named after its raw columns.
    base : ndarray of float64, shape (n_outputs,)
        Mean of the model under the distribution, on the margin scale.
    remainder : ndarray of float64, shape (n_rows, n_outputs), optional
        The part of the margin that cannot be divided among features: the sum of effects above the
        order of a decomposition whose features are not known. None if there is none.
    data : ndarray of float64, shape (n_rows, n_features)
        The rows as the model reads them; categories are codes, and groups of features are NaN.
    feature_names, output_names : tuple of str
        Names.
    measure : str
        The distribution to which the values refer, in words.
    index : Any, optional
        Labels of the rows, if the table had any.
    features : tuple of FeatureSpec
        How the columns were read, with the labels of categories.
    estimate : {"permutations"}, optional
        How values were estimated, see `interventional_shapley_values`; None if they are exact.
    standard_error : ndarray of float64, shape (n_rows, n_features, n_outputs), optional
        Standard errors of values from permutations, on the scale of the values; zero for exact
        values.

    See Also
    --------
    treepurify.Decomposition.shapley_values : Effects divided among their features.
    treepurify.interventional_shapley_values : Values against background rows.
    treepurify.export.to_shap : The same for shap.
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
        of_outputs = f" for {outputs} outputs" if outputs > 1 else ""
        return (
            f"Shapley values of {features} features on {rows} rows{of_outputs}; distribution: "
            f"{self.measure}"
        )

    def _repr_html_(self) -> str:
        return html_summary([repr(self)], self.importance(), self.to_frame())

    def total(self) -> Array:
        """Return the sum of base, values and remainder: the margin, shape (n_rows, n_outputs)."""
        total: Array = self.base + self.values.sum(axis=1)
        return total if self.remainder is None else total + self.remainder

    def to_frame(self) -> "pd.DataFrame":
        """Return the values as a table.

        Returns
        -------
        DataFrame of shape (n_rows, 1 + n_features [+ 1])
            Columns ``"base"``, one per feature, and ``"remainder"`` if there is one; rows
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
        """Return the importance of each feature over the rows, the largest first.

        Returns
        -------
        DataFrame
            One row per feature and output: ``mean_absolute``, ``mean`` and
            ``standard_deviation`` of the values, on their scale, and ``share``, the mean absolute
            value divided by the sum over features.
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


@dataclass(frozen=True, eq=False, repr=False)
class ShapleyInteractions:
    """The contribution of each group of up to `order` features to the margin of each row.

    Parameters
    ----------
    values : mapping of tuple of int to ndarray of float64, shape (n_rows, n_outputs)
        Values by subset, on the margin scale, ordered by size and then by feature; subsets without
        effect are left out.
    base : ndarray of float64, shape (n_outputs,)
        Mean of the model under the distribution, on the margin scale.
    remainder : ndarray of float64, shape (n_rows, n_outputs), optional
        See `ShapleyValues.remainder`.
    order : int
        Largest size of a subset.
    interaction_index : str
        The index; see `Decomposition.shapley_interactions`.
    feature_names, output_names : tuple of str
        Names.
    measure : str
        The distribution, in words.

    See Also
    --------
    treepurify.Decomposition.shapley_interactions : Computes them.
    """

    values: Mapping[Subset, Array]
    base: Array
    remainder: Array | None
    order: int
    interaction_index: InteractionIndex
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]
    measure: str

    def __repr__(self) -> str:
        """Return the index, the order and the number of subsets."""
        return (
            f"Shapley interactions ({self.interaction_index}) of up to {self.order} features: "
            f"{len(self.values)} sets of features; distribution: {self.measure}"
        )

    def _repr_html_(self) -> str:
        return html_summary([repr(self)], self.to_frame())

    def matrix(self, output: int = 0) -> Array:
        """Return values of order two as one symmetric matrix per row.

        Returns
        -------
        ndarray of float64, shape (n_rows, n_features, n_features)
            Half of an interaction is above and half below the diagonal, as in
            ``shap.TreeExplainer.shap_interaction_values``; with ``"k-SII"``, rows of a matrix
            sum to Shapley values. On the margin scale.
        """
        if self.order != 2:
            raise InvalidInputError(
                f"a matrix needs order=2, but these interactions have order={self.order}"
            )
        output = read_output(output, self.output_names)
        n_features = len(self.feature_names)
        n_rows = next((len(values) for values in self.values.values()), 0)
        matrix = np.zeros((n_rows, n_features, n_features))
        for subset, values in self.values.items():
            i, j = subset[0], subset[-1]
            if i == j:
                matrix[:, i, i] = values[:, output]
            else:
                matrix[:, i, j] = matrix[:, j, i] = values[:, output] / 2
        return matrix

    def to_frame(self, output: int = 0) -> "pd.DataFrame":
        """Return the values of one output as a table.

        Returns
        -------
        DataFrame of shape (n_rows, 1 + n_subsets [+ 1])
            Columns ``"base"``, one per subset, and ``"remainder"`` if there is one. Rows sum to the
            margin, but those of ``"SII"`` do not.
        """
        import pandas as pd

        output = read_output(output, self.output_names)
        n_rows = next((len(values) for values in self.values.values()), 0)
        table = {"base": np.full(n_rows, self.base[output])}
        for subset, values in self.values.items():
            name = term_name(self.feature_names[j] for j in subset)
            table[name] = values[:, output]
        if self.remainder is not None:
            table["remainder"] = self.remainder[:, output]
        return pd.DataFrame(table)


@dataclass(frozen=True, repr=False)
class Verification:
    """How far a decomposition is from its model on the rows that were passed.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    source : str
        What the decomposition was compared with: the library's own raw prediction, or the
        parsed model where there is no library to ask.
    largest_difference : float
        Largest absolute difference on the margin scale.
    relative_difference : float
        The same over the largest absolute margin. XGBoost adds leaves in single precision,
        which alone explains about 1e-7 per hundred trees.
    """

    n_rows: int
    source: str
    largest_difference: float
    relative_difference: float

    def __repr__(self) -> str:
        """Return the sentence that says it."""
        return (
            f"Largest difference from the {self.source} on {self.n_rows} rows: "
            f"{self.largest_difference:.2g}, {self.relative_difference:.1e} of the largest value"
        )
