"""Shapley residuals: what Shapley values cannot say of a feature or a group on a row.

The additions of a feature to all coalitions are a flow along the edges of a hypercube. Its part
that is the gradient of a game has the Shapley value; the rest is the residual. In the Walsh
functions of the hypercube, both parts are diagonal.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.arguments import brief
from treepurify.budget import DEFAULT_BUDGET, check_budget
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Subset
from treepurify.progress import ProgressReport, effect_progress, no_report
from treepurify.rows.columns import Columns
from treepurify.shapley.values import evaluated_components, evaluated_effects, n_evaluated
from treepurify.terms import read_features, term_name
from treepurify.typing import Array

if TYPE_CHECKING:
    import pandas as pd


def shapley_residuals(
    decomposition: Decomposition,
    X: Any,
    *,
    groups: Any = None,
    memory_budget: int = DEFAULT_BUDGET,
    report: ProgressReport = no_report,
) -> "pd.DataFrame":
    r"""Return how far contributions of features to coalitions are from constant.

    The contributions of the features i in a group T, :math:`v(S \cup i) - v(S)` over all S without
    i, are a vector :math:`\nabla_T v` on the edges of the hypercube of coalitions. Among gradients
    of games, that of a game :math:`v_T` is nearest to it, and :math:`v_T` of all features
    is the sum of the Shapley values of T (Stern and Tettenhorst 2019). The residual is

    .. math::
        \frac{\lVert \nabla_T v - \nabla v_T \rVert}{\lVert \nabla_T v \rVert}, \qquad
        \lVert \nabla_T v - \nabla v_T \rVert^2
        \propto \sum_A w_A^2 \, \frac{|A \cap T| \, |A \setminus T|}{|A|}, \qquad
        w_A = \sum_{B \supseteq A} 2^{-|B|} f_B(x),

    since the effects :math:`f_B(x)` are the Moebius coefficients of the game. Coalitions are not
    enumerated, so the cost depends on the effects and not on the number of features.

    Parameters
    ----------
    decomposition : Decomposition
        From any engine. Effects in a remainder whose features are not known are left out.
    X : array_like or table of shape (n_rows, n_features)
        The rows.
    groups : sequence of str, int or tuple of these, optional
        The groups, which may share features, each named like an effect; by default every
        feature alone.
    memory_budget : int
        Bytes that the coefficients :math:`w_A` may take.
    report : callable
        Progress.

    Returns
    -------
    DataFrame of shape (n_rows, n_groups)
        Without unit, at least 0 and below 1. It is zero if the game is the sum of a game of the
        group and a game of the other features, or if the group changes nothing on this row. For
        several outputs the columns are ``(output, group)``.

    Raises
    ------
    InvalidInputError
        If the rows do not fit the model, or groups are not a sequence.
    UnknownComponentError
        If a feature of a group does not exist.
    MemoryBudgetError
        If the coefficients would take too much memory.

    References
    ----------
    I. E. Kumar, C. Scheidegger, S. Venkatasubramanian and S. Friedler, *Shapley residuals:
    Quantifying the limits of the Shapley value for explanations*, NeurIPS 2021.

    A. Stern and A. Tettenhorst, *Hodge decomposition and the Shapley value of a cooperative
    game*, Games and Economic Behavior 113, 2019.

    Examples
    --------
    The smaller of two numbers is not a sum of functions of each: both values hide an interaction.

    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> d.shapley_residuals(X[3:]).round(3)
          x0     x1
    0  0.224  0.224
    >>> d.shapley_residuals(X[3:], groups=["x0 & x1"])
       x0 & x1
    0      0.0
    """
    import pandas as pd

    names = decomposition.feature_names
    coalitions = _read_coalitions(groups, names)
    n_rows, blocks = decomposition.row_blocks(X)
    _check_size(evaluated_effects(decomposition), n_rows * decomposition.n_outputs, memory_budget)
    progress = effect_progress(n_evaluated(decomposition), n_rows, report)
    found = []
    for columns in blocks:
        coefficients = _walsh_coefficients(decomposition, columns, progress)
        shape = (columns.n_rows, decomposition.n_outputs)
        found.append(np.stack([_residual(coefficients, t, shape) for t in coalitions], axis=2))
    labels: Any = [term_name(names[j] for j in t) for t in coalitions]
    if decomposition.n_outputs > 1:
        both = [decomposition.output_names, labels]
        labels = pd.MultiIndex.from_product(both, names=["output", "group"])
    index = X.index if isinstance(X, pd.DataFrame) else None
    flat = np.concatenate(found).reshape(n_rows, -1)
    return pd.DataFrame(flat, columns=labels, index=index)


def _read_coalitions(groups: Any, feature_names: Sequence[str]) -> list[Subset]:
    if groups is None:
        return [(j,) for j in range(len(feature_names))]
    if isinstance(groups, str) or not isinstance(groups, Iterable):
        raise InvalidInputError(
            'groups must be a list of features or groups, such as ["age", "sex & hours"], got '
            f"{brief(groups)}"
        )
    keys = [tuple(key) if isinstance(key, list) else key for key in groups]
    coalitions = [read_features(key, feature_names) for key in keys]
    if not coalitions:
        raise InvalidInputError("groups must name at least one feature or group, got none")
    return coalitions


def _check_size(effects: Iterable[Subset], n_values: int, memory_budget: int) -> None:
    """Refuse coefficients of more subsets of effects than fit, before any are listed."""
    advice = "Pass fewer rows, or a decomposition of smaller order."
    subsets = set(effects)
    largest = max(map(len, subsets), default=0)
    what = f"Shapley residuals of effects of up to {largest} features"
    # A tuple of positions per subset, then its coefficients.
    check_budget(64 * sum(1 << len(subset) for subset in subsets), memory_budget, what, advice)
    parts = {part for subset in subsets for part in _parts(subset)}
    check_budget(8 * n_values * len(parts), memory_budget, what, advice)


def _parts(subset: Subset) -> Iterator[Subset]:
    for size in range(1, len(subset) + 1):
        yield from combinations(subset, size)


def _walsh_coefficients(
    decomposition: Decomposition, columns: Columns, progress: Callable[[int], None]
) -> dict[Subset, Array]:
    """Return by A, up to sign, the share of (-1)^|A and S| in the value of a coalition S."""
    coefficients: dict[Subset, Array] = {}
    for subset, effect in evaluated_components(decomposition, columns):
        progress(columns.n_rows)
        if subset is None:
            continue
        share = effect * 0.5 ** len(subset)
        for part in _parts(subset):
            coefficients[part] = coefficients[part] + share if part in coefficients else share
    return coefficients


def _residual(
    coefficients: Mapping[Subset, Array], coalition: Subset, shape: tuple[int, int]
) -> Array:
    """Return the norm of the residual over that of all additions, zero where there are none."""
    members = set(coalition)
    whole, left = np.zeros(shape), np.zeros(shape)
    for subset, coefficient in coefficients.items():
        inside = len(members.intersection(subset))
        if inside:
            square = inside * coefficient**2
            whole += square
            left += square * ((len(subset) - inside) / len(subset))
    return np.sqrt(np.divide(left, whole, out=np.zeros(shape), where=whole > 0))
