"""What each effect is worth: how much the loss on given rows rises where it is left out."""

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_number, check_whole
from treepurify.budget import DEFAULT_BUDGET
from treepurify.components import values_on_rows
from treepurify.decomposition import Absorb, Decomposition
from treepurify.evidence.editing import has_independent_effects
from treepurify.evidence.effect_space import absorbing, effect_space, space_on_rows, taken_over
from treepurify.evidence.effect_worth_table import EffectWorth
from treepurify.evidence.held_out import PredictedRows, read_predicted
from treepurify.evidence.losses import LossChoice
from treepurify.evidence.resampling import draw_counts, resample
from treepurify.origin import array_fingerprint
from treepurify.progress import ProgressReport, progress_report
from treepurify.typing import Array

# Most additions for which the worth with others adjusted is computed without being requested.
_MUCH_WORK = 5e9
# Steps of conjugate gradients, as an order of magnitude.
_STEPS = 40


def effect_worth(
    d: Decomposition,
    X: Any,
    y: Any,
    *,
    loss: LossChoice = "auto",
    sample_weight: npt.ArrayLike | str | None = None,
    absorb: Absorb | Literal["auto"] = "auto",
    n_bootstrap: int = 200,
    coverage: float = 0.95,
    seed: int = 0,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> EffectWorth:
    """Return how much the loss on given rows rises when each effect is left out.

    On rows that the model was not trained on, an effect that improves predictions has positive
    worth. An effect that follows the noise of the training rows has zero or negative worth, however
    large its variance.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    X : array_like, table of shape (n_rows, n_features), or rows in batches
        Rows that the model was not trained on. Of rows in batches (see `purify`), at most
        100 000 are drawn, in one pass; the notes of the result say so.
    y : array_like of shape (n_rows,) or (n_rows, n_outputs), or str
        The observed target: numbers, 0 and 1, or class labels for several outputs; for rows in
        batches, the name of its column.
    loss : str, tuple or callable
        ``"squared_error"`` or ``"quantile"`` of the response, averaged over the outputs (for
        classes, the squared error of all probabilities); ``"quantile"`` is at level 0.5, and
        ``("quantile", 0.9)`` at another one; ``"log_loss"``; ``"poisson"`` (the deviance);
        ``"auc"`` (one minus the area under the ROC curve); or a function
        ``loss(y, predicted, sample_weight)``, which is called with predictions on the response
        scale and weights that sum to one. ``"auto"`` depends on the link: squared error, log loss
        or Poisson.
    sample_weight : array_like of shape (n_rows,) or str, optional
        Weight of each row, finite and not negative; for rows in batches, the name of the column of
        weights.
    absorb : bool, "main" or "auto"
        Whether to compute ``worth_absorbed`` as well: the rise of the loss after the remaining
        effects (or with ``"main"`` the remaining main effects) have been adjusted to compensate;
        see `Decomposition.without`. ``"auto"`` is ``"main"``, unless this would take long or the
        decomposition does not contain the rows of its distribution; then the notes of the result
        say so.
    n_bootstrap : int
        Number of bootstrap samples of the rows for the intervals; 0 for no intervals. The model
        and its effects stay the same.
    coverage : float
        Nominal coverage of the intervals, which are percentiles of the bootstrap samples.
    seed : int
        Seed of the bootstrap.
    memory_budget : int
        Bytes that the contributions of all effects may take, and also the limit for the bootstrap
        samples.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    EffectWorth
        The worth of each effect, in the units of the loss (the mean over the rows).

    Raises
    ------
    InvalidInputError
        If the loss does not suit the model or the observations, or an option cannot be used.
    MemoryBudgetError
        If the contributions would not fit.

    See Also
    --------
    simplify : The fewest effects that the held-out loss allows.
    missed_effects : Effects that the model has not learnt in full.
    treepurify.plots.worth : Figure of the worth of effects.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.ensemble import GradientBoostingRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 3))
    >>> y = X[:, 0] * X[:, 1] + rng.normal(size=600)
    >>> model = GradientBoostingRegressor(max_depth=2, random_state=0).fit(X[:300], y[:300])
    >>> d = tp.purify(model, X[:300])
    >>> worth = tp.effect_worth(d, X[300:], y[300:])
    >>> worth.to_frame()["term"].iloc[0]
    'x0 & x1'
    """
    check_whole("n_bootstrap", n_bootstrap, 0)
    check_whole("seed", seed, 0)
    check_number("coverage", coverage, least=0, most=1, open_ends=True)
    if not (isinstance(absorb, str) and absorb == "auto"):
        absorbing((), absorb)
    report = progress_report(progress)
    rows = read_predicted(d, X, y, loss, sample_weight, memory_budget, report, has_parts=True)
    notes = [rows.words] if rows.words else []
    counts = draw_counts(len(rows.shares), n_bootstrap, seed, memory_budget)
    worth = resample(rows, _left_out_one_by_one(rows, report), counts, coverage)
    if worth.undefined:
        notes.append(
            f"The intervals leave out {worth.undefined} of {n_bootstrap} draws, on which the loss "
            "is undefined: their rows have no weight, or only one of two classes."
        )
    used, reason = _read_absorb(d, absorb)
    if reason:
        notes.append(f"Worth with the other effects adjusted was not computed: {reason}.")
    model_loss = rows.loss_of(rows.margin)
    return EffectWorth(
        decomposition=d,
        loss=rows.loss.name,
        n_rows=len(rows.shares),
        model_loss=model_loss,
        intercept_loss=rows.loss_of(np.tile(d.intercept, (len(rows.shares), 1))),
        subsets=tuple(rows.parts),
        worth=worth.value,
        low=worth.low,
        high=worth.high,
        standard_error=worth.standard_error,
        coverage=coverage,
        n_bootstrap=n_bootstrap,
        seed=seed,
        absorb=used,
        worth_absorbed=(
            _absorbed_losses(d, rows, used, memory_budget, report) - model_loss if used else None
        ),
        shapley=_shapley(d, rows),
        notes=tuple(notes),
        rows_fingerprint=_fingerprint(rows),
    )


def _fingerprint(rows: PredictedRows) -> str:
    """Return a hash of the rows as they were read, of what was observed, and of the weights."""
    observed = np.asarray(rows.observed)
    if observed.dtype.kind in "biuf":
        observed = observed.astype(np.float64)
    else:
        words = "\0".join(map(str, observed.ravel().tolist()))
        observed = np.frombuffer(words.encode("utf-8", "surrogatepass"), dtype=np.uint8)
    return array_fingerprint([*rows.columns.values, observed, rows.shares])


def _left_out_one_by_one(rows: PredictedRows, report: ProgressReport) -> Iterator[Array]:
    for done, values in enumerate(rows.parts.values()):
        report("leaving effects out", done, len(rows.parts))
        yield rows.margin - values


def _read_absorb(d: Decomposition, absorb: Absorb | Literal["auto"]) -> tuple[Absorb, str]:
    """Return which effects are adjusted, and why none are where this was not decided."""
    if not (isinstance(absorb, str) and absorb == "auto"):
        return absorb, ""
    if d.rows is None:
        return False, (
            "the decomposition does not contain the rows of its distribution (it never does if "
            "it was loaded or has a remainder)"
        )
    n_rows = 0 if d.grid_rows is None else d.grid_rows.n_rows
    n_mains = sum(len(subset) == 1 for subset in d.components)
    if 2.0 * _STEPS * n_rows * n_mains * len(d.components) * d.n_outputs > _MUCH_WORK:
        return False, 'this would take too long; pass absorb="main" or absorb=True'
    return "main", ""


def _absorbed_losses(
    d: Decomposition,
    rows: PredictedRows,
    absorb: Absorb,
    memory_budget: int,
    report: ProgressReport,
) -> Array:
    """Return the loss without each effect, where others absorb it; NaN for the remainder."""
    if has_independent_effects(d):
        losses = {s: rows.loss_of(rows.margin - values) for s, values in rows.parts.items() if s}
        return np.array([losses.get(subset, np.nan) for subset in rows.parts])
    everything = absorbing(d.components, absorb)
    measure = effect_space(d, everything, memory_budget)
    there = space_on_rows(d, everything, rows, memory_budget)
    left_out = {
        subset: absorbing([other for other in d.components if other != subset], absorb)
        for subset in d.components
    }
    on_measure: Any = None if d.grid_rows is None else d.grid_rows.by_order
    tensors, losses = d.tensor_components(), {}
    of_effects = taken_over(
        measure, there, left_out, lambda subset: values_on_rows(tensors[subset], on_measure)
    )
    for subset, taken in of_effects:
        what = "computing worth with other effects adjusted: effect"
        report(what, len(losses), len(d.components))
        losses[subset] = rows.loss_of(rows.margin - rows.parts[subset] + taken)
    return np.array([losses.get(subset, np.nan) for subset in rows.parts])


def _shapley(d: Decomposition, rows: PredictedRows) -> Array | None:
    """Return the worth averaged over all orders of the effects, for a squared error.

    It is ``E[f_S (2 (y - c) - sum of all f_T)]``: the game is quadratic.
    """
    if rows.loss.name != "squared_error" or rows.loss.curvature is None:
        return None
    gradient, _ = rows.loss.curvature(np.tile(d.intercept, (len(rows.shares), 1)))
    factor = -2.0 * gradient - (rows.margin - d.intercept)
    weighted = rows.shares[:, None] * factor / factor.shape[1]
    return np.array([float((weighted * values).sum()) for values in rows.parts.values()])
