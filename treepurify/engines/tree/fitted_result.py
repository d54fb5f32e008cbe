"""The end of every projection: purify what was fitted, and measure what it leaves."""

from typing import Any

from treepurify.effects.tensor import EffectTensors
from treepurify.engines.common.all_rows import count_in_cells, explain_rows
from treepurify.engines.common.explained import measure_explained_by_tables
from treepurify.engines.common.finish import (
    Evidence,
    Result,
    Unexplained,
    table_components,
)
from treepurify.engines.common.problem import Problem
from treepurify.grids.grid import EncodedRows, Grid
from treepurify.purification.cascade import purify_effects
from treepurify.typing import Array
from treepurify.weights.cell_counts import RowsOnGrid

__all__ = ["fitted_result"]


def fitted_result(
    problem: Problem,
    rows: EncodedRows,
    effects: EffectTensors,
    margin: Array,
    facts: dict[str, Any],
) -> Result:
    """Return the components of fitted tables, with the unexplained part of the model as remainder.

    Where the fitted rows are a sample, the tables are purified under all rows, and what they
    explain is measured on all of them.

    Parameters
    ----------
    problem : Problem
        The model on the grid of the tables.
    rows : EncodedRows
        The rows on that grid that were fitted.
    effects : EffectTensors
        What was fitted; not yet pure.
    margin : ndarray of float64, shape (n_rows, n_outputs)
        Margin of the rows.
    facts : dict
        What the diagnostics say of the fit, its error among them. The share of the variance that
        the components explain on the rows is added.
    """
    subsets = list(effects.tensors)
    problem.report("weighing cells", 0, 0)
    grid: Grid = problem.grid
    on_grid: RowsOnGrid = rows
    note, n_counted = "", 0
    if problem.all_rows is not None:
        of_grid = [(grid, subsets)]
        (counted,) = count_in_cells(problem.all_rows, of_grid, problem.report, keep_special=True)
        grid, on_grid, n_counted = counted.grid, counted, counted.n_counted
    axes = {subset: tensor.axes for subset, tensor in effects.tensors.items()}
    if grid is not problem.grid:
        axes = {subset: grid.subset_axes(subset) for subset in subsets}
    mass = problem.weighting.tables(grid, on_grid, subsets)
    purified = purify_effects(effects, mass, axes, method="exact", progress=problem.report)
    tables = table_components(purified, mass, axes, problem.function.inputs)
    problem.report("evaluating the rows", 0, 0)
    kept = {subset: table for subset, table in tables.items() if problem.kept_terms.keeps(subset)}
    values = {subset: table.values for subset, table in kept.items()}
    explained = measure_explained_by_tables(
        margin, rows.shares, purified.intercept, values, rows.codes
    )
    diagnostics: dict[str, Any] = {"projection": facts | {"r_squared": explained.share.tolist()}}
    if problem.all_rows is not None:
        sampled, n_sampled = explained.share.tolist(), rows.n_rows
        measured = explain_rows(
            problem.all_rows, problem.function, purified.intercept, kept, problem.report
        )
        explained, n_rows = measured.explained, measured.n_rows
        shares = {"r_squared": explained.share.tolist(), "r_squared_of_sample": sampled}
        diagnostics = {"rows": n_rows, "projection": facts | shares}
        if n_sampled < n_rows:
            note = (
                f"The trees were projected on a sample of {n_sampled} of {n_rows} rows; masses, "
                "purity and the share explained are those of all rows."
            )
    return Result(
        purified.intercept,
        tables,
        Evidence(
            purified.scale,
            purified,
            fitted_share=explained.share,
            fit_error=max(facts["error"]) / (purified.scale or 1.0),
            fit_unidentified=facts["undetermined"],
            converged=facts["converged"],
            note=note,
        ),
        Unexplained(problem.function, explained.rest_variance),
        explained.covariances if problem.weighting.share_of_rows == 1.0 else None,
        diagnostics,
        n_counted,
    )
