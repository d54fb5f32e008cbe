"""What a page says of where its numbers are from: the model, the certificate, the call, hashes."""

import platform
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from treepurify.arguments import brief, read_path
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.models.families import FAMILIES, display_name
from treepurify.moments import cells_of_columns
from treepurify.origin import ModelFacts, array_fingerprint, file_fingerprint
from treepurify.plots.labels import scale_sentence, with_minus
from treepurify.report.page import Section
from treepurify.rows.reduction import RowStream
from treepurify.verdict import explained_in_words, measure_words, verdict

_PACKAGES = ("numpy", "scipy", "numba", "pandas", "matplotlib")
# Where the name that installs a library is not the one that imports it.
_INSTALLED_AS = {"sklearn": "scikit-learn"}
_UNKNOWN = "unknown"
_MOST_NAMES = 30
_PURIFIED = (
    "The model is written as an intercept plus effects of single features and of groups of "
    "features. Purification moves everything that fewer features can express out of the larger "
    "effects, so that each effect has mean zero given any of its features, and the sum is still "
    "the model. Means are over the distribution of the features, which may be that of smoothed "
    "rows; what an effect means depends on it."
)
_OTHERWISE = (
    "The model is written as an intercept plus effects of single features and of groups of "
    "features. What an effect means depends on the method and on the distribution of the features; "
    "the certificate, if there is one, states how accurate the effects are."
)
_NO_CONDITIONAL_MEANS = 1e-8

FileHash = tuple[str, str]


def page_title(d: Decomposition, what: str) -> str:
    """Return the heading of a page, such as "Purified effects: XGBoost model"."""
    library = "" if d.origin.model is None else d.origin.model.library
    return f"{what}: {display_name(library)} model" if library else what


def lead(d: Decomposition) -> str:
    """Return the first line of a page: what was decomposed, and what effects are about."""
    model = model_words(d)
    words = f"{model}. " if model else ""
    rows = f" Averages are over {d.origin.n_rows:,} rows." if d.origin.n_rows else ""
    effects = f"{len(d)} effects" if len(d) != 1 else "1 effect"
    return f"{words}{effects} of {len(d.feature_names)} features.{rows}"


def model_words(d: Decomposition) -> str:
    """Return library, version, kind and size of the model, in words; empty where unknown."""
    model = d.origin.model
    if model is None:
        return ""
    source = " ".join(each for each in (model.library, model.version) if each not in ("", _UNKNOWN))
    count = f"{model.trees} trees" if model.trees is not None else ""
    if model.terms is not None:
        count = f"{model.terms} terms"
    return ", ".join(part for part in (source, model.kind, count) if part)


def certificate_section(d: Decomposition) -> Section | None:
    """Return the verdict with its figures, folded; None where there is nothing to say."""
    found = verdict(d)
    if d.certificate is None:
        text = [found.sentence] if found.sentence else []
        return Section("Remainder", text, state=found.state) if text else None
    first, *numbers = d.certificate.details()
    parts = [Section("The numbers", numbers, is_folded=True)]
    text = [*filter(None, (first, found.sentence, measure_words(d)))]
    return Section("Certificate", text, parts=parts, state=found.state)


def model_section(d: Decomposition) -> Section:
    """Return how effects are to be read, and what was decomposed."""
    model = d.origin.model or ModelFacts()
    orders = Counter(len(subset) for subset in d.components)
    per_order = [
        f"{orders[size]} of {size} feature{'' if size == 1 else 's'}" for size in sorted(orders)
    ]
    more = ", ..." if len(d.feature_names) > _MOST_NAMES else ""
    outputs = "1" if d.n_outputs == 1 else f"{d.n_outputs}: {', '.join(d.output_names)}"
    method = d.origin.method or d.engine
    fitted = {"projection": ", fitted tree by tree", "coarse": ", fitted on coarse cells"}
    explained = explained_in_words(d)
    means = None if d.certificate is None else d.certificate.conditional_mean
    is_pure = means is not None and means < _NO_CONDITIONAL_MEANS
    facts = [
        ("Model", model_words(d)),
        ("Features", f"{len(d.feature_names)}: {', '.join(d.feature_names[:_MOST_NAMES])}{more}"),
        ("Outputs", outputs),
        ("Class labels", ", ".join(map(str, model.class_labels))),
        ("Scale of effects", scale_sentence(d)),
        ("Distribution", d.measure),
        ("Method", method + fitted.get(method, "")),
        ("Explained", f"{explained}; the remainder contains the rest" if explained else ""),
        ("Rows", f"{d.origin.n_rows:,}" if d.origin.n_rows is not None else "none"),
        ("Effects", ", ".join(per_order)),
        ("Intercept", ", ".join(with_minus(f"{value:.6g}") for value in d.intercept)),
        ("Notes", " ".join(model.notes)),
    ]
    text = [_PURIFIED if is_pure else _OTHERWISE]
    return Section("Model and method", text, facts=facts, is_folded=True)


def hash_files(files: Any) -> list[FileHash]:
    """Return the name of each file with its SHA-256.

    Raises
    ------
    InvalidInputError
        If `files` is no list of paths, or one of them is not a file that can be read.
    """
    if not isinstance(files, list | tuple):
        raise InvalidInputError(f"files must be a list of paths, got {brief(files)}")
    hashed = []
    for given in files:
        path = read_path("each of files", given)
        if not path.is_file():
            raise InvalidInputError(f"files names {str(path)!r}, which does not exist")
        hashed.append((path.name, file_fingerprint(path)))
    return hashed


def making_facts(d: Decomposition, *, with_call: bool) -> list[tuple[str, str]]:
    """Return how one decomposition was made: call, engine, seeds, hashes of model and rows."""
    facts = []
    if with_call and d.call is not None:
        edits = "Effects were edited afterwards; see the certificate" * bool(d.origin.edits)
        facts = [("Call", d.call.line()), ("After the call", edits)]
    model = "" if d.origin.model is None else d.origin.model.sha256
    rows = _rows_fingerprint(d)
    seeds = "none, or drawn with a fixed seed: the same call gives the same numbers"
    if d.origin.seeds:
        seeds = f"drawn with seed {', '.join(map(str, d.origin.seeds))}"
    return [
        *facts,
        ("Engine", ", ".join(filter(None, [d.engine, d.origin.method]))),
        ("Random choices", seeds),
        ("Model as read", f"SHA-256 {model} of its trees or tables" if model else ""),
        ("Rows as read", f"SHA-256 {rows} of the rows as binned, with their weights" * bool(rows)),
    ]


def page_facts(
    decompositions: Sequence[Decomposition], files: Sequence[FileHash]
) -> list[tuple[str, str]]:
    """Return when and with which versions a page was written, and the files behind it."""
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return [
        ("Files", "; ".join(f"{name}: SHA-256 {digest}" for name, digest in files)),
        ("Report written", made),
        ("Versions", ", ".join(_versions(decompositions))),
    ]


def _rows_fingerprint(d: Decomposition) -> str:
    if not d.rows or isinstance(d.rows, RowStream):
        return ""
    if d.given is not None:
        whole = d.given.rows.whole
        if whole is None:
            return ""
        axes: dict[int, FeatureAxis] = {}
        for component in d.tensor_components().values():
            axes |= dict(zip(component.features, component.axes, strict=True))
        return array_fingerprint([cells_of_columns(whole.columns, axes), whole.weights])
    rows = d.rows[max(d.rows)]
    return array_fingerprint([rows.codes, rows.weights])


def _versions(decompositions: Sequence[Decomposition]) -> list[str]:
    from treepurify import __version__

    versions = {"treepurify": __version__, "Python": platform.python_version()}
    versions |= {name: metadata.version(name) for name in _PACKAGES}
    known = {family.library for family in FAMILIES} | {family.name for family in FAMILIES}
    models = [d.origin.model for d in decompositions if d.origin.model is not None]
    for library in dict.fromkeys(name for model in models for name in model.library.split(", ")):
        if library not in known:
            continue
        try:
            version = metadata.version(_INSTALLED_AS.get(library, library))
        except metadata.PackageNotFoundError:
            continue
        versions[display_name(library)] = version
    return [f"{name} {version}" for name, version in versions.items()]
