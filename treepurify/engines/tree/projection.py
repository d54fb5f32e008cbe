"""The projection as a route: trees projected, their sum purified, the rest as remainder."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.certificate import Certificate
from treepurify.components import Component, TensorComponent, values_on_rows
from treepurify.decomposition import Decomposition
from treepurify.engines.common.assemble import assemble
from treepurify.engines.common.layout import check_memory
from treepurify.engines.tree.deep_model import DeepModel
from treepurify.engines.tree.projected_trees import ProjectionInputs, project_trees, row_matrix
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Subset
from treepurify.purification.cascade import downward_closure, purify_effects
from treepurify.remainder import ModelRemainder

__all__ = ["purify_by_projection"]

Array = npt.NDArray[np.float64]

_MOST_ORDER = 3


def purify_by_projection(given: DeepModel, tolerance: float) -> Decomposition:
    """Return the components of low order of a deep ensemble under dependent features.

    See `project_trees`. The remainder is the model minus the components; on the rows,
    ``diagnostics["projection"]["r_squared"]`` is the share of the model's variance that the
    components explain.
    """
    share = 1.0 - (given.weighting.share_of_rows or 0.0)
    order = _checked_order(given.order, 2 if share > 0 else _MOST_ORDER)
    if given.rows is None or given.columns is None:
        raise InvalidInputError("the projection route needs rows: pass X")
    matrix = row_matrix(given.columns, given.memory_budget)
    projection = project_trees(
        ProjectionInputs(
            ensemble=given.model,
            boxes=given.boxes,
            grid=given.grid,
            rows=given.rows,
            matrix=matrix,
            weights=(1.0 - share) * given.row_shares(),
            margins=_margins_beside_rows(given) if share > 0 else {},
            share=share,
            order=order,
            tolerance=tolerance,
        ),
        given.memory_budget,
        given.report,
    )
    subsets = downward_closure(projection.effects.tensors)
    axes = {subset: given.grid.subset_axes(subset) for subset in subsets}
    check_memory(axes.values(), given.model.n_outputs, given.memory_budget)
    given.report("weighing cells", 0, 0)
    mass = given.weighting.tables(given.grid, given.rows, subsets)
    purified = purify_effects(projection.effects, mass, axes, method="exact", progress=given.report)
    setting = replace(
        given.setting,
        effects=projection.effects,
        mass=mass,
        axes=axes,
        order=None,
        has_raw=False,
        adds_up=False,
    )
    d = assemble(purified, setting, given.check, given.facts)
    facts: dict[str, Any] = {
        "trees": given.model.n_trees,
        "solved_directly": projection.n_direct,
        "steps": projection.steps,
        "undetermined": projection.undetermined,
        "converged": projection.converged,
        "error": projection.error.tolist(),
        "tolerance": tolerance,
    }
    return _with_remainder(d, given, projection.margin, facts, rows_only=share == 0)


def _certificate(
    certificate: Certificate | None, facts: dict[str, Any], r_squared: Array
) -> Certificate | None:
    """Say in the certificate of the purified sum that it was fitted, and how well."""
    if certificate is None:
        return None
    return replace(
        certificate,
        fitted_share=tuple(r_squared.tolist()),
        fit_error=max(facts["error"]) / (certificate.scale or 1.0),
        fit_unidentified=facts["undetermined"],
        converged=certificate.converged and facts["converged"],
    )


def _checked_order(order: int | None, most: int) -> int:
    if order is not None and order <= most:
        return order
    asked = "all that occur (order=None)" if order is None else f"{order}"
    raise InvalidInputError(
        f"features depend on each other, so the trees are projected on components of up to {most} "
        f"features, not {asked}: ask for order=2, and what lies above is the remainder; or for "
        'weights="independent", or method="exact" where its tables fit, which keep every order'
    )


def _margins_beside_rows(given: DeepModel) -> dict[int, Array]:
    used = sorted({j for subset in given.boxes.subsets for j in subset})
    tables = given.weighting.beside_rows.tables(given.grid, given.rows, [(j,) for j in used])
    return {j: tables[(j,)] for j in used}


def _with_remainder(
    d: Decomposition, given: DeepModel, margin: Array, facts: dict[str, Any], *, rows_only: bool
) -> Decomposition:
    """Add the remainder, the variance explained on the rows, and covariances with the model."""
    kept: dict[Subset, Component] = {
        subset: component
        for subset, component in d.components.items()
        if given.interactions is None or len(subset) == 1 or subset in given.interactions
    }
    if given.rows is None:
        raise InvalidInputError("the projection route needs rows: pass X")
    given.report("evaluating the rows", 0, 0)
    # Sums over rows, not products of matrices: for one column threads of BLAS only wait.
    shares = given.row_shares()[:, None]
    centred = margin - (shares * margin).sum(axis=0)
    weighted = shares * centred
    explained = np.zeros_like(margin)
    covariances: dict[Subset, Array] = {}
    on_grid = dict.fromkeys(range(1, given.depth + 1), given.rows)
    for subset, component in kept.items():
        if isinstance(component, TensorComponent):
            values = values_on_rows(component, on_grid)
            explained += values
            covariances[subset] = (weighted * values).sum(axis=0)
    rest = margin - d.intercept - explained
    variance = (shares * (rest - (shares * rest).sum(axis=0)) ** 2).sum(axis=0)
    covariances[()] = (weighted * rest).sum(axis=0)
    total = (weighted * centred).sum(axis=0)
    r_squared = 1.0 - (shares * rest**2).sum(axis=0) / np.where(total > 0, total, 1.0)
    remainder = ModelRemainder(
        given.model,
        d.intercept,
        tuple(kept.values()),
        np.asarray(variance),
    )
    return replace(
        d,
        components=kept,
        remainder=remainder,
        certificate=_certificate(d.certificate, facts, r_squared),
        rows=None,
        stored_covariances=covariances if rows_only else None,
        diagnostics={**d.diagnostics, "projection": {**facts, "r_squared": r_squared.tolist()}},
    )
