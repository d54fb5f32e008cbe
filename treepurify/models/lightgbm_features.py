"""What the text of a LightGBM model says about each feature."""

import re
from collections.abc import Hashable, Sequence, Set
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.models.lightgbm_text import ModelText, TreeFields, integers, single_integer
from treepurify.rows.columns import FeatureSpec
from treepurify.typing import Integers, Mask

CATEGORICAL = 1
MISSING_NONE, MISSING_ZERO, MISSING_NAN = 0, 1, 2
_NO_RANGE = "none"
_BETWEEN = re.compile(r"\[([-+.0-9einf]+):([-+.0-9einf]+)\]")
# LightGBM knows missing values as the code -1.
_CODES = re.compile(r"(?:-1|[0-9]+)(?::(?:-1|[0-9]+))*")
# Codes up to which a table of entries for each split is small.
_FEW_CODES = 1 << 12
_LARGEST_CODE = np.iinfo(np.int32).max


class _Range(NamedTuple):
    """Values of one feature in the training data, from the line feature_infos."""

    is_categorical: bool
    is_constant: bool
    lowest: float
    highest: float
    codes: tuple[int, ...] = ()


def missing_types(trees: TreeFields) -> Integers:
    """Return how each inner node treats missing values: `MISSING_NONE` and so on."""
    return (trees.decision_type >> 2) & 3


def category_members(
    trees: TreeFields,
) -> tuple[Integers, Integers]:
    """Return (categorical split, code) for every code that goes left."""
    # Sets of large codes are long and mostly empty.
    used = np.flatnonzero(trees.words)
    bits = np.unpackbits(trees.words[used].astype("<u4").view(np.uint8), bitorder="little")
    position = np.flatnonzero(bits)
    word = used[position // 32]
    split = np.searchsorted(trees.word_start + trees.word_count, word, side="right")
    return split, (word - trees.word_start[split]) * 32 + position % 32


def has_generated_names(names: Sequence[str]) -> bool:
    """Whether LightGBM made the names up because the training data had none."""
    return all(name == f"Column_{j}" for j, name in enumerate(names))


def feature_specs(model: ModelText, split_of_node: Integers) -> tuple[FeatureSpec, ...]:
    """Describe the features of a model.

    Parameters
    ----------
    model : ModelText
        The model, its node fields checked against each other.
    split_of_node : ndarray of int64
        Categorical split of each inner node with a categorical test, in node order.

    Returns
    -------
    tuple of FeatureSpec

    Raises
    ------
    InvalidInputError
        If the header contradicts itself.
    UnsupportedModelError
        If trees disagree about a feature, or labels cannot be matched to features.
    """
    names = model.header.get("feature_names", "").split()
    ranges = [_read_range(info) for info in model.header.get("feature_infos", "").split()]
    n_features = single_integer(model.header, "max_feature_idx") + 1
    if len(names) != n_features or len(ranges) != n_features:
        raise InvalidInputError(
            f"the LightGBM model text is damaged: its header declares {n_features} features, "
            f"but has {len(names)} feature_names and {len(ranges)} feature_infos"
        )
    if len(set(names)) != n_features:
        raise InvalidInputError(
            "the LightGBM model text is damaged: its header has the same name in feature_names "
            "twice"
        )
    monotone_constraints(model)
    if np.any(model.trees.split_feature >= n_features) or np.any(model.trees.split_feature < 0):
        raise InvalidInputError(
            "the LightGBM model text is damaged: a split uses a feature the header does not list"
        )
    generated = has_generated_names(names)
    labels = _labels_of_features(model, ranges)
    feature, code = _known_codes(model.trees, split_of_node, ranges)
    n_codes = np.zeros(n_features, dtype=np.int64)
    np.maximum.at(n_codes, feature, code + 1)
    listed = _listed_codes(feature, code, n_codes, set(labels))
    is_categorical, zero_is_missing, has_missing = _node_facts(model.trees, ranges)
    specs = []
    for j, name in enumerate(names):
        categories = labels.get(j)
        categorical = is_categorical[j] or (categories is not None and ranges[j].is_constant)
        known = (len(listed[j]) if j in listed else int(n_codes[j])) if is_categorical[j] else 0
        specs.append(
            FeatureSpec(
                name=f"x{j}" if generated else name,
                kind="categorical" if categorical else "numeric",
                categories=categories,
                n_codes=known if categories is None else max(known, len(categories)),
                zero_is_missing=bool(zero_is_missing[j]),
                has_missing=bool(has_missing[j]),
                truncates_before_sign=bool(categorical),
                listed_codes=listed.get(j),
            )
        )
    return tuple(specs)


def monotone_constraints(model: ModelText) -> tuple[int, ...]:
    """Return the monotone constraint of each feature: 1, -1 or 0; none where the header has none.

    Raises
    ------
    InvalidInputError
        If there is not one whole number for each feature.
    """
    if "monotone_constraints" not in model.header:
        return ()
    n_features = single_integer(model.header, "max_feature_idx") + 1
    listed = integers(
        [model.header["monotone_constraints"]], np.array([n_features]), "monotone_constraints"
    )
    return tuple(listed.tolist())


def _read_range(info: str) -> _Range:
    try:
        if info == _NO_RANGE:
            return _Range(False, True, 0.0, 0.0)
        between = _BETWEEN.fullmatch(info)
        if between is not None:
            low, high = map(float, between.groups())
            if not low <= high:
                raise ValueError(info)
            return _Range(False, False, low, high)
        if _CODES.fullmatch(info) is None:
            raise ValueError(info)
        codes = [int(code) for code in info.split(":")]
        if max(codes) > _LARGEST_CODE:
            raise ValueError(info)
        return _Range(True, False, float(min(codes)), float(max(codes)), tuple(codes))
    except ValueError:
        raise InvalidInputError(
            "the LightGBM model text is damaged: feature_infos has the unexpected "
            f"entry {info[:40]!r}"
        ) from None


def _node_facts(trees: TreeFields, ranges: Sequence[_Range]) -> tuple[Mask, Mask, Mask]:
    """Return, a feature: tested by category, zero is missing, missing values were seen."""
    n_features = len(ranges)
    feature = trees.split_feature
    by_category = (trees.decision_type & CATEGORICAL) > 0
    missing = missing_types(trees)

    def used(nodes: Mask) -> Mask:
        return np.bincount(feature[nodes], minlength=n_features) > 0

    is_categorical = used(by_category) | np.array([r.is_categorical for r in ranges], dtype=bool)
    zero = used(~by_category & (missing == MISSING_ZERO))
    # A node that knows no missing values reads NaN as 0, so it agrees with zero-as-missing.
    contradictory = zero & used(~by_category & (missing == MISSING_NAN))
    if np.any(contradictory):
        raise UnsupportedModelError(
            f"feature {int(np.flatnonzero(contradictory)[0])} is trained with zero_as_missing in "
            "some trees and without in others; zero cannot be missing and present at once"
        )
    mixed = is_categorical & used(~by_category)
    if np.any(mixed):
        raise UnsupportedModelError(
            f"feature {int(np.flatnonzero(mixed)[0])} is categorical in some trees and numeric in "
            "others; train all iterations with the same categorical_feature"
        )
    return is_categorical, zero, used(missing != MISSING_NONE)


def _known_codes(
    trees: TreeFields, split_of_node: Integers, ranges: Sequence[_Range]
) -> tuple[Integers, Integers]:
    """Return (feature, code) for every code that was seen in training or goes left at a split."""
    nodes = (trees.decision_type & CATEGORICAL) > 0
    feature_of_split = np.empty(len(split_of_node), dtype=np.int64)
    feature_of_split[split_of_node] = trees.split_feature[nodes]
    split, code = category_members(trees)
    seen = [(j, c) for j, r in enumerate(ranges) for c in r.codes if c >= 0]
    of_seen = np.array(seen, dtype=np.int64).reshape(len(seen), 2)
    feature = np.concatenate([of_seen[:, 0], feature_of_split[split]])
    return feature, np.concatenate([of_seen[:, 1], code])


def _listed_codes(
    feature: Integers, code: Integers, n_codes: Integers, labelled: Set[int]
) -> dict[int, tuple[int, ...]]:
    """Return the codes of features without labels that are known by few, large codes."""
    listed = {}
    for j in set(np.flatnonzero(n_codes > _FEW_CODES).tolist()) - labelled:
        own = np.unique(code[feature == j])
        if 2 * len(own) < n_codes[j]:
            listed[j] = tuple(own.tolist())
    return listed


def _labels_of_features(
    model: ModelText, ranges: Sequence[_Range]
) -> dict[int, tuple[Hashable, ...]]:
    """Find the features that the lists of labels belong to.

    The text lists the labels of every pandas column of dtype category, in column order, but
    not which columns these are: unordered ones are categorical features, ordered ones became
    numbers (their position), and columns listed as categorical_feature may be plain integers.
    """
    labels = [tuple(column) for column in model.category_labels]
    if not labels:
        return {}
    listed = _listed_as_categorical(model.parameters.get("categorical_feature", ""))
    categorical = np.array(
        [r.is_categorical or (r.is_constant and j in listed) for j, r in enumerate(ranges)]
    )
    required = categorical if len(labels) >= categorical.sum() else np.zeros_like(categorical)
    for strict in (True, False):
        fits = np.array(
            [
                [
                    _fits(r, bool(c), len(column), strict)
                    for r, c in zip(ranges, categorical, strict=True)
                ]
                for column in labels
            ]
        )
        if len(labels) <= categorical.sum():
            fits &= categorical | (not strict)
        matches = _usable_matches(fits, required)
        if np.all(matches.sum(axis=1) == 1):
            return dict(zip(matches.argmax(axis=1).tolist(), labels, strict=True))
        if np.any(matches):
            break
    raise UnsupportedModelError(
        f"the model lists the labels of {len(labels)} pandas columns of dtype category, which "
        f"cannot be matched unambiguously to its {int(categorical.sum())} categorical features. "
        "Train with ordered categories as numbers, and with every categorical feature as dtype "
        "category."
    )


def _listed_as_categorical(parameter: str) -> frozenset[int]:
    return frozenset(int(part) for part in parameter.split(",") if part.isdigit())


def _fits(values: _Range, categorical: bool, n_labels: int, strict: bool) -> bool:
    """Whether a feature with these training values can be a column with that number of labels."""
    if values.is_constant:
        return categorical or not strict
    if categorical or not strict:
        whole = values.lowest.is_integer() and values.highest.is_integer()
        lowest = -1.0 if categorical else 0.0
        return whole and lowest <= values.lowest and values.highest < n_labels
    return values.lowest == 0.0 and values.highest == n_labels - 1.0


def _usable_matches(fits: Mask, required: Mask) -> Mask:
    """Return which (column, feature) pairs occur in an order-preserving complete matching."""
    before = _reachable(fits, required)
    after = _reachable(fits[::-1, ::-1], required[::-1])[::-1, ::-1]
    return np.asarray(fits & before[:-1, :-1] & after[1:, 1:])


def _reachable(fits: npt.NDArray[Any], required: npt.NDArray[Any]) -> Mask:
    """Entry (i, j): the first i columns match among the first j features, none required left."""
    n_columns, n_features = fits.shape
    reachable = np.zeros((n_columns + 1, n_features + 1), dtype=bool)
    reachable[0, 0] = True
    for j in range(n_features):
        reachable[:, j + 1] = reachable[:, j] & ~required[j]
        reachable[1:, j + 1] |= reachable[:-1, j] & fits[:, j]
    return reachable
