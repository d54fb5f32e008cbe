"""The exact route: a model's tensors summed on the union grid of all cuts, and purified there."""

from treepurify.effects.accumulate import accumulate
from treepurify.engines.common.finish import Evidence, Result, table_components
from treepurify.engines.common.problem import Layout, Problem, closed_subsets
from treepurify.grids.grid import Subset
from treepurify.models.parse import Model
from treepurify.purification.cascade import SolveMethod, downward_closure, purify_effects

__all__ = ["purify_on_union_grid", "subsets_of_tables"]


def purify_on_union_grid(problem: Problem, method: SolveMethod) -> Result:
    """Purify the model's tensors on their grids, after checking that all tables fit."""
    layout = problem.layout
    subsets = subsets_of_tables(layout, problem.model, problem.memory_budget)
    axes = {subset: layout.grids[len(subset)].subset_axes(subset) for subset in subsets}
    effects = layout.effects
    if effects is None:
        effects = accumulate(problem.ensemble, problem.grid, problem.boxes, problem.memory_budget)
    problem.report("weighing cells", 0, 0)
    mass = layout.mass(problem.weighting, subsets)
    purified = purify_effects(effects, mass, axes, method=method, progress=problem.report)
    return Result(
        purified.intercept,
        table_components(purified, mass, axes, problem.function.inputs, effects),
        Evidence(purified.scale, purified),
    )


def subsets_of_tables(layout: Layout, model: Model, memory_budget: int) -> list[Subset]:
    """Return the subsets whose tables are purified: those of the model, and all their subsets.

    Raises
    ------
    MemoryBudgetError
        If these tables would not fit.
    """
    if layout.effects is not None:
        return downward_closure(layout.effects.tensors)
    paths = layout.leaf_boxes.subsets
    return closed_subsets(paths, layout.union_grid, model.n_outputs, memory_budget)
