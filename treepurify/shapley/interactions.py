"""Shapley interaction values: what groups of features add to a row's margin."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from treepurify.arguments import check_choice, check_whole, read_output
from treepurify.budget import DEFAULT_BUDGET, check_budget, check_memory_budget
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Subset
from treepurify.shapley.values import evaluated_components
from treepurify.typing import Array

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["InteractionIndex", "ShapleyInteractions", "shapley_interactions"]

InteractionIndex = Literal["k-SII", "SII", "STII", "components"]

_INDICES = ("k-SII", "SII", "STII", "components")


@dataclass(frozen=True, eq=False, repr=False)
class ShapleyInteractions:
    """What each group of up to `order` features adds to the margin of each row.

    Parameters
    ----------
    values : mapping of tuple of int to ndarray of float64, shape (n_rows, n_outputs)
        Values by subset, by size and then by feature; subsets without effect are left out.
    base : ndarray of float64, shape (n_outputs,)
        Mean of the model under the measure.
    remainder : ndarray of float64, shape (n_rows, n_outputs), optional
        See `ShapleyValues.remainder`.
    order : int
        Largest size of a subset.
    interaction_index : {"k-SII", "SII", "STII", "components"}
        The index.
    feature_names, output_names : tuple of str
        Names.
    measure : str
        The distribution, in words.
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
            f"ShapleyInteractions({self.interaction_index} of order {self.order}, "
            f"{len(self.values)} subsets, measure: {self.measure})"
        )

    def matrix(self, output: int = 0) -> Array:
        """Return values of order two as one symmetric matrix per row.

        Returns
        -------
        ndarray of float64, shape (n_rows, n_features, n_features)
            An interaction stands half above and half below the diagonal, as in
            ``shap.TreeExplainer.shap_interaction_values``; with ``"k-SII"`` rows of a matrix
            sum to Shapley values.
        """
        if self.order != 2:
            raise InvalidInputError(f"a matrix needs order=2, these values have {self.order}")
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
        """Return the values of one output, one column per subset."""
        import pandas as pd

        output = read_output(output, self.output_names)
        return pd.DataFrame(
            {
                " & ".join(self.feature_names[j] for j in subset): values[:, output]
                for subset, values in self.values.items()
            }
        )


def shapley_interactions(
    decomposition: Decomposition,
    X: Any,
    *,
    order: int = 2,
    index: InteractionIndex = "k-SII",
    memory_budget: int = DEFAULT_BUDGET,
) -> ShapleyInteractions:
    r"""Give the effects of rows to groups of at most `order` features.

    All four are sums over the components f_S at the row, because these are the Moebius
    coefficients of the game ``v(T) = sum over S in T of f_S(x)``:

    * ``"SII"``, the Shapley interaction index (Grabisch and Roubens 1999):
      ``I(T) = sum over S containing T of f_S / (|S| - |T| + 1)``;
    * ``"k-SII"`` aggregates SII so that the values sum to the margin (Bord and von Luxburg
      2023); at order two these are the interaction values of TreeSHAP;
    * ``"STII"``, Shapley-Taylor (Sundararajan et al. 2020): f_T below the order, and
      ``sum over S containing T of f_S / binomial(|S|, order)`` at the order;
    * ``"components"``: f_T themselves, nothing shared out.

    Parameters
    ----------
    decomposition : Decomposition
        From any engine.
    X : array_like or table of shape (n_rows, n_features)
        The rows.
    order : int
        Largest size of a group.
    index : {"k-SII", "SII", "STII", "components"}
        The index.
    memory_budget : int
        Bytes that the values may take.

    Returns
    -------
    ShapleyInteractions

    Raises
    ------
    InvalidInputError
        If the order or the index cannot be used.
    MemoryBudgetError
        If the values would not fit.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> d.shapley_interactions(X).matrix()[3]
    array([[0.25 , 0.125],
           [0.125, 0.25 ]])
    """
    check_choice("index", index, _INDICES)
    check_whole("order", order, 1, max(len(decomposition.feature_names), 2))
    check_memory_budget(memory_budget)
    columns = decomposition.inputs.columns(X)
    check_budget(
        8 * columns.n_rows * decomposition.n_outputs * _most_subsets(decomposition, order),
        memory_budget,
        f"Shapley interactions of order {order} on {columns.n_rows} rows",
        "Pass fewer rows, a smaller order, or raise memory_budget.",
    )
    values: dict[Subset, Array] = {}
    remainder = None
    for subset, effect in evaluated_components(decomposition, columns):
        if subset is None:
            remainder = effect
            continue
        for size in range(1, min(order, len(subset)) + 1):
            weight = _weight(index, order, size, len(subset))
            if weight == 0.0:
                continue
            for part in combinations(subset, size):
                if part in values:
                    values[part] += weight * effect
                else:
                    values[part] = weight * effect
    ordered = {s: values[s] for s in sorted(values, key=lambda s: (len(s), s))}
    return ShapleyInteractions(
        ordered,
        decomposition.intercept,
        remainder,
        order,
        index,
        decomposition.feature_names,
        decomposition.output_names,
        decomposition.measure,
    )


def _most_subsets(decomposition: Decomposition, order: int) -> int:
    subsets = list(decomposition.components)
    rest = getattr(decomposition.remainder, "parts", ())
    subsets += [part.features for part in rest]
    groups = {p for s in subsets for k in range(1, order + 1) for p in combinations(s, k)}
    return len(groups)


def _weight(index: InteractionIndex, order: int, size: int, component: int) -> float:
    """Return the share of a component of some size that goes to each part of `size` features."""
    if index == "components":
        return float(size == component)
    if index == "SII":
        return 1.0 / (component - size + 1)
    if index == "STII":
        if size < order:
            return float(size == component)
        return 1.0 / comb(component, order)
    # Every T inside a part R hands B_{|R|-|T|} of its SII down to it: what R gets from f_S is
    # the sum over T with R in T in S, |T| <= order, of B_{|T|-|R|} / (|S| - |T| + 1).
    return sum(
        comb(component - size, larger - size) * _bernoulli(larger - size) / (component - larger + 1)
        for larger in range(size, min(order, component) + 1)
    )


def _bernoulli(n: int) -> float:
    """Return the Bernoulli number B_n, with B_1 = -1/2; SciPy's are right to 12 digits only."""
    numbers = [1.0]
    for m in range(1, n + 1):
        numbers.append(-sum(comb(m + 1, k) * numbers[k] for k in range(m)) / (m + 1))
    return numbers[n]
