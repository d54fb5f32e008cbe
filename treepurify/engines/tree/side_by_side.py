"""Several trainings of one model, purified on one grid: the effects of one, and their spread.

On one grid purification is linear. So the mean of the purified models is the purified mean, and
all of them are purified at once, as outputs side by side: the cells are weighed once.
"""

from dataclasses import replace

import numpy as np

from treepurify.budget import check_budget
from treepurify.components import TensorComponent
from treepurify.effects.leaf_boxes import leaf_boxes
from treepurify.engines.common.finish import Result
from treepurify.engines.common.functions import ParsedFunction
from treepurify.engines.common.problem import Resolution, Wanted
from treepurify.engines.tree.asked import Asked, Outcome, Plan, plan, run
from treepurify.engines.tree.refits import ReadRefits
from treepurify.grids.grid import Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.spread import Spread

__all__ = ["purify_side_by_side"]


def purify_side_by_side(
    refits: ReadRefits, centre: Model, stack: Model, asked: Asked, wanted: Wanted
) -> Outcome:
    """Purify several models by one route on the grid of all their cuts.

    Parameters
    ----------
    refits : ReadRefits
        The models.
    centre, stack : TreeEnsemble or AdditiveTables
        What is decomposed, and all models side by side: those of `refits`, or with fewer cuts.
    asked : Asked
        What was asked for. The route is that of all models together.
    wanted : Wanted
        Which effects are kept apart.
    """
    planned = plan(stack, asked)
    if planned.route in ("projection", "coarse") and planned.fitted is not None:
        n_rows = len(planned.fitted)
        check_budget(
            8 * n_rows * stack.n_outputs,
            asked.memory_budget,
            f"the margins of {len(refits.parsed)} models on {n_rows} rows",
            "Pass fewer models or rows.",
        )
    of_stack = run(planned, asked, wanted, ParsedFunction(centre))
    planned = _same_cells(planned, centre, asked)
    result = run(planned, asked, wanted)
    spread = _spread(refits, of_stack, result, wanted)
    facts = planned.facts()
    facts["refits"] = {
        "models": refits.n_models,
        "how": refits.how,
        "decomposed": "mean" if refits.is_mean else "given model",
        "common_grid": "coarse cells" if planned.route == "coarse" else "all cuts",
        "cells": {axis.name: axis.n_cells for axis in planned.layout.union_grid.axes},
        "without_spread": [
            list(subset)
            for subset in result.components
            if wanted.keeps(subset) and subset not in spread.stacked
        ],
    }
    if not refits.is_mean:
        facts["model"] = refits.parsed[-1].facts()
    return Outcome(result, planned.layout, facts, planned.rows, spread)


def _same_cells(planned: Plan, centre: Model, asked: Asked) -> Plan:
    """Return what was planned for all models together, for one model of the same cuts."""
    if isinstance(centre, TreeEnsemble):
        grid = planned.layout.union_grid
        boxes = None if planned.layout.boxes is None else leaf_boxes(centre, grid)
        return replace(planned, model=centre, layout=replace(planned.layout, boxes=boxes))
    resolution: Resolution = "union" if planned.layout.resolution == "union" else "term"
    return plan(centre, replace(asked, resolution=resolution))


def _spread(refits: ReadRefits, of_stack: Result, result: Result, wanted: Wanted) -> Spread:
    """Return the tables of all models; cells and masses are those of the centre."""
    names = refits.centre.output_names
    n_stacked = refits.n_models * len(names)
    stacked: dict[Subset, TensorComponent] = {}
    for subset, component in result.components.items():
        other = of_stack.components.get(subset)
        if not isinstance(component, TensorComponent) or not isinstance(other, TensorComponent):
            continue
        if wanted.keeps(subset):
            values = np.ascontiguousarray(other.values[..., :n_stacked])
            stacked[subset] = replace(component, values=values, raw=None)
    return Spread(
        refits.n_models,
        refits.how,
        of_stack.intercept[:n_stacked].reshape(refits.n_models, len(names)),
        stacked,
        refits.centre.feature_names,
        names,
    )
