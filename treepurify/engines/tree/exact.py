"""The exact route: the tables of a model on the grid of all its cuts, purified."""

from treepurify.effects.accumulate import accumulate
from treepurify.engines.common.finish import Result, table_components
from treepurify.engines.common.problem import Problem, closed_subsets
from treepurify.grids.grid import Subset
from treepurify.purification.cascade import SolveMethod, downward_closure, purify_effects


def purify_exactly(problem: Problem, method: SolveMethod) -> Result:
    """Purify the model's tensors on their grids, after checking that all tables fit."""
    layout, effects = problem.layout, problem.layout.effects
    subsets = subsets_of_tables(problem)
    axes = {subset: layout.grids[len(subset)].subset_axes(subset) for subset in subsets}
    if effects is None:
        effects = accumulate(problem.ensemble, problem.grid, problem.boxes, problem.memory_budget)
    problem.report("computing the distribution", 0, 0)
    mass = layout.mass(problem.weighting, subsets)
    purified = purify_effects(effects, mass, axes, method=method, progress=problem.report)
    components = table_components(purified, mass, axes, problem.function.inputs, effects)
    return Result(purified.intercept, components, purified)


def subsets_of_tables(problem: Problem) -> list[Subset]:
    """Return the subsets whose tables are purified: those of the model, and all their subsets.

    Raises
    ------
    MemoryBudgetError
        If these tables would not fit.
    """
    if problem.layout.effects is not None:
        return downward_closure(problem.layout.effects.tensors)
    n_outputs, budget = problem.model.n_outputs, problem.memory_budget
    return closed_subsets(problem.boxes.subsets, problem.grid, n_outputs, budget)
