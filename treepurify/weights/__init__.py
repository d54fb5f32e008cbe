"""Weightings: the distribution under which effects are purified."""

from treepurify.arguments import did_you_mean
from treepurify.errors import InvalidInputError
from treepurify.weights.distributions import (
    Empirical,
    Independent,
    JointTable,
    Laplace,
    Uniform,
    Weighting,
)
from treepurify.weights.smoothing import Auto, Smoothed

__all__ = [
    "Auto",
    "Empirical",
    "Independent",
    "JointTable",
    "Laplace",
    "Smoothed",
    "Uniform",
    "Weighting",
]

_BY_NAME: dict[str, type[Weighting]] = {
    kind.name: kind for kind in (Empirical, Laplace, Uniform, Independent, Smoothed, Auto)
}


def as_weighting(weights: "str | Weighting") -> Weighting:
    """Return the weighting of a name, or the weighting itself.

    Raises
    ------
    InvalidInputError
        If `weights` is neither; lists what is known.
    """
    if isinstance(weights, Weighting):
        return weights
    if isinstance(weights, str) and weights in _BY_NAME:
        return _BY_NAME[weights]()
    # What decompositions print that `Auto` made.
    is_printed = isinstance(weights, str) and weights == "smoothed rows"
    hint = '; did you mean "auto", which smooths rows?'
    meant = hint if is_printed else did_you_mean(weights, _BY_NAME)
    raise InvalidInputError(
        f"weights must be one of {', '.join(map(repr, _BY_NAME))} or a weighting such as "
        f"tp.weights.Laplace(0.3), got {weights!r}{meant}"
    )


def __dir__() -> list[str]:
    return __all__
