"""Read a fitted pipeline: its last step by its own parser, composed with the steps before it.

Where a column that the last step uses is no function of one raw column, the features are the
columns that the last step takes. A raw table is then read by asking the fitted steps for these, and
so nothing is guessed about them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from treepurify.errors import UnsupportedModelError
from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.ensemble import TreeEnsemble, without_missing_codes
from treepurify.models.hidden_columns import with_hidden_columns
from treepurify.models.pipelines.columns import (
    Column,
    chain_of,
    follow_steps,
    raw_columns,
)
from treepurify.models.pipelines.compose import compose
from treepurify.models.pipelines.steps import (
    FittedSteps,
    check_row_by_row,
    returns_arrays,
    transformers_of,
)
from treepurify.rows.columns import Columns, Derivation, FeatureSpec
from treepurify.rows.tables import row_count, table_column, table_names

__all__ = ["WhichColumns", "parse_pipeline"]

Parsed = TreeEnsemble | AdditiveTables
WhichColumns = Literal["auto", "raw", "transformed"]
_MOST_NAMED = 8


def parse_pipeline(
    pipeline: Any, parse: Callable[[Any], Parsed], columns: WhichColumns, X: Any
) -> Parsed:
    """Return the model that a pipeline is.

    Parameters
    ----------
    pipeline : Pipeline
        A fitted pipeline of scikit-learn or imbalanced-learn.
    parse : callable
        Reads the last step.
    columns : {"auto", "raw", "transformed"}
        Whether the features are the columns that the pipeline takes, or those that its last
        step takes. ``"auto"``: raw columns, but those of the last step where a step mixes several
        raw ones, or is not known.
    X : table, optional
        Rows, whose types of columns count.

    Returns
    -------
    TreeEnsemble or AdditiveTables

    Raises
    ------
    UnsupportedModelError
        If the last step is not read, or is no function of single raw columns and that is asked for.
    InvalidInputError
        If the pipeline is not fitted.
    """
    model = parse(pipeline.steps[-1][1])
    if isinstance(model, TreeEnsemble):
        model = with_hidden_columns(model)
    counted = [spec for spec in model.features if spec.derivation is not None]
    n_last = model.n_features - len(counted)
    raws, has_names = raw_columns(pipeline, n_last, X)
    transformers = transformers_of(pipeline)
    taken_last, is_sparse = follow_steps(transformers, raws, n_last=n_last)
    made = [*taken_last, *_counted_columns(counted, taken_last)]
    zero_is_absent = is_sparse and _reads_zeros_as_missing(model.source.library)
    if columns == "transformed":
        return _on_transformed(model, pipeline, raws, made, zero_is_absent=zero_is_absent)
    if isinstance(model, TreeEnsemble) and any(returns_arrays(step) for _, step in transformers):
        specs = tuple(replace(spec, reads_texts=True) for spec in model.features)
        model = replace(model, features=specs)
    kinds = [type(step).__name__ for _, step in transformers]
    kind = f"Pipeline({', '.join([*kinds, model.source.kind])})"
    try:
        if isinstance(model, TreeEnsemble):
            types = _types(X, raws, has_names=has_names)
            whole: Parsed = compose(
                model, raws, made, types, has_names=has_names, zero_is_absent=zero_is_absent
            )
            notes = (*model.source.notes, *_notes([made[t] for t in model.used_features]))
            signs = _raw_constraints(model.source.constraints, made, len(raws))
            source = replace(model.source, notes=notes, constraints=signs)
        elif _are_passed_on(made, raws, has_names=has_names):
            names = [raws[column.position].name for column in made]
            whole, source = _renamed(model, names, [raw.name for raw in raws]), model.source
        else:
            raise UnsupportedModelError(
                "an EBM in a pipeline can be read on raw columns only if the steps before it do "
                "nothing but select columns"
            )
    except UnsupportedModelError as error:
        reason = str(error)
        if columns == "raw":
            raise UnsupportedModelError(
                f"the pipeline is not a sum of trees on its raw columns: {reason}. The columns "
                f'concerned are {_concerned(model, raws, made)}. With columns="auto" the '
                "features are the columns of the last step, which the steps compute from raw "
                "tables. Or use a function that needs only predictions, such as "
                "treepurify.legendre_anova(pipeline.predict, X)."
            ) from error
        if X is not None and not isinstance(X, Columns) and row_count(X) > 1:
            check_row_by_row(pipeline, X)
        is_named = model.has_feature_names or bool(counted)
        own = model.feature_names if is_named else _names_out(pipeline, model.n_features)
        model = _without_zeros(model) if zero_is_absent else model
        whole = _in_last_columns(model, pipeline, raws, made, own, reason)
        source = whole.source
    return replace(whole, source=replace(source, kind=kind), has_feature_names=has_names)


def _counted_columns(features: Sequence[FeatureSpec], made: Sequence[Column]) -> list[Column]:
    """Return columns that the last step makes of several that it takes."""
    columns = []
    for position, spec in enumerate(features, start=len(made)):
        takes = () if spec.derivation is None else spec.derivation.steps.takes
        sources = {raw for name in spec.made_from for raw in made[takes.index(name)].raw}
        refusal = "the model uses statistics of combinations of columns"
        columns.append(Column(spec.name, tuple(sorted(sources)), None, position, refusal))
    return columns


def _reads_zeros_as_missing(library: str) -> bool:
    """Whether the zeros of a sparse matrix are missing to the trees of a library."""
    if "xgboost" in library and library != "xgboost":
        raise UnsupportedModelError(
            f"the last step joins models of {library} on sparse rows, and only XGBoost reads their "
            "zeros as missing. Train on dense rows, for example with sparse_threshold=0 in the "
            "ColumnTransformer, or purify the models one by one."
        )
    return library == "xgboost"


def _are_passed_on(made: Sequence[Column], raws: Sequence[Column], *, has_names: bool) -> bool:
    """Whether the last step gets raw columns only, by their names or all in their places."""
    places = [column.position for column in made if column.is_passed_on]
    in_place = places == list(range(len(raws)))
    return len(places) == len(made) and (has_names or in_place)


def _renamed(model: Parsed, names: Sequence[str], taken: Sequence[str]) -> Parsed:
    """Return a model of raw columns with their names; tables may have all that are taken."""
    others = tuple(name for name in taken if name not in names)
    pairs = zip(model.features, names, strict=True)
    features = (replace(spec, name=own, ignored=(*spec.ignored, *others)) for spec, own in pairs)
    return replace(model, features=tuple(features))


def _concerned(model: Parsed, raws: Sequence[Column], made: Sequence[Column]) -> str:
    """Return the names of the raw columns behind what is no function of one of them."""
    used = [made[t] for t in model.used_features]
    refusals = [column.refusal for column in used if column.refusal][:1] or [""]
    mine = sorted({raw for c in used if c.refusal == refusals[0] for raw in c.raw})
    more = f" and {len(mine) - _MOST_NAMED} more" if len(mine) > _MOST_NAMED else ""
    return ", ".join(repr(raws[raw].name) for raw in mine[:_MOST_NAMED]) + more


def _on_transformed(
    model: Parsed,
    pipeline: Any,
    raws: Sequence[Column],
    made: Sequence[Column],
    *,
    zero_is_absent: bool,
) -> Parsed:
    """Name the features as the steps do, and say which raw columns each is made from."""
    names = _names_out(pipeline, model.n_features)
    features = tuple(
        replace(
            spec,
            name=spec.name if names is None else names[t],
            made_from=tuple(raws[r].name for r in made[t].raw),
        )
        for t, spec in enumerate(model.features)
    )
    has_names = model.has_feature_names or names is not None
    read = replace(model, features=features, has_feature_names=has_names)
    return _without_zeros(read) if zero_is_absent else read


def _in_last_columns(
    model: Parsed,
    pipeline: Any,
    raws: Sequence[Column],
    made: Sequence[Column],
    names: Sequence[str] | None,
    reason: str,
) -> Parsed:
    """Return the last step as a function of those of its columns that it uses.

    Columns that the steps pass on stay raw ones.
    """
    counted = tuple(spec.derivation for spec in model.features if spec.derivation is not None)
    takes = tuple(column.name for column in raws)
    steps = FittedSteps(tuple(pipeline.steps), takes, len(made) - len(counted), counted)
    used = model.used_features
    passed_on = {made[t].position: t for t in used if made[t].is_passed_on}
    if len(passed_on) == len(used):
        passed_on = {}  # reordered only, which a table without names does not tell
    features, taken = list(model.features), set(takes)
    for t in used:
        if passed_on.get(made[t].position) == t:
            features[t] = replace(features[t], name=takes[made[t].position])
            continue
        # Imputers pass the names of raw columns on.
        name = made[t].name if names is None else names[t]
        free = (name, f"{name} (transformed)", f"{name} (transformed column {t})")
        name = next(n for n in free if n not in taken)
        taken.add(name)
        made_from = tuple(takes[raw] for raw in made[t].raw)
        how = Derivation(steps, t)
        features[t] = replace(features[t], name=name, made_from=made_from, derivation=how)
    kept = {features[t].name for t in passed_on.values()}
    ignored = tuple(name for name in takes if name not in kept)
    source, signs = model.source, model.source.constraints
    note = _note(reason, [features[t] for t in used])
    whole = replace(
        model,
        features=tuple(replace(spec, ignored=(*spec.ignored, *ignored)) for spec in features),
        source=replace(
            source,
            notes=(*source.notes, note),
            constraints=tuple(signs[t] for t in used) if signs else (),
        ),
    )
    return whole.of_features(used)


def _note(reason: str, features: Sequence[FeatureSpec]) -> str:
    """Say that the features are not raw columns, those of one raw column together."""
    together: dict[tuple[str, ...], list[str]] = {}
    for spec in features:
        if spec.made_from:
            together.setdefault(spec.made_from, []).append(repr(spec.name))
    listed = [
        f"{', '.join(own)} from {', '.join(map(repr, sources[:_MOST_NAMED]))}"
        for sources, own in together.items()
    ]
    more = f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    return (
        f"the features are the columns that the last step of the pipeline takes, since {reason}: "
        f"{'; '.join(listed[:_MOST_NAMED])}{more}. The pipeline makes them from raw tables; after "
        "loading from a file, tables must contain them"
    )


def _without_zeros(model: Parsed) -> Parsed:
    """Return a model that reads zeros as missing, as XGBoost does in sparse rows."""
    note = "zeros are read as missing, as in the sparse rows that the pipeline makes"
    source = replace(model.source, notes=(*model.source.notes, note))
    features = tuple(replace(spec, missing_value=0.0) for spec in model.features)
    read = replace(model, features=features, source=source)
    return without_missing_codes(read) if isinstance(read, TreeEnsemble) else read


def _names_out(pipeline: Any, n_features: int) -> list[str] | None:
    """Return the names of the columns that the last step takes, where the steps tell."""
    steps = [step for _, step in transformers_of(pipeline)]
    names: Any = None
    for step, following in zip(steps, [*steps[1:], None], strict=False):
        try:
            names = step.get_feature_names_out(names)
        except (AttributeError, ValueError, TypeError):
            names = None
        names = getattr(following, "feature_names_in_", names)
    return None if names is None or len(names) != n_features else [str(name) for name in names]


def _notes(used: Sequence[Column]) -> list[str]:
    """Say which steps refuse rows that have effects."""
    stages = [link.stage for column in used for link in chain_of(column)]
    paths = {stage.path for stage in stages if stage is not None and stage.refuses_unknown}
    return [
        f"{path} raises an error for unknown labels, so that there is no prediction to compare "
        "their effects with"
        for path in sorted(paths)
    ]


def _raw_constraints(
    constraints: Sequence[int], made: Sequence[Column], n_raw: int
) -> tuple[int, ...]:
    """Return the constraints of the raw columns that reach the model unchanged."""
    signs = [0] * n_raw
    for sign, column in zip(constraints, made, strict=False):
        if column.is_passed_on and column.raw:
            signs[column.position] = sign
    return tuple(signs) if any(signs) else ()


def _types(X: Any, raws: Sequence[Column], *, has_names: bool) -> list[np.dtype[Any] | None]:
    """Return the types of the raw columns; None for what is not known, or not a plain array."""
    unknown: list[np.dtype[Any] | None] = [None] * len(raws)
    if X is None or isinstance(X, Columns):
        return unknown
    names = table_names(X)
    if names is None:
        dtype = np.asarray(X).dtype
        return [dtype] * len(raws)
    places = list(range(len(raws)))
    if has_names:
        position = {name: j for j, name in enumerate(names)}
        places = [position.get(raw.name, -1) for raw in raws]
    for r, place in enumerate(places):
        if 0 <= place < len(names):
            dtype = table_column(X, place).dtype
            unknown[r] = dtype if isinstance(dtype, np.dtype) else np.dtype(object)
    return unknown
