"""Audit a trained model: purify it under several measures and rank what stands out."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import brief, check_number, check_whole, read_names
from treepurify.auditing.kinds import with_findings
from treepurify.auditing.ranked_findings import Audit
from treepurify.budget import DEFAULT_BUDGET, check_memory_budget
from treepurify.comparing.compare import compare
from treepurify.comparing.shared_cells import need_rows, same_axis
from treepurify.components import TensorComponent, locate_cells
from treepurify.decomposition import Decomposition
from treepurify.engines.common.functions import rows_for_model
from treepurify.engines.common.inputs import with_note
from treepurify.engines.tree.purify import purify
from treepurify.engines.tree.refits import read_refits
from treepurify.errors import InvalidInputError, MemoryBudgetError
from treepurify.evidence.held_out import check_held_out
from treepurify.evidence.worth import effect_worth
from treepurify.grids.drawing import cell_values
from treepurify.grids.grid import Subset, mean_over_cells
from treepurify.models.parse import Model, read_model
from treepurify.models.refits import GivenRefits
from treepurify.progress import progress_report
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import read_weights
from treepurify.rows.tables import check_table
from treepurify.threads import iterate_threads, one_blas_thread
from treepurify.typing import Array, Indices
from treepurify.weights import Weighting, as_weighting

_OTHER_MEASURES = ("laplace", "uniform", "independent")
# Draws of the rows that are purified side by side if both fit the memory budget, each with about
# three times the tables of its effects.
_DRAWS_AT_ONCE, _TABLES_OF_A_DRAW = 2, 3
# Of fewer rows, whole numbers may well differ without being identifiers.
_LEAST_IDENTIFIED = 100
_TOO_LARGE = "its tables take more than the memory budget allows"


def audit(  # noqa: PLR0913 - what purify takes, and what is looked for
    model: Any,
    X: Any,
    *,
    weights: str | Weighting = "auto",
    order: int | None = 2,
    sample_weight: npt.ArrayLike | str | None = None,
    feature_names: Sequence[str] | None = None,
    refits: GivenRefits | None = None,
    measures: Sequence[str] | None = None,
    n_bootstrap: int = 5,
    seed: int = 0,
    threshold: float = 0.01,
    held_out: tuple[Any, ...] | None = None,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> Audit:
    """Audit a model: purify it under several distributions and rank the findings.

    The audit checks for main effects that are partly hidden in interactions, contradictions between
    apparent and purified effects, and interactions that nearly vanish when purified. It also checks
    for identifiers, and for effects that depend on the distribution, are large in regions without
    data, are not determined by the data, or change when the rows are resampled or, if several
    trainings are passed, from training to training. All results refer to the distribution in
    `weights`.

    Parameters
    ----------
    model : object, str or Path
        A trained model, a model file, or what `parse_model` returned. Several trainings are passed
        as a list, as in `purify`.
    X : array_like, table of shape (n_rows, n_features), or rows in batches
        Rows that represent the distribution; usually the training data. Of rows in batches (see
        `purify`), at most 100 000 are drawn; the distribution of the result says so.
    weights : str or Weighting
        The distribution of the features, as in `purify`.
    order : int, optional
        Largest number of features of an effect; as in `purify`. If effects of more features remain,
        effects before purification are not compared.
    sample_weight : array_like of shape (n_rows,) or str, optional
        Weight of each row, finite and not negative. Rows of weight zero have no influence. For rows
        in batches, the name of the column of weights.
    feature_names : sequence of str, optional
        Names of the features, in the order of the model.
    refits : list or tuple of object, or "bags", optional
        Other trainings of `model`, as in `purify`.
    measures : sequence of str, optional
        Other distributions to purify under; see `purify`. By default ``"laplace"``, ``"uniform"``
        and ``"independent"``, except those that cannot reach `order` for this model or would need
        more than half of `memory_budget`; `Audit.measures_left_out` lists them with the reason.
    n_bootstrap : int
        Number of bootstrap samples of the rows: rows of positive weight are drawn with replacement
        and equal probability, and counted with their weight as often as drawn. The model stays the
        same, so this is the instability of its effects, not of its training, which requires several
        models. 0 omits this check.
    seed : int
        Seed of the bootstrap, and of a sample of rows in batches.
    threshold : float
        Smallest share of the variance of the prediction that counts as a finding.
    held_out : tuple of (table, array_like) or (table, array_like, array_like), optional
        Rows that the model was not trained on, their observed target and, optionally, their
        weights. Effects that have variance but do not lower the default loss on these rows (see
        `effect_worth`) are then reported. For rows in batches, pass the names of the columns of the
        target and the weights; a sample is drawn.
    memory_budget : int
        Bytes that tables may take; more is refused before it is allocated. It applies to each
        purification; two run at the same time if both fit.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    Audit
        Sizes of effects are on the margin scale, shares are of the variance of the prediction.

    Raises
    ------
    InvalidInputError
        If an option cannot be used; see also `purify`.
    MemoryBudgetError
        If the tables would not fit.

    See Also
    --------
    purify : Main effects and interactions of a tree model.
    compare : Differences of two decompositions, effect by effect.
    treepurify.plots.finding : Figure of one finding of an audit.
    treepurify.report.write_html : A report on one page.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.ensemble import GradientBoostingRegressor
    >>> from treepurify.auditing.audit import audit
    >>> X = np.random.default_rng(0).uniform(size=(500, 2))
    >>> model = GradientBoostingRegressor(max_depth=2).fit(X, X[:, 0] * X[:, 1])
    >>> report = audit(model, X, n_bootstrap=0, measures=[])
    >>> "hidden effect" in {finding.kind for finding in report.findings}
    True
    """
    check_whole("n_bootstrap", n_bootstrap, 0)
    check_whole("seed", seed, 0)
    check_number("threshold", threshold, least=0, most=1, open_ends=True)
    check_memory_budget(memory_budget)
    if X is None:
        raise InvalidInputError("an audit needs the rows that represent the distribution: pass X")
    report = progress_report(progress)
    one = model[0] if isinstance(model, list | tuple) and model else model
    given = rows_for_model(one, X, feature_names, sample_weight, memory_budget, report, seed=seed)
    X, row_weights = given.table, given.weights
    check_table(X)
    if row_weights is not None:
        row_weights = read_weights(row_weights)
    read = read_refits(model, refits, X, feature_names, memory_budget)
    parsed = read_model(model, X, feature_names) if read is None else read.centre
    _check_held_out(parsed, held_out)
    weighting = as_weighting(weights)
    wanted = _OTHER_MEASURES if measures is None else tuple(read_names("measures", measures))
    for measure in wanted:
        as_weighting(measure)
    steps = 1 + len(wanted) + n_bootstrap

    def step(done: int) -> None:
        report("auditing", done, steps)

    purified = partial(
        purify,
        X=X,
        order=order,
        feature_names=feature_names,
        memory_budget=memory_budget,
        progress=False,
    )
    # Threads of BLAS wait for each other busily, and longest where a core has other work.
    with one_blas_thread():
        step(0)
        # A model alone was compared with its library on these rows already.
        whole = parsed if read is None else model
        d = purified(whole, weights=weighting, sample_weight=row_weights, refits=refits)
        d = with_note(d, given)
        # All are kept to the end: those that nobody named may take half of the memory.
        share = memory_budget // (2 if measures is None else 1)
        others = partial(purified, parsed, memory_budget=share)
        looked = Audit(
            d,
            threshold=threshold,
            n_bootstrap=n_bootstrap,
            seed=seed,
            trainings=d.spread,
            measures_chosen=measures is not None,
            identifiers=_identifiers(d, X, row_weights),
        )
        looked = _compared(looked, others, wanted, X, row_weights, step)
        drawn = partial(purified, parsed, weights=weighting)
        at_once = _draws_at_once(d, memory_budget)
        spread = _changes_of_draws(looked, drawn, row_weights, at_once, step)
        worth = None
        if held_out is not None:
            worth = effect_worth(
                d,
                *held_out[:2],
                absorb=False,
                sample_weight=held_out[2] if len(held_out) == 3 else None,
                seed=seed,
                memory_budget=memory_budget,
                progress=False,
            )
        return with_findings(replace(looked, spread=spread, worth=worth))


def _compared(
    audit: Audit,
    purified: Callable[..., Decomposition],
    measures: Sequence[str],
    X: Any,
    row_weights: Array | None,
    report: Callable[[int], None],
) -> Audit:
    """Return an audit with its effects compared with those under other measures."""
    d, comparisons, left_out = audit.decomposition, {}, {}
    for done, measure in enumerate(measures, start=1):
        report(done)
        counted = row_weights if as_weighting(measure).needs_rows else None
        try:
            other = purified(weights=measure, sample_weight=counted)
        except (InvalidInputError, MemoryBudgetError) as error:
            # Rows and order were accepted before: this measure cannot reach the order, or takes
            # more memory, which is an error only if the caller chose it.
            if audit.measures_chosen:
                raise
            is_large = isinstance(error, MemoryBudgetError)
            left_out[measure] = _TOO_LARGE if is_large else str(error)
            continue
        rows = {"X": X, "sample_weight": row_weights} if need_rows(d, other) else {}
        names = (d.measure, other.measure)
        comparisons[measure] = compare(d, other, **rows, names=names, progress=False)
    return replace(audit, comparisons=comparisons, measures_left_out=left_out)


def _check_held_out(model: Model, held_out: Any) -> None:
    """Raise where held-out rows do not suit the model, before the long work."""
    if held_out is None:
        return
    if not isinstance(held_out, tuple | list) or len(held_out) not in (2, 3):
        raise InvalidInputError(
            "held_out must be rows and their targets, (X, y) or (X, y, sample_weight); got "
            f"{brief(held_out)}"
        )
    rows, y, *weights = held_out
    check_held_out(model, rows, y, "auto", weights[0] if weights else None)


def _identifiers(d: Decomposition, X: Any, row_weights: Array | None) -> tuple[int, ...]:
    """Return the features whose whole numbers, or labels, differ in all rows that count."""
    found = []
    for j, column in enumerate(d.inputs.columns(X).values):
        values = column if row_weights is None else column[row_weights > 0]
        is_whole = len(values) >= _LEAST_IDENTIFIED and np.all(values == np.floor(values))
        if is_whole and len(np.unique(values)) == len(values):
            found.append(j)
    return tuple(found)


def _changes_of_draws(
    audit: Audit,
    purified: Callable[..., Decomposition],
    row_weights: Array | None,
    at_once: int,
    report: Callable[[int], None],
) -> dict[Subset, Array]:
    """Return the root mean square change of each effect, cell by cell, over draws of the rows."""
    d, n_draws = audit.decomposition, audit.n_bootstrap
    rng = np.random.default_rng(audit.seed)
    weights = np.ones(d.origin.n_rows or 0) if row_weights is None else row_weights
    draws = (_drawn_again(rng, weights) for _ in range(n_draws))

    def squared(drawn: Array) -> dict[Subset, Array]:
        return _squared_changes(d, purified(sample_weight=drawn))

    sums: dict[Subset, Array] = {}
    for done, squares in enumerate(iterate_threads(squared, draws, at_once), start=1):
        report(len(audit.comparisons) + len(audit.measures_left_out) + done)
        for subset, square in squares.items():
            sums[subset] = sums.get(subset, 0.0) + square
    return {subset: np.sqrt(total / n_draws) for subset, total in sums.items()}


def _draws_at_once(d: Decomposition, memory_budget: int) -> int:
    """Return how many draws of the rows are purified at the same time."""
    n_bytes = sum(part.values.nbytes for part in d.tensor_components().values())
    fit = _DRAWS_AT_ONCE * _TABLES_OF_A_DRAW * n_bytes <= memory_budget
    return _DRAWS_AT_ONCE if fit else 1


def _drawn_again(rng: np.random.Generator, weights: Array) -> Array:
    """Return the weights of a resample of the rows that have weight."""
    counted = np.flatnonzero(weights > 0)
    times = rng.multinomial(len(counted), np.full(len(counted), 1.0 / len(counted)))
    drawn = np.zeros(len(weights))
    drawn[counted] = times * weights[counted]
    return drawn


def _squared_changes(d: Decomposition, sample: Decomposition) -> dict[Subset, Array]:
    """Return the squared change of each cell, each effect centred under the measure of all rows."""
    others = sample.tensor_components()
    located: dict[tuple[int, int], Indices] = {}
    squares: dict[Subset, Array] = {}
    for subset, component in d.tensor_components().items():
        values = None
        if subset in others:
            values = _on_cells_of(component, others[subset], located)
        if values is not None:
            change = values - component.values
            change = change - mean_over_cells(component.mass, change)
            squares[subset] = change**2
    return squares


def _on_cells_of(
    component: TensorComponent, other: TensorComponent, located: dict[tuple[int, int], Indices]
) -> Array | None:
    """Return a table on the cells of another one; None where that has cells that it lacks.

    The cells of a forest are chosen by the rows, so that each draw has its own. `located` keeps the
    cells of one axis along another: tables share their axes.
    """
    pairs = list(zip(component.features, component.axes, other.axes, strict=True))
    differing = [(own, it) for _, own, it in pairs if not same_axis(own, it)]
    if not differing:
        return other.values
    if any(own.is_categorical or own.has_missing > it.has_missing for own, it in differing):
        return None
    for feature, own, it in pairs:
        if (id(own), id(it)) not in located:
            spec = other.inputs.features[feature]
            middles = Columns((spec,), (cell_values(own, spec),), own.n_cells)
            located[id(own), id(it)] = locate_cells(middles, 0, it)
    return np.asarray(other.values[np.ix_(*(located[id(own), id(it)] for _, own, it in pairs))])
