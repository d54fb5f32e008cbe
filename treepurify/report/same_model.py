"""Whether two decompositions can be versions of one another: one model, under two measures."""

import numpy as np

from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.drawing import cell_values
from treepurify.grids.grid import Subset
from treepurify.rows.columns import Columns

__all__ = ["check_same_model"]

_POINTS = 32
_TOLERANCE = 1e-6
_ADVICE = (
    "the report switches between distributions of one model; for two models use "
    "treepurify.compare, or "
    "`treepurify compare` on the command line"
)


def check_same_model(d: Decomposition, other: Decomposition) -> None:
    """Refuse a decomposition that is not of the model of the report, or has other cells.

    Parameters
    ----------
    d : Decomposition
        The decomposition of the report.
    other : Decomposition
        The one that the reader can switch to.

    Raises
    ------
    InvalidInputError
        If features, outputs, effects of up to two features or their cells differ, or the sums
        of the effects do.
    """
    if d.feature_names != other.feature_names:
        raise _refusal("features", d.feature_names, other.feature_names)
    if d.output_names != other.output_names:
        raise _refusal("outputs", d.output_names, other.output_names)
    terms, others = (_terms(each) for each in (d, other))
    if set(terms) != set(others):
        raise _refusal("effects", terms, others)
    for name, subset in terms.items():
        _check_cells(d, other, name, subset)
    _check_sums(d, other)


def _terms(d: Decomposition) -> dict[str, Subset]:
    return {d.term_name(subset): subset for subset in d.components if len(subset) <= 2}


def _refusal(
    what: str,
    first: dict[str, Subset] | tuple[str, ...],
    second: dict[str, Subset] | tuple[str, ...],
) -> InvalidInputError:
    parts = [
        f"only {where} {', '.join(map(repr, names[:8]))}{' ...' if len(names) > 8 else ''}"
        for where, names in (
            ("the report has", [name for name in first if name not in second]),
            ("the distribution has", [name for name in second if name not in first]),
        )
        if names
    ]
    difference = "; ".join(parts) or "the same ones in another order"
    return InvalidInputError(
        f"a decomposition in measures has other {what}: {difference}. {_ADVICE}"
    )


def _check_cells(d: Decomposition, other: Decomposition, name: str, subset: Subset) -> None:
    ours, theirs = d.components[subset], other.components[subset]
    if not isinstance(ours, TensorComponent) or not isinstance(theirs, TensorComponent):
        raise InvalidInputError(
            f"the effect {name!r} of a decomposition in measures, or of the report, is not a table "
            f"of cells, so the two cannot be overlaid. {_ADVICE}"
        )
    for axis, second in zip(ours.axes, theirs.axes, strict=True):
        if not axis.same_regular(second):
            how = (
                "as many, at other split points"
                if second.n_regular == axis.n_regular
                else f"{second.n_regular} instead of {axis.n_regular}"
            )
            raise InvalidInputError(
                f"the effect {name!r} of a decomposition in measures has other intervals "
                f"of {axis.name!r} ({how}). {_ADVICE}"
            )
        if (axis.has_other, axis.has_missing) != (second.has_other, second.has_missing):
            raise InvalidInputError(
                f"only one of the decomposition of the report and one in measures has a cell for "
                f"missing or unknown values of {axis.name!r}: decompose both with the same rows, "
                'or with missing_cells="always"'
            )


def _check_sums(d: Decomposition, other: Decomposition) -> None:
    """Compare the sums at points; a remainder may need a function that is not there."""
    if d.remainder is not None or other.remainder is not None:
        return
    columns = _points(d)
    first, second = d.on_rows(columns), other.on_rows(columns)
    difference = float(np.max(np.abs(first - second)))
    if difference > _TOLERANCE * max(float(np.max(np.abs(first))), 1e-300):
        raise InvalidInputError(
            f"a decomposition in measures= belongs to another model: the sums of its effects "
            f"differ by up to {difference:.3g}. {_ADVICE}"
        )


def _points(d: Decomposition) -> Columns:
    """Return rows whose values lie in random cells."""
    rng = np.random.default_rng(0)
    columns = [np.zeros(_POINTS) for _ in d.feature_names]
    for subset, component in d.components.items():
        if isinstance(component, TensorComponent):
            for j, axis in zip(subset, component.axes, strict=True):
                cells = rng.integers(0, axis.n_regular, _POINTS)
                if axis.cuts is None:
                    columns[j] = cell_values(axis, d.inputs.features[j])[cells]
                else:
                    below = np.nextafter(axis.cuts[:1], -np.inf) if len(axis.cuts) else [0.0]
                    columns[j] = np.concatenate([below, axis.cuts])[cells]
    return Columns(d.inputs.features, tuple(columns), _POINTS)
