"""Where what is exported comes from: the model, its edits, and what wrote the file."""

from treepurify.decomposition import Decomposition
from treepurify.origin import ModelFacts

__all__ = ["origin"]

_MOST_LISTED = 50


def origin(d: Decomposition) -> list[tuple[str, str]]:
    """Return the facts by which an exported file can be traced, as names and values.

    The library, the hash and the class labels of the model, what was edited with how far
    predictions moved, the rows of the measure, the columns that rows must have because a pipeline
    or CatBoost makes them, the categories of which only hashes are known, and the version that
    wrote the file. What is not known is left out.

    Parameters
    ----------
    d : Decomposition
        What is exported.
    """
    from treepurify import __version__

    model = d.origin.model or ModelFacts()
    named = " ".join(filter(None, (model.library, model.version, model.kind)))
    rows = d.origin.n_rows
    edits = d.certificate.edits if d.certificate is not None else ()
    if not edits and d.origin.edits:
        edits = ("its effects were edited",)
    facts = [
        ("model", named),
        ("model SHA-256", model.sha256),
        ("class labels", ", ".join(map(repr, model.class_labels))),
        ("no longer the model", " ".join(edits)),
        ("rows of the distribution", "" if rows is None else str(rows)),
        ("derived columns that rows must have", _made_columns(d)),
        ("categories without a label (CatBoost stores only their hash)", _without_label(d)),
        ("written by", f"treepurify {__version__}"),
    ]
    return [(name, value) for name, value in facts if value]


def _made_columns(d: Decomposition) -> str:
    """Return names of derived columns with the raw columns that each is made from."""
    made = [spec for spec in d.inputs.features if spec.made_from]
    listed = [f"{spec.name!r} from {', '.join(spec.made_from)}" for spec in made[:_MOST_LISTED]]
    more = [f"{len(made) - len(listed)} more"] if len(made) > len(listed) else []
    return "; ".join([*listed, *more])


def _without_label(d: Decomposition) -> str:
    """Return how many categories of features with effects have no label: ``'city' 20 of 200``."""
    used = sorted({j for subset in d.components for j in subset})
    features = [d.inputs.features[j] for j in used]
    counts = [(spec, len(spec.hash_only)) for spec in features]
    return "; ".join(f"{spec.name!r} {count} of {spec.n_codes}" for spec, count in counts if count)
