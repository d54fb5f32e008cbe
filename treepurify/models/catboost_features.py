"""Read the features of a CatBoost document, and the tests that its trees refer to."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from treepurify.errors import UnsupportedModelError
from treepurify.models.catboost_trees import NodeTable, Split
from treepurify.models.ensemble import LEAF, NUMERIC_NODE
from treepurify.models.limits import check_category_tables, check_features
from treepurify.rows.columns import FeatureSpec
from treepurify.typing import Integers, Mask

__all__ = ["TRAIN_ONE_HOT", "FeatureTable", "category_tables", "read_features", "read_split"]

TRAIN_ONE_HOT = (
    "Train with one_hot_max_size=255 (the largest value it takes), or encode columns of more "
    "categories, texts and embeddings as numbers before training."
)
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
        Every test, by the number that CatBoost itself finds it with.
    """

    specs: tuple[FeatureSpec, ...]
    named: bool
    missing_left: Mask
    numeric: dict[int, int]
    categorical: dict[int, int]
    tests: tuple[Split, ...]


def read_features(info: dict[str, Any]) -> FeatureTable:
    """Read ``features_info``.

    Parameters
    ----------
    info : dict
        Lists of numeric, categorical, text and embedding features.

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
        raise _damaged("two features have the same flat_feature_index")
    n_features = max(entries, default=-1) + 1
    check_features(n_features, len(entries))
    borders = {entry["flat_feature_index"]: _borders(entry) for entry in numeric}
    hashes = {entry["flat_feature_index"]: _hashes(entry) for entry in categorical}
    missing_left = np.ones(n_features, dtype=np.bool_)
    for entry in numeric:
        goes_right = _MISSING_GOES_RIGHT[entry["nan_value_treatment"]]
        missing_left[entry["flat_feature_index"]] = not goes_right
    names = [str(entries.get(j, {}).get("feature_id") or j) for j in range(n_features)]
    # CatBoost names the columns of an array by their position.
    named = any(name != str(j) for j, name in enumerate(names))
    tests = [Split(j, border, -1) for j in borders for border in borders[j]]
    tests += [Split(j, np.nan, code) for j in hashes for code in range(len(hashes[j]))]
    return FeatureTable(
        specs=tuple(
            _spec(names[j] if named else f"x{j}", entries.get(j, {}), hashes.get(j))
            for j in range(n_features)
        ),
        named=named,
        missing_left=missing_left,
        numeric=_positions(numeric),
        categorical=_positions(categorical),
        tests=tuple(tests),
    )


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
        If it tests a statistic of categories, or its number is that of another test.
    """
    kind = split["split_type"]
    if kind not in {"FloatFeature", "OneHotFeature"}:
        raise UnsupportedModelError(
            f"the model has splits of type {kind}, which test a statistic that CatBoost computes "
            f"from several rows or from text, not the column itself. {TRAIN_ONE_HOT}"
        )
    number = _count(split, "split_index")
    test = table.tests[number] if number < len(table.tests) else Split(LEAF, np.nan, -1)
    # CatBoost goes by the number; the entry next to it is the test that the model was trained with.
    if kind == "FloatFeature":
        feature = table.numeric[_count(split, "float_feature_index")]
        agrees = test.code < 0 and test.border == split["border"]
    else:
        feature = table.categorical[_count(split, "cat_feature_index")]
        hashes = table.specs[feature].label_hashes or ()
        agrees = test.code >= 0 and test.code < len(hashes) and hashes[test.code] == split["value"]
    if test.feature != feature or not agrees:
        raise _damaged(f"the split number {number} is not the one that stands beside it")
    return test


def category_tables(nodes: NodeTable, features: tuple[FeatureSpec, ...]) -> tuple[Integers, Mask]:
    """Return the offset of each node's table, and one table for each code that is tested.

    Parameters
    ----------
    nodes : NodeTable
        The nodes of all trees.
    features : tuple of FeatureSpec
        The features.

    Returns
    -------
    pointers : ndarray of int64, shape (n_nodes,)
        Offset of each node's table; -1 at other nodes.
    goes_left : ndarray of bool
        The tables, one behind the other.

    Raises
    ------
    UnsupportedModelError
        If they would take too much memory.
    """
    n_codes = np.array([spec.n_codes for spec in features], dtype=np.int64)
    pointers = np.full(len(nodes.feature), NUMERIC_NODE, dtype=np.int64)
    at = np.flatnonzero(nodes.code >= 0)
    tested = np.stack([nodes.feature[at], nodes.code[at]], axis=1)
    tested, which = np.unique(tested, axis=0, return_inverse=True)
    widths = n_codes[tested[:, 0]] + 1
    check_category_tables(int(widths.sum()))
    start = np.cumsum(widths) - widths
    goes_left = np.ones(int(widths.sum()), dtype=np.bool_)
    goes_left[start + tested[:, 1]] = False
    pointers[at] = start[which.ravel()]
    return pointers, goes_left


def _damaged(what: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"this CatBoost JSON is damaged: {what}. Save the model again with "
        "save_model(path, format='json')"
    )


def _count(entry: dict[str, Any], key: str) -> int:
    value = entry[key]
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _damaged(f"{key} is not a count")
    return value


def _positions(entries: list[dict[str, Any]]) -> dict[int, int]:
    """Return the position in the table of each feature of a kind."""
    numbers = [_count(entry, "feature_index") for entry in entries]
    if any(later <= earlier for earlier, later in pairwise(numbers)):
        raise _damaged("the feature_index of its features do not increase")
    return {
        number: entry["flat_feature_index"] for number, entry in zip(numbers, entries, strict=True)
    }


def _borders(entry: dict[str, Any]) -> list[float]:
    borders = entry.get("borders") or []
    values = np.array(borders)
    if values.size and (values.ndim != 1 or values.dtype.kind not in "if"):
        raise _damaged("borders are not numbers")
    if not np.all(np.diff(values) > 0) or not np.all(np.isfinite(values)):
        raise _damaged("borders of a feature do not increase")
    return [float(border) for border in borders]


def _hashes(entry: dict[str, Any]) -> tuple[int, ...]:
    values = tuple(entry.get("values") or ())
    if not all(type(value) is int and -_LARGEST_HASH <= value < _LARGEST_HASH for value in values):
        raise _damaged("values of a categorical feature are not hashes")
    if len(set(values)) < len(values):
        raise _damaged("a value of a categorical feature is repeated")
    return values


def _spec(name: str, entry: dict[str, Any], hashes: tuple[int, ...] | None) -> FeatureSpec:
    if hashes is None:
        return FeatureSpec(name, has_missing=bool(entry.get("has_nans")), reads_texts=True)
    return FeatureSpec(
        name,
        kind="categorical",
        categories=tuple(f"#{code}" for code in hashes),
        n_codes=len(hashes),
        numbers_are="labels",
        label_hashes=hashes,
    )
