"""Shapley values as the objects that shap and shapiq draw."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_result, check_whole, read_output
from treepurify.errors import InvalidInputError, MissingDependencyError
from treepurify.export.left_out import ROUNDING
from treepurify.grids.grid import Subset
from treepurify.shapley.interactions import ShapleyInteractions
from treepurify.shapley.values import ShapleyValues

__all__ = ["to_shap", "to_shapiq"]

_SHAPLEY = ("SII", "k-SII", "STII", "FSII", "kADD-SHAP", "CHII", "SGV", "CHGV")
_AT_ORDER_ONE = {**dict.fromkeys(_SHAPLEY, "SV"), **dict.fromkeys(("BII", "FBII", "BGV"), "BV")}


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
    shap = _optional("shap", "0.46")
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


def _is_rounding(values: ShapleyInteractions | ShapleyValues) -> bool:
    """Return whether the remainder of every row is nothing but rounding."""
    tables = values.values.values() if isinstance(values.values, Mapping) else [values.values]
    scale = max(float(np.max(np.abs(table), initial=0.0)) for table in (*tables, values.base))
    remainder = np.zeros(1) if values.remainder is None else values.remainder
    return bool(np.max(np.abs(remainder), initial=0.0) <= ROUNDING * scale)


def to_shapiq(values: ShapleyInteractions | ShapleyValues, row: int, *, output: int = 0) -> Any:
    """Return the values of one row as ``shapiq.InteractionValues``, so that shapiq can draw them.

    Parameters
    ----------
    values : ShapleyInteractions or ShapleyValues
        From ``d.shapley_interactions(X)`` or ``d.shapley_values(X)``.
    row : int
        Position of the row.
    output : int
        Position of the output.

    Returns
    -------
    shapiq.InteractionValues
        On the scale of `values`, such as the margin.

    Raises
    ------
    MissingDependencyError
        If shapiq is not installed.
    InvalidInputError
        If the interaction index does not exist in shapiq, or there is a remainder that belongs to
        no features.

    See Also
    --------
    treepurify.export.to_shap : Shapley values for shap.
    Decomposition.shapley_interactions : Shapley interactions of each row.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 4]), X, weights="uniform")
    >>> of_row = tp.export.to_shapiq(d.shapley_interactions(X), 3)  # doctest: +SKIP
    >>> float(of_row[(0, 1)])  # doctest: +SKIP
    1.0
    """
    kinds = (ShapleyInteractions, ShapleyValues)
    check_result("values", values, kinds, "Decomposition.shapley_interactions")
    output = read_output(output, values.output_names)
    check_whole("row", row, 0, _rows_of(values) - 1)
    shapiq = _optional("shapiq", "1.4")
    if values.remainder is not None and not _is_rounding(values):
        raise InvalidInputError(
            "part of the model is in the remainder, which shapiq cannot store; use "
            "partial_dependence_anova(model, X, order=None), which "
            "computes effects of every order"
        )
    if isinstance(values, ShapleyValues):
        numbers = values.values[row, :, output]
        worth: dict[Subset, float] = {(j,): float(number) for j, number in enumerate(numbers)}
        index, order = "SV", 1
    else:
        if values.interaction_index in ("components", "Moebius"):
            index, order = "Moebius", max((len(s) for s in values.values), default=1)
        else:
            index, order = values.interaction_index, values.order
        worth = {subset: float(table[row, output]) for subset, table in values.values.items()}
        if order == 1:
            index = _AT_ORDER_ONE.get(index, index)
    base = float(values.base[output]) + worth.pop((), 0.0)
    everything: dict[Subset, float] = {(): base, **worth}
    return shapiq.InteractionValues(
        values=np.array(list(everything.values())),
        index=index,
        max_order=order,
        n_players=len(values.feature_names),
        min_order=0,
        interaction_lookup={subset: k for k, subset in enumerate(everything)},
        estimated=isinstance(values, ShapleyValues) and values.estimate is not None,
        baseline_value=base,
    )


def _rows_of(values: ShapleyInteractions | ShapleyValues) -> int:
    if isinstance(values, ShapleyValues):
        return len(values.values)
    return next((len(table) for table in values.values.values()), 0)


def _optional(name: str, least: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingDependencyError(
            f"this needs {name}, which is not installed: python -m pip install '{name}>={least}'"
        ) from error
