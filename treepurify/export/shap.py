"""Shapley values as the object that shap draws."""

from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_result, read_output
from treepurify.errors import MissingDependencyError
from treepurify.row_results import ShapleyValues


def to_shap(values: ShapleyValues, *, output: int | None = None) -> Any:
    """Return Shapley values as a ``shap.Explanation``, so that shap can draw them.

    Parameters
    ----------
    values : ShapleyValues
        From ``d.shapley_values(X)`` or `interventional_shapley_values`.
    output : int, optional
        A single output. By default all outputs.

    Returns
    -------
    shap.Explanation
        Values on the scale of `values` (the margin for parsed models), of shape (n_rows,
        n_features) for one output, or (n_rows, n_features, n_outputs). A remainder is one more
        feature, ``"remainder"``, so that rows still add up. ``data`` has the codes of categories
        and ``display_data`` their labels.

    Raises
    ------
    MissingDependencyError
        If shap is not installed.

    See Also
    --------
    Decomposition.shapley_values : Effects split among their features, on each row.
    interventional_shapley_values : Shapley values against background rows.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 1, 2, 3]), X, weights="uniform")
    >>> tp.export.to_shap(d.shapley_values(X)).values  # doctest: +SKIP
    array([[-1. , -0.5], [-1. ,  0.5], [ 1. , -0.5], [ 1. ,  0.5]])
    """
    check_result("values", values, ShapleyValues, "Decomposition.shapley_values")
    try:
        import shap
    except ImportError as error:
        raise MissingDependencyError(
            'an Explanation needs shap: pip install "treepurify[shap]"'
        ) from error
    table, data, names = values.values, values.data, list(values.feature_names)
    shown = _with_labels(values)
    if values.remainder is not None:
        table = np.concatenate([table, values.remainder[:, None, :]], axis=1)
        data = np.column_stack([data, np.full(len(data), np.nan)])
        if shown is not None:
            shown = np.column_stack([shown, np.full(len(data), "")])
        names.append("remainder")
    chosen = 0 if output is None and len(values.base) == 1 else output
    if chosen is not None:
        chosen = read_output(chosen, values.output_names)
    base = np.tile(values.base, (len(table), 1))
    if chosen is not None:
        table, base = table[:, :, chosen], base[:, chosen]
    return shap.Explanation(
        values=np.ascontiguousarray(table),
        base_values=base,
        data=data,
        display_data=shown,
        feature_names=names,
        output_names=list(values.output_names) if chosen is None else None,
    )


def _with_labels(values: ShapleyValues) -> npt.NDArray[Any] | None:
    """Return the rows with labels in place of codes; None where no labels are known."""
    labels = {
        j: spec.labels
        for j, spec in enumerate(values.features)
        if spec.categories or spec.listed_codes
    }
    if not labels:
        return None
    shown = values.data.astype(object)
    for j, of_codes in labels.items():
        known = values.data[:, j] < len(of_codes)
        shown[known, j] = [of_codes[int(code)] for code in values.data[known, j]]
        # A number beyond all codes stands for labels that the model does not know.
        shown[values.data[:, j] >= len(of_codes), j] = "other"
    return shown
