"""H-statistics: exact from the terms of partial dependence, for trees on all rows.

Their purified counterparts are shares of variance under independent features.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_flag, check_whole
from treepurify.budget import DEFAULT_BUDGET, check_memory_budget
from treepurify.effects.conditional import occurring_subsets
from treepurify.engines.common.functions import parsed_or_none, rows_for_model
from treepurify.engines.common.inputs import check_order_fits
from treepurify.engines.tree.closed_form import pure_tables
from treepurify.engines.tree.independent_leaves import independent_leaves
from treepurify.engines.tree.purify import purify
from treepurify.engines.tree.second_moments import MOST_PAIRS, InteractionIndices, leaf_indices
from treepurify.errors import InvalidInputError, MemoryBudgetError
from treepurify.grids.grid import Subset, mean_over_cells
from treepurify.html_summary import html_summary
from treepurify.interactions.h_statistics_effects import (
    HProblem,
    called_effects,
    compared_with_library,
    parsed_effects,
)
from treepurify.interactions.indices import indices_of_effects
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.progress import progress_report
from treepurify.rows.given_rows import FEW_SAMPLED_ROWS
from treepurify.rows.reduction import rows_in_memory
from treepurify.rows.row_weights import read_row_weights
from treepurify.rows.table_reader import check_known_categories
from treepurify.typing import Array
from treepurify.weights import Weighting, as_weighting
from treepurify.weights.distributions import outer_product

if TYPE_CHECKING:
    import pandas as pd

_ROWS_OF_A_FUNCTION = 500
# Below this share of the model's variance a denominator is too small to divide by.
_SMALL_SHARE = 0.01

_PAIR = 2


@dataclass(frozen=True, eq=False)
class Interaction:
    """One interaction; every field has one number per output.

    Parameters
    ----------
    features : tuple of int
        One feature (with all others), or two and more; empty for all interactions together.
    numerator : ndarray of float64, shape (n_outputs,)
        Mean square of the interaction effect over the rows, on the squared scale of the model.
    denominator : ndarray of float64, shape (n_outputs,)
        Mean square of the effect that it is a part of.
    purified : ndarray of float64, shape (n_outputs,)
        The share of variance for independent features; NaN if it was not computed.
    """

    features: Subset
    numerator: Array
    denominator: Array
    purified: Array

    @property
    def numbers(self) -> Array:
        """All three arrays of numbers, shape (3, n_outputs)."""
        return np.stack([self.numerator, self.denominator, self.purified])

    @property
    def h_squared(self) -> Array:
        """The ratio of the two; zero if both are zero."""
        positive = self.denominator > 0
        ratio = self.numerator / np.where(positive, self.denominator, 1.0)
        return np.where(positive, ratio, np.where(self.numerator > 0, np.nan, 0.0))


@dataclass(frozen=True, eq=False, repr=False)
class HStatistics:
    """Friedman's and Popescu's H-statistics of a model.

    Every table has the columns ``h_squared`` (the share of the squared effect that is
    interaction), ``h`` (its root), ``strength`` (root mean square of the interaction effect
    itself, on the scale of the model, not divided by anything), ``denominator``,
    ``purified_share`` (the same share for independent features, which lies between 0 and
    1) and ``unstable``: whether ``h_squared`` exceeds 1 or its denominator is below 1% of the
    model's variance, so that ``strength`` should be used instead.

    Parameters
    ----------
    interactions : mapping of tuple of int to Interaction
        By features.
    variance : ndarray of float64, shape (n_outputs,)
        Variance of the model over the rows, in squared units of the margin or of the function.
    feature_names, output_names : tuple of str
        Names.
    measure : str
        The rows over which the partial dependence was averaged, in words.
    diagnostics : mapping of str to object
        Details of the computation.
    left_out : str
        The reason why the purified shares of pairs were not computed; empty if they were.

    See Also
    --------
    treepurify.h_statistics : Computes them.
    treepurify.plots.h_statistics : Figure of them.
    """

    interactions: Mapping[Subset, Interaction]
    variance: Array
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]
    measure: str
    diagnostics: Mapping[str, Any]
    left_out: str = ""

    def __repr__(self) -> str:
        """Return the share of all interactions and the strongest pairs."""
        total = ", ".join(f"{value:.3g}" for value in self.interactions[()].h_squared)
        pairs = self.pairs().head(3)
        shown = [
            f"{row.first} & {row.second} {row.strength:.3g} (H² {row.h_squared:.3g})"
            for row in pairs.itertuples()
        ]
        return (
            f"H-statistics: interactions have {total} of the variance; strongest pairs, by root "
            f"mean square: {', '.join(shown) or 'none'}; distribution: {self.measure}"
            f"{self._left_out}"
        )

    def _repr_html_(self) -> str:
        line = f"H-statistics; distribution: {self.measure}{self._left_out}"
        return html_summary([line], self.overall(), self.features(), self.pairs())

    @property
    def _left_out(self) -> str:
        return f"; purified_share of pairs not computed: {self.left_out}" if self.left_out else ""

    def overall(self) -> "pd.DataFrame":
        """Return how much of the model is not a sum of main effects, one row per output."""
        return self._frame(0, [])

    def features(self) -> "pd.DataFrame":
        """Return how much each feature interacts with all others, the strongest first."""
        return self._frame(1, ["feature"])

    def pairs(self) -> "pd.DataFrame":
        """Return how much the effect of two features is interaction, the strongest first."""
        return self._frame(2, ["first", "second"])

    def triples(self) -> "pd.DataFrame":
        """Return the interactions of three features, the strongest first."""
        return self._frame(3, ["first", "second", "third"])

    def sets(self, size: int) -> "pd.DataFrame":
        """Return the interactions of `size` features, named in columns 1, 2, ...; strongest first.

        Raises
        ------
        InvalidInputError
            If `size` is less than two.
        """
        check_whole("size", size, 2)
        return self._frame(size, [f"feature {k + 1}" for k in range(size)])

    def _frame(self, size: int, columns: list[str]) -> "pd.DataFrame":
        import pandas as pd

        rows = []
        entries: dict[bytes, list[dict[str, Any]]] = {}
        for subset in filter(lambda subset: len(subset) == size, self.interactions):
            interaction = self.interactions[subset]
            numbers = interaction.numbers.tobytes()  # equal for all features that are not used
            if numbers not in entries:
                outputs = enumerate(self.output_names)
                entries[numbers] = [
                    {"output": o} | self._entries(interaction, k) for k, o in outputs
                ]
            names = dict(zip(columns, (self.feature_names[j] for j in subset), strict=True))
            rows += [names | entry for entry in entries[numbers]]
        measured = ["h_squared", "h", "strength", "denominator", "purified_share", "unstable"]
        of_output = ["output"] if len(self.output_names) > 1 else []
        frame = pd.DataFrame(rows, columns=[*columns, *of_output, *measured])
        frame = frame.sort_values("strength", ascending=False, kind="stable")
        return frame.reset_index(drop=True)

    def _entries(self, interaction: Interaction, k: int) -> dict[str, Any]:
        squared = float(interaction.h_squared[k])
        small = interaction.denominator[k] < _SMALL_SHARE * self.variance[k]
        return {
            "h_squared": squared,
            "h": float(np.sqrt(squared)),
            "strength": float(np.sqrt(interaction.numerator[k])),
            "denominator": float(interaction.denominator[k]),
            "purified_share": float(interaction.purified[k]),
            "unstable": bool(interaction.numerator[k] > 0 and (squared > 1 or small)),
        }


def h_statistics(
    model: Any,
    X: Any,
    *,
    order: int = 2,
    weights: str | Weighting = "independent",
    sample_weight: npt.ArrayLike | str | None = None,
    feature_names: Sequence[str] | None = None,
    sample_size: int = _ROWS_OF_A_FUNCTION,
    seed: int = 0,
    purified: bool = True,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> HStatistics:
    r"""Return H-statistics: how much of the effect of a feature, pair or triple is interaction.

    The statistics are ratios of sums over the rows, of partial dependence functions ``PD`` and of
    the model ``f``, all centred over the rows (Friedman and Popescu 2008, equations 44 to 46):

    * a pair: ``H² = Σ (PD_jk - PD_j - PD_k)² / Σ PD_jk²``;
    * a feature with all others: ``H² = Σ (f - PD_j - PD_(without j))² / Σ f²``;
    * three features: ``H² = Σ (PD_jkl - PD_jk - PD_jl - PD_kl + PD_j + PD_k + PD_l)² / Σ PD_jkl²``,
      and likewise for more;
    * all interactions together: ``H² = Σ (f - Σ_j PD_j)² / Σ f²``.

    The numerators are the terms of `partial_dependence_anova`. For tree ensembles and EBMs the
    numbers are exact, for all rows and all pairs. A function is called on every pair of rows of a
    sample, as in the definition.

    If features depend on each other, the ratios can exceed one. ``purified_share`` is the
    same share if features were independent (from their functional ANOVA): a share of variance, so
    it lies between 0 and 1. ``diagnostics["purified"]`` says whether its variances are
    exact, and has their standard errors if they were sampled, for a very large model. Both numbers
    use the model at combinations that the rows may not contain;
    ``diagnostics["extrapolation"]`` says how many.

    Parameters
    ----------
    model : object, str, Path or callable
        A model that `parse_model` knows (on its margin scale), an object with ``predict``, or
        a function X -> (n_rows,) or (n_rows, n_outputs).
    X : array_like, table of shape (n_rows, n_features), or rows in batches
        The rows, which are also the background. For rows in batches, as in `purify`, a
        weighted sample of at most 20 000 is used; ``diagnostics["stream"]`` says so.
    order : int
        Largest number of features of an interaction, at least two. Interactions of k features need
        those of all their subsets, ``2**k`` in total.
    weights : {"independent", "uniform"} or Weighting
        The independent distribution for ``purified_share``: each feature distributed as in
        the rows, or uniformly, as textbooks define the functional ANOVA.
    sample_weight : array_like of shape (n_rows,), optional
        Weight of each row, finite and not negative. Rows of weight zero change nothing. For rows
        in batches, the name of the column of weights.
    feature_names : sequence of str, optional
        Names of the features, in the order of the model.
    sample_size : int
        Largest number of rows on which a function is evaluated, drawn at random in proportion to
        their weights.
    seed : int
        Seed of the sample.
    purified : bool
        Whether to compute the shares under independent features; for tree ensembles and EBMs.
        If the tables of pairs of a very deep ensemble exceed `memory_budget`, the shares of pairs
        are NaN, and ``left_out`` of the result says why.
    memory_budget : int
        Bytes that tables may take; more is refused before it is allocated.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    HStatistics
        ``h_squared`` is a share; ``strength`` is on the margin scale for parsed models, else on
        the scale of the function.

    Raises
    ------
    InvalidInputError
        If the rows or an option cannot be used.
    MemoryBudgetError
        If the values would take too much memory.

    See Also
    --------
    interaction_indices : Variances by order and by pair, for independent features.
    partial_dependence_anova : Partial dependence of any order, for any function.
    treepurify.plots.h_statistics : H-statistics as bars.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> h = tp.h_statistics(DecisionTreeRegressor().fit(X, X.all(axis=1)), X)
    >>> h.pairs()[["first", "second", "h_squared", "purified_share"]]
      first second  h_squared  purified_share
    0    x0     x1   0.333333        0.333333
    """
    check_whole("order", order, 2)
    check_whole("sample_size", sample_size, 2)
    check_whole("seed", seed, 0)
    check_flag("purified", purified)
    weighting = as_weighting(weights)
    if not weighting.is_product:
        raise InvalidInputError(
            'purified=True needs independent features: use weights="independent" or "uniform", '
            f"not {weighting.describe()!r}"
        )
    check_memory_budget(memory_budget)
    report = progress_report(progress)
    sample = rows_for_model(
        model,
        X,
        feature_names,
        sample_weight,
        memory_budget,
        report,
        most=FEW_SAMPLED_ROWS,
        seed=seed,
    )
    X = sample.table
    parsed = parsed_or_none(model, feature_names, X)
    problem = HProblem(
        model,
        X,
        order,
        feature_names,
        sample.weights,
        sample_size,
        seed,
        weighting,
        memory_budget,
        report,
    )
    shares: dict[Subset, Array] = {}
    facts: dict[str, Any] = {}
    if parsed is None:
        effects = called_effects(problem)
    else:
        check_order_fits(order, parsed.n_features)
        kept, columns = _one_unused(parsed), parsed.columns(X)
        check_known_categories(columns)
        small, inner = parsed.of_features(kept), replace(problem, X=columns.of_features(kept))
        effects = compared_with_library(parsed_effects(inner, small), problem, parsed)
        if purified:
            shares, facts = _independent_shares(inner, small)
    unknown = np.full(len(effects.output_names), np.nan)
    interactions = {
        subset: Interaction(subset, *moments, shares.get(subset, unknown))
        for subset, moments in sorted(effects.moments.items(), key=lambda m: (len(m[0]), m[0]))
    }
    return HStatistics(
        interactions if parsed is None else _WithUnused.of(interactions, kept, parsed),
        effects.moments[()][1],
        effects.feature_names if parsed is None else parsed.feature_names,
        effects.output_names,
        f"{effects.measure}, {sample.words}" if sample.words else effects.measure,
        {**effects.diagnostics, "purified": facts, "seed": seed, **sample.facts},
        facts.get("left_out", ""),
    )


def _independent_shares(
    problem: HProblem, parsed: Model
) -> tuple[dict[Subset, Array], dict[str, Any]]:
    """Return the share of variance of each interaction when features are independent.

    Components are then uncorrelated, so every ratio of an H-statistic becomes a sum of their
    variances over another that contains it: it lies between 0 and 1.

    Returns
    -------
    shares : dict of tuple of int to ndarray, shape (n_outputs,)
        By subset; that of all interactions together under the empty one.
    facts : dict
        How the variances that the shares are parts of were computed, and their errors.
    """
    problem.report("purifying under independent features", 0, 0)
    left_out: dict[str, Any] = {}
    if isinstance(parsed, TreeEnsemble):
        variance, indices, left_out = _of_ensemble(problem, parsed)
    else:
        d = purify(
            parsed,
            problem.X,
            weights=problem.weighting,
            order=None,
            sample_weight=problem.sample_weight,
            memory_budget=problem.memory_budget,
            progress=False,
        )
        variance = {subset: component.variance for subset, component in d.components.items()}
        indices = indices_of_effects(d)
    whole, n_features = indices.variance, parsed.n_features
    zero = np.zeros_like(whole)
    mains = [variance.get((j,), zero) for j in range(n_features)]
    shares: dict[Subset, Array] = {(): _share(whole - sum(mains, zero), whole)}
    for j in range(n_features):
        shares[j,] = _share(indices.feature_total[:, j] - mains[j], whole)
    larger = [s for s in variance if len(s) > _PAIR]
    has_pairs = left_out.get("largest", _PAIR) >= _PAIR
    for subset in [*(combinations(range(n_features), _PAIR) if has_pairs else ()), *larger]:
        parts = (part for r in range(1, len(subset) + 1) for part in combinations(subset, r))
        joint = sum((variance[part] for part in parts if part in variance), zero)
        shares[subset] = _share(variance.get(subset, zero), joint)
    facts = {
        "measure": indices.measure,
        "method": indices.method,
        "sampled_rows": indices.sampled_rows,
        "variance_standard_error": indices.variance_standard_error.tolist(),
        "feature_standard_error": indices.feature_standard_error.tolist(),
    }
    return shares, facts | left_out


def _of_ensemble(
    problem: HProblem, parsed: TreeEnsemble
) -> tuple[dict[Subset, Array], InteractionIndices, dict[str, Any]]:
    """Return the variances of components of low order, the indices, and what was left out."""
    columns = parsed.columns(problem.X)
    rows = rows_in_memory(columns, read_row_weights(problem.sample_weight, columns.n_rows))
    leaves = independent_leaves(parsed, rows, problem.weighting, problem.report)
    variance, left_out = {}, {}
    for size in range(1, problem.order + 1):
        occurring = occurring_subsets(leaves.boxes, size, parsed.n_features)
        try:
            tables = pure_tables(leaves, occurring, problem.memory_budget)
        except MemoryBudgetError as error:
            # The statistics themselves need no such tables.
            if size == 1:
                raise
            left_out = {"largest": size - 1, "left_out": str(error).split(". ")[0]}
            break
        for subset, values in tables.items():
            mass = outer_product([leaves.margins[j] for j in subset])
            variance[subset] = mean_over_cells(mass, values**2)
    indices = leaf_indices(
        leaves,
        problem.weighting.describe(),
        most_pairs=MOST_PAIRS,
        seed=0,
        report=problem.report,
        memory_budget=problem.memory_budget,
    )
    return variance, indices, left_out


def _share(part: Array, whole: Array) -> Array:
    """Return the ratio, kept from leaving [0, 1] by rounding; zero over zero."""
    ratio = part / np.where(whole > 0, whole, 1.0)
    return np.clip(np.where(whole > 0, ratio, 0.0), 0.0, 1.0)


def _one_unused(model: Model) -> Subset:
    """Return the features that a model uses, and one that it does not use, if there is one."""
    unused = set(range(model.n_features)).difference(model.used_features)
    return tuple(sorted([*model.used_features, *sorted(unused)[:1]]))


@dataclass(frozen=True, eq=False)
class _WithUnused(Mapping[Subset, Interaction]):
    """The interactions of all features, of which those not used are like one of them.

    Parameters
    ----------
    measured : dict of tuple of int to Interaction
        Those of the features that the model uses, and of one that it does not use.
    unused : tuple of int
        The features that the model does not use, the measured one first.
    n_features : int
        Number of features.
    """

    measured: dict[Subset, Interaction]
    unused: Subset
    n_features: int

    @staticmethod
    def of(measured: Mapping[Subset, Interaction], kept: Subset, model: Model) -> "_WithUnused":
        """Return the interactions of a model, of which those at the `kept` features were found."""
        renamed = {}
        for subset, interaction in measured.items():
            features = tuple(kept[j] for j in subset)
            renamed[features] = replace(interaction, features=features)
        unused = sorted(set(range(model.n_features)).difference(model.used_features))
        return _WithUnused(renamed, tuple(unused), model.n_features)

    def __getitem__(self, subset: Subset) -> Interaction:
        """Return one interaction."""
        if subset in self.measured:
            return self.measured[subset]
        used = [j for j in subset if j not in self._unused]
        in_order = list(subset) == sorted(set(subset)) and len(subset) <= _PAIR
        if (
            not in_order
            or len(used) == len(subset)
            or not 0 <= subset[0] <= subset[-1] < self.n_features
        ):
            raise KeyError(subset)
        if len(subset) == _PAIR and not used:
            return replace(self._nothing, features=subset)
        return replace(self.measured[tuple(sorted([*used, self.unused[0]]))], features=subset)

    @cached_property
    def _unused(self) -> frozenset[int]:
        return frozenset(self.unused)

    @cached_property
    def _nothing(self) -> Interaction:
        """The interaction of two features neither of which is used."""
        alone = self.measured[self.unused[:1]]
        zero = np.zeros_like(alone.denominator)
        return replace(alone, numerator=zero, denominator=zero)

    def __iter__(self) -> Iterator[Subset]:
        """Iterate over all subsets, by size and features."""
        features = range(self.n_features)
        return chain(
            [()],
            ((j,) for j in features),
            combinations(features, _PAIR),
            (subset for subset in self.measured if len(subset) > _PAIR),
        )

    def __len__(self) -> int:
        """Return the number of subsets."""
        return sum(1 for _ in self)
