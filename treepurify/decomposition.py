"""The decomposition: what every engine returns and everything downstream reads."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from importlib import import_module
from operator import iadd
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from treepurify.arguments import brief, check_choice
from treepurify.budget import DEFAULT_BUDGET
from treepurify.certificate import Certificate
from treepurify.collinear import CollinearEffects, find_collinear
from treepurify.components import Component, ModelInputs, OnRows, TensorComponent
from treepurify.errors import UnknownComponentError
from treepurify.frozen import FrozenMapping
from treepurify.grids.grid import Subset
from treepurify.links import Link
from treepurify.moments import GridRows, MeasureRows, moments_on_rows, rows_on_grids
from treepurify.origin import Call, Origin
from treepurify.progress import progress_report
from treepurify.ranking import Ranking, rank
from treepurify.remainder import Remainder, SumOfParts, evaluate_parts, stack_rows, used_features
from treepurify.row_results import (
    Groups,
    InteractionIndex,
    ShapleyInteractions,
    ShapleyValues,
    Verification,
)
from treepurify.rows.columns import Columns
from treepurify.rows.reduction import CopiedRows, RowStream, rows_in_memory
from treepurify.rows.row_weights import read_row_weights
from treepurify.rows.source_reader import source_reader
from treepurify.rows.sources import TableSource, open_rows
from treepurify.spread import Spread
from treepurify.terms import read_features, term_name
from treepurify.typing import Array

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    File = str | Path | None

# Where what a method does is found. These modules read decompositions, so that they are imported
# when a method is first called: every import of the package points one way.
_DONE_BY = {
    "predict": "row_values.predictions",
    "contributions": "row_values.contributions",
    "r_squared": "row_values.share_explained",
    "shapley_values": "row_values.split_evenly",
    "shapley_interactions": "shapley.interactions.shapley_interactions",
    "shapley_residuals": "shapley.residuals.shapley_residuals",
    "importance": "frames.importance_table",
    "orthogonality": "frames.orthogonality_table",
    "to_frame": "frames.frame_of",
    "verify": "verification.verify",
    "without": "evidence.editing.without",
    "only": "evidence.editing.only",
    "with_effect": "evidence.editing.with_effect",
    "as_trained": "comparing.apparent.as_trained",
    "save": "storage.save_decomposition",
    "__repr__": "summary.text_summary",
    "_repr_html_": "summary.notebook_summary",
}
# What parts of the package read, and users do not call.
_INTERNAL = {
    *("stored_covariances", "stored_collinear", "covariances_at_hand", "rank"),
    *("given", "row_blocks", "row_stream", "evaluate_parts", "has_raw_effects"),
}
_MOST_NAMED = 12

Key = str | int | tuple[str | int, ...]
Absorb = bool | Literal["main"]
Scale = Literal["margin", "response"]


@dataclass(frozen=True, eq=False, repr=False)
class Decomposition(OnRows):
    """A model as an intercept, effects and a remainder, which sum to its margin.

    A main effect belongs to one feature, an interaction to several. Effects are called components
    in the code. `purify` and the other engines return decompositions.

    Parameters
    ----------
    intercept : ndarray of float64, shape (n_outputs,)
        Mean of the model under the distribution of the features, on the margin scale.
    components : mapping of tuple of int to Component
        Effects by subset, ordered by size, then by feature.
    output_names : tuple of str
        One name per output.
    measure : str
        The distribution under which effects are averages, in words.
    engine : str
        The engine that computed the decomposition.
    inputs : ModelInputs
        How the columns of a table are read.
    link : Link
        The function from the margin to the response.
    call : Call, optional
        The call of the public function that returned the decomposition, before any edits.
    origin : Origin
        The model, the number of rows, the method and the edits, for programs to read.
    certificate : Certificate, optional
        How accurate the effects are, and which of them the data cannot determine.
    remainder : Remainder, optional
        The sum of the effects above the requested order.
    diagnostics : mapping of str to object
        Details of the computation, for people to read; JSON values only.
    rows : mapping of int to EncodedRows, or RowStream, optional
        The rows that represent the distribution: on the grid of each order, or in batches, which
        are read again by `covariances` and others.
    given : CopiedRows, optional
        The original rows, if `rows` are smoothed copies of them.
    stored_covariances : mapping of tuple of int to ndarray of float64, optional
        Covariances with the model if they are known without rows; see `covariances`.
    stored_collinear : tuple of CollinearEffects, optional
        Effects to be read together, as read from a file; see `collinear`.
    spread : Spread, optional
        The same effects in several trainings of the model, if there were several.

    See Also
    --------
    treepurify.purify : Main effects and interactions of a tree model.
    treepurify.load : Read a decomposition that was saved.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> d.predict(X)
    array([0., 0., 0., 1.])
    >>> d["x0", "x1"].values[..., 0].tolist()
    [[0.25, -0.25], [-0.25, 0.25]]
    >>> d.without("x0 & x1").predict(X)
    array([-0.25,  0.25,  0.25,  0.75])
    """

    intercept: Array
    components: Mapping[Subset, Component]
    output_names: tuple[str, ...]
    measure: str
    engine: str
    inputs: ModelInputs
    link: Link = field(default_factory=Link)
    call: Call | None = None
    origin: Origin = field(default_factory=Origin)
    certificate: Certificate | None = None
    remainder: Remainder | None = None
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    rows: MeasureRows | None = None
    given: CopiedRows | None = None
    stored_covariances: Mapping[Subset, Array] | None = None
    stored_collinear: tuple[CollinearEffects, ...] | None = None
    spread: Spread | None = None

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
    def grid_rows(self) -> GridRows | None:
        """The rows that represent the distribution, in cells; a sample of rows in batches.

        None if the distribution is not that of rows, or if they are not stored.
        """
        rest = self.remainder
        parts = rest.parts if isinstance(rest, SumOfParts) else ()
        tables = [*self.tensor_components().values(), *parts]
        return None if self.rows is None else rows_on_grids(self.rows, tables)

    @cached_property
    def covariances(self) -> Mapping[Subset, Array] | None:
        """Covariance of each effect with the model, shape (n_outputs,).

        In squared units of the margin. That of the remainder is under the empty subset. None if
        there is no joint distribution of all features to compute it from.
        """
        tensors = self.tensor_components()
        if self.stored_covariances is not None or not tensors:
            return self.stored_covariances
        if self.rows is None:
            return None
        parts = self.remainder.parts if isinstance(self.remainder, SumOfParts) else ()
        found = moments_on_rows([*tensors.values(), *parts], self.rows, apart=True).covariances
        rest = {(): np.asarray(found[len(tensors) :].sum(axis=0))} if parts else {}
        return dict(zip(tensors, found, strict=False)) | rest

    @cached_property
    def collinear(self) -> tuple[CollinearEffects, ...]:
        """Effects whose features say much the same, so that they must be read together.

        They largely cancel or are near copies. Empty if the
        distribution is not that of rows, or gives no covariances.
        """
        if self.stored_collinear is not None:
            return self.stored_collinear
        variance = float(np.sum([*(self.covariances or {}).values()]))
        return find_collinear(
            self.tensor_components(), variance, self.grid_rows, self.origin.copies
        )

    @cached_property
    def ranking(self) -> Ranking:
        """The effects in the order of their size, with their shares."""
        return self.rank()

    def rank(self, *, read_rows: bool = True) -> Ranking:
        """Return the effects in their order; without `read_rows`, no rows in batches are read."""
        variances = {subset: part.variance for subset, part in self.components.items()}
        if self.remainder is not None:
            variances[()] = self.remainder.variance
        if read_rows or not self._in_batches or "ranking" in vars(self):
            return rank(variances, self.covariances, lambda: self.collinear)
        known = self.stored_collinear or ()
        return rank(variances, self.covariances_at_hand, lambda: known)

    @cached_property
    def has_raw_effects(self) -> bool:
        """Whether any effect is known as it was before purification."""
        return any(component.raw is not None for component in self.tensor_components().values())

    @property
    def covariances_at_hand(self) -> Mapping[Subset, Array] | None:
        """The covariances, unless rows in batches would have to be read again for them."""
        is_known = "covariances" in vars(self) or self.stored_covariances is not None
        return None if self._in_batches and not is_known else self.covariances

    @property
    def _in_batches(self) -> bool:
        return isinstance(self.rows, RowStream) and not self.rows.is_table

    def term_name(self, subset: Subset) -> str:
        """Return the name of an effect, such as ``"age & hours"``."""
        features = self.inputs.features
        if not isinstance(subset, tuple) or not set(subset) <= set(range(len(features))):
            raise UnknownComponentError(
                f"term_name takes positions of features from 0 to {len(features) - 1}, such as "
                f"(0, 1), got {brief(subset)}"
            )
        return term_name(features[j].name for j in subset)

    def __getitem__(self, key: Key) -> Component:
        """Return the component of one or more features, by name or position."""
        subset = read_features(key, self.feature_names)
        part = self.components.get(subset)
        if part is None and self.remainder is not None:
            part = self.remainder.component(subset)
        if part is None:
            raise UnknownComponentError(self._why_absent(subset))
        return part

    def _why_absent(self, subset: Subset) -> str:
        """Return why there is no component of a subset, with the names of those that there are."""
        name, order = self.term_name(subset), max(map(len, self.components), default=0)
        known = ", ".join([repr(self.term_name(s)) for s in self.components][:_MOST_NAMED])
        more = " ..." * (len(self.components) > _MOST_NAMED)
        used = used_features(self.components, self.remainder)
        unused = [repr(self.feature_names[j]) for j in subset if j not in used]
        why = f"no effect {name!r}"
        if unused:
            why += (
                ": it is zero on every row, since the model does not use "
                f"{' and '.join(unused)}, or their effects were removed"
            )
        why += f"; the model has {known or 'no effects'}{more}"
        if not unused and self.remainder is not None and len(subset) > order:
            why += f"; effects of more than {order} features are together in d.remainder"
        return why

    def _done_by(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Return what the function behind a method returns for this decomposition."""
        module, function = _DONE_BY[method].rsplit(".", 1)
        found = getattr(import_module(f"treepurify.{module}"), function)
        return found(self, *arguments, **options)

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

    def predict(self, X: Any, *, scale: Scale = "margin", to: "File" = None) -> Array:
        """Return the sum of the intercept, the effects and the remainder.

        Parameters
        ----------
        X : array_like, table of shape (n_rows, n_features), or rows in batches
            The rows.
        scale : {"margin", "response"}
            The margin, or the response after the inverse link.
        to : str or Path, optional
            Parquet file, or new folder, that is written; required for rows in batches.

        Returns
        -------
        ndarray of float64, shape (n_rows,) or (n_rows, n_outputs)
            One-dimensional for one output. With `to`, the path of what was written is returned.

        See Also
        --------
        Decomposition.contributions : Effects on each row.
        Decomposition.verify : Compare with the model on all rows.
        treepurify.export.to_sql : The predictions as a SQL query.
        """
        check_choice("scale", scale, ("margin", "response"))
        return self._done_by("predict", X, scale, to)

    def on_rows(self, X: Any) -> Array:
        """Return the margin of the rows of `X`, shape (n_rows, n_outputs)."""
        _, blocks = self.row_blocks(X)
        return stack_rows(
            reduce(iadd, self.evaluate_parts(columns), np.tile(self.intercept, (columns.n_rows, 1)))
            for columns in blocks
        )

    def contributions(
        self,
        X: Any,
        *,
        scale: Scale = "margin",
        memory_budget: int = DEFAULT_BUDGET,
    ) -> "pd.DataFrame":
        """Return the contribution of each effect to the margin of each row.

        Parameters
        ----------
        X : array_like or table of shape (n_rows, n_features)
            The rows.
        scale : {"margin", "response"}
            ``"response"`` is refused unless it equals the margin: effects sum to the margin only.
        memory_budget : int
            Bytes that the table may take; more is refused.

        Returns
        -------
        DataFrame of shape (n_rows, 1 + n_components [+ 1])
            ``"intercept"``, one column per effect, and ``"remainder"`` if there is one; for
            several outputs ``(output, term)`` pairs. Rows sum to the margin. ``" (feature)"`` is
            appended to the name of a feature that is called ``"intercept"`` or ``"remainder"``.
            The index is that of `X`.

        See Also
        --------
        Decomposition.predict : The sum of all effects.
        Decomposition.shapley_values : Effects split among their features, on each row.
        treepurify.plots.waterfall : The prediction of one row, effect by effect.
        """
        return self._done_by("contributions", X, scale, memory_budget)

    def importance(self, order: int | None = None, *, details: bool = False) -> "pd.DataFrame":
        """Return the size of each effect, the largest first.

        Parameters
        ----------
        order : int, optional
            Number of features of the effects: 1 for main effects, 2 for pairs. By default all
            effects and the remainder.
        details : bool
            Whether to return all columns, with one row per effect and output.

        Returns
        -------
        DataFrame
            One row per effect. ``size`` is its standard deviation in the units of the prediction,
            for several outputs the root of the mean square over the outputs. ``share`` is
            ``Cov(f_S, f) / Var f``: shares sum to one, and a negative one means that the effect
            offsets others. It is NaN if the distribution does not give it. Effects rank by size.
            Those that largely cancel are named in ``group``, a column that appears only if there
            are any, and have the rank of their sum.

            With `details`, ``size`` and ``share`` are those on each output, and there are also the
            number of features (``order``), the size and share of the group or of the effect alone
            (``joint_size`` and ``joint_share``, over all outputs), the mean of ``|f_S|``
            (``mean_absolute``) and, with a `spread`, how far trainings agree; see
            `Spread.importance`.

        See Also
        --------
        Decomposition.to_frame : An effect as a table.
        with_sampling_error : The error of effects because the rows are a sample.
        treepurify.plots.importance : Figure of the sizes.
        """
        return self._done_by("importance", order, details)

    def orthogonality(self) -> "pd.DataFrame":
        """Return each effect paired with each effect on a subset of its features.

        Returns
        -------
        DataFrame
            Columns ``term``, ``inside`` (the effect on fewer features), ``inner_product``,
            ``cosine`` and ``conditional_mean``; each number is the largest over the outputs. Inner
            products are in squared units of the margin, conditional means in its units.
        """
        return self._done_by("orthogonality")

    def to_frame(self, key: Key | None = None) -> "pd.DataFrame":
        """Return the values of one effect, or of all, as a long table.

        Parameters
        ----------
        key : str, int or tuple, optional
            The effect, as in ``d[key]``; all effects by default.

        Returns
        -------
        DataFrame
            One row per cell (a combination of intervals or categories) and output: the interval or
            category of each feature in words and its bounds, the effect on the margin scale, the
            effect before purification if it is known, and the mass. Columns of a feature have its
            name, and its name with ``" (from)"`` and ``" (to)"``; ``" (feature)"`` is appended if
            another column has that name. Categories that the model knows only by hashes (CatBoost)
            and that no row has share one row, "n other categories".

        See Also
        --------
        Decomposition.importance : The table of all effects.
        """
        subset = None if key is None else read_features(key, self.feature_names)
        return self._done_by("to_frame", subset)

    def r_squared(self, X: Any) -> Array:
        """Return the share of the margin's variance on `X` that the effects explain.

        Parameters
        ----------
        X : array_like, table of shape (n_rows, n_features), or rows in batches
            The rows, for example some that the model was not trained on. Of rows in batches, at
            most 100 000 are drawn.

        Returns
        -------
        ndarray of float64, shape (n_outputs,)
            One minus the mean square of the remainder over the margin's variance.
        """
        return self._done_by("r_squared", X)

    def verify(self, model: Any, X: Any) -> Verification:
        """Compare the decomposition with a model on every row of `X`.

        Parameters
        ----------
        model : object, str or Path
            The model that was decomposed: trained, parsed, or a model file. A trained model
            computes its own raw prediction.
        X : array_like, table of shape (n_rows, n_features), or rows in batches
            The rows.

        Returns
        -------
        Verification
            The largest difference, on the margin scale and relative to the largest margin.
        """
        return self._done_by("verify", model, X)

    def shapley_values(
        self,
        X: Any,
        *,
        groups: Groups | None = None,
        memory_budget: int = DEFAULT_BUDGET,
    ) -> ShapleyValues:
        """Split each effect evenly among its features, on each row.

        Parameters
        ----------
        X : array_like or table of shape (n_rows, n_features)
            The rows.
        groups : {"raw"}, optional
            ``"raw"``: features that are made from the same raw columns, directly or through
            others, get one value together, as one player of the game. These values can be
            understood without knowing derived columns. By default each feature gets a value.
        memory_budget : int
            Bytes that the values may take.

        Returns
        -------
        ShapleyValues
            On the margin scale.

        See Also
        --------
        interventional_shapley_values : Shapley values against background rows.
        Decomposition.shapley_interactions : Effects on each row, of groups of features.
        treepurify.export.to_shap : Shapley values for the figures of shap.
        """
        return self._done_by("shapley_values", X, memory_budget, groups)

    def shapley_interactions(
        self,
        X: Any,
        *,
        order: int = 2,
        index: InteractionIndex = "k-SII",
        memory_budget: int = DEFAULT_BUDGET,
    ) -> ShapleyInteractions:
        """Divide the effects of each row among groups of at most `order` features.

        Parameters
        ----------
        X : array_like or table of shape (n_rows, n_features)
            The rows.
        order : int
            Largest size of a group.
        index : {"SII", "k-SII", "STII", "FSII"}
            The interaction index by its name in shapiq: see
            `treepurify.shapley.interactions.shapley_interactions`.
        memory_budget : int
            Bytes that the values may take.

        Returns
        -------
        ShapleyInteractions
            On the margin scale.
        """
        options = {"order": order, "index": index, "memory_budget": memory_budget}
        return self._done_by("shapley_interactions", X, **options, report=progress_report(True))

    def shapley_residuals(
        self, X: Any, *, groups: Any = None, memory_budget: int = DEFAULT_BUDGET
    ) -> "pd.DataFrame":
        """Return how far contributions of features to coalitions are from constant.

        Parameters
        ----------
        X : array_like or table of shape (n_rows, n_features)
            The rows.
        groups : sequence of str, int or tuple of these, optional
            Groups of features, each named like an effect; by default every feature alone.
        memory_budget : int
            Bytes that the coefficients may take.

        Returns
        -------
        DataFrame of shape (n_rows, n_groups)
            Relative to the size of the contributions: at least 0 and below 1, and zero if those of
            the group do not depend on the other features. See
            `treepurify.shapley.residuals.shapley_residuals`.
        """
        options = {"groups": groups, "memory_budget": memory_budget}
        return self._done_by("shapley_residuals", X, **options, report=progress_report(True))

    def without(self, *terms: Key, absorb: Absorb = False) -> "Decomposition":
        """Remove effects, named as in ``d[key]`` or as in tables, or ``"remainder"``.

        Parameters
        ----------
        *terms : str, int or tuple
            The effects.
        absorb : bool or "main"
            Whether to adjust the remaining effects (or with ``"main"`` the remaining main effects)
            so that they replace the removed ones as well as they can, by least squares under the
            rows that represent the distribution.

        Returns
        -------
        Decomposition
            Pure under the same distribution. Its certificate says which effects were removed and
            how much predictions change; ``origin.edits`` has the same as numbers.

        Raises
        ------
        InvalidInputError
            If there is no such effect, or if there are no rows for `absorb`.

        See Also
        --------
        Decomposition.only : Retain some effects.
        without_features : Remove all effects of some features.
        simplify : The fewest effects that the held-out loss allows.
        """
        return self._done_by("without", terms, absorb=absorb)

    def only(self, *terms: Key, absorb: Absorb = False) -> "Decomposition":
        """Keep some effects and remove all others, and the remainder; see `without`."""
        return self._done_by("only", terms, absorb=absorb)

    def with_effect(self, key: Key, values: npt.ArrayLike) -> "Decomposition":
        """Replace the values of an effect, and purify the edited model.

        Parameters
        ----------
        key : str, int or tuple
            The effect, as in ``d[key]``.
        values : array_like of shape (cells...) or (cells..., n_outputs)
            The new value in each cell of its table, on the margin scale. The part that fewer
            features can express moves to their effects, and the mean to the intercept.
        """
        return self._done_by("with_effect", key, values)

    def as_trained(self) -> "Decomposition":
        """Return the effects as the model stores them, each shifted to mean zero.

        They sum to the same model, but they are the effects that the trees contain, or that the
        plots of an EBM show. Compare them with the purified ones to see what purification moved.

        Returns
        -------
        Decomposition
            The same model with the same intercept, on the margin scale. Effects that the model does
            not store are zero everywhere.

        Raises
        ------
        InvalidInputError
            If the stored terms are not known for every effect, or there is a remainder: they exist
            for EBMs, and for trees of depth two or less.

        See Also
        --------
        compare : Differences of two decompositions, effect by effect.
        treepurify.plots.overlay : One main effect of several decompositions.

        Examples
        --------
        >>> import numpy as np, treepurify as tp
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
        >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
        >>> d.as_trained()["x0", "x1"].values[..., 0]
        array([[-0.25, -0.25],
               [-0.25,  0.75]])
        """
        return self._done_by("as_trained")

    def save(self, path: "str | Path") -> None:
        """Write the decomposition to one file; `treepurify.load` reads it back.

        The file is a ZIP archive of a JSON document and NumPy arrays. Loading it runs no code.

        See Also
        --------
        load : Read a decomposition from a file.
        """
        self._done_by("save", path)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out rows in batches, which files or the caller's functions hold."""
        return self.__dict__ | ({"rows": None} if self._in_batches else {})

    def __dir__(self) -> list[str]:
        """Return the names of what users call."""
        return [name for name in super().__dir__() if name not in _INTERNAL]

    def __repr__(self) -> str:
        """Return a short description with the largest components."""
        return self._done_by("__repr__")

    def _repr_html_(self) -> str:
        return self._done_by("_repr_html_")

    def row_blocks(self, X: Any) -> tuple[int, Iterator[Columns]]:
        """Return the number of rows, and the rows for `evaluate_parts`, sparse ones in blocks."""
        return self.inputs.blocks(X, used_features(self.components, self.remainder))

    def row_stream(
        self, X: Any, weight: Any = None, more_features: Sequence[int] = ()
    ) -> RowStream:
        """Return rows with the columns that the parts read, and those of `more_features`.

        A table is read at once; `weight` are the weights of its rows, or the name of their column.
        """
        inputs, source = self.inputs, open_rows(X)
        if isinstance(source, TableSource):
            columns = inputs.columns(source.table)
            return rows_in_memory(columns, read_row_weights(weight, columns.n_rows))
        wanted = sorted({*used_features(self.components, self.remainder), *more_features})
        options = {"match_names": inputs.match_names, "weight": weight}
        return RowStream(source, source_reader(source, inputs.features, wanted, **options))

    def evaluate_parts(self, columns: Columns) -> Iterator[Array]:
        """Yield the values of each effect, then of the remainder if there is one."""
        components = tuple(self.components.values())
        return evaluate_parts(components, self.remainder, columns, self.n_outputs)

    def tensor_components(self) -> dict[Subset, TensorComponent]:
        """Return the effects that are tables."""
        return {s: c for s, c in self.components.items() if isinstance(c, TensorComponent)}
