"""Follow the columns of a table through a fitted pipeline: which raw column makes which."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from treepurify.errors import InvalidInputError
from treepurify.models.pipelines import category_encoders, encoders, imputers, numbers
from treepurify.models.pipelines.columns import Column, Reading, Stage
from treepurify.models.pipelines.steps import (
    does_nothing,
    is_pipeline,
    known_class,
    returns_sparse,
    transformers_of,
)

__all__ = ["follow_columns", "raw_columns"]

Columns = tuple[Column, ...]
Reader = Callable[[Any, tuple[str, ...]], Reading]

_READERS: dict[str, dict[str, Reader]] = {
    "sklearn": {**numbers.READERS, **imputers.READERS, **encoders.READERS},
    "category_encoders": {**category_encoders.READERS},
}
_MIXING = "each of its columns depends on several columns"
_REFUSALS = {
    **dict.fromkeys(
        ("PCA", "KernelPCA", "SparsePCA", "IncrementalPCA", "TruncatedSVD", "FastICA", "NMF"),
        _MIXING,
    ),
    **dict.fromkeys(
        ("PolynomialFeatures", "Normalizer", "KNNImputer", "IterativeImputer", "FeatureHasher"),
        _MIXING,
    ),
    **dict.fromkeys(
        ("CountVectorizer", "TfidfVectorizer", "HashingVectorizer", "TfidfTransformer"),
        "it makes vectors of texts",
    ),
    "SplineTransformer": "its splines are no monotone functions of the column",
    "HashingEncoder": "it hashes several columns together",
}


def raw_columns(pipeline: Any, n_final: int) -> tuple[Columns, bool]:
    """Return the columns that a pipeline takes, and whether their names are the user's.

    Parameters
    ----------
    pipeline : Pipeline
        A fitted pipeline.
    n_final : int
        Number of columns that its last step takes; it is that of the pipeline where no step
        says how many it takes.

    Returns
    -------
    tuple of Column
    bool

    Raises
    ------
    InvalidInputError
        If the pipeline is not fitted.
    """
    for _, step in [*transformers_of(pipeline), pipeline.steps[-1]]:
        if is_pipeline(step) and not hasattr(step, "n_features_in_"):
            continue
        names = getattr(step, "feature_names_in_", None)
        count = n_final if names is None else len(names)
        if names is None and hasattr(step, "n_features_in_"):
            count = int(step.n_features_in_)
        elif names is None and step is not pipeline.steps[-1][1]:
            _check_fitted(step)
            continue
        listed = [f"x{j}" for j in range(count)] if names is None else list(map(str, names))
        columns = tuple(Column(name, (j,), None, j) for j, name in enumerate(listed))
        return columns, names is not None
    raise InvalidInputError("this Pipeline is not fitted; call fit() before you pass it")


def follow_columns(
    transformer: Any, inputs: Columns, path: str, *, gets_sparse: bool = False
) -> Columns:
    """Return the columns that a fitted transformer makes of others.

    Parameters
    ----------
    transformer : object
        A fitted transformer, a pipeline of some, ``"passthrough"``, ``"drop"`` or None.
    inputs : tuple of Column
        The columns that it takes.
    path : str
        Where it stands, for messages.
    gets_sparse : bool
        Whether it gets them as a sparse matrix.

    Returns
    -------
    tuple of Column
        Where a column is no function of one raw column, its `refusal` says why.
    """
    if does_nothing(transformer) or _is_identity(transformer):
        return inputs
    if isinstance(transformer, str) and transformer == "drop":
        return ()
    if is_pipeline(transformer):
        for name, step in transformer.steps:
            step_path = f"{path}, step {name!r}"
            inputs = follow_columns(step, inputs, step_path, gets_sparse=gets_sparse)
            gets_sparse = returns_sparse(step, gets_sparse=gets_sparse)
        return inputs
    kind = type(transformer).__name__
    library = type(transformer).__module__.partition(".")[0]
    if library == "sklearn" and kind == "ColumnTransformer":
        return _split_columns(transformer, inputs, path, gets_sparse=gets_sparse)
    if library == "sklearn" and kind == "FeatureUnion":
        return _joined(transformer, inputs, path, gets_sparse=gets_sparse)
    if library == "sklearn" and hasattr(transformer, "get_support"):
        _check_fitted(transformer)
        return tuple(inputs[int(j)] for j in transformer.get_support(indices=True))
    return _stage_columns(transformer, inputs, f"{path} ({kind})", gets_sparse=gets_sparse)


def _is_identity(transformer: Any) -> bool:
    """Return whether it returns what it gets, as what a ColumnTransformer passes on with."""
    return known_class(transformer) == "FunctionTransformer" and transformer.func is None


def _split_columns(transformer: Any, inputs: Columns, path: str, *, gets_sparse: bool) -> Columns:
    _check_fitted(transformer)
    made: Columns = ()
    resolved = getattr(transformer, "_transformer_to_input_indices", {})
    for name, part, chosen in transformer.transformers_:
        positions = resolved.get(name)
        if positions is None:
            positions = _positions(chosen, inputs, getattr(transformer, "feature_names_in_", None))
        part_path = f"{path}, transformer {name!r}"
        mine = tuple(inputs[j] for j in positions)
        made += follow_columns(part, mine, part_path, gets_sparse=gets_sparse)
    return made


def _positions(chosen: Any, inputs: Columns, names: Any) -> list[int]:
    """Return the positions of the columns that a part of a ColumnTransformer was fitted on."""
    known = [column.name for column in inputs] if names is None else list(map(str, names))
    if isinstance(chosen, slice):
        if isinstance(chosen.start, str) or isinstance(chosen.stop, str):
            first = 0 if chosen.start is None else known.index(chosen.start)
            last = len(known) - 1 if chosen.stop is None else known.index(chosen.stop)
            return list(range(first, last + 1, chosen.step or 1))
        return list(range(len(inputs)))[chosen]
    listed = [chosen] if isinstance(chosen, str | int) else list(chosen)
    if listed and all(isinstance(entry, bool | np.bool_) for entry in listed):
        return np.flatnonzero(listed).tolist()
    return [
        known.index(entry) if isinstance(entry, str) else int(entry) % max(len(inputs), 1)
        for entry in listed
    ]


def _joined(transformer: Any, inputs: Columns, path: str, *, gets_sparse: bool) -> Columns:
    made: Columns = ()
    for name, part in transformer.transformer_list:
        part_path = f"{path}, transformer {name!r}"
        made += follow_columns(part, inputs, part_path, gets_sparse=gets_sparse)
    return made


def _stage_columns(transformer: Any, inputs: Columns, path: str, *, gets_sparse: bool) -> Columns:
    _check_fitted(transformer)
    reading, refusal = _read(transformer, tuple(column.name for column in inputs))
    if reading is None:
        raws = tuple(sorted({raw for column in inputs for raw in column.raw}))
        names = _names_out(transformer, inputs)
        return tuple(Column(name, raws, None, 0, f"{path}: {refusal}") for name in names)
    stage = Stage(
        transformer,
        path,
        inputs,
        tuple(reading.outputs),
        gets_sparse=gets_sparse,
        needs_frame=reading.needs_frame,
        refuses_unknown=reading.refuses_unknown,
        knows_missing=reading.knows_missing,
    )
    made = []
    for position, output in enumerate(reading.outputs):
        source = inputs[output.source]
        column = Column(output.name, source.raw, stage, position, source.refusal)
        made.append(
            replace(column, refusal=f"{path}: {output.refusal}") if output.refusal else column
        )
    return tuple(made)


def _read(transformer: Any, names: tuple[str, ...]) -> tuple[Reading | None, str]:
    kind = type(transformer).__name__
    library = type(transformer).__module__.partition(".")[0]
    reader = _READERS.get(library, {}).get(kind)
    if reader is not None:
        return reader(transformer, names), ""
    reason = _REFUSALS.get(kind) if library in _READERS else None
    return None, reason or "it is not known which column each of its columns is made from"


def _names_out(transformer: Any, inputs: Columns) -> list[str]:
    """Return the names of the columns of a transformer that is not read."""
    try:
        return [str(name) for name in transformer.get_feature_names_out()]
    except (AttributeError, ValueError, TypeError):
        return [column.name for column in inputs]


def _check_fitted(transformer: Any) -> None:
    """Refuse what was not fitted: fitted attributes of scikit-learn end with an underscore."""
    if isinstance(transformer, str) or transformer is None:
        return
    is_stateless = type(transformer).__name__ == "FunctionTransformer"
    fitted = any(
        name.endswith("_") and not name.startswith("__") for name in vars(transformer)
    ) or hasattr(transformer, "mapping")
    if not fitted and not is_stateless:
        raise InvalidInputError(
            f"this {type(transformer).__name__} is not fitted; call fit() on the pipeline before "
            "you pass it"
        )
