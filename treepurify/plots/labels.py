"""Text in figures: names that have to fit, what outputs are called, and numbers."""

import re
from collections.abc import Iterable
from dataclasses import replace
from textwrap import wrap

import numpy as np

from treepurify.decomposition import Decomposition
from treepurify.links import Link

__all__ = [
    "effect_label",
    "fold",
    "margin_label",
    "number_words",
    "percent_words",
    "scale_sentence",
    "scale_words",
    "shorten",
    "shorten_all",
    "signed_words",
    "tick_words",
    "with_class_names",
    "with_minus",
]

_SHORTEST_NAME = 8
# Where a name may be cut; what separates stays with the word before it.
_WORDS = re.compile(r"[^\s_\-/.,;:=]+[\s_\-/.,;:=]*|[\s_\-/.,;:=]+")
# Inside words such as "PedigreeFunction".
_BEFORE_CAPITALS = re.compile(r"(?<=[a-z])(?=[A-Z])")
_SEPARATORS = " _-/.,;:=\t\n"
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
    """Return a label of at most `most` characters, whole words left out of the middle of names.

    Names that differ tend to do so at an end. Only a single long word is cut inside.

    Examples
    --------
    >>> shorten("a_rather_long_feature_name_17", 18), shorten("age", 18)
    ('a_rather…name_17', 'age')
    """
    if len(label) <= most:
        return label
    parts = label.split(" & ")
    most_letters = (most - 3 * (len(parts) - 1)) // len(parts)
    if len(parts) > 1 and most_letters >= _SHORTEST_NAME:
        # What short names leave is for the long ones.
        n_long = sum(len(part) > most_letters for part in parts)
        spare = sum(max(most_letters - len(part), 0) for part in parts) // max(n_long, 1)
        return " & ".join(shorten(part, most_letters + spare) for part in parts)
    return _without_middle_words(label, most) or _without_middle(label, most)


def shorten_all(labels: Iterable[str], most: int = 26) -> list[str]:
    """Return labels of at most `most` characters that differ where the whole ones do.

    What labels have in common goes first, where they would look alike without that; a number
    distinguishes those that still do.

    Examples
    --------
    >>> shorten_all(["wholesale of wood, raw, for sale", "wholesale of wood, dry, for sale"], 16)
    ['wholes…raw… sale', 'wholes…dry… sale']
    """
    whole = list(labels)
    short = [shorten(label, most) for label in whole]
    alike: dict[str, dict[str, None]] = {}
    for label, words in zip(whole, short, strict=True):
        alike.setdefault(words, {})[label] = None
    told: dict[str, str] = {}
    for words, several in alike.items():
        told |= (
            _distinguished([*several], most) if len(several) > 1 else {next(iter(several)): words}
        )
    # A label that is unique within its group may be that of another one.
    taken: set[str] = set()
    for n, label in enumerate(told, start=1):
        if told[label] in taken:
            told[label] = _numbered(label, n, most)
        taken.add(told[label])
    return [told[label] for label in whole]


def fold(label: str, width: int, lines: int = 2) -> str:
    """Return a label in at most `lines` lines of at most `width` characters.

    Lines end after a word, where there are words; what does not fit is shortened.

    Examples
    --------
    >>> print(fold("workclass & occupation = Private, Protective-serv", 30))
    workclass & occupation =
    Private, Protective-serv
    """
    for text in (label, shorten(label, width * lines), shorten(label, width * lines * 3 // 4)):
        folded = _lines(text, width)
        if len(folded) <= lines:
            return "\n".join(folded)
    return "\n".join([*folded[: lines - 1], shorten("".join(folded[lines - 1 :]), width)])


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


def tick_words(value: float, position: float = 0) -> str:
    """Return the label of a tick on an axis of numbers; a formatter of matplotlib."""
    return number_words(value)


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


def _distinguished(labels: list[str], most: int) -> dict[str, str]:
    """Return labels that show where they differ, with ends of what they have in common."""
    by_name = _names_distinguished(labels, most)
    if by_name is not None:
        return by_name
    start = _in_common(labels)
    end = _in_common([label[start:][::-1] for label in labels])
    middles = [label[start : len(label) - end] for label in labels]
    widest = max(map(len, middles))
    most_letters = max(most - 2 - widest, 0)
    head, tail = labels[0][:start], labels[0][len(labels[0]) - end :]
    n_tail = min(len(tail), most_letters // 2)
    n_head = min(len(head), most_letters - n_tail)
    left = head if n_head == len(head) else f"{head[:n_head]}…"
    right = tail if n_tail == len(tail) else f"…{tail[len(tail) - n_tail :]}"
    found = [shorten(f"{left}{middle}{right}", most) for middle in middles]
    if len(set(found)) < len(found):
        found = [_numbered(label, n, most) for n, label in enumerate(labels, start=1)]
    return dict(zip(labels, found, strict=True))


def _names_distinguished(labels: list[str], most: int) -> dict[str, str] | None:
    """Return labels of pairs whose names differ each by itself; None where they do not fit."""
    parts = [label.split(" & ") for label in labels]
    n_parts = len(parts[0])
    most_letters = (most - 3 * (n_parts - 1)) // n_parts
    if (
        n_parts == 1
        or most_letters < _SHORTEST_NAME
        or {len(names) for names in parts} != {n_parts}
    ):
        return None
    names = [*dict.fromkeys(name for several in parts for name in several)]
    short = dict(zip(names, shorten_all(names, most_letters), strict=True))
    return {
        label: " & ".join(short[name] for name in several)
        for label, several in zip(labels, parts, strict=True)
    }


def _in_common(labels: list[str]) -> int:
    """Return how many characters all labels begin with."""
    alike = [len(set(letters)) == 1 for letters in zip(*labels, strict=False)]
    return (*alike, False).index(False)


def _numbered(label: str, number: int, most: int) -> str:
    return f"{shorten(label, max(most - len(str(number)) - 3, _SHORTEST_NAME))} ({number})"


def _lines(text: str, width: int) -> list[str]:
    wrapped = wrap(text, width, break_long_words=False, break_on_hyphens=False)
    if all(len(line) <= width for line in wrapped):
        return wrapped
    words = [
        part
        for word in _WORDS.findall(text)
        for part in ([word] if len(word.rstrip()) <= width else _BEFORE_CAPITALS.split(word))
    ]
    lines = [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + len(word.rstrip()) > width:
            lines.append("")
        lines[-1] += word
    return [line[i : i + width] for line in lines for i in range(0, len(line.rstrip()), width)]


def _without_middle_words(label: str, most: int) -> str | None:
    """Return the first and last words that fit; None where that leaves less than half."""
    words = _WORDS.findall(label)
    first, last = 0, len(words)
    used = 1
    while first < last:
        takes_last = last == len(words) or _size(words[last:]) < _size(words[:first])
        size = len(words[last - 1] if takes_last else words[first])
        if used + size > most:
            break
        used += size
        first, last = (first, last - 1) if takes_last else (first + 1, last)
    head, tail = "".join(words[:first]).rstrip(_SEPARATORS), "".join(words[last:])
    return f"{head}…{tail}" if head and tail and 2 * used >= most else None


def _size(words: list[str]) -> int:
    return sum(map(len, words))


def _without_middle(label: str, most: int) -> str:
    tail = most // 2
    return label[: most - tail - 1].rstrip() + "…" + label[-tail:].lstrip()


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
