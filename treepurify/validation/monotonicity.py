"""Prove that a model is monotone along features, or show where it is not."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify.arguments import brief
from treepurify.budget import DEFAULT_BUDGET, check_memory_budget
from treepurify.components import locate_cells
from treepurify.engines.common.functions import rows_for_model
from treepurify.engines.common.inputs import read_model_rows
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Grid
from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.parse import Model, read_model
from treepurify.progress import progress_report
from treepurify.rows.columns import FeatureSpec
from treepurify.rows.source_reader import RowBatch
from treepurify.terms import read_features
from treepurify.typing import Array, Indices
from treepurify.validation.monotonicity_result import (
    Monotonicity,
    MonotonicityCheck,
    Verdict,
    WrongStep,
)
from treepurify.validation.steps import (
    Leaves,
    StepBounds,
    WrongRows,
    bound_steps,
    read_leaves,
    wrong_rows,
)
from treepurify.weights import Empirical

Directions = Mapping[str | int, str | Sequence[Any]]

_SIGNS = {"increasing": 1, "decreasing": -1}
_MOST_NAMED = 10


class _Direction(NamedTuple):
    """In which direction a margin must go along a feature.

    Parameters
    ----------
    feature : int
        The feature.
    cells : ndarray of int64, shape (n_places,)
        Its cells, in the order in which they are stepped through.
    sign : int
        1 where the margin must not fall from one of them to the next, -1 where it must not rise.
    words : str
        The direction in words.
    """

    feature: int
    cells: Indices
    sign: int
    words: str


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
    rows, words = None, ""
    if X is None:
        # Weights without rows are refused there.
        parsed = read_model(model, None, feature_names)
        if sample_weight is not None:
            read_model_rows(parsed, None, Empirical(), None, sample_weight)
    else:
        sample = rows_for_model(model, X, feature_names, sample_weight, memory_budget, report)
        parsed, stream = read_model_rows(
            model, sample.table, Empirical(), feature_names, sample.weights
        )
        rows, words = None if stream is None else next(stream.batches()), sample.sentence
    leaves = read_leaves(parsed, memory_budget)
    wanted = _read_directions(directions, parsed, leaves.grid)
    outputs, checks = range(parsed.n_outputs), []
    for number, direction in enumerate(wanted):
        report("checking the steps of features", number, len(wanted))
        bounds = [_bounded(parsed, leaves, direction, k) for k in outputs]
        found = [WrongRows()] * len(outputs)
        if rows is not None and any(one.is_open for one in bounds):
            found = _follow(parsed, leaves.grid, direction, bounds, rows)
        for k, bound, of_rows in zip(outputs, bounds, found, strict=True):
            check = _check(parsed, leaves.grid, direction, k, bound, of_rows, rows)
            # Rows of a sample have no positions that a caller knows.
            if words and check.worst is not None:
                check = replace(check, worst=replace(check.worst, number=None))
            checks.append(check)
    n_rows = 0 if rows is None else int(np.count_nonzero(rows.counts))
    notes = _notes(parsed, n_rows, wanted)
    if words:
        notes += (words,)
    return Monotonicity(tuple(checks), parsed.feature_names, parsed.output_names, n_rows, notes)


def _read_directions(given: Directions | None, model: Model, grid: Grid) -> list[_Direction]:
    """Return the directions that are asked for; by default those of the model's constraints."""
    if given is None:
        given = carried_directions(model)
        if not given:
            raise InvalidInputError(
                "the model has no monotone constraints, so name the directions to check: "
                'directions={"income": "increasing"}. Files of XGBoost do not contain its '
                "constraints; the trained model in memory has them."
            )
    if not isinstance(given, Mapping) or not given:
        raise InvalidInputError(
            'directions must name features and directions, such as {"income": "increasing"}; got '
            f"{brief(given)}"
        )
    names = [spec.name for spec in model.features]
    found: dict[int, _Direction] = {}
    for key, direction in given.items():
        positions = read_features(key, names)
        if len(positions) != 1 or positions[0] in found:
            raise InvalidInputError(f"directions must name each feature once; got {brief(key)}")
        j = positions[0]
        found[j] = _direction(j, model.features[j], grid.axes[j], direction)
    return list(found.values())


def carried_directions(model: Model) -> dict[str | int, str]:
    """Return the directions of the constraints that a model carries; empty without any."""
    words = {sign: word for word, sign in _SIGNS.items()}
    return {
        spec.name: words[sign]
        for spec, sign in zip(model.features, model.source.constraints, strict=False)
        if sign in words and not spec.is_categorical
    }


def _direction(j: int, spec: FeatureSpec, axis: FeatureAxis, given: Any) -> _Direction:
    if isinstance(given, str) and given in _SIGNS:
        if spec.is_categorical:
            raise InvalidInputError(
                f"{spec.name!r} is categorical: pass its categories, from the smallest margin to "
                f"the largest, not {given!r}"
            )
        return _Direction(j, np.arange(axis.n_regular), _SIGNS[given], given)
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        raise InvalidInputError(
            f'the direction of {spec.name!r} must be "increasing" or "decreasing", or a list of '
            f"categories; got {brief(given)}"
        )
    if not spec.is_categorical:
        raise InvalidInputError(
            f'{spec.name!r} is numeric: pass "increasing" or "decreasing", got {brief(given)}'
        )
    codes = [_code(spec, label) for label in given]
    if len(codes) < 2 or len(set(codes)) < len(codes):
        raise InvalidInputError(
            f"the order of {spec.name!r} must name two different categories or more, got "
            f"{brief(list(given))}"
        )
    order = " <= ".join(str(spec.labels[code]) for code in codes)
    return _Direction(j, np.array(codes, dtype=np.intp), 1, order)


def _code(spec: FeatureSpec, label: Any) -> int:
    """Return the code of a category, which may be named by its text."""
    labels = list(spec.labels)
    if label in labels:
        return labels.index(label)
    texts = [str(one) for one in labels]
    if str(label) in texts:
        return texts.index(str(label))
    if not labels:
        raise InvalidInputError(
            f"the model tests no category of {spec.name!r} and knows none: leave it out"
        )
    listed = ", ".join(map(repr, labels[:_MOST_NAMED])) + ", ..." * (len(labels) > _MOST_NAMED)
    raise InvalidInputError(f"{spec.name!r} has no category {label!r}; the model knows {listed}")


def _bounded(model: Model, leaves: Leaves, direction: _Direction, output: int) -> StepBounds:
    """Bound the steps of one output along a feature."""
    gain, rounding = direction.sign * leaves.values(output), 0.0
    if isinstance(model, AdditiveTables) or model.features[direction.feature].is_categorical:
        # Differences of whole margins follow the rows, and are off by more than those of leaves.
        known = ~np.isnan(gain)
        n_trees = int(leaves.tree.max(initial=-1)) + 1
        largest = np.zeros(n_trees)
        np.maximum.at(largest, leaves.tree[known], np.abs(gain[known]))
        size = float(largest.sum() + np.abs(model.base).max(initial=0.0))
        rounding = (n_trees + 2) * np.finfo(np.float64).eps * size
    return bound_steps(leaves, direction.feature, direction.cells, gain, rounding)


def _follow(
    model: Model, grid: Grid, direction: _Direction, bounds: list[StepBounds], rows: RowBatch
) -> list[WrongRows]:
    """Follow all rows along a feature that is not proved yet."""
    columns, counts = rows.of_weight()
    j, cells, spec = direction.feature, direction.cells, model.features[direction.feature]
    place_of = np.full(grid.axes[j].n_cells, -2)
    place_of[cells] = np.arange(len(cells))
    if spec.is_categorical:
        # A category that counts as missing has become that.
        missing = np.flatnonzero(spec.counts_as_missing(np.arange(float(spec.n_codes))))
        place_of[-1] = place_of[missing].max(initial=-2)
    places = place_of[locate_cells(columns, j, grid.axes[j])]
    limits = np.stack([one.rounding for one in bounds], axis=1)
    return wrong_rows(model, j, cells, direction.sign, limits, columns, counts, places)


def _check(
    model: Model,
    grid: Grid,
    direction: _Direction,
    output: int,
    bounds: StepBounds,
    found: WrongRows,
    rows: RowBatch | None,
) -> MonotonicityCheck:
    """Return the check of one feature and output."""
    bound = max(0.0, -float(bounds.lower.min(initial=0.0)))
    in_tables = 0.0 if bounds.worst is None else -float(bounds.lower[bounds.worst])
    worst, method = None, bounds.method
    verdict: Verdict = "proved"
    if rows is not None and found.size > 0:
        verdict, method = "violated", "rows"
        number = int(np.flatnonzero(rows.counts > 0)[found.row])
        values = rows.columns.matrix(number, number + 1)[0].tolist()
        row = {s.name: _shown(s, value) for s, value in zip(model.features, values, strict=True)}
        worst = _wrong_step(grid, direction, found.step, found.size, row, found.place, number)
    elif bounds.worst is not None:
        verdict = "violated" if rows is None else "violated outside the rows"
        row = {
            # Where a feature does not matter it is in the middle of its cells.
            spec.name: _cell_value(axis, spec, bounds.cells.get(i, axis.n_regular // 2))
            for i, (axis, spec) in enumerate(zip(grid.axes, grid.features, strict=True))
        }
        worst = _wrong_step(grid, direction, bounds.worst, in_tables, row)
    elif bounds.is_open:
        verdict, method = "not decided", method if rows is None else "rows"
    return MonotonicityCheck(
        model.features[direction.feature].name,
        model.output_names[output],
        direction.words,
        verdict,
        method,
        bound,
        bound <= in_tables,
        float(bounds.rounding.max(initial=0.0)),
        worst,
        *((np.nan,) * 3 if rows is None else found[:3]),
    )


def _wrong_step(
    grid: Grid,
    direction: _Direction,
    step: int,
    size: float,
    row: dict[str, Any],
    place: int = -2,
    number: int | None = None,
) -> WrongStep:
    """Return a step with rows on both of its sides, one of them the row itself if it is there."""
    axis, spec = grid.axes[direction.feature], grid.features[direction.feature]
    labels, names, sides = axis.labels(), [], []
    for at in (step, step + 1):
        cell = int(direction.cells[at])
        is_own = at == place and not spec.is_categorical
        sides.append(
            {**row, axis.name: row[axis.name] if is_own else _cell_value(axis, spec, cell)}
        )
        names.append(labels[cell])
    return WrongStep(size, names[0], names[1], sides[0], sides[1], number)


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


def _notes(model: Model, n_rows: int, wanted: list[_Direction]) -> tuple[str, ...]:
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
