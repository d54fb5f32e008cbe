"""A decomposition with a log link as factor tables, as pricing engines load them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.arguments import brief, check_result, check_whole, read_path
from treepurify.components import TensorComponent, evaluate_each
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.export.left_out import OnRemainder, check_small_tables, leave_out_remainder
from treepurify.export.origin import origin
from treepurify.export.printed_cells import (
    merge_equal_neighbours,
    printed_cells,
    write_printed_workbook,
)
from treepurify.frozen import FrozenMapping
from treepurify.grids.grid import Subset
from treepurify.html_summary import html_summary
from treepurify.rows.row_weights import heaviest
from treepurify.spread import one_more_training
from treepurify.storage import write_atomically
from treepurify.terms import read_features, term_name
from treepurify.typing import Array

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Relativities", "to_relativities"]

_MOST_DECIMALS = 12


@dataclass(frozen=True, eq=False, repr=False)
class Relativities:
    """Factors for intervals, categories and pairs of these; their product is the prediction.

    Parameters
    ----------
    base : float
        The prediction at the base level of every feature, without the factors of pairs.
    components : mapping of tuple of int to TensorComponent
        The factors of each effect, as tables.
    base_levels : mapping of str to str
        For each table, the level whose factor is one: the level with the most exposure.
    bands : mapping of tuple of int to tuple of ndarray
        Lower and upper factors of each table for one more training; empty without several
        trainings.
    decimals : int, optional
        Number of decimals to which factors are rounded; None if they are not rounded.
    largest_error : float
        Largest relative error of a prediction due to rounding.
    lost : str
        The loss due to leaving out the remainder, in a sentence; empty if there was none.
    measure : str
        The distribution under which the effects were computed.
    origin : tuple of (str, str)
        The model, the edits made to it, and the software that wrote the tables, as names and
        values.

    See Also
    --------
    treepurify.export.to_relativities : Make factor tables from a decomposition.
    treepurify.export.Scorecard : Points of a binary classifier.
    """

    base: float
    components: Mapping[Subset, TensorComponent]
    base_levels: Mapping[str, str]
    bands: Mapping[Subset, tuple[Array, Array]]
    decimals: int | None
    largest_error: float
    lost: str
    measure: str
    origin: tuple[tuple[str, str], ...] = ()

    def predict(self, X: Any) -> Array:
        """Return the prediction for each row, shape (n_rows,).

        It is the base times the factors of the row: the prediction for one unit of exposure, on the
        response scale.

        Raises
        ------
        InvalidInputError
            If a value is missing or unseen and the tables have no factor for it.
        """
        if not self.components:
            raise InvalidInputError("there are no effects: every row has the base value")
        columns = next(iter(self.components.values())).inputs.columns(X)
        total = np.full(columns.n_rows, self.base)
        for factors in evaluate_each(self.components.values(), columns):
            total *= factors[:, 0]
        return total

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per interval, category or cell, the base first.

        Returns
        -------
        DataFrame
            Columns ``characteristic``, ``attribute``, ``factor``, ``share`` (of the exposure), and
            ``from`` and ``to``, the exact limits of an interval, which contains x if
            ``from <= x < to``. ``attribute`` describes the same interval with the fewest digits, as
            in `Scorecard`. For pairs, ``from_2`` and ``to_2`` are the limits of the second feature.
            Limits are NaN for categories and missing values. With several trainings, ``low`` and
            ``high`` are the limits of the factor for one more training. Neighbouring intervals with
            the same factor are merged, unless there are ``low`` and ``high``.
        """
        import pandas as pd

        frames = [
            pd.DataFrame(
                {
                    "characteristic": ["base"], "attribute": ["all"], "factor": [self.base],
                    "share": [1.0],
                }
            )
        ]  # fmt: skip
        for subset, component in self.components.items():
            band = self.bands.get(subset)
            shown = merge_equal_neighbours(component) if band is None else component
            columns = printed_cells(shown, "factor")
            if band is not None:
                columns |= {"low": band[0].ravel(), "high": band[1].ravel()}
            frames.append(pd.DataFrame(columns))
        return pd.concat(frames, ignore_index=True)

    def facts(self) -> list[tuple[str, str]]:
        """Return the facts needed to interpret the factors, as names and values."""
        levels = "; ".join(f"{name}: {level}" for name, level in self.base_levels.items())
        rounding = "none"
        if self.decimals is not None:
            rounding = (
                f"factors are rounded to {self.decimals} decimals, which changes a prediction by "
                f"at most {100 * self.largest_error:.2g}%"
            )
        return [
            (
                "prediction",
                "the base value times the factor from each table, for one unit of exposure",
            ),
            ("base levels (factor 1)", levels or "none"),
            ("pairs", "relative to the product of the factors of both features"),
            ("rounding", rounding),
            *([("without the remainder", self.lost)] if self.lost else []),
            ("distribution", self.measure),
            *self.origin,
        ]

    def to_csv(self, path: str | Path) -> None:
        """Write `to_frame` as a CSV file, with all digits of the factors.

        Raises
        ------
        InvalidInputError
            If the folder does not exist.
        """
        text = self.to_frame().to_csv(index=False, lineterminator="\n")
        write_atomically(read_path("path", path), text.encode("utf-8"))

    def to_excel(self, path: str | Path) -> None:
        """Write a workbook: all factors, a sheet for each pair, and the facts.

        Raises
        ------
        InvalidInputError
            If the name does not end in ``.xlsx``, or the folder does not exist.
        MissingDependencyError
            If openpyxl is not installed.
        """
        pairs = [table for table in self.components.values() if len(table.axes) == 2]
        write_printed_workbook("factors", self.to_frame(), pairs, self.facts(), path)

    def __repr__(self) -> str:
        """Return the first factors and the facts."""
        lines = [f"Factor tables of {len(self.components)} characteristics"]
        lines += [f"  {name}: {value}" for name, value in self.facts()]
        return "\n".join([*lines, self.to_frame().head(12).to_string(index=False)])

    def _repr_html_(self) -> str:
        return html_summary([f"{name}: {value}" for name, value in self.facts()], self.to_frame())


def to_relativities(
    d: Decomposition,
    *,
    fold: Sequence[Any] = (),
    decimals: int | None = None,
    remainder: OnRemainder = "refuse",
) -> Relativities:
    """Return a decomposition with a log link as factor tables.

    The response of the model is the exponential of a sum of effects, so it is the product of a base
    and one factor from each table, as in the rating plan of a generalised linear model with a log
    link (Goldburd, Khare & Tevet 2016). In the table of a single feature, the level with the most
    exposure has factor one. A pair contains only the interaction, so its factors multiply those of
    its two features.

    Parameters
    ----------
    d : Decomposition
        A decomposition of one output with a log link (Poisson, Gamma, Tweedie) into main effects
        and pairs that are tables of cells. If the exposure was passed to `purify` as
        ``sample_weight``, shares are shares of the exposure.
    fold : sequence of (str, str)
        Pairs whose table should also include both main effects, as rating engines with two-way
        tables expect. A feature can be in only one such pair.
    decimals : int, optional
        Number of decimals to which factors are rounded; by default they have full double precision.
    remainder : {"refuse", "drop"}
        What to do with a remainder (effects above the order of the decomposition), which is not a
        table: raise an error, or leave it out with a `RemainderWarning` that states its size.

    Returns
    -------
    Relativities
        The factors, whose product is on the response scale. It predicts, states the error due to
        rounding, and can be written with ``to_csv`` and ``to_excel``. An offset (``base_margin`` of
        XGBoost, ``init_score`` of LightGBM) is not part of a model. If a model was trained with the
        log of the exposure as offset, the tables give the frequency per unit of exposure, to be
        multiplied by the exposure.

    Raises
    ------
    InvalidInputError
        If an effect has more than two features or is not a table of cells, a pair in `fold` is not
        an effect of `d`, a feature is in two of these pairs, or a factor would be rounded to zero.
    UnsupportedModelError
        If the link is not the log, there are several outputs, or there is a remainder that is
        not to be dropped.

    See Also
    --------
    treepurify.export.to_scorecard : The effects as points.
    treepurify.export.to_excel : The effects as a workbook.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.ensemble import HistGradientBoostingRegressor
    >>> from treepurify.export import to_relativities
    >>> X = np.repeat([[0.0], [1.0]], [60, 40], axis=0)
    >>> y = np.where(X[:, 0] > 0, 3.0, 1.5)
    >>> model = HistGradientBoostingRegressor(loss="poisson", max_iter=300).fit(X, y)
    >>> tables = to_relativities(tp.purify(model, X), decimals=3)
    >>> tables.to_frame()[["characteristic", "attribute", "factor", "share"]]
      characteristic attribute  factor  share
    0           base       all     1.5    1.0
    1             x0    <= 0.5     1.0    0.6
    2             x0     > 0.5     2.0    0.4
    """
    check_result("d", d, Decomposition)
    if decimals is not None:
        check_whole("decimals", decimals, 0, _MOST_DECIMALS)
    if d.link.name != "log" or d.n_outputs != 1 or d.link.before is not None:
        raise UnsupportedModelError(
            f"factor tables need one output with a log link, and this decomposition has "
            f"{d.n_outputs} output{'' if d.n_outputs == 1 else 's'} with the link {d.link.name!r}"
            + ("; for log-odds, use to_scorecard" if d.link.name == "logit" else "")
        )
    lost = leave_out_remainder(d, remainder, "a set of factor tables", tables_of_any_order=False)
    check_small_tables(d, "a set of factor tables")
    folded = _read_pairs(d, fold)
    effects = _folded(d, folded)
    log_base, logs, base_levels = d.link.scale * float(d.intercept[0]), {}, {}
    for subset, component in effects.items():
        values = d.link.scale * component.values
        if len(subset) == 1 or subset in folded:
            place = np.unravel_index(heaviest(component.mass.ravel()), component.mass.shape)
            labels = [axis.labels()[at] for axis, at in zip(component.axes, place, strict=True)]
            base_levels[term_name(axis.name for axis in component.axes)] = term_name(labels)
            log_base += float(values[place][0])
            values = values - values[place]
        logs[subset] = values
    factors = {subset: _rounded(np.exp(values), decimals) for subset, values in logs.items()}
    errors = [np.abs(np.log(factors[s]) - logs[s]).max() for s in logs if decimals is not None]
    return Relativities(
        float(np.exp(log_base)),
        FrozenMapping({s: replace(effects[s], values=factors[s], raw=None) for s in effects}),
        FrozenMapping(base_levels),
        FrozenMapping(_bands(d, effects, folded)),
        decimals,
        float(np.expm1(np.sum(errors))),
        lost,
        d.measure,
        tuple(origin(d)),
    )


def _read_pairs(d: Decomposition, fold: Sequence[Any]) -> set[Subset]:
    """Return the pairs to fold, checked."""
    if isinstance(fold, str) or not isinstance(fold, Sequence):
        raise InvalidInputError(
            f'fold must be a list of pairs, such as [("age", "power")], got {brief(fold)}'
        )
    pairs = [read_features(pair, d.feature_names) for pair in fold]
    for pair in pairs:
        if len(pair) != 2 or pair not in d.components:
            raise InvalidInputError(
                f"fold must name pairs that are effects of this decomposition; "
                f"{d.term_name(pair)!r} is not one"
            )
    members = [feature for pair in pairs for feature in pair]
    twice = {feature for feature in members if members.count(feature) > 1}
    if twice:
        names = ", ".join(repr(d.feature_names[feature]) for feature in sorted(twice))
        raise InvalidInputError(
            f"a feature can be folded into one pair only; {names} are in several"
        )
    return set(pairs)


def _folded(d: Decomposition, folded: set[Subset]) -> dict[Subset, TensorComponent]:
    """Return the tables of effects, those of folded pairs with both main effects in them."""
    tables = {subset: table.stored() for subset, table in d.tensor_components().items()}
    found = {
        subset: table
        for subset, table in tables.items()
        if not any(len(subset) == 1 and subset[0] in pair for pair in folded)
    }
    for pair in folded:
        mains = [tables.get((feature,)) for feature in pair]
        found[pair] = _with_mains(tables[pair], mains)
    return found


def _with_mains(pair: TensorComponent, mains: Sequence[TensorComponent | None]) -> TensorComponent:
    """Return the sum of a pair and its main effects, on the cells of these, which are finer."""
    axes = tuple(
        axis if main is None else main.axes[0] for axis, main in zip(pair.axes, mains, strict=True)
    )
    first, second = (fine.cells_in(axis) for fine, axis in zip(axes, pair.axes, strict=True))
    values = pair.values[np.ix_(first, second)]
    mass = pair.mass[np.ix_(first, second)]
    for which, (main, cells) in enumerate(zip(mains, (first, second), strict=True)):
        if main is None:
            continue
        along = main.values[:, None] if which == 0 else main.values[None]
        values = values + along
        # The mass of a cell of the pair is divided as that of the feature alone.
        held = np.bincount(cells, main.mass, pair.mass.shape[which])[cells]
        part = np.divide(main.mass, held, out=np.zeros_like(held), where=held > 0)
        mass = mass * (part[:, None] if which == 0 else part)
    return replace(pair, axes=axes, values=values, mass=mass, raw=None)


def _rounded(factors: Array, decimals: int | None) -> Array:
    if decimals is None:
        return factors
    rounded = np.round(factors, decimals)
    if np.any(rounded == 0.0):
        raise InvalidInputError(
            f"a factor of {factors.min():.2g} would be rounded to zero: pass more decimals "
            f"than {decimals}"
        )
    return np.asarray(rounded)


def _bands(
    d: Decomposition, effects: Mapping[Subset, TensorComponent], folded: set[Subset]
) -> dict[Subset, tuple[Array, Array]]:
    """Return the factors between which one more training would lie, relative to the base level."""
    found: dict[Subset, tuple[Array, Array]] = {}
    if d.spread is None:
        return found
    for subset, component in effects.items():
        if subset in folded or subset not in d.spread.stacked:
            continue
        each = d.link.scale * d.spread.values(subset)
        if len(subset) == 1:
            base = heaviest(component.mass)
            each = each - each[:, base : base + 1]
        lower, upper = one_more_training(each)
        found[subset] = np.exp(lower), np.exp(upper)
    return found
