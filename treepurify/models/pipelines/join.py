"""Join tree ensembles: as a weighted sum of their margins, or with their outputs side by side."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from treepurify.errors import UnsupportedModelError
from treepurify.links import Link
from treepurify.models.ensemble import LEAF, VECTOR_LEAF, TreeEnsemble
from treepurify.models.parsed import ParsedModel
from treepurify.rows.columns import FeatureSpec
from treepurify.typing import Array


def weighted_sum(
    ensembles: Sequence[TreeEnsemble], weights: Sequence[float], output_names: tuple[str, ...]
) -> TreeEnsemble:
    """Return the sum of ensembles on one scale, with the source of the first.

    Parameters
    ----------
    ensembles : sequence of TreeEnsemble
        Ensembles with the same features and as many outputs each.
    weights : sequence of float
        Factor on the margin of each.
    output_names : tuple of str
        One name per output.

    Returns
    -------
    TreeEnsemble

    Raises
    ------
    UnsupportedModelError
        If the ensembles read a column differently, or have different numbers of outputs.
    """
    if any(ensemble.n_outputs != len(output_names) for ensemble in ensembles):
        raise UnsupportedModelError(
            f"the models inside do not have {len(output_names)} outputs each: some were not "
            "trained on all classes. Purify the models one by one."
        )
    scaled = [rescale(e, w, 0.0) for e, w in zip(ensembles, weights, strict=True)]
    base = np.sum([ensemble.base for ensemble in scaled], axis=0)
    return replace(_joined(scaled, [0] * len(scaled), base), output_names=output_names)


def side_by_side(
    ensembles: Sequence[TreeEnsemble], output_names: tuple[str, ...], link: Link
) -> TreeEnsemble:
    """Return one ensemble with the outputs of all, one after the other.

    Parameters
    ----------
    ensembles : sequence of TreeEnsemble
        Ensembles with the same features.
    output_names : tuple of str
        One name per output of the whole.
    link : Link
        From the margins to the responses.

    Returns
    -------
    TreeEnsemble

    Raises
    ------
    UnsupportedModelError
        If the ensembles read a column differently.
    """
    first = np.cumsum([0, *(e.n_outputs for e in ensembles)])[:-1].tolist()
    base = np.concatenate([ensemble.base for ensemble in ensembles])
    return replace(_joined(ensembles, first, base), output_names=output_names, link=link)


def rescale(ensemble: TreeEnsemble, factor: Any, shift: Any) -> TreeEnsemble:
    """Return the ensemble whose margin is ``factor * margin + shift``, output by output."""
    factors = np.broadcast_to(np.asarray(factor, dtype=np.float64), ensemble.n_outputs)
    value = ensemble.value
    if value.shape[1] == 1 and ensemble.n_outputs > 1:
        of_tree = factors[np.maximum(ensemble.tree_output, 0)]
        value = value * np.repeat(of_tree, np.diff(ensemble.tree_ptr))[:, None]
    else:
        value = value * factors
    return replace(ensemble, value=value, base=ensemble.base * factors + shift)


def with_common_columns(ensembles: Sequence[TreeEnsemble]) -> list[TreeEnsemble]:
    """Return ensembles whose columns know every label that any of them knows.

    Raises
    ------
    UnsupportedModelError
        If the ensembles read a column differently.
    """
    ensembles = with_shared_columns(ensembles)
    features = common_features(ensembles)
    return [_with_labels(ensemble, features) for ensemble in ensembles]


def _joined(ensembles: Sequence[TreeEnsemble], first: Sequence[int], base: Array) -> TreeEnsemble:
    """Put the trees of all ensembles into one; `first` is the first output of each."""
    ensembles = with_common_columns(ensembles)
    n_nodes = np.cumsum([0, *(len(e.feature) for e in ensembles)])
    n_entries = np.cumsum([0, *(len(e.category_left) for e in ensembles)])

    def joined(name: str, offsets: Any = None) -> Any:
        parts = [getattr(ensemble, name) for ensemble in ensembles]
        if offsets is not None:
            pairs = zip(parts, offsets, strict=False)
            parts = [np.where(p >= 0, p + by, p).astype(p.dtype) for p, by in pairs]
        return np.concatenate(parts)

    value, output = [e.value for e in ensembles], joined("tree_output", first)
    if any(np.any(e.tree_output == VECTOR_LEAF) for e in ensembles):
        value = [_as_vectors(e, k, len(base)) for e, k in zip(ensembles, first, strict=True)]
        output = np.full_like(output, VECTOR_LEAF)
    singles = any(ensemble.accumulation == "float32" for ensemble in ensembles)
    ends = [e.tree_ptr[1:] + n for e, n in zip(ensembles, n_nodes, strict=False)]
    return replace(
        ensembles[0],
        tree_ptr=np.concatenate([[0], *ends]),
        left=joined("left", n_nodes),
        right=joined("right", n_nodes),
        category_ptr=joined("category_ptr", n_entries),
        **{name: joined(name) for name in ("feature", "cut", "missing_left", "category_left")},
        value=np.concatenate(value),
        tree_output=output,
        base=base,
        output_names=tuple(map(str, range(len(base)))),
        accumulation="float32" if singles else "float64",
        cover=None if any(e.cover is None for e in ensembles) else joined("cover"),
    )


def _as_vectors(ensemble: TreeEnsemble, output: int, width: int) -> Array:
    """Return leaf values for all outputs of the whole, of which those from `output` are its own."""
    values = np.zeros((len(ensemble.feature), width))
    if ensemble.value.shape[1] == ensemble.n_outputs and np.all(ensemble.tree_output < 0):
        values[:, output : output + ensemble.n_outputs] = ensemble.value
        return values
    of_node = np.repeat(np.maximum(ensemble.tree_output, 0), np.diff(ensemble.tree_ptr))
    values[np.arange(len(values)), output + of_node] = ensemble.value[:, 0]
    return values


def common_features(models: Sequence[ParsedModel]) -> tuple[FeatureSpec, ...]:
    """Return features that know every label that any of the models knows."""
    if len({model.feature_names for model in models}) > 1:
        raise UnsupportedModelError(
            "the models inside have different columns. Purify the models one by one."
        )
    return tuple(
        _common_feature(specs) for specs in zip(*(m.features for m in models), strict=True)
    )


def _common_feature(specs: Sequence[FeatureSpec]) -> FeatureSpec:
    missing = any(spec.has_missing for spec in specs)
    # Which trees test a column is no matter of how it is read: those that do not read no label.
    used = [spec for spec in specs if not _is_unused(spec)] or list(specs)
    by_label = all(spec.numbers_are == "labels" and spec.label_hashes is None for spec in used)
    if used[0].is_categorical and by_label and all(spec.is_categorical for spec in used):
        labels = tuple(dict.fromkeys(label for spec in used for label in spec.categories or ()))
        used = [replace(spec, categories=labels, n_codes=len(labels)) for spec in used]
    if all(_knows_numbers_only(spec) for spec in used):
        # A code that no tree of a model tests is like one that it does not know.
        n_codes = max(spec.n_codes for spec in used)
        used = [replace(spec, n_codes=n_codes) for spec in used]
    if len({spec.absent_is_missing for spec in used}) > 1:
        used = [replace(spec, absent_is_missing=None) for spec in used]
    if len({spec.derivation for spec in used}) > 1:
        raise UnsupportedModelError(
            f"the column {specs[0].name!r} is computed by steps that were fitted to different "
            "rows, so it differs between the models. Fit the steps once, and each model on their "
            "output: Pipeline([*pipeline.steps[:-1], (name, model)]). Or purify the models one by "
            "one."
        )
    if len({replace(spec, has_missing=missing) for spec in used}) > 1:
        raise UnsupportedModelError(
            f"the models inside read the column {specs[0].name!r} in different ways. Train "
            "all models on columns of the same types and with the same categories, or purify them "
            "one by one."
        )
    return replace(used[0], has_missing=missing)


def _is_unused(spec: FeatureSpec) -> bool:
    return spec.is_categorical and spec.n_codes == 0 and spec.categories == ()


def _knows_numbers_only(spec: FeatureSpec) -> bool:
    """Return whether codes are all that is known of categories, as from early XGBoost."""
    labels = (spec.categories, spec.label_hashes, spec.listed_codes)
    return spec.is_categorical and spec.numbers_are == "codes" and labels == (None, None, None)


def _with_labels(ensemble: TreeEnsemble, features: tuple[FeatureSpec, ...]) -> TreeEnsemble:
    """Widen the tables of categories to labels that other ensembles know."""
    pairs = zip(ensemble.features, features, strict=True)
    if all(a.n_codes == b.n_codes and a.categories == b.categories for a, b in pairs):
        return replace(ensemble, features=features)
    position = [
        np.minimum(np.arange(whole.n_codes + 1), mine.n_codes)
        if _knows_numbers_only(whole)
        else np.array(
            [mine.code_of.get(label, mine.n_codes) for label in whole.categories or ()]
            + [mine.n_codes]
        )
        for mine, whole in zip(ensemble.features, features, strict=True)
    ]
    category_ptr = ensemble.category_ptr.copy()
    tables = []
    length = 0
    for node in np.flatnonzero(ensemble.category_ptr >= 0):
        codes = position[ensemble.feature[node]]
        tables.append(ensemble.category_left[ensemble.category_ptr[node] + codes])
        category_ptr[node] = length
        length += len(codes)
    left = np.concatenate(tables) if tables else np.zeros(0, dtype=np.bool_)
    return replace(ensemble, features=features, category_ptr=category_ptr, category_left=left)


def with_shared_columns(models: Sequence[TreeEnsemble]) -> list[TreeEnsemble]:
    """Return ensembles with all raw and derived columns that any of them has.

    Parameters
    ----------
    models : sequence of TreeEnsemble
        They stay as they are unless some have derived columns, all made from the same
        columns of a table.
    """
    features = [spec for model in models for spec in model.features]
    taken = {spec.derivation.steps.takes for spec in features if spec.derivation is not None}
    if len(taken) != 1:
        return list(models)
    (raws,) = taken
    known: dict[str, FeatureSpec] = {}
    for spec in features:
        known.setdefault(spec.name, spec)
    names = [name for name in raws if name in known]
    names += [name for name, spec in known.items() if spec.derivation is not None]
    if len(names) < len(known):
        return list(models)
    hidden = {name for name in raws if name not in known}
    return [_with_columns(model, [known[name] for name in names], hidden) for model in models]


def _with_columns(
    model: TreeEnsemble, features: Sequence[FeatureSpec], hidden: set[str]
) -> TreeEnsemble:
    """Return an ensemble with more features, by name; it keeps what it knows of its own."""
    own = {spec.name: spec for spec in model.features}
    raws = {name for spec in features for name in spec.made_from}
    place = {spec.name: position for position, spec in enumerate(features)}
    of_feature = np.array([place[spec.name] for spec in model.features], dtype=np.int32)
    signs = dict(zip(own, model.source.constraints, strict=False))
    specs = []
    for spec in features:
        mine = own.get(spec.name, spec)
        others = [name for name in mine.ignored if name not in raws | hidden]
        specs.append(replace(mine, ignored=(*others, *sorted(hidden))))
    return replace(
        model,
        feature=np.where(model.feature < 0, LEAF, of_feature[model.feature]).astype(np.int32),
        features=tuple(specs),
        source=replace(
            model.source,
            constraints=tuple(signs.get(spec.name, 0) for spec in features) if signs else (),
        ),
    )
