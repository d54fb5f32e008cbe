"""The decomposition: what every engine returns and everything downstream reads."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from treepurify.arguments import brief, check_choice, read_features
from treepurify.budget import DEFAULT_BUDGET
from treepurify.certificate import Certificate
from treepurify.components import (
    Component,
    ModelInputs,
    TensorComponent,
    covariances_on_rows,
    evaluate_each,
)
from treepurify.errors import UnknownComponentError
from treepurify.frozen import FrozenMapping
from treepurify.grids.grid import EncodedRows, Subset
from treepurify.links import Link
from treepurify.moments import covariances_of_stream
from treepurify.remainder import Difference, Remainder, SumOfParts
from treepurify.rows.columns import Columns
from treepurify.rows.reduction import RowStream
from treepurify.rows.sources import as_source
from treepurify.typing import Array

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from treepurify.shapley.interactions import InteractionIndex, ShapleyInteractions
    from treepurify.shapley.values import ShapleyValues
    from treepurify.verification import Verification

__all__ = ["Decomposition"]


@dataclass(frozen=True, eq=False, repr=False)
class Decomposition:
    """A model as an intercept plus one component per subset of features.

    The sum of the intercept, the components and the remainder is the model's margin.

    Parameters
    ----------
    intercept : ndarray of float64, shape (n_outputs,)
        Mean of the model under the measure, on the margin scale.
    components : mapping of tuple of int to Component
        Components by subset, ordered by size, then by feature.
    output_names : tuple of str
        One name per output.
    measure : str
        The distribution that the components refer to, in words.
    engine : str
        What made the decomposition.
    inputs : ModelInputs
        How the columns of a table are read.
    link : Link
        From the margin to the response.
    certificate : Certificate, optional
        How exact, how pure and how unique the components are.
    remainder : Remainder, optional
        The sum of the components above the requested order.
    diagnostics : mapping of str to object
        Facts about how it was made; JSON values only.
    rows : mapping of int to EncodedRows, optional
        The rows that are the measure, on the grid of each order.
    stored_covariances : mapping of tuple of int to ndarray of float64, optional
        Covariances with the model where they are known without rows; see `covariances`.
    stream : RowStream, optional
        The rows that are the measure, where they come in batches: `covariances` reads them again.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> d.predict(X)
    array([0., 0., 0., 1.])
    >>> d["x0", "x1"].values[..., 0]
    array([[ 0.25, -0.25],
           [-0.25,  0.25]])
    """

    intercept: Array
    components: Mapping[Subset, Component]
    output_names: tuple[str, ...]
    measure: str
    engine: str
    inputs: ModelInputs
    link: Link = field(default_factory=Link)
    certificate: Certificate | None = None
    remainder: Remainder | None = None
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    rows: Mapping[int, EncodedRows] | None = None
    stored_covariances: Mapping[Subset, Array] | None = None
    stream: RowStream | None = None

    def __post_init__(self) -> None:
        ordered = sorted(self.components, key=lambda subset: (len(subset), subset))
        frozen = FrozenMapping({subset: self.components[subset] for subset in ordered})
        object.__setattr__(self, "components", frozen)
        object.__setattr__(self, "diagnostics", FrozenMapping(self.diagnostics))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, in the order of the model."""
        return tuple(spec.name for spec in self.inputs.features)

    @property
    def n_outputs(self) -> int:
        """Number of outputs on the margin scale."""
        return len(self.intercept)

    @cached_property
    def covariances(self) -> Mapping[Subset, Array] | None:
        """Covariance of each component with the model under the measure, shape (n_outputs,).

        That of the remainder is under the empty subset. None where the measure gives no
        joint distribution of all features to compute it from.
        """
        tensors = self.tensor_components()
        if self.stored_covariances is not None or not tensors:
            return self.stored_covariances
        parts = self.remainder.parts if isinstance(self.remainder, SumOfParts) else ()
        if self.stream is not None:
            return covariances_of_stream(tensors, parts, self.stream)
        if self.rows is None:
            return None
        return covariances_on_rows(self.intercept, tensors, parts, self.rows)

    def term_name(self, subset: Subset) -> str:
        """Return the name of a component, such as ``"age & hours"``."""
        features = self.inputs.features
        if not isinstance(subset, tuple) or not set(subset) <= set(range(len(features))):
            raise UnknownComponentError(
                f"term_name takes positions of features from 0 to {len(features) - 1}, such as "
                f"(0, 1), got {brief(subset)}"
            )
        return " & ".join(features[j].name for j in subset)

    def __getitem__(self, key: str | int | tuple[str | int, ...]) -> Component:
        """Return the component of one or more features, by name or position."""
        subset = read_features(key, self.feature_names)
        if subset not in self.components:
            part = None if self.remainder is None else self.remainder.component(subset)
            if part is not None:
                return part
            known = ", ".join(repr(self.term_name(s)) for s in list(self.components)[:12])
            more = " ..." if len(self.components) > 12 else ""
            kept = max(map(len, self.components), default=0)
            where = f"; effects of more than {kept} features are together in d.remainder"
            raise UnknownComponentError(
                f"no component {self.term_name(subset)!r}; the model has {known}{more}"
                f"{where if self.remainder is not None and len(subset) > kept else ''}"
            )
        return self.components[subset]

    def __iter__(self) -> Iterator[Subset]:
        """Iterate over the subsets."""
        return iter(self.components)

    def __len__(self) -> int:
        """Return the number of components."""
        return len(self.components)

    def __contains__(self, key: object) -> bool:
        """Return whether there is a component of these features."""
        try:
            return read_features(key, self.feature_names) in self.components
        except (KeyError, TypeError):
            return False

    def predict(
        self,
        X: Any,
        *,
        scale: Literal["margin", "response"] = "margin",
        to: "str | Path | None" = None,
    ) -> Array:
        """Return the sum of the intercept, the components and the remainder.

        Parameters
        ----------
        X : array_like, table of shape (n_rows, n_features), or rows in batches
            The rows.
        scale : {"margin", "response"}
            Margin, or response after the inverse link.
        to : str or Path, optional
            Parquet file, or new folder, that values are written to batch by batch; needed for rows
            in batches.

        Returns
        -------
        ndarray of float64, shape (n_rows,) or (n_rows, n_outputs)
            One-dimensional for one output. With `to`, the path of what was written.
        """
        check_choice("scale", scale, ("margin", "response"))
        if to is not None or as_source(X) is not None:
            from treepurify.streamed_values import predictions_on_batches

            written: Array = predictions_on_batches(self, X, scale, to)
            return written
        margin = self.evaluate(X)
        values = self.link.inverse(margin) if scale == "response" else margin
        return values[:, 0] if self.n_outputs == 1 else values

    def evaluate(self, X: Any) -> Array:
        """Return the margin of the rows of `X`, shape (n_rows, n_outputs)."""
        columns = self.inputs.columns(X)
        total = np.tile(self.intercept, (columns.n_rows, 1))
        for values in self.parts_on(columns):
            total += values
        return total

    def contributions(
        self, X: Any, *, to: "str | Path | None" = None, memory_budget: int = DEFAULT_BUDGET
    ) -> "pd.DataFrame":
        """Return what each component adds to the margin of each row.

        Parameters
        ----------
        X : array_like, table of shape (n_rows, n_features), or rows in batches
            The rows.
        to : str or Path, optional
            See `predict`.
        memory_budget : int
            Bytes that the table may take.

        Returns
        -------
        DataFrame of shape (n_rows, 1 + n_components [+ 1])
            Columns ``"intercept"``, one per component, and ``"remainder"`` where there is one;
            for several outputs the columns are ``(output, term)`` pairs. Rows sum to the
            margin. The index is that of `X` where it has one. A feature that is called
            ``"intercept"`` or ``"remainder"`` has `` (feature)`` appended.

        Raises
        ------
        MemoryBudgetError
            If the table would not fit.
        """
        if to is not None or as_source(X) is not None:
            from treepurify.streamed_values import contributions_on_batches

            written: pd.DataFrame = contributions_on_batches(self, X, to, memory_budget)
            return written
        from treepurify.frames import contributions_table

        index = X.index if hasattr(X, "iloc") else None
        return contributions_table(self, self.inputs.columns(X), index, memory_budget)

    def importance(self) -> "pd.DataFrame":
        """Return how much each component matters, the largest variance first.

        Returns
        -------
        DataFrame
            One row per component and output. ``variance`` is under the measure;
            ``variance_share`` divides it by the sum over components, ``mean_absolute`` is the
            mean of ``|f_S|``; ``covariance_share`` is ``Cov(f_S, f) / Var f``, which sums to
            one also where features depend on each other (there it can be negative). NaN
            where a measure does not give it.
        """
        from treepurify.frames import importance_table

        return importance_table(self)

    def orthogonality(self) -> "pd.DataFrame":
        """Return every component paired with every component on a subset of its features.

        Returns
        -------
        DataFrame
            Columns ``term``, ``inside``, ``inner_product``, ``cosine``,
            ``conditional_mean``, the largest over the outputs, on the margin scale.
        """
        from treepurify.frames import orthogonality_table

        return orthogonality_table(self)

    def to_frame(self, key: str | int | tuple[str | int, ...] | None = None) -> "pd.DataFrame":
        """Return the cells of one component, or of all, as a long table.

        Parameters
        ----------
        key : str, int or tuple, optional
            The component, as in ``d[key]``; all components by default.

        Returns
        -------
        DataFrame
            One row per cell and output: the cell of each feature in words with its bounds, the
            effect, the effect before purification where known, and the mass. Columns are called
            after the feature: its name, and its name with ``" (from)"`` and ``" (to)"``. Where
            one of these is already the name of another column (``"output"``, ``"effect"``,
            ``"raw_effect"``, ``"mass"``, or one of an earlier feature), ``" (feature)"`` is
            appended to the feature's name.
        """
        from treepurify.frames import component_frame, decomposition_frame

        if key is None:
            return decomposition_frame(self)
        return component_frame(self, read_features(key, self.feature_names))

    def r_squared(self, X: Any) -> Array:
        """Return the share of the margin's variance on `X` that the components explain.

        Parameters
        ----------
        X : array_like, table of shape (n_rows, n_features), or rows in batches
            The rows, for example some that the model was not trained on.

        Returns
        -------
        ndarray of float64, shape (n_outputs,)
            One minus the mean square of the remainder over the variance of the margin; one
            where there is no remainder.
        """
        from treepurify.streamed_values import explained_share

        return explained_share(self, X)

    def verify(self, model: Any, X: Any) -> "Verification":
        """Compare the decomposition with a model on every row of `X`.

        Parameters
        ----------
        model : object, str or Path
            The model that was decomposed: trained, parsed, or a model file. A trained model
            is asked for its own raw prediction.
        X : array_like, table of shape (n_rows, n_features), or rows in batches
            The rows.

        Returns
        -------
        Verification
            Largest difference on the margin scale, absolute and relative.
        """
        from treepurify.verification import verify

        return verify(self, model, X)

    def shapley_values(
        self, X: Any, *, to: "str | Path | None" = None, memory_budget: int = DEFAULT_BUDGET
    ) -> "ShapleyValues":
        """Split each component evenly among its features, on each row.

        Parameters
        ----------
        X : array_like, table of shape (n_rows, n_features), or rows in batches
            The rows.
        to : str or Path, optional
            See `predict`; what is written is the table of `ShapleyValues.to_frame`.
        memory_budget : int
            Bytes that the values may take.

        Returns
        -------
        ShapleyValues
            See `treepurify.shapley.values.shapley_values`.
        """
        if to is not None or as_source(X) is not None:
            from treepurify.streamed_values import shapley_values_on_batches

            written: ShapleyValues = shapley_values_on_batches(self, X, to, memory_budget)
            return written
        from treepurify.shapley.values import shapley_values

        return shapley_values(self, X, memory_budget=memory_budget)

    def shapley_interactions(
        self,
        X: Any,
        *,
        order: int = 2,
        index: "InteractionIndex" = "k-SII",
        memory_budget: int = DEFAULT_BUDGET,
    ) -> "ShapleyInteractions":
        """Give the effects on each row to groups of at most `order` features.

        Parameters
        ----------
        X : array_like or table of shape (n_rows, n_features)
            The rows.
        order : int
            Largest size of a group.
        index : {"k-SII", "SII", "STII", "components"}
            The interaction index.
        memory_budget : int
            Bytes that the values may take.

        Returns
        -------
        ShapleyInteractions
            See `treepurify.shapley.interactions.shapley_interactions`.
        """
        from treepurify.shapley.interactions import shapley_interactions

        return shapley_interactions(self, X, order=order, index=index, memory_budget=memory_budget)

    def save(self, path: "str | Path") -> None:
        """Write the decomposition to one file; `treepurify.load` reads it back.

        The file is a ZIP archive of a JSON document and NumPy arrays. Loading it runs no code.
        """
        from treepurify.storage import save_decomposition

        save_decomposition(self, path)

    def __repr__(self) -> str:
        """Return a short description with the largest components."""
        from treepurify.frames import text_summary

        return text_summary(self)

    def _repr_html_(self) -> str:
        from treepurify.frames import html_summary

        return html_summary(self)

    def parts_on(self, columns: Columns) -> Iterator[Array]:
        """Yield the values of each component on some rows, and those of the remainder last."""
        rest, components = self.remainder, tuple(self.components.values())
        explained = np.zeros((columns.n_rows, self.n_outputs))
        for values in evaluate_each(components, columns):
            explained += values
            yield values
        identities = [id(component) for component in components]
        if isinstance(rest, Difference) and [id(c) for c in rest.components] == identities:
            yield rest.beyond(columns, explained)
        elif rest is not None:
            yield rest.evaluate(columns)

    def tensor_components(self) -> dict[Subset, TensorComponent]:
        """Return the components that are tables."""
        return {s: c for s, c in self.components.items() if isinstance(c, TensorComponent)}
