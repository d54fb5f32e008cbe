"""Purify a tree ensemble or an EBM: from a model and rows to a decomposition."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_choice
from treepurify.budget import DEFAULT_BUDGET, check_memory_budget
from treepurify.call import called
from treepurify.decomposition import Decomposition
from treepurify.engines.common.finish import finish
from treepurify.engines.common.functions import ParsedFunction
from treepurify.engines.common.inputs import (
    Interactions,
    check_order,
    check_order_fits,
    named_subsets,
    read_model_rows,
    read_rows,
    row_weights,
)
from treepurify.engines.common.problem import KeptTerms, Resolution
from treepurify.engines.tree.asked import Asked, purify_model
from treepurify.engines.tree.common_grid import purify_refits
from treepurify.engines.tree.found_measure import find_measure
from treepurify.engines.tree.independent_leaves import IndependentLeaves, independent_leaves
from treepurify.engines.tree.refits import ReadRefits, read_refits
from treepurify.engines.tree.routes import Method, check_method
from treepurify.engines.tree.second_moments import MOST_PAIRS, leaf_indices
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import MissingCells, Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model, WhichColumns, read_transformed, refuse_derived
from treepurify.models.parsed import ModelCheck
from treepurify.models.refits import GivenRefits
from treepurify.progress import ProgressReport, progress_report
from treepurify.rows.reduction import RowStream, rows_in_memory
from treepurify.rows.sources import TableSource, check_repeats, open_rows
from treepurify.weights import Independent, Uniform, Weighting, as_weighting

__all__ = ["purify"]

_PAIR_PASSES = "a pass over the rows to find the strongest pairs, and further passes"


def purify(  # noqa: PLR0913 - what all engines take, and how models are read
    model: Any,
    X: Any = None,
    *,
    weights: str | Weighting = "auto",
    order: int | None = 2,
    interactions: Interactions | int | None = None,
    sample_weight: npt.ArrayLike | str | None = None,
    feature_names: Sequence[str] | None = None,
    refits: GivenRefits | None = None,
    method: Method = "auto",
    resolution: Resolution = "auto",
    missing_cells: MissingCells = "auto",
    columns: WhichColumns = "auto",
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> Decomposition:
    """Split a trained model into main effects and interactions that add up to it.

    Parts of an interaction can be moved to main effects and back without changing any prediction.
    Purification moves everything that fewer features can express to the effects of these features.
    This determines the effects: given any smaller subset of its features, each effect has mean
    zero under the chosen distribution (Lengerich et al. 2020, equation 5).

    Parameters
    ----------
    model : object, str or Path
        A trained model, a model file, or what `parse_model` returned. If two or more of these are
        given in a list, the mean of the models is decomposed; see `refits`.
    X : array_like, table of shape (n_rows, n_features), or rows in batches, optional
        Rows that represent the distribution; usually the training data. Without rows, an EBM
        is purified under the weights of its bins; other models need ``weights="uniform"``. Rows
        in batches are Parquet files (a path, a list, a pattern or a folder), a `pyarrow.dataset`,
        a polars LazyFrame, a DuckDB relation, an Arrow stream, or an iterator of tables or a
        callable that returns one. Only the columns that the model uses are read, and the rows are
        never all in memory at once. Distributions that are estimated from the values,
        such as ``"smoothed"``, are estimated on a sample of at most 131 072 rows.
    weights : str or Weighting
        The distribution of the features. ``"empirical"``: the rows themselves. ``"auto"``: the
        rows, smoothed by the amount with the best leave-one-out likelihood (`Auto`).
        ``"smoothed"``: the same however many rows there are, or by an amount of your choice
        (`Smoothed`). ``"independent"``: each feature distributed as in the rows, independently of
        the others. ``"uniform"``: every cell (one interval or category of each feature) has the
        same mass. ``"laplace"``: half empirical, half uniform. ``diagnostics["measure"]`` says
        which distribution was used and why.
    order : int or None
        Largest number of features of an effect. The effects are the purified form of the sum of
        functions of at most `order` features that is nearest to the model in mean square under the
        distribution. The definition is ours: Hooker 2007 and Lengerich et al. 2020 define the
        complete decomposition only, which None returns. Both agree if features are independent or
        trees test at most `order` features; otherwise effects depend on `order`. The model minus
        its effects is `Decomposition.remainder`, so everything together is always the model.
    interactions : sequence of tuple of (str or int), or int, optional
        The interactions that are reported separately, such as ``[("age", "hours")]``; all up to
        `order` by default. This does not change their values: the others are in the remainder,
        which may then be correlated with the effects that are reported. A number selects the pairs
        with the largest total interaction index (`interaction_indices`), under the chosen
        distribution if its features are independent, and under ``"independent"`` otherwise. For
        models with very many leaves the index is estimated; ``diagnostics["strongest_pairs"]``
        says so.
    sample_weight : array_like of shape (n_rows,) or str, optional
        Weight of each row, finite and not negative. For rows in batches, the name of the column
        of weights.
    feature_names : sequence of str, optional
        Names of the features, in the order of the model.
    refits : list or tuple of object, or "bags", optional
        Other trainings of `model`, such as those that `refit` returns. ``"bags"``: the outer bags
        of an EBM, from which interpret computes its error bars. `model` is decomposed, and
        `Decomposition.spread` has the effects of each training on one common grid. This grid has
        all split points of all models if it fits the memory budget, and fewer otherwise:
        ``diagnostics["refits"]`` says which. If features depend on each other, effects on it can
        differ from those without `refits`.
    method : str, options.TreeProjection or options.CoarseProjection
        How effects are computed, not what they are. ``"exact"``: solves equations on the grid of
        all split points; for fewer features than trees test, all effects are fitted at once.
        ``"closed-form"``: for trees of any depth and independent features. ``"projection"``: for
        trees of any depth and dependent features; each tree is projected on functions of up to
        `order` features over the split points of the tree, what the sum leaves is fitted on few
        intervals if this helps on left-out rows, and the result is purified exactly. ``"coarse"``:
        for trees with any number of leaves, under the rows; the sum of all trees is projected on
        functions that are constant on a few intervals of each feature, with fewer intervals in
        pairs. ``"mass-moving"``: the paper's algorithm for the complete decomposition, with its
        history; effects of low order are those of the complete decomposition, too.

        ``"auto"``, the default, takes the first of these that applies: exact if no path tests more
        than two features; the closed form if features are independent; exact if `order` is None;
        all effects at once (``"joint"``) if there are four rows for each value that is fitted;
        coarse intervals for effects of up to two features, under the rows, if a tree has more than
        256 leaves; the projection. ``diagnostics["method"]`` says which one was used.
    resolution : {"auto", "union", "term"}
        For EBMs, whose terms can have different bins. ``"auto"`` is ``"term"``: each term
        keeps its bins, and an interaction is pure with respect to functions on these bins. This
        is what the author of the model intended, and main effects keep the shape that the EBM
        shows. An interaction can then be slightly correlated with main effects on finer bins; see
        ``certificate.finer_cosine``. ``"union"``: all effects use all split points of a feature, as
        for trees, and are pure there; curves are then as ragged as the distribution of the rows.
    missing_cells : {"auto", "always"}
        ``"auto"``: tables have cells for missing values and unseen categories only if the
        model or the rows have such values. ``"always"``: all tables have them, so later rows may
        contain such values.
    columns : {"auto", "raw", "transformed"}
        For pipelines: the columns whose effects are computed. ``"raw"``: the columns that the
        pipeline takes; refused if its steps mix columns or are not known. ``"transformed"``: the
        columns that its last step takes. ``"auto"``: raw columns, but those of the last step
        where the steps mix several raw ones or are not known. `X` always has the columns that the
        pipeline takes; with ``"transformed"`` the result takes ``pipeline[:-1].transform(X)``.
    memory_budget : int
        Bytes that tables may take; more is refused before it is allocated.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    Decomposition
        On the margin scale (log-odds for a classifier, before any inverse link).

    Raises
    ------
    UnsupportedModelError
        If the model cannot be decomposed exactly.
    InvalidInputError
        If the rows, the weights or an option cannot be used.
    MemoryBudgetError
        If the tables would take too much memory.
    ModelMismatchError
        If the parsed model does not reproduce the library's raw prediction.

    See Also
    --------
    audit : Findings about a model, ranked by importance.
    parse_model : The parsed form of a model that all engines read.
    hooker_anova : Any function, fitted by tables on points.
    partial_dependence_anova : Partial dependence of any order, for any function.
    purify_tensors : Purify tables of effects that come from elsewhere.
    treepurify.plots.summary : Figures of the leading effects.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.ensemble import GradientBoostingRegressor
    >>> X = np.random.default_rng(0).uniform(size=(500, 3))
    >>> model = GradientBoostingRegressor(max_depth=2).fit(X, X[:, 0] * X[:, 1])
    >>> d = tp.purify(model, X)
    >>> bool(np.allclose(d.predict(X), model.predict(X)))
    True
    """
    call = called(purify, locals())
    check_order(order)
    check_method(method)
    _check_choices(resolution, missing_cells, columns)
    check_memory_budget(memory_budget)
    report = progress_report(progress)
    weighting = as_weighting(weights)
    if columns == "transformed":
        model, X = read_transformed(model, X)
    given = _read_given(
        model, refits, X, weighting, feature_names, sample_weight, memory_budget, progress=progress
    )
    if columns == "raw" and any(spec.derivation for spec in given.model.features):
        refuse_derived(model, X)
    if isinstance(interactions, int | np.integer) and given.rows is not None:
        check_repeats(given.rows.source, _PAIR_PASSES)
    parsed = given.model
    check_order_fits(order, parsed.n_features)
    measure = find_measure(given.rows, parsed.used_features, weighting, memory_budget, report)
    weighting, rows = measure.weighting, measure.rows
    subsets, chosen_pairs = _kept_interactions(
        parsed,
        interactions,
        order,
        lambda ensemble, product: independent_leaves(ensemble, rows, product, report),
        weighting if weighting.is_product else Independent() if rows is not None else Uniform(),
        report,
        memory_budget,
    )
    kept_terms = KeptTerms(order, subsets)
    trusts_rows = as_weighting(weights).plenty is None
    asked = Asked(
        rows,
        weighting,
        order,
        method,
        resolution,
        missing_cells,
        memory_budget,
        report,
        measure.given,
        trusts_rows,
    )
    if given.refits is None:
        planned, result = purify_model(parsed, asked, kept_terms)
    else:
        planned, result = purify_refits(given.refits, asked, kept_terms)
    facts = {**measure.facts, **chosen_pairs}
    d = finish(
        ParsedFunction(parsed),
        replace(
            result,
            diagnostics=facts | result.diagnostics,
            n_rows=measure.n_rows if result.n_rows is None else result.n_rows,
        ),
        engine="tree",
        measure=planned.layout.measure,
        call=call,
        kept_terms=kept_terms,
        is_product=weighting.is_product,
        rows=planned.layout.measure_rows(weighting, planned.rows),
        check=given.check,
        note=measure.note,
        given=measure.given,
    )
    if given.refits is None or given.refits.is_mean:
        return d
    return replace(d, origin=replace(d.origin, model=given.refits.parsed[-1].facts()))


@dataclass(frozen=True, eq=False)
class _Given:
    """What was given to `purify`, read.

    Parameters
    ----------
    model : TreeEnsemble or AdditiveTables
        The model that is decomposed.
    rows : RowStream, optional
        The rows.
    check : ModelCheck, optional
        What came of the comparison with its library on some of them.
    refits : ReadRefits, optional
        Several trainings of one model, where they were given.
    """

    model: Model
    rows: RowStream | None
    check: ModelCheck | None
    refits: ReadRefits | None = None


def _read_given(
    model: Any,
    given_refits: Any,
    X: Any,
    weighting: Weighting,
    feature_names: Sequence[str] | None,
    sample_weight: Any,
    memory_budget: int,
    *,
    progress: bool,
) -> _Given:
    """Read one model or several, and the rows."""
    refits = None
    if isinstance(model, list | tuple) or given_refits is not None:
        if not isinstance(open_rows(X), TableSource):
            raise InvalidInputError(
                "several models can only be purified with rows in memory: pass a table, or "
                "purify them one by one with these rows"
            )
        refits = read_refits(model, given_refits, X, feature_names, memory_budget)
    if refits is not None:
        columns = read_rows(refits.centre, X, weighting)
        weights = row_weights(columns, weighting, sample_weight)
        rows = None if columns is None else rows_in_memory(columns, weights)
        return _Given(refits.centre, rows, refits.check, refits)
    parsed, rows = read_model_rows(
        model, X, weighting, feature_names, sample_weight, progress=progress
    )
    return _Given(parsed, rows, parsed.check)


def _check_choices(
    resolution: Resolution, missing_cells: MissingCells, columns: WhichColumns
) -> None:
    check_choice("resolution", resolution, get_args(Resolution))
    check_choice("missing_cells", missing_cells, get_args(MissingCells))
    check_choice("columns", columns, get_args(WhichColumns))


def _kept_interactions(
    parsed: Model,
    interactions: Interactions | int | None,
    order: int | None,
    leaves: Callable[[TreeEnsemble, Weighting], IndependentLeaves],
    weighting: Weighting,
    report: ProgressReport,
    memory_budget: int = DEFAULT_BUDGET,
) -> tuple[set[Subset] | None, dict[str, object]]:
    """Return the interactions to keep apart, None for all, and how they were chosen.

    A number requests that many pairs, those of the largest total interaction index relative
    to the variance of an output.

    Parameters
    ----------
    parsed : TreeEnsemble or AdditiveTables
        The model.
    interactions : sequence, int or None
        See `purify`.
    order : int, optional
        Largest number of features of an effect.
    leaves : callable
        Returns the leaves of an ensemble under a measure of independent features.
    weighting : Weighting
        That measure.
    report : callable
        Progress.
    memory_budget : int
        Bytes that tables may take.

    Raises
    ------
    InvalidInputError
        If one is not known or above `order`, or the number is not positive or the model an EBM.
    """
    if not isinstance(interactions, int | np.integer):
        return named_subsets(parsed.features, interactions, order), {}
    if isinstance(interactions, bool) or not 1 <= interactions <= np.iinfo(np.int64).max:
        raise InvalidInputError(
            "interactions must be a positive number of pairs, or a list of interactions, got "
            f"{interactions!r}"
        )
    if not isinstance(parsed, TreeEnsemble):
        raise InvalidInputError(
            "interactions can be a number for tree ensembles only; for an EBM, name the pairs to "
            "keep"
        )
    indices = leaf_indices(
        leaves(parsed, weighting),
        weighting.describe(),
        most_pairs=MOST_PAIRS,
        seed=0,
        memory_budget=memory_budget,
        report=report,
    )
    variance = np.where(indices.variance > 0, indices.variance, 1.0)
    share = (indices.pair_total / variance[:, None, None]).max(axis=0)
    first, second = np.nonzero(np.triu(share, 1) > 0)
    strongest = np.argsort(-share[first, second], kind="stable")[: int(interactions)]
    pairs = [(int(first[k]), int(second[k])) for k in strongest]
    facts = {
        "measure": indices.measure,
        "method": indices.method,
        "sampled_rows": indices.sampled_rows,
        "shares": {f"{i} & {j}": float(share[i, j]) for i, j in pairs},
    }
    return set(pairs), {"strongest_pairs": facts}
