"""What is done with accumulated local effects, wherever their rows came from."""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

from treepurify.components import Component, TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.engines.ale.components import AccumulationAxis
from treepurify.engines.common.explained import Explained
from treepurify.engines.common.finish import Rest, Result, finish
from treepurify.engines.common.functions import RowFunction
from treepurify.engines.common.inputs import Interactions, named_subsets
from treepurify.grids.grid import Subset
from treepurify.typing import Array

__all__ = ["finish_effects", "wanted_pairs"]


def wanted_pairs(
    f: RowFunction,
    axes: Mapping[int, AccumulationAxis],
    order: int,
    interactions: Interactions | None,
) -> list[Subset]:
    """Return the pairs of features with nodes that are asked for."""
    wanted = named_subsets(f.features, interactions, order)
    if wanted is None:
        return list(combinations(sorted(axes), 2)) if order > 1 else []
    return sorted(pair for pair in wanted if axes.keys() >= set(pair))


def finish_effects(
    f: RowFunction,
    intercept: Array,
    components: Mapping[Subset, Component],
    explained: Explained,
    n_rows: int,
    bins: int,
    empty: Mapping[str, int],
    missing: Mapping[str, int],
    facts: Mapping[str, Any],
) -> Decomposition:
    """Return effects as a decomposition, with what they leave as remainder.

    Parameters
    ----------
    f : RowFunction
        The function.
    intercept : ndarray of float64, shape (n_outputs,)
        Its mean over the rows.
    components : mapping of tuple of int to Component
        The effects.
    explained : Explained
        What they explain.
    n_rows, bins : int
        Number of rows, and of quantile bins.
    empty, missing : mapping of str to int
        Cells without rows of each pair, and missing values of each feature.
    facts : mapping of str to object
        What else the diagnostics say.
    """
    exact = [c.features for c in components.values() if isinstance(c, TensorComponent)]
    result = Result(
        intercept,
        components,
        rest=Rest(f, explained.rest_variance),
        covariances=explained.covariances,
        diagnostics={
            "rows": n_rows,
            "bins": bins,
            "cells_without_rows": dict(empty),
            "missing_values_without_effect": dict(missing),
            "tables_on_the_model's_cuts": [f.features[j].name for (j,) in exact],
            **facts,
        },
    )
    measure = f"accumulated local effects ({n_rows} rows, up to {bins} quantile bins)"
    return finish(f, result, engine="ALE", measure=measure)
