"""What each effect is worth: how much the loss on given rows rises where it is left out."""

from collections.abc import Iterator
from math import factorial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_flag_or, check_number, check_whole
from treepurify.budget import DEFAULT_BUDGET
from treepurify.components import values_on_rows
from treepurify.decomposition import Absorb, Decomposition
from treepurify.errors import InvalidInputError
from treepurify.evidence.editing import has_independent_effects
from treepurify.evidence.effect_space import EffectSpace, absorbing, effect_space, space_on_rows
from treepurify.evidence.effect_worth_table import EffectWorth
from treepurify.evidence.held_out import HeldOutRows, read_held_out
from treepurify.evidence.losses import Loss, LossChoice
from treepurify.evidence.resampling import (
    Intervals,
    draw_counts,
    resample,
)
from treepurify.fingerprints import array_fingerprint
from treepurify.grids.grid import Subset
from treepurify.progress import ProgressReport, progress_report
from treepurify.typing import Array

__all__ = ["effect_worth", "shapley_of_losses"]

# Most additions for which the slowest step is done without being requested.
_MUCH_WORK = 5e9
# So many rows, drawn again some hundred times, stay in the cache.
_ROWS_AT_ONCE = 1 << 12
# Functions that are projected on the same effects side by side.
_AT_ONCE = 8
# Steps of conjugate gradients, as an order of magnitude.
_STEPS = 40
_MOST_EFFECTS = 16
# What a loss takes for one row, in additions.
_WORK_A_ROW = 20


def effect_worth(
    d: Decomposition,
    X: Any,
    y: Any,
    *,
    loss: LossChoice = "auto",
    sample_weight: npt.ArrayLike | str | None = None,
    absorb: Absorb | Literal["auto"] = "auto",
    shapley: bool | Literal["auto"] = "auto",
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
    shapley : bool or "auto"
        Whether to average the worth of an effect over all orders in which effects can be left out.
        The squared error has a closed formula for this; other losses are computed for every set of
        effects, and with ``"auto"`` only for at most ten effects.
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
    check_flag_or("shapley", shapley, "auto")
    if not (isinstance(absorb, str) and absorb == "auto"):
        absorbing((), absorb)
    report = progress_report(progress)
    held_out = read_held_out(d, X, y, loss, sample_weight, memory_budget, report)
    notes = [held_out.words] if held_out.words else []
    losses, n_rows = _whole_losses(d, held_out), len(held_out.shares)
    counts = draw_counts(n_rows, n_bootstrap, seed, memory_budget)
    worth = _left_out_one_by_one(held_out, counts, coverage, report)
    if worth.undefined:
        notes.append(
            f"The intervals leave out {worth.undefined} of {n_bootstrap} draws, on which the loss "
            "is undefined: their rows have no weight, or only one of two classes."
        )
    absorbed, absorb_used = _absorbed(d, held_out, absorb, memory_budget, report, notes)
    return EffectWorth(
        decomposition=d,
        loss=held_out.loss.name,
        n_rows=n_rows,
        model_loss=losses[0],
        intercept_loss=losses[1],
        subsets=held_out.subsets,
        worth=worth.value,
        low=worth.low,
        high=worth.high,
        standard_error=worth.standard_error,
        coverage=coverage,
        n_bootstrap=n_bootstrap,
        seed=seed,
        absorb=absorb_used,
        worth_absorbed=absorbed,
        shapley=_shapley(d, held_out, shapley, report, notes),
        notes=tuple(notes),
        rows_fingerprint=_fingerprint(held_out),
    )


def _fingerprint(held_out: HeldOutRows) -> str:
    """Return a hash of the rows as they were read, of what was observed, and of the weights."""
    observed = np.asarray(held_out.observed)
    if observed.dtype.kind in "biuf":
        observed = observed.astype(np.float64)
    else:
        words = "\0".join(map(str, observed.ravel().tolist()))
        observed = np.frombuffer(words.encode("utf-8", "surrogatepass"), dtype=np.uint8)
    return array_fingerprint([*held_out.columns.values, observed, held_out.shares])


def _left_out_one_by_one(
    held_out: HeldOutRows, counts: npt.NDArray[np.uint8], coverage: float, report: ProgressReport
) -> Intervals:
    def margins() -> Iterator[Array]:
        total = len(held_out.subsets)
        for part, values in enumerate(held_out.contributions):
            report("leaving effects out", part, total)
            yield held_out.margin - values

    return resample(held_out.loss, held_out.margin, margins(), held_out.shares, counts, coverage)


def _whole_losses(d: Decomposition, held_out: HeldOutRows) -> tuple[float, float]:
    """Return the losses of the model and of the intercept alone."""
    constant = np.tile(d.intercept, (len(held_out.shares), 1))
    model, intercept = (
        held_out.loss.mean(margin, held_out.shares) for margin in (held_out.margin, constant)
    )
    return model, intercept


def _absorbed(
    d: Decomposition,
    held_out: HeldOutRows,
    absorb: Absorb | Literal["auto"],
    memory_budget: int,
    report: ProgressReport,
    notes: list[str],
) -> tuple[Array | None, Absorb]:
    """Return the worth of each effect where others absorb it, and how they did."""
    chosen: Absorb = "main" if absorb == "auto" else absorb
    if absorb == "auto":
        reason = ""
        if d.rows is None:
            reason = (
                "the decomposition does not contain the rows of its distribution (it never does if "
                "it was loaded or has a remainder)"
            )
        elif _work_of_absorbing(d) > _MUCH_WORK:
            reason = 'this would take too long; pass absorb="main" or absorb=True'
        if reason:
            notes.append(f"Worth with the other effects adjusted was not computed: {reason}.")
            return None, False
    if not chosen:
        return None, False
    losses = _absorbed_losses(d, held_out, chosen, memory_budget, report)
    return losses - held_out.loss.mean(held_out.margin, held_out.shares), chosen


def _shapley(
    d: Decomposition,
    held_out: HeldOutRows,
    shapley: bool | Literal["auto"],
    report: ProgressReport,
    notes: list[str],
) -> Array | None:
    if shapley is False:
        return None
    most = _most_shapley_effects(len(held_out.shares), _MUCH_WORK)
    if not _is_quadratic(held_out.loss) and len(held_out.subsets) > most:
        if shapley == "auto":
            notes.append(
                f"The Shapley version, over all sets of {len(held_out.subsets)} effects, was not "
                f"computed: on this number of rows, this loss allows at most {most} effects."
            )
            return None
        raise InvalidInputError(
            f"the Shapley worth for {held_out.loss.name!r} evaluates every set of "
            f"the {len(held_out.subsets)} effects; on {len(held_out.shares)} rows the limit is "
            f'{most} effects: keep fewer first (d.only(...)), or use loss="squared_error"'
        )
    values = held_out.contributions
    return _shapley_worth(d.intercept, values, held_out.loss, held_out.shares, report)


def _work_of_absorbing(d: Decomposition) -> float:
    """Return about how many additions the projections of all effects on main effects take."""
    n_rows = 0 if d.grid_rows is None else d.grid_rows.n_rows
    n_mains = sum(len(subset) == 1 for subset in d.components)
    return 2.0 * _STEPS * n_rows * n_mains * len(d.components) * d.n_outputs


def _absorbed_losses(
    d: Decomposition,
    held_out: HeldOutRows,
    absorb: Absorb,
    memory_budget: int,
    report: ProgressReport,
) -> Array:
    """Return the loss without each effect, where others absorb it; NaN for the remainder.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    held_out : HeldOutRows
        The rows on which the loss is measured.
    absorb : bool or "main"
        Which effects absorb; not False.
    memory_budget : int
        Bytes that the cells of all rows may take.
    report : callable
        Progress.

    Returns
    -------
    ndarray of float64, shape (n_effects,)
    """
    losses = np.full(len(held_out.subsets), np.nan)
    if has_independent_effects(d):
        for part, subset in enumerate(held_out.subsets):
            if subset:
                margin = held_out.margin - held_out.contributions[part]
                losses[part] = held_out.loss.mean(margin, held_out.shares)
        return losses
    everything = absorbing(d.components, absorb)
    measure = effect_space(d, everything, memory_budget)
    there = space_on_rows(d, everything, held_out.columns, held_out.shares, memory_budget)
    for subset, absorbed in _absorbed_effects(d, measure, there, absorb, report):
        part = held_out.subsets.index(subset)
        margin = held_out.margin - held_out.contributions[part] + absorbed
        losses[part] = held_out.loss.mean(margin, held_out.shares)
    return losses


def _absorbed_effects(
    d: Decomposition,
    measure: EffectSpace,
    there: EffectSpace,
    absorb: Absorb,
    report: ProgressReport,
) -> Iterator[tuple[Subset, Array]]:
    """Yield each effect with what others take over of it on the held-out rows."""
    groups: dict[tuple[Subset, ...], list[Subset]] = {}
    for subset in d.components:
        onto = absorbing([other for other in d.components if other != subset], absorb)
        groups.setdefault(onto, []).append(subset)
    rows: Any = None if d.grid_rows is None else d.grid_rows.by_order
    tensors = d.tensor_components()
    done = 0
    for onto, members in groups.items():
        for start in range(0, len(members), _AT_ONCE):
            chosen = members[start : start + _AT_ONCE]
            report("computing worth with other effects adjusted: effect", done, len(d.components))
            values = np.concatenate([values_on_rows(tensors[s], rows) for s in chosen], axis=1)
            projected = measure.project(values, onto)
            on_rows = projected.mean + there.sum_of(projected.tables)
            for i, subset in enumerate(chosen):
                yield subset, on_rows[:, i * d.n_outputs : (i + 1) * d.n_outputs]
            done += len(chosen)


def _most_shapley_effects(n_rows: int, most_work: float) -> int:
    """Return the number of effects whose subsets can all be tried on `n_rows` rows."""
    return int(min(_MOST_EFFECTS, max(np.log2(most_work / (_WORK_A_ROW * max(n_rows, 1))), 1)))


def _is_quadratic(loss: Loss) -> bool:
    """Return whether a loss is quadratic in the margin: its Shapley values are a formula."""
    return loss.name == "squared_error" and loss.curvature is not None


def _shapley_worth(
    intercept: Array, contributions: Array, loss: Loss, shares: Array, report: ProgressReport
) -> Array:
    """Return the Shapley values of the effects for minus the loss of a set of them.

    They sum to the loss of the intercept less that of the model. The loss of a set is that of the
    intercept plus its effects; nothing is absorbed.

    Parameters
    ----------
    intercept : ndarray of float64, shape (n_outputs,)
        The intercept.
    contributions : ndarray of float64, shape (n_effects, n_rows, n_outputs)
        What each effect adds.
    loss : Loss
        The loss.
    shares : ndarray of float64, shape (n_rows,)
        Share of each row.
    report : callable
        Progress.
    """
    if _is_quadratic(loss) and loss.curvature is not None:
        gradient, _ = loss.curvature(np.tile(intercept, (len(shares), 1)))
        return _of_squared_error(gradient, contributions, shares)
    n_effects = len(contributions)
    losses = np.empty(1 << n_effects)
    margin = np.tile(intercept, (len(shares), 1))
    chosen = 0
    losses[0] = loss.mean(margin, shares)
    # In the order of a Gray code, so that each set differs from the one before by one effect.
    for step in range(1, len(losses)):
        effect = (step & -step).bit_length() - 1
        chosen ^= 1 << effect
        sign = 1.0 if chosen >> effect & 1 else -1.0
        margin += sign * contributions[effect]
        losses[chosen] = loss.mean(margin, shares)
        report("leaving sets of effects out", step, len(losses))
    return shapley_of_losses(losses, n_effects)


def _of_squared_error(gradient: Array, contributions: Array, shares: Array) -> Array:
    """Return the values of a quadratic game: ``E[f_S (2 (y - c) - sum of all f_T)]``.

    `gradient` is that of half the squared error of the intercept: ``c - y``.
    """
    factor = -2.0 * gradient - contributions.sum(axis=0)
    weighted = shares[:, None] * factor / factor.shape[1]
    return np.array([float((weighted * values).sum()) for values in contributions])


def shapley_of_losses(losses: Array, n_effects: int) -> Array:
    """Return by how much each effect lowers the loss, averaged over all orders of the effects.

    Parameters
    ----------
    losses : ndarray of float64, shape (2**n_effects,)
        The loss of each set of effects; bit j of a position says that effect j is in the set.
    n_effects : int
        Number of effects.
    """
    sets = np.arange(len(losses))
    sizes = np.array([int(s).bit_count() for s in sets])
    weight_of_size = np.array(
        [
            factorial(size) * factorial(n_effects - size - 1) / factorial(n_effects)
            for size in range(n_effects)
        ]
    )
    values = np.empty(n_effects)
    for effect in range(n_effects):
        without = sets[sets >> effect & 1 == 0]
        gain = losses[without] - losses[without | 1 << effect]
        values[effect] = float((weight_of_size[sizes[without]] * gain).sum())
    return values
