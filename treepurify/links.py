"""Link functions: from the margin scale, where effects add up, to the response."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError

__all__ = ["Link", "LinkName"]

LinkName = Literal["identity", "logit", "log", "softmax", "one-vs-rest", "cloglog", "sqrt"]


@dataclass(frozen=True)
class Link:
    """How a margin becomes a response.

    Parameters
    ----------
    name : {"identity", "logit", "log", "softmax", "one-vs-rest", "cloglog", "sqrt"}
        ``"logit"``: the response is ``1 / (1 + exp(-scale * margin))``; ``"one-vs-rest"``
        is a logit in each output, divided by the sum over the outputs; ``"cloglog"`` is
        ``1 - exp(-exp(margin))``; ``"sqrt"`` is ``sign(margin) * margin**2``.
    scale : float
        Factor on the margin before the inverse link (LightGBM's ``sigmoid``).

    Examples
    --------
    >>> import numpy as np
    >>> Link("logit").inverse(np.array([0.0]))
    array([0.5])
    """

    name: LinkName = "identity"
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.name not in get_args(LinkName):
            raise InvalidInputError(
                f"unknown link {self.name!r}; expected one of {', '.join(get_args(LinkName))}"
            )

    def inverse(self, margin: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the response; the last axis of `margin` is the output axis."""
        margin = np.asarray(margin, dtype=np.float64)
        if self.name == "identity":
            return margin
        if self.name == "log":
            return np.exp(margin)
        if self.name == "sqrt":
            return np.sign(margin) * margin**2
        if self.name == "cloglog":
            return -np.expm1(-np.exp(margin))
        if self.name == "softmax":
            shifted = np.exp(margin - margin.max(axis=-1, keepdims=True))
            return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))
        from scipy.special import expit

        probability = expit(self.scale * margin)
        if self.name == "one-vs-rest":
            probability = probability / probability.sum(axis=-1, keepdims=True)
        return np.asarray(probability)
