"""How far effects are off because the rows are a sample, from halves of the rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from treepurify.arguments import check_result, check_whole
from treepurify.budget import DEFAULT_BUDGET, check_budget, check_memory_budget
from treepurify.certificate import Certificate
from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.effects.tensor import EffectTensor, EffectTensors
from treepurify.errors import InvalidInputError
from treepurify.grid_rows import Codes, cells_of_columns, weights_in_cells
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import EncodedRows, Subset
from treepurify.moments import MeasureRows
from treepurify.progress import progress_report
from treepurify.purification.cascade import downward_closure, purify_effects
from treepurify.remainder import SumOfParts
from treepurify.rows.reduction import RowStream
from treepurify.rows.resampling import RowSplit
from treepurify.rows.source_reader import RowBatch
from treepurify.typing import Array, Indices

__all__ = ["with_sampling_error"]

_HALVES = 2
_LEAST_ROWS = 4
# Purified tables and masses of both halves; and what a solve works on.
_TABLES_OF_HALVES, _WORKING_COPIES = 5, 4
_INSTEAD = (
    "tp.unbiased_importance(model, X) estimates the sampling noise of effects from the model, "
    "under any distribution"
)

_Axes = dict[Subset, tuple[FeatureAxis, ...]]
_Tables = dict[Subset, Array]


def with_sampling_error(
    d: Decomposition,
    *,
    splits: int = 4,
    seed: int = 0,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> Decomposition:
    r"""Add the sampling error of the effects to the certificate.

    The rows that represent the distribution are a sample; another sample would give other effects
    of the same model. To estimate the difference, the rows are split in halves, and the model is
    purified again under each half. Since purification is linear, this needs only the tables of the
    effects. If errors are proportional to ``1 / sqrt(n_rows)``, a quarter of the mean squared
    difference between two halves estimates the squared error under all rows. On populations that
    can be sampled repeatedly, the estimate is 0.6 to 1.4 times the error of fresh samples for
    effects of two features, and as low as 0.6 times for sparsely filled tables of three features.

    A split takes at least as long as the purification itself, so `purify` does not do this.

    Parameters
    ----------
    d : Decomposition
        A decomposition whose distribution consists of its rows, or of smoothed copies of them, and
        whose effects were not fitted: from `purify` without projection, or from `categorical_anova`
        with all its functions.
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
        margin scale.

    Raises
    ------
    InvalidInputError
        If the distribution does not consist of rows, or effects were fitted or edited; use
        `unbiased_importance` instead.
    MemoryBudgetError
        If the tables would not fit.

    See Also
    --------
    unbiased_importance : Variances of effects without the noise of few rows.
    refit : Several trainings of one model.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.ensemble import GradientBoostingRegressor
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> model = GradientBoostingRegressor(max_depth=2, random_state=0).fit(X, X[:, 0] * X[:, 1])
    >>> d = tp.with_sampling_error(tp.purify(model, X))
    >>> print(d.certificate.details()[-1])
    Sampling error, estimated from halves of the 500 rows ...
    """
    check_result("d", d, Decomposition, "treepurify.purify")
    check_whole("splits", splits, 1)
    check_whole("seed", seed, 0)
    check_memory_budget(memory_budget)
    report = progress_report(progress)
    rows, tables = _rows_of(d), _tables_of(d)
    subsets = downward_closure(tables)
    axes = _axes_of(tables, subsets)
    _check_tables(axes, d.n_outputs, memory_budget)
    values = {s: EffectTensor(s, axes[s], table.values) for s, table in tables.items()}
    effects = EffectTensors(np.zeros(d.n_outputs), values)
    squares = {subset: np.zeros(d.n_outputs) for subset in d.components}
    copies = _certificate_of(d).measure_copies
    for split, masses in enumerate(_masses_of_halves(rows, copies, axes, splits, seed)):
        report("purifying halves of the rows", split, splits)
        halves = [
            purify_effects(effects, mass, axes, progress=lambda *_: None).effects for mass in masses
        ]
        for subset in d.components:
            difference = halves[0][subset] - halves[1][subset]
            mass = tables[subset].mass[..., None]
            square = (mass * difference**2).reshape(-1, d.n_outputs).sum(axis=0)
            squares[subset] += square / (_HALVES**2 * splits)
    deviation = _deviation(d)
    total = np.sqrt(np.sum(list(squares.values()), axis=0)) if squares else np.zeros(d.n_outputs)
    error = np.divide(total, deviation, out=np.zeros(d.n_outputs), where=deviation > 0)
    terms = [
        {"term": d.term_name(subset), "error": np.sqrt(square).tolist()}
        for subset, square in squares.items()
    ]
    certificate = _certificate_of(d)
    facts = {"splits": splits, "seed": seed, "rows": certificate.measure_rows, "terms": terms}
    certificate = replace(certificate, sampling_error=tuple(error.tolist()), sampling_splits=splits)
    seeds = tuple(sorted({*d.origin.seeds, seed}))
    return replace(
        d,
        certificate=certificate,
        origin=replace(d.origin, seeds=seeds),
        diagnostics={**d.diagnostics, "sampling": facts},
    )


def _rows_of(d: Decomposition) -> MeasureRows:
    """Return the rows, where they are the measure."""
    certificate = _certificate_of(d)
    if d.rows is None or not certificate.measure_rows:
        raise InvalidInputError(
            f"the distribution of this decomposition ({d.measure}) does not consist of its rows, "
            f"so halves of them give no estimate; {_INSTEAD}"
        )
    if certificate.fitted_share or certificate.edits:
        how = "edited" if certificate.edits else "fitted"
        raise InvalidInputError(
            f"the effects of this decomposition were {how}, so halves of the rows do not show "
            f"their whole error; {_INSTEAD}"
        )
    if certificate.measure_rows < _LEAST_ROWS:
        raise InvalidInputError(
            f"this compares halves of the rows and needs {_LEAST_ROWS} rows of positive weight; "
            f"there are {certificate.measure_rows}"
        )
    return d.rows


def _certificate_of(d: Decomposition) -> Certificate:
    if d.certificate is None:
        raise InvalidInputError(f"this decomposition has no certificate; {_INSTEAD}")
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


def _masses_of_halves(
    rows: MeasureRows, copies: int, axes: _Axes, splits: int, seed: int
) -> Iterator[list[_Tables]]:
    """Yield, for each split, the share of the rows of both halves in each cell of each subset.

    The halves of rows in memory have as many rows as each other, with all `copies` of each. Of
    rows in batches, each goes to one half or the other by its file and row number.
    """
    if isinstance(rows, RowStream):
        report = progress_report(rows.progress)
        for number in range(splits):
            statistic = _RowsOfHalves(axes, RowSplit(seed, number, _HALVES))
            tables = rows.reduce(statistic, "counting the rows of each half", report)
            yield [{s: table / table.sum() for s, table in half.items()} for half in tables]
        return
    rng = np.random.default_rng(seed)
    shares = next(iter(rows.values())).shares
    n_rows = len(shares) // copies
    counted = np.flatnonzero(shares[:n_rows] > 0)
    copied = n_rows * np.arange(copies)[:, None]
    for _ in range(splits):
        halves = np.array_split(rng.permutation(counted), _HALVES)
        yield [_masses(rows, (copied + half).ravel(), axes) for half in halves]


def _masses(rows: Mapping[int, EncodedRows], half: Indices, axes: _Axes) -> _Tables:
    """Return the share of some of the rows in each cell of each subset."""
    masses = {}
    for subset, of_table in axes.items():
        of_size = rows[len(subset)]
        cells = [of_size.codes[j, half] for j in subset]
        counts = weights_in_cells(of_table, cells, of_size.shares[half])
        masses[subset] = counts / counts.sum()
    return masses


@dataclass(frozen=True, eq=False)
class _RowsOfHalves:
    """The statistic of the rows of each half in the cells of tables; its state has both halves."""

    axes: _Axes
    split: RowSplit

    def zero(self) -> list[_Tables]:
        """Return tables without rows."""
        shapes = {s: tuple(axis.n_cells for axis in axes) for s, axes in self.axes.items()}
        return [{s: np.zeros(shape) for s, shape in shapes.items()} for _ in range(_HALVES)]

    def add(self, state: list[_Tables], rows: RowBatch) -> list[_Tables]:
        """Return the tables with the rows of a batch."""
        half = self.split.parts(rows.part, rows.first_row, len(rows))
        cells: dict[int, Codes] = {}
        for size in {len(subset) for subset in self.axes}:
            of_size = [(s, axes) for s, axes in self.axes.items() if len(s) == size]
            along = {j: axis for s, axes in of_size for j, axis in zip(s, axes, strict=True)}
            cells[size] = cells_of_columns(rows.columns, along)
        for which, tables in enumerate(state):
            there = np.flatnonzero(half == which)
            for subset, table in tables.items():
                codes = [cells[len(subset)][j, there] for j in subset]
                added = weights_in_cells(self.axes[subset], codes, rows.counts[there])
                np.add(table, added, out=table)
        return state

    def merge(self, state: list[_Tables], other: list[_Tables]) -> list[_Tables]:
        """Return the tables of the rows of both."""
        return [
            {subset: table + more[subset] for subset, table in tables.items()}
            for tables, more in zip(state, other, strict=True)
        ]


def _deviation(d: Decomposition) -> Array:
    """Return the standard deviation of the model, one per output."""
    variance = np.sum(list((d.covariances or {}).values()), axis=0) * np.ones(d.n_outputs)
    return np.asarray(np.sqrt(np.maximum(variance, 0.0)))
