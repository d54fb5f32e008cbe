"""Second moments of an ensemble under independent features: by order, by feature, by pair."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from treepurify.arguments import read_output
from treepurify.budget import DEFAULT_BUDGET, check_budget
from treepurify.engines.tree.independent_leaves import (
    IndependentLeaves,
    OutputLeaves,
)
from treepurify.engines.tree.output_moments import (
    SecondMoments,
    cell_bytes,
    cell_steps,
    moments_of_cells,
    moments_of_pairs,
    moments_of_rows,
    pair_work,
)
from treepurify.html_summary import html_summary
from treepurify.progress import ProgressReport
from treepurify.threads import available_threads
from treepurify.typing import Array

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "InteractionIndices",
    "exact_work",
    "leaf_indices",
]

Way = Literal["cells", "pairs", "rows"]

MOST_PAIRS = 2_000_000_000
"""Sums are exact by default up to this much work, some ten seconds on one core."""
# How many steps of the table of all cells take the time of one pair of leaves, and how many
# pairs that of one leaf on one sampled row.
_STEPS_OF_A_PAIR = 4
_PAIRS_OF_A_VISIT = 4
_FEWEST_ROWS = 1000
_MOST_ROWS = 20_000
_ADVICE = "Name the interactions that you need."


@dataclass(frozen=True, eq=False, repr=False)
class InteractionIndices:
    """Variances of a model by order, feature and pair, for independent features.

    Variances are in squared units of the margin.

    Parameters
    ----------
    feature_names : tuple of str
        Names of the features.
    variance_by_order : ndarray of float64, shape (n_outputs, depth)
        Sum of the variances of all effects of 1, 2, ... features.
    pair_total : ndarray of float64, shape (n_outputs, n_features, n_features)
        Sum of the variances of all effects that contain both features; symmetric.
    feature_total : ndarray of float64, shape (n_outputs, n_features)
        Sum of the variances of all effects that contain the feature.
    standard_error, pair_standard_error, feature_standard_error : ndarray of float64
        Standard errors of `variance_by_order`, `pair_total` and `feature_total`, in their
        shapes; zero if these are exact to rounding.
    variance_standard_error : ndarray of float64, shape (n_outputs,)
        Standard error of `variance`.
    method : str
        ``"cells"``: exact, from the values in all combinations of intervals of the tested features;
        ``"pairs"``: exact, from all pairs of leaves; ``"tables"``: exact, from the purified tables
        of an EBM; ``"rows"``: estimated on sampled rows.
        Joined by "and" if outputs differ.
    sampled_rows : int
        Number of sampled rows; 0 if all numbers are exact.
    measure : str
        The distribution, in words.

    See Also
    --------
    treepurify.interaction_indices : Computes them.
    """

    feature_names: tuple[str, ...]
    variance_by_order: Array
    pair_total: Array
    feature_total: Array
    standard_error: Array
    pair_standard_error: Array
    feature_standard_error: Array
    variance_standard_error: Array
    method: str
    sampled_rows: int
    measure: str

    def __repr__(self) -> str:
        """Return the share of each order, and the strongest pairs."""
        lines = [
            f"Interaction indices of {len(self.feature_names)} features "
            f"(distribution: {self.measure}, "
            f"method: {self.method})"
        ]
        for k, whole in enumerate(self.variance):
            output = f"output {k}: " if len(self.variance) > 1 else ""
            shares = [f"{part / whole:.2%}" for part in self.variance_by_order[k] if whole > 0]
            lines.append(f"{output}share of the variance at order 1, 2, ...: {', '.join(shares)}")
            pairs = (f"{i} & {j} {share:.2%}" for i, j, _, share, _ in self.pairs(k)[:3].to_numpy())
            lines.append(f"{output}strongest pairs, by total index: {', '.join(pairs) or 'none'}")
        if self.sampled_rows:
            lines.append(f"estimated on {self.sampled_rows} sampled rows; see the standard errors")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return html_summary(str(self).split("\n"), self.pairs())

    @property
    def variance(self) -> Array:
        """Variance of the model, in squared units of the margin, shape (n_outputs,)."""
        return np.asarray(self.variance_by_order.sum(axis=1))

    def pairs(self, output: int = 0) -> "pd.DataFrame":
        """Return the pairs of features that interact, the largest total index first.

        Returns
        -------
        DataFrame
            Columns ``first``, ``second``, ``total`` (variance of all effects with both, in squared
            units of the margin), ``share`` (of the model's variance) and ``standard_error`` (of
            the total).
        """
        import pandas as pd

        output = read_output(output, [f"output {k}" for k in range(len(self.pair_total))])
        table = self.pair_total[output]
        first, second = np.nonzero(np.triu(table, 1))
        whole = float(self.variance[output])
        frame = pd.DataFrame(
            {
                "first": [self.feature_names[i] for i in first],
                "second": [self.feature_names[j] for j in second],
                "total": table[first, second],
                "share": table[first, second] / whole if whole > 0 else 0.0,
                "standard_error": self.pair_standard_error[output][first, second],
            }
        )
        return frame.sort_values("total", ascending=False, kind="stable").reset_index(drop=True)


def leaf_indices(
    leaves: IndependentLeaves,
    measure: str,
    *,
    most_pairs: int,
    seed: int,
    report: ProgressReport,
    memory_budget: int = DEFAULT_BUDGET,
) -> InteractionIndices:
    """Return the second moments of an ensemble on the grid of its own cuts."""
    n_features, n_outputs = leaves.grid.n_features, leaves.n_outputs
    n_strips = _strips(n_features, n_outputs, memory_budget)
    free_bytes = _free_bytes(leaves, memory_budget)
    ways = [_way(leaves, output, most_pairs, free_bytes) for output in leaves.outputs]
    pair_total = np.zeros((n_outputs, n_features, n_features))
    pair_error = _zeros(pair_total.shape)
    if "rows" in ways:
        pair_error = _error_table(pair_total, memory_budget)
    moments: list[SecondMoments] = []
    sampled_rows = 0
    for k, output in enumerate(leaves.outputs):
        report("second moments of output", k, n_outputs)
        if ways[k] == "cells":
            of_output = moments_of_cells(leaves, output, pair_total[k])
        elif ways[k] == "pairs":
            of_output = moments_of_pairs(leaves, output, n_strips, pair_total[k])
        else:
            count = _n_rows(output, most_pairs)
            drawn = np.random.default_rng(seed).random((n_features, count))
            sampled_rows = max(sampled_rows, count)
            of_output = moments_of_rows(
                leaves.depth, output, drawn, pair_total[k], pair_error[k], free_bytes
            )
        moments.append(of_output)
    return InteractionIndices(
        feature_names=tuple(axis.name for axis in leaves.grid.axes),
        variance_by_order=np.array([each.orders for each in moments]),
        pair_total=pair_total,
        feature_total=np.array([each.mains for each in moments]),
        standard_error=np.array([each.order_errors for each in moments]),
        measure=measure,
        pair_standard_error=pair_error,
        feature_standard_error=np.array([each.main_errors for each in moments]),
        variance_standard_error=np.array([each.variance_error for each in moments]),
        sampled_rows=sampled_rows,
        method=" and ".join(sorted(set(ways))),
    )


def exact_work(leaves: IndependentLeaves, memory_budget: int) -> int:
    """Return the work of exact second moments, as a number of pairs of leaves."""
    free_bytes = _free_bytes(leaves, memory_budget)
    return sum(min(_work(leaves, output, free_bytes).values()) for output in leaves.outputs)


def _free_bytes(leaves: IndependentLeaves, memory_budget: int) -> int:
    """Return the bytes of the budget that the results leave free."""
    return memory_budget - 8 * leaves.grid.n_features**2 * (leaves.n_outputs + 1)


def _work(leaves: IndependentLeaves, output: OutputLeaves, free_bytes: int) -> dict[Way, int]:
    """Return the work of each exact way that fits, as a number of pairs of leaves."""
    work: dict[Way, int] = {"pairs": pair_work(output)}
    if cell_bytes(output, leaves.margins) <= free_bytes:
        work["cells"] = cell_steps(output, leaves.margins) // _STEPS_OF_A_PAIR
    return work


def _way(leaves: IndependentLeaves, output: OutputLeaves, most_pairs: int, free_bytes: int) -> Way:
    """Return the exact way of least work, or "rows" where that is too much."""
    work = _work(leaves, output, free_bytes)
    way = min(work, key=work.__getitem__)
    return way if work[way] <= most_pairs else "rows"


def _n_rows(output: OutputLeaves, most_pairs: int) -> int:
    """Return the number of rows whose cost matches `most_pairs`."""
    visits = most_pairs // _PAIRS_OF_A_VISIT
    return min(max(visits // max(len(output.leaves), 1), _FEWEST_ROWS), _MOST_ROWS)


def _zeros(shape: tuple[int, ...]) -> Array:
    """Return zeros that take no memory: the errors of exact numbers."""
    return np.broadcast_to(0.0, shape)


def _error_table(pair_total: Array, memory_budget: int) -> Array:
    check_budget(
        2 * pair_total.nbytes,
        memory_budget,
        f"the interaction indices of all pairs of {pair_total.shape[1]} features, with standard "
        "errors,",
        _ADVICE,
    )
    return np.zeros_like(pair_total)


def _strips(n_features: int, n_outputs: int, memory_budget: int) -> int:
    """Return how many tables of pairs may be filled at a time, besides the results."""
    table = 8 * n_features**2
    # One more than the results: what is added to its own transpose is copied first.
    check_budget(
        table * (n_outputs + 2),
        memory_budget,
        f"the interaction indices of the pairs of {n_features} features",
        _ADVICE,
    )
    free_bytes = memory_budget - table * (n_outputs + 1)
    return max(min(free_bytes // max(table, 1), available_threads()), 1)
