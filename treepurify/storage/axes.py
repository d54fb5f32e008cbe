"""What must hold of features and of the cells along them in a file."""

from itertools import pairwise

import numpy as np

from treepurify.engines.ale.components import AccumulationAxis
from treepurify.errors import SavedFileError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Grid
from treepurify.rows.columns import FeatureSpec
from treepurify.typing import Array

__all__ = ["check_accumulation_axis", "check_axis", "check_feature", "check_grid"]


def check_feature(spec: FeatureSpec) -> None:
    """Refuse a feature whose codes and labels do not fit each other."""
    of_codes = (spec.listed_codes, spec.label_hashes)
    fits = spec.n_codes >= 0 and all(
        listed is None or len(listed) == spec.n_codes for listed in of_codes
    )
    fits = fits and (spec.categories is None or len(spec.categories) >= spec.n_codes)
    listed = spec.listed_codes or ()
    if not fits or any(a >= b for a, b in pairwise(listed)):
        raise SavedFileError(
            f"feature {spec.name!r} in the file has other codes than labels: it is damaged"
        )


def check_axis(axis: FeatureAxis) -> None:
    """Refuse cuts that are no numbers in increasing order."""
    fits = axis.cuts is None or _increases(axis.cuts)
    if axis.bounds is not None:
        fits = fits and bool(np.all(np.isfinite(axis.bounds))) and axis.bounds[0] <= axis.bounds[1]
    if not fits:
        raise SavedFileError(f"the cells of {axis.name!r} in the file are damaged")


def check_accumulation_axis(axis: AccumulationAxis) -> None:
    """Refuse nodes that are no finite numbers, or of a number not in increasing order."""
    fits = _increases(axis.nodes) if not axis.is_categorical else axis.nodes.ndim == 1
    if not fits or not np.all(np.isfinite(axis.nodes)):
        raise SavedFileError(f"the nodes of feature {axis.feature} in the file are damaged")


def check_grid(grid: Grid) -> None:
    """Refuse axes of other features than the grid has."""
    if len(grid.axes) != len(grid.features):
        raise SavedFileError(
            f"the file has {len(grid.axes)} axes of cells for {len(grid.features)} features"
        )


def _increases(numbers: Array) -> bool:
    is_list = numbers.ndim == 1 and not np.any(np.isnan(numbers))
    return is_list and bool(np.all(numbers[1:] > numbers[:-1]))
