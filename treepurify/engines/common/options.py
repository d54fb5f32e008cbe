"""Check options that several engines share, before anything is computed."""

from typing import Any

import numpy as np

from treepurify.arguments import check_whole
from treepurify.errors import InvalidInputError

__all__ = ["check_interactions", "check_order", "check_order_fits"]

# The order of most engines by default.
_PAIR = 2


def check_interactions(interactions: Any) -> None:
    """Raise `InvalidInputError` for a number of interactions, which only `purify` can choose."""
    if isinstance(interactions, int | np.integer):
        raise InvalidInputError(
            f"interactions={interactions!r}: a number of the strongest pairs is for purify; name "
            'the interactions here, such as [("age", "hours")]'
        )


def check_order(order: int | None) -> None:
    """Raise `InvalidInputError` unless `order` is a positive whole number or None."""
    if order is not None:
        check_whole("order", order, 1)


def check_order_fits(order: int | None, n_features: int) -> None:
    """Raise `InvalidInputError` if `order` is above the number of features.

    Two, which is what most engines take unless they are told otherwise, also stands for "all"
    where there is one feature only.
    """
    if order is not None and order > max(n_features, _PAIR):
        raise InvalidInputError(
            f"order={order} asks for effects of {order} features, and the model has {n_features}: "
            f"pass at most {max(n_features, _PAIR)}, or None for all effects"
        )
