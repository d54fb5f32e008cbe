"""The sections on effects: what the model does, the table, and the pictures of the leading ones."""

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from treepurify.collinear import CollinearEffects
from treepurify.components import TensorComponent, is_drawable, tabulate
from treepurify.decomposition import Decomposition
from treepurify.grids.grid import Subset, mean_over_cells
from treepurify.plots import importance, main_effect, together
from treepurify.plots.importances import importance_size
from treepurify.plots.main_effects import lay_out_main_effect, main_effect_size
from treepurify.plots.pairs import draw_pair, lay_out_pair, pair_size
from treepurify.plots.terms import raw_effect
from treepurify.plots.together import TOGETHER_SIZE
from treepurify.report.figures import Figure, cells_along, draw, figure_of, readable
from treepurify.report.page import Section, Table
from treepurify.report.sentences import Statement, model_statements
from treepurify.verdict import verdict

if TYPE_CHECKING:
    import pandas as pd

_MOST_BARS = 10
# Pictures in the summary, and the part of the largest size below which an effect has none.
_MOST_TOLD = 6
_LEAST_DRAWN = 0.05
# What stands before the name of an effect whose group has the row above.
_INDENT = "\N{EM SPACE}"


class EffectPages:
    """The sections on the effects of one decomposition, each effect drawn once.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    top : int
        Largest number of main effects, and of pairs, that are drawn.
    """

    def __init__(self, d: Decomposition, top: int) -> None:
        self.d, self.top = d, top

    @cached_property
    def statements(self) -> list[Statement]:
        """What the model does, the first sentence about all effects."""
        return model_statements(self.d, 1 + _MOST_TOLD)

    @cached_property
    def told(self) -> list[tuple[Subset, ...]]:
        """The effects that the summary draws."""
        # Effects that cancel are drawn on rows, which a saved decomposition does not hold.
        most = 1 if self.d.grid_rows is None else len(self.d)
        effects = [each.effects for each in self.statements if each.effects]
        return [each for each in effects if len(each) <= most][: min(self.top, _MOST_TOLD)]

    def summary(self) -> Section | None:
        """Return what the model does: a sentence and a picture for each of the leading effects."""
        if not self.statements:
            is_constant = not self.d.ranking.lines
            text = ["The model is constant: it has no effects."] if is_constant else []
            return Section("What the model does", text)
        first, *others = self.statements
        size = importance_size(self.d, _MOST_BARS)
        ax = draw(size)
        importance(self.d, top=_MOST_BARS, ax=ax)
        bars = figure_of(ax, "", "Bars of the leading effects.")
        parts = [Section(each.title, [each.text], figures=self._told(each)) for each in others]
        return Section("What the model does", [first.text], figures=[bars], parts=parts)

    def _told(self, statement: Statement) -> list[Figure]:
        if statement.effects not in self.told:
            return []
        if len(statement.effects) == 1:
            return [self._figure(statement.effects[0], statement.output)]
        groups = self.d.ranking.groups
        return [self._together(next(g for g in groups if g.members == statement.effects))]

    def misleading(self) -> Section | None:
        """Return what may mislead a reader of these effects; None where nothing does."""
        d = self.d
        found = verdict(d)
        parts = []
        if found.state != "good" and found.sentence:
            parts.append(Section("How far the numbers hold", [found.sentence], state=found.state))
        for group in d.ranking.collinear:
            is_drawn = group.reason == "cancel" and group.members not in self.told
            figures = [self._together(group)] if is_drawn and d.grid_rows is not None else []
            because = f"{group.reason_words[0].upper()}{group.reason_words[1:]}."
            parts.append(Section(group.name, [f"{group.sentence} {because}"], figures=figures))
        return Section("What may mislead", parts=parts) if parts else None

    def table(self) -> Section | None:
        """Return the table of effects; None without any."""
        d = self.d
        if not d.ranking.lines:
            return None
        outputs = f", over {d.n_outputs} outputs" if d.n_outputs > 1 else ""
        headings = {
            "effect": "Effect",
            "size": f"Size (standard deviation{outputs})",
            "share": "Share of the variance, by covariance",
            "before": "Size before purification",
        }
        table = Table(self._rows(), headings, percent=["share"], bar="size", at_once=20)
        text = []
        if any(line.offsets for line in d.ranking.lines):
            text.append(
                "A negative share means that the effect offsets others: where it raises the "
                "prediction, they lower it by more."
            )
        if d.ranking.groups:
            text.append(
                "Effects that largely cancel are ranked by their sum, in the row above them."
            )
        return Section("Effects", text, [table])

    def _rows(self) -> "pd.DataFrame":
        import pandas as pd

        d = self.d
        records = [
            {
                "effect": _INDENT * line.is_member + line.name(d.term_name),
                "size": line.size,
                "share": line.share,
                "before": _size_before(d, line.subset) if line.subset else np.nan,
            }
            for line in d.ranking.lines
        ]
        return pd.DataFrame(records).dropna(axis="columns", how="all")

    def further(self, order: int, title: str) -> Section | None:
        """Return pictures of the leading effects of an order that the summary does not draw."""
        told = [effects[0] for effects in self.told if len(effects) == 1]
        leading = [
            (subset, output)
            for subset, output in self._leading(order)[: self.top]
            if subset not in told
        ]
        figures = [self._figure(subset, output) for subset, output in leading]
        return Section(title, figures=figures) if figures else None

    @property
    def leading_features(self) -> list[int]:
        """The features of the main effects that are drawn."""
        return [subset[0] for subset, _ in self._leading(1)[: self.top]]

    def _leading(self, order: int) -> list[tuple[Subset, int]]:
        """Return the effects of an order, each with the output on which it is largest."""
        lines = self.d.ranking.by_effect
        largest = max(np.nan_to_num([line.size for line in lines.values()]), default=0.0)
        return [
            (subset, int(np.argmax(np.nan_to_num(self.d.components[subset].variance))))
            for subset, line in lines.items()
            # Of an unknown size nothing says that there is nothing to see.
            if len(subset) == order
            and not line.size < max(_LEAST_DRAWN * largest, np.finfo(float).tiny)
            and has_picture(self.d, subset)
        ]

    def _figure(self, subset: Subset, output: int) -> Figure:
        draw_effect = main_figure if len(subset) == 1 else pair_figure
        caption = self.d.output_names[output] if self.d.n_outputs > 1 else ""
        return draw_effect(self.d, subset, output, caption)

    def _together(self, group: CollinearEffects) -> Figure:
        variances = [self.d.components[subset].variance for subset in group.members]
        output = int(np.argmax(np.sum(variances, axis=0)))
        ax = draw(TOGETHER_SIZE)
        together(self.d, *group.members, output=output, ax=ax)
        words = f"The effects of {group.name} on rows, and their sum."
        return figure_of(ax, "Each effect and their sum.", words)


def has_picture(d: Decomposition, subset: Subset) -> bool:
    """Return whether an effect can be drawn."""
    component = d.components[subset]
    return isinstance(component, TensorComponent) or is_drawable(component)


def _size_before(d: Decomposition, subset: Subset) -> float:
    """Return the size of an effect as the model stores it; NaN if unknown."""
    component = d.components[subset]
    raw = raw_effect(d, component) if isinstance(component, TensorComponent) else None
    if raw is None or not isinstance(component, TensorComponent):
        return np.nan
    return float(np.sqrt(np.mean(mean_over_cells(component.mass, raw**2))))


def main_figure(
    d: Decomposition, subset: Subset, output: int, caption: str, *, before: bool = True
) -> Figure:
    """Return the picture of a main effect; of intervals a reader can point at each.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    subset : tuple of int
        The feature.
    output : int
        Position of the output.
    caption : str
        The caption.
    before : bool
        Whether to also draw the effect as the model stores it.
    """
    (feature,) = subset
    table = tabulate(d.components[subset], d.inputs)
    if table is None:
        raise TypeError("only effects that can be drawn have a picture")
    ax = draw(main_effect_size(table))
    main_effect(d, feature, output=output, before=before, ax=ax)
    axis = table.axes[0]
    words = f"Main effect of {axis.name}, {d.output_names[output]}."
    if axis.is_categorical:
        return figure_of(ax, caption, words)  # bars have their labels next to them
    layout = lay_out_main_effect(d, table)
    raw = raw_effect(d, table) if before else None
    versions = {
        "effect" if raw is None else "purified": table.values[:, output],
        "before purification": None if raw is None else raw[:, output],
    }
    cells = readable([cells_along(ax, "x", layout, axis.labels())], versions, table.mass,
                     [axis.name])  # fmt: skip
    return figure_of(ax, caption, words, cells)


def pair_figure(d: Decomposition, subset: Subset, output: int, caption: str) -> Figure:
    """Return the picture of a pair, and that before purification to switch to, where it is known.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    subset : tuple of int
        The features.
    output : int
        Position of the output.
    caption : str
        The caption.
    """
    table = tabulate(d.components[subset], d.inputs)
    if table is None:
        raise TypeError("only effects that can be drawn have a picture")
    key, name = _left_to_right(table), d.term_name(subset)
    laid_out = {"purified": lay_out_pair(d, key, output)}
    if raw_effect(d, table) is not None:
        laid_out["before purification"] = lay_out_pair(d, key, output, before=True)
    versions = {version: own.values for version, own in laid_out.items()}
    pictures: list[Figure] = []
    cells = None
    for version, own in laid_out.items():
        ax = draw_pair(own, draw(pair_size(table)))
        if not pictures:  # a reader points at the cells of the first, whichever is shown
            along = [
                cells_along(ax, which, layout, merged.axis.labels())
                for which, layout, merged in zip("xy", own.layouts, own.axes, strict=True)
            ]
            cells = readable(along, versions, own.mass, own.names)
        words = f"Heatmap of {name}, {d.output_names[output]}, {version}. Hatched: no data."
        pictures.append(figure_of(ax, caption, words, None if pictures else cells))
    svgs = {version: made.versions[""] for version, made in zip(versions, pictures, strict=True)}
    return replace(pictures[0], versions=svgs)


def _left_to_right(table: TensorComponent) -> tuple[int, int]:
    first, second = table.features
    names = [axis.name.lower() for axis in table.axes]
    # A map has its north at the top.
    is_map = names[0].startswith("lat") and names[1].startswith("lo")
    return (second, first) if is_map else (first, second)
