"""Read scikit-learn's histogram-based gradient boosting."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.links import Link, LinkName
from treepurify.models.cuts import cut_at_most_double
from treepurify.models.ensemble import NUMERIC_NODE, TreeEnsemble
from treepurify.models.parsed import ModelSource
from treepurify.models.sklearn_nodes import (
    FlatNodes,
    check_fields,
    flat_nodes,
)
from treepurify.rows.columns import FeatureSpec
from treepurify.rows.missing_values import is_missing_value
from treepurify.typing import Indices, Integers, Mask

_REQUIRED_FIELDS = frozenset(
    {"value", "count", "feature_idx", "num_threshold", "missing_go_to_left", "left", "right"}
    | {"is_leaf", "is_categorical", "bitset_idx"}
)
_UNUSED_FIELDS = frozenset({"gain", "depth", "bin_threshold"})

_LINKS: dict[str, LinkName] = {
    "IdentityLink": "identity",
    "LogLink": "log",
    "LogitLink": "logit",
    "MultinomialLogit": "softmax",
}
_CODES = 256


@dataclass(frozen=True, eq=False)
class _CategoryLayout:
    """How the model numbers its columns and the categories in them.

    Parameters
    ----------
    is_categorical : ndarray of bool, shape (n_features,)
        Which features are categorical.
    column_feature : ndarray of int, shape (n_features,)
        Feature of each column as the trees count them.
    known : ndarray of bool, shape (n_features, 256)
        Codes that each feature knows; none for numeric features.
    labels : tuple of (tuple or None)
        Label of each code, where an encoder keeps them.
    saw_missing : ndarray of bool, shape (n_features,)
        Whether the encoder saw missing values: NaN, as None is a category of its own.
    """

    is_categorical: Mask
    column_feature: Indices
    known: Mask
    labels: tuple[tuple[Hashable, ...] | None, ...]
    saw_missing: Mask

    @property
    def n_codes(self) -> Indices:
        """One more than the largest code of each feature; 0 for numeric features."""
        highest = _CODES - np.argmax(self.known[:, ::-1], axis=1)
        return np.where(self.known.any(axis=1), highest, 0)


def parse_histogram_boosting(
    model: Any,
    names: tuple[str, ...],
    output_names: tuple[str, ...],
    source: ModelSource,
    *,
    has_feature_names: bool,
) -> TreeEnsemble:
    """Read a HistGradientBoostingRegressor or HistGradientBoostingClassifier.

    Parameters
    ----------
    model : HistGradientBoostingRegressor or HistGradientBoostingClassifier
        A trained model.
    names : tuple of str
        Names of the features.
    output_names : tuple of str
        Names of the outputs.
    source : ModelSource
        Where the model came from.
    has_feature_names : bool
        Whether the names come from the user's table.

    Returns
    -------
    TreeEnsemble
        Its margin is the model's raw prediction, on the scale of the loss's link. A category
        that the model does not know goes where missing values go.

    Raises
    ------
    UnsupportedModelError
        If the loss or the node layout is not known.
    InvalidInputError
        If training was broken off before the first tree.
    """
    iterations = model._predictors
    if not iterations:
        raise InvalidInputError("the model has no trees: its training did not finish; fit it again")
    predictors = [predictor for iteration in iterations for predictor in iteration]
    check_fields(predictors[0].nodes.dtype.names, _REQUIRED_FIELDS, _UNUSED_FIELDS)
    nodes = np.concatenate([predictor.nodes for predictor in predictors])
    sizes = np.array([len(predictor.nodes) for predictor in predictors], dtype=np.int64)

    layout = _category_layout(model, len(names))
    inner = nodes["is_leaf"] == 0
    categorical = inner & (nodes["is_categorical"] != 0)
    numeric = inner & ~categorical
    flat = flat_nodes(
        sizes,
        np.where(inner, layout.column_feature[np.where(inner, nodes["feature_idx"], 0)], -1),
        np.where(numeric, cut_at_most_double(nodes["num_threshold"]), np.nan),
        (nodes["left"].astype(np.int64), nodes["right"].astype(np.int64)),
        nodes["missing_go_to_left"] != 0,
        nodes["count"],
        nodes["count"],
        len(names),
    )
    bitsets = [predictor.raw_left_cat_bitsets for predictor in predictors]
    category_ptr, category_left = _category_tables(
        flat, categorical, nodes["bitset_idx"], sizes, bitsets, layout
    )
    return TreeEnsemble(
        tree_ptr=flat.tree_ptr,
        feature=flat.feature,
        cut=flat.cut,
        left=flat.left,
        right=flat.right,
        missing_left=flat.missing_left,
        category_ptr=category_ptr,
        category_left=category_left,
        value=np.where(inner, 0.0, nodes["value"])[:, None],
        tree_output=np.tile(np.arange(len(iterations[0]), dtype=np.int32), len(iterations)),
        base=np.ravel(model._baseline_prediction).astype(np.float64),
        features=_feature_specs(names, layout, flat.saw_missing | layout.saw_missing),
        output_names=output_names,
        link=_link(model),
        source=source,
        has_feature_names=has_feature_names,
        cover=flat.cover,
    )


def _link(model: Any) -> Link:
    name = type(model._loss.link).__name__
    if name not in _LINKS:
        raise UnsupportedModelError(
            f"the loss {type(model._loss).__name__} has the link {name}, expected one of "
            f"{', '.join(_LINKS)}. Train with one of scikit-learn's named losses."
        )
    return Link(_LINKS[name])


def _feature_specs(
    names: tuple[str, ...], layout: _CategoryLayout, saw_missing: Mask
) -> tuple[FeatureSpec, ...]:
    return tuple(
        FeatureSpec(
            name,
            kind="categorical" if is_categorical else "numeric",
            categories=labels,
            n_codes=int(n_codes),
            numbers_are="codes" if labels is None else "labels",
            has_missing=bool(missing),
            missing_kinds=_code_of_none(labels),
            reads_texts=True,
        )
        for name, is_categorical, labels, n_codes, missing in zip(
            names,
            layout.is_categorical,
            layout.labels,
            layout.n_codes,
            saw_missing,
            strict=True,
        )
    )


def _code_of_none(labels: tuple[Hashable, ...] | None) -> tuple[tuple[str, int], ...]:
    """Return None as a kind of missing values that has a code, where it is a category."""
    return () if labels is None or None not in labels else (("None", labels.index(None)),)


def _category_layout(model: Any, n_features: int) -> _CategoryLayout:
    mask = getattr(model, "is_categorical_", None)
    if mask is None:
        mask = np.zeros(n_features, dtype=np.bool_)
    mask = np.asarray(mask, dtype=np.bool_)
    if getattr(model, "_preprocessor", None) is None:
        return _layout_of_codes(model, mask)
    return _layout_of_encoder(model._preprocessor, mask)


def _layout_of_codes(model: Any, mask: Mask) -> _CategoryLayout:
    """Before version 1.4 the categories are the whole numbers in the data."""
    known = np.zeros((len(mask), _CODES), dtype=np.bool_)
    for feature in np.flatnonzero(mask):
        known[feature, model._bin_mapper.bin_thresholds_[feature].astype(np.intp)] = True
    labels, saw_missing = (None,) * len(mask), np.zeros(len(mask), dtype=np.bool_)
    return _CategoryLayout(mask, np.arange(len(mask)), known, labels, saw_missing)


def _layout_of_encoder(preprocessor: Any, mask: Mask) -> _CategoryLayout:
    """An encoder numbers the categories, and its columns are moved to the front."""
    encoder = preprocessor.named_transformers_["encoder"]
    known = np.zeros((len(mask), _CODES), dtype=np.bool_)
    saw_missing = np.zeros(len(mask), dtype=np.bool_)
    labels: list[tuple[Hashable, ...] | None] = [None] * len(mask)
    for feature, categories in zip(np.flatnonzero(mask), encoder.categories_, strict=True):
        levels = np.asarray(categories, dtype=object)
        # The encoder lists None and then NaN last, so that the codes before them stand.
        present = np.array(
            [v for v in levels if v is None or not is_missing_value(v)], dtype=object
        )
        known[feature, : len(present)] = True
        saw_missing[feature] = len(present) < len(levels)
        labels[feature] = tuple(present.tolist())
    order = np.concatenate([np.flatnonzero(mask), np.flatnonzero(~mask)])
    return _CategoryLayout(mask, order, known, tuple(labels), saw_missing)


def _category_tables(
    flat: FlatNodes,
    categorical: Mask,
    bitset_idx: npt.NDArray[Any],
    sizes: Integers,
    bitsets: list[npt.NDArray[np.uint32]],
    layout: _CategoryLayout,
) -> tuple[Integers, Mask]:
    """Return the offset of each node's table, and the tables one after the other."""
    category_ptr = np.full(len(categorical), NUMERIC_NODE, dtype=np.int64)
    position = np.flatnonzero(categorical)
    if not len(position):
        return category_ptr, np.zeros(0, dtype=np.bool_)
    first_row = np.concatenate([[0], np.cumsum([len(rows) for rows in bitsets])])[:-1]
    row = np.repeat(first_row, sizes)[position] + bitset_idx[position]
    # Bit c of the little-endian words is code c.
    words = np.concatenate(bitsets)[row].astype("<u4")
    member = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little").astype(np.bool_)

    feature = flat.feature[position]
    missing_left = flat.missing_left[position][:, None]
    goes_left = np.where(layout.known[feature], member, missing_left)
    # The entry after the last code is not known either; with 256 codes it must be added.
    goes_left = np.concatenate([goes_left, missing_left], axis=1)
    length = layout.n_codes[feature]
    category_ptr[position] = np.concatenate([[0], np.cumsum(length + 1)[:-1]])
    return category_ptr, goes_left[np.arange(_CODES + 1) <= length[:, None]]
