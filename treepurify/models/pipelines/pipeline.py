"""Read a fitted pipeline: its last step by its own parser, composed with the steps before it.

Where a column that the last step uses is no function of one raw column, the features are the
columns that the last step takes. A raw table is then read by asking the fitted steps for these, and
so nothing is guessed about them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from treepurify.errors import MemoryBudgetError, UnsupportedModelError
from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.ensemble import TreeEnsemble, without_missing_codes
from treepurify.models.pipelines.columns import (
    Column,
    chain_of,
    follow_steps,
    names_out,
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

Parsed = TreeEnsemble | AdditiveTables
WhichColumns = Literal["auto", "raw", "transformed"]


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
    counted = [spec for spec in model.features if spec.derivation is not None]
    n_last = model.n_features - len(counted)
    raws, has_names = raw_columns(pipeline, n_last, X)
    transformers = transformers_of(pipeline)
    taken_last, is_sparse = follow_steps(transformers, raws, n_last=n_last)
    made = [*taken_last, *_counted_columns(counted, taken_last)]
    zero_is_absent = is_sparse and _reads_zeros_as_missing(model.source.library)
    if columns == "transformed":
        named = _on_transformed(model, pipeline, raws, made)
        return _without_zeros(named) if zero_is_absent else named
    if isinstance(model, TreeEnsemble) and any(returns_arrays(step) for _, step in transformers):
        specs = tuple(replace(spec, reads_texts=True) for spec in model.features)
        model = replace(model, features=specs)
    try:
        whole = _in_raw_columns(
            model, raws, made, X, has_names=has_names, zero_is_absent=zero_is_absent
        )
    except (UnsupportedModelError, MemoryBudgetError) as error:
        if columns == "raw":
            mixed = {r for t in model.used_features if made[t].refusal for r in made[t].raw}
            raise UnsupportedModelError(
                f"the pipeline is not a sum of trees on its raw columns: {error}. The columns "
                f"concerned are {', '.join(repr(raws[r].name) for r in sorted(mixed)[:8])}. With "
                'columns="auto" the features are the columns of the last step, which the steps '
                "compute from raw tables. Or use a function that needs only predictions, such as "
                "treepurify.legendre_anova(pipeline.predict, X)."
            ) from error
        if X is not None and not isinstance(X, Columns) and row_count(X) > 1:
            check_row_by_row(pipeline, X)
        model = _without_zeros(model) if zero_is_absent else model
        whole = _in_last_columns(model, pipeline, raws, made, str(error))
    kinds = [type(step).__name__ for _, step in transformers]
    kind = f"Pipeline({', '.join([*kinds, model.source.kind])})"
    return replace(whole, source=replace(whole.source, kind=kind), has_feature_names=has_names)


def _in_raw_columns(
    model: Parsed,
    raws: Sequence[Column],
    made: Sequence[Column],
    X: Any,
    *,
    has_names: bool,
    zero_is_absent: bool,
) -> Parsed:
    """Return the pipeline as a function of raw columns.

    Raises
    ------
    UnsupportedModelError
        If it is none.
    """
    if isinstance(model, AdditiveTables):
        return _renamed(model, raws, made, has_names=has_names)
    types = _types(X, raws, has_names=has_names)
    whole = compose(model, raws, made, types, has_names=has_names, zero_is_absent=zero_is_absent)
    links = [link for t in model.used_features for link in chain_of(made[t])]
    stages = {id(link.stage): link.stage for link in links if link.stage is not None}
    notes = tuple(
        f"{stage.path} raises an error for unknown labels, so that there is no prediction to "
        "compare their effects with"
        for stage in stages.values()
        if stage.refuses_unknown
    )
    signs = _raw_constraints(model.source.constraints, made, len(raws))
    source = replace(model.source, notes=model.source.notes + notes, constraints=signs)
    return replace(whole, source=source)


def _renamed(
    model: AdditiveTables, raws: Sequence[Column], made: Sequence[Column], *, has_names: bool
) -> AdditiveTables:
    """Return an EBM with the names of raw columns; tables may have all that the steps take."""
    places = [column.position for column in made if column.is_passed_on]
    in_place = places == list(range(len(raws)))
    if len(places) < len(made) or not (has_names or in_place):
        raise UnsupportedModelError(
            "an EBM in a pipeline can be read on raw columns only if the steps before it do "
            "nothing but select columns"
        )
    others = tuple(raw.name for raw in raws if raw.position not in places)
    features = (
        replace(spec, name=raws[place].name, ignored=(*spec.ignored, *others))
        for spec, place in zip(model.features, places, strict=True)
    )
    return replace(model, features=tuple(features))


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


def _on_transformed(
    model: Parsed, pipeline: Any, raws: Sequence[Column], made: Sequence[Column]
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
    return replace(model, features=features, has_feature_names=has_names)


def _in_last_columns(
    model: Parsed,
    pipeline: Any,
    raws: Sequence[Column],
    made: Sequence[Column],
    reason: str,
) -> Parsed:
    """Return the last step as a function of those of its columns that it uses.

    Columns that the steps pass on stay raw ones.
    """
    counted = tuple(spec.derivation for spec in model.features if spec.derivation is not None)
    takes = tuple(column.name for column in raws)
    steps = FittedSteps(tuple(pipeline.steps), takes, len(made) - len(counted), counted)
    is_named = model.has_feature_names or bool(counted)
    names = model.feature_names if is_named else _names_out(pipeline, model.n_features)
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
    note = (
        f"the features are the columns that the last step of the pipeline takes, since {reason}. "
        "The pipeline makes them from raw tables; after loading from a file, tables must contain "
        "them"
    )
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


def _without_zeros(model: Parsed) -> Parsed:
    """Return a model that reads zeros as missing, as XGBoost does in sparse rows."""
    note = "zeros are read as missing, as in the sparse rows that the pipeline makes"
    source = replace(model.source, notes=(*model.source.notes, note))
    features = tuple(replace(spec, missing_value=0.0) for spec in model.features)
    read = replace(model, features=features, source=source)
    return without_missing_codes(read) if isinstance(read, TreeEnsemble) else read


def _names_out(pipeline: Any, n_features: int) -> Sequence[str] | None:
    """Return the names of the columns that the last step takes, where the steps tell."""
    steps = [step for _, step in transformers_of(pipeline)]
    names: Any = None
    for step, following in zip(steps, [*steps[1:], None], strict=False):
        names = getattr(following, "feature_names_in_", names_out(step, names))
    return None if names is None or len(names) != n_features else [str(name) for name in names]


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
    if X is None or isinstance(X, Columns):
        return [None] * len(raws)
    names = table_names(X)
    if names is None:
        return [np.asarray(X).dtype] * len(raws)
    place = {name: j for j, name in enumerate(names)}
    places = [place.get(raw.name, len(names)) if has_names else raw.position for raw in raws]
    dtypes = [table_column(X, j).dtype if j < len(names) else None for j in places]
    return [
        np.dtype(object) if d is not None and not isinstance(d, np.dtype) else d for d in dtypes
    ]
