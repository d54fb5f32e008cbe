"""Read explainable boosting machines (interpret), trained or saved as JSON.

Everything is read from attributes of the fitted model, or from the file; interpret is imported
only to predict with a file.
"""

import json
import reprlib
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from treepurify.errors import InvalidInputError, TreepurifyError, UnsupportedModelError
from treepurify.links import Link, LinkName
from treepurify.models.additive_tables import AdditiveTables, TableTerm
from treepurify.models.files import ModelFile
from treepurify.models.json_text import DAMAGE
from treepurify.models.limits import check_cells
from treepurify.models.parsed import ModelSource, plain_labels
from treepurify.models.plain_functions import explain_predictions
from treepurify.rows.columns import FeatureSpec
from treepurify.typing import Array, Indices

_LINKS: dict[str, LinkName] = {
    "identity": "identity",
    "log": "log",
    "logit": "logit",
    "mlogit": "softmax",
    # One logistic function a class; interpret does not divide by their sum.
    "vlogit": "logit",
}
_CATEGORICAL_TYPES = frozenset({"nominal", "ordinal"})

# One level of bins of a feature: sorted cuts, or the bin of each label (1, 2, ...).
_Bins = Array | dict[str, int]


@dataclass(frozen=True, eq=False)
class _Term:
    """One term in interpret's layout: along each axis missing, bins..., unknown."""

    features: tuple[int, ...]
    scores: Array
    weights: Array | None


@dataclass(frozen=True, eq=False)
class _Content:
    """What a trained model and its JSON have in common."""

    names: Sequence[str]
    types: Sequence[str]
    bins: Sequence[Sequence[_Bins]]
    terms: Sequence[_Term]
    intercept: Array
    link: str
    classes: tuple[str, ...]
    source: ModelSource


@dataclass(frozen=True, eq=False)
class _Axis:
    """How the cells of one axis are taken from interpret's layout.

    `share` is the part of the bin's mass that a cell gets: 1, less where labels share a bin.
    """

    take: Indices
    share: Array
    cuts: Array | None = None


def parse(model: Any) -> AdditiveTables:
    """Read a trained explainable boosting machine.

    Parameters
    ----------
    model : interpret.glassbox.ExplainableBoostingRegressor or similar
        A trained EBM, also a merged, an edited or a differentially private one.

    Returns
    -------
    AdditiveTables
        Cells of the terms as interpret has them, moved to the layout of `TableTerm`. Labels
        that share a bin get a code each, and an equal part of the bin's mass.

    Raises
    ------
    InvalidInputError
        If the model is not trained.
    UnsupportedModelError
        If it is not an EBM, was trained on a single class, or has an unknown link.
    """
    kind = type(model).__name__
    if not any(cls.__name__ == "EBMModel" for cls in type(model).__mro__):
        raise UnsupportedModelError(
            f"{kind} is not supported; the only models of interpret that can be read are "
            "explainable boosting machines (EBMs). To explain it by its predictions: "
            f"{explain_predictions(model)}"
        )
    if not hasattr(model, "has_fitted_"):
        raise InvalidInputError(f"this {kind} is not trained; call fit first")
    version = getattr(sys.modules.get("interpret"), "__version__", "unknown")
    weights = getattr(model, "bin_weights_", None) or [None] * len(model.term_features_)
    terms = [
        _Term(
            tuple(int(j) for j in features),
            np.asarray(scores, dtype=np.float64),
            None if mass is None else np.asarray(mass, dtype=np.float64),
        )
        for features, scores, mass in zip(
            model.term_features_, model.term_scores_, weights, strict=True
        )
    ]
    content = _Content(
        names=[str(name) for name in model.feature_names_in_],
        types=list(model.feature_types_in_),
        bins=model.bins_,
        terms=terms,
        intercept=np.atleast_1d(np.asarray(model.intercept_, dtype=np.float64)),
        link=str(model.link_),
        classes=tuple(str(label) for label in getattr(model, "classes_", ())),
        source=ModelSource("interpret", str(version), kind, constraints=_constraints(model)),
    )
    return _tables(content)


def _constraints(model: Any) -> tuple[int, ...]:
    """Return the monotone constraint of each feature; none where there are none."""
    given = getattr(model, "monotone_constraints", None)
    return () if given is None else tuple(int(sign) for sign in given)


def parse_file(file: ModelFile) -> AdditiveTables | None:
    """Parse a ``.json`` file; return None for a file of another kind."""
    return parse_document(file.document) if "ebm" in file.document else None


def parse_document(document: dict[str, Any]) -> AdditiveTables:
    """Read an EBM that interpret saved with ``to_json``.

    Parameters
    ----------
    document : dict
        The parsed JSON, of any level of detail. The level ``"minimal"`` has no masses.

    Returns
    -------
    AdditiveTables

    Raises
    ------
    UnsupportedModelError
        If the document is damaged, of an unknown layout, or see `parse`.
    """
    try:
        return _tables(_document_content(document))
    except TreepurifyError:
        raise
    except DAMAGE as error:
        raise UnsupportedModelError(
            "this JSON document is not an EBM, is damaged, or has an unknown layout "
            f"({reprlib.repr(error)})"
        ) from error


def load_file(path: Path) -> Any:
    """Load a ``.json`` file with interpret's own reader, which is private and warns that it is new.

    It reads what ``to_json`` writes by default; files of less detail raise a `KeyError`.

    Raises
    ------
    ImportError
        If interpret is not installed.
    """
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    document = json.loads(path.read_text(encoding="utf-8"))
    is_classifier = document["ebm"]["outputs"][0]["task"] == "classification"
    model = ExplainableBoostingClassifier() if is_classifier else ExplainableBoostingRegressor()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model._from_jsonable(document)


def raw_margin(model: Any, X: Any) -> Array:
    """Return the EBM's own prediction before the inverse link.

    Parameters
    ----------
    model : interpret.glassbox.ExplainableBoostingRegressor or similar
        A trained EBM.
    X : array_like or table of shape (n_rows, n_features)
        The rows.

    Returns
    -------
    ndarray of float64, shape (n_rows, n_outputs)
        On the margin scale.
    """
    if hasattr(model, "decision_function"):
        margin = model.decision_function(X)
    elif model.link_ == "identity":
        margin = model.predict(X)
    else:
        margin = model.eval_terms(X).sum(axis=1) + model.intercept_
    margin = np.asarray(margin, dtype=np.float64)
    return margin.reshape(len(margin), -1)


def _document_content(document: dict[str, Any]) -> _Content:
    if str(document["version"]).split(".", maxsplit=1)[0] != "1":
        raise UnsupportedModelError(
            f"version {document['version']!r} of the EBM JSON format is not supported, only "
            "version 1"
        )
    inner = document["ebm"]
    if len(inner["outputs"]) != 1:
        raise UnsupportedModelError(
            "an EBM with several outputs of different kinds is not supported"
        )
    output = inner["outputs"][0]
    names = [str(feature["name"]) for feature in inner["features"]]
    position = {name: j for j, name in enumerate(names)}
    if len(position) < len(names):
        raise _damaged("two features have the same name, but terms refer to features by name")
    terms = [
        _Term(
            tuple(position[str(name)] for name in term["term_features"]),
            _numbers(term["scores"]),
            _numbers(term["bin_weights"]) if "bin_weights" in term else None,
        )
        for term in inner["terms"]
    ]
    return _Content(
        names=names,
        types=[feature["type"] for feature in inner["features"]],
        bins=[_document_bins(feature) for feature in inner["features"]],
        terms=terms,
        intercept=_numbers(inner["intercept"]),
        link=output["link"],
        classes=tuple(str(label) for label in output.get("classes", ())),
        source=ModelSource(
            "interpret", "unknown", "EBM", class_labels=plain_labels(output.get("classes", ()))
        ),
    )


def _numbers(values: Any) -> Array:
    stored = np.asarray(values)
    # Interpret writes "nan", "+inf" and "-inf" as text.
    if stored.size and stored.dtype.kind not in "ifU":
        raise _damaged("a table contains something other than numbers")
    return stored.astype(np.float64)


def _damaged(what: str) -> UnsupportedModelError:
    return UnsupportedModelError(f"the EBM is damaged: {what}. Save it again with to_json")


def _document_bins(feature: dict[str, Any]) -> list[_Bins]:
    if feature["type"] not in _CATEGORICAL_TYPES:
        return [_numbers(cuts) for cuts in feature["cuts"]]
    return [_document_labels(level) for level in feature["categories"]]


def _document_labels(level: Sequence[Any]) -> dict[str, int]:
    # Labels that share a bin are grouped in a list of their own.
    labelled = [
        (str(label), position)
        for position, entry in enumerate(level, start=1)
        for label in (entry if isinstance(entry, list) else [entry])
    ]
    bins = dict(labelled)
    if len(bins) < len(labelled):
        raise _damaged("a label of a feature is in two bins, or twice in one")
    return bins


def _tables(content: _Content) -> AdditiveTables:
    if content.link == "monoclassification":
        raise UnsupportedModelError(
            "this EBM was trained on a single class and predicts nothing else: there is nothing "
            "to decompose. Train it on at least two classes."
        )
    if content.link not in _LINKS:
        raise UnsupportedModelError(
            f"the link {content.link!r} is not supported; the supported ones are "
            f"{', '.join(sorted(_LINKS))}"
        )
    if not np.all(np.isfinite(content.intercept)):
        raise UnsupportedModelError(
            f"the intercept of this EBM is not finite ({content.intercept.tolist()}), so it "
            "predicts no number for any row. Train it again"
        )
    # Interpret names the columns of an array in this way.
    named = any(name != f"feature_{j:04}" for j, name in enumerate(content.names))
    labels = [
        _labels(kind, levels) for kind, levels in zip(content.types, content.bins, strict=True)
    ]
    n_outputs = len(content.intercept)
    _check_content(content)
    terms, dropped = [], set()
    n_cells, n_stored = 0, 0
    for term in content.terms:
        axes = [_axis(content.bins[j], len(term.features), labels[j]) for j in term.features]
        n_cells += prod(len(axis.take) for axis in axes) * n_outputs
        n_stored += term.scores.size
        check_cells(n_cells, n_stored)
        dropped |= _dropped_features(term, axes)
        terms.append(_table_term(term, axes, n_outputs))
    return AdditiveTables(
        terms=tuple(terms),
        base=content.intercept.copy(),
        features=_features(content, labels, terms, named),
        output_names=_output_names(content.classes, n_outputs),
        link=Link(_LINKS[content.link]),
        source=_annotated(content, dropped),
        has_feature_names=named,
    )


def _check_content(content: _Content) -> None:
    if content.intercept.ndim != 1 or not np.all(np.isfinite(content.intercept)):
        raise UnsupportedModelError(
            f"the intercept of the EBM must be finite numbers, got {content.intercept}"
        )
    cuts = [level for levels in content.bins for level in levels if not isinstance(level, Mapping)]
    if not all(_increase(np.asarray(level)) for level in cuts):
        raise UnsupportedModelError(
            "the bin edges of a feature of the EBM are not in increasing order"
        )
    if any(len(set(term.features)) < max(len(term.features), 1) for term in content.terms):
        raise UnsupportedModelError("a term of the EBM has no features, or the same feature twice")


def _increase(cuts: Array) -> bool:
    # A single NaN increases nowhere either.
    return cuts.ndim == 1 and not np.isnan(cuts).any() and bool(np.all(np.diff(cuts) > 0))


def _labels(kind: str, levels: Sequence[_Bins]) -> tuple[str, ...] | None:
    """Return the labels of a categorical feature in the order of their bins."""
    if kind not in _CATEGORICAL_TYPES:
        return None
    labels: dict[str, None] = {}
    for level in levels:
        assigned = dict(level.items()) if isinstance(level, Mapping) else {}
        labels.update(dict.fromkeys(sorted(assigned, key=assigned.__getitem__)))
    return tuple(labels)


def _axis(levels: Sequence[_Bins], order: int, labels: tuple[str, ...] | None) -> _Axis:
    """Return one axis of a term of the given order, which decides the level of its bins."""
    level = levels[min(order, len(levels)) - 1]
    if labels is None or not isinstance(level, Mapping):
        cuts = np.array(level, dtype=np.float64)
        take = np.append(np.arange(1, len(cuts) + 2), 0)
        return _Axis(take, np.ones(len(take)), cuts)
    unknown = max(level.values(), default=0) + 1
    bins = np.array([level.get(label, unknown) for label in labels], dtype=np.intp)
    n_sharing = np.bincount(bins, minlength=unknown + 1)
    # A label that only other terms know has no mass here: it lies in the cell of the unknown.
    share = np.where(bins == unknown, 0.0, 1.0 / np.maximum(n_sharing[bins], 1))
    return _Axis(np.concatenate([bins, [unknown, 0]]), np.concatenate([share, [1.0, 1.0]]))


def _table_term(term: _Term, axes: Sequence[_Axis], n_outputs: int) -> TableTerm:
    # Numeric axes lose interpret's last cell, which holds what is not a number.
    sizes = tuple(int(axis.take.max()) + (1 if axis.cuts is None else 2) for axis in axes)
    expected = sizes if n_outputs == 1 else (*sizes, n_outputs)
    if term.scores.shape != expected or (term.weights is not None and term.weights.shape != sizes):
        raise UnsupportedModelError(
            f"the scores of the term on features {term.features} have shape {term.scores.shape}, "
            f"expected {expected} from the bins; the EBM was edited or is of an unknown version"
        )
    cells = np.ix_(*(axis.take for axis in axes))
    order = tuple(int(k) for k in np.argsort(term.features, kind="stable"))
    scores = term.scores.reshape(*sizes, n_outputs)[cells].transpose(*order, len(order))
    if not all(part is None or np.all(np.isfinite(part)) for part in (scores, term.weights)):
        raise UnsupportedModelError(
            f"the term on features {term.features} has scores or weights that are not finite"
        )
    weights = None
    if term.weights is not None:
        shares = np.ix_(*(axis.share for axis in axes))
        weights = term.weights[cells]
        for share in shares:
            weights = weights * share
        weights = np.ascontiguousarray(weights.transpose(order))
    return TableTerm(
        features=tuple(term.features[k] for k in order),
        cuts=tuple(axes[k].cuts for k in order),
        scores=np.ascontiguousarray(scores),
        weights=weights,
    )


def _dropped_features(term: _Term, axes: Sequence[_Axis]) -> set[int]:
    """Return the numeric features whose unknown cell, which is dropped, has mass."""
    if term.weights is None:
        return set()
    return {
        j
        for k, (j, axis) in enumerate(zip(term.features, axes, strict=True))
        if axis.cuts is not None and np.any(np.take(term.weights, -1, axis=k))
    }


def _features(
    content: _Content,
    labels: Sequence[tuple[str, ...] | None],
    terms: Sequence[TableTerm],
    named: bool,
) -> tuple[FeatureSpec, ...]:
    with_missing = {
        j
        for term in terms
        if term.weights is not None
        for k, j in enumerate(term.features)
        if np.any(np.take(term.weights, -1, axis=k))
    }
    return tuple(
        FeatureSpec(
            name if named else f"x{j}",
            kind="numeric" if categories is None else "categorical",
            categories=categories,
            n_codes=0 if categories is None else len(categories),
            numbers_are="codes" if categories is None else "labels",
            has_missing=j in with_missing,
            reads_texts=True,
        )
        for j, (name, categories) in enumerate(zip(content.names, labels, strict=True))
    )


def _output_names(classes: tuple[str, ...], n_outputs: int) -> tuple[str, ...]:
    if len(classes) == n_outputs:
        return classes
    if n_outputs == 1:
        return (classes[1] if len(classes) == 2 else "margin",)
    return tuple(f"target{k}" for k in range(n_outputs))


def _annotated(content: _Content, dropped: set[int]) -> ModelSource:
    if not dropped:
        return content.source
    names = ", ".join(repr(content.names[j]) for j in sorted(dropped))
    note = (
        f"training rows had text in the numeric features {names}; these rows are left "
        "out of the averages"
    )
    return replace(content.source, notes=(note,))
