"""Shapley Sets of a tree model or of any function."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from treepurify.arguments import check_choice, check_number, check_result, check_whole, read_numbers
from treepurify.budget import DEFAULT_BUDGET, check_budget
from treepurify.engines.common.functions import rows_for_model
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Subset
from treepurify.grouping.counted_function import CountedFunction, as_function
from treepurify.grouping.recursive import Grouping, group_recursively, mixing_test, value_test
from treepurify.grouping.sets import Sampling, ShapleySets, read_groups
from treepurify.grouping.strengths import InteractionStrengths, connected_groups
from treepurify.grouping.value_functions import (
    GaussianValue,
    ValueFunction,
    gaussian_value,
    reference_value,
)
from treepurify.interactions.indices import interaction_indices
from treepurify.models.ensemble import TreeEnsemble
from treepurify.progress import ProgressReport, progress_report
from treepurify.rows.given_rows import FEW_SAMPLED_ROWS
from treepurify.typing import Array

Value = Literal["marginal", "mean", "baseline", "conditional"]
Method = Literal["auto", "recursive", "index"]

# Weaker interactions are mostly what boosting leaves behind between features that do not interact:
# at this share the blocks of known functions come out at depths 3 and 6.
_SHARE = 0.0125
# Rows, what they are exchanged with, the mixture, its copy for the model, and values.
_TABLES_OF_DRAWS = 6
# Draws of absent features are rounded themselves, before the function is.
_ROUNDED_DRAWS = 1e-9


@dataclass(frozen=True, eq=False)
class _FoundGroups:
    """Groups and what is known about them."""

    groups: tuple[Subset, ...]
    method: str
    strengths: InteractionStrengths | None = None
    grouping: Grouping | None = None
    tolerance: object = None


def shapley_sets(  # noqa: PLR0913 - what all engines take, and how groups are found
    model: Any,
    X: Any,
    x: Any = None,
    *,
    value: Value = "marginal",
    method: Method = "auto",
    groups: Any = None,
    baseline: Any = None,
    tolerance: float | Literal["auto"] = "auto",
    sampling: Sampling | None = None,
    feature_names: Sequence[str] | None = None,
    seed: int = 0,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> ShapleySets:
    """Group features that interact, and value each group.

    A Shapley value splits an interaction evenly among features, which may have opposite
    effects. Shapley Sets (Sivill and Flach 2023) do not split it: features are divided into groups
    such that the function is a sum over the groups. The value of a group is the change of the
    prediction when only its features are added; for such groups this is also the Shapley value.

    Parameters
    ----------
    model : object, str, Path or callable
        A model that `parse_model` knows (on its margin scale), an object with ``predict``, or
        a function X -> (n_rows,) or (n_rows, n_outputs).
    X : array_like, table of shape (n_rows, n_features), or rows in batches
        Rows that represent the data. For rows in batches, as in `purify`, a sample of
        20 000 is drawn, in two passes; ``diagnostics["stream"]`` says so.
    x : array_like or table of shape (n_explained, n_features), optional
        Rows to value the groups for.
    value : {"marginal", "mean", "baseline", "conditional"}
        How absent features are replaced. ``"marginal"``: by each row of `X`, averaged;
        ``"mean"``: by the means of the columns, the paper's equation 2; ``"baseline"``: by the row
        `baseline`, equation 3; ``"conditional"``: by draws given the present features, as if all
        were normal, equation 4.
    method : {"auto", "recursive", "index"}
        ``"recursive"``: the paper's search, with probes from `X`. ``"index"``, for tree
        ensembles and EBMs: pairs whose share of the variance exceeds the tolerance. ``"auto"``:
        ``"index"`` for a tree ensemble, because boosting leaves weak interactions between almost
        all features, else ``"recursive"``. With conditional values, features that depend on each
        other in the data are also put in the same group: ``"recursive"`` finds them by the values,
        and ``"index"`` tests correlations.
    groups : sequence, optional
        Groups given by name or position, so that none are searched.
    baseline : array_like of shape (n_features,), optional
        The row for ``value="baseline"``, in the form of `X`.
    tolerance : float or "auto"
        Largest interaction that counts as none. For ``"recursive"``: a
        departure from a sum, on the scale of the values; ``"auto"`` is what rounding can explain.
        For ``"index"``: a share of the variance; ``"auto"`` is 0.0125.
    sampling : options.Sampling, optional
        The numbers of probes and draws.
    feature_names : sequence of str, optional
        Names of the features, in the order of the model.
    seed : int
        Seed of all draws.
    memory_budget : int
        Bytes that tables may take; more is refused before it is allocated.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    ShapleySets
        Its remainder is the interaction between the groups, row by row. On the margin scale
        for parsed models, else on the scale of the function.

    Raises
    ------
    InvalidInputError
        If rows, options or groups cannot be used.
    MemoryBudgetError
        If the samples of `sampling` would take too much memory.
    UnsupportedModelError
        If a model cannot be parsed exactly.

    See Also
    --------
    interaction_indices : Variances by order and by pair, for independent features.
    Decomposition.shapley_values : Effects split among their features, on each row.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> def f(X):
    ...     return X[:, 0] + 2 * X[:, 1] * X[:, 2]
    >>> sets = tp.shapley_sets(f, X, [[1, 1, 1]], value="baseline", baseline=[[0, 0, 0]])
    >>> sets.groups
    ((0,), (1, 2))
    >>> sets.values[0, :, 0]
    array([1., 2.])
    """
    sampling = Sampling() if sampling is None else sampling
    check_result("sampling", sampling, Sampling, "tp.options.Sampling(...)")
    _check_options(value, method, tolerance, seed)
    report = progress_report(progress)
    sample = rows_for_model(
        model, X, feature_names, None, memory_budget, report, most=FEW_SAMPLED_ROWS, seed=seed
    )
    X = sample.table
    function = as_function(model, X, feature_names)
    rows = function.read(X)
    _check_memory(sampling, function.n_features, memory_budget)
    rng = np.random.default_rng(seed)
    worth = _value_function(function, rows, value, baseline, sampling, rng)
    before = function.rows_evaluated
    if groups is not None:
        grouped = _FoundGroups(read_groups(groups, function.feature_names), "given")
    else:
        search = _GroupSearch(
            function, X, rows, worth, tolerance, sampling, memory_budget, rng, report
        )
        grouped = search.run(method)
    grouping_rows = function.rows_evaluated - before
    values, remainder = None, None
    if x is not None:
        values, remainder = _valued(function, worth, grouped.groups, function.read(x), report)
    return ShapleySets(
        grouped.groups,
        values,
        worth.base,
        remainder,
        function.feature_names,
        function.function.output_names,
        grouped.method,
        value,
        worth,
        grouped.strengths,
        grouped.tolerance if isinstance(grouped.tolerance, float) else None,
        {
            "tolerance": grouped.tolerance,
            "rows_evaluated_for_groups": grouping_rows,
            "rows_evaluated_in_all": function.rows_evaluated,
            "seed": seed,
            **sample.facts,
            **_facts(grouped.grouping),
        },
    )


def _check_options(value: str, method: str, tolerance: object, seed: object) -> None:
    for name, choice, known in (("value", value, Value), ("method", method, Method)):
        check_choice(name, choice, get_args(known))
    if not (isinstance(tolerance, str) and tolerance == "auto"):
        check_number("tolerance", tolerance, least=0, advice=' or "auto"')
    check_whole("seed", seed, 0)


def _one_row(baseline: Any) -> Any:
    """Return a baseline as a table of rows, where it is one row without a table around it."""
    if isinstance(baseline, list | tuple) or getattr(baseline, "ndim", 2) == 1:
        numbers = read_numbers("baseline", baseline, "be one row of numbers, in the form of X")
        return np.atleast_2d(numbers)
    return baseline


def _value_function(
    function: CountedFunction,
    rows: Array,
    value: Value,
    baseline: Any,
    sampling: Sampling,
    rng: np.random.Generator,
) -> ValueFunction:
    if (baseline is not None) != (value == "baseline"):
        raise InvalidInputError(
            'baseline goes with value="baseline" only: pass both, or neither of them'
        )
    if value == "baseline":
        reference = function.read(_one_row(baseline))
        if len(reference) != 1:
            raise InvalidInputError(f"baseline must be one row, got {len(reference)}")
        return reference_value(function, reference)
    if value == "marginal":
        return reference_value(function, rows)
    is_categorical = any(spec.is_categorical for spec in function.function.features)
    if is_categorical or not np.all(np.isfinite(rows)):
        raise InvalidInputError(
            f"value={value!r} needs columns of numbers without missing values, since it takes "
            'means. Use value="marginal" or "baseline".'
        )
    if value == "mean":
        return reference_value(function, rows.mean(axis=0, keepdims=True))
    return gaussian_value(function, rows, sampling.draws, rng)


def _check_memory(sampling: Sampling, n_features: int, memory_budget: int) -> None:
    """Refuse more draws than fit: rows, what they are exchanged with, and values."""
    most = max(sampling.probes, sampling.draws)
    check_budget(
        8 * _TABLES_OF_DRAWS * most * (n_features + 1),
        memory_budget,
        f"{most} draws of {n_features} features",
        "Pass a Sampling with fewer probes and draws.",
    )


@dataclass(frozen=True, eq=False)
class _GroupSearch:
    """What a search for groups works with."""

    function: CountedFunction
    X: Any
    rows: Array
    worth: ValueFunction
    tolerance: float | Literal["auto"]
    sampling: Sampling
    memory_budget: int
    rng: np.random.Generator
    report: ProgressReport

    def run(self, method: Method) -> _FoundGroups:
        """Return the groups by one of the methods."""
        is_tree = isinstance(self.function.model, TreeEnsemble)
        if method == "index" or (method == "auto" and is_tree):
            return self._index()
        return self._recursive()

    def _recursive(self) -> _FoundGroups:
        allowed = (0.0, 0.0 if self.tolerance == "auto" else float(self.tolerance) / 4)
        if self.tolerance == "auto":
            allowed = self.function.rounding(self.rows)
        if isinstance(self.worth, GaussianValue):
            if self.tolerance == "auto":
                allowed = (allowed[0] + _ROUNDED_DRAWS, allowed[1])
            test = value_test(self.worth, self.rows, self.sampling.probes, allowed, self.rng)
        else:
            test = mixing_test(self.function, self.rows, self.sampling.probes, allowed, self.rng)
        grouping = group_recursively(self.function.n_features, test, self.report)
        if self.tolerance == "auto":
            used: object = {"relative": allowed[0], "absolute": 4 * allowed[1]}
        else:
            used = float(self.tolerance)
        return _FoundGroups(grouping.groups, "recursive", grouping=grouping, tolerance=used)

    def _index(self) -> _FoundGroups:
        share = _SHARE if self.tolerance == "auto" else float(self.tolerance)
        strengths = self._strengths()
        groups = self._with_dependence(strengths.groups(share))
        return _FoundGroups(groups, "index", strengths, tolerance=share)

    def _strengths(self) -> InteractionStrengths:
        if self.function.model is None:
            raise InvalidInputError(
                'method="index" needs the trees or tables of a model, and got a function: use '
                'method="recursive"'
            )
        indices = interaction_indices(
            self.function.model, self.X, memory_budget=self.memory_budget, progress=False
        )
        variance = indices.variance[:, None, None]
        shares = np.divide(
            indices.pair_total,
            variance,
            out=np.zeros_like(indices.pair_total),
            where=variance > 0,
        )
        return InteractionStrengths(
            np.clip(shares.max(axis=0), 0.0, 1.0), self.function.feature_names, indices.measure
        )

    def _with_dependence(self, groups: tuple[Subset, ...]) -> tuple[Subset, ...]:
        """Join groups whose features depend on each other, where values are conditional."""
        if not isinstance(self.worth, GaussianValue):
            return groups
        parts = (*groups, *self.worth.blocks)
        edges = [(part[0], j) for part in parts for j in part[1:]]
        return connected_groups(self.function.n_features, edges)


def _valued(
    function: CountedFunction,
    worth: ValueFunction,
    groups: tuple[Subset, ...],
    rows: Array,
    report: ProgressReport,
) -> tuple[Array, Array]:
    """Return the worth of each group and what is missing to the prediction."""
    worths = []
    if len(rows) == 0:
        empty = np.zeros((0, len(groups), len(worth.base)))
        return empty, np.zeros((0, len(worth.base)))
    for number, group in enumerate(groups):
        report("evaluating groups", number, len(groups))
        worths.append(worth(rows, group))
    values = np.stack(worths, axis=1)
    return values, function(rows) - worth.base - values.sum(axis=1)


def _facts(grouping: Grouping | None) -> dict[str, Any]:
    if grouping is None:
        return {}
    return {
        "tests": grouping.tests,
        "same_groups_for_tolerances": (grouping.largest_additive, grouping.smallest_interaction),
    }
