"""Why a row lies above or below a reference population: exact, in a few ranked reasons."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify.arguments import (
    brief,
    check_choice,
    check_number,
    check_whole,
    read_names,
    read_output,
)
from treepurify.budget import DEFAULT_BUDGET, check_budget, check_memory_budget
from treepurify.components import TensorComponent, locate_cells
from treepurify.decomposition import Decomposition
from treepurify.engines.common.functions import (
    ParsedFunction,
    read_function,
    rows_for_model,
)
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Subset
from treepurify.models.additive_tables import AdditiveTables, term_cells
from treepurify.models.ensemble import TreeEnsemble
from treepurify.progress import ProgressReport, progress_report
from treepurify.remainder import Difference, SumOfParts
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import read_row_weights, row_shares
from treepurify.rows.table_reader import check_distribution
from treepurify.rows.tables import row_labels
from treepurify.shapley.coalitions import coalition_values
from treepurify.shapley.interventional import tree_values
from treepurify.shapley.table_values import table_values
from treepurify.terms import read_features
from treepurify.typing import Array, Indices, Integers
from treepurify.validation.reasons import (
    DIRECTIONS,
    Adverse,
    ReasonCodes,
    ReasonGroups,
    rank_reasons,
)

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
    ``phi_j = 1/2 [f(x_j, x_k) - E f(R_j, x_k) + E f(x_j, R_k) - E f(R_j, R_k)]``. For trees
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
    population, rows = (
        rows_for_model(model, table, feature_names, weight, memory_budget, report)
        for table, weight in ((reference, sample_weight), (X, None))
    )
    if rows.words:
        raise InvalidInputError(
            "X has too many rows in batches to explain each of them: pass one table at a time"
        )
    function = _read_explained(model, population.table, output, feature_names)
    stated = _read_groups(groups, texts, function.feature_names)
    if refits is None:
        is_decomposed = isinstance(model, Decomposition)
        trainings = _trainings_of(model, function.output) if is_decomposed else []
    else:
        trainings = _read_refits(refits, function, population.table, feature_names)
    words = f" ({population.words})" if population.words else ""

    def explain(one: _Explained) -> ReasonCodes:
        columns, reference = one.columns(rows.table), one.columns(population.table)
        check_distribution(reference, "rows of the reference population", "reference")
        weights = read_row_weights(population.weights, reference.n_rows)
        shares = row_shares(reference.n_rows, weights)
        players = stated.group_of_feature
        values = _group_values(one, columns, reference, shares, players, memory_budget, report)
        margins, means = (one.margin(side)[:, one.output] for side in (columns, reference))
        tolerance = _ROUNDING * max(
            float(np.abs(sizes).max(initial=0.0)) for sizes in (margins, means, values)
        )
        adversity = values if adverse == "high" else -values
        return ReasonCodes(
            values=values,
            margins=margins,
            reference_margin=float(shares @ means),
            ranked=rank_reasons(adversity, top, tolerance),
            groups=stated,
            adverse=adverse,
            closeness=closeness,
            output=one.output_names[one.output],
            reference=f"{reference.n_rows} reference rows{words}",
            columns=columns,
            index=row_labels(X),
        )

    found = explain(function)
    if not trainings:
        return found
    check_budget(
        8 * (len(trainings) + 4) * found.values.size,
        memory_budget,
        f"the reasons of {len(found.margins)} rows in {len(trainings)} trainings",
        "Pass fewer rows at a time.",
    )
    others = [explain(training) for training in trainings]
    return replace(
        found,
        training_values=np.stack([other.values for other in others]),
        in_trainings=np.mean([other.ranked.shown for other in others], axis=0),
    )


class _Called(NamedTuple):
    """A function of columns with values for all outputs, and the features it may depend on."""

    function: Callable[[Columns], Array]
    features: Subset


_Part = TreeEnsemble | AdditiveTables | TensorComponent | _Called


class _Explained(NamedTuple):
    """One output of a model, function or decomposition, as a sum of parts.

    Parameters
    ----------
    feature_names, output_names : tuple of str
        Names of the features and outputs.
    output : int
        The output.
    margin : callable
        Columns -> the function itself, shape (n_rows, n_outputs).
    columns : callable
        Reads a table, and compares a model with its library on it.
    parts : sequence of (float, part)
        A sign, and trees, tables, an effect or a function; they sum to the output but for a
        constant and what belongs to no feature.
    """

    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]
    output: int
    margin: Callable[[Columns], Array]
    columns: Callable[[Any], Columns]
    parts: Sequence[tuple[float, _Part]]


def _read_explained(
    model: Any, X: Any, output: Any, feature_names: Sequence[str] | None
) -> _Explained:
    """Read what is explained; `X` are rows in the form that a function is called with."""
    if isinstance(model, Decomposition):
        return _of_decomposition(model, output, _parts_of(model))
    function, _ = read_function(model, X, feature_names)
    part: _Part = _Called(function, function.used_features)
    if isinstance(function, ParsedFunction):
        part = function.model
    return _Explained(
        tuple(spec.name for spec in function.features),
        function.output_names,
        read_output(output, function.output_names),
        function,
        function.columns,
        [(1.0, part)],
    )


def _trainings_of(d: Decomposition, output: int) -> list[_Explained]:
    """Return each training of a decomposition of several; none where they are not known."""
    spread = d.spread
    if spread is None or d.remainder is not None or set(spread.stacked) != set(d.components):
        return []
    return [
        _of_decomposition(
            d,
            output,
            [
                (1.0, replace(part, values=spread.values(subset)[model]))
                for subset, part in spread.stacked.items()
            ],
        )
        for model in range(spread.n_models)
    ]


def _of_decomposition(
    d: Decomposition, output: Any, parts: Sequence[tuple[float, _Part]]
) -> _Explained:
    chosen = read_output(output, d.output_names)
    return _Explained(d.feature_names, d.output_names, chosen, d.on_rows, d.inputs.columns, parts)


def _parts_of(d: Decomposition) -> list[tuple[float, _Part]]:
    rest, added, taken = d.remainder, list(d.components.values()), []
    parts: list[tuple[float, _Part]] = []
    if isinstance(rest, SumOfParts):
        added += rest.parts
    elif isinstance(rest, Difference) and isinstance(rest.function, ParsedFunction):
        # The model less the components that it had, plus those that the decomposition has now:
        # where nothing was edited, the model.
        parts = [(1.0, rest.function.model)]
        of_rest, own = set(map(id, rest.components)), set(map(id, added))
        taken = [part for part in rest.components if id(part) not in own]
        added = [part for part in added if id(part) not in of_rest]
    for sign, components in ((1.0, added), (-1.0, taken)):
        for part in components:
            if isinstance(part, TensorComponent):
                parts.append((sign, part))
            else:
                parts.append((sign, _Called(part.on_rows, part.features)))
    return parts


def _group_values(
    explained: _Explained,
    columns: Columns,
    reference: Columns,
    shares: Array,
    group_of_feature: Integers,
    memory_budget: int,
    report: ProgressReport,
) -> Array:
    """Return the interventional Shapley values of groups of features, (n_rows, n_groups).

    They sum to the difference from the mean of the reference, where each row counts its share.
    """
    n_groups, k = int(group_of_feature.max(initial=-1)) + 1, explained.output
    total = np.zeros((columns.n_rows, n_groups))
    check_budget(
        2 * total.nbytes,
        memory_budget,
        f"the reasons of {columns.n_rows} rows",
        "Pass fewer rows at a time.",
    )

    def add_table(table: Array, features: Sequence[int], cells: list[tuple[Indices, ...]]) -> None:
        players = tuple(int(group_of_feature[j]) for j in features)
        check_budget(
            8 * (2 ** len(players) + len(players) + 1) * table.size,
            memory_budget,
            "the tables of an effect",
            "Purify with fewer bins, or pass the model itself.",
        )
        for player, own in table_values(table, np.stack(cells[1]), shares, players).items():
            total[:, player] += own[cells[0]]

    def called(part: _Called) -> Array:
        if len(part.features) > 1:
            given = (len(explained.output_names), part.features, memory_budget, report)
            found = coalition_values(
                part.function, columns, reference, shares, *given, group_of_feature
            )
            return found.values[..., k]
        values = np.zeros_like(total)
        for j in part.features:
            own = part.function(columns) - shares @ part.function(reference)
            values[:, group_of_feature[j]] = own[:, k]
        return values

    located: dict[tuple[int, int], list[Indices]] = {}
    for sign, part in explained.parts:
        if isinstance(part, TreeEnsemble):
            given = (columns, reference, shares, memory_budget, report, group_of_feature)
            total += sign * tree_values(part, *given)[..., k]
        elif isinstance(part, AdditiveTables):
            for term in part.terms:
                cells = [
                    tuple(
                        term_cells(rows.values[j], part.features[j], cuts)
                        for j, cuts in zip(term.features, term.cuts, strict=True)
                    )
                    for rows in (columns, reference)
                ]
                if term.features:
                    add_table(sign * term.scores[..., k], term.features, cells)
        elif isinstance(part, TensorComponent):
            along = list(zip(part.features, part.axes, strict=True))
            for j, axis in along:
                if (j, id(axis)) not in located:
                    both = [locate_cells(rows, j, axis) for rows in (columns, reference)]
                    located[j, id(axis)] = both
            cells = [tuple(located[j, id(axis)][side] for j, axis in along) for side in range(2)]
            add_table(sign * part.values[..., k], part.features, cells)
        else:
            total += sign * called(part)
    return total


def _read_refits(
    refits: Any, function: _Explained, reference: Any, feature_names: Sequence[str] | None
) -> list[_Explained]:
    """Return other trainings of what is explained."""
    if not isinstance(refits, Sequence) or isinstance(refits, str):
        raise InvalidInputError(
            "refits must be a list of trained models, such as the list that tp.refit returns; got "
            f"{brief(refits)}"
        )
    if len(refits) == 1:
        raise InvalidInputError(
            "refits needs at least two models to show how trainings differ; got one"
        )
    trainings = [_read_explained(one, reference, function.output, feature_names) for one in refits]
    for read in trainings:
        if read.feature_names != function.feature_names:
            raise InvalidInputError(
                "refits must have the same features as the model, in the same order: "
                f"{brief(function.feature_names)}; got {brief(read.feature_names)}"
            )
    return trainings


def _read_groups(groups: Any, texts: Any, feature_names: Sequence[str]) -> ReasonGroups:
    """Return the groups of features; one without a group is one by itself."""
    members = _members(groups, feature_names)
    grouped = {j for features in members.values() for j in features}
    for j, name in enumerate(feature_names):
        if j in grouped:
            continue
        if name in members:
            raise InvalidInputError(
                f"the group {name!r} has the name of a feature that is not in it: rename the group"
            )
        members[name] = (j,)
    ordered = sorted(members, key=lambda name: members[name])
    said = _read_texts(texts, ordered)
    return ReasonGroups(
        tuple(ordered),
        tuple(members[name] for name in ordered),
        tuple(said.get(name, (name, name)) for name in ordered),
    )


def _members(groups: Any, feature_names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    if groups is None:
        return {}
    if not isinstance(groups, Mapping):
        raise InvalidInputError(
            "groups must be a dict of names of features by the name of their group, such as "
            f'{{"payment history": ["late", "defaults"]}}, got {brief(groups)}'
        )
    members: dict[str, tuple[int, ...]] = {}
    owner: dict[int, str] = {}
    for name, given in groups.items():
        if not isinstance(name, str) or not name:
            raise InvalidInputError(f"the name of a group must be text, got {brief(name)}")
        features = (given,) if isinstance(given, str) else given
        if not read_names(f"groups[{name!r}]", features):
            raise InvalidInputError(f"the group {name!r} has no features")
        members[name] = read_features(tuple(features), feature_names)
        for j in members[name]:
            if j in owner:
                raise InvalidInputError(
                    f"feature {feature_names[j]!r} is in two groups, {owner[j]!r} and {name!r}; "
                    "each feature belongs to one reason"
                )
            owner[j] = name
    return members


def _read_texts(texts: Any, names: Sequence[str]) -> dict[str, tuple[str, str]]:
    if texts is None:
        return {}
    if not isinstance(texts, Mapping):
        raise InvalidInputError(
            "texts must be a dict with the name of a feature or group as key, such as "
            f'{{"age": "Short credit history"}}, got {brief(texts)}'
        )
    unknown = [name for name in texts if name not in names]
    if unknown:
        raise InvalidInputError(
            f"there is a text for {brief(unknown[0])}, which is neither a group nor a feature "
            f"outside groups; the reasons are {', '.join(names[:20])}"
        )
    return {name: _both_directions(name, text) for name, text in texts.items()}


def _both_directions(name: str, text: Any) -> tuple[str, str]:
    if isinstance(text, str):
        return text, text
    is_by_direction = isinstance(text, Mapping) and set(text) <= set(DIRECTIONS)
    if not is_by_direction or not all(isinstance(one, str) for one in text.values()):
        raise InvalidInputError(
            f"texts[{name!r}] must be a string, or a dict of strings with the keys 'high' (where "
            f"it raises the prediction) and 'low'; got {brief(text)}"
        )
    high, low = (text.get(direction, name) for direction in DIRECTIONS)
    return high, low
