"""Check options that several engines share, before anything is computed."""

from typing import Any

import numpy as np

from treepurify.errors import InvalidInputError

__all__ = ["check_interactions"]


def check_interactions(interactions: Any) -> None:
    """Raise `InvalidInputError` for a number of interactions, which only `purify` can choose."""
    if isinstance(interactions, int | np.integer):
        raise InvalidInputError(
            f"interactions={interactions!r}: a number of the strongest pairs is for purify; name "
            'the interactions here, such as [("age", "hours")]'
        )
