"""Text in figures: names that have to fit, what outputs are called, and numbers."""

import re
from collections.abc import Iterable
from dataclasses import replace
from textwrap import wrap

import numpy as np

from treepurify.decomposition import Decomposition
from treepurify.links import Link
from treepurify.typing import Array, Mask

_SHORTEST_NAME = 8
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
    "logit": "log-odds; the logistic function gives the probability",
    "log": "logarithm of the prediction",
    "log1p": "logarithm of one plus the prediction",
    "softmax": "scores before softmax, which gives the probabilities",
    "ordered": "the first level; each later one exceeds the one before by a softplus",
    "transformed": "the transformed target; the model's transformer gives the prediction",
    "sigmoid": "the model's score; the sigmoid of its calibration gives the probability",
    "isotonic": "the model's score; its calibration curve gives the probability",
}


def shorten(label: str, most: int = 26) -> str:
    """Return a label of at most `most` characters, the middle of each name left out.

    Names that differ tend to do so at an end.

    Examples
    --------
    >>> shorten("a_rather_long_feature_name_17", 18), shorten("age", 18)
    ('a_rather…e_name_17', 'age')
    """
    if len(label) <= most:
        return label
    parts = label.split(" & ")
    each = (most - 3 * (len(parts) - 1)) // len(parts)
    if len(parts) > 1 and each >= _SHORTEST_NAME:
        # What short names leave is for the long ones.
        n_long = sum(len(part) > each for part in parts)
        each += sum(max(each - len(part), 0) for part in parts) // max(n_long, 1)
        return " & ".join(shorten(part, each) for part in parts)
    tail = most // 2
    return label[: most - tail - 1].rstrip() + "…" + label[-tail:].lstrip()


def shorten_all(labels: Iterable[str], most: int = 26) -> list[str]:
    """Return labels of at most `most` characters that differ where the whole ones do.

    Examples
    --------
    >>> shorten_all(["wholesale of wood, raw, for sale", "wholesale of wood, dry, for sale"], 16)
    ['…raw, for sale', '…dry, for sale']
    """
    whole = list(labels)
    short = _apart(whole, most)
    pairs = [label.split(" & ") for label in whole if " & " in label and len(label) > most]
    each = (most - 3) // 2
    if each < _SHORTEST_NAME or any(len(names) != 2 for names in pairs):
        return [short[label] for label in whole]
    # Of pairs each name differs by itself.
    alone = _apart([name for names in pairs for name in names], each)
    joined = {" & ".join(names): " & ".join(map(alone.__getitem__, names)) for names in pairs}
    alike = [shorten(label, most) for label in whole]
    return [
        joined[label] if label in joined and alike.count(words) > 1 else short[label]
        for label, words in zip(whole, alike, strict=True)
    ]


def _apart(labels: list[str], most: int) -> dict[str, str]:
    """Return short labels; of those that look alike the part from where they differ, or numbers."""
    short = {label: shorten(label, most) for label in labels}
    for words in dict.fromkeys(short.values()):
        alike = [label for label in short if short[label] == words]
        if len(alike) == 1:
            continue
        same = [len(set(letters)) == 1 for letters in zip(*alike, strict=False)]
        start = (*same, False).index(False)
        for number, label in enumerate(alike, start=1):
            short[label] = f"…{label[start:]}"[:most]
            if len(label) < start + 1 or list(short.values()).count(short[label]) > 1:
                short[label] = f"{words[: most - len(str(number)) - 3]} ({number})"
    return short


def fold(label: str, width: int, lines: int = 2) -> str:
    """Return a label in at most `lines` lines of at most `width` characters; else shortened.

    Examples
    --------
    >>> print(fold("workclass & occupation = Private, Protective-serv", 30))
    workclass & occupation =
    Private, Protective-serv
    """
    for most in (len(label), width * lines, width * lines * 3 // 4, width):
        # Lines may also end after what separates words within a name.
        words = re.sub(r"(?<=[_/.,;:=])(?=[^\W_])", "\0 ", shorten(label, most))
        found = [
            line.replace("\0 ", "").rstrip("\0")
            for line in wrap(words, width, break_on_hyphens=False)
        ]
        if len(found) <= lines:
            break
    return "\n".join(found)


def numbers_alike(values: Iterable[float], digits: int = 3, *, signed: bool = False) -> list[str]:
    """Return numbers with the same decimals, of which the largest has this number of digits.

    Examples
    --------
    >>> numbers_alike([1.234, 0.5, 0.001]), numbers_alike([12.0, 4321.0], 2, signed=True)
    (['1.23', '0.50', '0.00'], ['0', '+4300'])
    """
    numbers = [float(value) for value in values]
    largest = max((abs(value) for value in numbers if np.isfinite(value)), default=0.0)
    if not 1e-4 <= largest < 1e7:
        return [(signed_words if signed else number_words)(value, digits) for value in numbers]
    decimals = digits - 1 - int(np.floor(np.log10(largest)))
    rounded = [round(value, decimals) + 0.0 for value in numbers]
    return [
        with_minus(f"{value:{'+' * (signed and value != 0)}.{max(decimals, 0)}f}")
        for value in rounded
    ]


def range_words(first: float, last: float, *, signed: bool = True) -> str:
    """Return from where to where effects go, with two digits of the larger; empty if nowhere.

    Examples
    --------
    >>> range_words(1.9234, 0.2), range_words(12.0, 4321.0), range_words(0.0, 0.0)
    ('from +1.9 to +0.2', 'from 0 to +4300', '')
    """
    words = numbers_alike((first, last), 2, signed=signed)
    is_known = np.isfinite(first) and np.isfinite(last)
    return f"from {words[0]} to {words[1]}" if is_known and words[0] != words[1] else ""


def ends_in_order(values: Array, counts: Mask) -> tuple[float, float] | None:
    """Return the smallest and the largest value that counts, in the order in which they come.

    Of all values where none counts; None where none is known.
    """
    known = values[np.isfinite(values) & (counts if counts.any() else True)]
    if not known.size:
        return None
    first, last = sorted((int(np.argmin(known)), int(np.argmax(known))))
    return float(known[first]), float(known[last])


def numbers_apart(values: Iterable[float]) -> list[str]:
    """Return numbers as words, with as few digits as keep neighbours apart."""
    numbers = list(values)
    for digits in (3, 4, 6, 9):
        labels = [number_words(value, digits) for value in numbers]
        if len(set(labels)) == len(labels):
            break
    return labels


def number_words(value: float, digits: int = 10) -> str:
    """Return a number with at most `digits` digits, without zeros at its end.

    A large one as a power of ten only where that is shorter: dates such as 20231231 stay whole.

    Examples
    --------
    >>> number_words(1234.5, 3), number_words(0.0001), number_words(1.5e8)
    ('1230', '0.0001', '1.5e+8')
    """
    # Adding zero takes the sign off a negative zero.
    value = float(f"{value:.{digits}g}") + 0.0
    plain = value == 0 or 1e-4 <= abs(value) < 1e16
    whole = np.format_float_positional(value, trim="-") if plain else ""
    if plain and abs(value) < 1e7:
        return with_minus(whole)
    power = np.format_float_scientific(value, trim="-", exp_digits=1)
    return with_minus(whole if plain and len(whole) <= len(power) else power)


def signed_words(value: float, digits: int = 3) -> str:
    """Return a number with its sign, also where it is positive.

    Examples
    --------
    >>> signed_words(1234.5), signed_words(0.25), signed_words(0.0)
    ('+1230', '+0.25', '0')
    """
    words = number_words(value, digits)
    return f"+{words}" if value > 0 and words != "0" else words


def percent_words(share: float, position: float = 0) -> str:
    """Return a share as a percentage; a formatter of matplotlib."""
    return f"{number_words(100 * share, 4)}%"


def with_minus(text: str) -> str:
    """Return a number with a minus sign for each hyphen, in its exponent, too; not for names."""
    return text.replace("-", "\N{MINUS SIGN}")


def with_class_names(d: Decomposition) -> Decomposition:
    """Return the decomposition with outputs called ``"class 2"`` where they are class labels."""
    if d.n_outputs == 1:
        return d
    return replace(d, output_names=tuple(_output_name(d, k) for k in range(d.n_outputs)))


def effect_label(d: Decomposition, output: int) -> str:
    """Return what the numbers of an effect are, such as ``"effect on the log-odds"``."""
    return f"effect on the {margin_label(d, output)}"


def margin_label(d: Decomposition, output: int) -> str:
    """Return what the sum of the effects is, such as ``"log-odds of class 'yes'"``."""
    scale = _scale(d)
    if d.n_outputs > 1:
        name = _output_name(d, output)
    elif scale == _PROBABILITY or _is_named_class(d):
        name = _class_words(d.output_names[0])
    else:
        return scale
    if scale.startswith("score"):
        return f"score of {name}{scale.removeprefix('score')}"
    return f"{scale} of {name}"


def _class_words(name: str) -> str:
    """Return what a class is called: its number, or its name in quotation marks."""
    return f"class {name}" if name.lstrip("-").isdigit() else f"class '{name}'"


def _is_named_class(d: Decomposition) -> bool:
    """Return whether the one output is a class that has a name, not a number."""
    (name,) = d.output_names
    return d.link.name == "logit" and name != "margin" and not name.lstrip("-").isdigit()


def scale_sentence(d: Decomposition) -> str:
    """Return on which scale the effects add up, and how the response follows."""
    if _scale(d) == _PROBABILITY:
        which = "each class" if d.n_outputs > 1 else f"class {d.output_names[0]}"
        return f"the {_PROBABILITY} of {which}"
    if d.link.name in _CALIBRATIONS and d.link.before is not None:
        return f"{_scale(d)}; a calibration curve gives the probability"
    return _SENTENCES.get(d.link.name, f"margin, before the inverse of the {d.link.name} link")


def _output_name(d: Decomposition, output: int) -> str:
    name = d.output_names[output]
    is_class = d.link.name in _LINKS_OF_CLASSES or _is_classifier(d)
    return _class_words(name) if is_class and not name.startswith("class ") else name


def scale_words(link: Link) -> str:
    """Return what a margin is under a link, such as ``"log-odds"``."""
    return _SCALES.get(link.name, "margin")


def _scale(d: Decomposition) -> str:
    # Trees and forests of scikit-learn average the shares of the classes in their leaves.
    if d.link.name == "identity" and _is_classifier(d):
        return _PROBABILITY
    if d.link.name in _CALIBRATIONS and d.link.before is not None:
        return f"{_SCALES.get(d.link.before.name, 'margin')} before calibration"
    return scale_words(d.link)


def _is_classifier(d: Decomposition) -> bool:
    facts = d.origin.model or d.origin.response_of
    # Of a pipeline the kind is "Pipeline(..., RandomForestClassifier)".
    return facts is not None and facts.kind.rstrip(")").endswith("Classifier")
