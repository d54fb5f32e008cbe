"""Losses: how far predictions lie from what was observed, as a function of the margin."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from treepurify._kernels.concordance import concordant_share
from treepurify.arguments import brief, check_choice, check_number, read_numbers
from treepurify.errors import InvalidInputError
from treepurify.links import Link
from treepurify.rows.targets import one_of_two
from treepurify.typing import Array, Indices

LossName = Literal["auto", "squared_error", "log_loss", "poisson", "quantile", "auc"]
LossFunction = Callable[[Any, Array, Array], float]
LossChoice = LossName | tuple[Literal["quantile"], float] | LossFunction

_CLASS_LINKS = ("softmax", "one-vs-rest")
_BINARY_LINKS = ("logit", "cloglog", "sigmoid", "isotonic")
_POSITIVE_LINKS = ("log", "softplus")
_ROUNDING = 1e-12
_USUAL = {
    "identity": "squared_error",
    "log": "poisson",
    **dict.fromkeys((*_CLASS_LINKS, *_BINARY_LINKS), "log_loss"),
}
_WORDS = {"poisson": "Poisson deviance", "auc": "1 - AUC"}
_OTHERWISE = (
    '("quantile", 0.9), or a function loss(y, predicted, sample_weight) that returns a number'
)


@dataclass(frozen=True, eq=False)
class Loss:
    """A loss with the observations that it compares margins with.

    Parameters
    ----------
    name : str
        Which one.
    at : callable
        Takes margins (n_rows, n_outputs) and returns a function of the shares of the rows
        (n_rows,), which sum to one: the loss of all rows. What does not depend on the shares is
        done once, so that resampled rows cost little.
    of_rows : callable, optional
        The loss of each row (n_rows,), from the margins, where the loss is their mean.
    curvature : callable, optional
        The gradient and the second derivative of the loss by the margin of each output, up to
        one factor, both (n_rows, n_outputs); None where there is no second derivative.
    """

    name: str
    at: Callable[[Array], Callable[[Array], float]]
    of_rows: Callable[[Array], Array] | None = None
    curvature: Callable[[Array], tuple[Array, Array]] | None = None

    def mean(self, margin: Array, shares: Array) -> float:
        """Return the loss of margins (n_rows, n_outputs) on rows with these shares (n_rows,)."""
        return self.at(margin)(shares)


def loss_words(name: str) -> str:
    """Return what a loss is called in sentences and figures, such as ``"log loss"``."""
    return _WORDS.get(name, name.replace("_", " "))


def read_loss(loss: Any, y: Any, link: Link, output_names: Sequence[str], n_rows: int) -> Loss:
    """Return the requested loss, with the observations read as it needs them.

    Parameters
    ----------
    loss : str, tuple or callable
        ``"squared_error"`` and ``"quantile"`` of the response, averaged over the outputs (for
        classes the squared error of all probabilities), where ``("quantile", 0.9)`` is of another
        level than 0.5; ``"log_loss"``; ``"poisson"``, the deviance; ``"auc"``, one minus the area
        under the ROC curve. A function is called as
        ``loss(y, predicted, sample_weight)``: the observations as they were passed, the response,
        and weights that sum to one. ``"auto"`` goes by the link.
    y : array_like of shape (n_rows,) or (n_rows, n_outputs)
        The observations.
    link : Link
        From the margin to the response.
    output_names : sequence of str
        One name per output, by which classes are known.
    n_rows : int
        How many observations there must be.

    Raises
    ------
    InvalidInputError
        If the loss is unknown or does not suit the link, or the observations do not suit it.
    """
    n_outputs = len(output_names)
    if callable(loss):
        return _called(loss, y, link, n_rows, n_outputs)
    level = 0.5
    if isinstance(loss, tuple) and len(loss) == 2 and loss[0] == "quantile":
        loss, level = loss
        check_number("the level of the quantile", level, least=0, most=1, open_ends=True)
    check_choice("loss", loss, get_args(LossName), advice=f", {_OTHERWISE}")
    name = _usual_loss(link) if loss == "auto" else loss
    observed = one_of_two(_read_observed(y, n_rows), output_names)
    if name == "log_loss":
        return _log_loss(observed, link, output_names)
    if name == "auc":
        return _auc(observed, n_outputs)
    if name == "poisson":
        return _poisson(_numbers(observed, n_outputs), link)
    if name == "squared_error":
        return _squared_error(_responses(observed, link, output_names), link)
    return _quantile(_numbers(observed, n_outputs), link, level)


def read_class(y: Any, output_names: Sequence[str], output: int, n_rows: int) -> Array:
    """Return 1 for the rows that were observed in the class of an output, 0 for others.

    Parameters
    ----------
    y : array_like of shape (n_rows,)
        Of one output 0 and 1, or two labels of which one is its name; of several outputs the
        classes.
    output_names : sequence of str
        One name per output, by which classes are known.
    output : int
        The output.
    n_rows : int
        How many observations there must be.

    Returns
    -------
    ndarray of float64, shape (n_rows,)

    Raises
    ------
    InvalidInputError
        If they are no such classes.
    """
    observed = one_of_two(_read_observed(y, n_rows), output_names)
    if len(output_names) == 1:
        return _binary(observed)
    return np.asarray(_classes(observed, output_names) == output, dtype=np.float64)


def _usual_loss(link: Link) -> str:
    if link.name not in _USUAL:
        raise InvalidInputError(
            f'loss="auto" has no default for the link {link.name!r}: name one of '
            f"{', '.join(get_args(LossName)[1:])}, {_OTHERWISE}"
        )
    return _USUAL[link.name]


def _read_observed(y: Any, n_rows: int) -> npt.NDArray[Any]:
    try:
        observed = np.asarray(y)
    except (TypeError, ValueError):  # rows of different lengths
        observed = np.empty(0)
    if observed.ndim == 2 and observed.shape[1] == 1:
        observed = observed[:, 0]
    if observed.ndim not in (1, 2) or len(observed) != n_rows:
        raise InvalidInputError(
            f"y must have one observation per row of X ({n_rows}), got {brief(y)}"
        )
    return observed


def _numbers(observed: npt.NDArray[Any], n_outputs: int) -> Array:
    """Return observations as (n_rows, n_outputs)."""
    numbers = read_numbers("y", observed, "contain one number per row (and output)")
    if numbers.ndim == 1:
        numbers = numbers[:, None]
    if numbers.shape[1] != n_outputs:
        raise InvalidInputError(
            f"y must have one column for each of the {n_outputs} outputs, got {numbers.shape[1]}"
        )
    if not np.all(np.isfinite(numbers)):
        raise InvalidInputError("y must be finite; leave out rows without an observation")
    return numbers


def _responses(observed: npt.NDArray[Any], link: Link, output_names: Sequence[str]) -> Array:
    """Return observations on the response scale; classes as zeros and one."""
    if observed.ndim == 2 or len(output_names) == 1:
        return _numbers(observed, len(output_names))
    if link.name not in (*_CLASS_LINKS, "identity"):
        return _numbers(observed, len(output_names))
    return np.eye(len(output_names))[_classes(observed, output_names)]


def _binary(observed: npt.NDArray[Any]) -> Array:
    what = "y must contain 0 and 1, where 1 is the class that the model predicts"
    if observed.dtype.kind not in "biuf" or observed.ndim != 1:
        raise InvalidInputError(
            f"{what}, or two labels, one of them the name of this class; got {brief(observed)}: "
            "pass y == that class"
        )
    numbers = observed.astype(np.float64)
    if not np.all((numbers == 0) | (numbers == 1)):
        raise InvalidInputError(f"{what}; it contains {brief(np.unique(numbers)[:5].tolist())}")
    return numbers


def _classes(observed: npt.NDArray[Any], output_names: Sequence[str]) -> Indices:
    """Return the output of each row's class, by its name, else by its position."""
    if observed.ndim != 1:
        raise InvalidInputError(
            f"y must contain one class per row, got shape {observed.shape}: pass the classes "
            "themselves, such as y.argmax(axis=1) of indicators"
        )
    try:
        labels, inverse = np.unique(observed, return_inverse=True)
    except TypeError as error:
        raise InvalidInputError(
            f"y must contain classes of one type, and none may be missing; got {brief(observed)}"
        ) from error
    known = {name.removeprefix("class "): k for k, name in enumerate(output_names)}
    texts = [str(label) for label in labels]
    if all(text in known for text in texts):
        return np.array([known[text] for text in texts], dtype=np.intp)[inverse]
    is_position = observed.dtype.kind in "biu" and labels[0] >= 0 and labels[-1] < len(known)
    if not is_position:
        raise InvalidInputError(
            f"y must contain the classes {', '.join(output_names)}, or their positions from 0; it "
            f"contains {brief(texts[:5])}"
        )
    return observed.astype(np.intp)


def _mean_of(name: str, of_rows: Callable[[Array], Array], curvature: Any = None) -> Loss:
    def at(margin: Array) -> Callable[[Array], float]:
        losses = of_rows(margin)
        return lambda shares: float((shares * losses).sum())

    return Loss(name, at, of_rows, curvature)


def _squared_error(response: Array, link: Link) -> Loss:
    def of_rows(margin: Array) -> Array:
        return np.asarray(np.square(response - link.inverse(margin)).mean(axis=1))

    def curvature(margin: Array) -> tuple[Array, Array]:
        return margin - response, np.ones_like(margin)

    is_identity = link.name == "identity"
    return _mean_of("squared_error", of_rows, curvature if is_identity else None)


def _quantile(response: Array, link: Link, level: float) -> Loss:
    def of_rows(margin: Array) -> Array:
        error = response - link.inverse(margin)
        return np.asarray(np.maximum(level * error, (level - 1) * error).mean(axis=1))

    return _mean_of(f"quantile {level:g}", of_rows)


def _poisson(response: Array, link: Link) -> Loss:
    if link.name not in _POSITIVE_LINKS:
        raise InvalidInputError(
            'loss="poisson" needs a model whose predictions are positive (link '
            f"{' or '.join(_POSITIVE_LINKS)}); this one has the link {link.name!r}: use "
            '"squared_error"'
        )
    if np.any(response < 0):
        raise InvalidInputError(f'loss="poisson" needs y of at least 0, got {response.min():g}')
    from scipy.special import xlogy

    of_observed = xlogy(response, response) - response

    def of_rows(margin: Array) -> Array:
        mean = link.inverse(margin)
        log_mean = margin if link.name == "log" else np.log(mean)
        return np.asarray(2 * (of_observed - response * log_mean + mean).mean(axis=1))

    def curvature(margin: Array) -> tuple[Array, Array]:
        mean = np.exp(margin)
        return mean - response, mean

    is_log = link.name == "log"
    return _mean_of("poisson", of_rows, curvature if is_log else None)


def _log_loss(observed: npt.NDArray[Any], link: Link, output_names: Sequence[str]) -> Loss:
    if link.name in _CLASS_LINKS and len(output_names) > 1:
        return _log_loss_of_classes(_classes(observed, output_names), link)
    if link.name not in _BINARY_LINKS or len(output_names) != 1:
        raise InvalidInputError(
            f'loss="log_loss" needs a link that keeps probabilities between 0 and 1 even if '
            f'effects are left out, and this model has the link {link.name!r}; use "squared_error"'
        )
    y = _binary(observed)
    if link.name != "logit":

        def of_response(margin: Array) -> Array:
            p = link.inverse(margin)[:, 0]
            return _surprise(np.where(y == 1, p, 1.0 - p))

        return _mean_of("log_loss", of_response)
    scale = link.scale

    def of_rows(margin: Array) -> Array:
        score = scale * margin[:, 0]
        return np.asarray(np.logaddexp(0.0, score) - y * score)

    def curvature(margin: Array) -> tuple[Array, Array]:
        p = link.inverse(margin)
        return scale * (p - y[:, None]), scale**2 * p * (1.0 - p)

    return _mean_of("log_loss", of_rows, curvature)


def _log_loss_of_classes(classes: Indices, link: Link) -> Loss:
    rows = np.arange(len(classes))
    if link.name != "softmax":

        def of_response(margin: Array) -> Array:
            return _surprise(link.inverse(margin)[rows, classes])

        return _mean_of("log_loss", of_response)
    from scipy.special import logsumexp

    def of_rows(margin: Array) -> Array:
        return np.asarray(logsumexp(margin, axis=1) - margin[rows, classes])

    def curvature(margin: Array) -> tuple[Array, Array]:
        p = link.inverse(margin)
        gradient = p.copy()
        gradient[rows, classes] -= 1.0
        return gradient, p * (1.0 - p)

    return _mean_of("log_loss", of_rows, curvature)


def _surprise(probability: Array) -> Array:
    """Return minus the logarithm of the probability of what was observed."""
    if np.any(probability <= 0):
        raise InvalidInputError(
            "the log loss is infinite: the model gives probability 0 to what was observed; use "
            '"squared_error" or "auc"'
        )
    return np.asarray(-np.log(probability))


def _auc(observed: npt.NDArray[Any], n_outputs: int) -> Loss:
    if n_outputs != 1:
        raise InvalidInputError(
            f'loss="auc" needs a model with one output, and this one has {n_outputs}'
        )
    y = _binary(observed)
    if y.min(initial=1) == y.max(initial=0):
        raise InvalidInputError('loss="auc" needs rows of both classes; y has only one class')

    def at(margin: Array) -> Callable[[Array], float]:
        order = np.argsort(margin[:, 0], kind="stable")
        scores, labels = margin[order, 0], y[order]
        # Rows in the same leaves have one margin, but for the rounding of sums in another order.
        tie = _ROUNDING * max(abs(scores[0]), abs(scores[-1]))
        return lambda shares: 1.0 - concordant_share(scores, labels, shares[order], tie)

    return Loss("auc", at)


def _called(loss: LossFunction, y: Any, link: Link, n_rows: int, n_outputs: int) -> Loss:
    _read_observed(y, n_rows)

    def at(margin: Array) -> Callable[[Array], float]:
        predicted = link.inverse(margin)
        response = predicted[:, 0] if n_outputs == 1 else predicted
        return lambda shares: _one_number(_asked(loss, y, response, shares))

    return Loss(getattr(loss, "__name__", type(loss).__name__), at)


def _asked(loss: LossFunction, y: Any, response: Array, shares: Array) -> Any:
    try:
        return loss(y, response, shares)
    except TypeError as error:
        raise InvalidInputError(
            "the loss must be a function loss(y, predicted, sample_weight) that returns a "
            f"number; called like this, the function raised a TypeError: {error}"
        ) from error


def _one_number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"the loss must return one number, got {brief(value)} ({error})"
        ) from error
    if not np.isfinite(number):
        raise InvalidInputError(f"the loss must return a finite number, got {number}")
    return number
