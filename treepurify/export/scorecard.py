"""A decomposition of log-odds as a scorecard: whole points for each interval and category.

It is written as a workbook or as a page.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from treepurify.arguments import (
    check_choice,
    check_flag,
    check_number,
    check_result,
    check_whole,
)
from treepurify.components import TensorComponent, evaluate_each, values_on_rows
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.export.left_out import OnRemainder, check_small_tables, leave_out_remainder
from treepurify.export.origin import origin
from treepurify.export.printed_cells import (
    Facts,
    merge_equal_neighbours,
    printed_cells,
    write_printed_workbook,
)
from treepurify.frozen import FrozenMapping
from treepurify.grids.grid import Subset
from treepurify.html_summary import html_summary
from treepurify.storage import write_atomically
from treepurify.terms import term_name
from treepurify.typing import Array

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PointScale", "Rounding", "Scorecard", "to_scorecard"]

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
  color: #1c1c1c; background: #fff; }
table { border-collapse: collapse; margin: 0 0 1.6rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .4rem 0; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid #ddd; text-align: left; }
td.points, th.points { text-align: right; }
.wide { overflow-x: auto; }
@media print { table { break-inside: avoid; } }
"""


@dataclass(frozen=True)
class PointScale:
    """How log-odds become points.

    Parameters
    ----------
    base_points : float
        Points at which the odds are `base_odds`.
    base_odds : float
        The odds there, as 50 for 50 to 1.
    points_to_double : float
        Points by which the odds double.
    odds : {"for", "against"}
        Whether points rise with the odds for the second class, or against it.
    """

    base_points: float = 600.0
    base_odds: float = 50.0
    points_to_double: float = 20.0
    odds: Literal["for", "against"] = "for"

    @property
    def factor(self) -> float:
        """Points per unit of log-odds for the second class."""
        sign = 1.0 if self.odds == "for" else -1.0
        return float(sign * self.points_to_double / np.log(2.0))

    @property
    def offset(self) -> float:
        """Points at even odds."""
        return float(self.base_points - abs(self.factor) * np.log(self.base_odds))

    def points(self, log_odds: Array) -> Array:
        """Return the points of log-odds for the second class."""
        return self.offset + self.factor * log_odds

    def log_odds(self, points: Array) -> Array:
        """Return the log-odds for the second class that points stand for."""
        return (points - self.offset) / self.factor


@dataclass(frozen=True)
class Rounding:
    """What rounding to whole points changes.

    Parameters
    ----------
    bound : float
        Most points by which any score can be off.
    largest, typical : float
        Points by which scores of the rows of the measure are off: the most, and the root mean
        square; NaN where no rows are kept.
    largest_probability : float
        The most by which the probability of such a row is off; NaN where no rows are kept.
    sample : str
        How many rows of how many these are, where they came in batches; empty for all.
    """

    bound: float
    largest: float
    typical: float
    largest_probability: float
    sample: str = ""

    def __str__(self) -> str:
        """Return it in a sentence."""
        return f"rounding {self.in_words()}"

    def in_words(self) -> str:
        """Return what it does, to be read after the word "rounding"."""
        text = f"changes a score by at most {self.bound:.3g} points"
        if np.isnan(self.largest):
            return f"{text}; without rows, the typical change is not known"
        where = self.sample or "the rows of the distribution"
        return (
            f"{text}, and on {where} by at most {self.largest:.3g} (root mean square "
            f"{self.typical:.2g}), and the probability by at most {self.largest_probability:.2g}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Scorecard:
    """Points for each interval or category, or for pairs of these, which add up to a score.

    Parameters
    ----------
    base : float
        Points that every row receives.
    components : mapping of tuple of int to TensorComponent
        The points of each effect, as tables.
    scale : PointScale
        The conversion of log-odds to points.
    decimals : int
        Number of decimals to which points are rounded.
    rounding : Rounding
        The error due to rounding.
    lost : str
        The loss due to leaving out the remainder, in a sentence; empty if there was none.
    measure : str
        The distribution under which the effects were computed.
    origin : tuple of (str, str)
        The model, the edits made to it, and the software that wrote the card, as names and values.

    See Also
    --------
    treepurify.export.to_scorecard : Make a scorecard from a decomposition.
    treepurify.export.Relativities : Factors of a model with a log link.
    """

    base: float
    components: Mapping[Subset, TensorComponent]
    scale: PointScale
    decimals: int
    rounding: Rounding
    lost: str
    measure: str
    origin: tuple[tuple[str, str], ...] = ()

    def score(self, X: Any) -> Array:
        """Return the score of each row in points, shape (n_rows,).

        Raises
        ------
        InvalidInputError
            If a value is missing or unseen and the scorecard has no points for it.
        """
        if not self.components:
            raise InvalidInputError("the scorecard has no effects: every row has the base points")
        inputs = next(iter(self.components.values())).inputs
        columns = inputs.columns(X)
        total = np.full(columns.n_rows, self.base)
        for points in evaluate_each(self.components.values(), columns):
            total += points[:, 0]
        return total

    def probability(self, X: Any) -> Array:
        """Return the probability of the second class implied by the score, shape (n_rows,)."""
        from scipy.special import expit

        return np.asarray(expit(self.scale.log_odds(self.score(X))))

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per interval, category or cell, the base points first.

        Returns
        -------
        DataFrame
            Columns ``characteristic``, ``attribute``, ``points``, ``share`` (of the rows of the
            distribution), and ``from`` and ``to``, the exact limits of an interval, which contains
            x if ``from <= x < to``. ``attribute`` describes the same interval with the fewest
            digits: for a model that splits at ``x <= 0.5``, it is ``<= 0.5``, and ``to`` is
            slightly larger than 0.5. For pairs, ``from_2`` and ``to_2`` are the limits of the
            second feature. Limits are NaN for categories and missing values. Neighbouring intervals
            with the same points are merged.
        """
        import pandas as pd

        frames = [
            pd.DataFrame(
                {
                    "characteristic": ["base points"], "attribute": ["all"], "points": [self.base],
                    "share": [1.0],
                }
            )
        ]  # fmt: skip
        frames += [
            pd.DataFrame(printed_cells(merge_equal_neighbours(component), "points"))
            for component in self.components.values()
        ]
        table = pd.concat(frames, ignore_index=True)
        if self.decimals == 0:
            table["points"] = table["points"].astype(np.int64)
        return table

    def facts(self) -> list[tuple[str, str]]:
        """Return the facts needed to interpret the points, as names and values."""
        scale = self.scale
        return [
            ("score", "base points plus the points of each characteristic"),
            ("base score", f"{scale.base_points:g} points at odds of {scale.base_odds:g} to 1"),
            ("odds", f"{scale.odds} the second class"),
            ("points to double the odds", f"{scale.points_to_double:g}"),
            ("rounding", self.rounding.in_words()),
            *([("without the remainder", self.lost)] if self.lost else []),
            ("distribution", self.measure),
            *self.origin,
        ]

    def to_excel(self, path: str | Path) -> None:
        """Write the scorecard as a workbook: the points, a sheet for each pair, and the facts.

        Parameters
        ----------
        path : str or Path
            The file to write, ending in ``.xlsx``; an existing one is replaced.

        Raises
        ------
        InvalidInputError
            If the name does not end in ``.xlsx``, or the folder does not exist.
        MissingDependencyError
            If openpyxl is not installed.
        """
        write_printed_workbook("scorecard", self.to_frame(), self._pairs(), self.facts(), path)

    def to_html(self, path: str | Path | None = None) -> str:
        """Return the scorecard as one HTML page, and write it to a file if `path` is passed.

        Parameters
        ----------
        path : str or Path, optional
            The file to write; an existing one is replaced.

        Raises
        ------
        InvalidInputError
            If the folder does not exist.
        """
        return _write_page(self.to_frame(), self._pairs(), self.facts(), path)

    def _pairs(self) -> list[TensorComponent]:
        return [component for component in self.components.values() if len(component.axes) == 2]

    def __repr__(self) -> str:
        """Return the first characteristics and the facts."""
        lines = [f"Scorecard of {len(self.components)} characteristics"]
        lines += [f"  {name}: {value}" for name, value in self.facts()]
        return "\n".join([*lines, self.to_frame().head(12).to_string(index=False)])

    def _repr_html_(self) -> str:
        return html_summary([f"{name}: {value}" for name, value in self.facts()], self.to_frame())


def to_scorecard(
    d: Decomposition,
    *,
    base_points: float = 600.0,
    base_odds: float = 50.0,
    points_to_double: float = 20.0,
    odds: Literal["for", "against"] = "for",
    nonnegative: bool = False,
    decimals: int = 0,
    remainder: OnRemainder = "refuse",
) -> Scorecard:
    """Return a decomposition of log-odds as a scorecard.

    Parameters
    ----------
    d : Decomposition
        A decomposition of a binary classifier into main effects and pairs that are tables of cells.
    base_points : float
        Points at which the odds are `base_odds`.
    base_odds : float
        The odds at `base_points`, such as 50 for 50 to 1.
    points_to_double : float
        Points that double the odds.
    odds : {"for", "against"}
        Whether points rise with the odds for the second class (repaid, for example) or against it
        (defaulted, for example).
    nonnegative : bool
        Whether to shift the points of each characteristic to at least zero, with lower base points
        in return.
    decimals : int
        Number of decimals to which points are rounded, at most 6.
    remainder : {"refuse", "drop"}
        What to do with a remainder (effects above the order of the decomposition), which is not a
        table: raise an error, or leave it out with a `RemainderWarning` that states its size.

    Returns
    -------
    Scorecard
        The points. It scores rows, states the error due to rounding, and can be written with
        ``to_excel`` and ``to_html``.

    Raises
    ------
    InvalidInputError
        If an effect has more than two features or is not a table of cells, or an option cannot be
        used.
    UnsupportedModelError
        If the model is not a binary classifier whose margin is the log-odds, or there is a
        remainder that is not to be dropped.

    See Also
    --------
    treepurify.export.to_relativities : The effects as factors.
    simplify : The fewest effects that the held-out loss allows.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.ensemble import GradientBoostingClassifier
    >>> from treepurify.export import to_scorecard
    >>> X = np.repeat([[0.0], [1.0]], 50, axis=0)
    >>> y = np.tile([0, 1, 1, 1, 1], 20)
    >>> y[:30] = 0
    >>> model = GradientBoostingClassifier(max_depth=1, n_estimators=200).fit(X, y)
    >>> card = to_scorecard(tp.purify(model, X))
    >>> card.to_frame()
      characteristic attribute  points  share  from   to
    0    base points       all     496    1.0   NaN  NaN
    1             x0    <= 0.5     -31    0.5  -inf  0.5
    2             x0     > 0.5      31    0.5   0.5  inf
    >>> print(card.rounding)
    rounding changes a score by at most ... points, and on the rows of the distribution by ...
    """
    check_result("d", d, Decomposition)
    check_choice("odds", odds, ("for", "against"))
    check_flag("nonnegative", nonnegative)
    check_whole("decimals", decimals, 0, 6)
    check_number("base_points", base_points)
    check_number("base_odds", base_odds, least=0, open_ends=True)
    check_number("points_to_double", points_to_double, least=0, open_ends=True)
    if d.link.name != "logit" or d.n_outputs != 1 or d.link.before is not None:
        raise UnsupportedModelError(
            f"a scorecard needs log-odds of two classes, and this decomposition has {d.n_outputs} "
            f"output{'' if d.n_outputs == 1 else 's'} with the link {d.link.name!r}"
        )
    lost = leave_out_remainder(d, remainder, "a scorecard", tables_of_any_order=False)
    check_small_tables(d, "a scorecard")
    scale = PointScale(float(base_points), float(base_odds), float(points_to_double), odds)
    factor = scale.factor * d.link.scale
    exact = {subset: factor * c.stored().values for subset, c in d.tensor_components().items()}
    shift = {subset: -points.min() if nonnegative else 0.0 for subset, points in exact.items()}
    base = scale.offset + factor * float(d.intercept[0]) - sum(shift.values())
    rounded: dict[Subset, Array] = {
        subset: np.asarray(np.round(points + shift[subset], decimals) + 0.0, dtype=np.float64)
        for subset, points in exact.items()
    }
    components = {
        subset: replace(component.stored(), values=rounded[subset], raw=None)
        for subset, component in d.tensor_components().items()
    }
    errors = {subset: rounded[subset] - shift[subset] - exact[subset] for subset in exact}
    whole = float(np.round(base, decimals))
    return Scorecard(
        whole,
        FrozenMapping(components),
        scale,
        decimals,
        _rounding(d, whole - base, errors, scale),
        lost,
        d.measure,
        tuple(origin(d)),
    )


def _rounding(
    d: Decomposition, of_base: float, errors: Mapping[Subset, Array], scale: PointScale
) -> Rounding:
    from scipy.special import expit

    bound = abs(of_base) + sum(float(np.abs(error).max()) for error in errors.values())
    rows = d.grid_rows
    if rows is None:
        return Rounding(bound, np.nan, np.nan, np.nan)
    off = np.full(rows.n_rows, of_base)
    margin = np.full(rows.n_rows, d.intercept[0])
    for subset, component in d.tensor_components().items():
        error = replace(component.stored(), values=errors[subset])
        off += values_on_rows(error, rows.by_order)[:, 0]
        margin += values_on_rows(component, rows.by_order)[:, 0]
    log_odds = d.link.scale * margin
    moved = np.abs(expit(log_odds + off / scale.factor) - expit(log_odds))
    typical = float(np.sqrt(np.sum(rows.shares * off**2)))
    return Rounding(bound, float(np.abs(off).max()), typical, float(moved.max()), rows.words)


def _write_page(
    points: "pd.DataFrame",
    pairs: Sequence[TensorComponent],
    facts: Facts,
    path: str | Path | None,
) -> str:
    """Return the page, and write it where a file is named."""
    lines = [
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Scorecard</title>',
        '<meta name="viewport" content="width=device-width">',
        f"<style>{_STYLE}</style></head><body><h1>Scorecard</h1><table>",
        *(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts),
        "</table>",
    ]
    of_pairs = {term_name(axis.name for axis in pair.axes) for pair in pairs}
    for name, table in points.groupby("characteristic", sort=False):
        if name not in of_pairs:
            lines.append(_one_way(str(name), table))
    lines += [_page_of_pair(pair) for pair in pairs]
    page = "\n".join([*lines, "</body></html>\n"])
    if path is not None:
        write_atomically(path, page.encode("utf-8", "replace"))
    return page


def _points(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")


def _one_way(name: str, table: "pd.DataFrame") -> str:
    columns = (table[name].tolist() for name in ("attribute", "points", "share"))
    rows = [
        f"<tr><td>{escape(attribute)}</td><td class=points>{_points(points)}</td>"
        f"<td class=points>{share:.1%}</td></tr>"
        for attribute, points, share in zip(*columns, strict=True)
    ]
    return (
        f"<table><caption>{escape(name)}</caption><tr><th>attribute</th><th class=points>points"
        f"</th><th class=points>rows</th></tr>{''.join(rows)}</table>"
    )


def _page_of_pair(component: TensorComponent) -> str:
    first, second = component.axes
    heads = "".join(f"<th class=points>{escape(label)}</th>" for label in second.labels(exact=True))
    rows = [
        f"<tr><th>{escape(label)}</th>"
        + "".join(f"<td class=points>{_points(value)}</td>" for value in values)
        + "</tr>"
        for label, values in zip(
            first.labels(exact=True), component.values[..., 0].tolist(), strict=True
        )
    ]
    caption = escape(f"{first.name} (down) and {second.name} (across)")
    return (
        f"<div class=wide><table><caption>{caption}</caption><tr><th></th>{heads}</tr>"
        f"{''.join(rows)}</table></div>"
    )
