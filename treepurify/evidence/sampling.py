"""How far effects are off because the rows are a sample, from halves of the rows."""

from ast import literal_eval
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_result, check_whole
from treepurify.budget import DEFAULT_BUDGET, check_budget, check_memory_budget
from treepurify.certificate import Certificate
from treepurify.components import TensorComponent, evaluate_each
from treepurify.decomposition import Decomposition
from treepurify.effects.tensor import EffectTensor, EffectTensors
from treepurify.engines.common.functions import features_read
from treepurify.engines.tree.purify import purify
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.models.parse import read_transformed
from treepurify.moments import Codes, MeasureRows, cells_of_columns, weights_in_cells
from treepurify.progress import ProgressReport, progress_report
from treepurify.purification.cascade import downward_closure, purify_effects
from treepurify.remainder import SumOfParts
from treepurify.rows.given_rows import SAMPLED_ROWS, given_rows
from treepurify.rows.reduction import RowStream
from treepurify.rows.row_weights import read_row_weights, row_shares
from treepurify.rows.stream_sample import sample_stream
from treepurify.rows.tables import take_rows
from treepurify.typing import Array, Indices
from treepurify.weights import Weighting

__all__ = ["with_sampling_error"]

_HALVES = 2
_LEAST_ROWS = 4
# Purified tables and masses of both halves; and what a solve works on.
_TABLES_OF_HALVES, _WORKING_COPIES = 5, 4
_INSTEAD = (
    "tp.with_sampling_error(d, model, X) purifies the model again under halves of the rows, under "
    "any distribution"
)

_Axes = dict[Subset, tuple[FeatureAxis, ...]]
_Tables = dict[Subset, Array]


def with_sampling_error(
    d: Decomposition,
    model: Any = None,
    X: Any = None,
    *,
    weights: str | Weighting | None = None,
    sample_weight: npt.ArrayLike | str | None = None,
    splits: int = 4,
    seed: int = 0,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> Decomposition:
    r"""Add the sampling error of the effects to the certificate.

    The rows that represent the distribution are a sample; another sample would give other effects
    of the same model. To estimate the difference, the rows are split in halves, and the model is
    purified again under each half. If errors are proportional to ``1 / sqrt(n_rows)``, a quarter
    of the mean squared difference between two halves estimates the squared error under all rows.
    On populations that can be sampled repeatedly, the estimate is 0.6 to 1.4 times the error of
    fresh samples for effects of two features, and as low as 0.6 times for sparsely filled tables
    of three features.

    A split takes at least as long as the purification itself, so `purify` does not do this.

    Parameters
    ----------
    d : Decomposition
        Without `model`: a decomposition whose distribution consists of its rows, or of smoothed
        copies of them, and whose effects were not fitted. Purification is linear, so their tables
        are purified again. With `model`: what `purify` returned.
    model : object, str or Path, optional
        What `purify` was given. It is purified again under each half, by the method of `d` with its
        default options; needed if effects were fitted (deep trees) or features are independent.
    X : array_like, table of shape (n_rows, n_features), or rows in batches, optional
        The rows that `purify` was given, if `model` is passed. Of rows in batches, at
        most 100 000 are drawn.
    weights : str or Weighting, optional
        With `model`, the distribution of the features, as it was given to `purify`; needed only if
        it was more than a name.
    sample_weight : array_like of shape (n_rows,) or str, optional
        Weight of each row, finite and not negative, as it was given to `purify` with `X`.
    splits : int
        Number of times the rows are split; the error is averaged over the splits.
    seed : int
        Seed of the splits.
    memory_budget : int
        Bytes that tables may take; more is refused before it is allocated.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    Decomposition
        The same effects, with ``certificate.sampling_error``: the square root of the sum of the
        mean squared errors of all effects, relative to the standard deviation of the model, one per
        output. ``diagnostics["sampling"]`` has the root mean squared error of each effect on the
        margin scale: under the distribution or, with `model`, over the rows of `X`.

    Raises
    ------
    InvalidInputError
        If the distribution does not consist of rows, or effects were fitted, and `model` was not
        passed; if effects were edited.
    MemoryBudgetError
        If the tables would not fit.

    See Also
    --------
    audit : Effects that change when the rows are resampled.
    refit : Several trainings of one model.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.ensemble import GradientBoostingRegressor
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> model = GradientBoostingRegressor(max_depth=2, random_state=0).fit(X, X[:, 0] * X[:, 1])
    >>> d = tp.with_sampling_error(tp.purify(model, X))
    >>> print(d.certificate.details()[-1])
    Sampling error, estimated from halves of the rows: effects differ from the effects ...
    """
    check_result("d", d, Decomposition, "treepurify.purify")
    check_whole("splits", splits, 1)
    check_whole("seed", seed, 0)
    check_memory_budget(memory_budget)
    report = progress_report(progress)
    if (model is None) != (X is None):
        raise InvalidInputError(
            "pass the model and its rows, with_sampling_error(d, model, X), or neither of them"
        )
    if model is None and not (weights is None and sample_weight is None):
        raise InvalidInputError(
            "weights and sample_weight are those of the rows that the model is purified on again: "
            "pass the model and its rows, too, with_sampling_error(d, model, X)"
        )
    certificate = _certificate_of(d)
    if certificate.edits:
        raise InvalidInputError(
            "the effects of this decomposition were edited, so halves of the rows do not show "
            "their whole error; take it of the decomposition before the edits"
        )
    if model is None:
        squares, deviation, words = _squares_of_tables(d, splits, seed, memory_budget, report)
    else:
        options = {**_options_of(d, weights), "memory_budget": memory_budget}
        squares, deviation, words = _squares_of_model(
            d, model, X, sample_weight, options, splits, seed, report
        )
    total = np.sqrt(np.sum(list(squares.values()), axis=0)) if squares else np.zeros(d.n_outputs)
    error = np.divide(total, deviation, out=np.zeros(d.n_outputs), where=deviation > 0)
    terms = [
        {"term": d.term_name(subset), "error": np.sqrt(square).tolist()}
        for subset, square in squares.items()
    ]
    n_rows = d.origin.measure_rows or d.origin.n_rows
    facts = {"splits": splits, "seed": seed, "rows": n_rows, "terms": terms}
    certificate = replace(certificate, sampling_error=tuple(error.tolist()))
    if words:
        certificate = certificate.noted(f"The sampling error is estimated from halves of {words}.")
    seeds = tuple(sorted({*d.origin.seeds, seed}))
    return replace(
        d,
        certificate=certificate,
        origin=replace(d.origin, seeds=seeds),
        diagnostics={**d.diagnostics, "sampling": facts},
    )


def _squares_of_tables(
    d: Decomposition, splits: int, seed: int, memory_budget: int, report: ProgressReport
) -> tuple[dict[Subset, Array], Array, str]:
    """Return the squared error of each effect from its table; see `_squares_of_model`."""
    rows, tables = _rows_of(d), _tables_of(d)
    subsets = downward_closure(tables)
    axes = _axes_of(tables, subsets)
    _check_tables(axes, d.n_outputs, memory_budget)
    values = {s: EffectTensor(s, axes[s], table.values) for s, table in tables.items()}
    effects = EffectTensors(np.zeros(d.n_outputs), values)
    squares = {subset: np.zeros(d.n_outputs) for subset in d.components}
    cells = _cells_of_rows(rows, axes, seed, memory_budget, report)
    scale = cells.scale / (_HALVES**2 * splits)
    copies = d.origin.copies
    for split, masses in enumerate(_masses_of_halves(cells, copies, axes, splits, seed)):
        report("purifying halves of the rows", split, splits)
        halves = [
            purify_effects(effects, mass, axes, progress=lambda *_: None).effects for mass in masses
        ]
        for subset in d.components:
            difference = halves[0][subset] - halves[1][subset]
            mass = tables[subset].mass[..., None]
            square = (mass * difference**2).reshape(-1, d.n_outputs).sum(axis=0)
            squares[subset] += scale * square
    return squares, _deviation(d), cells.words


def _options_of(d: Decomposition, weights: str | Weighting | None) -> dict[str, Any]:
    """Return what `purify` was given apart from the model and its rows, as the call of `d` says."""
    if d.call is None or d.call.function != "tp.purify":
        raise InvalidInputError(
            "with a model, d must be what tp.purify returned for it; other decompositions are "
            "taken without: with_sampling_error(d)"
        )
    code = {**d.call.named}
    for name in ("sample_weight", "refits", "memory_budget", "progress"):
        code.pop(name, None)
    # A half could lead to another method and to other pairs, and lack a missing value.
    options: dict[str, Any] = {
        "method": {"joint": "exact"}.get(d.origin.method, d.origin.method) or "auto",
        "missing_cells": "always",
        "progress": False,
    }
    if code.pop("interactions", None):
        options["interactions"] = [subset for subset in d.components if len(subset) > 1]
    if weights is not None:
        options["weights"] = weights
    for name in code.keys() - options.keys():
        try:
            options[name] = literal_eval(code[name])
        except ValueError:
            options[name] = ...
        if options[name] is ...:
            raise InvalidInputError(
                f"purify was given {name}={code[name]}, which d does not store: "
                + ("pass weights, too" if name == "weights" else f"purify without {name} first")
            )
    return options


def _squares_of_model(
    d: Decomposition,
    model: Any,
    X: Any,
    sample_weight: Any,
    options: dict[str, Any],
    splits: int,
    seed: int,
    report: ProgressReport,
) -> tuple[dict[Subset, Array], Array, str]:
    """Return the squared error of each effect, the deviation of the model, and of which rows."""
    names, memory_budget = options.get("feature_names"), options["memory_budget"]
    if options.pop("columns", "auto") == "transformed":
        model, X = read_transformed(model, X)
    drawn = given_rows(
        X, features_read(model, X, names), sample_weight, (), memory_budget, report, seed=seed
    )
    columns = d.inputs.columns(drawn.table)
    row_weights = read_row_weights(drawn.weights, columns.n_rows)
    shares = row_shares(columns.n_rows, row_weights)
    counted = np.flatnonzero(shares > 0)
    _check_number(len(counted))
    # Of a sample: errors under all rows are smaller.
    scale = min(1.0, columns.n_rows / (d.origin.n_rows or 1)) / (_HALVES**2 * splits)
    squares = {subset: np.zeros(d.n_outputs) for subset in d.components}
    rng = np.random.default_rng(seed)
    for split in range(splits):
        report("purifying halves of the rows", split, splits)
        halves = []
        for half in np.array_split(rng.permutation(counted), _HALVES):
            own = None if row_weights is None else row_weights[half]
            rows = take_rows(drawn.table, half)
            purified = purify(model, rows, sample_weight=own, **options)
            parts = [purified.components[subset] for subset in squares]
            halves.append(evaluate_each(parts, columns))
        for subset, one, other in zip(squares, *halves, strict=True):
            squares[subset] += scale * (shares @ (one - other) ** 2)
    predicted = d.on_rows(columns)
    deviation = np.sqrt(shares @ (predicted - shares @ predicted) ** 2)
    return squares, deviation, drawn.words


def _rows_of(d: Decomposition) -> MeasureRows:
    """Return the rows, where they are the measure."""
    certificate = _certificate_of(d)
    if d.rows is None or not d.origin.measure_rows:
        raise InvalidInputError(
            f"the distribution of this decomposition ({d.measure}) does not consist of its rows, "
            f"so halves of them give no estimate; {_INSTEAD}"
        )
    if certificate.fitted_share:
        raise InvalidInputError(
            "the effects of this decomposition were fitted, and the error of that cannot be seen "
            f"in their tables; {_INSTEAD}"
        )
    _check_number(d.origin.measure_rows)
    return d.rows


def _check_number(n_rows: int) -> None:
    """Refuse rows of positive weight that are too few to be halved."""
    if n_rows < _LEAST_ROWS:
        raise InvalidInputError(
            f"this compares halves of the rows and needs {_LEAST_ROWS} rows of positive weight; "
            f"there are {n_rows}"
        )


def _certificate_of(d: Decomposition) -> Certificate:
    if d.certificate is None:
        raise InvalidInputError(
            "this decomposition has no certificate, to which the error would be added: pass what "
            "tp.purify returned"
        )
    return d.certificate


def _tables_of(d: Decomposition) -> dict[Subset, TensorComponent]:
    """Return the tables of all components and of the remainder, which halves move, too."""
    rest = d.remainder.parts if isinstance(d.remainder, SumOfParts) else ()
    every = {**d.tensor_components(), **{part.features: part for part in rest}}
    if len(every) < len(d.components) + len(rest):
        raise InvalidInputError(f"the effects of this decomposition are not tables; {_INSTEAD}")
    return every


def _axes_of(tables: Mapping[Subset, TensorComponent], subsets: list[Subset]) -> _Axes:
    """Return the axes of every subset: those of its table, or of a component containing it."""
    axes: _Axes = {}
    for subset in reversed(subsets):
        if subset in tables:
            axes[subset] = tables[subset].axes
            continue
        larger = next(other for other in axes if set(subset) <= set(other))
        axes[subset] = tuple(axes[larger][larger.index(j)] for j in subset)
    return axes


def _check_tables(axes: _Axes, n_outputs: int, memory_budget: int) -> None:
    """Refuse tables of two halves that would not fit."""
    cells = [prod(axis.n_cells for axis in of_table) for of_table in axes.values()]
    check_budget(
        8 * n_outputs * (_TABLES_OF_HALVES * sum(cells) + _WORKING_COPIES * max(cells, default=0)),
        memory_budget,
        f"purifying {len(cells)} tables under two halves of the rows",
        "Decompose with a smaller order.",
    )


class _RowCells(NamedTuple):
    """The cells of the rows by number of features, their shares, and what sample they are.

    `scale` turns squared errors under them into those under all rows.
    """

    codes: dict[int, Codes]
    shares: Array
    scale: float = 1.0
    words: str = ""


def _cells_of_rows(
    rows: MeasureRows, axes: _Axes, seed: int, memory_budget: int, report: ProgressReport
) -> _RowCells:
    sizes = {len(subset) for subset in axes}
    if not isinstance(rows, RowStream):
        shares = next(iter(rows.values())).shares
        return _RowCells({size: rows[size].codes for size in sizes}, shares)
    sample = sample_stream(rows, SAMPLED_ROWS, seed, memory_budget, report)
    n_rows = sample.columns.n_rows
    codes = {}
    for size in sizes:
        of_size = [(s, own) for s, own in axes.items() if len(s) == size]
        along = {j: axis for s, own in of_size for j, axis in zip(s, own, strict=True)}
        codes[size] = cells_of_columns(sample.columns, along)
    words = f"a sample of {n_rows} of {sample.n_rows} rows" if n_rows < sample.n_rows else ""
    return _RowCells(codes, row_shares(n_rows, sample.weights), n_rows / sample.n_rows, words)


def _masses_of_halves(
    rows: _RowCells, copies: int, axes: _Axes, splits: int, seed: int
) -> Iterator[list[_Tables]]:
    """Yield, for each split, the share of the rows of both halves in each cell of each subset.

    The halves have as many rows as each other, with all `copies` of each.
    """
    rng = np.random.default_rng(seed)
    n_rows = len(rows.shares) // copies
    counted = np.flatnonzero(rows.shares[:n_rows] > 0)
    copied = n_rows * np.arange(copies)[:, None]
    for _ in range(splits):
        halves = np.array_split(rng.permutation(counted), _HALVES)
        yield [_masses(rows, (copied + half).ravel(), axes) for half in halves]


def _masses(rows: _RowCells, half: Indices, axes: _Axes) -> _Tables:
    """Return the share of some of the rows in each cell of each subset."""
    masses = {}
    for subset, of_table in axes.items():
        cells = [rows.codes[len(subset)][j, half] for j in subset]
        counts = weights_in_cells(of_table, cells, rows.shares[half])
        masses[subset] = counts / counts.sum()
    return masses


def _deviation(d: Decomposition) -> Array:
    """Return the standard deviation of the model, one per output."""
    variance = np.sum(list((d.covariances or {}).values()), axis=0) * np.ones(d.n_outputs)
    return np.asarray(np.sqrt(np.maximum(variance, 0.0)))
