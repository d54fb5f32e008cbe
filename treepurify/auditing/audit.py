"""Audit a trained model: purify it under several measures and rank what stands out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import brief, check_number, check_whole, read_names
from treepurify.auditing.ranked_findings import Audit, AuditEvidence, audit_decompositions
from treepurify.budget import DEFAULT_BUDGET, check_memory_budget
from treepurify.comparing.shared_cells import same_axis
from treepurify.components import TensorComponent, locate_cells
from treepurify.decomposition import Decomposition
from treepurify.engines.common.functions import features_read
from treepurify.engines.common.inputs import with_note
from treepurify.engines.tree.purify import purify
from treepurify.engines.tree.refits import read_refits
from treepurify.errors import InvalidInputError, MemoryBudgetError
from treepurify.evidence.effect_worth_table import EffectWorth
from treepurify.evidence.held_out import check_held_out
from treepurify.evidence.worth import effect_worth
from treepurify.grids.drawing import cell_values
from treepurify.grids.grid import Subset, mean_over_cells
from treepurify.models.parse import Model, read_model
from treepurify.models.refits import GivenRefits
from treepurify.progress import ProgressReport, progress_report
from treepurify.rows.columns import Columns
from treepurify.rows.given_rows import GivenRows, given_rows
from treepurify.rows.row_weights import read_weights
from treepurify.rows.tables import check_table
from treepurify.threads import iterate_threads, one_blas_thread
from treepurify.typing import Array, Indices
from treepurify.weights import Weighting, as_weighting

__all__ = ["audit"]

_OTHER_MEASURES = ("laplace", "uniform", "independent")
# Draws of the rows that are purified side by side if both fit the memory budget, each with about
# three times the tables of its effects.
_DRAWS_AT_ONCE, _TABLES_OF_A_DRAW = 2, 3


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
    n_bootstrap: int = 10,
    seed: int = 0,
    threshold: float = 0.01,
    held_out: tuple[Any, ...] | None = None,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> Audit:
    """Audit a model: purify it under several distributions and rank the findings.

    The audit checks for main effects that are partly hidden in interactions, contradictions between
    apparent and purified effects, and interactions that nearly vanish when purified. It also checks
    for effects that depend on the distribution, are large in regions without data, are not
    determined by the data, or change when the rows are resampled or, if several trainings are
    passed, from training to training. All results refer to the distribution in `weights`.

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
    _check_options(n_bootstrap, seed, threshold, memory_budget)
    report = progress_report(progress)
    given = _read_rows(model, X, feature_names, sample_weight, seed, memory_budget, report)
    X, sample_weight = given.table, given.weights
    read = read_refits(model, refits, X, feature_names, memory_budget)
    parsed = read_model(model, X, feature_names) if read is None else read.centre
    _check_held_out(parsed, held_out)
    weighting = as_weighting(weights)
    wanted = _OTHER_MEASURES if measures is None else tuple(read_names("measures", measures))
    for measure in wanted:
        as_weighting(measure)
    steps = 1 + len(wanted) + n_bootstrap
    purified = partial(
        purify,
        order=order,
        feature_names=feature_names,
        memory_budget=memory_budget,
        progress=False,
    )
    weighed = partial(purified, X=X, weights=weighting, sample_weight=sample_weight)
    # All are kept to the end: those that nobody named may take half of the memory.
    of_others = partial(purified, memory_budget=memory_budget // (2 if measures is None else 1))

    # Threads of BLAS wait for each other busily, and longest where a core has other work.
    with one_blas_thread():
        report("auditing", 0, steps)
        # A model alone was compared with its library on these rows already.
        d = weighed(parsed if read is None else model, refits=refits)
        trainings = d.spread
        d = with_note(d, given)
        others: dict[str, Decomposition] = {}
        left_out: dict[str, str] = {}
        for step, measure in enumerate(wanted, start=1):
            counted = sample_weight if as_weighting(measure).needs_rows else None
            report("auditing", step, steps)
            try:
                others[measure] = of_others(parsed, X, weights=measure, sample_weight=counted)
            except (InvalidInputError, MemoryBudgetError) as error:
                # Rows and order were accepted before: this measure cannot reach the order, or takes
                # more memory, which is an error only if the caller chose it.
                if measures is not None:
                    raise
                left_out[measure] = str(error)
        draws = _draws(d, sample_weight, seed)

        def squared(drawn: Array) -> dict[Subset, Array]:
            sample = purified(parsed, X, weights=weighting, sample_weight=drawn)
            return _squared_changes(d, sample)

        at_once = _draws_at_once(d, memory_budget)
        of_draws = iterate_threads(squared, islice(draws, n_bootstrap), at_once)
        spread = _root_mean(of_draws, lambda n: report("auditing", steps - n_bootstrap + n, steps))
        worth = None if held_out is None else _worth(d, held_out, seed, memory_budget)
        return audit_decompositions(
            AuditEvidence(
                d,
                others,
                spread,
                n_bootstrap,
                seed,
                worth,
                trainings,
                X,
                sample_weight,
                left_out,
                measures_chosen=measures is not None,
            ),
            threshold,
        )


def _check_options(n_bootstrap: int, seed: int, threshold: float, memory_budget: int) -> None:
    check_whole("n_bootstrap", n_bootstrap, 0)
    check_whole("seed", seed, 0)
    check_number("threshold", threshold, least=0, most=1, open_ends=True)
    check_memory_budget(memory_budget)


def _read_rows(
    model: Any,
    X: Any,
    feature_names: Sequence[str] | None,
    sample_weight: Any,
    seed: int,
    memory_budget: int,
    report: ProgressReport,
) -> GivenRows:
    """Return the rows as a table, with their weights as numbers."""
    if X is None:
        raise InvalidInputError("an audit needs the rows that represent the distribution: pass X")
    one = model[0] if isinstance(model, list | tuple) and model else model
    given = given_rows(
        X, features_read(one, X, feature_names), sample_weight, (), memory_budget, report, seed=seed
    )
    check_table(given.table)
    weights = None if given.weights is None else read_weights(given.weights)
    return given._replace(weights=weights)


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


def _worth(d: Decomposition, held_out: Any, seed: int, memory_budget: int) -> EffectWorth:
    return effect_worth(
        d,
        *held_out[:2],
        absorb=False,
        shapley=False,
        sample_weight=held_out[2] if len(held_out) == 3 else None,
        seed=seed,
        memory_budget=memory_budget,
        progress=False,
    )


def _draws(d: Decomposition, sample_weight: Any, seed: int) -> Iterator[Array]:
    """Yield the weights of the rows drawn again, time after time."""
    rng = np.random.default_rng(seed)
    weights = np.ones(d.origin.n_rows or 0) if sample_weight is None else sample_weight
    while True:
        yield _drawn_again(rng, weights)


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


def _root_mean(
    of_draws: Iterable[dict[Subset, Array]], report: Callable[[int], None]
) -> dict[Subset, Array]:
    """Return the root of the mean over draws of the squared changes of each effect."""
    sums: dict[Subset, Array] = {}
    done = 0
    for done, squares in enumerate(of_draws, start=1):
        report(done)
        for subset, square in squares.items():
            sums[subset] = sums.get(subset, 0.0) + square
    return {subset: np.sqrt(total / done) for subset, total in sums.items()}


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
