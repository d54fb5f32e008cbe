"""The interventional functional ANOVA: the Moebius inverse of partial dependence."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from treepurify.arguments import brief, check_choice, check_whole
from treepurify.budget import DEFAULT_BUDGET, check_memory_budget
from treepurify.certificate import Certificate
from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.engines.common.finish import Result, finish
from treepurify.engines.common.functions import (
    ParsedFunction,
    parsed_or_none,
    rows_for_model,
)
from treepurify.engines.common.inputs import (
    Interactions,
    check_order,
    check_order_fits,
    named_subsets,
    with_note,
)
from treepurify.engines.common.problem import KeptTerms
from treepurify.engines.partial_dependence.background import (
    Background,
    cells_by_order,
    certificate_note,
    describe_background,
    read_background,
)
from treepurify.engines.partial_dependence.pattern_component import PatternTensor
from treepurify.engines.partial_dependence.sampled import sampled_anova
from treepurify.engines.partial_dependence.tables import table_terms
from treepurify.engines.partial_dependence.trees import TABLE_ORDER, tree_terms
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import MissingCells
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.moments import MeasureRows
from treepurify.origin import Call, called
from treepurify.progress import progress_report
from treepurify.purification.pair import largest_entry
from treepurify.purification.purity import purity_on_rows
from treepurify.rows.sources import TableSource, open_rows
from treepurify.rows.tables import check_table

_BACKGROUND_ROWS = 200
_COVER_NOTE = (
    "Path-dependent effects average over the training rows in the nodes of each tree. They add up "
    "to the model, but are not orthogonal under any distribution of the features, and depend on "
    "how the trees were grown."
)


def partial_dependence_anova(
    model: Any,
    X: Any,
    *,
    order: int | None = 2,
    background: Any = None,
    sample_weight: npt.ArrayLike | str | None = None,
    interactions: Interactions | None = None,
    feature_names: Sequence[str] | None = None,
    missing_cells: MissingCells = "auto",
    background_size: int = _BACKGROUND_ROWS,
    seed: int = 0,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> Decomposition:
    r"""Decompose a model by partial dependence, whose Shapley values are the interventional ones.

    Partial dependence ``PD_T(x_T)`` is the mean of the model over the background rows after
    the features T were set to ``x_T``. Its Moebius inverse
    ``f_S = sum over T in S of (-1)^|S - T| PD_T`` adds up to the model, and splitting each
    term evenly among its features gives the interventional SHAP values (Lundberg et al.
    2020). For independent features it is the functional ANOVA. For dependent features the terms
    are not orthogonal, and they use points that the data may not contain:
    ``diagnostics["extrapolation"]`` says how many.

    Tree ensembles and EBMs are decomposed exactly, over the whole background. Any other
    model or function is called on combinations of rows with a sample of the background.

    ``background="cover"`` gives the path-dependent values that XGBoost, LightGBM, CatBoost
    and shap report by default: if a split tests a feature that is not given, a row goes both ways,
    in proportion to the training rows that did. These terms depend on how the trees were grown,
    and not only on what the model predicts: two models with the same predictions can have
    different terms, and no joint distribution gives them. They add up to the model, which is all
    that the certificate claims; their variances are taken over the rows of `X`.

    Parameters
    ----------
    model : object, str, Path or callable
        A model that `parse_model` knows (on its margin scale), an object with ``predict``, or
        a function X -> (n_rows,) or (n_rows, n_outputs).
    X : array_like, table of shape (n_rows, n_features), or rows in batches
        The rows; they are also the background if none is given. For rows in batches, as in
        `purify`, a weighted sample of at most 100 000 is used; ``diagnostics["stream"]`` says so.
    order : int or None
        Largest number of features of a term; None returns terms of all sizes. The sum of larger
        terms is `Decomposition.remainder`.
    background : array_like, table or "cover", optional
        The rows that partial dependence averages over; or ``"cover"``, the weight of the training
        rows that went each way at each split, as the trees store it.
    sample_weight : array_like of shape (n_background_rows,) or str, optional
        Weight of each background row, finite and not negative. Rows of weight zero change
        nothing. For rows in batches, the name of the column of weights.
    interactions : sequence of tuple of (str or int), optional
        The interactions that are reported separately; all up to `order` by default.
    feature_names : sequence of str, optional
        Names of the features, in the order of the model.
    missing_cells : {"auto", "always"}
        ``"auto"``: tables have cells for missing values and unseen categories only if the
        model or the rows have such values. ``"always"``: all tables have them, so later rows may
        contain such values.
    background_size : int
        Largest number of background rows that a function is called with, drawn at random in
        proportion to their weights. ``diagnostics["standard_error"]`` has the standard errors of
        the terms.
    seed : int
        Seed of that draw, and of a sample of rows.
    memory_budget : int
        Bytes that tables may take; more is refused before it is allocated.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    Decomposition
        On the margin scale for parsed models, else on the scale of the function. Terms of
        trees with one or two features are tables on the grid of all split points; those of two are
        built when they are first read. Terms of more features, and of two if the table would
        exceed `memory_budget`, are evaluated from the leaves.

    Raises
    ------
    InvalidInputError
        If the rows, the function's values or an option cannot be used.
    MemoryBudgetError
        If the tables would take too much memory.

    See Also
    --------
    purify : Main effects and interactions of a tree model.
    ale_anova : Accumulated local effects of any function.
    h_statistics : Interaction strength from partial dependence.
    interventional_shapley_values : Shapley values against background rows.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [1, 1]])
    >>> d = tp.partial_dependence_anova(DecisionTreeRegressor().fit(X, X.all(axis=1)), X)
    >>> d["x0"].values.ravel()
    array([-0.4,  0.2])
    >>> d.shapley_values(X).values[:, :, 0]
    array([[-0.2, -0.2], [-0.5,  0.1], [ 0.1, -0.5], [ 0.3,  0.3], [ 0.3,  0.3]])
    """
    call = called(partial_dependence_anova, locals())
    check_order(order)
    check_whole("background_size", background_size, 2)
    check_whole("seed", seed, 0)
    check_choice("missing_cells", missing_cells, get_args(MissingCells))
    check_memory_budget(memory_budget)
    by_cover = isinstance(background, str)
    if by_cover:
        _check_cover(background, sample_weight)
    elif background is not None:
        _check_background(background)
    report = progress_report(progress)
    if not isinstance(open_rows(X), TableSource):
        _check_no_background(background)
    sample = rows_for_model(
        model, X, feature_names, sample_weight, memory_budget, report, seed=seed
    )
    X, sample_weight = sample.table, sample.weights
    parsed = parsed_or_none(model, feature_names, X)
    _check_trees(parsed, by_cover=by_cover)
    if parsed is None:
        d = sampled_anova(
            model,
            X,
            background,
            order=order,
            interactions=interactions,
            feature_names=feature_names,
            sample_weight=sample_weight,
            background_size=background_size,
            seed=seed,
            memory_budget=memory_budget,
            report=report,
            call=call,
        )
        return with_note(d, sample)
    check_order_fits(order, parsed.n_features)
    kept_terms = KeptTerms(order, named_subsets(parsed.features, interactions, order))
    given = None if by_cover else background
    averaged = read_background(parsed, X, given, sample_weight, missing_cells)
    if isinstance(parsed, TreeEnsemble):
        result = tree_terms(parsed, averaged, kept_terms, memory_budget, report, by_cover=by_cover)
    else:
        result = table_terms(parsed, cells_by_order(parsed, averaged), memory_budget, report)
    d = _finish(parsed, kept_terms, averaged, result, call, by_cover=by_cover)
    return with_note(d, sample)


def _finish(
    parsed: Model,
    kept_terms: KeptTerms,
    averaged: Background,
    result: Result,
    call: Call,
    *,
    by_cover: bool,
) -> Decomposition:
    """Return the terms of a parsed model with what a reader must know of the background."""
    n_rows = averaged.rows.n_rows
    if by_cover:
        about = _about_cover(n_rows)
    else:
        used = tuple(sorted(subset[0] for subset in result.components if len(subset) == 1))
        about = _about_rows(n_rows, averaged.extrapolation(used))
    facts = {"exact": True, **about.facts, **result.diagnostics}
    known = replace(result.certificate or Certificate(), note=about.note)
    known = _measured_on_rows(known, result, averaged, is_joint=about.has_measure)
    return finish(
        ParsedFunction(parsed),
        replace(
            result,
            certificate=known,
            diagnostics=facts,
            n_rows=n_rows,
        ),
        engine=about.engine,
        measure=about.measure,
        call=call,
        kept_terms=kept_terms,
        is_joint=about.has_measure,
        rows=_measure_rows(averaged, parsed),
        check=parsed.check,
    )


def _measured_on_rows(
    known: Certificate, result: Result, averaged: Background, *, is_joint: bool
) -> Certificate:
    """Return scale and purity over the rows, where tables have far more cells than rows do."""
    tables = {s: term for s, term in result.components.items() if isinstance(term, TensorComponent)}
    large = (term for term in tables.values() if isinstance(term, PatternTensor))
    rows = averaged.rows
    if not any(term.is_mostly_empty for term in large):
        return known
    effects = {
        subset: term.on_cells(np.ascontiguousarray(rows.codes[list(subset)]))
        for subset, term in tables.items()
    }
    scale = max(largest_entry(values) for values in (result.intercept, *effects.values()))
    if not is_joint or len(effects) < len(result.components):
        return replace(known, scale=scale)
    purity = purity_on_rows(effects, averaged.grid, rows, scale)
    mean, cosine = purity.conditional_mean, purity.cosine
    return replace(known, scale=scale, conditional_mean=mean, cosine=cosine)


def _measure_rows(averaged: Background, parsed: Model) -> MeasureRows:
    """Return the rows that are averaged over, on the grid of the tables of each order."""
    if isinstance(parsed, TreeEnsemble):
        return dict.fromkeys(range(1, TABLE_ORDER + 1), averaged.rows)
    return {size: rows for size, (_, rows) in cells_by_order(parsed, averaged).items()}


@dataclass(frozen=True, eq=False)
class _About:
    """What a reader must know of the background: the measure, a note, and facts."""

    engine: str
    measure: str
    note: str
    facts: dict[str, Any]
    has_measure: bool


def _about_rows(n_rows: int, extrapolation: dict[str, Any]) -> _About:
    """Return what is known of a background of rows; see `outside_support` for extrapolation."""
    measure = describe_background(n_rows, extrapolation)
    facts = {"background_rows": n_rows, "extrapolation": extrapolation}
    return _About(
        "partial dependence", measure, certificate_note(extrapolation), facts, has_measure=True
    )


def _about_cover(n_rows: int) -> _About:
    """Return the facts about the covers of nodes, with variances over `n_rows` rows."""
    measure = f"path-dependent (training rows in the trees' nodes; variances over {n_rows} rows)"
    return _About("path-dependent", measure, _COVER_NOTE, {}, has_measure=False)


def _check_no_background(background: Any) -> None:
    if background is not None and not isinstance(background, str):
        raise InvalidInputError(
            "if rows come in batches, they are also the background: leave background out, or pass "
            "a table as X"
        )


def _check_background(background: Any) -> None:
    if not isinstance(open_rows(background), TableSource):
        raise InvalidInputError(
            "background cannot be rows in batches: pass them as X without background, or pass a "
            "table as background"
        )
    check_table(background, "background")


def _check_trees(parsed: Model | None, *, by_cover: bool) -> None:
    if by_cover and not isinstance(parsed, TreeEnsemble):
        raise InvalidInputError(
            'background="cover" needs a tree ensemble, which stores weights of the training rows, '
            f"got {'a function' if parsed is None else parsed.source.kind}: pass rows as background"
        )


def _check_cover(background: str, sample_weight: npt.ArrayLike | None) -> None:
    if background != "cover":
        raise InvalidInputError(
            f'background must be a table of rows or "cover", got {brief(background)}'
        )
    if sample_weight is not None:
        raise InvalidInputError(
            'background="cover" uses the weights of the training rows that the model stores, and '
            "no other rows: leave sample_weight out"
        )
