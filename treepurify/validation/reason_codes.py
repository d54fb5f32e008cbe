"""Why a row lies above or below a reference population: exact, in a few ranked reasons."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import brief, check_choice, check_number, check_whole
from treepurify.budget import DEFAULT_BUDGET, check_budget, check_memory_budget
from treepurify.decomposition import Decomposition
from treepurify.engines.common.functions import features_read
from treepurify.errors import InvalidInputError
from treepurify.progress import ProgressReport, progress_report
from treepurify.rows.columns import Columns
from treepurify.rows.given_rows import GivenRows, given_rows
from treepurify.rows.row_weights import read_row_weights, row_shares
from treepurify.rows.table_reader import check_distribution
from treepurify.rows.tables import row_labels
from treepurify.typing import Array
from treepurify.validation.explained import (
    ExplainedOutput,
    explained,
    spread_trainings,
)
from treepurify.validation.reason_groups import DIRECTIONS, ReasonGroups, read_groups
from treepurify.validation.reasons import Adverse, RankedReasons, ReasonCodes, rank_reasons

__all__ = ["reason_codes"]

# Contributions of this share of the largest margin are rounding.
_ROUNDING = 1e-12


def reason_codes(  # noqa: PLR0913 - what is explained, against whom, in which words, how sure
    model: Any,
    X: Any,
    *,
    reference: Any,
    adverse: Adverse = "high",
    top: int = 4,
    groups: Mapping[str, Sequence[str]] | None = None,
    texts: Mapping[str, Any] | None = None,
    output: int | str = 0,
    refits: Sequence[Any] | None = None,
    closeness: float = 0.01,
    feature_names: Sequence[str] | None = None,
    sample_weight: npt.ArrayLike | str | None = None,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> ReasonCodes:
    r"""Explain by ranked reasons why rows lie above or below a reference population.

    A reason is a feature, or a group of features, whose interventional Shapley value against the
    reference is adverse. The value of a set T of groups is the mean of ``f(x_T, r_rest)`` over the
    reference rows r: the mean prediction for the reference after the features in T have been
    replaced by those of the row. A group is one player, so its value includes all interactions
    between its features. Values are exact, on the margin scale, and do not depend on ``weights=``
    of `purify`. For tables they have a closed form, for a pair of features of different groups
    ``phi_j = 1/2 [f(x_j, x_k) - E f(R_j, x_k) + E f(x_j, R_k) - E f(R_j, R_k)]``. For deeper trees
    see `interventional_shapley_values`.

    Reasons are ranked by the size of their contribution. Contributions that differ only by rounding
    (1e-12 of the largest margin) count as equal and are in the order of the features.

    Parameters
    ----------
    model : object, str, Path, callable or Decomposition
        A model that `parse_model` knows (on its margin scale), an object with ``predict``, a
        function X -> (n_rows,) or (n_rows, n_outputs), or a decomposition of one, edited or not.
    X : array_like or table of shape (n_rows, n_features)
        The rows to explain.
    reference : array_like or table of shape (n_reference, n_features), or rows in batches
        The reference population, such as all approved applicants, all rows, or one row. If rows
        come in batches and there are more than 100 000, a sample is drawn, and the result says so.
    adverse : {"high", "low"}
        Whether high or low margins are adverse: ``"high"`` for a probability of default.
    top : int
        Largest number of reasons of a row.
    groups : mapping of str to sequence of str, optional
        The features of each group, such as ``{"payment history": ["late", "defaults"]}``.
        Features without a group are reasons by themselves.
    texts : mapping of str to (str or mapping of str to str), optional
        The text for each group or feature: one text, or a mapping with ``"high"`` (if it raises the
        margin) and ``"low"``. By default the name.
    output : int or str
        The output, by position or name.
    refits : sequence of object, optional
        Other trainings of the model, such as `refit` returns, to count how many of them show the
        same reason. By default those of `model`, if it is a decomposition of several trainings
        without a remainder; ``()`` for none.
    closeness : float
        The choice of reasons for a row is close if the last reason shown exceeds the next one (or
        zero, if there is none) by less than this share of the sum of adverse contributions.
    feature_names : sequence of str, optional
        Names of the features, in the order of the model.
    sample_weight : array_like of shape (n_reference,), or str, optional
        Weight of each row, finite and not negative. The rows are those of `reference`; for rows in
        batches, the name of the column of weights.
    memory_budget : int
        Bytes that values and tables may take.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    ReasonCodes
        ``table()`` has one line per row and reason; ``sums()`` has one line per row, in which the
        parts sum to the difference between the margin of the row and the mean margin of the
        reference.

    Raises
    ------
    InvalidInputError
        If an argument, the rows or the reference cannot be used, or if a function would have to
        be called with too many rows.
    MemoryBudgetError
        If values or tables would not fit.

    See Also
    --------
    interventional_shapley_values : Shapley values against background rows.
    treepurify.plots.waterfall : The prediction of one row, effect by effect.

    References
    ----------
    Lundberg et al. (2020), "From local explanations to global understanding with explainable AI for
    trees", Nature Machine Intelligence 2, for the game.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> model = DecisionTreeRegressor().fit(X, [0, 0, 0, 1])
    >>> found = tp.reason_codes(model, X[3:], reference=X, texts={"x0": "Many late payments"})
    >>> found.table()[["reason", "text", "contribution"]]
      reason                text  contribution
    0     x0  Many late payments         0.375
    1     x1                  x1         0.375
    """
    check_memory_budget(memory_budget)
    check_choice("adverse", adverse, DIRECTIONS)
    check_whole("top", top, least=1)
    check_number("closeness", closeness, least=0, most=1)
    report = progress_report(progress)
    reader = _RowReader(model, feature_names, memory_budget, report)
    population = reader.population(reference, sample_weight)
    function = explained(model, population.table, output, feature_names, memory_budget)
    stated = read_groups(groups, texts, function.feature_names)
    trainings = _trainings(model, function, refits, population, feature_names, memory_budget)
    sign = 1.0 if adverse == "high" else -1.0
    game = _Game(reader.rows(X), stated, sign, top, memory_budget, report)
    own = game.play(function, population)
    check_budget(
        8 * (len(trainings) + 4) * own.values.size,
        memory_budget,
        f"the reasons of {own.columns.n_rows} rows in {len(trainings)} trainings",
        "Pass fewer rows at a time.",
    )
    in_trainings = [game.play(training, population) for training in trainings]
    words = f"{own.n_reference} reference rows"
    return ReasonCodes(
        values=own.values,
        margins=own.margins,
        reference_margin=own.reference_margin,
        ranked=own.ranked,
        groups=stated,
        adverse=adverse,
        closeness=closeness,
        output=function.output_names[function.output],
        reference=f"{words} ({population.words})" if population.words else words,
        columns=own.columns,
        index=row_labels(X),
        training_values=np.stack([one.values for one in in_trainings]) if in_trainings else None,
        in_trainings=_share_shown(in_trainings) if in_trainings else None,
    )


def _share_shown(trainings: "Sequence[_Played]") -> Array:
    """Return the share of the trainings that show each group, shape (n_rows, n_groups)."""
    return np.asarray(np.mean([one.ranked.shown for one in trainings], axis=0))


@dataclass(frozen=True, eq=False)
class _RowReader:
    """Reads what a caller passed for rows as a table: of rows in batches a sample."""

    model: Any
    feature_names: Sequence[str] | None
    memory_budget: int
    report: ProgressReport

    def population(self, X: Any, sample_weight: Any = None) -> GivenRows:
        """Return the rows of a reference population."""
        features = features_read(self.model, X, self.feature_names)
        return given_rows(X, features, sample_weight, (), self.memory_budget, self.report)

    def rows(self, X: Any) -> Any:
        """Return the rows to explain, all of them."""
        found = self.population(X)
        if found.words:
            raise InvalidInputError(
                "X has too many rows in batches to explain each of them: pass one table at a time"
            )
        return found.table


def _trainings(
    model: Any,
    function: ExplainedOutput,
    refits: Any,
    population: GivenRows,
    feature_names: Sequence[str] | None,
    memory_budget: int,
) -> list[ExplainedOutput]:
    """Return other trainings of what is explained."""
    if refits is None:
        of_spread = isinstance(model, Decomposition)
        return spread_trainings(model, function.output) if of_spread else []
    if not isinstance(refits, Sequence) or isinstance(refits, str):
        raise InvalidInputError(
            "refits must be a list of trained models, such as the list that tp.refit returns; got "
            f"{brief(refits)}"
        )
    if len(refits) == 1:
        raise InvalidInputError(
            "refits needs at least two models to show how trainings differ; got one"
        )
    trainings = []
    for refit in refits:
        read = explained(refit, population.table, function.output, feature_names, memory_budget)
        if read.feature_names != function.feature_names:
            raise InvalidInputError(
                "refits must have the same features as the model, in the same order: "
                f"{brief(function.feature_names)}; got {brief(read.feature_names)}"
            )
        trainings.append(read)
    return trainings


@dataclass(frozen=True, eq=False)
class _Played:
    """The values of all groups for one function and one reference population."""

    columns: Columns
    n_reference: int
    values: Array
    margins: Array
    reference_margin: float
    ranked: RankedReasons


@dataclass(frozen=True, eq=False)
class _Game:
    """The rows to explain and the players, whatever is explained and against whom."""

    X: Any
    groups: ReasonGroups
    sign: float
    top: int
    memory_budget: int
    report: ProgressReport

    def play(self, function: ExplainedOutput, population: GivenRows) -> _Played:
        """Return the values of all groups."""
        columns = function.columns(self.X)
        reference = function.columns(population.table)
        check_distribution(reference, "rows of the reference population", "reference")
        weights = read_row_weights(population.weights, reference.n_rows)
        shares = row_shares(reference.n_rows, weights)
        values = function.values(
            columns,
            reference,
            shares,
            self.groups.group_of_feature,
            self.memory_budget,
            self.report,
        )
        margins, of_reference = function.margins(columns), function.margins(reference)
        sizes = (margins, of_reference, values)
        tolerance = _ROUNDING * max(float(np.abs(one).max(initial=0.0)) for one in sizes)
        return _Played(
            columns,
            reference.n_rows,
            values,
            margins,
            float(shares @ of_reference),
            rank_reasons(self.sign * values, self.top, tolerance),
        )
