"""scikit-learn's encoders of categories."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from treepurify.models.pipelines.columns import OutputColumn, Reading
from treepurify.typing import Array

__all__ = ["READERS", "value_knots"]

Names = tuple[str, ...]


def _ordinal(transformer: Any, names: Names) -> Reading:
    return Reading(
        [
            _encoded(name, j, levels)
            for j, (name, levels) in enumerate(zip(names, transformer.categories_, strict=True))
        ],
        refuses_unknown=transformer.handle_unknown == "error",
    )


def _one_hot(transformer: Any, names: Names) -> Reading:
    outputs = []
    infrequent = getattr(transformer, "infrequent_categories_", None)
    known = getattr(transformer, "feature_names_in_", list(names))
    made = iter(map(str, transformer.get_feature_names_out(known)))
    for j, levels in enumerate(transformer.categories_):
        n_columns = len(levels)
        rare = None if infrequent is None else infrequent[j]
        if rare is not None and len(rare):
            n_columns += 1 - len(rare)
        if transformer.drop_idx_ is not None and transformer.drop_idx_[j] is not None:
            n_columns -= 1
        outputs += [_encoded(next(made), j, levels) for _ in range(n_columns)]
    return Reading(outputs, refuses_unknown=transformer.handle_unknown == "error")


def _target(transformer: Any, names: Names) -> Reading:
    # With more than two classes, the columns of one feature stand together.
    n_columns = len(transformer.encodings_) // max(len(names), 1)
    return Reading(
        [
            _encoded(name if n_columns == 1 else f"{name}_{k}", j, levels)
            for j, (name, levels) in enumerate(zip(names, transformer.categories_, strict=True))
            for k in range(n_columns)
        ]
    )


def _encoded(name: str, source: int, levels: Any) -> OutputColumn:
    labels = tuple(np.asarray(levels).tolist())
    return OutputColumn(name, source, reads="labels", labels=labels, knots=value_knots(labels))


def value_knots(labels: tuple[Hashable, ...]) -> Array:
    """Return the knots around each label that is a number."""
    numbers = [
        float(label)
        for label in labels
        if isinstance(label, int | float | np.number | np.bool_) and label == label  # noqa: PLR0124
    ]
    values = np.array(numbers, dtype=np.float64)
    return np.unique(np.concatenate([values, np.nextafter(values, np.inf)]))


READERS = {"OrdinalEncoder": _ordinal, "OneHotEncoder": _one_hot, "TargetEncoder": _target}
