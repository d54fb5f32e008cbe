"""What a distribution is, and those without smoothing: rows, margins, mixtures, a given table."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from treepurify.arguments import (
    brief,
    check_choice,
    check_flag,
    check_number,
    check_whole,
    read_numbers,
)
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Grid, Subset
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import RowWeights, within_range
from treepurify.typing import Array
from treepurify.weights.cell_counts import RowsOnGrid, count_rows

MassTables = dict[Subset, Array]

_SMALLEST = 1e-280


class Weighting(ABC):
    """A distribution of the features, over the cells of a grid.

    A cell is a combination of one interval or category of each feature. The tables of a weighting
    must be margins of one joint distribution, because a functional ANOVA refers to one
    distribution of all features. A subclass needs a `name` and `tables`; the other
    members declare how an engine may use it.

    Attributes
    ----------
    name : str
        The name of the distribution, one word.
    needs_rows : bool
        Whether rows are required.
    is_product : bool
        Whether features are independent, which allows the closed form for deep trees.
    plenty : int, optional
        Effective number of rows from which on `fitted` need not see them; None if it always must.

    See Also
    --------
    treepurify.purify : Takes one as `weights`.
    treepurify.weights.Auto : The default.
    """

    name: ClassVar[str]
    needs_rows: ClassVar[bool] = False
    is_product: ClassVar[bool] = False
    plenty: ClassVar[int | None] = None

    @abstractmethod
    def tables(self, grid: Grid, rows: RowsOnGrid | None, subsets: Sequence[Subset]) -> MassTables:
        """Return the mass of the cells of each subset.

        Parameters
        ----------
        grid : Grid
            The cells.
        rows : EncodedRows, CountedRows or None
            The data on that grid, row by row or counted; see `counts_are_enough`.
        subsets : sequence of tuple of int
            The subsets whose tables are returned.

        Returns
        -------
        dict of tuple of int to ndarray of float64, shape (cells...)
            Tables that sum to one.
        """

    def describe(self) -> str:
        """Return the distribution in words, as in `Decomposition.measure`."""
        return self.name

    @property
    def share_of_rows(self) -> float | None:
        """Share of the rows, if the distribution is a mixture of them with independent features.

        The other part of the mixture is `beside_rows`. None if the distribution is not such a
        mixture. Deep trees can be projected under one.
        """
        return None

    @property
    def beside_rows(self) -> "Weighting":
        """The distribution of independent features with which the rows are mixed.

        It is required only if `share_of_rows` is a number.
        """
        raise NotImplementedError(
            f"{type(self).__name__} defines share_of_rows, so it must define beside_rows as well"
        )

    @property
    def counts_are_enough(self) -> bool:
        """Whether `tables` also takes rows that were counted, in batches or by feature."""
        return not self.needs_rows

    def fitted(
        self, columns: Columns | None, row_weights: RowWeights, memory_budget: int
    ) -> "FittedMeasure":
        """Return the weighting fitted to the rows; by default the rows are not changed.

        Parameters
        ----------
        columns : Columns, optional
            The rows; None where there are none, or more than `plenty`.
        row_weights : ndarray of float64, shape (n_rows,), optional
            Their weights; None for equal weights.
        memory_budget : int
            Bytes that other rows may take.
        """
        return FittedMeasure(self, columns, row_weights)


@dataclass(frozen=True, eq=False)
class FittedMeasure:
    """What a weighting makes of the rows.

    Parameters
    ----------
    weighting : Weighting
        The weighting that holds from here on.
    columns : Columns, optional
        The rows that it refers to; None where there are none.
    row_weights : ndarray of float64, shape (n_rows,), optional
        Their weights; None for equal weights.
    facts : mapping of str to object
        What was chosen and why, for `Decomposition.diagnostics`.
    note : str
        What a reader of the certificate must know.
    copies : int
        How often each of the rows that were given is among `columns`, moved: all rows come once,
        then all of them again.
    """

    weighting: Weighting
    columns: Columns | None
    row_weights: RowWeights
    facts: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    copies: int = 1


def normalised(table: Array, what: str) -> Array:
    """Return `table` divided by its sum.

    Masses below 1e-280 of the largest become zero: their products with effects would lose
    digits at the lower end of double precision.

    Raises
    ------
    InvalidInputError
        If an entry is negative or not finite, or all are zero.
    """
    # A comparison with NaN is false.
    if not (table.min(initial=np.inf) >= 0 and table.max(initial=0.0) < np.inf):
        raise InvalidInputError(
            f"{what} must be finite and not negative; got values from {np.min(table)} to "
            f"{np.max(table)}"
        )
    if not table.any():
        raise InvalidInputError(f"{what} sum to zero; at least one must be positive")
    scaled = within_range(table)
    scaled[scaled < _SMALLEST] = 0.0
    scaled /= scaled.sum()
    return scaled


def outer_product(vectors: Sequence[Array]) -> Array:
    """Return the joint mass of independent features with these margins."""
    table = np.ones(())
    for vector in vectors:
        table = np.multiply.outer(table, vector)
    return np.asarray(table)


_ROWS = "the weights of the rows"
_MASSES = "be an array of weights, one axis per feature"


class _FromCounts(Weighting):
    """A distribution that counts rows in cells, one by one or all at once."""

    needs_rows: ClassVar[bool] = True

    @property
    def counts_are_enough(self) -> bool:
        """True: only the cells of rows count."""
        return True

    def _counts(
        self, grid: Grid, rows: RowsOnGrid | None, subsets: Sequence[Subset]
    ) -> dict[Subset, Array]:
        """Return the weight of the rows in the cells of each subset."""
        if rows is None:
            raise InvalidInputError(f"weights={self.name!r} needs rows: pass X")
        return count_rows(grid, rows, subsets)

    def _shares(self, grid: Grid, rows: RowsOnGrid | None, subsets: Sequence[Subset]) -> MassTables:
        """Return the share of the rows in the cells of each subset."""
        counts = self._counts(grid, rows, subsets)
        # Counts can be large, and are let go one by one.
        return {subset: normalised(counts.pop(subset), _ROWS) for subset in list(counts)}


class _OfRows(_FromCounts):
    """A distribution that is that of the rows."""

    @property
    def share_of_rows(self) -> float:
        """One: the rows are the whole distribution."""
        return 1.0

    def tables(self, grid: Grid, rows: RowsOnGrid | None, subsets: Sequence[Subset]) -> MassTables:
        """Return the mass of the cells of each subset."""
        return self._shares(grid, rows, subsets)


@dataclass(frozen=True)
class Empirical(_OfRows):
    """The joint distribution of the rows (Lengerich et al. 2020, section 5.2).

    It includes the dependence between features. Sample weights, if given, are used.

    See Also
    --------
    treepurify.weights.Auto : Smooths few rows.
    treepurify.weights.Laplace : Adds mass to every cell.

    Examples
    --------
    >>> import treepurify as tp
    >>> tp.weights.Empirical().describe()
    'empirical'
    """

    name: ClassVar[str] = "empirical"


@dataclass(frozen=True)
class Points(_OfRows):
    """The empirical distribution of rows that stand for another measure."""

    words: str
    name: ClassVar[str] = "points"

    def describe(self) -> str:
        """Return the measure in words."""
        return self.words


@dataclass(frozen=True)
class Independent(_FromCounts):
    """Independent features, each distributed as in the rows.

    See Also
    --------
    treepurify.weights.Uniform : All cells or values equally likely.
    treepurify.weights.Empirical : With the dependence of the rows.

    Examples
    --------
    >>> import treepurify as tp
    >>> tp.weights.Independent().describe()
    'independent'
    """

    name: ClassVar[str] = "independent"
    is_product: ClassVar[bool] = True

    def tables(self, grid: Grid, rows: RowsOnGrid | None, subsets: Sequence[Subset]) -> MassTables:
        """Return the mass of the cells of each subset."""
        features = sorted({j for subset in subsets for j in subset})
        margins = self._shares(grid, rows, [(j,) for j in features])
        return {subset: outer_product([margins[(j,)] for j in subset]) for subset in subsets}


@dataclass(frozen=True)
class Uniform(Weighting):
    """Independent features, each uniformly distributed (Lengerich et al. 2020, section 5.2).

    Parameters
    ----------
    by : {"cell", "length"}
        ``"cell"``: every interval or category has the same mass, as in the paper;
        ``"length"``: intervals weigh by their length between the smallest and the largest
        value of the data, categories equally.
    missing : bool
        Whether to give mass also to missing values and unseen categories.

    See Also
    --------
    treepurify.weights.Independent : Features independent, each with its own distribution.

    Examples
    --------
    >>> import treepurify as tp
    >>> tp.weights.Uniform(by="length").describe()
    'uniform by length'
    """

    by: Literal["cell", "length"] = "cell"
    missing: bool = False
    name: ClassVar[str] = "uniform"
    is_product: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_choice("by", self.by, ("cell", "length"))
        check_flag("missing", self.missing)

    def tables(self, grid: Grid, rows: RowsOnGrid | None, subsets: Sequence[Subset]) -> MassTables:
        """Return the mass of the cells of each subset."""
        margins = {j: self._margin(grid.axes[j]) for subset in subsets for j in subset}
        return {subset: outer_product([margins[j] for j in subset]) for subset in subsets}

    def describe(self) -> str:
        """Return the distribution in words."""
        return self.name + (" by length" if self.by == "length" else "")

    def _margin(self, axis: FeatureAxis) -> Array:
        margin = np.zeros(axis.n_cells)
        if self.by == "cell":
            margin[: axis.n_regular] = 1.0
        elif axis.bounds is None and axis.cuts is not None and len(axis.cuts):
            raise InvalidInputError(
                f'Uniform(by="length") needs the range of feature {axis.name!r}: pass X'
            )
        else:
            margin[:] = axis.lengths()
        if self.missing:
            margin[axis.n_regular :] = margin[: axis.n_regular].mean()
        return normalised(margin, f"the uniform weights of feature {axis.name!r}")


@dataclass(frozen=True)
class Laplace(_FromCounts):
    """A mixture of the empirical and the uniform distribution (Lengerich et al. 2020, 5.2).

    Parameters
    ----------
    smoothing : float
        Share of the uniform part in the mixture, from 0 to 1; 0.5 in the paper.
    variant : {"mixture", "plus-one"}
        ``"mixture"``: ``(1 - smoothing) * empirical + smoothing * uniform``, a mixture of two
        joint distributions, so all tables come from one joint distribution.
        ``"plus-one"``: one added to the count of every cell of every table, as in the code that
        the paper's authors published; `smoothing` is not used. These tables do NOT
        come from one joint distribution (if the table of a pair is summed over a feature, each
        cell has one added count for every cell of that feature), so the result is not a
        functional ANOVA of any distribution. Use it only for comparison with published figures.

    See Also
    --------
    treepurify.weights.Empirical : Without added mass.
    treepurify.weights.Uniform : The added mass alone.

    Examples
    --------
    >>> from treepurify.weights import Laplace
    >>> Laplace(0.25).describe()
    'laplace (uniform share 0.25)'
    """

    smoothing: float = 0.5
    variant: Literal["mixture", "plus-one"] = "mixture"
    name: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        check_choice("variant", self.variant, ("mixture", "plus-one"))
        check_number("smoothing", self.smoothing, least=0, most=1)

    @property
    def share_of_rows(self) -> float | None:
        """One minus the share of the uniform part; None for the variant ``"plus-one"``."""
        return None if self.variant == "plus-one" else 1.0 - self.smoothing

    @property
    def beside_rows(self) -> Weighting:
        """The uniform distribution."""
        return Uniform()

    def tables(self, grid: Grid, rows: RowsOnGrid | None, subsets: Sequence[Subset]) -> MassTables:
        """Return the mass of the cells of each subset."""
        if self.variant == "plus-one":
            counts = self._counts(grid, rows, subsets)
            return {subset: normalised(table + 1.0, _ROWS) for subset, table in counts.items()}
        shares = self._shares(grid, rows, subsets)
        uniform, part = Uniform().tables(grid, rows, subsets), self.smoothing
        return {subset: (1 - part) * shares[subset] + part * uniform[subset] for subset in subsets}

    def describe(self) -> str:
        """Return the distribution in words."""
        if self.variant == "plus-one":
            return "laplace (one row added to each cell of each table; not a joint distribution)"
        return f"laplace (uniform share {self.smoothing:g})"


@dataclass(frozen=True, eq=False)
class JointTable(Weighting):
    """A given joint distribution over all cells of some features.

    A cell is a combination of one interval or category of each feature.

    Parameters
    ----------
    table : array_like, shape (cells...)
        Mass of each cell, one axis per feature of `features`, on any positive scale.
    features : sequence of int, optional
        Positions of the features along the axes of `table`; all features by default. They
        must include every feature that the model uses.

    See Also
    --------
    treepurify.weights.Empirical : The distribution of the rows.

    Examples
    --------
    >>> import treepurify as tp
    >>> tp.weights.JointTable([[0.2, 0.1], [0.3, 0.4]]).describe()
    'given joint table'
    """

    table: npt.ArrayLike
    features: Sequence[int] | None = None
    name: ClassVar[str] = "given joint table"

    def __post_init__(self) -> None:
        if self._joint().ndim == 0:
            raise InvalidInputError(f"the joint table must {_MASSES}, got {brief(self.table)}")
        if self.features is not None:
            _read_features(self.features)

    def tables(self, grid: Grid, rows: RowsOnGrid | None, subsets: Sequence[Subset]) -> MassTables:
        """Return the mass of the cells of each subset."""
        n_features = grid.n_features
        given = range(n_features) if self.features is None else self.features
        features = _read_features(given)
        if max(features, default=0) >= n_features:
            raise InvalidInputError(
                f"features of the joint table must be different positions from 0 to "
                f"{n_features - 1}, got {features}"
            )
        joint, expected = self._joint(), grid.shape(features)
        if joint.shape != expected:
            raise InvalidInputError(
                f"the joint table has shape {joint.shape}; expected {expected}, the numbers of "
                f"cells of the features {features}"
            )
        absent = sorted({j for subset in subsets for j in subset} - set(features))
        if absent:
            raise InvalidInputError(
                f"the joint table does not contain the features {absent}, which the model uses"
            )
        tables = {}
        for subset in subsets:
            axes = [features.index(j) for j in subset]
            first = np.moveaxis(joint, axes, range(len(axes)))
            tables[subset] = first.sum(axis=tuple(range(len(axes), joint.ndim)))
        return tables

    def _joint(self) -> Array:
        table = read_numbers("the joint table", self.table, _MASSES)
        return normalised(table, "the weights in the joint table")


def _read_features(features: Any) -> tuple[int, ...]:
    """Return different positions of features."""
    is_list = isinstance(features, Iterable) and not isinstance(features, str | bytes)
    positions = tuple(features) if is_list else ()
    for position in positions:
        check_whole("the position of a feature of the joint table", position, 0)
    if not is_list or len(set(positions)) != len(positions):
        raise InvalidInputError(
            "features of the joint table must be different positions, such as (0, 2); got "
            f"{brief(features)}"
        )
    return positions
