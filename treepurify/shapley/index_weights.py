r"""What share of an effect each group of features gets, for the interaction indices of games.

The components f_R of a decomposition are the Moebius coefficients of the game
``v(T) = sum over R in T of f_R(x)``, in which every linear index is a sum over them. Shares
depend on sizes only.
"""

from math import comb
from typing import Literal, get_args

__all__ = [
    "INDICES",
    "InteractionIndex",
    "is_generalized_value",
    "share_of_constant",
    "share_of_overlap",
    "share_of_part",
]

InteractionIndex = Literal[
    "SV",
    "BV",
    "SII",
    "BII",
    "CHII",
    "k-SII",
    "STII",
    "FSII",
    "FBII",
    "kADD-SHAP",
    "SGV",
    "BGV",
    "CHGV",
    "Moebius",
    "Co-Moebius",
    "components",
]
INDICES: tuple[InteractionIndex, ...] = get_args(InteractionIndex)
_GENERALIZED_VALUES = ("SGV", "BGV", "CHGV")


def is_generalized_value(index: InteractionIndex) -> bool:
    """Return whether an index says what a group adds together, not what its features share."""
    return index in _GENERALIZED_VALUES


def share_of_overlap(index: InteractionIndex, size: int, outside: int) -> float:
    """Return the share of an effect that goes to a group with which it has features in common.

    A group adds an effect that touches it as soon as the effect's features outside it are there:
    the share is how probable that is.

    Parameters
    ----------
    index : {"SGV", "BGV", "CHGV"}
        The generalized value (Marichal 2000, Marichal et al. 2007).
    size : int
        Features of the group.
    outside : int
        Features of the effect outside the group.

    Returns
    -------
    float
    """
    if index == "SGV":
        return 1.0 / (outside + 1)
    if index == "BGV":
        return 0.5**outside
    return size / (outside + size)


def share_of_part(index: InteractionIndex, order: int, size: int, effect: int) -> float:
    """Return the share of an effect that goes to each part of its features of some size.

    Parameters
    ----------
    index : str
        The interaction index.
    order : int
        Largest size of a part that gets anything.
    size : int
        Features of the part, at least one and at most `order` and `effect`.
    effect : int
        Features of the effect.

    Returns
    -------
    float
    """
    if index in ("components", "Moebius"):
        return float(size == effect)
    if index in ("SV", "BV") and size > 1:
        return 0.0
    if index in ("SII", "SV"):
        return 1.0 / (effect - size + 1)
    if index in ("BII", "BV"):
        return 0.5 ** (effect - size)
    if index == "CHII":
        return size / effect
    if index == "Co-Moebius":
        return 1.0
    if index == "STII":
        if size < order:
            return float(size == effect)
        return 1.0 / comb(effect, order)
    if index in ("FSII", "FBII"):
        return _faithful(index, order, size, effect)
    if index == "kADD-SHAP":
        return _additive(order, size, effect)
    return _aggregated(order, size, effect)


def share_of_constant(index: InteractionIndex, order: int, effect: int) -> float:
    """Return the share of an effect that a faithful Banzhaf fit gives to its constant."""
    if index != "FBII" or effect <= order:
        return 0.0
    return float((-1) ** order * 0.5**effect * comb(effect - 1, order))


def _faithful(index: InteractionIndex, order: int, size: int, effect: int) -> float:
    """Shares of the best approximation of the game by one of the order (Tsai et al. 2023).

    Effects of at most `order` features stay as they are (their theorems 17 and 19).
    """
    if effect <= order:
        return float(size == effect)
    sign = (-1) ** (order - size)
    if index == "FBII":
        return float(sign * 0.5 ** (effect - size) * comb(effect - size - 1, order - size))
    ratio = comb(effect - 1, order) / comb(effect + order - 1, order + size)
    return float(sign * size / (order + size) * comb(order, size) * ratio)


def _additive(order: int, size: int, effect: int) -> float:
    """Shapley interaction indices of the faithful approximation (Pelegrina et al. 2023)."""
    return sum(
        comb(effect - size, larger - size)
        * _faithful("FSII", order, larger, effect)
        / (larger - size + 1)
        for larger in range(size, min(order, effect) + 1)
    )


def _aggregated(order: int, size: int, effect: int) -> float:
    """Shares of k-SII.

    Every T inside a part R hands B_{|R|-|T|} of its SII down to it: what R gets from f_S is the
    sum over T with R in T in S, |T| <= order, of B_{|T|-|R|} / (|S| - |T| + 1).
    """
    return sum(
        comb(effect - size, larger - size) * _bernoulli(larger - size) / (effect - larger + 1)
        for larger in range(size, min(order, effect) + 1)
    )


def _bernoulli(n: int) -> float:
    """Return the Bernoulli number B_n, with B_1 = -1/2; SciPy's are right to 12 digits only."""
    numbers = [1.0]
    for m in range(1, n + 1):
        numbers.append(-sum(comb(m + 1, k) * numbers[k] for k in range(m)) / (m + 1))
    return numbers[n]
