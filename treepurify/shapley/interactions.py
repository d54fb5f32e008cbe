"""Shapley interaction values: what groups of features add to a row's margin.

The components f_R of a decomposition are the Moebius coefficients of the game
``v(T) = sum over R in T of f_R(x)``, in which every linear index is a sum over them. The share of
an effect that each group of features gets depends on sizes only.
"""

from collections.abc import Callable, Iterator
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any

from treepurify.arguments import check_choice, check_whole
from treepurify.budget import DEFAULT_BUDGET, check_budget, check_memory_budget
from treepurify.decomposition import Decomposition
from treepurify.grids.grid import Subset
from treepurify.progress import ProgressReport, effect_progress, no_report
from treepurify.remainder import stack_rows
from treepurify.row_results import INDICES, InteractionIndex, ShapleyInteractions
from treepurify.rows.columns import Columns
from treepurify.shapley.values import evaluated_components, evaluated_effects, n_evaluated
from treepurify.typing import Array

if TYPE_CHECKING:
    pass


def shapley_interactions(
    decomposition: Decomposition,
    X: Any,
    *,
    order: int = 2,
    index: InteractionIndex = "k-SII",
    memory_budget: int = DEFAULT_BUDGET,
    report: ProgressReport = no_report,
) -> ShapleyInteractions:
    r"""Divide the effects of each row among groups of at most `order` features.

    All indices are sums over the effects f_S at the row, because these are the Moebius
    coefficients of the game ``v(T) = sum over S in T of f_S(x)``. They have the names of shapiq:

    * ``"SII"``, the Shapley interaction index (Grabisch and Roubens 1999):
      ``I(T) = sum over S containing T of f_S / (|S| - |T| + 1)``;
    * ``"k-SII"`` aggregates SII so that the values sum to the margin (Bord and von Luxburg
      2023); at order two these are the interaction values of TreeSHAP;
    * ``"STII"``, Shapley-Taylor (Sundararajan et al. 2020): f_T below the order, and
      ``sum over S containing T of f_S / binomial(|S|, order)`` at the order;
    * ``"FSII"``, faithful Shapley (Tsai et al. 2023): the nearest game of this order, with
      coalitions weighted as in Shapley values, that is exact for the coalition of all features.

    The effects f_T themselves are `Decomposition.contributions`, and single features have
    `Decomposition.shapley_values`.

    Parameters
    ----------
    decomposition : Decomposition
        From any engine.
    X : array_like or table of shape (n_rows, n_features)
        The rows.
    order : int
        Largest size of a group.
    index : str
        The index, one of the names above.
    memory_budget : int
        Bytes that the values may take.
    report : callable
        Progress.

    Returns
    -------
    ShapleyInteractions
        On the margin scale.

    Raises
    ------
    InvalidInputError
        If the order or the index cannot be used.
    MemoryBudgetError
        If the values would take too much memory.

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
    check_choice("index", index, INDICES)
    check_whole("order", order, 1, max(len(decomposition.feature_names), 2))
    check_memory_budget(memory_budget)
    n_rows, blocks = decomposition.row_blocks(X)
    check_budget(
        8 * n_rows * decomposition.n_outputs * _most_groups(decomposition, order),
        memory_budget,
        f"Shapley interactions of order {order} on {n_rows} rows",
        "Pass fewer rows, or a smaller order.",
    )
    progress = effect_progress(n_evaluated(decomposition), n_rows, report)
    shared = [_shared_out(decomposition, columns, index, order, progress) for columns in blocks]
    groups = sorted(shared[0][0], key=lambda s: (len(s), s))
    ordered = {s: stack_rows(values[s] for values, _ in shared) for s in groups}
    left = [remainder for _, remainder in shared if remainder is not None]
    remainder = stack_rows(left) if left else None
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


def _shared_out(
    decomposition: Decomposition,
    columns: Columns,
    index: InteractionIndex,
    order: int,
    progress: Callable[[int], None],
) -> tuple[dict[Subset, Array], Array | None]:
    """Return the values by group, and what belongs to no features."""
    values: dict[Subset, Array] = {}
    remainder = None
    for subset, effect in evaluated_components(decomposition, columns):
        progress(columns.n_rows)
        if subset is None:
            remainder = effect
            continue
        for group, share in _shares_of_parts(index, order, subset):
            if group in values:
                values[group] += share * effect
            else:
                values[group] = share * effect
    return values, remainder


def _shares_of_parts(
    index: InteractionIndex, order: int, subset: Subset
) -> Iterator[tuple[Subset, float]]:
    for size in range(1, min(order, len(subset)) + 1):
        share = _share_of_part(index, order, size, len(subset))
        if share:
            yield from ((part, share) for part in combinations(subset, size))


def _most_groups(decomposition: Decomposition, order: int) -> int:
    subsets = evaluated_effects(decomposition)
    return 1 + len({p for s in subsets for k in range(1, order + 1) for p in combinations(s, k)})


def _share_of_part(index: InteractionIndex, order: int, size: int, effect: int) -> float:
    """Return the share of an effect that goes to each part of its features of some size.

    Parameters
    ----------
    index : str
        The interaction index.
    order : int
        Largest size of a part that gets anything.
    size : int
        Features of the part, at least one and at most `order` and `effect`.
    effect : int
        Features of the effect.

    Returns
    -------
    float
    """
    if index == "SII":
        return 1.0 / (effect - size + 1)
    if index == "STII":
        if size < order:
            return float(size == effect)
        return 1.0 / comb(effect, order)
    if index == "FSII":
        return _faithful(order, size, effect)
    return _aggregated(order, size, effect)


def _faithful(order: int, size: int, effect: int) -> float:
    """Shares of the best approximation of the game by one of the order (Tsai et al. 2023).

    Effects of at most `order` features stay as they are (their theorems 17 and 19).
    """
    if effect <= order:
        return float(size == effect)
    sign = (-1) ** (order - size)
    ratio = comb(effect - 1, order) / comb(effect + order - 1, order + size)
    return float(sign * size / (order + size) * comb(order, size) * ratio)


def _aggregated(order: int, size: int, effect: int) -> float:
    """Shares of k-SII.

    Every T inside a part R hands B_{|R|-|T|} of its SII down to it: what R gets from f_S is the
    sum over T with R in T in S, |T| <= order, of B_{|T|-|R|} / (|S| - |T| + 1).
    """
    return sum(
        comb(effect - size, larger - size) * _bernoulli(larger - size) / (effect - larger + 1)
        for larger in range(size, min(order, effect) + 1)
    )


def _bernoulli(n: int) -> float:
    """Return the Bernoulli number B_n, with B_1 = -1/2; SciPy's are right to 12 digits only."""
    numbers = [1.0]
    for m in range(1, n + 1):
        numbers.append(-sum(comb(m + 1, k) * numbers[k] for k in range(m)) / (m + 1))
    return numbers[n]
