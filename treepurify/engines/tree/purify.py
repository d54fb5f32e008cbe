"""Purify a tree ensemble or an EBM: from a model and rows to a decomposition."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_choice, check_number
from treepurify.budget import DEFAULT_BUDGET, check_memory_budget
from treepurify.decomposition import Decomposition
from treepurify.effects.accumulate import accumulate
from treepurify.engines.common.finish import (
    Evidence,
    Result,
    finish,
    largest_effect,
    table_components,
)
from treepurify.engines.common.inputs import (
    Interactions,
    check_order,
    check_order_fits,
    fit_measure,
    read_rows,
)
from treepurify.engines.common.model_check import check_against_library
from treepurify.engines.common.problem import (
    Layout,
    Problem,
    Resolution,
    Wanted,
    closed_subsets,
    lay_out,
)
from treepurify.engines.tree.closed_form import purify_by_closed_form
from treepurify.engines.tree.projection import purify_by_projection
from treepurify.engines.tree.second_moments import kept_interactions
from treepurify.errors import InvalidInputError, MemoryBudgetError
from treepurify.grids.grid import Grid, MissingCells, Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model, read_model
from treepurify.progress import announce_compilation, progress_report
from treepurify.purification.cascade import SolveMethod, downward_closure, purify_effects
from treepurify.purification.unidentified import MOST_SLICES
from treepurify.typing import Indices
from treepurify.weights import Weighting, as_weighting

__all__ = ["Method", "TreeProjection", "purify"]

MethodName = Literal["auto", "exact", "closed-form", "projection", "mass-moving"]
Route = Literal["exact", "closed-form", "projection", "mass-moving"]

_PAIR = 2
# Exact effects are preferred to fitted ones as long as they take less than two seconds, or less
# than a few times the time of the projection.
_QUICK = 2e9
_EXACT_IS_WORTH = 4


@dataclass(frozen=True)
class TreeProjection:
    """The projection route, with a chosen tolerance.

    Parameters
    ----------
    tolerance : float
        Estimated error of a tree's tables, over the standard deviation of its values, at which
        conjugate gradients stop. Trees whose normal equations fit the memory are factored
        instead, which leaves rounding.

    Examples
    --------
    >>> TreeProjection(1e-6)
    TreeProjection(tolerance=1e-06)
    """

    tolerance: float = 1e-8

    def __post_init__(self) -> None:
        check_number(
            "the tolerance of a projection", self.tolerance, least=0, most=1, open_ends=True
        )


Method = MethodName | TreeProjection


def purify(
    model: Any,
    X: Any = None,
    *,
    weights: str | Weighting = "empirical",
    order: int | None = 2,
    interactions: Interactions | int | None = None,
    sample_weight: npt.ArrayLike | None = None,
    feature_names: Sequence[str] | None = None,
    method: Method = "auto",
    resolution: Resolution = "auto",
    missing_cells: MissingCells = "auto",
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> Decomposition:
    """Turn a trained model into its functional ANOVA under a stated distribution.

    Effects can be moved between a main effect and an interaction without changing one
    prediction. Purifying moves everything down that fewer features can express, which
    leaves one identified form: each component has mean zero given any of its features'
    subsets, under the chosen weights (Lengerich et al. 2020, equation 5).

    Parameters
    ----------
    model : object, str or Path
        A trained model, a model file, or what `parse_model` returned.
    X : array_like or table of shape (n_rows, n_features), optional
        Rows that stand for the distribution; usually the training data. Without it an EBM
        is purified under the weights of its own bins; other models need
        ``weights="uniform"``.
    weights : str or Weighting
        The distribution of the features: ``"empirical"``, of the rows themselves; ``"auto"``,
        smoothed as much as foretells a row best from all others (`Auto`); ``"kernel"`` or
        ``"copula"``, smoothed by a kernel or a Gaussian copula (`Kernel`, `Copula`);
        ``"independent"``, the product of the rows' margins; ``"shrunk"``, mixed with that product
        (`Shrunk`); ``"uniform"``, equal mass for every cell; ``"laplace"``, mixed half and half
        with the uniform one.
        ``diagnostics["measure"]`` says what was picked and why.
    order : int or None
        Largest number of features of a component that is kept apart; all that occur for None,
        which the projection cannot give (see `method`).
        The sum of all larger ones is `Decomposition.remainder`, so that all parts together
        are always the model.
    interactions : sequence of tuple of (str or int), or int, optional
        The interactions that are kept apart, such as ``[("age", "hours")]``; all up to
        `order` by default. A number keeps that many pairs, those of the largest
        total interaction index (`interaction_indices`): under the measure itself where
        features are independent, else under the product of the rows' margins. For very many
        leaves that index is estimated; ``diagnostics["strongest_pairs"]`` says so.
    sample_weight : array_like of shape (n_rows,), optional
        Weight of each row, finite and not negative.
    feature_names : sequence of str, optional
        Names of the features, in the order of the model.
    method : {"auto", "exact", "closed-form", "projection", "mass-moving"} or TreeProjection
        ``"exact"``: solves on the union grid of all cuts. ``"closed-form"``: any depth, under
        independent features. ``"projection"``: any depth, under dependent features: each tree
        is projected on functions of up to `order` features over its own cuts, and the sum is
        purified exactly. ``"mass-moving"``: the paper's algorithm with its history.
        ``"auto"`` takes the first of these that fits: exact where no path tests more than
        two features; the closed form under a product measure; exact where `order` is None;
        exact within the memory budget and where no table has more cells than there are rows;
        the projection.
        ``diagnostics["method"]`` says which.
    resolution : {"auto", "union", "term"}
        For EBMs, whose terms have bins of their own. ``"union"``: all components live on the
        union of a feature's cuts, as for trees. ``"term"``: each order keeps its own bins;
        a component is then pure against functions on these bins. ``"auto"``: ``"union"``
        with rows where it fits the memory budget, else ``"term"``;
        ``diagnostics["resolution"]`` says which.
    missing_cells : {"auto", "always"}
        Whether axes have cells for missing values and unknown categories only where the
        model or the rows have such values, or everywhere, so that later rows may.
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
        If the tables would not fit.
    ModelMismatchError
        If the parsed model does not reproduce the library's raw prediction.

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
    check_order(order)
    _check_method(method)
    check_choice("resolution", resolution, get_args(Resolution))
    check_choice("missing_cells", missing_cells, get_args(MissingCells))
    check_memory_budget(memory_budget)
    report = progress_report(progress)
    announce_compilation(show=progress)
    weighting = as_weighting(weights)
    parsed = read_model(model, X, feature_names)
    check_order_fits(order, parsed.n_features)
    columns = read_rows(parsed, X, weighting)
    measure = fit_measure(columns, weighting, sample_weight, memory_budget)
    weighting, columns, weights_of_rows = measure.weighting, measure.columns, measure.row_weights
    layout = lay_out(
        parsed, columns, weights_of_rows, weighting, resolution, missing_cells, memory_budget
    )
    route = choose_route(method, layout, weighting, order, parsed, memory_budget)
    check = check_against_library(model, parsed, X)
    subsets, chosen_pairs = kept_interactions(
        parsed, interactions, order, columns, weights_of_rows, weighting, report, memory_budget
    )
    wanted = Wanted(order, subsets)
    problem = Problem(parsed, layout, columns, weighting, wanted, memory_budget, report)
    if route == "closed-form":
        result = purify_by_closed_form(problem)
    elif route == "projection":
        projection = method if isinstance(method, TreeProjection) else TreeProjection()
        result = purify_by_projection(problem, projection.tolerance)
    else:
        result = _purify_on_grid(problem, "mass-moving" if route == "mass-moving" else "exact")
    facts = {**_facts(parsed, layout, route), **measure.facts, **chosen_pairs}
    return finish(
        problem.function,
        replace(result, diagnostics=facts | result.diagnostics),
        engine="tree",
        measure=layout.measure,
        wanted=wanted,
        is_product=weighting.is_product,
        # What components leave of the model is not constant in the cells of the rows.
        rows=layout.measure_rows(weighting) if result.rest is None else None,
        check=check,
        note=measure.note,
    )


def _check_method(method: Method) -> None:
    """Raise `InvalidInputError` unless the method is known."""
    if not isinstance(method, TreeProjection):
        check_choice("method", method, get_args(MethodName), advice=", or a TreeProjection")


def choose_route(
    method: Method,
    layout: Layout,
    weighting: Weighting,
    order: int | None,
    model: Model,
    memory_budget: int,
) -> Route:
    """Return the route of a model.

    With ``method="auto"`` it is the first of these whose condition holds:

    1. the union grid, where no path tests more than two features;
    2. the closed form, where features are independent;
    3. the union grid, where all orders are asked for (the projection keeps low ones only) or
       the measure has no rows;
    4. the union grid, where it fits the memory budget, no table has more cells than there are
       rows, and the work is small or not much more than that of the projection;
    5. the projection of each tree.

    Raises
    ------
    InvalidInputError
        If the route does not fit the measure or the model.
    """
    name = "projection" if isinstance(method, TreeProjection) else method
    if layout.boxes is None:
        if name in ("closed-form", "projection"):
            raise InvalidInputError(f"method={name!r} is for tree ensembles; an EBM needs none")
        return "mass-moving" if name == "mass-moving" else "exact"
    if name == "closed-form" and not weighting.is_product:
        raise InvalidInputError(
            'method="closed-form" needs independent features: weights="independent" or "uniform"'
        )
    if name == "projection" and weighting.share_of_rows is None:
        raise InvalidInputError(
            f'method="projection" needs rows, weights={weighting.name!r} has none: use '
            '"empirical" or "laplace"'
        )
    if name != "auto":
        return name
    depth = max((len(subset) for subset in layout.boxes.subsets), default=0)
    if depth <= _PAIR:
        return "exact"
    if weighting.is_product:
        return "closed-form"
    if order is None:
        return "exact"
    rows = layout.rows[1]
    if weighting.share_of_rows is None or rows is None or not isinstance(model, TreeEnsemble):
        return "exact"
    tables = _union_grid_tables(layout, model.n_outputs, memory_budget)
    if tables is None:
        return "projection"
    work = _union_grid_work(tables, layout.union_grid, model.n_outputs)
    others = _projection_work(model.leaves_in_trees(), rows.n_rows)
    return "exact" if work <= max(_QUICK, _EXACT_IS_WORTH * others) else "projection"


def _union_grid_tables(layout: Layout, n_outputs: int, memory_budget: int) -> list[Subset] | None:
    """Return the tables on the union grid; None where they do not fit or would fit noise.

    With more cells than rows an exact solve would fit the noise of nearly empty cells.
    """
    grid, rows, paths = layout.union_grid, layout.rows[1], layout.leaf_boxes.subsets
    sizes = [axis.n_cells for axis in grid.axes]
    if rows is not None and max(prod(sizes[j] for j in path) for path in paths) > rows.n_rows:
        return None
    try:
        return closed_subsets(paths, grid, n_outputs, memory_budget)
    except MemoryBudgetError:
        return None


def _union_grid_work(tables: list[Subset], grid: Grid, n_outputs: int) -> float:
    """Return about how many nanoseconds of one core purifying these tables takes.

    A table of three features and more takes some fifty conjugate-gradient steps, of passes
    over its cells and calls around them, and the ranks that say what is undetermined, cubic
    in its slices. A thousand small tables are slow where one large table is not.
    """
    work = 0.0
    for subset in tables:
        sizes = [grid.axes[j].n_cells for j in subset]
        cells, size = prod(sizes), len(subset)
        if size <= _PAIR:
            work += 1e5 + 10.0 * cells * min(sizes)
            continue
        slices = sum(cells // n_cells for n_cells in sizes)
        work += 50 * size * (6e4 + 5 * cells * n_outputs)
        work += 2 * slices**3 / 9 if slices <= MOST_SLICES else 0.0
    return work


def _projection_work(leaves_in_trees: Indices, n_rows: int) -> float:
    """Return about how many nanoseconds of one core projecting the trees takes.

    A tree with `n` leaves has some n^2 / 2 unknowns in its pairs, whose equations are factored.
    """
    n_leaves = leaves_in_trees.astype(np.float64)
    unknowns = n_leaves**2 / 2
    work = 5e6 + unknowns**3 / 90 + n_rows * np.minimum(10 * n_leaves, 1000.0)
    return float(work.sum())


def _purify_on_grid(problem: Problem, method: SolveMethod) -> Result:
    """Purify the model's tensors on their grids, after checking that all tables fit."""
    layout, model = problem.layout, problem.model
    effects = layout.effects
    if effects is not None:
        subsets = downward_closure(effects.tensors)
    else:
        paths = layout.leaf_boxes.subsets
        subsets = closed_subsets(paths, problem.grid, model.n_outputs, problem.memory_budget)
    axes = {subset: layout.grids[len(subset)].subset_axes(subset) for subset in subsets}
    if effects is None:
        effects = accumulate(problem.ensemble, problem.grid, problem.boxes, problem.memory_budget)
    problem.report("weighing cells", 0, 0)
    mass = layout.mass(problem.weighting, subsets)
    purified = purify_effects(effects, mass, axes, method=method, progress=problem.report)
    return Result(
        purified.intercept,
        table_components(purified, mass, axes, problem.function.inputs, effects),
        Evidence(largest_effect(purified.intercept, effects.tensors.values()), purified),
    )


def _facts(model: Model, layout: Layout, route: Route) -> dict[str, Any]:
    return {
        "model": model.facts(),
        "method": route,
        "resolution": layout.resolution,
    }
