"""Models with derived columns, read with the same columns: each tests some of them only."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from treepurify.models.ensemble import LEAF, TreeEnsemble
from treepurify.rows.columns import FeatureSpec

__all__ = ["with_shared_columns"]


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
