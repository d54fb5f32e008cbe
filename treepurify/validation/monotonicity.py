"""Prove that a model is monotone along features, or show where it is not."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.budget import DEFAULT_BUDGET, check_memory_budget
from treepurify.engines.common.functions import features_read
from treepurify.engines.common.inputs import read_model_rows
from treepurify.grids.axis import FeatureAxis
from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.parse import Model, read_model
from treepurify.progress import ProgressReport, progress_report
from treepurify.rows.columns import FeatureSpec
from treepurify.rows.given_rows import given_rows
from treepurify.rows.source_reader import RowBatch
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
from treepurify.validation.row_steps import RowLimits, RowWitness, WrongRows, wrong_rows
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
        Rows that show which combinations of values occur; of rows in batches (see `purify`), at
        most 100 000 are drawn, and the result says so. Without rows, the verdict does not
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
    sample, stream = None, None
    if X is None:
        # Weights without rows are refused there.
        parsed = read_model(model, None, feature_names)
        if sample_weight is not None:
            read_model_rows(parsed, None, Empirical(), None, sample_weight)
    else:
        sample = given_rows(
            X, features_read(model, X, feature_names), sample_weight, (), memory_budget, report
        )
        parsed, stream = read_model_rows(
            model, sample.table, Empirical(), feature_names, sample.weights
        )
    leaves = model_leaves(parsed, memory_budget)
    wanted = read_directions(directions, parsed, leaves.grid)
    bounds = []
    for number, direction in enumerate(wanted):
        report("summing steps of trees", number, len(wanted))
        bounds += [_bounded(parsed, leaves, direction, k) for k in range(parsed.n_outputs)]
    rows = None if stream is None else next(stream.batches())
    followed = {} if rows is None else _follow_rows(parsed, rows, bounds, report)
    number_rows = sample is not None and not sample.words
    checks = tuple(_decide(parsed, one, rows, followed, number_rows=number_rows) for one in bounds)
    n_rows = 0 if rows is None else int(np.count_nonzero(rows.counts))
    notes = _notes(parsed, n_rows, wanted)
    if sample is not None and sample.words:
        notes += (f"The rows are {sample.words}.",)
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


_Followed = dict[tuple[int, int], WrongRows]
"""What rows say, by feature and output; nothing where nothing is wrong without rows."""


def _follow_rows(
    model: Model, rows: RowBatch, bounds: list[_BoundedSteps], report: ProgressReport
) -> _Followed:
    """Follow all rows along the features that are not proved yet."""
    by_feature: dict[int, list[_BoundedSteps]] = {}
    for one in bounds:
        by_feature.setdefault(one.direction.feature, []).append(one)
    open_features = [j for j, of_j in by_feature.items() if any(one.open.any() for one in of_j)]
    columns, counts = rows.of_weight()
    followed: _Followed = {}
    for number, j in enumerate(open_features):
        report("checking the steps of rows", number, len(open_features))
        of_j = by_feature[j]
        cuts = of_j[0].steps.model.grid.axes[j].cuts
        limits = np.stack([one.rounding for one in of_j], axis=1)
        found = wrong_rows(model, RowLimits(of_j[0].direction, cuts, limits), columns, counts)
        followed |= {(j, k): of_output for k, of_output in enumerate(found)}
    return followed


def _decide(
    model: Model,
    one: _BoundedSteps,
    rows: RowBatch | None,
    followed: _Followed,
    *,
    number_rows: bool,
) -> MonotonicityCheck:
    """Return the check of one feature and output."""
    j, k = one.direction.feature, one.output
    of_rows = followed.get((j, k), WrongRows())
    bound, method = max(0.0, -float(one.lower.min(initial=0.0))), one.method
    worst = _step_in_tables(one)
    is_reached = bound <= (0.0 if worst is None else worst.size)
    if rows is not None and of_rows.worst is not None:
        worst = _row_step(model, one, of_rows.worst, rows, number_rows=number_rows)
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
        *((np.nan,) * 3 if rows is None else of_rows.shares),
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
    model: Model, one: _BoundedSteps, witness: RowWitness, rows: RowBatch, *, number_rows: bool
) -> WrongStep:
    """Return a step of a row; where the row itself is on one side, it is one of the two."""
    number = int(np.flatnonzero(rows.counts > 0)[witness.row])
    values = rows.columns.matrix(number, number + 1)[0]
    j, step = one.direction.feature, witness.step
    row = {
        spec.name: _shown(spec, value)
        for spec, value in zip(model.features, values.tolist(), strict=True)
    }
    own, is_number = row[model.features[j].name], not model.features[j].is_categorical
    ends = [
        own
        if is_number and witness.place == place
        else _end_value(one, j, int(one.direction.cells[place]))
        for place in (step, step + 1)
    ]
    return _wrong_step(one, step, witness.size, row, ends, number if number_rows else None)


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
