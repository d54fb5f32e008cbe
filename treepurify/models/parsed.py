"""What every parsed model offers, whatever its form."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from treepurify.budget import DEFAULT_BUDGET
from treepurify.links import Link
from treepurify.origin import ClassLabel, ModelFacts
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.rows.derived_columns import derived_frame
from treepurify.rows.table_reader import read_columns
from treepurify.rows.tables import is_sparse
from treepurify.typing import Array

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ModelSource", "ParsedModel", "plain_labels"]


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


class ParsedModel(ABC):
    """A model free of its library: features, outputs, facts and a margin."""

    features: tuple[FeatureSpec, ...]
    base: Array
    output_names: tuple[str, ...]
    link: Link
    source: ModelSource
    has_feature_names: bool

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

    def columns(self, X: Any) -> Columns:
        """Read a table into this model's columns.

        Of sparse rows whose columns would not all fit into memory, those that the model uses are
        read; all others are missing in the result.
        """
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
    def facts(self) -> ModelFacts:
        """Return library, version, kind, notes, number of trees or terms, and fingerprint."""

    @abstractmethod
    def margin(self, X: Any, *, precision: Literal["library", "float64"] = "library") -> Array:
        """Return the raw prediction, shape (n_rows, n_outputs)."""
