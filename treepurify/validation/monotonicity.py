"""Prove that a model is monotone along features, or show where it is not."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.budget import DEFAULT_BUDGET, check_memory_budget
from treepurify.engines.common.inputs import read_model_rows
from treepurify.grids.axis import FeatureAxis
from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.parse import Model, read_model
from treepurify.progress import ProgressReport, progress_report
from treepurify.rows.columns import FeatureSpec
from treepurify.rows.reduction import RowStream
from treepurify.typing import Array, Mask
from treepurify.validation.directions import Direction, Directions, read_directions
from treepurify.validation.leaf_steps import TreeSteps, leaf_runs_along, tree_steps
from treepurify.validation.model_leaves import ModelLeaves, model_leaves
from treepurify.validation.monotonicity_result import (
    Method,
    Monotonicity,
    MonotonicityCheck,
    Verdict,
    WrongStep,
)
from treepurify.validation.row_steps import RowLimits, RowWitness, WrongRows, WrongSteps
from treepurify.weights import Empirical

__all__ = ["check_monotonicity"]


def check_monotonicity(
    model: Any,
    X: Any = None,
    directions: Directions | None = None,
    *,
    sample_weight: npt.ArrayLike | str | None = None,
    feature_names: Sequence[str] | None = None,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> Monotonicity:
    """Prove that the margin of a model is monotone in some features, or find counter-examples.

    Between neighbouring intervals of a feature the margin changes by a step, whose size depends on
    all other features. Three methods examine all steps, in this order:

    * The smallest steps of all trees are added up, which bounds the steps of the model from below.
      This proves every model whose single trees are monotone, as trees trained with monotone
      constraints are.
    * If leaves test at most one other feature, as in trees of depth two and EBMs of pairs, the step
      is a sum of functions of one feature each. The sum of their smallest values is the smallest
      step exactly.
    * Every row is evaluated exactly in all intervals of the feature, with its other values fixed.

    If the first two prove nothing and no row has a wrong step, the verdict is ``"not decided"``.

    Parameters
    ----------
    model : object, str or Path
        A trained model, a model file, or what `parse_model` returned.
    X : array_like, table of shape (n_rows, n_features), or rows in batches, optional
        Rows that show which combinations of values occur. Without rows, the verdict does not
        distinguish combinations that occur from others.
    directions : mapping of (str or int) to (str or sequence), optional
        ``"increasing"`` or ``"decreasing"`` for each feature; for a categorical feature its
        categories, from the smallest margin to the largest. By default the monotone constraints of
        the model, as stored by LightGBM, CatBoost, scikit-learn, interpret, and XGBoost models in
        memory (their files do not contain them).
    sample_weight : array_like of shape (n_rows,) or str, optional
        Weight of each row, finite and not negative. For rows in batches, the name of the column
        of weights.
    feature_names : sequence of str, optional
        Names of the features, in the order of the model.
    memory_budget : int
        Bytes that the leaves may take; more is refused before it is allocated.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    Monotonicity
        One check per feature and output; sizes of steps are on the margin scale.

    Raises
    ------
    InvalidInputError
        If a direction, a feature or a category is unknown, or there is nothing to check; see also
        `purify` for models and rows.
    MemoryBudgetError
        If the leaves would not fit.
    ModelMismatchError
        If the parsed model does not reproduce its library's own raw predictions.

    See Also
    --------
    smooth_effect : Replace an effect by a smoother one.
    treepurify.plots.monotonicity : Figure of the worst violation.

    Notes
    -----
    Verdicts apply to the margin of each output. For a binary classifier these are the log-odds, so
    the verdict applies to the probability as well; probabilities of several classes depend on all
    margins and are not covered. A proof covers missing values and unseen categories of all other
    features. Missing values of the feature itself, and numbers that the model treats as missing,
    have no place in the order and are not compared. Leaves are added up in double precision.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> model = DecisionTreeRegressor().fit(X, [0.0, 2.0, 1.0, 1.0])
    >>> tp.check_monotonicity(model, X, {"x1": "increasing"}).is_proved
    True
    >>> found = tp.check_monotonicity(model, X, {"x0": "increasing"})
    >>> found.check("x0").verdict, found.check("x0").worst.size, found.check("x0").row_share
    ('violated', 1.0, 0.5)
    >>> found.check("x0").worst.row, found.check("x0").worst.neighbour["x0"]
    ({'x0': 0.0, 'x1': 1.0}, 1.0)
    """
    check_memory_budget(memory_budget)
    report = progress_report(progress)
    stream = None
    if X is None:
        # Weights without rows are refused there.
        parsed = read_model(model, None, feature_names)
        if sample_weight is not None:
            read_model_rows(parsed, None, Empirical(), None, sample_weight)
    else:
        parsed, stream = read_model_rows(
            model, X, Empirical(), feature_names, sample_weight, progress=progress
        )
    leaves = model_leaves(parsed, memory_budget)
    wanted = read_directions(directions, parsed, leaves.grid)
    bounds = []
    for number, direction in enumerate(wanted):
        report("summing steps of trees", number, len(wanted))
        bounds += [_bounded(parsed, leaves, direction, k) for k in range(parsed.n_outputs)]
    rows = None if stream is None else _follow_rows(parsed, stream, bounds, report)
    checks = tuple(_decide(parsed, one, rows) for one in bounds)
    n_rows = 0 if rows is None else int(rows.found.n_rows)
    notes = _notes(parsed, n_rows, wanted)
    return Monotonicity(checks, parsed.feature_names, parsed.output_names, n_rows, notes)


@dataclass(frozen=True, eq=False)
class _BoundedSteps:
    """What is known of the steps of one feature and output without a row.

    Parameters
    ----------
    direction : Direction
        The direction.
    output : int
        The output.
    steps : TreeSteps
        The leaves.
    lower : ndarray of float64, shape (n_steps,)
        Lower bounds, with the sign of the direction.
    is_exact : ndarray of bool, shape (n_steps,)
        Which of them some combination of values reaches.
    rounding : ndarray of float64, shape (n_steps,)
        What they, and steps of rows, may be off by.
    method : {"trees", "tables"}
        What the bounds of the last steps came from.
    """

    direction: Direction
    output: int
    steps: TreeSteps
    lower: Array
    is_exact: Mask
    rounding: Array
    method: Method

    @property
    def open(self) -> Mask:
        """Steps that may be wrong."""
        return self.lower < -self.rounding


def _bounded(model: Model, leaves: ModelLeaves, direction: Direction, output: int) -> _BoundedSteps:
    """Bound all steps by trees, and where that proves nothing, by tables."""
    runs = leaf_runs_along(leaves, direction.feature, direction.cells)
    gain = direction.sign * leaves.values(output)
    steps = tree_steps(leaves, runs, gain)
    lower = steps.tree_bounds()
    rounding = np.maximum(steps.rounding, _rounding_of_margins(model, leaves, direction, gain))
    is_exact = np.zeros(len(lower), dtype=bool)
    method: Method = "trees"
    remaining = np.flatnonzero(lower < -rounding)
    if len(remaining):
        method = "tables"
        bound, is_exact[remaining] = steps.table_bounds(remaining)
        # Where they are exact they are also larger, but for rounding.
        lower[remaining] = np.where(is_exact[remaining], bound, np.maximum(bound, lower[remaining]))
    return _BoundedSteps(direction, output, steps, lower, is_exact, rounding, method)


def _rounding_of_margins(
    model: Model, leaves: ModelLeaves, direction: Direction, gain: Array
) -> float:
    """Return what differences of whole margins may be off by, where rows are followed by them."""
    has_margins = isinstance(model, AdditiveTables)
    if not has_margins and not model.features[direction.feature].is_categorical:
        return 0.0
    largest = np.zeros(leaves.n_trees)
    known = ~np.isnan(gain)
    np.maximum.at(largest, leaves.tree[known], np.abs(gain[known]))
    size = float(largest.sum() + np.abs(model.base).max(initial=0.0))
    return float((leaves.n_trees + 2) * np.finfo(np.float64).eps * size)


@dataclass(frozen=True, eq=False)
class _FollowedRows:
    """What rows say, by feature and output.

    Parameters
    ----------
    found : WrongRows
        The sums over the rows.
    place : dict of tuple of int to tuple of int
        Where a feature and an output stand in them; none where nothing is wrong without rows.
    is_table : bool
        Whether numbers of rows are those of a table.
    """

    found: WrongRows
    place: dict[tuple[int, int], tuple[int, int]]
    is_table: bool

    def shares(self, feature: int, output: int) -> tuple[float, float, float]:
        """Return the shares of rows, of mass, and of the mass next to a wrong step."""
        if (feature, output) not in self.place:
            return 0.0, 0.0, 0.0
        rows, mass, near = self.found.sums[self.place[feature, output]].tolist()
        return rows / self.found.n_rows, mass / self.found.mass, near / self.found.mass

    def witness(self, feature: int, output: int) -> RowWitness | None:
        """Return the row with the largest wrong step; None where no row has one."""
        if (feature, output) not in self.place:
            return None
        number, k = self.place[feature, output]
        worst = self.found.worst[number * self.found.sums.shape[1] + k]
        return worst if worst.size > 0 else None


def _follow_rows(
    model: Model, stream: RowStream, bounds: list[_BoundedSteps], report: ProgressReport
) -> _FollowedRows:
    """Follow all rows along the features that are not proved yet."""
    by_feature: dict[int, list[_BoundedSteps]] = {}
    for one in bounds:
        by_feature.setdefault(one.direction.feature, []).append(one)
    open_features = [j for j, of_j in by_feature.items() if any(one.open.any() for one in of_j)]
    checked = tuple(
        RowLimits(
            by_feature[j][0].direction,
            by_feature[j][0].steps.model.grid.axes[j].cuts,
            np.stack([one.rounding for one in by_feature[j]], axis=1),
        )
        for j in open_features
    )
    found = stream.reduce(WrongSteps(model, checked), "checking the steps of rows", report)
    place = {
        (j, k): (number, k)
        for number, j in enumerate(open_features)
        for k in range(model.n_outputs)
    }
    return _FollowedRows(found, place, stream.is_table)


def _decide(model: Model, one: _BoundedSteps, rows: _FollowedRows | None) -> MonotonicityCheck:
    """Return the check of one feature and output."""
    j, k = one.direction.feature, one.output
    shares = (np.nan,) * 3 if rows is None else rows.shares(j, k)
    witness = None if rows is None else rows.witness(j, k)
    bound, method = max(0.0, -float(one.lower.min(initial=0.0))), one.method
    worst = _step_in_tables(one)
    is_reached = bound <= (0.0 if worst is None else worst.size)
    if witness is not None and rows is not None:
        worst = _row_step(model, one, witness, is_table=rows.is_table)
        verdict: Verdict = "violated"
        method = "rows"
    elif worst is not None:
        verdict = "violated" if rows is None else "violated outside the rows"
    elif one.open.any():
        verdict, method = "not decided", one.method if rows is None else "rows"
    else:
        verdict = "proved"
    return MonotonicityCheck(
        model.features[j].name,
        model.output_names[k],
        one.direction.words,
        verdict,
        method,
        bound,
        is_reached,
        float(one.rounding.max(initial=0.0)),
        worst,
        *shares,
    )


def _step_in_tables(one: _BoundedSteps) -> WrongStep | None:
    """Return the largest wrong step that tables reach, with rows made for it; None without any."""
    wrong = np.flatnonzero(one.open & one.is_exact)
    if not len(wrong):
        return None
    step = int(wrong[np.argmin(one.lower[wrong])])
    grid, cells = one.steps.model.grid, one.steps.cells_of_smallest(step)
    row = {
        # Where a feature does not matter it is in the middle of its cells.
        spec.name: _cell_value(axis, spec, cells.get(i, axis.n_regular // 2))
        for i, (axis, spec) in enumerate(zip(grid.axes, grid.features, strict=True))
    }
    ends = [
        _end_value(one, one.direction.feature, cell)
        for cell in one.direction.cells[step : step + 2].tolist()
    ]
    return _wrong_step(one, step, -float(one.lower[step]), row, ends)


def _row_step(
    model: Model, one: _BoundedSteps, witness: RowWitness, *, is_table: bool
) -> WrongStep:
    """Return a step of a row; where the row itself is on one side, it is one of the two."""
    j, step = one.direction.feature, witness.step
    row = {
        spec.name: _shown(spec, value)
        for spec, value in zip(model.features, witness.values.tolist(), strict=True)
    }
    own, is_number = row[model.features[j].name], not model.features[j].is_categorical
    ends = [
        own
        if is_number and witness.place == place
        else _end_value(one, j, int(one.direction.cells[place]))
        for place in (step, step + 1)
    ]
    number = witness.number if is_table else None
    return _wrong_step(one, step, witness.size, row, ends, number)


def _wrong_step(
    one: _BoundedSteps,
    step: int,
    size: float,
    row: dict[str, Any],
    ends: list[Any],
    number: int | None = None,
) -> WrongStep:
    axis = one.steps.model.grid.axes[one.direction.feature]
    labels = axis.labels()
    lower, upper = (labels[cell] for cell in one.direction.cells[step : step + 2])
    first, second = ({**row, axis.name: end} for end in ends)
    return WrongStep(size, lower, upper, first, second, number)


def _end_value(one: _BoundedSteps, feature: int, cell: int) -> Any:
    grid = one.steps.model.grid
    return _cell_value(grid.axes[feature], grid.features[feature], cell)


def _cell_value(axis: FeatureAxis, spec: FeatureSpec, cell: int) -> Any:
    """Return a value in a cell, as a table has it."""
    if cell >= axis.n_regular:
        return "unseen" if cell == axis.other_cell else np.nan
    if axis.cuts is None:
        return spec.labels[cell]
    if labels := axis.ordered_categories(cell):
        return labels[0]
    if len(axis.cuts) == 0:
        return 0.0
    value = _number_in_cell(axis.cuts, cell, 0.5)
    is_missing = spec.counts_as_missing(np.array(value))
    return _number_in_cell(axis.cuts, cell, 0.25) if is_missing else value


def _number_in_cell(cuts: Array, cell: int, part: float) -> float:
    """Return the number that is so far into an interval, one half for its middle."""
    largest = float(np.abs(cuts).max())
    # As far beyond the outer cuts as cuts are from each other, and beyond rounding.
    beyond = float(cuts[-1] - cuts[0]) / (len(cuts) - 1) if len(cuts) > 1 else largest
    beyond = (max(beyond, 1e-3 * largest) or 1.0) * 2 * part
    if cell == 0:
        return float(cuts[0]) - beyond
    if cell == len(cuts):
        return float(cuts[-1]) + beyond
    low, high = cuts[cell - 1 : cell + 1].tolist()
    # Libraries of single precision round what lies between.
    middle = float(np.float32(low + (high - low) * part))
    return middle if low <= middle < high else low


def _shown(spec: FeatureSpec, value: float) -> Any:
    """Return a value as a table has it: the label of a code."""
    if np.isnan(value):
        return value
    label = spec.label(value)
    unknown = "unseen" if spec.is_categorical else value
    return unknown if label is None else label


def _notes(model: Model, n_rows: int, wanted: list[Direction]) -> tuple[str, ...]:
    """Return what the verdicts hold for."""
    link = model.link.name
    scale = {"identity": "the prediction", "logit": "the log-odds", "log": "the log of the mean"}
    notes = [
        f"Steps are changes of {scale.get(link, 'the raw score, before the inverse link,')} of "
        "each output."
    ]
    if link == "softmax":
        notes.append("Probabilities of classes depend on all margins, and were not checked.")
    names = [model.features[d.feature].name for d in wanted]
    has_missing = [d for d in wanted if model.features[d.feature].has_missing]
    if has_missing:
        notes.append("Missing values of a feature are not compared with its other values.")
    shared: dict[str, list[str]] = {}
    for spec in model.features:
        for raw in spec.made_from:
            shared.setdefault(raw, []).append(spec.name)
    if any(len(made) > 1 and set(made) & set(names) for made in shared.values()):
        notes.append(
            "Some columns are made from the same raw column, so a violation outside the rows may "
            "be a combination that cannot occur; proofs remain valid. Check the pipeline in its "
            "raw columns."
        )
    if not n_rows:
        notes.append(
            "No rows were given, so the check covers all combinations of values, whether or not "
            "they occur."
        )
    return tuple(notes)
