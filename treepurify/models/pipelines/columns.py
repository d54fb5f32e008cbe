"""Columns inside a pipeline: which raw columns each is made from, and by which transformers."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.budget import check_budget
from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.models.pipelines.steps import (
    columns_of,
    does_nothing,
    is_pipeline,
    known_class,
    returns_sparse,
    takes_texts,
    transformers_of,
)
from treepurify.models.pipelines.transformers import Output, read_transformer
from treepurify.rows.missing_values import is_missing
from treepurify.rows.tables import table_names

_MOST_BYTES = 4 << 30
# Settings with which a fitted transformer refuses rows, and those that take them. What is made of
# them does not matter, since the pipeline has no prediction for them.
_LENIENT: dict[tuple[str, Any], dict[str, dict[str, Any]]] = {
    ("handle_unknown", "error"): {
        "OneHotEncoder": {"handle_unknown": "ignore"},
        "OrdinalEncoder": {"handle_unknown": "use_encoded_value", "unknown_value": -1},
    },
    ("error_on_new", True): {"MissingIndicator": {"error_on_new": False}},
}


@dataclass(frozen=True, eq=False)
class Stage:
    """A fitted transformer, the columns that it takes, and what is known of those that it returns.

    Parameters
    ----------
    transformer : object
        The fitted transformer, which is asked itself.
    path : str
        Where it stands in the pipeline, for messages.
    inputs : tuple of Column
        The columns that it takes.
    outputs : tuple of Output
        The columns that it returns.
    gets_sparse : bool
        Whether it gets the columns as a sparse matrix.
    """

    transformer: Any
    path: str
    inputs: tuple["Column", ...]
    outputs: tuple[Output, ...]
    gets_sparse: bool = False

    @property
    def refuses_unknown(self) -> bool:
        """Whether it raises an error for labels that it does not know."""
        return bool(getattr(self.transformer, "handle_unknown", "") == "error")

    @property
    def is_of_category_encoders(self) -> bool:
        """Whether it is one of category_encoders, which take data frames only."""
        return type(self.transformer).__module__.startswith("category_encoders.")

    @cached_property
    def lenient(self) -> Any:
        """A copy that does not refuse rows for their labels, or for missing values."""
        taken = copy(self.transformer)
        if self.is_of_category_encoders:
            for name in ("handle_unknown", "handle_missing"):
                if getattr(taken, name, "") == "error":
                    setattr(taken, name, "value")
            return taken
        for (name, value), settings in _LENIENT.items():
            if getattr(taken, name, None) == value:
                vars(taken).update(settings.get(type(taken).__name__, {}))
        return taken

    def transform(self, columns: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """Return the output columns of values that need not be refused.

        Raises
        ------
        UnsupportedModelError
            If the transformer fails on what it should take.
        """
        known = [_finite(column) for column in columns]
        kinds = [column.dtype for column in known if column.dtype.kind == "f"]
        largest = float(np.finfo(np.result_type(*kinds) if kinds else np.float64).max)
        for output in self.outputs:
            j = output.source
            if output.power:
                bound = min(largest ** (0.97 / output.power), float(np.finfo(known[j].dtype).max))
                # Plain numbers keep single precision as it is.
                lowest = 1.0 / bound if output.is_positive else -bound
                known[j] = np.clip(known[j], lowest, bound)
            if known[j].dtype.kind == "f" and any(isinstance(x, str) for x in output.labels):
                # A filler: the trees do not ask for what is made of this column.
                known[j] = np.full(len(known[j]), output.labels[0], dtype=object)
        with suppress(ValueError, TypeError):
            return self._call(known)
        # There is no prediction where missing values are refused, and any value will do.
        try:
            return self._call([_filled(column) for column in known])
        except (ValueError, TypeError) as error:
            raise UnsupportedModelError(
                f"{self.path} fails on values that it should transform: {error}"
            ) from error

    def _call(self, columns: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        rows: Any
        if self.is_of_category_encoders or any(c.dtype.kind not in "fiub" for c in columns):
            import pandas as pd

            names = getattr(self.transformer, "feature_names_in_", range(len(columns)))
            rows = pd.DataFrame(
                {
                    name: pd.Series(column, dtype=object if column.dtype.kind in "OU" else None)
                    for name, column in zip(names, columns, strict=True)
                }
            )
        else:
            rows = np.column_stack(columns)
            if self.gets_sparse:
                from scipy.sparse import csr_matrix

                rows = csr_matrix(rows)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            made = columns_of(self.lenient.transform(rows))
        if len(made) != len(self.outputs):
            expected = f"returns {len(made)} columns, expected {len(self.outputs)}"
            raise UnsupportedModelError(f"{self.path} {expected}")
        return made


def _finite(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Replace infinities, which most transformers refuse, by the largest numbers."""
    if column.dtype.kind != "f" or not np.any(np.isinf(column)):
        return column
    largest = np.finfo(column.dtype).max
    return np.asarray(np.clip(column, -largest, largest))


def _filled(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Replace missing values by the first that is present."""
    missing = is_missing(np.asarray(column, dtype=object))
    if not np.any(missing) or np.all(missing):
        return column
    column = column.copy()
    column[missing] = column[np.argmin(missing)]
    return column


@dataclass(frozen=True, eq=False)
class Column:
    """One column inside a pipeline.

    Parameters
    ----------
    name : str
        Its name.
    raw : tuple of int
        Positions of the raw columns that it is made from; empty for a constant.
    stage : Stage, optional
        The transformer that returns it; None for a raw column, and where it is not read.
    position : int
        Its position among what the transformer returns, or among the raw columns.
    refusal : str
        Why it is no function of one raw column; empty where it is one.
    """

    name: str
    raw: tuple[int, ...]
    stage: Stage | None
    position: int
    refusal: str = ""

    @property
    def is_passed_on(self) -> bool:
        """Whether it is a raw column as it is."""
        return self.stage is None and not self.refusal

    @property
    def output(self) -> Output:
        """What its transformer knows of it."""
        if self.stage is None:
            raise TypeError("a raw column is returned by no transformer")
        return self.stage.outputs[self.position]

    @property
    def source(self) -> "Column":
        """The column that its transformer makes it from."""
        if self.stage is None:
            raise TypeError("a raw column is returned by no transformer")
        return self.stage.inputs[self.output.source]


Columns = tuple[Column, ...]


def chain_of(column: Column) -> Iterator[Column]:
    """Yield the columns from the raw one, which is left out, to the given one."""
    if column.stage is not None:
        yield from chain_of(column.source)
        yield column


class RawProbe:
    """Values of raw columns, and of what transformers make of them.

    Each transformer is asked once, however many of its columns are needed.

    Parameters
    ----------
    values : dict of int to ndarray of shape (n_rows,)
        Values of some raw columns.
    fillers : sequence
        One harmless value per raw column, for those that are not among `values`.
    n_rows : int
        Number of rows.

    Raises
    ------
    MemoryBudgetError
        If the values take too much memory.
    """

    def __init__(
        self, values: dict[int, npt.NDArray[Any]], fillers: Sequence[Any], n_rows: int
    ) -> None:
        check_budget(
            8 * n_rows * 2 * max(len(values), 1),
            _MOST_BYTES,
            f"a table of {n_rows} values for each of {len(values)} raw columns",
            'Pass columns="transformed"',
        )
        self._values = values
        self._fillers = fillers
        self._n_rows = n_rows
        self._done: dict[int, list[npt.NDArray[Any]]] = {}

    def column(self, column: Column) -> npt.NDArray[Any]:
        """Return the values of a column, shape (n_rows,)."""
        if column.refusal:
            # Any value will do: only columns that do not depend on it are read.
            return np.ones(self._n_rows)
        if column.stage is None:
            return self._raw(column.position)
        stage = column.stage
        if id(stage) not in self._done:
            self._done[id(stage)] = stage.transform([self.column(j) for j in stage.inputs])
        return self._done[id(stage)][column.position]

    def _raw(self, position: int) -> npt.NDArray[Any]:
        if position not in self._values:
            filler = self._fillers[position]
            dtype = object if isinstance(filler, str) else getattr(filler, "dtype", np.float64)
            self._values[position] = np.full(self._n_rows, filler, dtype=dtype)
        return self._values[position]


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
    last, names, count = pipeline.steps[-1][1], None, None
    steps = [step for _, step in transformers_of(pipeline)]
    for step in [*steps, last]:
        if takes_texts(step):
            names = None if X is None else table_names(X)
            return (Column("text" if names is None else names[0], (0,), None, 0),), bool(names)
        names = getattr(step, "feature_names_in_", None)
        count = getattr(step, "n_features_in_", None) if names is None else len(names)
        if count is not None:
            break
        if step is not last and not is_pipeline(step):
            _check_fitted(step)
    if X is not None and steps and step is not steps[0]:
        # The first step does not say what it takes.
        names = table_names(X)
        count = int(X.shape[1]) if names is None else len(names)
    count = n_final if count is None else int(count)
    listed = [f"x{j}" for j in range(count)] if names is None else list(map(str, names))
    return tuple(Column(name, (j,), None, j) for j, name in enumerate(listed)), names is not None


class _Uncounted(Exception):  # noqa: N818 - not an error: who knows the number of columns goes on
    """The reason why a step is not read, of which it is not known how many columns it returns."""


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
        inputs = made
        try:
            made = _follow(name, step, made, f"{path}step {name!r}", count, gets_sparse=gets_sparse)
        except _Uncounted as error:
            if step is steps[-1][1]:
                raise
            made = _unread([column.name for column in inputs], inputs, str(error))
        if names is not None and len(names) == len(made):
            # The next step knows the names of columns that are not read.
            made = tuple(
                replace(column, name=str(own)) if column.refusal else column
                for column, own in zip(made, names, strict=True)
            )
        gets_sparse = returns_sparse(step, gets_sparse=gets_sparse)
    return made, gets_sparse


def _follow(
    name: str, step: Any, inputs: Columns, path: str, count: int | None, *, gets_sparse: bool
) -> Columns:
    """Return the columns that a fitted transformer, or ``"drop"``, makes of others.

    All are refused where their number, if that is known, is not the one that was expected.
    """
    try:
        made = _columns_made(step, inputs, path, count, gets_sparse=gets_sparse)
        if count is None or len(made) == count:
            return made
        reason = f"{path} returns {count} columns, but its fitted state describes {len(made)}"
    except _Uncounted as error:
        if count is None:
            raise
        reason = str(error)
    return _unread([f"{name} {j + 1}" for j in range(count)], inputs, reason)


def _unread(names: Sequence[str], inputs: Columns, reason: str) -> Columns:
    raws = tuple(sorted({raw for column in inputs for raw in column.raw}))
    return tuple(Column(name, raws, None, j, reason) for j, name in enumerate(names))


def _columns_made(
    step: Any, inputs: Columns, path: str, count: int | None, *, gets_sparse: bool
) -> Columns:
    if isinstance(step, str) and step == "drop":
        return ()
    is_identity = known_class(step) == "FunctionTransformer" and step.func is None
    if does_nothing(step) or is_identity:
        return inputs
    if is_pipeline(step):
        return follow_steps(step.steps, inputs, f"{path}, ", count, gets_sparse=gets_sparse)[0]
    kind, library = type(step).__name__, type(step).__module__.partition(".")[0]
    made: Columns = ()
    if library == "sklearn" and kind == "ColumnTransformer":
        _check_fitted(step)
        for name, part, _ in step.transformers_:
            mine = tuple(inputs[j] for j in step._transformer_to_input_indices[name])
            part_path, place = f"{path}, transformer {name!r}", step.output_indices_[name]
            n_made = place.stop - place.start
            made += _follow(name, part, mine, part_path, n_made, gets_sparse=gets_sparse)
        return made
    if library == "sklearn" and kind == "FeatureUnion":
        for name, part in step.transformer_list:
            part_path = f"{path}, transformer {name!r}"
            made += _follow(name, part, inputs, part_path, None, gets_sparse=gets_sparse)
        return made
    _check_fitted(step)
    if library == "sklearn" and hasattr(step, "get_support"):
        return tuple(inputs[int(j)] for j in step.get_support(indices=True))
    inside = tuple(column.name for column in inputs)
    names = names_out(step, getattr(step, "feature_names_in_", inside))
    outputs = read_transformer(step, inside)
    path = f"{path} ({kind})"
    if isinstance(outputs, str):
        if names is None and count != len(inputs):
            raise _Uncounted(f"{path}: {outputs}")
        return _unread(names or inside, inputs, f"{path}: {outputs}")
    stage = Stage(step, path, inputs, tuple(outputs), gets_sparse)
    sources = [inputs[output.source] for output in outputs]
    names = names or [source.name for source in sources]
    return tuple(
        Column(name, source.raw, stage, j, source.refusal)
        for j, (name, source) in enumerate(zip(names, sources, strict=True))
    )


def names_out(transformer: Any, names: Any) -> Sequence[str] | None:
    """Return the names of what a transformer makes of columns with names; None if it has none."""
    for given in ((names,), ()):
        with suppress(AttributeError, ValueError, TypeError):
            return [str(name) for name in transformer.get_feature_names_out(*given)]
    return None


def _check_fitted(transformer: Any) -> None:
    """Refuse what was not fitted: fitted attributes of scikit-learn end with an underscore."""
    kind, library = type(transformer).__name__, type(transformer).__module__.partition(".")[0]
    # The user's own classes may have nothing to learn, and some of scikit-learn have not. Of two
    # of these early releases say that they need it.
    is_stateless = kind in ("FeatureHasher", "HashingVectorizer")
    if library not in ("sklearn", "category_encoders") or is_stateless:
        return
    is_fitted = any(name.endswith("_") and not name.startswith("__") for name in vars(transformer))
    if transformer.__sklearn_tags__().requires_fit and not is_fitted:
        raise InvalidInputError(
            f"this {kind} is not fitted; call fit() on the pipeline before you pass it"
        )
