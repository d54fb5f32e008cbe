"""Imputers, which fill missing values column by column, and indicators of missing values."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from treepurify.models.pipelines.columns import OutputColumn, Reading
from treepurify.rows.missing_values import is_missing
from treepurify.typing import Array

__all__ = ["READERS"]

Names = tuple[str, ...]


def _imputer(transformer: Any, names: Names) -> Reading:
    fills = np.asarray(transformer.statistics_, dtype=object)
    keeps_empty = transformer.keep_empty_features or transformer.strategy == "constant"
    # Where the most frequent value is None, the imputer takes it for a label.
    is_empty = is_missing(fills) & (fills != None) & (not keeps_empty)  # noqa: E711
    hole, knots = _hole(transformer.missing_values)
    outputs = [
        OutputColumn(
            name,
            j,
            reads="either",
            labels=hole + ((fill,) if isinstance(fill, str) else ()),
            knots=knots,
            keeps_values=True,
        )
        for j, (name, fill) in enumerate(zip(names, fills, strict=True))
        if not is_empty[j]
    ]
    if transformer.indicator_ is not None:
        outputs += _indicator(transformer.indicator_, names).outputs
    return Reading(outputs)


def _indicator(transformer: Any, names: Names) -> Reading:
    hole, knots = _hole(transformer.missing_values)
    return Reading(
        [
            OutputColumn(
                f"missingindicator_{names[j]}",
                int(j),
                reads="either",
                labels=hole,
                knots=knots,
                is_indicator=True,
            )
            for j in transformer.features_
        ]
    )


def _hole(missing_values: Any) -> tuple[tuple[Hashable, ...], Array]:
    """Return the value that stands for missing, as a label, and as the knots around a number."""
    if isinstance(missing_values, str):
        return (missing_values,), np.zeros(0)
    if is_missing(np.array([missing_values], dtype=object))[0]:
        return (), np.zeros(0)
    number = float(missing_values)
    return (missing_values,), np.array([number, np.nextafter(number, np.inf)])


READERS = {"SimpleImputer": _imputer, "MissingIndicator": _indicator}
