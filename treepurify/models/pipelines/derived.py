"""Derived columns: what the steps of a pipeline make of several raw columns, or in an unknown way.

The trees test such a column as it is. A raw table is read by asking the fitted steps for it, and so
nothing is guessed about them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from treepurify.models.pipelines.columns import Column
from treepurify.models.pipelines.transformed_rows import FittedSteps
from treepurify.rows.columns import Derivation, FeatureSpec

__all__ = ["DerivedColumns", "derive"]


@dataclass(frozen=True, eq=False)
class DerivedColumns:
    """A pipeline whose derived columns stand behind its raw ones, as if a table had them.

    Parameters
    ----------
    raws : tuple of Column
        The raw columns, and behind them the derived ones.
    made : tuple of Column
        The columns that the last step takes, none of those that trees test refused.
    steps : FittedSteps
        What makes the derived ones.
    made_by : dict of int to int
        Among `made`, the position of each derived column, by its position among `raws`.
    sources : dict of int to tuple of int
        Positions of the raw columns that it is made from.
    """

    raws: tuple[Column, ...]
    made: tuple[Column, ...]
    steps: FittedSteps
    made_by: dict[int, int]
    sources: dict[int, tuple[int, ...]]

    def spec(self, position: int, spec: FeatureSpec) -> FeatureSpec:
        """Return what is known of one of the columns."""
        if position not in self.made_by:
            return spec
        made_from = tuple(self.raws[raw].name for raw in self.sources[position])
        how = Derivation(self.steps, self.made_by[position])
        return replace(spec, made_from=made_from, derivation=how)


def derive(
    pipeline: Any,
    raws: Sequence[Column],
    made: Sequence[Column],
    positions: Sequence[int],
    names: Sequence[str] | None,
    counted: Sequence[Derivation] = (),
) -> DerivedColumns:
    """Return a pipeline some of whose transformed columns are taken as they are.

    Parameters
    ----------
    pipeline : Pipeline
        A fitted pipeline.
    raws, made : sequence of Column
        The columns that it takes, and those that its last step takes.
    positions : sequence of int
        Which of these are derived columns.
    names : sequence of str, optional
        Names of the columns that the last step takes, where the steps name them.
    counted : sequence of Derivation
        How the last of `made` are made of the others, within the last step.
    """
    columns, derived = list(made), list(raws)
    made_by, sources = {}, {}
    taken = {column.name for column in raws}
    for t in positions:
        name = _free_name(made[t].name if names is None else names[t], taken, t)
        taken.add(name)
        place = len(derived)
        derived.append(Column(name, (place,), None, place))
        columns[t] = derived[-1]
        made_by[place], sources[place] = t, made[t].raw
    takes = tuple(column.name for column in raws)
    last_made = tuple(made[: len(made) - len(counted)])
    steps = FittedSteps(tuple(pipeline.steps), takes, last_made, tuple(counted))
    return DerivedColumns(tuple(derived), tuple(columns), steps, made_by, sources)


def _free_name(name: str, taken: set[str], position: int) -> str:
    """Return a name that no other column has: imputers pass the names of raw columns on."""
    for free in (name, f"{name} (transformed)"):
        if free not in taken:
            return free
    return f"{name} (transformed column {position})"
