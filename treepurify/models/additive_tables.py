"""The canonical form of an additive model made of lookup tables (an EBM)."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from treepurify.links import Link
from treepurify.models.parsed import ModelSource, ParsedModel
from treepurify.origin import ModelFacts, array_fingerprint
from treepurify.rows.columns import FeatureSpec, numeric_cells
from treepurify.typing import Array, Indices


@dataclass(frozen=True, eq=False)
class TableTerm:
    """One term of an additive model: a table over the cells of its features.

    Along the axis of a numeric feature the cells are the intervals between `cuts`
    (``x < cuts[0]`` first, ``x >= cuts[-1]`` last) and then the missing cell. Along the
    axis of a categorical feature they are the codes 0 .. n_codes - 1, then the cell of
    every unseen value, then the missing cell.

    Parameters
    ----------
    features : tuple of int
        Positions of the features, increasing.
    cuts : tuple of (ndarray of float64 or None)
        Sorted cuts, one array per feature; None for categorical features.
    scores : ndarray of float64, shape (cells..., n_outputs)
        Effect on the margin scale.
    weights : ndarray of float64, shape (cells...), optional
        Mass of training rows in each cell, where the model keeps it.
    """

    features: tuple[int, ...]
    cuts: tuple[Array | None, ...]
    scores: Array
    weights: Array | None = None


@dataclass(frozen=True, eq=False, repr=False)
class AdditiveTables(ParsedModel):
    """An intercept plus terms, each a table over the cells of its own features.

    Parameters
    ----------
    terms : tuple of TableTerm
        The terms, in the order in which the library adds them up.
    base : ndarray of float64, shape (n_outputs,)
        Intercept on the margin scale.
    features : tuple of FeatureSpec
        The features, in the order of the model.
    output_names : tuple of str
        One name per output.
    link : Link
        From the margin to the response.
    source : ModelSource
        Library, version and kind.
    has_feature_names : bool
        Whether the names come from the user's training table.
    """

    terms: tuple[TableTerm, ...]
    base: Array
    features: tuple[FeatureSpec, ...]
    output_names: tuple[str, ...]
    link: Link
    source: ModelSource
    has_feature_names: bool = True
    # The same for all of them, and so not a field.
    accumulation: ClassVar[Literal["float64"]] = "float64"  # type: ignore[misc]

    @property
    def used_features(self) -> tuple[int, ...]:
        """Positions of the features of the terms, increasing."""
        return tuple(sorted({j for term in self.terms for j in term.features}))

    def of_features(self, positions: tuple[int, ...]) -> "AdditiveTables":
        """Return the same tables of some features, among them all that have one."""
        place = {j: new for new, j in enumerate(positions)}
        terms = tuple(
            replace(term, features=tuple(place[j] for j in term.features)) for term in self.terms
        )
        return replace(self, terms=terms, features=tuple(self.features[j] for j in positions))

    def part_along(self, positions: tuple[int, ...]) -> "AdditiveTables":
        """Return the tables over all of some features, without the base.

        Mixed differences along these features are those of the whole model.
        """
        terms = tuple(term for term in self.terms if set(positions).issubset(term.features))
        return replace(self, terms=terms, base=np.zeros_like(self.base))

    def facts(self) -> ModelFacts:
        """Return library, version, kind, notes, the number of terms, and the fingerprint."""
        return replace(self.source.facts(), terms=len(self.terms), sha256=self.fingerprint())

    def fingerprint(self) -> str:
        """Return the SHA-256 of the tables and the intercept; names do not count."""
        tables = [
            part
            for term in self.terms
            for part in (np.array(term.features, dtype=np.int64), *term.cuts, term.scores)
        ]
        return array_fingerprint((*tables, self.base))

    def margin(self, X: Any, *, precision: Literal["library", "float64"] = "library") -> Array:
        """Return the raw prediction, before the inverse link.

        Parameters
        ----------
        X : array_like or table of shape (n_rows, n_features)
            The rows.
        precision : {"library", "float64"}
            The same here: libraries add tables up in double precision.

        Returns
        -------
        ndarray of float64, shape (n_rows, n_outputs)
            Margins.

        Raises
        ------
        InvalidInputError
            If the columns do not fit the model.
        """
        columns = self.columns(X)
        total = np.tile(self.base, (columns.n_rows, 1))
        for term in self.terms:
            cells = tuple(
                term_cells(columns.values[j], self.features[j], cuts)
                for j, cuts in zip(term.features, term.cuts, strict=True)
            )
            total += term.scores[cells]
        return total


def term_cells(
    column: npt.NDArray[np.floating[Any]], spec: FeatureSpec, cuts: Array | None
) -> Indices:
    """Return the cell of each value along one axis of a term."""
    if cuts is None:
        missing = np.isnan(column)
        return np.where(missing, spec.n_codes + 1, np.where(missing, 0, column).astype(np.intp))
    return numeric_cells(column, cuts)
