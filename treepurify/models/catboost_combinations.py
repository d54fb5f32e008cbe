"""Make one column of each combination of categories and tests that CatBoost counts rows by.

A model keeps several statistics of one combination, such as shares of the target with different
priors, and its trees test each of them at several borders. Rows whose statistics lie between the
same borders are the same to the model, so that they have one code, as labels of a column have.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.models.catboost_statistics import (
    CategoryStatistic,
    Combination,
    Hashes,
    Singles,
    find_hashes,
    with_part,
)
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.limits import check_category_tables
from treepurify.rows.columns import Derivation, FeatureSpec
from treepurify.rows.table_reader import hashed_labels, read_placed_columns
from treepurify.rows.tables import row_count, table_column, table_names
from treepurify.typing import Array, Indices, Mask


def without_hidden_columns(model: TreeEnsemble) -> TreeEnsemble:
    """Leave out raw columns that only derived ones are made of; tables may have them.

    Parameters
    ----------
    model : TreeEnsemble
        A model of raw columns and, behind them, of those that CatBoost makes of several.

    Returns
    -------
    TreeEnsemble
        The same model where CatBoost made none.
    """
    derived = [spec for spec in model.features if spec.derivation is not None]
    if combination_columns(derived) is None:
        return model
    sources = {name for spec in derived for name in spec.made_from}
    used = set(model.used_features)
    hidden = {
        j
        for j, spec in enumerate(model.features)
        if spec.derivation is None and j not in used and spec.name in sources
    }
    kept = tuple(j for j in range(model.n_features) if j not in hidden)
    ignored = tuple(model.features[j].name for j in sorted(hidden))
    features = tuple(replace(spec, ignored=(*spec.ignored, *ignored)) for spec in model.features)
    names = [repr(spec.name) for spec in derived]
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    note = (
        f"derived columns, made by the statistics of CatBoost: {', '.join(names[:8])}{more}; after "
        "loading from a file, tables must contain them"
    )
    source, signs = model.source, model.source.constraints
    source = replace(
        source,
        notes=(*source.notes, note),
        constraints=tuple(signs[j] for j in kept) if signs else (),
    )
    return replace(model, features=features, source=source).of_features(kept)


@dataclass(frozen=True, eq=False)
class CodedCombination:
    """The statistics of one combination; rows that no test of them separates have the same code.

    Parameters
    ----------
    combination : Combination
        What is counted together.
    statistics : tuple of CategoryStatistic
        All statistics of it.
    hashes : ndarray of uint64, shape (n_known,)
        Hashes that any of the statistics knows, increasing.
    codes : ndarray of intp, shape (n_known + 1,)
        The code of each, and behind them that of any other hash, which has the priors.
    low, high : ndarray of float32, shape (n_codes, n_statistics)
        Range of each statistic at each code. Codes increase with the first statistic, and where
        that is the same with the next.
    """

    combination: Combination
    statistics: tuple[CategoryStatistic, ...]
    hashes: Hashes
    codes: Indices
    low: Singles
    high: Singles

    @property
    def unseen(self) -> int:
        """The code of what training did not have."""
        return int(self.codes[-1])

    @property
    def n_codes(self) -> int:
        """Number of codes."""
        return len(self.low)

    def of_hashes(self, hashes: Hashes) -> Indices:
        """Return the code of rows, given the hashes of their combinations."""
        return self.codes[find_hashes(self.hashes, hashes)]

    def codes_left(self, statistic: CategoryStatistic, border: float) -> Mask:
        """Return which codes lie at most at a border of a statistic; a table's own go as unseen."""
        at = next(k for k, own in enumerate(self.statistics) if own is statistic)
        left = ~statistic.goes_right(self.low[:, at], border)
        return np.append(left, left[self.unseen])

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The range of the first statistic at each code, and of others where that is not enough."""
        rounded = self._ranges("{:.3g}")
        return rounded if len(set(rounded)) == self.n_codes else self._ranges("{!s}")

    def _ranges(self, style: str) -> tuple[str, ...]:
        labels = [""] * self.n_codes
        for low, high in zip(self.low.T, self.high.T, strict=True):
            taken = Counter(labels)
            if len(taken) == self.n_codes > 1:
                break
            for code, (first, last) in enumerate(zip(low, high, strict=True)):
                ends = dict.fromkeys((style.format(first), style.format(last)))
                before = f"{labels[code]}, " if labels[code] else ""
                if taken[labels[code]] > 1 or not before:
                    labels[code] = before + " to ".join(ends)
        return tuple(labels)

    @cached_property
    def recipe(self) -> str:
        """All that the codes are made by, as text."""
        return f"{self.combination} {[statistic.recipe for statistic in self.statistics]}"


def coded_combinations(statistics: Sequence[CategoryStatistic]) -> tuple[CodedCombination, ...]:
    """Return the combinations of several columns or with tests, in the order of their statistics.

    Parameters
    ----------
    statistics : sequence of CategoryStatistic
        All statistics of a model; those of single columns are left out.

    Returns
    -------
    tuple of CodedCombination

    Raises
    ------
    UnsupportedModelError
        If their statistics would take too much memory.
    """
    of_combination: dict[Combination, list[CategoryStatistic]] = {}
    for statistic in statistics:
        if statistic.combination.column is None:
            of_combination.setdefault(statistic.combination, []).append(statistic)
    return tuple(_coded(combination, own) for combination, own in of_combination.items())


def _coded(combination: Combination, statistics: Sequence[CategoryStatistic]) -> CodedCombination:
    check_category_tables(len(statistics) * sum(len(own.hashes) + 1 for own in statistics))
    hashes = np.unique(np.concatenate([own.hashes for own in statistics]))
    values = np.stack([np.append(own.of_hashes(hashes), own.unseen) for own in statistics], axis=1)
    passed = np.stack(
        [own.borders_below(column) for own, column in zip(statistics, values.T, strict=True)],
        axis=1,
    )
    different, codes = np.unique(passed, axis=0, return_inverse=True)
    codes = codes.ravel()
    low = np.full(different.shape, np.inf, dtype=np.float32)
    high = np.full(different.shape, -np.inf, dtype=np.float32)
    np.minimum.at(low, codes, values)
    np.maximum.at(high, codes, values)
    return CodedCombination(combination, tuple(statistics), hashes, codes, low, high)


@dataclass(frozen=True, eq=False)
class CombinationColumns:
    """Combinations as columns of codes, which are made from those of a raw table.

    They are `TableSteps`.

    Parameters
    ----------
    features : tuple of FeatureSpec
        The raw columns, in the order of the model.
    missing_left : ndarray of bool, shape (n_features,)
        Whether missing numbers lie below all borders.
    combinations : tuple of CodedCombination
        The combinations.
    """

    features: tuple[FeatureSpec, ...]
    missing_left: Mask
    combinations: tuple[CodedCombination, ...]

    @property
    def takes(self) -> tuple[str, ...]:
        """Names of the raw columns."""
        return tuple(spec.name for spec in self.features)

    @cached_property
    def derived(self) -> tuple[FeatureSpec, ...]:
        """The columns that they make."""
        names = _column_names([coded.combination for coded in self.combinations], self.features)
        return tuple(
            FeatureSpec(
                name,
                kind="categorical",
                categories=coded.labels,
                n_codes=coded.n_codes,
                made_from=tuple(self.takes[j] for j in coded.combination.columns),
                derivation=Derivation(self, position),
                ordered_labels=coded.labels,
            )
            for position, (name, coded) in enumerate(zip(names, self.combinations, strict=True))
        )

    def recipe(self, position: int) -> str:
        """Say how one of the columns is made: the same where other steps make the same."""
        coded = self.combinations[position]
        used = coded.combination.columns
        missing = [bool(self.missing_left[j]) for j in used]
        return f"{[self.takes[j] for j in used]} {missing} {coded.recipe}"

    def columns(self, X: Any, positions: Sequence[int]) -> list[npt.NDArray[Any]]:
        """Return the codes of the rows of a table in some of the combinations."""
        rows = _RawRows(X, self)
        made: list[npt.NDArray[Any]] = []
        for coded in (self.combinations[position] for position in positions):
            codes = coded.of_hashes(rows.hashes(coded.combination))
            codes[rows.lacks(coded.combination)] = coded.unseen
            made.append(codes)
        return made


def combination_columns(features: Sequence[FeatureSpec]) -> CombinationColumns | None:
    """Return what makes the combinations among features, the first of several; None without any."""
    made_by = (spec.derivation.steps for spec in features if spec.derivation is not None)
    return next((steps for steps in made_by if isinstance(steps, CombinationColumns)), None)


def with_raw_columns(
    features: Sequence[FeatureSpec], change: Callable[[FeatureSpec], FeatureSpec]
) -> tuple[FeatureSpec, ...]:
    """Change what is known of raw columns, and name combinations of them anew.

    Parameters
    ----------
    features : sequence of FeatureSpec
        The features of a model.
    change : callable
        Returns what is known of a raw column instead.

    Returns
    -------
    tuple of FeatureSpec
    """
    changed: dict[CombinationColumns, CombinationColumns] = {}
    found = []
    for spec in features:
        steps = None if spec.derivation is None else spec.derivation.steps
        if spec.derivation is None:
            found.append(change(spec))
        elif isinstance(steps, CombinationColumns):
            # Models that were joined have several.
            if steps not in changed:
                changed[steps] = replace(steps, features=tuple(map(change, steps.features)))
            own = changed[steps].derived[spec.derivation.position]
            named = replace(spec, name=own.name, made_from=own.made_from)
            found.append(replace(named, derivation=own.derivation))
        else:
            found.append(spec)
    return tuple(found)


class _RawRows:
    """The columns of a table, each read once."""

    def __init__(self, X: Any, steps: CombinationColumns) -> None:
        names = table_names(X) or ()
        by_name = set(steps.takes) <= set(names)
        self._table = X
        self._steps = steps
        self._place = [names.index(n) if by_name else j for j, n in enumerate(steps.takes)]
        self._labels: dict[int, tuple[npt.NDArray[np.int64], Mask]] = {}
        self._numbers: dict[int, Array] = {}

    def hashes(self, combination: Combination) -> Hashes:
        """Return the hash of each row's combination."""
        total = np.zeros(row_count(self._table), dtype=np.uint64)
        for column in combination.categories:
            total = with_part(total, self._labels_of(column)[0].view(np.uint64))
        for column, border in combination.above:
            total = with_part(total, self._is_above(column, border).astype(np.uint64))
        for column, label in combination.equal:
            total = with_part(total, (self._labels_of(column)[0] == label).astype(np.uint64))
        return total

    def lacks(self, combination: Combination) -> Mask:
        """Return which rows have no category in a column of a combination."""
        lacking = np.zeros(row_count(self._table), dtype=np.bool_)
        for column in combination.categories:
            lacking |= self._labels_of(column)[1]
        return lacking

    def _labels_of(self, column: int) -> tuple[npt.NDArray[np.int64], Mask]:
        if column not in self._labels:
            values = table_column(self._table, self._place[column])
            self._labels[column] = hashed_labels(values)
        return self._labels[column]

    def _is_above(self, column: int, border: float) -> Mask:
        if column not in self._numbers:
            features = self._steps.features
            read = read_placed_columns(self._table, features, {column: self._place[column]})
            with np.errstate(over="ignore"):
                self._numbers[column] = read.values[column].astype(np.float32)
        numbers = self._numbers[column]
        missing_right = not self._steps.missing_left[column]
        return (numbers > np.float32(border)) | (np.isnan(numbers) & missing_right)


def _column_names(
    combinations: Sequence[Combination], features: Sequence[FeatureSpec]
) -> tuple[str, ...]:
    """Name combinations after their parts, with a number where that is the name of another."""
    short = [_short_name(combination, features) for combination in combinations]
    taken = Counter([*short, *(spec.name for spec in features)])
    return tuple(
        name if taken[name] == 1 else f"{name} (combination {number})"
        for number, name in enumerate(short, start=1)
    )


def _short_name(combination: Combination, features: Sequence[FeatureSpec]) -> str:
    parts = [features[column].name for column in combination.categories]
    for column, border in sorted(combination.above):
        parts.append(_test_name(features[column].name, np.float32(border)))
    for column, label in sorted(combination.equal):
        spec = features[column]
        parts.append(f"{spec.name} = {spec.labels[spec.code_of[label]]}")
    return " \N{MULTIPLICATION SIGN} ".join(parts)


def _test_name(name: str, border: np.float32) -> str:
    # At the ends of single precision CatBoost parts missing values from all numbers.
    if abs(border) == np.finfo(np.float32).max:
        return f"{name} is missing" if border > 0 else f"{name} is present"
    # The shortest digits that are no other number in single precision.
    return f"{name} > {border!s}"
