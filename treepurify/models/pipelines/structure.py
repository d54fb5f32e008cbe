"""Follow the columns of a table through a fitted pipeline: which raw column makes which."""

from collections.abc import Callable, Sequence
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
    takes_texts,
    transformers_of,
)
from treepurify.rows.tables import table_names

__all__ = ["follow_steps", "raw_columns"]

Columns = tuple[Column, ...]
# It returns why a transformer is not read, where it is not.
Reader = Callable[[Any, tuple[str, ...]], Reading | str]

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
    "SplineTransformer": "its splines are not monotone functions of the column",
    "HashingEncoder": "it hashes several columns together",
}


def raw_columns(pipeline: Any, n_final: int, X: Any = None) -> tuple[Columns, bool]:
    """Return the columns that a pipeline takes, and whether their names are the user's.

    Parameters
    ----------
    pipeline : Pipeline
        A fitted pipeline.
    n_final : int
        Number of columns that its last step takes; it is that of the pipeline where no step
        says how many it takes.
    X : table, optional
        Rows, whose columns are those of the pipeline where its first step does not say.

    Returns
    -------
    tuple of Column
    bool

    Raises
    ------
    InvalidInputError
        If the pipeline is not fitted.
    """
    is_silent = False
    for _, step in [*transformers_of(pipeline), pipeline.steps[-1]]:
        if is_pipeline(step) and not hasattr(step, "n_features_in_"):
            continue
        if takes_texts(step):
            names = None if X is None else table_names(X)
            return (Column("text" if names is None else names[0], (0,), None, 0),), bool(names)
        names = getattr(step, "feature_names_in_", None)
        count = n_final if names is None else len(names)
        if names is None and hasattr(step, "n_features_in_"):
            count = int(step.n_features_in_)
        elif names is None and step is not pipeline.steps[-1][1]:
            _check_fitted(step)
            is_silent = True
            continue
        if is_silent and X is not None:
            names = table_names(X)
            count = int(X.shape[1]) if names is None else len(names)
        listed = [f"x{j}" for j in range(count)] if names is None else list(map(str, names))
        columns = tuple(Column(name, (j,), None, j) for j, name in enumerate(listed))
        return columns, names is not None
    raise InvalidInputError("this Pipeline is not fitted; call fit() before you pass it")


def _follow_columns(
    transformer: Any, inputs: Columns, path: str, *, gets_sparse: bool = False
) -> Columns:
    """Return the columns that a fitted transformer, or ``"drop"``, makes of others."""
    if does_nothing(transformer) or _is_identity(transformer):
        return inputs
    if isinstance(transformer, str) and transformer == "drop":
        return ()
    if is_pipeline(transformer):
        return follow_steps(transformer.steps, inputs, f"{path}, ", gets_sparse=gets_sparse)[0]
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


def follow_steps(
    steps: Sequence[tuple[str, Any]],
    inputs: Columns,
    path: str = "",
    n_last: int | None = None,
    *,
    gets_sparse: bool = False,
) -> tuple[Columns, bool]:
    """Return the columns that fitted transformers make one after the other.

    Parameters
    ----------
    steps : sequence of (str, transformer)
        The transformers, with their names.
    inputs : tuple of Column
        The columns that the first takes.
    path : str
        Where they stand, for messages.
    n_last : int, optional
        Number of columns that the last returns, where it is known.
    gets_sparse : bool
        Whether the first gets them as a sparse matrix.

    Returns
    -------
    tuple of Column
        Where a column is no function of one raw column, its `refusal` says why.
    bool
        Whether they are a sparse matrix.
    """
    made = inputs
    counts = [getattr(step, "n_features_in_", None) for _, step in steps[1:]]
    names_in = [getattr(step, "feature_names_in_", None) for _, step in steps[1:]]
    for (name, step), count, names in zip(
        steps, [*counts, n_last], [*names_in, None], strict=False
    ):
        step_path = f"{path}step {name!r}"
        maker = Stage(step, step_path, made, ())
        made = _follow_columns(step, made, step_path, gets_sparse=gets_sparse)
        made = _named(_counted(made, count, maker, name), names)
        gets_sparse = returns_sparse(step, gets_sparse=gets_sparse)
    return made, gets_sparse


def _named(made: Columns, names: Any) -> Columns:
    """Name columns that are not read as the next step knows them."""
    if names is None or len(names) != len(made):
        return made
    return tuple(
        replace(column, name=str(name)) if column.refusal else column
        for column, name in zip(made, names, strict=True)
    )


def _counted(made: Columns, count: int | None, maker: Stage, name: str) -> Columns:
    """Return as many columns as there are: all are refused where their places are not known."""
    guessed = list(dict.fromkeys(column.refusal for column in made if not column.is_counted))
    # Two transformers that are miscounted might cancel out, and move what is between them.
    if count is None or (len(made) == count and len(guessed) < 2):
        is_sure = count is not None
        return tuple(replace(column, is_counted=is_sure or column.is_counted) for column in made)
    reason = f"{maker.path} returns {count} columns, but its fitted state describes {len(made)}"
    raws = tuple(sorted({raw for column in made for raw in column.raw}))
    refusal = [*guessed, reason][0]
    return tuple(
        Column(f"{name} {j + 1}", raws, None, j, refusal, maker=maker) for j in range(count)
    )


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
        of_part = _follow_columns(part, mine, part_path, gets_sparse=gets_sparse)
        place = transformer.output_indices_[name]
        maker = Stage(part, part_path, mine, ())
        made += _counted(of_part, place.stop - place.start, maker, name)
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
        made += _follow_columns(part, inputs, part_path, gets_sparse=gets_sparse)
    return made


def _stage_columns(transformer: Any, inputs: Columns, path: str, *, gets_sparse: bool) -> Columns:
    _check_fitted(transformer)
    reading, refusal = _read(transformer, tuple(column.name for column in inputs))
    if reading is None:
        raws = tuple(sorted({raw for column in inputs for raw in column.raw}))
        names = _names_out(transformer)
        maker = Stage(transformer, path, inputs, ())
        return tuple(
            Column(
                name,
                raws,
                None,
                position,
                f"{path}: {refusal}",
                is_counted=names is not None,
                maker=maker,
            )
            for position, name in enumerate(names or [column.name for column in inputs])
        )
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
        made.append(Column(output.name, source.raw, stage, position, source.refusal))
    return tuple(made)


def _read(transformer: Any, names: tuple[str, ...]) -> tuple[Reading | None, str]:
    kind = type(transformer).__name__
    library = type(transformer).__module__.partition(".")[0]
    reader = _READERS.get(library, {}).get(kind)
    if reader is not None:
        reading = reader(transformer, names)
        return (None, reading) if isinstance(reading, str) else (reading, "")
    reason = _REFUSALS.get(kind) if library in _READERS else None
    return None, reason or "the source of each of its columns is unknown"


def _names_out(transformer: Any) -> list[str] | None:
    """Return the names of the columns of a transformer that is not read; None if it has none."""
    try:
        return [str(name) for name in transformer.get_feature_names_out()]
    except (AttributeError, ValueError, TypeError):
        return None


def _check_fitted(transformer: Any) -> None:
    """Refuse what was not fitted: fitted attributes of scikit-learn end with an underscore."""
    library = type(transformer).__module__.partition(".")[0]
    # The user's own classes may have nothing to learn, and some of scikit-learn have not.
    if library not in _READERS or not transformer.__sklearn_tags__().requires_fit:
        return
    # Of these early releases of scikit-learn say that they need it.
    if type(transformer).__name__ in ("FeatureHasher", "HashingVectorizer"):
        return
    if not any(name.endswith("_") and not name.startswith("__") for name in vars(transformer)):
        raise InvalidInputError(
            f"this {type(transformer).__name__} is not fitted; call fit() on the pipeline before "
            "you pass it"
        )
