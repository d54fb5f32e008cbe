"""Partial dependence of tree ensembles: exact over the whole background, or over covers."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from treepurify.components import Component, ModelInputs, TensorComponent, values_on_rows
from treepurify.effects.conditional import occurring_subsets
from treepurify.engines.common.finish import Evidence, Rest, Result
from treepurify.engines.common.functions import ParsedFunction
from treepurify.engines.common.problem import Wanted
from treepurify.engines.partial_dependence.averages import Averages
from treepurify.engines.partial_dependence.background import Background
from treepurify.engines.partial_dependence.pattern_component import PatternComponent, PatternTensor
from treepurify.engines.partial_dependence.pattern_shares import PatternShares
from treepurify.grids.grid import EncodedRows, Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.progress import ProgressReport
from treepurify.rows.columns import Columns
from treepurify.threads import map_threads
from treepurify.typing import Array

__all__ = ["TABLE_ORDER", "BackgroundCovariances", "kept_terms", "tabulated", "tree_terms"]

# Terms of so many features can be tables; larger ones are evaluated from the leaves.
TABLE_ORDER = 2
# Few enough that the values of a term on them stay small, whatever the size of the background.
_ROWS_A_BLOCK = 1 << 16


def tree_terms(
    ensemble: TreeEnsemble,
    background: Background,
    averages: Averages,
    wanted: Wanted,
    memory_budget: int,
    report: ProgressReport,
) -> Result:
    """Return the wanted terms of an ensemble; see `partial_dependence_anova`."""
    boxes = averages.boxes
    depth = max((len(subset) for subset in boxes.subsets), default=0)
    most = depth if wanted.order is None else min(wanted.order, depth)
    shares = averages.shares(most, report)
    make = partial(_term, ensemble, background, shares, memory_budget)
    intercept, components = kept_terms(ensemble, shares, make, wanted, most, report)
    if most == depth and wanted.interactions is None:
        covariances = BackgroundCovariances(ensemble, background, intercept, components)
        return Result(intercept, components, Evidence(), covariances=covariances)
    moments = _background_moments(ensemble, background, intercept, components)
    find = partial(_find, ensemble, background, averages, memory_budget)
    rest = Rest(ParsedFunction(ensemble), moments.rest_variance, find)
    facts = {}
    if averages.over_rows:
        # The mean over the background, by boxes of leaves and by the model itself.
        error = float(np.max(np.abs(moments.mean - intercept), initial=0.0))
        facts["intercept_error"] = error
    return Result(intercept, components, Evidence(), rest, moments.covariances, facts)


def kept_terms(
    ensemble: TreeEnsemble,
    shares: PatternShares,
    make: Callable[[Subset], Component],
    wanted: Wanted,
    most: int,
    report: ProgressReport,
) -> tuple[Array, dict[Subset, Component]]:
    """Return the intercept and the terms that are kept apart.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The model.
    shares : PatternShares
        What the background says about its leaves.
    make : callable
        Returns the term of a subset.
    wanted : Wanted
        Which terms are kept apart.
    most : int
        Most features of one.
    report : callable
        Progress.
    """
    boxes = shares.boxes
    components: dict[Subset, Component] = {}
    for size in range(1, most + 1):
        report("terms of order", size, most)
        occurring = occurring_subsets(boxes, size, ensemble.n_features)
        components |= {subset: make(subset) for subset in occurring if wanted.keeps(subset)}
    # The mean over the background: values of leaves times the shares of their whole boxes.
    weight = np.where(boxes.leaf_subset >= 0, shares.share[shares.slot_ptr[:-1]], 0.0)
    return ensemble.base + boxes.weighted_sum(weight, ensemble.n_outputs), components


def _term(
    ensemble: TreeEnsemble,
    background: Background,
    shares: PatternShares,
    memory_budget: int,
    subset: Subset,
) -> Component:
    rows, n_outputs = background.rows, ensemble.n_outputs
    term = PatternComponent(subset, background.grid, shares, rows, n_outputs)
    return tabulated(term, ensemble, memory_budget)


def tabulated(term: PatternComponent, ensemble: TreeEnsemble, memory_budget: int) -> Component:
    """Return one term: a table for one feature, a table on demand for two, else leaves."""
    if len(term.features) > TABLE_ORDER:
        return term
    inputs = ModelInputs(ensemble.features, ensemble.has_feature_names)
    table = PatternTensor(term, inputs, memory_budget)
    return table.stored() if len(term.features) == 1 else table


def _find(
    ensemble: TreeEnsemble,
    background: Background,
    averages: Averages,
    memory_budget: int,
    subset: Subset,
) -> Component | None:
    """Return the term of a subset that was not kept apart, if it occurs."""
    if not subset or not any(set(subset) <= set(path) for path in averages.boxes.subsets):
        return None

    def silent(what: str, done: int, total: int) -> None:
        del what, done, total

    shares = averages.shares(len(subset), silent)
    return _term(ensemble, background, shares, memory_budget, subset)


@dataclass(frozen=True, eq=False)
class _Moments:
    """Second moments over the background.

    Parameters
    ----------
    covariances : mapping of tuple of int to ndarray of float64, shape (n_outputs,)
        Covariance of each term with the model; that of the rest stands under ().
    rest_variance : ndarray of float64, shape (n_outputs,)
        Variance of the model minus all terms.
    mean : ndarray of float64, shape (n_outputs,)
        Mean of the model.
    """

    covariances: Mapping[Subset, Array]
    rest_variance: Array
    mean: Array


def _background_moments(
    ensemble: TreeEnsemble,
    background: Background,
    intercept: Array,
    components: Mapping[Subset, Component],
) -> _Moments:
    """Return the moments over the background, which is read block by block.

    Sums are taken around the intercept, which is the mean of the model up to rounding.
    """
    n_rows, weights = background.rows.n_rows, background.rows.weights

    def sums_of_block(start: int) -> tuple[Array, Array, Array, Array]:
        block = slice(start, min(start + _ROWS_A_BLOCK, n_rows))
        return _block_sums(ensemble, background, block, intercept, components)

    starts = range(0, n_rows, _ROWS_A_BLOCK)
    total = float(n_rows) if weights is None else float(weights.sum())
    sums = [
        np.sum(parts, axis=0) / total
        for parts in zip(*map_threads(sums_of_block, starts), strict=True)
    ]
    products, values, squares, mean = sums
    covariance = products - values * mean
    covariances = dict(zip((*components, ()), covariance, strict=True))
    return _Moments(covariances, squares - values[-1] ** 2, intercept + mean)


def _block_sums(
    ensemble: TreeEnsemble,
    background: Background,
    block: slice,
    intercept: Array,
    components: Mapping[Subset, Component],
) -> tuple[Array, Array, Array, Array]:
    """Return weighted sums: terms times model, terms, squares of the rest, and the model.

    The rest is the last term. They are no matrix products: waking the threads of BLAS takes
    longer than these sums.
    """
    columns, rows = background.columns, background.rows
    values_in_block = tuple(values[block] for values in columns.values)
    block_columns = Columns(columns.features, values_in_block, block.stop - block.start)
    weights = None if rows.weights is None else rows.weights[block]
    encoded = {1: EncodedRows(rows.codes[:, block])}
    centred = ensemble.margin(block_columns, precision="float64") - intercept
    weighted = centred if weights is None else centred * weights[:, None]
    rest = centred.copy()
    products, sums = [], []
    for component in components.values():
        if isinstance(component, TensorComponent):
            values = values_on_rows(component, encoded)
        elif isinstance(component, PatternComponent):
            values = component.on_background(block)
        else:
            raise TypeError(f"{type(component).__name__} is not a term of an ensemble")
        products.append(np.einsum("ik,ik->k", values, weighted))
        sums.append(_weighted_sum(values, weights))
        rest -= values
    products.append(np.einsum("ik,ik->k", rest, weighted))
    sums.append(_weighted_sum(rest, weights))
    squares = _weighted_sum(rest**2, weights)
    return np.array(products), np.array(sums), squares, _weighted_sum(centred, weights)


def _weighted_sum(values: Array, weights: Array | None) -> Array:
    if weights is None:
        return np.asarray(values.sum(axis=0))
    return np.asarray(np.einsum("i,ik->k", weights, values))


@dataclass(frozen=True, eq=False)
class BackgroundCovariances(Mapping[Subset, Array]):
    """The covariances of a complete decomposition, computed when they are first asked for.

    Terms of three and more features are evaluated on every background row for them, which
    takes as long as evaluating the decomposition does.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The model.
    background : Background
        The background rows.
    intercept : ndarray of float64, shape (n_outputs,)
        Intercept of the decomposition.
    components : mapping of tuple of int to Component
        Its terms.
    """

    ensemble: TreeEnsemble
    background: Background
    intercept: Array
    components: Mapping[Subset, Component]

    @cached_property
    def _covariances(self) -> dict[Subset, Array]:
        moments = _background_moments(
            self.ensemble, self.background, self.intercept, self.components
        )
        return {subset: values for subset, values in moments.covariances.items() if subset}

    def __getitem__(self, subset: Subset) -> Array:
        """Return the covariance of one term with the model, shape (n_outputs,)."""
        return self._covariances[subset]

    def __iter__(self) -> Iterator[Subset]:
        """Iterate over the subsets."""
        return iter(self.components)

    def __len__(self) -> int:
        """Return the number of terms."""
        return len(self.components)
