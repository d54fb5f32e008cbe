"""Reasons: which groups of features make a row's prediction adverse, ranked, in words and files."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from treepurify.arguments import read_path
from treepurify.html_summary import html_summary
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.storage import write_atomically
from treepurify.typing import Array, Integers, Mask

if TYPE_CHECKING:
    import pandas as pd

Adverse = Literal["high", "low"]
DIRECTIONS = ("high", "low")

_MOST_LINES = 8
# Of values that are no whole numbers; single precision has no more.
_DIGITS = 7


@dataclass(frozen=True, eq=False)
class ReasonGroups:
    """The features in groups, each of which is one reason.

    Parameters
    ----------
    names : tuple of str
        Names of the groups, in the order of their first features in the model. A feature without a
        group is one by itself, under its own name.
    members : tuple of tuple of int
        The features of each group, increasing.
    texts : tuple of (str, str)
        What is said of each group where it makes the prediction higher, and where lower.
    """

    names: tuple[str, ...]
    members: tuple[tuple[int, ...], ...]
    texts: tuple[tuple[str, str], ...]

    @property
    def group_of_feature(self) -> Integers:
        """The position of the group of each feature, shape (n_features,)."""
        found = np.zeros(sum(map(len, self.members)), dtype=np.int64)
        for group, features in enumerate(self.members):
            found[list(features)] = group
        return found

    def text(self, group: int, direction: str) -> str:
        """Return what is said of a group that makes the prediction ``"high"`` or ``"low"``."""
        return self.texts[group][DIRECTIONS.index(direction)]


@dataclass(frozen=True, eq=False)
class RankedReasons:
    """The groups of each row, the most adverse first.

    Parameters
    ----------
    order : ndarray of int64, shape (n_rows, n_groups)
        Positions of the groups.
    n_adverse : ndarray of int64, shape (n_rows,)
        Number of groups that are adverse; they come first in `order`.
    top : int
        Most reasons that are shown.
    """

    order: Integers
    n_adverse: Integers
    top: int

    @property
    def n_shown(self) -> Integers:
        """Number of reasons that are shown of each row, shape (n_rows,)."""
        return np.minimum(self.n_adverse, self.top)

    @property
    def shown(self) -> Mask:
        """Which groups are shown, shape (n_rows, n_groups)."""
        found = np.zeros(self.order.shape, dtype=bool)
        is_first = np.arange(self.order.shape[1]) < self.n_shown[:, None]
        np.put_along_axis(found, self.order, is_first, axis=1)
        return found


def rank_reasons(adversity: Array, top: int, tolerance: float) -> RankedReasons:
    """Rank groups by how adverse they are.

    Contributions that differ by no more than `tolerance`, which is what rounding explains, are
    equal; equal ones stay in the order of the groups. What is not above `tolerance` is not adverse.

    Parameters
    ----------
    adversity : ndarray of float64, shape (n_rows, n_groups)
        Contributions in the adverse direction.
    top : int
        Most reasons that are shown.
    tolerance : float
        In the units of the contributions.

    Examples
    --------
    >>> import numpy as np
    >>> ranked = rank_reasons(np.array([[0.3, 0.1 + 0.2, -1.0, 0.5]]), top=2, tolerance=1e-12)
    >>> ranked.order.tolist(), ranked.n_adverse.tolist()
    ([[3, 0, 1, 2]], [3])
    """
    by_size = np.argsort(-adversity, axis=1, kind="stable")
    sizes = np.take_along_axis(adversity, by_size, axis=1)
    falls = np.zeros(sizes.shape, dtype=np.int64)
    falls[:, 1:] = np.cumsum(sizes[:, :-1] - sizes[:, 1:] > tolerance, axis=1)
    order = np.take_along_axis(by_size, np.lexsort((by_size, falls), axis=1), axis=1)
    return RankedReasons(order, np.sum(adversity > tolerance, axis=1), top)


@dataclass(frozen=True, eq=False, repr=False)
class ReasonCodes:
    """Ranked reasons why rows lie above or below a reference population.

    `values` are interventional Shapley values against the reference, on the margin scale. For each
    row, the reasons shown, the other adverse contributions, the favourable ones and the remainder
    sum to the difference between the margin of the row and the mean margin of the reference.

    Parameters
    ----------
    values : ndarray of float64, shape (n_rows, n_groups)
        The contribution of each group to the margin.
    margins : ndarray of float64, shape (n_rows,)
        The margin of each row.
    reference_margin : float
        The mean margin of the reference population.
    ranked : RankedReasons
        The groups of each row, the most adverse first.
    groups : ReasonGroups
        The groups and their texts.
    adverse : {"high", "low"}
        Which margins are adverse.
    closeness : float
        Share of the adverse contributions below which a gap counts as close; see `is_close`.
    output : str
        Name of the output.
    reference : str
        The reference population, in words.
    columns : Columns
        The rows as the model reads them.
    index : Any, optional
        Labels of the rows, if the table has any.
    training_values : ndarray of float64, shape (n_trainings, n_rows, n_groups), optional
        `values` in each of several trainings of the model.
    in_trainings : ndarray of float64, shape (n_rows, n_groups), optional
        Share of the trainings in which the group is among the reasons shown.

    See Also
    --------
    treepurify.reason_codes : Compute the reasons.
    treepurify.interventional_shapley_values : Shapley values against background rows.
    """

    values: Array
    margins: Array
    reference_margin: float
    ranked: RankedReasons
    groups: ReasonGroups
    adverse: Adverse
    closeness: float
    output: str
    reference: str
    columns: Columns
    index: Any = None
    training_values: Array | None = None
    in_trainings: Array | None = None

    @property
    def difference(self) -> Array:
        """Margin minus the mean margin of the reference, shape (n_rows,)."""
        return self.margins - self.reference_margin

    @property
    def gap(self) -> Array:
        """Difference between the last reason shown and the next contribution, shape (n_rows,).

        If all adverse contributions are shown, the next one is zero. NaN for a row without reasons.
        On the margin scale.
        """
        sizes = np.take_along_axis(self._adversity, self.ranked.order, axis=1)
        sizes = np.hstack([np.maximum(sizes, 0.0), np.zeros((len(sizes), 1))])
        n_shown, at = self.ranked.n_shown, np.arange(len(sizes))
        gap = sizes[at, np.maximum(n_shown - 1, 0)] - sizes[at, n_shown]
        return np.where(n_shown > 0, gap, np.nan)

    @property
    def is_close(self) -> Mask:
        """Whether the choice of reasons is close, shape (n_rows,).

        True if `gap` is less than `closeness` times the sum of the adverse contributions.
        """
        adverse = np.sum(self._adversity, axis=1, where=self._is_adverse)
        return np.asarray(self.gap < self.closeness * adverse)

    @property
    def _adversity(self) -> Array:
        return self.values if self.adverse == "high" else -self.values

    @property
    def _is_adverse(self) -> Mask:
        places = np.argsort(self.ranked.order, axis=1)
        return np.asarray(places < self.ranked.n_adverse[:, None])

    def table(self) -> "pd.DataFrame":
        """Return one line per row and reason, the most adverse reason of a row first.

        Returns
        -------
        DataFrame
            ``row`` (its label), ``rank`` from 1, ``reason``, ``text``, ``value`` of the features,
            ``contribution`` on the margin scale and ``is_close`` of the row. For several trainings
            also ``in_trainings``, the share of trainings with this reason, and
            ``training_deviation``, the standard deviation of its contribution between trainings.
        """
        import pandas as pd

        rank = np.arange(self.values.shape[1])
        row, place = np.nonzero(rank < self.ranked.n_shown[:, None])
        group = self.ranked.order[row, place]
        names = np.array(self.groups.names, dtype=object)
        texts = np.array([self._text(g) for g in range(len(names))], dtype=object)
        columns: dict[str, Any] = {
            "row": self._labels()[row],
            "rank": place + 1,
            "reason": names[group],
            "text": texts[group],
            "value": self._values_in_words(row, group),
            "contribution": self.values[row, group],
            "is_close": self.is_close[row],
        }
        if self.in_trainings is not None:
            columns["in_trainings"] = self.in_trainings[row, group]
        if self.training_values is not None:
            deviation = self.training_values.std(axis=0, ddof=1)
            columns["training_deviation"] = deviation[row, group]
        return pd.DataFrame(columns)

    def sums(self) -> "pd.DataFrame":
        """Return one line per row with the parts of the difference from the reference.

        Returns
        -------
        DataFrame
            ``row``, ``margin``, ``reference_margin`` and their ``difference``, which is the sum of
            ``reasons`` (those shown), ``other_adverse``, ``favourable`` and ``remainder``;
            ``n_adverse``, `gap` and `is_close`. All numbers but ``n_adverse`` are on the margin
            scale. The remainder contains rounding errors and, for a decomposition of a function
            that is not a parsed model, the part that belongs to no feature.
        """
        import pandas as pd

        shown, adverse = self.ranked.shown, self._is_adverse
        parts = {
            "reasons": np.sum(self.values, axis=1, where=shown),
            "other_adverse": np.sum(self.values, axis=1, where=adverse & ~shown),
            "favourable": np.sum(self.values, axis=1, where=~adverse),
        }
        return pd.DataFrame(
            {
                "row": self._labels(),
                "margin": self.margins,
                "reference_margin": self.reference_margin,
                "difference": self.difference,
                **parts,
                # Adding zero takes the sign off what is zero.
                "remainder": self.difference - sum(parts.values()) + 0.0,
                "n_adverse": self.ranked.n_adverse,
                "gap": self.gap,
                "is_close": self.is_close,
            }
        )

    def to_csv(self, path: str | Path) -> None:
        """Write `table` to a CSV file."""
        content = self.table().to_csv(index=False)
        write_atomically(read_path("path", path), content.encode("utf-8"))

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the rows of `sums`, each with a list of its reasons, as JSON.

        Parameters
        ----------
        path : str or Path, optional
            File to write it to as well.
        """
        reasons: dict[Any, list[Any]] = {}
        per_row = np.repeat(np.arange(len(self.margins)), self.ranked.n_shown).tolist()
        lines = json.loads(self.table().to_json(orient="records", double_precision=15))
        for row, line in zip(per_row, lines, strict=True):
            kept = {name: value for name, value in line.items() if name not in ("row", "is_close")}
            reasons.setdefault(row, []).append(kept)
        rows = json.loads(self.sums().to_json(orient="records", double_precision=15))
        content = {
            "output": self.output,
            "adverse": self.adverse,
            "reference": self.reference,
            "rows": [{**line, "reasons": reasons.get(row, [])} for row, line in enumerate(rows)],
        }
        text = json.dumps(content, indent=2, ensure_ascii=False)
        if path is not None:
            write_atomically(read_path("path", path), text.encode("utf-8"))
        return text

    def summary(self) -> list[str]:
        """Return the number of rows with each reason, and how certain the reasons are, as text."""
        n_rows, shown = len(self.margins), self.ranked.shown
        if not n_rows:
            return ["No rows."]
        counts = shown.sum(axis=0)
        first = np.bincount(
            self.ranked.order[self.ranked.n_shown > 0, 0], minlength=len(self.groups.names)
        )
        lines = [
            f"Reasons why {self.output} is {self.adverse}: {n_rows} rows, compared with "
            f"{self.reference} (mean {self.reference_margin:.4g})."
        ]
        for group in np.argsort(-counts, kind="stable")[:_MOST_LINES]:
            if counts[group]:
                lines.append(
                    f"  {self.groups.names[group]}: in {counts[group] / n_rows:.0%} of the rows, "
                    f"first in {first[group] / n_rows:.0%}"
                )
        lines.append(
            f"In {self.is_close.mean():.0%} of the rows, the last reason is hardly larger than the "
            "next one."
        )
        if self.in_trainings is not None and shown.any():
            share = float(self.in_trainings[shown].mean())
            lines.append(f"On average, a reason also appears in {share:.0%} of the trainings.")
        return lines

    def __repr__(self) -> str:
        """Return the summary."""
        return "\n".join(self.summary())

    def _repr_html_(self) -> str:
        return html_summary(self.summary(), self.table())

    def _text(self, group: int) -> str:
        return self.groups.text(group, self.adverse)

    def _labels(self) -> Any:
        return np.arange(len(self.margins)) if self.index is None else np.asarray(self.index)

    def _values_in_words(self, row: Integers, group: Integers) -> list[str]:
        """Return the value of the only feature of each reason, or of all of them with names."""
        matrix, specs, words = self.columns.matrix(), self.columns.features, []
        for i, g in zip(row.tolist(), group.tolist(), strict=True):
            members = self.groups.members[g]
            texts = [_text_of(float(matrix[i, j]), specs[j]) for j in members]
            if len(members) > 1:
                texts = [f"{specs[j].name} {text}" for j, text in zip(members, texts, strict=True)]
            words.append(", ".join(texts))
        return words


def _text_of(value: float, spec: FeatureSpec) -> str:
    if np.isnan(value):
        return "missing"
    label = spec.label(value)
    if label is not None or spec.is_categorical:
        return "other" if label is None else str(label)
    # Whole numbers stay whole, however large they are.
    is_whole = np.isfinite(value) and value == round(value)
    return f"{value:.{_DIGITS}g}" if not is_whole else f"{value + 0.0:.0f}"
