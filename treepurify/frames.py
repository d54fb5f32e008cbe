"""Tables of a decomposition."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_flag, check_whole
from treepurify.budget import check_budget
from treepurify.components import TensorComponent, for_display
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.progress import ProgressReport, effect_progress, no_report
from treepurify.purification.purity import subset_pairs
from treepurify.ranking import Line
from treepurify.typing import Array

if TYPE_CHECKING:
    import pandas as pd

# The columns of a component that no feature gives its name to.
_FIXED_COLUMNS = ("output", "effect", "raw_effect", "mass")


def importance_table(d: Decomposition, order: int | None, details: bool) -> "pd.DataFrame":
    """Return the table of sizes and shares; see `Decomposition.importance`."""
    import pandas as pd

    check_flag("details", details)
    if order is not None:
        check_whole("order", order, 1, max(len(d.feature_names), 1))
    lines = [
        line
        for subset, line in d.ranking.by_effect.items()
        if order is None or len(subset) == order
    ]
    columns = {
        "effect": [line.name(d.term_name) for line in lines],
        "size": np.array([line.size for line in lines], dtype=float),
        "share": np.array([line.share for line in lines], dtype=float),
        "rank": np.array([line.rank for line in lines], dtype=int),
        "group": ["" if line.group is None else line.group.name for line in lines],
    }
    if details:
        return pd.DataFrame(_detailed(d, lines, columns))
    if not d.ranking.groups:
        del columns["group"]
    return pd.DataFrame(columns)


def _detailed(
    d: Decomposition, lines: Sequence[Line], columns: Mapping[str, Any]
) -> dict[str, Any]:
    """Return all columns, with a row for each effect and output."""
    subsets = [line.subset or () for line in lines]
    parts = {s: d.components[s] if s else d.remainder for s in subsets}
    variances = {s: None if part is None else part.variance for s, part in parts.items()}
    absolutes = {s: getattr(part, "mean_absolute", None) for s, part in parts.items()}
    known = d.covariances or {}
    whole = np.sum([*known.values()], axis=0) if known else np.full(d.n_outputs, np.nan)
    shares = {s: known[s] / np.where(whole > 0, whole, np.inf) for s in subsets if s in known}
    sums = {line.group: line for line in d.ranking.lines if line.is_sum}
    joint = [line if line.group is None else sums[line.group] for line in lines]
    higher = 1 + max(map(len, d.components), default=0)
    one_per_effect = {
        **columns,
        "order": [len(subset) or higher for subset in subsets],
        "joint_size": [line.size for line in joint],
        "joint_share": [line.share for line in joint],
    }
    of_outputs = {
        "size": np.sqrt(_by_output(d, subsets, variances)),
        "share": _by_output(d, subsets, shares),
        "mean_absolute": _by_output(d, subsets, absolutes),
    }
    if d.spread is not None:
        table = d.spread.importance().select_dtypes("number")
        for name in table:
            numbers = table[name].to_numpy().reshape(-1, d.n_outputs)
            of_effects = dict(zip(d.spread.stacked, numbers, strict=True))
            of_outputs[str(name)] = _by_output(d, subsets, of_effects)
    repeated: dict[str, Any] = {
        name: np.repeat(values, d.n_outputs) for name, values in one_per_effect.items()
    }
    found = repeated | {name: values.ravel() for name, values in of_outputs.items()}
    if d.n_outputs > 1:
        output = {"output": [*d.output_names] * len(lines)}
        found = {"effect": found.pop("effect"), **output, **found}
    return found


def _by_output(
    d: Decomposition, subsets: Sequence[Subset], known: Mapping[Subset, Array | None]
) -> Array:
    """Return numbers of each effect and output, shape (n_effects, n_outputs); NaN if unknown."""
    unknown = np.full(d.n_outputs, np.nan)
    found = [known.get(subset) for subset in subsets]
    rows = [unknown if numbers is None else numbers for numbers in found]
    return np.array(rows, dtype=np.float64).reshape(len(rows), d.n_outputs)


def contributions_table(
    d: Decomposition, X: Any, memory_budget: int, report: ProgressReport = no_report
) -> "pd.DataFrame":
    """Return what each component adds on each row; see `Decomposition.contributions`."""
    import pandas as pd

    n_rows, blocks = d.row_blocks(X)
    terms = [d.term_name(s) for s in d.components]
    taken = ("intercept", "remainder")
    names = ["intercept", *(f"{name} (feature)" if name in taken else name for name in terms)]
    names += ["remainder"] * (d.remainder is not None)
    shape = (d.n_outputs, len(names), n_rows)
    check_budget(
        8 * prod(shape),
        memory_budget,
        f"the contributions of {len(names)} effects on {n_rows} rows",
        'Write them to a file, as in to="contributions.parquet", or pass fewer rows at a time.',
    )
    table = np.empty(shape)
    table[:, 0] = d.intercept[:, None]
    stop, progress = 0, effect_progress(len(names) - 1, n_rows, report)
    for columns in blocks:
        start, stop = stop, stop + columns.n_rows
        for position, values in enumerate(d.evaluate_parts(columns), start=1):
            table[:, position, start:stop] = values.T
            progress(columns.n_rows)
    index = X.index if isinstance(X, pd.DataFrame) else None
    labels: Any = names
    if d.n_outputs > 1:
        both = [d.output_names, names]
        labels = pd.MultiIndex.from_product(both, names=["output", "term"])
    # The table is the frame's own: a copy would take as much memory again.
    flat = table.reshape(prod(shape[:2]), n_rows).T
    return pd.DataFrame(flat, columns=labels, index=index, copy=False)


def orthogonality_table(d: Decomposition) -> "pd.DataFrame":
    """Return one row per pair of nested components; see `Decomposition.orthogonality`."""
    import pandas as pd

    tensors = d.tensor_components()
    if len(tensors) < len(d.components):
        raise InvalidInputError(
            f"orthogonality needs effects that are tables, and those of engine {d.engine!r} are "
            "not; d.certificate has the errors that are known"
        )
    pairs = subset_pairs(tensors, d.certificate.scale if d.certificate else 1.0)
    return pd.DataFrame(
        {
            "term": [d.term_name(pair.subset) for pair in pairs],
            "inside": [d.term_name(pair.inside) or "intercept" for pair in pairs],
            "inner_product": [pair.inner_product for pair in pairs],
            "cosine": [pair.cosine for pair in pairs],
            "conditional_mean": [pair.conditional_mean for pair in pairs],
        }
    )


def frame_of(d: Decomposition, subset: Subset | None) -> "pd.DataFrame":
    """Return the cells of one component, or of all; see `Decomposition.to_frame`."""
    return _frame_of_all(d) if subset is None else _component_frame(d, subset)


def _frame_of_all(d: Decomposition) -> "pd.DataFrame":
    import pandas as pd

    frames = []
    has_raw = False
    for subset, component in d.tensor_components().items():
        stored = for_display(component)
        has_raw = has_raw or stored.raw is not None
        # Nothing else in this table says where a cell ends.
        labels = [cells.labels for cells in locate_each_cell(stored, exact=True)]
        words = [", ".join(cell) for cell in zip(*labels, strict=True)]
        frames.append(effect_rows(d, stored, {"term": d.term_name(subset), "cell": words}))
    if not frames:
        return pd.DataFrame()
    return _without_empty(d, pd.concat(frames, ignore_index=True), has_raw=has_raw)


def _component_frame(d: Decomposition, subset: Subset) -> "pd.DataFrame":
    component = d[subset]
    if not isinstance(component, TensorComponent):
        raise InvalidInputError(
            f"the effect {d.term_name(subset)!r} is not a table (engine {d.engine!r}); "
            "d.contributions(X) has its values on rows"
        )
    component = for_display(component)
    names = _column_names(d.feature_names)
    columns: dict[str, Any] = {}
    for j, axis, cells in zip(subset, component.axes, locate_each_cell(component), strict=True):
        label, lower, upper = names[j]
        columns[label] = cells.labels
        if not axis.is_categorical:
            columns |= {lower: cells.lower, upper: cells.upper}
    rows = effect_rows(d, component, columns)
    return _without_empty(d, rows, has_raw=component.raw is not None)


def _column_names(features: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return the column names of the label and the bounds of each feature, all different."""
    taken = set(_FIXED_COLUMNS)
    columns = []
    for feature in features:
        names = _label_and_bounds(feature)
        while not taken.isdisjoint(names):
            names = _label_and_bounds(f"{names[0]} (feature)")
        taken.update(names)
        columns.append(names)
    return columns


def _label_and_bounds(label: str) -> tuple[str, str, str]:
    return label, f"{label} (from)", f"{label} (to)"


def _without_empty(d: Decomposition, rows: "pd.DataFrame", *, has_raw: bool) -> "pd.DataFrame":
    empty = ["output"] * (d.n_outputs == 1) + ["raw_effect"] * (not has_raw)
    return rows.drop(columns=empty)


def effect_rows(
    d: Decomposition, component: TensorComponent, columns: Mapping[str, Any]
) -> "pd.DataFrame":
    """Return one row per cell and output of one component.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    component : TensorComponent
        One of its components.
    columns : mapping of str to object
        The columns before the effects: one entry per cell in the order of the table, or one for
        all of them.

    Returns
    -------
    DataFrame
        `columns`, then ``output``, ``effect``, ``raw_effect`` (before purification,
        shifted to mean zero; NaN where it is not known) and
        ``mass``; the cells of the first output first.
    """
    import pandas as pd

    raw = component.centred_raw()
    raw = np.full_like(component.values, np.nan) if raw is None else raw
    mass = component.mass.ravel()
    frames = [
        pd.DataFrame(
            {
                **columns,
                "output": output,
                "effect": component.values[..., k].ravel(),
                "raw_effect": raw[..., k].ravel(),
                "mass": mass,
            }
        )
        for k, output in enumerate(d.output_names)
    ]
    return pd.concat(frames, ignore_index=True)


class AxisCells(NamedTuple):
    """Where the cells of a table lie along one of its axes.

    Parameters
    ----------
    labels : ndarray of object, shape (n_cells,)
        In words, in the order of the table.
    lower, upper : ndarray of float64, shape (n_cells,)
        Ends of the intervals, of which the lower one is inside; NaN where a cell is none.
    """

    labels: npt.NDArray[np.object_]
    lower: Array
    upper: Array


def locate_each_cell(component: TensorComponent, *, exact: bool = False) -> list[AxisCells]:
    """Return where all cells of a component lie, axis by axis; see `FeatureAxis.labels`."""
    located = []
    indices = np.indices(component.mass.shape)
    for axis, index in zip(component.axes, indices, strict=True):
        cell = index.ravel()
        lower, upper = _interval_ends(axis)
        labels = np.array(axis.labels(exact=exact), dtype=object)
        located.append(AxisCells(labels[cell], lower[cell], upper[cell]))
    return located


def _interval_ends(axis: FeatureAxis) -> tuple[Array, Array]:
    if axis.cuts is None:
        nothing = np.full(axis.n_cells, np.nan)
        return nothing, nothing
    special = np.full(axis.n_cells - axis.n_regular, np.nan)
    lower = np.concatenate([[-np.inf], axis.cuts, special])
    return lower, np.concatenate([axis.cuts, [np.inf], special])
