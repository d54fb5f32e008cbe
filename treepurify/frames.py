"""Tables and short texts of a decomposition."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify.budget import check_budget
from treepurify.components import Component, EachTable, TensorComponent, for_display
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.progress import ProgressReport, effect_progress, no_report
from treepurify.purification.purity import subset_pairs
from treepurify.ranking import Ranking, SortBy, share_sums
from treepurify.spread import LEVEL, Spread
from treepurify.typing import Array
from treepurify.verdict import columns_words, measure_words, verdict

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "AxisCells",
    "contributions_table",
    "counted_effects",
    "effect_rows",
    "frame_of",
    "importance_table",
    "locate_each_cell",
    "orthogonality_table",
    "ranked_table",
    "spread_words",
    "text_summary",
]

# The columns of a component that no feature gives its name to.
_FIXED_COLUMNS = ("output", "effect", "raw_effect", "mass")


def importance_table(d: Decomposition, sort_by: SortBy | None = None) -> "pd.DataFrame":
    """Return one row per component and output; see `Decomposition.importance`."""
    ranking = d.ranking if sort_by is None else d.rank(sort_by)
    parts = {subset: _part(d, subset) for subset in ranking.order}
    shares = _shares(_by_term(d, ranking, d.covariances or {}))
    joint, places = shares.copy(), ranking.places
    for group in ranking.groups:
        members = [places[subset] for subset in group.members]
        joint[members] = shares[members].sum(axis=0)
    absolutes = {subset: getattr(part, "mean_absolute", None) for subset, part in parts.items()}
    columns = {
        "mean_absolute": _by_term(d, ranking, absolutes),
        "covariance_share": shares,
        "joint_share": joint,
    }
    if d.spread is not None:
        table = d.spread.importance().select_dtypes("number")
        for name in table:
            known = table[name].to_numpy().reshape(-1, d.n_outputs)
            of_effects = dict(zip(d.spread.stacked, known, strict=True))
            columns[str(name)] = _by_term(d, ranking, of_effects)
    return _table_of(d, ranking, columns)


def ranked_table(d: Decomposition, ranking: Ranking) -> "pd.DataFrame":
    """Return the variance of each term and output, and the ``share`` by which they rank."""
    return _table_of(d, ranking, {"share": _shares(_sizes(d, ranking))})


def _table_of(d: Decomposition, ranking: Ranking, more: Mapping[str, Array]) -> "pd.DataFrame":
    """Return variances and their shares with `more` columns (n_terms, n_outputs).

    Outputs of a term follow each other, the one on which it is largest first.
    """
    import pandas as pd

    variance = _variances(d, ranking)
    outputs = np.argsort(-np.abs(_sizes(d, ranking)), axis=1, kind="stable")
    groups = ranking.group_names
    order_of_rest = 1 + max(map(len, d.components), default=0)
    rows = [subset for subset in ranking.order for _ in d.output_names]
    columns: dict[str, Any] = {
        "term": [d.term_name(subset) or "remainder" for subset in rows],
        "output": [d.output_names[k] for k in outputs.ravel()],
        "order": [len(subset) or order_of_rest for subset in rows],
        "group": [groups.get(subset, "") for subset in rows],
    }
    for name, values in {"variance": variance, "variance_share": _shares(variance), **more}.items():
        columns[name] = np.take_along_axis(values, outputs, axis=1).ravel()
    if d.n_outputs == 1:
        del columns["output"]
    return pd.DataFrame(columns)


def _part(d: Decomposition, subset: Subset) -> Component | None:
    """Return the component of a subset; the remainder under the empty one."""
    return d.components[subset] if subset else d.remainder


def _by_term(d: Decomposition, ranking: Ranking, known: Mapping[Subset, Array | None]) -> Array:
    """Return numbers of each term and output, in their order; NaN where they are not known."""
    unknown = np.full(d.n_outputs, np.nan)
    found = [known.get(subset) for subset in ranking.order]
    rows = [unknown if numbers is None else numbers for numbers in found]
    return np.array(rows, dtype=np.float64).reshape(len(rows), d.n_outputs)


def _variances(d: Decomposition, ranking: Ranking) -> Array:
    parts = {subset: _part(d, subset) for subset in ranking.order}
    variances = {subset: None if part is None else part.variance for subset, part in parts.items()}
    return _by_term(d, ranking, variances)


def _sizes(d: Decomposition, ranking: Ranking) -> Array:
    """Return what terms are ranked by."""
    if ranking.sort_by == "variance":
        return _variances(d, ranking)
    return _by_term(d, ranking, d.covariances or {})


def _shares(parts: Array) -> Array:
    """Return the share of each row in the sum of rows: zero of nothing, NaN of what is unknown."""
    whole = parts.sum(axis=0)
    nothing = whole <= 0
    return np.where(nothing, 0.0, parts / np.where(nothing, 1.0, whole))


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
    pairs = subset_pairs(
        EachTable(tensors, lambda component: component.values),
        EachTable(tensors, lambda component: component.mass),
        {s: c.axes for s, c in tensors.items()},
        d.certificate.scale if d.certificate else 1.0,
    )
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


def text_summary(d: Decomposition, most: int = 8) -> str:
    """Return a description of a few lines."""
    lines = [_opening(d)]
    ranking = d.rank(read_rows=False)
    known = [subset for subset in ranking.order if subset or np.isnan(ranking.shares[subset])]
    shown = known[: ranking.n_shown(known, most)]
    lines += _ranked_lines(d, ranking, shown)
    lines += [f"  ... and {more} more"] if (more := len(known) - len(shown)) else []
    sums = share_sums(ranking, d.inputs.combined)
    lines += [sums] if sums else []
    lines += ranking.sentences(shown, d.term_name)
    lines += filter(None, [columns_words(d), measure_words(d)])
    lines += verdict(d).lines
    lines += [] if d.certificate is None else d.certificate.edits
    if d.spread is not None:
        lines.append(spread_words(d.spread))
    return "\n".join(lines)


def counted_effects(d: Decomposition) -> str:
    """Return how many effects there are, of how many features."""
    n_combined = len(d.inputs.combined)
    n_others = len(d.feature_names) - n_combined
    of = [f"{n_others} feature{'s' * (n_others != 1)}"] if n_others or not n_combined else []
    if n_combined:
        of.append(f"{n_combined} combination{'s' * (n_combined != 1)} of columns")
    return f"{len(d)} effects of {' and '.join(of)}"


def _opening(d: Decomposition) -> str:
    """Return how many effects there are, and what they are averages over."""
    counted = counted_effects(d)
    n_rows = d.origin.measure_rows
    # How these measures are named with rows behind them; others name themselves.
    smoothed = {"empirical": "", "smoothed rows": " (smoothed)"}.get(d.measure)
    known = d.origin.identifiability
    which = ""
    if known is not None and not known.is_unique:
        which = f": {'the smallest' if known.is_least_norm else 'one'} of many solutions"
    if n_rows and smoothed is not None:
        return f"{counted}, averaged over {n_rows} rows{smoothed}{which}"
    return f"{counted} (distribution: {d.measure}){which}"


def _ranked_lines(d: Decomposition, ranking: Ranking, shown: Sequence[Subset]) -> list[str]:
    """Return a line for each of the effects, and one above those that cancel."""
    lines = []
    for subset, group in zip(shown, ranking.groups_above(shown), strict=True):
        if group is not None:
            lines.append(f"  {_percent(ranking.share(group))}  {group.joint_name}:")
        indent = "    " if subset in ranking.group_names else ""
        component = _part(d, subset)
        variance = np.nan if component is None else float(np.sum(component.variance))
        size = _size(variance, ranking.shares[subset])
        lines.append(f"  {indent}{size}  {d.term_name(subset) or 'remainder'}")
    return lines


def spread_words(spread: Spread) -> str:
    """Return in a line how many trainings there are, and how many effects have no sign."""
    how = f" ({spread.how})" if spread.how else ""
    without = len(spread.no_clear_sign())
    whole = sum(np.count_nonzero(np.any(spread.variances(s) > 0, axis=0)) for s in spread.stacked)
    return (
        f"{spread.n_models} trainings{how}: {without} of {whole} effects have no clear sign (their "
        f"{LEVEL:.0%} bands include zero nearly everywhere)"
    )


def _size(variance: float, share: float) -> str:
    if not np.isnan(share):
        return _percent(share)
    return "variance unknown" if np.isnan(variance) else f"variance {variance:7.4g}"


def _percent(share: float) -> str:
    return f"{share:7.2%}"
