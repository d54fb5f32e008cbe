"""What every parsed model offers, whatever its form, and its comparison with its library."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self
from weakref import ref

import numpy as np

from treepurify.budget import DEFAULT_BUDGET
from treepurify.errors import ModelMismatchError
from treepurify.links import Link
from treepurify.models.library_child import FileRefusedError
from treepurify.origin import ClassLabel, ModelFacts
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.rows.table_reader import read_columns
from treepurify.rows.tables import (
    derived_frame,
    is_sparse,
    is_table,
    one_row,
    read_matrix,
    row_count,
    table_column,
    table_names,
    take_rows,
)
from treepurify.typing import Array

if TYPE_CHECKING:
    import pandas as pd


_MOST_ROWS = 256
_TOLERANCE = {"float32": 2e-6, "float64": 1e-9}
_NO_LIBRARY = "There was no library to compare the model with."


@dataclass(frozen=True)
class ModelSource:
    """Where a model came from.

    Parameters
    ----------
    library : str
        Name of the library, for example ``"xgboost"``. Where the family reads files, the name
        under which the library is imported, for its version and its predictions.
    version : str
        Version that wrote the model, or ``"unknown"``.
    kind : str
        Class or booster type, for example ``"gbtree"``.
    notes : tuple of str
        What a user should know about how the model was read.
    unasked : str
        Why the library is not asked to predict with the file of the model; empty where it is.
    constraints : tuple of int
        The monotone constraint of each feature in training: 1 where the margin was to rise with it,
        -1 where it was to fall, 0 without one. Empty where the model does not say.
    class_labels : tuple of str, int, float or bool
        The labels that a classifier predicts: of one output two, the second of which the output is
        about. Empty where they are not known.
    """

    library: str
    version: str
    kind: str
    notes: tuple[str, ...] = ()
    unasked: str = ""
    constraints: tuple[int, ...] = ()
    class_labels: tuple[ClassLabel, ...] = ()

    def facts(self) -> ModelFacts:
        """Return what is known of a model that came from there."""
        return ModelFacts(
            self.library, self.version, self.kind, self.notes, class_labels=self.class_labels
        )


def plain_labels(labels: Iterable[Any]) -> tuple[ClassLabel, ...]:
    """Return class labels without NumPy's types; none if one is neither text nor a number."""
    plain = [label.item() if isinstance(label, np.generic) else label for label in labels]
    return tuple(plain) if all(isinstance(label, ClassLabel) for label in plain) else ()


@dataclass(frozen=True, eq=False)
class ModelCheck:
    """The parsed model on a sample of rows.

    Parameters
    ----------
    columns : Columns
        The rows.
    margin : ndarray of float64, shape (n_rows, n_outputs)
        The parsed model's margin, summed in double precision.
    error : float or None
        Largest absolute difference from the library's raw prediction, in the library's own
        precision; None where there is no library to ask.
    note : str
        Why there is no such figure.
    rounding : float, optional
        Largest absolute difference of the margin in double precision from that prediction.
    """

    columns: Columns
    margin: Array
    error: float | None
    note: str
    rounding: float | None = None


@dataclass(eq=False)
class Library:
    """The library's own model behind a parsed one, and the rows they were compared on.

    Parameters
    ----------
    margin : callable, optional
        Returns the library's raw prediction for rows and the parsed model, None where it cannot be
        asked.
    parse : callable, optional
        Parses the library's model again, as it is now, for rows like some.
    has_names : bool
        Whether it knows names of features: otherwise rows must be in their order.
    is_file : bool
        Whether it is a file, which is loaded anew for each comparison.
    check : ModelCheck, optional
        What came of the last comparison.
    known : tuple of (weakref, ModelCheck or None)
        The rows of the last two, and what came of them.
    """

    margin: Callable[[Any, "ParsedModel"], Array | None] | None = None
    parse: Callable[[Any], "ParsedModel"] | None = None
    has_names: bool = True
    is_file: bool = False
    check: ModelCheck | None = None
    known: tuple[tuple["ref[Any]", ModelCheck | None], ...] = ()

    @property
    def is_at_hand(self) -> bool:
        """Whether it can be asked at no great cost."""
        return self.margin is not None and not self.is_file

    def compare(self, parsed: "ParsedModel", X: Any) -> None:
        """Compare a parsed model with the library on rows, unless they were among the last.

        Raises
        ------
        ModelMismatchError
            If they differ by more than rounding.
        """
        for rows, check in self.known:
            if rows() is X:
                self.check = check
                return
        self.check = check_against_library(parsed, X)
        with suppress(TypeError):  # lists are compared each time
            self.known = ((ref(X), self.check), *self.known[:1])


class ParsedModel(ABC):
    """A model free of its library: features, outputs, facts and a margin."""

    features: tuple[FeatureSpec, ...]
    base: Array
    output_names: tuple[str, ...]
    link: Link
    source: ModelSource
    has_feature_names: bool
    accumulation: Literal["float64", "float32"]
    # No field: whatever is made of the model by `replace` is no longer what the library predicts.
    library: Library | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what is copied and pickled: all but the model of the library."""
        return {name: value for name, value in self.__dict__.items() if name != "library"}

    def __repr__(self) -> str:
        """Return where it came from and its sizes, not its arrays."""
        source = f"{self.source.kind} of {self.source.library} {self.source.version}"
        outputs = "1 output" if self.n_outputs == 1 else f"{self.n_outputs} outputs"
        return f"{source}: {self.n_features} features, {outputs}"

    @property
    def n_features(self) -> int:
        """Number of features the model expects."""
        return len(self.features)

    @property
    def n_outputs(self) -> int:
        """Number of outputs on the margin scale."""
        return len(self.base)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, in the order of the model."""
        return tuple(spec.name for spec in self.features)

    @property
    @abstractmethod
    def used_features(self) -> tuple[int, ...]:
        """Positions of the features that the margin may depend on, increasing."""

    @abstractmethod
    def of_features(self, positions: tuple[int, ...]) -> Self:
        """Return the same model of some of its features, among them all that it uses."""

    @property
    def check(self) -> ModelCheck | None:
        """What came of the comparison with the library on the rows that it was read with."""
        return None if self.library is None else self.library.check

    def with_library(self, library: Library) -> Self:
        """Return the same model, which is compared with a library wherever it reads rows."""
        model = copy(self)
        object.__setattr__(model, "library", library)
        return model

    def compare(self, X: Any) -> None:
        """Compare the model with its library on rows; `check` says what came of it."""
        if self.library is not None:
            self.library.compare(self, X)

    def columns(self, X: Any) -> Columns:
        """Read a table into this model's columns, and compare the model with its library on them.

        Of sparse rows whose columns would not all fit into memory, those that the model uses are
        read; all others are missing in the result.
        """
        columns = self.uncompared(X)
        if self.library is not None and self.library.is_at_hand and columns is not X:
            self.library.compare(self, X)
        return columns

    def uncompared(self, X: Any) -> Columns:
        """Read a table, see `columns`."""
        only = None
        if is_sparse(X) and 8 * X.shape[0] * self.n_features > DEFAULT_BUDGET:
            only = self.used_features
        return read_columns(X, self.features, match_names=self.has_feature_names, only=only)

    def derived_columns(self, X: Any) -> "pd.DataFrame":
        """Return the columns that a pipeline, or CatBoost, makes of others, for raw rows.

        Exported effects need them next to the raw columns.

        Parameters
        ----------
        X : table or ndarray of shape (n_rows, n_raw)
            Rows with the columns that the model takes.

        Returns
        -------
        DataFrame of shape (n_rows, n_derived)
            Numbers, and labels of categories. Without columns where the model has raw ones only.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.decomposition import PCA
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> from treepurify import parse_model
        >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]])
        >>> model = make_pipeline(PCA(1), DecisionTreeRegressor()).fit(X, [0, 0, 1])
        >>> list(parse_model(model, X=X).derived_columns(X))
        ['pca0']
        """
        return derived_frame(X, self.features)

    @abstractmethod
    def fingerprint(self) -> str:
        """Return the SHA-256 of what predicts; names do not count."""

    @abstractmethod
    def facts(self) -> ModelFacts:
        """Return library, version, kind, notes, number of trees or terms, and fingerprint."""

    @abstractmethod
    def margin(self, X: Any, *, precision: Literal["library", "float64"] = "library") -> Array:
        """Return the raw prediction, shape (n_rows, n_outputs)."""


def unasked_check(parsed: "ParsedModel", columns: Columns, note: str = _NO_LIBRARY) -> ModelCheck:
    """Return the parsed model on rows for which its library is not asked, and why."""
    return ModelCheck(columns, parsed.margin(columns, precision="float64"), None, note)


def check_against_library(parsed: "ParsedModel", X: Any) -> ModelCheck | None:
    """Compare the parsed model with the library on at most 256 rows of `X`, evenly spaced.

    Raises
    ------
    ModelMismatchError
        If they differ by more than rounding.
    """
    if not isinstance(X, Columns):
        X = one_row(X)
        X = X if is_table(X) or is_sparse(X) else read_matrix(X)
    n_rows = row_count(X)
    if n_rows == 0:
        return None
    picked = np.unique(np.linspace(0, n_rows - 1, min(n_rows, _MOST_ROWS)).astype(np.intp))
    rows = take_rows(X, picked)
    sample = parsed.uncompared(rows)
    if isinstance(rows, Columns) or parsed.library is None or parsed.library.margin is None:
        return unasked_check(parsed, sample)
    margin = parsed.margin(sample, precision="float64")
    own = margin if parsed.accumulation == "float64" else parsed.margin(sample)
    library, note = _library_margin(rows, parsed, parsed.library.margin)
    if library is None:
        return ModelCheck(sample, margin, None, note)
    difference = float(np.max(np.abs(own - library), initial=0.0))
    scale = max(float(np.max(np.abs(library), initial=0.0)), 1e-300)
    if not difference <= _TOLERANCE[parsed.accumulation] * scale:
        again = None if parsed.library.parse is None else parsed.library.parse(rows)
        if again is not None and again.fingerprint() != parsed.fingerprint():
            return ModelCheck(
                sample, margin, None, "The model was trained again since it was read."
            )
        raise ModelMismatchError(
            f"the parsed {parsed.source.library} model differs from the library's raw prediction "
            f"by up to {difference:.3g} on {len(picked)} rows (margins up to {scale:.3g}). "
            f"{_advice(parsed, rows, sample)}"
        )
    rounding = float(np.max(np.abs(margin - library), initial=0.0))
    return ModelCheck(sample, margin, difference, "", rounding)


def _library_margin(
    rows: Any, parsed: "ParsedModel", margin: Callable[[Any, "ParsedModel"], Array | None]
) -> tuple[Array | None, str]:
    """Return the library's raw prediction; None, and why, where there is none."""
    try:
        library = margin(_in_order(rows, parsed), parsed)
    except ModelMismatchError:
        raise
    except FileRefusedError as error:
        return None, f"The model was not compared with its library: {error}"
    except Exception as error:  # noqa: BLE001 - any refusal of the library is reported, not hidden
        # Without the trace of a library's own stack.
        what = f"{type(error).__name__}: {str(error).partition('Stack trace')[0].strip()}"
        return None, f"The library did not predict on these rows: {what}"
    if library is None:
        return None, parsed.source.unasked or _NO_LIBRARY
    return library, ""


def _in_order(rows: Any, parsed: "ParsedModel") -> Any:
    """Return rows as the library takes them: in the order of the features, where it has no names.

    Columns that are to be ignored are left out.
    """
    names = table_names(rows)
    wanted = {spec.name: j for j, spec in enumerate(parsed.features)}
    ignored = {name for spec in parsed.features for name in spec.ignored}
    if names is None or any(spec.derivation for spec in parsed.features):
        return rows
    if parsed.library is None or parsed.library.has_names or not parsed.has_feature_names:
        kept = [j for j, name in enumerate(names) if name not in ignored or name in wanted]
    elif set(wanted) <= set(names):
        kept = [names.index(name) for name in wanted]
    else:
        return rows
    if kept == list(range(len(names))):
        return rows
    if hasattr(rows, "iloc"):
        return rows.iloc[:, kept]
    columns = [rows.columns[j] if hasattr(rows, "get_column") else names[j] for j in kept]
    return rows.select(columns)


def _advice(parsed: "ParsedModel", rows: Any, sample: Columns) -> str:
    """Say why the margins may differ, and what to do."""
    unknown = _unknown_labels(parsed, rows, sample)
    if unknown:
        return (
            f"The rows contain labels that the model does not know ({unknown}): it predicts for "
            "them as for labels that it knows, or refuses them. Leave these rows out, or give them "
            "labels of the training."
        )
    notes = "".join(f" Note: {note}." for note in parsed.source.notes)
    return (
        "Are the rows prepared as for training, with the same categories in the same order? If so, "
        f"please report this as a bug.{notes}"
    )


def _unknown_labels(parsed: "ParsedModel", rows: Any, sample: Columns) -> str:
    """Return the labels of rows that the model does not know, with their columns."""
    names, found = table_names(rows), []
    for j, (spec, codes) in enumerate(zip(parsed.features, sample.values, strict=True)):
        is_unknown = codes == spec.n_codes
        at = names.index(spec.name) if names and spec.name in names else j
        if not spec.is_categorical or spec.derivation is not None or not np.any(is_unknown):
            continue
        labels = np.asarray(table_column(rows, at), dtype=object)[is_unknown]
        listed = ", ".join(map(repr, dict.fromkeys(map(str, labels[:5]))))
        found.append(f"{listed} in {spec.name!r}")
    return "; ".join(found[:5])
