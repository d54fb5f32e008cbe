"""The columns of a table as arrays of floats, and what a model knows about each of them."""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from treepurify.rows.category_hash import unnamed_label
from treepurify.typing import Array, Floats, Indices, Mask

# LightGBM's kZeroThreshold: the double value of 1e-35 stored as float32.
ZERO_THRESHOLD = float(np.float32(1e-35))


class TableSteps(Protocol):
    """The fitted steps of a pipeline, which make columns from those of a raw table."""

    @property
    def takes(self) -> tuple[str, ...]:
        """Names of the raw columns that they take."""

    def recipe(self, position: int) -> str:
        """Say how they make one of the columns: the same where other steps make the same."""

    def columns(self, X: Any, positions: Sequence[int]) -> list[npt.NDArray[Any]]:
        """Return some of the columns that they make of a raw table."""


@dataclass(frozen=True, eq=False)
class Derivation:
    """How a derived column is made from raw ones; equal ones make the same of any row.

    Parameters
    ----------
    steps : TableSteps
        What makes it.
    position : int
        Its position among the columns that the steps make.
    """

    steps: TableSteps
    position: int

    def __eq__(self, other: object) -> bool:
        """Return whether both make the same column."""
        if not isinstance(other, Derivation):
            return NotImplemented
        if self.steps is other.steps:
            return self.position == other.position
        return self.steps.recipe(self.position) == other.steps.recipe(other.position)

    def __hash__(self) -> int:
        """Return what equal ones share, without asking the steps what they have learned."""
        return hash(self.steps.takes)


@dataclass(frozen=True)
class FeatureSpec:
    """One input feature of a parsed model.

    Parameters
    ----------
    name : str
        Name of the feature; ``"x0"``, ``"x1"``, ... where the model has none.
    kind : {"numeric", "categorical"}
        A categorical feature is tested by code, a numeric one by ``x < cut``.
    categories : tuple of hashable, optional
        Label of each code 0, 1, ...; None where the model knows codes only. A numeric
        feature has labels where an ordered category stands for its position 0, 1, ...
    n_codes : int
        Number of codes a categorical feature distinguishes. Every other code, negative
        ones included, is one further level, "other", in the tests of the model.
    numbers_are : {"codes", "labels"}
        How a plain number in a categorical column is read: as a code (XGBoost, LightGBM)
        or as a label that is looked up in `categories` (scikit-learn, CatBoost, EBM).
    missing_value : float, optional
        A number that the model reads as missing, in addition to NaN.
    zero_is_missing : bool
        Whether ``abs(x) <= 1e-35`` (as float32) is read as missing (LightGBM).
    has_missing : bool
        Whether the model is known to have seen missing values in this feature.
    truncates_before_sign : bool
        Whether a number between -1 and 0 is truncated to the code 0 (LightGBM) instead of
        being an unknown code because it is negative (XGBoost).
    listed_codes : tuple of int, optional
        The numbers that stand for the codes 0, 1, ..., increasing, where a column holds numbers of
        which the model knows few (LightGBM with identifiers for categories).
    label_hashes : tuple of int, optional
        `category_hash` of the label of each code, where the model keeps these instead of
        the labels (CatBoost): they decide, and `categories` only serves for display.
    made_from : tuple of str
        Names of the raw columns that a transformed column of a pipeline is made from; empty
        for a raw column.
    derivation : Derivation, optional
        What makes such a column from raw tables; None where tables must bring it along, as after
        loading a file.
    ignored : tuple of str
        Names of columns that tables may have in addition to features; the same in every feature.
    absent_is_missing : bool, optional
        Whether an entry that sparse rows do not store is missing (XGBoost) instead of zero; None
        where models that were joined do not agree.
    missing_kinds : tuple of (str, int)
        The kinds of missing values (``"None"``, ``"NaN"``, ``"NA"``, ``"NaT"``) that the model
        does not read as missing, each with the code that it has instead (scikit-learn's None).
    reads_texts : bool
        Whether texts, and the labels of pandas' categories, that are numbers are read as these
        numbers, or codes, where the model knows no labels (scikit-learn, CatBoost, EBM, and what
        is behind a step that returns arrays), instead of being refused (XGBoost, LightGBM).
    stored_labels : tuple of str
        What XGBoost keeps of the label of each code where some are not ASCII: the bytes of all
        labels one after the other, cut after as many bytes as each label has characters (as
        Latin-1). Empty where labels are kept as they are, or are known from a table.
    ordered_labels : tuple of hashable
        The labels from first to last, where the column of the data has an order (pandas' ordered
        categories); empty otherwise. Figures follow it; the model knows nothing of it.
    """

    name: str
    kind: Literal["numeric", "categorical"] = "numeric"
    categories: tuple[Hashable, ...] | None = None
    n_codes: int = 0
    numbers_are: Literal["codes", "labels"] = "codes"
    missing_value: float | None = None
    zero_is_missing: bool = False
    has_missing: bool = False
    truncates_before_sign: bool = False
    listed_codes: tuple[int, ...] | None = None
    label_hashes: tuple[int, ...] | None = None
    made_from: tuple[str, ...] = ()
    derivation: Derivation | None = None
    ignored: tuple[str, ...] = ()
    absent_is_missing: bool | None = False
    missing_kinds: tuple[tuple[str, int], ...] = ()
    # Models that are joined need not agree on what some of them refuse.
    reads_texts: bool = field(default=False, compare=False)
    ordered_labels: tuple[Hashable, ...] = field(default=(), compare=False)
    stored_labels: tuple[str, ...] = ()

    @property
    def raw_columns(self) -> tuple[str, ...]:
        """Names of the raw columns that it is made from: its own, where it is one."""
        return self.made_from or (self.name,)

    @property
    def is_categorical(self) -> bool:
        """Whether the feature is tested by code."""
        return self.kind == "categorical"

    def counts_as_missing(self, values: Floats) -> Mask:
        """Return which numbers, or codes, the model reads as missing, NaN aside."""
        found = np.zeros(np.shape(values), dtype=np.bool_)
        if self.missing_value is not None:
            # XGBoost, the one library with such a number, compares in single precision.
            with np.errstate(over="ignore"):
                found |= np.float32(values) == np.float32(self.missing_value)
        return found | (np.abs(values) <= ZERO_THRESHOLD) if self.zero_is_missing else found

    @cached_property
    def labels(self) -> tuple[Hashable, ...]:
        """What is shown for each code: its label, or the number that the column has for it."""
        if self.categories is not None:
            return self.categories[: self.n_codes]
        return tuple(range(self.n_codes)) if self.listed_codes is None else self.listed_codes

    def label(self, value: float) -> Hashable | None:
        """Return the label that a number in the column stands for; None where there is none."""
        known = 0 <= value < len(self.labels) and value == int(value)
        return self.labels[int(value)] if known else None

    @cached_property
    def hash_only(self) -> tuple[int, ...]:
        """Codes of which only the hash is known, as no row had the label."""
        pairs = zip(self.labels, self.label_hashes or (), strict=False)
        return tuple(code for code, (label, h) in enumerate(pairs) if label == unnamed_label(h))

    @property
    def unnamed(self) -> tuple[int, ...]:
        """Codes of which only the hash is known; none where no label is known."""
        return self.hash_only if len(self.hash_only) < self.n_codes else ()

    def could_store(self, labels: Sequence[Hashable]) -> bool:
        """Whether `stored_labels` may be what XGBoost keeps of some labels, in their order."""
        stored, texts = self.stored_labels, [str(label) for label in labels]
        known = "".join(stored).encode("latin-1")
        if len(texts) != len(stored):
            return False
        if [text.encode() for text in texts] == [part.encode("latin-1") for part in stored]:
            return True
        lengths = [len(text) for text in texts] == [len(part) for part in stored]
        return lengths and "".join(texts).encode()[: len(known)] == known

    @cached_property
    def code_of(self) -> dict[Hashable, int]:
        """The code of each label, or of its hash where the model keeps these; the first counts."""
        hashed: Sequence[Hashable] | None = self.label_hashes
        known = (self.categories or ()) if hashed is None else hashed
        return {known[code]: code for code in reversed(range(len(known)))}


def ordered_labels(column: Any) -> tuple[Hashable, ...]:
    """Return the labels of a column from first to last; empty where they have no order.

    Parameters
    ----------
    column : pandas Series or other column
        Ordered categories of pandas have an order.
    """
    dtype: Any = getattr(column, "dtype", None)
    return tuple(dtype.categories) if getattr(dtype, "ordered", None) is True else ()


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a table, one float array a feature, in the order of the model.

    Parameters
    ----------
    features : tuple of FeatureSpec
        What the model knows about the columns.
    values : tuple of ndarray of shape (n_rows,)
        float32 or float64, possibly strided views of the caller's array. Missing is NaN.
        Categorical columns hold codes; the code ``n_codes`` stands for every value the
        model does not know.
    n_rows : int
        Number of rows.
    """

    features: tuple[FeatureSpec, ...]
    values: tuple[npt.NDArray[np.floating[Any]], ...]
    n_rows: int

    def matrix(self, start: int = 0, stop: int | None = None) -> Array:
        """Rows ``start:stop`` as one C-ordered float64 matrix of shape (rows, n_features)."""
        stop = self.n_rows if stop is None else min(stop, self.n_rows)
        matrix = np.empty((max(stop - start, 0), len(self.values)))
        for j, column in enumerate(self.values):
            matrix[:, j] = column[start:stop]
        return matrix

    def numbers(self) -> Array:
        """Return all rows with the codes by which a model's own library knows categories."""
        matrix = self.matrix()
        for j, spec in enumerate(self.features):
            if spec.listed_codes is not None:
                known = ~np.isnan(matrix[:, j])
                # A number that is not listed stands for those that the model does not know.
                codes = np.array([*spec.listed_codes, spec.listed_codes[-1] + 1.0])
                matrix[known, j] = codes[matrix[known, j].astype(np.intp)]
        return matrix

    def part(self, start: int, stop: int) -> "Columns":
        """Return the rows from `start` to `stop`, which may lie beyond the last."""
        values = tuple(column[start:stop] for column in self.values)
        return Columns(self.features, values, max(min(stop, self.n_rows) - start, 0))

    def take(self, rows: Indices, only: Sequence[int] | None = None) -> "Columns":
        """Return the given rows only; of some features alone, all others are missing."""
        if only is None or len(only) == len(self.values):
            return Columns(self.features, tuple(column[rows] for column in self.values), len(rows))
        values = [np.broadcast_to(np.nan, len(rows))] * len(self.values)
        for j in only:
            values[j] = self.values[j][rows]
        return Columns(self.features, tuple(values), len(rows))

    def only(self, features: Collection[int]) -> "Columns":
        """Return the rows with the values of some features; all others are missing."""
        missing = np.broadcast_to(np.nan, self.n_rows)
        values = [column if j in features else missing for j, column in enumerate(self.values)]
        return Columns(self.features, tuple(values), self.n_rows)

    def with_values(self, feature: int, values: Floats | np.floating[Any]) -> "Columns":
        """Return the rows with other values of a feature, one a row or one for all."""
        changed = list(self.values)
        changed[feature] = np.broadcast_to(values, self.n_rows)
        return Columns(self.features, tuple(changed), self.n_rows)

    def of_features(self, positions: Sequence[int]) -> "Columns":
        """Return the columns of some features only."""
        return Columns(
            tuple(self.features[j] for j in positions),
            tuple(self.values[j] for j in positions),
            self.n_rows,
        )


def joined_columns(tables: Sequence[Columns]) -> Columns:
    """Return the rows of several tables of the same features, one after the other."""
    values = [np.concatenate(column) for column in zip(*(t.values for t in tables), strict=True)]
    return Columns(tables[0].features, tuple(values), sum(t.n_rows for t in tables))


def numeric_cells(values: npt.NDArray[np.floating[Any]], cuts: Array) -> Indices:
    """Return the number of cuts <= each value; NaN is in a cell behind all others.

    Examples
    --------
    >>> import numpy as np
    >>> numeric_cells(np.array([-1.0, 0.0, 7.0, np.nan]), np.array([0.0, 5.0]))
    array([0, 1, 2, 3])
    """
    cells = np.searchsorted(cuts, values, side="right")
    cells[np.isnan(values)] = len(cuts) + 1
    return cells
