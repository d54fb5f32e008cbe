"""The classes below storage that a saved decomposition may hold."""

from functools import cache

from treepurify.columns import Columns
from treepurify.components import ModelInputs, RemainderComponent, TensorComponent
from treepurify.effects.accumulate import LeafBoxes
from treepurify.engines.ale.components import AccumulatedComponent, AccumulationAxis
from treepurify.engines.partial_dependence.pattern_component import PatternComponent
from treepurify.engines.partial_dependence.pattern_shares import PatternShares
from treepurify.engines.tree.box_component import BoxComponent
from treepurify.features import FeatureSpec
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import EncodedRows, Grid
from treepurify.links import Link
from treepurify.models.additive_tables import AdditiveTables, TableTerm
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parsed import ModelSource
from treepurify.remainder import ModelRemainder
from treepurify.saving import savable
from treepurify.storage.checks import (
    check_box_component,
    check_boxes,
    check_pattern,
    check_shares,
    check_table,
)

__all__ = ["announce_kinds"]


_NAMES = (
    ("inputs", ModelInputs),
    ("sum of tables", RemainderComponent),
    ("columns", Columns),
    ("accumulation axis", AccumulationAxis),
    ("accumulated", AccumulatedComponent),
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
    savable("table", check=check_table)(TensorComponent)
    savable("leaf boxes", check=check_boxes)(LeafBoxes)
    savable("boxes", check=check_box_component)(BoxComponent)
    savable("patterns", check=check_pattern)(PatternComponent)
    savable("pattern shares", check=check_shares)(PatternShares)
    # Terms that were not kept apart can be found as long as the model itself is at hand.
    savable("model minus components", left_out=("find",))(ModelRemainder)
