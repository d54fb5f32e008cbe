"""What a model missed: the effects of its residuals on rows that it was not trained on."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_whole
from treepurify.budget import DEFAULT_BUDGET
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.evidence.cell_groups import group_cells, locate_main_effects
from treepurify.evidence.held_out import PredictedRows, read_predicted
from treepurify.evidence.losses import LossChoice
from treepurify.grids.grid import Subset
from treepurify.progress import progress_report
from treepurify.purification.pair import solve_pair
from treepurify.typing import Array, Indices

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["missed_effects"]

# Groups of neighbouring cells of about equal mass: of a feature alone, and in pairs.
_GROUPS = {1: 32, 2: 8}
_PARTS = 3
_TABLES_AT_ONCE = 512
_LEAST_ROWS = 30


def missed_effects(
    d: Decomposition,
    X: Any,
    y: Any,
    *,
    loss: LossChoice = "auto",
    sample_weight: npt.ArrayLike | str | None = None,
    repeats: int = 5,
    seed: int = 0,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> "pd.DataFrame":
    """Return the variance of each effect, and of the part of it that the model missed.

    The residuals on rows that the model was not trained on are decomposed like the model, into a
    main effect of every feature that the model uses and an interaction of every pair of them, each
    fitted separately. If an effect were fitted and measured on the same rows, noise would make its
    variance positive. So the rows are split into three parts: the effect is fitted on each of two
    parts, and the mean product of the two fits on the third part is its variance without that
    noise. If nothing was missed, the result is near zero and may be negative.

    Parameters
    ----------
    d : Decomposition
        The decomposition; features without a main effect in it are left out.
    X : array_like, table of shape (n_rows, n_features), or rows in batches
        Rows that the model was not trained on. Of rows in batches (see `purify`), at most
        100 000 are drawn; ``attrs["rows"]`` of the table says so.
    y : array_like of shape (n_rows,) or (n_rows, n_outputs), or str
        The observed target, or the name of its column; see `effect_worth`.
    loss : str
        ``"squared_error"`` for a model without a link, ``"log_loss"`` for log-odds or softmax
        scores, or ``"poisson"`` for a log link. Residuals are converted to the margin scale by one
        Newton step, from the first two derivatives of the loss; for softmax scores, each output
        separately. ``"auto"`` depends on the link.
    sample_weight : array_like of shape (n_rows,) or str, optional
        Weight of each row, finite and not negative; for rows in batches, the name of the column of
        weights.
    repeats : int
        Number of splits into three parts.
    seed : int
        Seed of the splits.
    memory_budget : int
        Bytes that a sample of rows in batches may take.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    DataFrame
        One row per effect, the one with the largest missed part first: ``term``, ``order``,
        ``in_model`` (the variance of the effect in the model, under the distribution of `d`; 0 for
        an effect that the model does not have), ``missed`` (the variance of the missed part on the
        held-out rows) and ``missed_spread`` (the standard deviation of ``missed`` over splits and
        choices of the third part). If the spread is as large as ``missed``, the result depends on
        the split, so do not interpret it. A small spread proves nothing: splits share rows, so it
        is not a standard error. Variances are on the margin scale and summed over the outputs.
        Intervals of numeric features are merged into at most 32 groups, or 8 in pairs. Variation
        within a group is not detected, so ``missed`` is too small rather than too large, most of
        all if the model has few split points there.

    Raises
    ------
    InvalidInputError
        If the loss has no second derivative, or there are too few rows.

    See Also
    --------
    effect_worth : Rise of the held-out loss without each effect.
    refit : Several trainings of one model.

    Examples
    --------
    The model lacks an interaction of variance 1. Less is found, since the model has few split
    points along its features, and nothing is seen between them.

    >>> import numpy as np, treepurify as tp
    >>> from sklearn.ensemble import GradientBoostingRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3))
    >>> y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=2000)
    >>> model = GradientBoostingRegressor(max_depth=1, random_state=0).fit(X[:500], y[:500])
    >>> table = tp.missed_effects(tp.purify(model, X[:500]), X[500:], y[500:])
    >>> table[["term", "in_model", "missed"]].head(1).round(1)
          term  in_model  missed
    0  x1 & x2       0.0     0.4
    """
    import pandas as pd

    check_whole("repeats", repeats, 1)
    check_whole("seed", seed, 0)
    report = progress_report(progress)
    held_out = read_predicted(d, X, y, loss, sample_weight, memory_budget, report)
    if held_out.loss.curvature is None:
        raise InvalidInputError(
            "missed effects need the first two derivatives of the loss, which are not available "
            f"for {held_out.loss.name!r} with the link {d.link.name!r}: use "
            '"squared_error" (no link), "log_loss" (log-odds) or "poisson" (log link)'
        )
    counted = np.flatnonzero(held_out.shares > 0)
    if len(counted) < _LEAST_ROWS:
        raise InvalidInputError(
            f"this compares the residuals of three parts of the rows and needs {_LEAST_ROWS} "
            f"rows of positive weight; X has {len(counted)}"
        )
    tables = _tables(d, held_out)
    gradient, curvature = held_out.loss.curvature(held_out.margin)
    weight = held_out.shares[:, None]
    steps = _Steps(-weight * gradient, weight * curvature, held_out.shares)
    rng = np.random.default_rng(seed)
    found: dict[Subset, list[float]] = {subset: [] for subset in tables}
    for repeat in range(repeats):
        parts = np.array_split(rng.permutation(counted), _PARTS)
        for start in range(0, len(tables), _TABLES_AT_ONCE):
            report("decomposing residuals", repeat * len(tables) + start, repeats * len(tables))
            some = dict(islice(tables.items(), start, start + _TABLES_AT_ONCE))
            for subset, products in zip(some, steps.products(some.values(), parts), strict=True):
                found[subset] += products
    in_model = {s: float(np.sum(component.variance)) for s, component in d.components.items()}
    frame = pd.DataFrame(
        {
            "term": [d.term_name(subset) for subset in tables],
            "order": [len(subset) for subset in tables],
            "in_model": [in_model.get(subset, 0.0) for subset in tables],
            "missed": [float(np.mean(values)) for values in found.values()],
            "missed_spread": [float(np.std(values)) for values in found.values()],
        }
    )
    if held_out.words:
        frame.attrs["rows"] = held_out.words
    return frame.sort_values("missed", ascending=False, kind="stable").reset_index(drop=True)


@dataclass(frozen=True, eq=False)
class _Table:
    """The cell of each row in the table of one effect, and the shape of the table."""

    cells: Indices
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class _Steps:
    """What each row says of its cell: the step down the loss is a ratio of sums over rows.

    Parameters
    ----------
    slope, curvature : ndarray of float64, shape (n_rows, n_outputs)
        Minus the gradient of the loss by the margin, and its second derivative, by weight.
    shares : ndarray of float64, shape (n_rows,)
        Share of each row.
    """

    slope: Array
    curvature: Array
    shares: Array

    def products(
        self, tables: Collection[_Table], parts: Sequence[Indices]
    ) -> Iterator[list[float]]:
        """Yield, for each table, the mean products of the pure effects of two parts on the third.

        An effect of a part is that of the residuals of its rows.
        """
        rows = np.concatenate(parts)
        part = np.repeat(np.arange(len(parts)), [len(own) for own in parts])
        fitted = [self._fitted(table, rows, part) for table in tables]
        for steps, masses in fitted:
            if steps.ndim == 4:
                pure = np.stack([solve_pair(*own).pure for own in zip(steps, masses, strict=True)])
            else:
                pure = steps - np.einsum("pc,pco->po", masses, steps)[:, None]
            # Cells without rows say nothing.
            pure = pure * (masses > 0)[..., None]
            yield [
                float(
                    np.sum(masses[_PARTS - one - other] * np.sum(pure[one] * pure[other], axis=-1))
                )
                for one, other in combinations(range(_PARTS), 2)
            ]

    def _fitted(self, table: _Table, rows: Indices, part: Indices) -> tuple[Array, Array]:
        """Return the step of each cell by the rows of each part, and the share of these there."""
        n_cells = int(np.prod(table.shape))
        place = part * n_cells + table.cells[rows]

        def summed(column: Array) -> Array:
            sums = np.bincount(place, column[rows], _PARTS * n_cells)
            return np.asarray(sums, dtype=np.float64)

        n_outputs = self.slope.shape[1]
        slope, curvature = (
            np.stack([summed(of_rows[:, k]) for k in range(n_outputs)], axis=1)
            for of_rows in (self.slope, self.curvature)
        )
        step = np.divide(slope, curvature, out=np.zeros_like(curvature), where=curvature > 0)
        mass = summed(self.shares).reshape(_PARTS, -1)
        mass = mass / mass.sum(axis=1, keepdims=True)
        return step.reshape(_PARTS, *table.shape, -1), mass.reshape(_PARTS, *table.shape)


def _tables(d: Decomposition, rows: PredictedRows) -> dict[Subset, _Table]:
    """Return the cells of the rows in a table of every feature and of every pair of them."""
    located = locate_main_effects(d, rows.columns, "missed_effects")
    groups: dict[int, dict[int, tuple[Indices, int]]] = {1: {}, 2: {}}
    for j, one in located.items():
        mass = one.mass(rows.shares)
        for order, most in _GROUPS.items():
            group = group_cells(one.axis, mass, most)
            groups[order][j] = group[one.cells], int(group.max()) + 1
    tables: dict[Subset, _Table] = {}
    for j, (cells, size) in groups[1].items():
        tables[j,] = _Table(cells, (size,))
    for i, j in combinations(groups[2], 2):
        (first, n_first), (second, n_second) = groups[2][i], groups[2][j]
        tables[i, j] = _Table(first * n_second + second, (n_first, n_second))
    return tables
