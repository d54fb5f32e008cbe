"""The cells of the raw columns of a pipeline: intervals of numbers, or labels."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.errors import UnsupportedModelError
from treepurify.models.cuts import cut_at_most_single, cut_below_single
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.pipelines.columns import Column, RawProbe, chain_of
from treepurify.models.pipelines.crossings import pull_back
from treepurify.rows.columns import ZERO_THRESHOLD, FeatureSpec
from treepurify.rows.missing_values import is_missing
from treepurify.rows.table_reader import read_columns
from treepurify.typing import Array

__all__ = ["RawAxis", "cells_of", "raw_axes"]

Uses = dict[int, Column]


@dataclass(frozen=True, eq=False)
class RawAxis:
    """The cells of one raw column.

    Parameters
    ----------
    spec : FeatureSpec
        How the column is read.
    values : ndarray, shape (n_cells + 1,)
        One value in each cell, and the missing one. Cells of numbers are intervals, and the
        value is the first of each; of labels, the last cell is that of all unknown ones.
    breaks : ndarray of float64, shape (n_cells - 1,)
        Where the intervals of numbers begin, but for the first.
    is_passed_on : bool
        Whether the model itself reads the column, as it is.
    """

    spec: FeatureSpec
    values: npt.NDArray[Any]
    breaks: Array
    is_passed_on: bool = False


def raw_axes(
    ensemble: TreeEnsemble,
    raws: Sequence[Column],
    uses: Uses,
    types: Sequence[np.dtype[Any] | None],
    *,
    zero_is_absent: bool,
) -> list[RawAxis]:
    """Return the cells of every raw column.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The model on the transformed columns.
    raws : sequence of Column
        The raw columns.
    uses : dict of int to Column
        The transformed columns that trees test, by position.
    types : sequence of (dtype or None)
        Types of the raw columns, where they are known.
    zero_is_absent : bool
        Whether a transformed zero is missing to the model.

    Returns
    -------
    list of RawAxis

    Raises
    ------
    UnsupportedModelError
        If a column is read both as numbers and as texts, or its missing values are of two kinds.
    """
    by_raw: dict[int, list[int]] = {}
    for t, column in uses.items():
        by_raw.setdefault(column.raw[0], []).append(t)
    axes: dict[int, RawAxis] = {}
    for r, column in enumerate(raws):
        mine = by_raw.get(r, [])
        if not mine:
            axes[r] = _unused_axis(column.name, types[r])
        elif not zero_is_absent and _all_passed_on(ensemble, uses, mine):
            axes[r] = _passed_on(ensemble, column.name, mine)
        elif any(ensemble.features[t].label_hashes is not None for t in mine):
            raise UnsupportedModelError(
                f"steps change the column {column.name!r} before CatBoost, which stores only "
                "hashes of its categories"
            )
        elif not _is_numeric(ensemble, uses, mine, types[r]):
            axes[r] = _label_axis(column.name, ensemble, uses, mine)
    numeric = [r for r in by_raw if r not in axes]
    dtypes = [np.dtype(np.float32 if t == np.float32 else np.float64) for t in types]
    searched = [t for r in numeric for t in by_raw[r]]
    found = pull_back(
        [uses[t] for t in searched],
        [_thresholds(ensemble, t, zero_is_absent=zero_is_absent) for t in searched],
        dtypes,
        [axes[r].values[0] if r in axes else dtypes[r].type(1.0) for r in range(len(raws))],
    )
    breaks = dict(zip(searched, found, strict=True))
    for r in numeric:
        axes[r] = _numeric_axis(raws[r].name, [breaks[t] for t in by_raw[r]], dtypes[r])
    return [axes[r] for r in range(len(raws))]


def cells_of(
    ensemble: TreeEnsemble, uses: Uses, axes: Sequence[RawAxis], *, zero_is_absent: bool
) -> dict[int, Array]:
    """Return what the model reads in each used column, for each cell of its raw column.

    The codes or numbers have the shape of the values of the axis; NaN is missing.
    """
    n_rows = max(len(axis.values) for axis in axes)
    table = {r: np.resize(axis.values, n_rows) for r, axis in enumerate(axes)}
    probe = RawProbe(table, [], n_rows)
    read = {}
    for t, column in uses.items():
        axis = axes[column.raw[0]]
        if axis.is_passed_on:
            read[t] = np.asarray(axis.values, dtype=np.float64)
            continue
        values = probe.column(column)[: len(axis.values)]
        if zero_is_absent:
            values = np.where(values == 0, np.nan, np.asarray(values, dtype=np.float64))
        specs = (ensemble.features[t],)
        of_model = read_columns(values[:, None], specs, match_names=False).values[0]
        read[t] = of_model.astype(np.float64)
    return read


def _unused_axis(name: str, dtype: np.dtype[Any] | None) -> RawAxis:
    """Return the one cell of a column that no tree tests; texts must not be refused."""
    spec = FeatureSpec(name)
    if dtype is None or dtype.kind not in "biuf":
        spec = FeatureSpec(name, kind="categorical", categories=(), numbers_are="labels")
    return RawAxis(spec, np.array([0.0, np.nan]), np.zeros(0))


def _all_passed_on(ensemble: TreeEnsemble, uses: Uses, mine: list[int]) -> bool:
    specs = {replace(ensemble.features[t], name="") for t in mine}
    return all(uses[t].stage is None for t in mine) and len(specs) == 1


def _passed_on(ensemble: TreeEnsemble, name: str, mine: list[int]) -> RawAxis:
    spec = replace(ensemble.features[mine[0]], name=name)
    if spec.is_categorical:
        codes = np.append(np.arange(spec.n_codes + 1.0), np.nan)
        return RawAxis(spec, codes, np.zeros(0), is_passed_on=True)
    breaks = np.unique(np.concatenate([_cuts(ensemble, t) for t in mine]))
    return RawAxis(spec, np.concatenate([[-np.inf], breaks, [np.nan]]), breaks, is_passed_on=True)


def _is_numeric(
    ensemble: TreeEnsemble, uses: Uses, mine: list[int], dtype: np.dtype[Any] | None
) -> bool:
    """Whether any use reads the raw column as a number, rather than by its label."""
    found = set()
    for t in mine:
        reads = (link.output.reads for link in chain_of(uses[t]))
        of_model = "numbers" if ensemble.features[t].categories is None else "labels"
        found.add(next((how for how in reads if how != "either"), of_model))
    is_number = dtype is None or dtype.kind in "biuf"
    return "numbers" in found or (found == {"missing"} and is_number)


def _label_axis(name: str, ensemble: TreeEnsemble, uses: Uses, mine: list[int]) -> RawAxis:
    labels = _distinguished(ensemble, uses, mine)
    is_none = is_missing(np.array([*labels, None], dtype=object))
    missing = [label for label, is_one in zip(labels, is_none, strict=False) if is_one]
    known = tuple(label for label, is_one in zip(labels, is_none, strict=False) if not is_one)
    if len({label is None for label in missing}) > 1:
        raise UnsupportedModelError(
            f"the column {name!r} had both None and NaN in training, which its encoder "
            "distinguishes but tables do not"
        )
    spec = FeatureSpec(
        name,
        kind="categorical",
        categories=known,
        n_codes=len(known),
        numbers_are="labels",
        has_missing=bool(missing),
    )
    cells = (*known, _unknown(known), missing[0] if missing else np.nan)
    values = np.array(cells, dtype=object)
    if all(isinstance(label, int | float | np.number) for label in cells[:-1]):
        values = values.astype(np.float64)
    return RawAxis(spec, values, np.zeros(0))


def _distinguished(ensemble: TreeEnsemble, uses: Uses, mine: list[int]) -> list[Hashable]:
    """Return the labels that the uses of a raw column distinguish."""
    labels: dict[Hashable, None] = {}
    for t in mine:
        for link in chain_of(uses[t]):
            labels |= dict.fromkeys(link.output.labels)
            if link.output.reads != "either":
                break
        else:
            labels |= dict.fromkeys(ensemble.features[t].categories or ())
    return list(labels)


def _unknown(known: Sequence[Hashable]) -> Hashable:
    """Return a label that is not among the known ones."""
    if not known or isinstance(known[0], str):
        label = "unknown"
        while label in known:
            label += "?"
        return label
    numbers = [float(label) for label in known if isinstance(label, int | float | np.number)]
    return max(numbers, default=0.0) + 1.0


def _numeric_axis(name: str, breaks: Sequence[Array], dtype: np.dtype[Any]) -> RawAxis:
    lowest = float(np.finfo(dtype).min)
    joined = np.unique(np.concatenate(breaks))
    joined = joined[joined > lowest]
    values = np.concatenate([[lowest], joined, [np.nan]]).astype(dtype)
    # Transformers of numbers convert texts and categories to numbers.
    return RawAxis(FeatureSpec(name, reads_texts=True), values, joined)


def _cuts(ensemble: TreeEnsemble, t: int) -> Array:
    return np.unique(ensemble.cut[(ensemble.feature == t) & (ensemble.category_ptr < 0)])


def _thresholds(ensemble: TreeEnsemble, t: int, *, zero_is_absent: bool) -> Array:
    """Return the transformed numbers at which what the model reads in a column may change."""
    spec = ensemble.features[t]
    parts = [_cuts(ensemble, t)]
    if spec.is_categorical and spec.categories is not None and spec.numbers_are == "labels":
        numbers = [label for label in spec.categories if isinstance(label, int | float)]
        values = np.array(numbers, dtype=np.float64)
        parts += [values, np.nextafter(values, np.inf)]
    elif spec.is_categorical:
        codes = np.asarray(spec.labels, dtype=np.float64)
        parts += [codes, codes + 1.0, np.nextafter([-1.0], 0.0), np.zeros(1)]
    if zero_is_absent:
        parts.append(np.array([0.0, np.nextafter(0.0, 1.0)]))
    if spec.zero_is_missing:
        parts.append(np.array([-ZERO_THRESHOLD, np.nextafter(ZERO_THRESHOLD, 1.0)]))
    if spec.missing_value is not None:
        value = np.array([spec.missing_value], dtype=np.float32)
        parts += [cut_below_single(value), cut_at_most_single(value)]
    return np.unique(np.concatenate(parts))
