"""The classes below storage that a saved decomposition may hold."""

from functools import cache

from treepurify.columns import Columns
from treepurify.components import ModelInputs, RemainderComponent, TensorComponent
from treepurify.effects.accumulate import LeafBoxes
from treepurify.effects.accumulated import AccumulatedComponent, AccumulationAxis
from treepurify.effects.box_component import BoxComponent
from treepurify.effects.pattern_component import PatternComponent
from treepurify.effects.pattern_shares import PatternShares
from treepurify.errors import SavedFileError
from treepurify.features import FeatureSpec
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import EncodedRows, Grid
from treepurify.links import Link
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parsed import ModelSource
from treepurify.models.tables import AdditiveTables, TableTerm
from treepurify.remainder import ModelRemainder
from treepurify.saving import savable

__all__ = ["announce_kinds"]


def _check_table(component: TensorComponent) -> None:
    shape = tuple(axis.n_cells for axis in component.axes)
    if component.values.shape[:-1] != shape or component.mass.shape != shape:
        raise SavedFileError(
            f"the table of features {component.features} has shape {component.values.shape}, its "
            f"axes say {shape}"
        )


_NAMES = (
    ("inputs", ModelInputs),
    ("sum of tables", RemainderComponent),
    ("columns", Columns),
    ("leaf boxes", LeafBoxes),
    ("accumulation axis", AccumulationAxis),
    ("accumulated", AccumulatedComponent),
    ("boxes", BoxComponent),
    ("patterns", PatternComponent),
    ("pattern shares", PatternShares),
    ("feature", FeatureSpec),
    ("axis", FeatureAxis),
    ("rows", EncodedRows),
    ("grid", Grid),
    ("link", Link),
    ("trees", TreeEnsemble),
    ("source", ModelSource),
    ("additive tables", AdditiveTables),
    ("additive table", TableTerm),
)


@cache
def announce_kinds() -> None:
    """Register them; once is enough."""
    for name, cls in _NAMES:
        savable(name)(cls)
    savable("table", check=_check_table)(TensorComponent)
    # Terms that were not kept apart can be found as long as the model itself is at hand.
    savable("model minus components", left_out=("find",))(ModelRemainder)
