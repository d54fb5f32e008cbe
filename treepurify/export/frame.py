"""The cells of the components as one flat table, for spreadsheets and other languages."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["effects_frame"]


def effects_frame(
    d: Decomposition, *, most_rows: int | None = None
) -> tuple["pd.DataFrame", list[str]]:
    """Return every cell of the components, the most important component first.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    most_rows : int, optional
        Components that would make the table longer than this are left out.

    Returns
    -------
    table : DataFrame
        One row a cell and output: ``term``, ``output``, for each feature ``feature_1``,
        ``cell_1``, ``from_1``, ``to_1`` and so on (an interval contains its lower end),
        ``effect``, ``effect_before`` and ``mass``.
    left_out : list of str
        Names of the components that are left out.
    """
    import pandas as pd

    tensors = d.tensor_components()
    if not tensors and len(d) > 0:
        raise InvalidInputError(f"components of engine {d.engine!r} are not tables of cells")
    order = sorted(tensors, key=lambda subset: -float(np.sum(tensors[subset].variance)))
    frames, left_out, n_rows = [], [], 0
    for subset in order:
        size = tensors[subset].n_cells * d.n_outputs
        if most_rows is not None and n_rows + size > most_rows:
            left_out.append(d.term_name(subset))
            continue
        n_rows += size
        frames.append(_component_table(d, subset, tensors[subset].stored()))
    if not frames:
        return pd.DataFrame(columns=["term", "output", "effect", "mass"]), left_out
    table = pd.concat(frames, ignore_index=True)
    last = ["effect", "effect_before", "mass"]
    return table[[*(name for name in table if name not in last), *last]], left_out


def _component_table(d: Decomposition, subset: Subset, component: TensorComponent) -> Any:
    import pandas as pd

    columns: dict[str, Any] = {"term": d.term_name(subset), "output": None}
    indices = np.indices(component.mass.shape)
    for position, axis in enumerate(component.axes):
        cell = indices[position].ravel()
        lower, upper = _interval_ends(axis)
        columns[f"feature_{position + 1}"] = axis.name
        columns[f"cell_{position + 1}"] = np.array(axis.labels(), dtype=object)[cell]
        columns[f"from_{position + 1}"] = lower[cell]
        columns[f"to_{position + 1}"] = upper[cell]
    frames = []
    for k, output in enumerate(d.output_names):
        before = np.nan if component.raw is None else component.raw[..., k].ravel()
        own = columns | {
            "output": output,
            "effect": component.values[..., k].ravel(),
            "effect_before": before,
            "mass": component.mass.ravel(),
        }
        frames.append(pd.DataFrame(own))
    return pd.concat(frames, ignore_index=True)


def _interval_ends(
    axis: FeatureAxis,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    if axis.cuts is None:
        nothing = np.full(axis.n_cells, np.nan)
        return nothing, nothing
    special = np.full(axis.n_cells - axis.n_regular, np.nan)
    lower = np.concatenate([[-np.inf], axis.cuts, special])
    return lower, np.concatenate([axis.cuts, [np.inf], special])
