"""Purify a tree ensemble or an EBM: from a model and rows to a decomposition."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_choice
from treepurify.budget import DEFAULT_BUDGET, check_memory_budget
from treepurify.decomposition import Decomposition
from treepurify.engines.common.finish import finish
from treepurify.engines.common.inputs import (
    Interactions,
    check_order,
    check_order_fits,
    named_subsets,
    read_model_rows,
)
from treepurify.engines.common.problem import KeptTerms, Problem, Resolution
from treepurify.engines.tree.independent_leaves import independent_leaves
from treepurify.engines.tree.plan import solve, weigh
from treepurify.engines.tree.refits import read_refits, solve_refits
from treepurify.engines.tree.routes import Method, check_method
from treepurify.engines.tree.second_moments import MOST_PAIRS, leaf_indices
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import MissingCells, Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import read_transformed, refuse_derived
from treepurify.models.pipelines.pipeline import WhichColumns
from treepurify.models.refits import GivenRefits
from treepurify.origin import called
from treepurify.progress import progress_report
from treepurify.rows.sources import check_repeats
from treepurify.weights import Independent, Uniform, Weighting, as_weighting

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
        `Decomposition.spread` has the effects of each training in the cells of these effects. Each
        training is purified by itself, so the effects of `model` are those without `refits`. Of
        very many large tables, only those of the largest effects are kept:
        ``diagnostics["refits"]`` names the others.
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

        ``"auto"``, the default, takes the first of these that applies: all effects at once
        (``"joint"``) if features are dependent, paths test more than `order` of them, and there are
        four rows for each value that is fitted; coarse intervals for effects of up to two features,
        under the rows, if a tree has more than 256 leaves; exact if no path tests more than two
        features, or features are dependent and `order` is None or it takes little work; the closed
        form if features are independent; the projection. ``diagnostics["method"]`` says which one
        was used.
    resolution : {"auto", "union", "term"}
        For EBMs, whose terms can have different bins. ``"auto"`` is ``"term"``: each term
        keeps its bins, and an interaction is pure with respect to functions on these bins. This
        is what the author of the model intended, and main effects keep the shape that the EBM
        shows. An interaction can then be slightly correlated with main effects on finer bins; see
        ``certificate.cosine``. ``"union"``: all effects use all split points of a feature, as
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
    check_choice("resolution", resolution, get_args(Resolution))
    check_choice("missing_cells", missing_cells, get_args(MissingCells))
    check_choice("columns", columns, get_args(WhichColumns))
    check_memory_budget(memory_budget)
    weighting = as_weighting(weights)
    if columns == "transformed":
        model, X = read_transformed(model, X)
    trainings = None
    if refits is not None or isinstance(model, list | tuple):
        trainings = read_refits(model, refits, X, feature_names, memory_budget)
    one = model if trainings is None else trainings.centre
    parsed, rows = read_model_rows(
        one, X, weighting, feature_names, sample_weight, progress=progress
    )
    read = parsed if trainings is None else trainings
    if columns == "raw" and any(spec.derivation for spec in parsed.features):
        refuse_derived(model, X)
    if isinstance(interactions, int | np.integer) and rows is not None:
        check_repeats(rows.source, _PAIR_PASSES)
    check_order_fits(order, parsed.n_features)
    problem = Problem(
        parsed,
        rows,
        weighting,
        KeptTerms(order),
        memory_budget,
        progress_report(progress),
        method,
        resolution,
        missing_cells,
        trusts_rows=weighting.plenty is None,
    )
    problem = _keep(weigh(problem, read.used_features), interactions)
    solved, result = solve(problem) if trainings is None else solve_refits(problem, trainings)
    return finish(
        problem.function,
        result,
        engine="tree",
        measure=solved.layout.measure,
        call=call,
        kept_terms=solved.kept_terms,
        is_product=solved.weighting.is_product,
        rows=solved.measure_rows,
        check=read.check,
        note=solved.note,
        given=solved.copied,
    )


def _keep(problem: Problem, interactions: Interactions | int | None) -> Problem:
    """Return the problem with the interactions that are reported separately.

    Raises
    ------
    InvalidInputError
        If one is not known or above `order`, or the number is not positive or the model an EBM.
    """
    order = problem.kept_terms.order
    if isinstance(interactions, int | np.integer):
        pairs, facts = _strongest_pairs(problem, interactions)
        facts = {**problem.facts, "strongest_pairs": facts}
        return replace(problem, kept_terms=KeptTerms(order, pairs), facts=facts)
    named = named_subsets(problem.model.features, interactions, order)
    return replace(problem, kept_terms=KeptTerms(order, named))


def _strongest_pairs(problem: Problem, n_pairs: int) -> tuple[list[Subset], dict[str, Any]]:
    """Return the pairs of the largest total interaction index, relative to the variance."""
    if isinstance(n_pairs, bool) or not 1 <= n_pairs <= np.iinfo(np.int64).max:
        raise InvalidInputError(
            "interactions must be a positive number of pairs, or a list of interactions, got "
            f"{n_pairs!r}"
        )
    if not isinstance(problem.model, TreeEnsemble):
        raise InvalidInputError(
            "interactions can be a number for tree ensembles only; for an EBM, name the pairs to "
            "keep"
        )
    weighting, rows, report = problem.weighting, problem.stream, problem.report
    if not weighting.is_product:
        weighting = Uniform() if rows is None else Independent()
    indices = leaf_indices(
        independent_leaves(problem.model, rows, weighting, report),
        weighting.describe(),
        most_pairs=MOST_PAIRS,
        seed=0,
        memory_budget=problem.memory_budget,
        report=report,
    )
    variance = np.where(indices.variance > 0, indices.variance, 1.0)
    share = (indices.pair_total / variance[:, None, None]).max(axis=0)
    first, second = np.nonzero(np.triu(share, 1) > 0)
    strongest = np.argsort(-share[first, second], kind="stable")[: int(n_pairs)]
    pairs: list[Subset] = [(int(first[k]), int(second[k])) for k in strongest]
    return pairs, {
        "measure": indices.measure,
        "method": indices.method,
        "sampled_rows": indices.sampled_rows,
        "shares": {f"{i} & {j}": float(share[i, j]) for i, j in pairs},
    }
