"""Read the features of a CatBoost document, and the tests that its trees refer to."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify.errors import UnsupportedModelError
from treepurify.models.catboost_combinations import (
    CodedCombination,
    CombinationColumns,
    coded_combinations,
)
from treepurify.models.catboost_statistics import (
    CategoryStatistic,
    Combination,
    damaged,
    read_statistic,
)
from treepurify.models.catboost_trees import NodeTable, Split
from treepurify.models.cuts import cut_at_most_single
from treepurify.models.ensemble import LEAF, NUMERIC_NODE
from treepurify.models.limits import check_category_tables, check_features
from treepurify.rows.category_hash import unnamed_label
from treepurify.rows.columns import FeatureSpec
from treepurify.typing import Array, Integers, Mask

TRAIN_WITHOUT_TEXTS = "Encode texts and embeddings as numbers before training."
_MISSING_GOES_RIGHT = {"AsIs": False, "AsFalse": False, "AsTrue": True}
_LARGEST_HASH = 2**31


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """The features of a model and all tests on them.

    Parameters
    ----------
    specs : tuple of FeatureSpec
        The features, in the order of the table.
    named : bool
        Whether their names are the user's.
    missing_left : ndarray of bool, shape (n_features,)
        Whether missing values go left.
    numeric, categorical : dict of int to int
        Position in the table of each numeric and each categorical feature, by its number among
        its kind.
    tests : tuple of Split
        Every test, by the number that CatBoost itself finds it with. Features that follow those of
        the table are statistics of categories.
    statistics : tuple of CategoryStatistic
        All of them.
    """

    specs: tuple[FeatureSpec, ...]
    named: bool
    missing_left: Mask
    numeric: dict[int, int]
    categorical: dict[int, int]
    tests: tuple[Split, ...]
    statistics: tuple[CategoryStatistic, ...]

    @cached_property
    def combinations(self) -> dict[Combination, tuple[int, CodedCombination]]:
        """The column of each combination, behind those of the table, and its codes."""
        coded = enumerate(coded_combinations(self.statistics), start=len(self.specs))
        return {each.combination: (column, each) for column, each in coded}

    @cached_property
    def derived(self) -> tuple[FeatureSpec, ...]:
        """The columns that combinations are, made from a raw table."""
        coded = tuple(each for _, each in self.combinations.values())
        return CombinationColumns(self.specs, self.missing_left, coded).derived

    def columns_of(self, features: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int32]:
        """Return which raw or derived column tests of features are about; -1 stays."""
        place = list(range(len(self.specs)))
        for statistic in self.statistics:
            column = statistic.combination.column
            place.append(self.combinations[statistic.combination][0] if column is None else column)
        columns: npt.NDArray[np.int32] = np.array([*place, LEAF], dtype=np.int32)[features]
        return columns

    def codes_left(self, feature: int, number: float) -> Mask:
        """Return which codes go left at a test of one code, or of a statistic's border."""
        if feature < len(self.specs):
            goes_left = np.ones(self.specs[feature].n_codes + 1, dtype=np.bool_)
            goes_left[int(number)] = False
            return goes_left
        statistic = self.statistics[feature - len(self.specs)]
        if (column := statistic.combination.column) is None:
            return self.combinations[statistic.combination][1].codes_left(statistic, number)
        hashes = self.specs[column].label_hashes or ()
        return ~statistic.goes_right(statistic.of_labels(hashes), number)


class BranchTests(NamedTuple):
    """What each node tests, as `TreeEnsemble` has it."""

    feature: npt.NDArray[np.int32]
    cut: Array
    missing_left: Mask
    category_ptr: Integers
    category_left: Mask


def read_features(info: dict[str, Any], statistics: dict[str, Any]) -> FeatureTable:
    """Read ``features_info``.

    Parameters
    ----------
    info : dict
        Lists of numeric, categorical, text and embedding features, and of statistics.
    statistics : dict
        ``ctr_data``: the tables of statistics of categories.

    Returns
    -------
    FeatureTable

    Raises
    ------
    UnsupportedModelError
        If an index is repeated or no count, or borders or values are not those of CatBoost.
    """
    numeric = info.get("float_features") or []
    categorical = info.get("categorical_features") or []
    others = (info.get("text_features") or []) + (info.get("embedding_features") or [])
    entries = {
        _count(entry, "flat_feature_index"): entry for entry in numeric + categorical + others
    }
    if len(entries) != len(numeric) + len(categorical) + len(others):
        raise damaged("two features have the same flat_feature_index")
    n_features = max(entries, default=-1) + 1
    check_features(n_features, len(entries))
    borders = {entry["flat_feature_index"]: _borders(entry) for entry in numeric}
    # Texts and embeddings that no tree uses are read like categories of which none is known.
    hashes = {entry["flat_feature_index"]: _hashes(entry) for entry in categorical + others}
    missing_left = np.ones(n_features, dtype=np.bool_)
    for entry in numeric:
        goes_right = _MISSING_GOES_RIGHT[entry["nan_value_treatment"]]
        missing_left[entry["flat_feature_index"]] = not goes_right
    names = [str(entries.get(j, {}).get("feature_id") or j) for j in range(n_features)]
    # CatBoost names the columns of an array by their position.
    named = any(name != str(j) for j, name in enumerate(names))
    places = _positions(numeric), _positions(categorical)
    counted = tuple(read_statistic(entry, statistics, *places) for entry in info.get("ctrs") or ())
    tests = [Split(j, border, -1) for j in borders for border in borders[j]]
    tests += [Split(j, np.nan, code) for j in hashes for code in range(len(hashes[j]))]
    for k, statistic in enumerate(counted, start=n_features):
        tests += [Split(k, border, -1) for border in statistic.borders]
    known = {j: _with_counted(j, one_hot, counted) for j, one_hot in hashes.items()}
    return FeatureTable(
        specs=tuple(
            _spec(names[j] if named else f"x{j}", entries.get(j, {}), known.get(j))
            for j in range(n_features)
        ),
        named=named,
        missing_left=missing_left,
        numeric=places[0],
        categorical=places[1],
        tests=tuple(tests),
        statistics=counted,
    )


def _with_counted(
    column: int, one_hot: tuple[int, ...], statistics: Sequence[CategoryStatistic]
) -> tuple[int, ...]:
    """Return the hashes of the labels that some test or statistic of a column knows."""
    counted = {
        label
        for statistic in statistics
        if statistic.combination.column == column
        for label in statistic.label_hashes
    }
    return (*one_hot, *sorted(counted.difference(one_hot)))


def read_split(table: FeatureTable, split: dict[str, Any]) -> Split:
    """Read the JSON of a split, which says twice what it tests.

    Parameters
    ----------
    table : FeatureTable
        The features of the model.
    split : dict
        One split of a tree.

    Returns
    -------
    Split

    Raises
    ------
    UnsupportedModelError
        If it tests texts or embeddings, or its number is that of another test.
    """
    kind = split["split_type"]
    if kind not in {"FloatFeature", "OneHotFeature", "OnlineCtr"}:
        raise UnsupportedModelError(
            f"the model has splits of type {kind}, which test what CatBoost computes from texts or "
            f"embeddings. {TRAIN_WITHOUT_TEXTS}"
        )
    number = _count(split, "split_index")
    test = table.tests[number] if number < len(table.tests) else Split(LEAF, np.nan, -1)
    # CatBoost goes by the number; the entry next to it is the test that the model was trained with.
    if kind == "OnlineCtr":
        feature = max(test.feature, len(table.specs))
        statistic = table.statistics[feature - len(table.specs)]
        agrees = (test.border, statistic.target_border) == (
            split["border"],
            split["ctr_target_border_idx"],
        )
    elif kind == "FloatFeature":
        feature = table.numeric[_count(split, "float_feature_index")]
        agrees = test.code < 0 and test.border == split["border"]
    else:
        feature = table.categorical[_count(split, "cat_feature_index")]
        hashes = table.specs[feature].label_hashes or ()
        agrees = test.code >= 0 and test.code < len(hashes) and hashes[test.code] == split["value"]
    if test.feature != feature or not agrees:
        raise damaged(f"the split number {number} does not match its position")
    return test


def node_tests(nodes: NodeTable, table: FeatureTable) -> BranchTests:
    """Return what each node tests: a raw column by its cut or its codes, or a derived column.

    Parameters
    ----------
    nodes : NodeTable
        The nodes of all trees.
    table : FeatureTable
        The features.

    Returns
    -------
    BranchTests

    Raises
    ------
    UnsupportedModelError
        If the tables of categories would take too much memory.
    """
    columns = table.columns_of(nodes.feature)
    pointers, goes_left = _category_tables(nodes, table, columns)
    of_statistic = nodes.feature >= len(table.specs)
    cuts = cut_at_most_single(np.where(of_statistic, np.nan, nodes.border))
    missing_left = np.append(table.missing_left, np.zeros(len(table.derived) + 1, dtype=np.bool_))
    missing_left = missing_left[columns] & (columns != LEAF)
    # CatBoost has no missing categories; here they go where those go that the model does not know.
    at = np.flatnonzero(pointers != NUMERIC_NODE)
    n_codes = np.array([spec.n_codes for spec in (*table.specs, *table.derived)], dtype=np.int64)
    missing_left[at] = goes_left[pointers[at] + n_codes[columns[at]]]
    return BranchTests(columns, cuts, missing_left, pointers, goes_left)


def _category_tables(
    nodes: NodeTable, table: FeatureTable, columns: npt.NDArray[np.int32]
) -> tuple[Integers, Mask]:
    """Return the offset of each node's table, and one table for each different test of codes."""
    specs = (*table.specs, *table.derived)
    at = np.flatnonzero(np.array([*(spec.is_categorical for spec in specs), False])[columns])
    number = np.where(nodes.code[at] >= 0, nodes.code[at], nodes.border[at])
    tests, which = np.unique(
        np.stack([nodes.feature[at], number], axis=1), axis=0, return_inverse=True
    )
    features = tests[:, 0].astype(np.intp)
    n_codes = np.array([specs[j].n_codes for j in table.columns_of(features)], dtype=np.int64)
    check_category_tables(int(np.sum(n_codes + 1)))
    pointers = np.full(len(nodes.feature), NUMERIC_NODE, dtype=np.int64)
    pointers[at] = (np.cumsum(n_codes + 1) - n_codes - 1)[which.ravel()]
    tables = [table.codes_left(j, number) for j, number in zip(features, tests[:, 1], strict=True)]
    return pointers, np.concatenate([np.empty(0, dtype=np.bool_), *tables])


def _count(entry: dict[str, Any], key: str) -> int:
    value = entry[key]
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise damaged(f"{key} is not a whole number of at least 0")
    return value


def _positions(entries: list[dict[str, Any]]) -> dict[int, int]:
    """Return the position in the table of each feature of a kind."""
    numbers = [_count(entry, "feature_index") for entry in entries]
    if any(later <= earlier for earlier, later in pairwise(numbers)):
        raise damaged("the feature_index values are not in increasing order")
    return {
        number: entry["flat_feature_index"] for number, entry in zip(numbers, entries, strict=True)
    }


def _borders(entry: dict[str, Any]) -> list[float]:
    borders = entry.get("borders") or []
    values = np.array(borders)
    if values.size and (values.ndim != 1 or values.dtype.kind not in "if"):
        raise damaged("borders are not numbers")
    if not np.all(np.diff(values) > 0) or not np.all(np.isfinite(values)):
        raise damaged("the borders of a feature are not in increasing order")
    return [float(border) for border in borders]


def _hashes(entry: dict[str, Any]) -> tuple[int, ...]:
    values = tuple(entry.get("values") or ())
    if not all(type(value) is int and -_LARGEST_HASH <= value < _LARGEST_HASH for value in values):
        raise damaged("values of a categorical feature are not hashes")
    if len(set(values)) < len(values):
        raise damaged("a value of a categorical feature is repeated")
    return values


def _spec(name: str, entry: dict[str, Any], hashes: tuple[int, ...] | None) -> FeatureSpec:
    if hashes is None:
        return FeatureSpec(name, has_missing=bool(entry.get("has_nans")), reads_texts=True)
    return FeatureSpec(
        name,
        kind="categorical",
        categories=tuple(map(unnamed_label, hashes)),
        n_codes=len(hashes),
        numbers_are="labels",
        label_hashes=hashes,
    )
