"""Second moments of an ensemble under independent features: by order, by feature, by pair.

They are exact, from all pairs of leaves, or, where these are too many, estimated on sampled rows.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from treepurify._kernels.leaf_pairs import leaf_pair_moments
from treepurify._kernels.sampled_moments import effects_on_rows
from treepurify.arguments import read_output
from treepurify.budget import DEFAULT_BUDGET, check_budget
from treepurify.effects.conditional import subset_keys
from treepurify.engines.tree.independent_leaves import IndependentLeaves, OutputLeaves
from treepurify.grids.grid import Subset
from treepurify.html_summary import html_summary
from treepurify.progress import ProgressReport
from treepurify.threads import available_threads, iterate_threads
from treepurify.typing import Array

if TYPE_CHECKING:
    import pandas as pd

MOST_PAIRS = 2_000_000_000
"""Sums are exact by default up to this much work, some ten seconds on one core."""
# One leaf on one sampled row takes the time of three pairs, and may take half of that of all.
_PAIRS_OF_A_VISIT = 6
_FEWEST_ROWS = 1000
_MOST_ROWS = 20_000
_ROWS_IN_A_BLOCK = 1024
_LEAVES_IN_A_PIECE = 64
# Pieces that all pairs are divided into, whatever the number of threads: sums do not depend on it.
_MOST_PIECES = 16
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
    outputs = [leaves.of_output(k) for k in range(n_outputs)]
    n_rows = [_n_rows(output, most_pairs) for output in outputs]
    table = 8 * n_features**2
    # Those of a piece, and the transpose of what is added to it.
    n_tables = (2 if any(n_rows) else 1) * n_outputs + 2
    check_budget(
        n_tables * table,
        memory_budget,
        f"the interaction indices of the pairs of {n_features} features",
        _ADVICE,
    )
    free_bytes = memory_budget - n_tables * table
    n_pieces = min(1 + free_bytes // max(table, 1), _MOST_PIECES)
    # Numbers and their errors.
    orders = np.zeros((2, n_outputs, leaves.depth + 1))
    mains = np.zeros((2, n_outputs, n_features))
    pairs = np.zeros((2, n_outputs, n_features, n_features))
    for k, output in enumerate(outputs):
        report("second moments of output", k, n_outputs)
        if n_rows[k]:
            drawn = np.random.default_rng(seed).random((n_features, n_rows[k]))
            _write_of_rows(output, drawn, free_bytes, orders[:, k], mains[:, k], pairs[:, k])
        else:
            _add_pairs(output, n_pieces, orders[0, k], mains[0, k], pairs[0, k])
            pairs[0, k] += pairs[0, k].T
    return InteractionIndices(
        feature_names=tuple(axis.name for axis in leaves.grid.axes),
        variance_by_order=orders[0, :, 1:],
        pair_total=pairs[0],
        feature_total=mains[0],
        standard_error=orders[1, :, 1:],
        pair_standard_error=pairs[1],
        feature_standard_error=mains[1],
        variance_standard_error=orders[1, :, 0],
        measure=measure,
        sampled_rows=max(n_rows),
        method=" and ".join(sorted({"rows" if n else "pairs" for n in n_rows})),
    )


def component_variance(leaves: IndependentLeaves, features: Subset) -> Array:
    """Return the variance of one component for each output, from the pairs of its leaves.

    Of leaves that have conditions along these features only, it is that of the largest order.
    """
    size = len(features)
    orders = np.zeros((leaves.n_outputs, size + 1))
    for k in range(leaves.n_outputs):
        output = leaves.of_output(k, features)
        _add_pairs(output, _MOST_PIECES, orders[k], np.zeros(size), np.zeros((size, size)))
    return orders[:, size]


def _n_rows(output: OutputLeaves, most_pairs: int) -> int:
    """Return the number of rows whose cost matches `most_pairs`; 0 where all pairs cost less.

    A pair takes time with the square of the features of one leaf, six in the unit of work, and
    pairs without a common feature are passed over.
    """
    width = np.diff(output.leaf_ptr).astype(np.float64)
    together = np.diff(output.feature_ptr).astype(np.float64) ** 2
    share = min(together.sum() / max(len(width), 1) ** 2, 1.0)
    if share * len(width) * np.sum(width * (width + 4.0)) / 60.0 <= most_pairs:
        return 0
    visits = most_pairs // _PAIRS_OF_A_VISIT
    return min(max(visits // len(width), _FEWEST_ROWS), _MOST_ROWS)


def _add_pairs(
    output: OutputLeaves, n_pieces: int, orders: Array, mains: Array, pairs: Array
) -> None:
    """Add the second moments of one output, from every pair of its leaves, each pair once."""
    n_leaves = len(output.values)
    n_pieces = min(n_pieces, -(-n_leaves // _LEAVES_IN_A_PIECE))
    # A leaf is paired with all before it.
    ends = np.rint(n_leaves * np.sqrt(np.arange(n_pieces + 1) / max(n_pieces, 1))).astype(int)

    def add_piece(piece: int) -> tuple[Array, ...]:
        found = np.zeros_like(orders), np.zeros_like(mains), np.zeros_like(pairs)
        leaf_pair_moments(ends[piece], ends[piece + 1], output, *found)
        return found

    for of_orders, of_mains, of_pairs in iterate_threads(add_piece, range(n_pieces)):
        orders += of_orders
        mains += of_mains
        pairs += of_pairs


def _write_of_rows(
    output: OutputLeaves,
    positions: Array,
    memory_budget: int,
    orders: Array,
    mains: Array,
    pairs: Array,
) -> None:
    """Write unbiased estimates of the second moments of one output, and their standard errors.

    On each row the sum of the components of every order, the sum of those with a feature and
    the sum of those with a pair are exact, because the other features are averaged over in
    closed form. Only the mean of their squares is estimated, so that no estimate is negative
    and small numbers have small errors. `positions` are uniform numbers, the values of the rows as
    cumulative probabilities.
    """
    n_features, n_rows = positions.shape
    n_orders, n_leaves = orders.shape[1], len(output.values)
    keys, slots = np.unique(
        subset_keys(output.leaf_ptr, output.leaf_feature, np.arange(n_leaves), 2, n_features + 1),
        return_inverse=True,
    )
    width = np.diff(output.leaf_ptr)
    slot_ptr = np.append(0, np.cumsum(width * (width - 1) // 2))
    n_numbers = n_orders + n_features + len(keys)
    # The effects and their squares on each row, and the sums that wait to be added.
    row_bytes, sum_bytes = 16 * n_numbers, 128 * n_numbers
    check_budget(
        (row_bytes + sum_bytes) * available_threads(),
        memory_budget,
        f"the interaction indices of {len(keys)} pairs of features on sampled rows",
        _ADVICE,
    )
    free_bytes = memory_budget // available_threads() - sum_bytes
    block = min(free_bytes // row_bytes, _ROWS_IN_A_BLOCK)

    def sums(first: int) -> Array:
        part = np.ascontiguousarray(positions[:, first : first + block])
        effects = np.zeros((n_numbers, part.shape[1]))
        by_order, of_features, of_pairs = np.split(effects, [n_orders, n_orders + n_features])
        of_rows = np.zeros((part.shape[1], n_orders))
        effects_on_rows(part, output, slot_ptr, slots, of_rows, of_features, of_pairs)
        by_order[:] = of_rows.T
        np.square(effects, out=effects)
        # The first is the mean, which is known: its place is taken by the variance.
        effects[0] = effects[1:n_orders].sum(axis=0)
        return np.stack([effects.sum(axis=1), np.square(effects, out=effects).sum(axis=1)])

    mean, square = sum(iterate_threads(sums, range(0, n_rows, block))) / n_rows
    error = np.sqrt(np.maximum(square - mean**2, 0.0) / (n_rows - 1))
    first, second = keys // (n_features + 1), keys % (n_features + 1)
    for at, numbers in enumerate((mean, error)):
        orders[at], mains[at], of_pairs = np.split(numbers, [n_orders, n_orders + n_features])
        pairs[at, first, second] = pairs[at, second, first] = of_pairs
