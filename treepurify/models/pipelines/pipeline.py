"""Read a fitted pipeline: its last step by its own parser, composed with the steps before it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from treepurify.errors import UnsupportedModelError
from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.ensemble import TreeEnsemble, without_missing_codes
from treepurify.models.hidden_columns import with_hidden_columns
from treepurify.models.parsed import ModelSource
from treepurify.models.pipelines.axes import unused_column
from treepurify.models.pipelines.columns import IN_TRANSFORMED_COLUMNS, Column, Stage, chain_of
from treepurify.models.pipelines.compose import compose
from treepurify.models.pipelines.mixed import in_last_columns
from treepurify.models.pipelines.steps import returns_arrays, transformers_of
from treepurify.models.pipelines.structure import follow_steps, raw_columns
from treepurify.models.pipelines.transformed_rows import check_row_by_row
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.rows.tables import row_count, table_column, table_names

__all__ = ["WhichColumns", "parse_pipeline"]

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
    ensemble = parse(pipeline.steps[-1][1])
    if isinstance(ensemble, TreeEnsemble):
        ensemble = with_hidden_columns(ensemble)
    counted = [spec for spec in ensemble.features if spec.derivation is not None]
    n_last = ensemble.n_features - len(counted)
    raws, has_names = raw_columns(pipeline, n_last, X)
    taken_last, is_sparse = follow_steps(transformers_of(pipeline), raws, n_last=n_last)
    made = [*taken_last, *_counted_columns(counted, taken_last)]
    zero_is_absent = is_sparse and _reads_zeros_as_missing(ensemble.source.library)
    if columns == "transformed":
        return _on_transformed(ensemble, pipeline, raws, made, zero_is_absent=zero_is_absent)
    if isinstance(ensemble, TreeEnsemble) and any(
        returns_arrays(step) for _, step in transformers_of(pipeline)
    ):
        specs = tuple(replace(spec, reads_texts=True) for spec in ensemble.features)
        ensemble = replace(ensemble, features=specs)
    kinds = [type(step).__name__ for _, step in transformers_of(pipeline)]
    kind = f"Pipeline({', '.join([*kinds, ensemble.source.kind])})"
    if columns == "auto" and _is_mixed(ensemble, made, has_names=has_names):
        if _has_rows(X):
            check_row_by_row(pipeline, X)
        is_named = ensemble.has_feature_names or bool(counted)
        names = ensemble.feature_names if is_named else _names_out(pipeline, ensemble.n_features)
        whole = in_last_columns(
            _without_zeros(ensemble) if zero_is_absent else ensemble, pipeline, raws, made, names
        )
        source = replace(whole.source, kind=kind)
        return replace(whole, source=source, has_feature_names=has_names)
    source = _source(ensemble.source, kind, raws, made, ensemble.used_features)
    if isinstance(ensemble, AdditiveTables):
        whole = _passed_on(ensemble, raws, made, has_names=has_names)
    else:
        types = _types(X, raws, has_names=has_names)
        whole = compose(
            ensemble, raws, made, types, has_names=has_names, zero_is_absent=zero_is_absent
        )
    return replace(whole, source=source)


def _counted_columns(features: Sequence[FeatureSpec], made: Sequence[Column]) -> list[Column]:
    """Return columns that the last step makes of several that it takes."""
    columns = []
    for position, spec in enumerate(features, start=len(made)):
        takes = () if spec.derivation is None else spec.derivation.steps.takes
        sources = {raw for name in spec.made_from for raw in made[takes.index(name)].raw}
        refusal = "the model uses statistics of combinations of columns"
        columns.append(Column(spec.name, tuple(sorted(sources)), None, position, refusal))
    return columns


def _is_mixed(model: Parsed, made: Sequence[Column], *, has_names: bool) -> bool:
    """Whether the last step uses columns that are no functions of one raw column.

    An explainable boosting machine has bins of its own, which cannot be composed with any function.
    """
    if isinstance(model, TreeEnsemble):
        return any(made[t].refusal for t in model.used_features)
    if any(column.stage is not None or column.refusal for column in made):
        return bool(model.used_features)
    in_place = [column.position for column in made] == list(range(len(made)))
    return not in_place and not has_names


def _has_rows(X: Any) -> bool:
    return X is not None and not isinstance(X, Columns) and row_count(X) > 1


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
    ensemble: Parsed,
    pipeline: Any,
    raws: Sequence[Column],
    made: Sequence[Column],
    *,
    zero_is_absent: bool,
) -> Parsed:
    """Name the features as the steps do, and say which raw columns each is made from."""
    names = _names_out(pipeline, ensemble.n_features)
    features = []
    for t, spec in enumerate(ensemble.features):
        name = names[t] if names is not None else spec.name
        made_from = tuple(raws[r].name for r in made[t].raw)
        features.append(replace(spec, name=name, made_from=made_from))
    has_names = ensemble.has_feature_names or names is not None
    read = replace(ensemble, features=tuple(features), has_feature_names=has_names)
    return _without_zeros(read) if zero_is_absent else read


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


def _passed_on(
    model: AdditiveTables, raws: Sequence[Column], made: Sequence[Column], *, has_names: bool
) -> Parsed:
    """Return the tables of an explainable boosting machine, on the columns that it gets."""
    if any(column.stage is not None or column.refusal for column in made):
        raise UnsupportedModelError(
            "an EBM in a pipeline can be read only if the steps before it do nothing but select "
            "columns. " + IN_TRANSFORMED_COLUMNS
        )
    places = [column.position for column in made]
    if not has_names and places != list(range(len(raws))):
        raise UnsupportedModelError(
            "an explainable boosting machine after a step that reorders or drops columns "
            f"without names is not supported. {IN_TRANSFORMED_COLUMNS}"
        )
    spec_of = dict(zip(places, model.features, strict=True))
    features = tuple(
        replace(spec_of[r], name=raw.name) if r in spec_of else unused_column(raw.name)
        for r, raw in enumerate(raws)
    )
    terms = tuple(
        replace(term, features=tuple(places[j] for j in term.features)) for term in model.terms
    )
    return replace(model, features=features, terms=terms, has_feature_names=has_names)


def _source(
    source: ModelSource,
    kind: str,
    raws: Sequence[Column],
    made: Sequence[Column],
    used_features: Sequence[int],
) -> ModelSource:
    """Say where a model of raw columns comes from, and what it does with unknown labels."""
    stages: dict[int, Stage] = {}
    for t in used_features:
        links = () if made[t].refusal else chain_of(made[t])
        stages |= {id(link.stage): link.stage for link in links if link.stage is not None}
    notes = tuple(
        f"{stage.path} raises an error for unknown labels; here they get the prediction that "
        "missing values would get after this step"
        for stage in stages.values()
        if stage.refuses_unknown
    )
    constraints = _raw_constraints(source.constraints, made, len(raws))
    return replace(source, kind=kind, notes=source.notes + notes, constraints=constraints)


def _raw_constraints(
    constraints: Sequence[int], made: Sequence[Column], n_raw: int
) -> tuple[int, ...]:
    """Return the constraints of the raw columns that reach the model unchanged."""
    signs = [0] * n_raw
    for sign, column in zip(constraints, made, strict=False):
        if column.stage is None and not column.refusal and column.raw:
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
