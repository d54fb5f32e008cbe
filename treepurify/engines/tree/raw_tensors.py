"""Purify raw effect tensors from any source."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from treepurify.arguments import brief, check_choice, read_names, read_numbers
from treepurify.budget import DEFAULT_BUDGET
from treepurify.components import ModelInputs
from treepurify.decomposition import Decomposition
from treepurify.effects.tensor import EffectTensor, EffectTensors
from treepurify.engines.common.finish import (
    Result,
    finish,
    table_components,
)
from treepurify.engines.common.inputs import check_order, check_order_fits
from treepurify.engines.common.problem import KeptTerms, check_memory
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Grid, Subset
from treepurify.links import Link
from treepurify.origin import called
from treepurify.progress import progress_report
from treepurify.purification.cascade import SolveMethod, downward_closure, purify_effects
from treepurify.rows.columns import FeatureSpec
from treepurify.typing import Array
from treepurify.weights import JointTable, Uniform, Weighting
from treepurify.weights.distributions import MassTables, normalised

Tensors = Mapping[Subset | int, npt.ArrayLike]

# Relative to the largest mass: what sums in another order leave, and much less than a real change.
_SAME_MASS = 1e-9
# Every feature up to the last one gets an axis, even without a tensor.
_MOST_FEATURES = 1 << 16
_MASSES = 'be "uniform", a joint table of weights, or a mapping from features to tables'


def purify_tensors(
    tensors: Tensors,
    weights: npt.ArrayLike | Tensors | str = "uniform",
    *,
    intercept: npt.ArrayLike = 0.0,
    feature_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    order: int | None = None,
    method: SolveMethod = "exact",
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> Decomposition:
    """Purify tables of effects that come from any source.

    Parameters
    ----------
    tensors : mapping of tuple of int (or int) to array_like
        Effect of each subset of features, of shape (cells...), or (cells..., n_outputs) if
        `output_names` are given. Axes follow the order of the features in the key.
    weights : array_like, mapping, or "uniform"
        The joint mass, one axis per feature, on any positive scale; or one table for each
        subset, all of them margins of one joint mass (tables of smaller subsets may be left
        out: they are summed from larger ones); or equal mass for every cell.
    intercept : array_like of shape () or (n_outputs,)
        Constant part.
    feature_names : sequence of str, optional
        Names of the features.
    output_names : sequence of str, optional
        Names of the outputs.
    order : int, optional
        Largest number of features of an effect.
    method : {"exact", "mass-moving"}
        ``"exact"``: direct and conjugate-gradient solves; ``"mass-moving"``: the paper's algorithm,
        with its history.
    memory_budget : int
        Bytes that tables may take; more is refused before it is allocated.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    Decomposition
        Its features are categorical, and their cells have the codes 0, 1, ... Effects are on the
        scale of the tensors.

    Raises
    ------
    InvalidInputError
        If shapes do not fit each other, if a tensor or the intercept is not finite, if weights
        are negative, not finite or all zero, or if their tables are not margins of one joint mass.
    MemoryBudgetError
        If the tables of all subsets would take too much memory.

    See Also
    --------
    purify : Main effects and interactions of a tree model.
    categorical_anova : Any function of categories, in closed form.

    Examples
    --------
    The AND of two fair coins is XOR plus main effects (Lengerich et al. 2020, figure 1):

    >>> import treepurify as tp
    >>> d = tp.purify_tensors({(0, 1): [[0, 0], [0, 1]]})
    >>> d[0, 1].values[..., 0]
    array([[ 0.25, -0.25],
           [-0.25,  0.25]])
    >>> d[0].values.ravel()
    array([-0.25,  0.25])
    """
    call = called(purify_tensors, locals())
    check_order(order)
    check_choice("method", method, get_args(SolveMethod))
    arrays = _read_tensors(tensors, output_names)
    n_outputs = next(iter(arrays.values())).shape[-1]
    grid = _grid(arrays, weights, feature_names)
    check_order_fits(order, grid.n_features)
    effects = EffectTensors(
        _read_intercept(intercept, n_outputs),
        {s: EffectTensor(s, grid.subset_axes(s), values) for s, values in arrays.items()},
    )
    subsets = downward_closure(arrays)
    axes = {subset: grid.subset_axes(subset) for subset in subsets}
    check_memory(axes.values(), n_outputs, memory_budget)
    mass, measure = _mass(weights, grid, subsets)
    purified = purify_effects(
        effects, mass, axes, method=method, progress=progress_report(progress)
    )
    names: tuple[str, ...] = ("margin",)
    if output_names is not None:
        names = tuple(read_names("output_names", output_names, n_outputs))
    inputs = ModelInputs(grid.features, match_names=feature_names is not None)
    return finish(
        _Tensors(inputs, names, Link()),
        Result(
            purified.intercept,
            table_components(purified, mass, axes, inputs, effects),
            purified,
            method=method,
        ),
        engine="tree",
        measure=measure,
        call=call,
        kept_terms=KeptTerms(order),
        is_product=isinstance(weights, str),
    )


class _Tensors(NamedTuple):
    """Tensors that belong to no model, described for `finish`."""

    inputs: ModelInputs
    output_names: tuple[str, ...]
    link: Link


def _read_tables(what: str, given: Any, *, n_more: int = 0) -> dict[Subset, Array]:
    """Return tables by the positions of their features, increasing; behind are `n_more` axes."""
    if not isinstance(given, Mapping) or not given:
        raise InvalidInputError(
            f"{what} must be a mapping from features to tables, one at least, such as "
            f"{{(0, 1): [[0, 0], [0, 1]]}}; got {brief(given)}"
        )
    arrays: dict[Subset, Array] = {}
    for key, values in given.items():
        subset = tuple(key) if isinstance(key, tuple | list) else (key,)
        is_whole = all(isinstance(j, int | np.integer) and not isinstance(j, bool) for j in subset)
        if not is_whole or not all(0 <= j < _MOST_FEATURES for j in subset):
            raise InvalidInputError(
                f"the keys of {what} must be positions of features, from 0 to "
                f"{_MOST_FEATURES - 1}, such as (0, 1); got {brief(key)}"
            )
        ordered = tuple(sorted(int(j) for j in subset))
        if not ordered or len(set(ordered)) < len(ordered) or ordered in arrays:
            raise InvalidInputError(
                f"{what} must have one table for each set of features; got tables of {[*given]}"
            )
        array = read_numbers(f"the table of {key!r} in {what}", values)
        if array.ndim != len(subset) + n_more or not array.size:
            raise InvalidInputError(
                f"the table of {key!r} in {what} has shape {array.shape}; expected one axis, with "
                "one cell at least, for each of its features"
                + (" and one for the outputs" if n_more else "")
            )
        arrays[ordered] = array.transpose(*np.argsort(subset), *range(len(subset), array.ndim))
    return arrays


def _read_tensors(given: Any, output_names: Sequence[str] | None) -> dict[Subset, Array]:
    """Return the tensors, the last axis of which is that of the outputs."""
    tensors = _read_tables("tensors", given, n_more=int(output_names is not None))
    for subset, array in tensors.items():
        if not np.all(np.isfinite(array)):
            raise InvalidInputError(f"the table of {subset} contains NaN or infinite values")
    if output_names is None:
        return {subset: array[..., None] for subset, array in tensors.items()}
    outputs = {array.shape[-1] for array in tensors.values()}
    if len(outputs) > 1:
        raise InvalidInputError(
            f"the tables in tensors have different numbers of outputs: {sorted(outputs)}"
        )
    return tensors


def _read_intercept(intercept: Any, n_outputs: int) -> Array:
    values = read_numbers("intercept", intercept)
    if values.shape not in ((), (1,), (n_outputs,)) or not np.all(np.isfinite(values)):
        raise InvalidInputError(
            f"intercept must be one finite number, or one for each of {n_outputs} outputs; got "
            f"{brief(intercept)}"
        )
    return np.broadcast_to(values, (n_outputs,)).copy()


def _grid(arrays: dict[Subset, Array], weights: Any, feature_names: Sequence[str] | None) -> Grid:
    """Return categorical axes of as many cells as the tables have."""
    sizes: dict[int, int] = {}
    for subset, array in arrays.items():
        for j, size in zip(subset, array.shape[:-1], strict=True):
            if sizes.setdefault(j, size) != size:
                raise InvalidInputError(
                    f"feature {j} has {sizes[j]} values in one table of tensors, but {size} in "
                    "another"
                )
    n_features = max(sizes) + 1
    names: Sequence[str] = ()
    if feature_names is not None:
        names = read_names("feature_names", feature_names)
        if len(names) < n_features:
            raise InvalidInputError(
                f"{len(names)} names for {n_features} features; pass one name for each"
            )
        n_features = len(names)
    if not isinstance(weights, str | Mapping):
        shape = read_numbers("weights", weights, _MASSES).shape
        n_features = max(n_features, len(shape))
        sizes = dict(enumerate(shape)) | sizes
    names = names or [f"x{j}" for j in range(n_features)]
    specs = tuple(
        FeatureSpec(names[j], "categorical", n_codes=sizes.get(j, 1)) for j in range(n_features)
    )
    axes = tuple(
        FeatureAxis(spec.name, None, categories=tuple(range(spec.n_codes))) for spec in specs
    )
    return Grid(axes, specs, match_names=feature_names is not None)


def _mass(weights: Any, grid: Grid, subsets: list[Subset]) -> tuple[MassTables, str]:
    """Return the mass of each table, and words for the distribution."""
    if isinstance(weights, Mapping):
        return _margins(weights, grid, subsets), "given tables"
    if isinstance(weights, str) and weights != "uniform":
        raise InvalidInputError(f"weights must {_MASSES}, got {weights!r}")
    weighting: Weighting = Uniform() if isinstance(weights, str) else JointTable(weights)
    return weighting.tables(grid, None, subsets), weighting.describe()


def _margins(weights: Tensors, grid: Grid, subsets: list[Subset]) -> MassTables:
    """Return the margins of the tables on the subsets; the tables must agree on them."""
    masses: MassTables = {}
    for subset, array in _read_tables("weights", weights).items():
        if subset[-1] >= grid.n_features or array.shape != grid.shape(subset):
            raise InvalidInputError(
                "weights must have one table for each set of features in tensors, of the same "
                f"numbers of cells; got a table of {subset} of shape {array.shape}"
            )
        masses[subset] = normalised(array, f"the weights of {subset}")
    holders = {j: {source for source in masses if j in source} for j in range(grid.n_features)}
    tables: MassTables = {}
    for subset in sorted({*subsets, *masses}, key=_by_size):
        around = sorted(set.intersection(*(holders[j] for j in subset)), key=_by_size)
        if not around:
            raise InvalidInputError(
                f"weights has no table that contains the features {subset}; pass one"
            )
        tables[subset] = _margin(masses, around[0], subset)
        for source in around[1:]:
            difference = np.max(np.abs(_margin(masses, source, subset) - tables[subset]))
            if difference > _SAME_MASS * np.max(tables[subset]):
                raise InvalidInputError(
                    f"the weights of {around[0]} and of {source} do not agree on the distribution "
                    f"of {subset}: scaled to a total of one, they differ by up to "
                    f"{difference:.3g}. Sum both from the same table; a table whose features are "
                    "all in a larger table can be left out"
                )
    return {subset: tables[subset] for subset in subsets}


def _by_size(subset: Subset) -> tuple[int, Subset]:
    return len(subset), subset


def _margin(masses: MassTables, source: Subset, subset: Subset) -> Array:
    dropped = tuple(i for i, j in enumerate(source) if j not in subset)
    return np.asarray(masses[source].sum(axis=dropped))
