"""What outputs are called in figures and reports, and what their numbers are."""

from dataclasses import replace

from treepurify.decomposition import Decomposition

__all__ = ["effect_label", "margin_label", "scale_sentence", "with_class_names"]

_LINKS_OF_CLASSES = ("softmax", "one-vs-rest")
_CALIBRATIONS = ("sigmoid", "isotonic")
_PROBABILITY = "probability"
_SCALES = {
    "identity": "prediction",
    "logit": "log-odds",
    "log": "log of the prediction",
    "log1p": "log of 1 + the prediction",
    "softmax": "score before softmax",
    **dict.fromkeys(_CALIBRATIONS, "score before calibration"),
}
_SENTENCES = {
    "identity": "the prediction itself",
    "logit": "log-odds; the probability follows by the logistic function",
    "log": "logarithm of the prediction",
    "log1p": "logarithm of one plus the prediction",
    "softmax": "scores before softmax; probabilities follow by it",
    "ordered": "the first level itself; each further one is above the one before by a softplus",
    "sigmoid": "the model's score; the probability follows by the sigmoid of its calibration",
    "isotonic": "the model's score; the probability follows by the curve of its calibration",
}


def with_class_names(d: Decomposition) -> Decomposition:
    """Return the decomposition with outputs called ``"class 2"`` where they are class labels."""
    if d.n_outputs == 1:
        return d
    return replace(d, output_names=tuple(_output_name(d, k) for k in range(d.n_outputs)))


def effect_label(d: Decomposition, output: int) -> str:
    """Return what the numbers of an effect are, such as ``"effect on the log-odds"``."""
    words = margin_label(d, output)
    return f"effect on {words}" if d.n_outputs > 1 else f"effect on the {words}"


def margin_label(d: Decomposition, output: int) -> str:
    """Return what the sum of the effects is, such as ``"log-odds"``."""
    scale = _scale(d)
    if d.n_outputs > 1:
        return f"{_output_name(d, output)} ({scale})"
    return f"{scale} of class {d.output_names[0]}" if scale == _PROBABILITY else scale


def scale_sentence(d: Decomposition) -> str:
    """Return on which scale the effects add up, and how the response follows."""
    if _scale(d) == _PROBABILITY:
        which = "each class" if d.n_outputs > 1 else f"class {d.output_names[0]}"
        return f"the {_PROBABILITY} of {which}"
    if d.link.name in _CALIBRATIONS and d.link.before is not None:
        return f"{_scale(d)}; the probability follows from it, and its calibration by a curve"
    return _SENTENCES.get(d.link.name, f"margin, before the inverse of the {d.link.name} link")


def _output_name(d: Decomposition, output: int) -> str:
    name = d.output_names[output]
    is_class = d.link.name in _LINKS_OF_CLASSES or _is_classifier(d)
    return f"class {name}" if is_class and not name.startswith("class ") else name


def _scale(d: Decomposition) -> str:
    # Trees and forests of scikit-learn average the shares of the classes in their leaves.
    if d.link.name == "identity" and _is_classifier(d):
        return _PROBABILITY
    if d.link.name in _CALIBRATIONS and d.link.before is not None:
        return f"{_SCALES.get(d.link.before.name, 'margin')} before calibration"
    return _SCALES.get(d.link.name, "margin")


def _is_classifier(d: Decomposition) -> bool:
    facts = d.origin.model or d.origin.response_of
    # Of a pipeline the kind is "Pipeline(..., RandomForestClassifier)".
    return facts is not None and facts.kind.rstrip(")").endswith("Classifier")
