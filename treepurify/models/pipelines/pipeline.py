"""Read a fitted pipeline: its last step by its own parser, composed with the steps before it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from treepurify.errors import UnsupportedModelError
from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parsed import ModelSource
from treepurify.models.pipelines.columns import IN_TRANSFORMED_COLUMNS, Column, Stage, chain_of
from treepurify.models.pipelines.compose import compose
from treepurify.models.pipelines.steps import returns_arrays, transformers_of
from treepurify.models.pipelines.structure import follow_steps, raw_columns
from treepurify.rows.columns import Columns
from treepurify.rows.tables import table_column, table_names

__all__ = ["WhichColumns", "parse_pipeline", "transform_rows"]

Parsed = TreeEnsemble | AdditiveTables
WhichColumns = Literal["raw", "transformed"]


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
    columns : {"raw", "transformed"}
        Whether the features are the columns that the pipeline takes, or those that its last
        step takes.
    X : table, optional
        Rows, whose types of columns count.

    Returns
    -------
    TreeEnsemble or AdditiveTables

    Raises
    ------
    UnsupportedModelError
        If the last step is not read, or is no function of single raw columns.
    InvalidInputError
        If the pipeline is not fitted.
    """
    ensemble = parse(pipeline.steps[-1][1])
    raws, has_names = raw_columns(pipeline, ensemble.n_features, X)
    made, is_sparse = follow_steps(transformers_of(pipeline), raws, n_last=ensemble.n_features)
    zero_is_absent = is_sparse and _reads_zeros_as_missing(ensemble.source.library)
    if columns == "transformed":
        return _on_transformed(ensemble, pipeline, raws, made, zero_is_absent=zero_is_absent)
    source = _source(ensemble.source, pipeline, made, ensemble.used_features, len(raws))
    if isinstance(ensemble, AdditiveTables):
        if any(column.stage is not None or column.refusal for column in made):
            raise UnsupportedModelError(
                "an explainable boosting machine is composed with steps that choose columns only. "
                + IN_TRANSFORMED_COLUMNS
            )
        return _passed_on(ensemble, raws, made, source, has_names=has_names)
    if any(returns_arrays(step) for _, step in transformers_of(pipeline)):
        specs = tuple(replace(spec, reads_texts=True) for spec in ensemble.features)
        ensemble = replace(ensemble, features=specs)
    composed = compose(
        ensemble,
        raws,
        made,
        _types(X, raws, has_names=has_names),
        has_names=has_names,
        zero_is_absent=zero_is_absent,
    )
    return replace(composed, source=source)


def _reads_zeros_as_missing(library: str) -> bool:
    """Whether the zeros of a sparse matrix are missing to the trees of a library."""
    if "xgboost" in library and library != "xgboost":
        raise UnsupportedModelError(
            f"the last step joins models of {library} on sparse rows, whose zeros are missing to "
            "XGBoost only. Train on dense rows, for example with sparse_threshold=0 in the "
            "ColumnTransformer, or purify the models one by one."
        )
    return library == "xgboost"


def transform_rows(pipeline: Any, X: Any) -> Any:
    """Return what the last step of a pipeline gets for the rows of `X`."""
    names = next(
        (s.feature_names_in_ for _, s in pipeline.steps if hasattr(s, "feature_names_in_")), None
    )
    if names is not None and hasattr(X, "iloc") and set(names) <= set(X.columns):
        X = X[list(names)]
    elif names is not None and table_names(X) is None and not hasattr(X, "toarray"):
        import pandas as pd

        X = pd.DataFrame(np.asarray(X), columns=list(names)).infer_objects()
    for _, step in transformers_of(pipeline):
        X = step.transform(X)
    return X


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
        whole = replace(spec, name=name, made_from=made_from)
        features.append(replace(whole, missing_value=0.0) if zero_is_absent else whole)
    source = ensemble.source
    if zero_is_absent:
        note = "zeros are read as missing, as in the sparse rows that the pipeline makes"
        source = replace(source, notes=(*source.notes, note))
    has_names = ensemble.has_feature_names or names is not None
    return replace(ensemble, features=tuple(features), source=source, has_feature_names=has_names)


def _names_out(pipeline: Any, n_features: int) -> list[str] | None:
    names: Any = None
    try:
        for _, step in transformers_of(pipeline):
            names = step.get_feature_names_out(names)
    except (AttributeError, ValueError, TypeError):
        return None
    return None if names is None or len(names) != n_features else [str(name) for name in names]


def _passed_on(
    model: AdditiveTables,
    raws: Sequence[Column],
    made: Sequence[Column],
    source: ModelSource,
    *,
    has_names: bool,
) -> Parsed:
    if [column.position for column in made] != list(range(len(raws))):
        raise UnsupportedModelError(
            "an explainable boosting machine behind a step that reorders or drops columns is not "
            f"read. {IN_TRANSFORMED_COLUMNS}"
        )
    features = tuple(
        replace(spec, name=raw.name) for spec, raw in zip(model.features, raws, strict=True)
    )
    return replace(model, features=features, source=source, has_feature_names=has_names)


def _source(
    source: ModelSource,
    pipeline: Any,
    made: Sequence[Column],
    used_features: Sequence[int],
    n_raw: int,
) -> ModelSource:
    steps = [type(step).__name__ for _, step in transformers_of(pipeline)]
    stages: dict[int, Stage] = {}
    for column in (made[t] for t in used_features):
        links = () if column.refusal else chain_of(column)
        stages |= {id(link.stage): link.stage for link in links if link.stage is not None}
    notes = tuple(
        f"{stage.path} refuses labels that it does not know; here they go where missing "
        "transformed values go"
        for stage in stages.values()
        if stage.refuses_unknown
    )
    kind = f"Pipeline({', '.join([*steps, source.kind])})"
    constraints = _raw_constraints(source.constraints, made, n_raw)
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
