"""Link functions: from the margin scale, where effects add up, to the response."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from treepurify.errors import InvalidInputError
from treepurify.typing import Array

LinkName = Literal[
    "identity",
    "logit",
    "log",
    "log1p",
    "softmax",
    "one-vs-rest",
    "cloglog",
    "sqrt",
    "softplus",
    "step",
    "mean-variance",
    "ordered",
    "sigmoid",
    "isotonic",
    "path-length",
    "transformed",
    "unknown",
]

# What XGBoost puts between expectiles at least.
_SMALLEST_GAP = 1e-6

_ELEMENTWISE: dict[str, Callable[[Array], Array]] = {
    "identity": lambda margin: margin,
    "log": np.exp,
    "log1p": np.expm1,
    "sqrt": lambda margin: np.sign(margin) * margin**2,
    "cloglog": lambda margin: -np.expm1(-np.exp(margin)),
    "softplus": lambda margin: np.logaddexp(0.0, margin),
    "step": lambda margin: np.where(margin > 0, 1.0, 0.0),
    "path-length": lambda margin: -(2.0**-margin),
}


@dataclass(frozen=True)
class Link:
    """The function from a margin to a response.

    Parameters
    ----------
    name : {"identity", "logit", "log", "log1p", "softmax", "one-vs-rest", "cloglog", "sqrt", \
"softplus", "step", "mean-variance", "ordered", "sigmoid", "isotonic", "path-length", \
"transformed", "unknown"}
        ``"logit"``: the response is ``1 / (1 + exp(-scale * margin))``; ``"one-vs-rest"``
        is a logit in each output, divided by the sum over the outputs; ``"cloglog"`` is
        ``1 - exp(-exp(margin))``; ``"sqrt"`` is ``sign(margin) * margin**2``; ``"softplus"``
        is ``log(1 + exp(margin))``; ``"log1p"`` is ``exp(margin) - 1``; ``"step"`` is 1 where
        the margin is above 0, else 0. The outputs of ``"mean-variance"`` are a mean, and
        the log of a standard deviation, whose response is the variance. Responses of
        ``"ordered"`` increase from output to output: the first is its margin, and each further
        one is larger than the one before by ``1e-6 + log(1 + exp(margin))``. ``"sigmoid"`` and
        ``"isotonic"`` are calibrations of a score: ``1 / (1 + exp(-scale * score - shift))``,
        and linear between `knots`, constant beyond them. ``"isotonic"`` has flat pieces, so
        a response does not determine a margin. ``"path-length"`` is ``-2**-margin``, the score
        of an isolation forest: from -1 for outliers towards 0. ``"transformed"`` calls `undo`, a
        function of unknown form. ``"unknown"`` has no response.
    scale : float
        Factor on the margin before the inverse link (LightGBM's ``sigmoid``), or on the
        score.
    shift : float
        Number that ``"sigmoid"`` adds to the score.
    knots, values : tuple of float
        For ``"isotonic"``: scores in increasing order, and the responses there, which do not
        decrease.
    before : Link, optional
        The function from the margin to the score that is calibrated, or to the target that is
        transformed; without it they are the same.
    undo : callable, optional
        Transforms a target back, (n_rows, n_outputs) to the same shape, with the fitted
        transformer. It is code and is not saved, so there is no response after loading.

    Examples
    --------
    >>> import numpy as np
    >>> Link("logit").inverse(np.array([0.0]))
    array([0.5])
    >>> Link("isotonic", knots=(0.0, 1.0), values=(0.2, 0.8)).inverse(np.array([0.5, 7.0]))
    array([0.5, 0.8])
    """

    name: LinkName = "identity"
    scale: float = 1.0
    shift: float = 0.0
    knots: tuple[float, ...] = ()
    values: tuple[float, ...] = ()
    before: "Link | None" = None
    undo: Callable[[Array], Any] | None = None

    def __post_init__(self) -> None:
        if self.name not in get_args(LinkName):
            raise InvalidInputError(
                f"unknown link {self.name!r}; expected one of {', '.join(get_args(LinkName))}"
            )
        if self.name == "isotonic":
            self._check_curve()

    def _check_curve(self) -> None:
        knots, values = np.asarray(self.knots), np.asarray(self.values)
        fits = len(knots) == len(values) > 0 and np.all(np.isfinite(np.append(knots, values)))
        if not fits or np.any(np.diff(knots) <= 0) or np.any(np.diff(values) < 0):
            raise InvalidInputError(
                "an isotonic link needs at least one knot and as many finite values as knots; "
                "knots must increase, and values must not decrease; got "
                f"{len(knots)} knots and {len(values)} values"
            )

    def inverse(self, margin: Array) -> Array:
        """Return the response; the last axis of `margin` is the output axis.

        Raises
        ------
        InvalidInputError
            If the function from the model's margin to a response is not known.
        """
        margin = np.asarray(margin, dtype=np.float64)
        if self.name == "unknown":
            raise InvalidInputError(
                "it is not known how this model turns its margin into a response; request the "
                'margin (scale="margin"), or predict with the model\'s own library'
            )
        if self.before is not None:
            margin = self.before.inverse(margin)
        if self.name == "transformed":
            return self._undone(margin)
        if self.name in _ELEMENTWISE:
            return np.asarray(_ELEMENTWISE[self.name](margin))
        if self.name == "mean-variance":
            return np.stack([margin[..., 0], np.exp(2.0 * margin[..., 1])], axis=-1)
        if self.name == "ordered":
            gaps = _SMALLEST_GAP + np.logaddexp(0.0, margin[..., 1:])
            return np.cumsum(np.concatenate([margin[..., :1], gaps], axis=-1), axis=-1)
        if self.name == "softmax":
            shifted = np.exp(self.scale * (margin - margin.max(axis=-1, keepdims=True)))
            return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))
        if self.name == "isotonic":
            return np.asarray(np.interp(margin, self.knots, self.values))
        from scipy.special import expit

        probability = expit(self.scale * margin + self.shift)
        if self.name == "one-vs-rest":
            probability = probability / probability.sum(axis=-1, keepdims=True)
        return np.asarray(probability)

    def _undone(self, margin: Array) -> Array:
        """Return what the fitted transformer of the target makes of its own numbers."""
        if self.undo is None:
            raise InvalidInputError(
                "the response needs the fitted transformer of the target, which a file does not "
                'contain; request the margin (scale="margin"), and transform it with '
                "model.transformer_.inverse_transform"
            )
        if margin.size == 0:
            return margin
        undone = self.undo(margin.reshape(-1, margin.shape[-1]))
        return np.asarray(undone, dtype=np.float64).reshape(margin.shape)
