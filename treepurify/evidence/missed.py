"""What a model missed: the effects of its residuals on rows that it was not trained on."""

from collections.abc import Sequence
from itertools import combinations
from math import prod
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

# Groups of neighbouring cells of about equal mass: of a feature alone, and in pairs.
_GROUPS = {1: 32, 2: 8}
_PARTS = 3
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
    of_rows = np.concatenate([-weight * gradient, weight * curvature, weight], axis=1)
    rng = np.random.default_rng(seed)
    found: dict[Subset, list[float]] = {subset: [] for subset in tables}
    for repeat in range(repeats):
        parts = np.array_split(rng.permutation(counted), _PARTS)
        for done, (subset, (cells, shape)) in enumerate(tables.items()):
            report("decomposing residuals", repeat * len(tables) + done, repeats * len(tables))
            found[subset] += _products(cells, shape, of_rows, parts)
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


def _products(
    cells: Indices, shape: tuple[int, ...], of_rows: Array, parts: Sequence[Indices]
) -> list[float]:
    """Return the mean product of the pure effects of each two parts of the rows on the third.

    Parameters
    ----------
    cells : ndarray of int, shape (n_rows,)
        The cell of each row in the table of an effect.
    shape : tuple of int
        The shape of the table.
    of_rows : ndarray of float64, shape (n_rows, 2 * n_outputs + 1)
        Minus the gradient of the loss by the margin, its second derivative, and the share of each
        row: the step down the loss is a ratio of sums over rows.
    parts : sequence of ndarray of int
        The rows of each of three parts.
    """
    effects, masses = [], []
    for rows in parts:
        own = cells[rows]
        sums = [np.bincount(own, column[rows], prod(shape)) for column in of_rows.T]
        slope, curvature = np.array(sums[:-1]).reshape(2, -1, prod(shape))
        step = np.divide(slope, curvature, out=np.zeros_like(slope), where=curvature > 0)
        step, mass = step.T.reshape(*shape, -1), (sums[-1] / sums[-1].sum()).reshape(shape)
        pure = solve_pair(step, mass).pure if len(shape) == 2 else step - mass @ step
        # Cells without rows say nothing.
        effects.append(pure * (mass > 0)[..., None])
        masses.append(mass[..., None])
    return [
        float(np.sum(masses[_PARTS - one - other] * effects[one] * effects[other]))
        for one, other in combinations(range(_PARTS), 2)
    ]


def _tables(d: Decomposition, rows: PredictedRows) -> dict[Subset, tuple[Indices, tuple[int, ...]]]:
    """Return the cells of the rows, and the shape, of a table of every feature and every pair."""
    located = locate_main_effects(d, rows.columns, "missed_effects")
    tables: dict[Subset, tuple[Indices, tuple[int, ...]]] = {}
    for size, most in _GROUPS.items():
        groups = {
            j: group_cells(one.axis, one.mass(rows.shares), most) for j, one in located.items()
        }
        for subset in combinations(located, size):
            shape = tuple(int(groups[j].max()) + 1 for j in subset)
            cells = np.ravel_multi_index([groups[j][located[j].cells] for j in subset], shape)
            tables[subset] = (cells, shape)
    return tables
