"""Weightings: the distribution under which effects are purified."""

from collections.abc import Callable

from treepurify.arguments import did_you_mean
from treepurify.errors import InvalidInputError
from treepurify.weights.automatic import Auto
from treepurify.weights.empirical import Empirical
from treepurify.weights.independent import Independent
from treepurify.weights.joint_table import JointTable
from treepurify.weights.laplace import Laplace
from treepurify.weights.smoothed import Smoothed
from treepurify.weights.uniform import Uniform
from treepurify.weights.weighting import Weighting

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

_BY_NAME: dict[str, Callable[[], Weighting]] = {
    "empirical": Empirical,
    "laplace": Laplace,
    "uniform": Uniform,
    "independent": Independent,
    "smoothed": Smoothed,
    "auto": Auto,
}

# What decompositions print that `Auto` made.
_SMOOTHED = "smoothed rows"


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
    is_printed = isinstance(weights, str) and weights == _SMOOTHED
    meant = (
        '; did you mean "auto", which smooths rows?'
        if is_printed
        else did_you_mean(weights, _BY_NAME)
    )
    raise InvalidInputError(
        f"weights must be one of {', '.join(map(repr, _BY_NAME))} or a weighting such as "
        f"tp.weights.Laplace(0.3), got {weights!r}{meant}"
    )


def __dir__() -> list[str]:
    return __all__
