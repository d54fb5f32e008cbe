"""What each term, or each feature, adds to the prediction of single rows."""

from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_choice, check_result
from treepurify.columns import Columns
from treepurify.components import RemainderComponent, evaluate_each, is_joint
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Subset

__all__ = ["Parts", "row_effects", "value_words"]

Array = npt.NDArray[np.float64]
Parts = Literal["terms", "shapley"]


def row_effects(
    d: Decomposition, X: Any, parts: Parts = "terms"
) -> tuple[list[str], list[Subset], Array]:
    """Return what each part adds to the margin of each row.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    X : array_like or table of shape (n_rows, n_features)
        The rows.
    parts : {"terms", "shapley"}
        Components, or features with their Shapley values
        ``sum over S containing j of f_S / |S|``.

    Returns
    -------
    names : list of str
        One a part; the last may be ``"remainder"``.
    subsets : list of tuple of int
        Features of each part.
    values : ndarray of float64, shape (n_rows, n_parts, n_outputs)
        With the intercept they sum to the margin.

    Raises
    ------
    InvalidInputError
        If `parts` is unknown, or Shapley values are asked of a remainder that is not a sum of
        components.
    """
    check_result("d", d, Decomposition)
    check_choice("parts", parts, get_args(Parts))
    columns = d.inputs.columns(X)
    if parts == "terms":
        subsets = list(d.components)
        names = [d.term_name(subset) for subset in subsets]
        values = [*evaluate_each(d.components.values(), columns)]
        if d.remainder is not None:
            names.append("remainder")
            subsets.append(tuple(d.remainder.features))
            values.append(d.remainder.evaluate(columns))
    else:
        names, subsets = list(d.feature_names), [(j,) for j in range(len(d.feature_names))]
        values = _shapley_values(d, columns)
    if not values:
        return names, subsets, np.zeros((columns.n_rows, 0, d.n_outputs))
    return names, subsets, np.stack(values, axis=1)


def _shapley_values(d: Decomposition, columns: Columns) -> list[Array]:
    components = list(d.components.values())
    if is_joint(d.remainder):
        components.append(d.remainder)
    elif d.remainder is not None:
        if not isinstance(d.remainder, RemainderComponent):
            raise InvalidInputError(
                "the Shapley values need the components of the remainder, which are not known: "
                "decompose with order=None, which keeps all of them"
            )
        components += d.remainder.parts
    total = [np.zeros((columns.n_rows, d.n_outputs)) for _ in d.feature_names]
    for component, values in zip(components, evaluate_each(components, columns), strict=True):
        for j in component.features:
            total[j] += values / len(component.features)
    return total


def value_words(d: Decomposition, columns: Columns, feature: int, row: int) -> str:
    """Return the value of one feature in one row, as text: ``"missing"`` for none."""
    value, spec = columns.values[feature][row], d.inputs.features[feature]
    if np.isnan(value):
        return "missing"
    if not spec.is_categorical:
        return f"{value:.4g}"
    code = int(value)
    if code >= spec.n_codes:
        return "other"
    return str(spec.categories[code]) if spec.categories is not None else str(code)
