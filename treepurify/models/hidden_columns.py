"""Raw columns that a model takes only to make derived ones of: tables have them, effects do not."""

from dataclasses import replace

from treepurify.models.catboost_combinations import combination_columns
from treepurify.models.ensemble import TreeEnsemble


def without_hidden_columns(model: TreeEnsemble) -> TreeEnsemble:
    """Leave out raw columns that only derived ones are made of; tables may have them.

    Parameters
    ----------
    model : TreeEnsemble
        A model of raw columns and, behind them, of those that CatBoost makes of several.

    Returns
    -------
    TreeEnsemble
        The same model where CatBoost made none.
    """
    derived = [spec for spec in model.features if spec.derivation is not None]
    if combination_columns(derived) is None:
        return model
    sources = {name for spec in derived for name in spec.made_from}
    used = set(model.used_features)
    hidden = {
        j
        for j, spec in enumerate(model.features)
        if spec.derivation is None and j not in used and spec.name in sources
    }
    kept = tuple(j for j in range(model.n_features) if j not in hidden)
    ignored = tuple(model.features[j].name for j in sorted(hidden))
    features = tuple(replace(spec, ignored=(*spec.ignored, *ignored)) for spec in model.features)
    names = [repr(spec.name) for spec in derived]
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    note = (
        f"derived columns, made by the statistics of CatBoost: {', '.join(names[:8])}{more}; after "
        "loading from a file, tables must contain them"
    )
    source, signs = model.source, model.source.constraints
    source = replace(
        source,
        notes=(*source.notes, note),
        constraints=tuple(signs[j] for j in kept) if signs else (),
    )
    return replace(model, features=features, source=source).of_features(kept)
