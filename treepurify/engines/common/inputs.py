"""Read what a caller passes to an engine, and say of which rows its result is."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_whole
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Subset
from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.parse import Model, parse_model, read_model
from treepurify.models.parsed import unasked_check
from treepurify.origin import seeds_of
from treepurify.rows.batches import Batch
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.rows.given_rows import GivenRows
from treepurify.rows.reduction import RowStream, rows_in_memory
from treepurify.rows.row_weights import RowWeights, read_row_weights
from treepurify.rows.source_reader import head_table, source_reader
from treepurify.rows.sources import TableSource, open_rows
from treepurify.rows.table_reader import check_distribution
from treepurify.weights import Empirical, Weighting

_ABSENT = (
    "Columns that the model does not use are absent, so its library could not predict these rows."
)
Interactions = Sequence[Sequence[str | int]]

# The order of most engines by default.
_PAIR = 2
_INTERACTIONS = (
    'interactions take tuples of two or more different features, such as [("age", "hours")]'
)


def check_order(order: int | None) -> None:
    """Raise `InvalidInputError` unless `order` is a positive whole number or None."""
    if order is not None:
        check_whole("order", order, 1)


def check_order_fits(order: int | None, n_features: int) -> None:
    """Raise `InvalidInputError` if `order` is above the number of features.

    Two, the default of most engines, also stands for "all" where there is one feature only.
    """
    if order is not None and order > max(n_features, _PAIR):
        raise InvalidInputError(
            f"order={order} requests effects of {order} features, but the model has {n_features}"
            f": pass at most {max(n_features, _PAIR)}, or None for all effects"
        )


def named_subsets(
    features: Sequence[FeatureSpec], interactions: Interactions | None, order: int | None
) -> set[Subset] | None:
    """Return the requested interactions as positions of features; None for all.

    Parameters
    ----------
    features : sequence of FeatureSpec
        The features that may be named.
    interactions : sequence of tuple of (str or int), optional
        The interactions, by name or position of their features.
    order : int or None
        Most features of an interaction; None for all.

    Raises
    ------
    InvalidInputError
        If one names fewer than two different features, more than `order`, one of them twice,
        or one that is not there.
    """
    if interactions is None:
        return None
    if isinstance(interactions, int | np.integer):
        raise InvalidInputError(
            f"interactions={interactions!r}: only purify accepts a number of pairs; name the "
            'interactions here, such as [("age", "hours")]'
        )
    if isinstance(interactions, str) or not isinstance(interactions, Iterable):
        raise InvalidInputError(f"{_INTERACTIONS}; got {interactions!r}")
    positions = {spec.name: j for j, spec in enumerate(features)}
    subsets: set[Subset] = set()
    for number, entry in enumerate(interactions):
        here = f"interactions[{number}] is {entry!r}"
        if isinstance(entry, str) or not isinstance(entry, Iterable):
            raise InvalidInputError(f"{_INTERACTIONS}; {here}")
        subset = tuple(sorted(_position(positions, part, here) for part in entry))
        if len(subset) < 2 or len(set(subset)) < len(subset):
            raise InvalidInputError(f"{_INTERACTIONS}; {here}")
        if order is not None and len(subset) > order:
            raise InvalidInputError(
                f"{here}, but order={order} keeps no effect of {len(subset)} features; "
                "raise order, or leave this interaction out"
            )
        subsets.add(subset)
    return subsets


def _position(positions: dict[str, int], part: Any, here: str) -> int:
    """Return the position of the feature that a name or a position stands for."""
    if isinstance(part, str) and part in positions:
        return positions[part]
    is_whole = isinstance(part, int | np.integer) and not isinstance(part, bool)
    if is_whole and part in range(len(positions)):
        return int(part)
    raise InvalidInputError(
        f"no feature {part!r}; the model has {', '.join(map(repr, [*positions][:20]))}, at the "
        f"positions 0 to {len(positions) - 1}; {here}"
    )


def read_model_rows(
    model: Any,
    X: Any,
    weighting: Weighting,
    feature_names: Sequence[str] | None,
    sample_weight: Any,
    *,
    progress: bool = True,
) -> tuple[Model, RowStream | None]:
    """Return the parsed model, and the rows that represent the distribution.

    Parameters
    ----------
    model : object, str or Path
        What `parse_model` takes.
    X : array_like, table or rows in batches, optional
        The rows.
    weighting : Weighting
        The distribution.
    feature_names : sequence of str, optional
        Names of the features; they come before those of the columns.
    sample_weight : array_like or str, optional
        The weights of a table; the name of their column of rows in batches.
    progress : bool
        Whether to report progress where the rows are read again later.

    Returns
    -------
    TreeEnsemble or AdditiveTables
    RowStream or None
        None where the weighting needs no rows and none are given.

    Raises
    ------
    UnsupportedModelError
        If the model cannot be decomposed exactly.
    InvalidInputError
        If rows are needed and there are none, or they, their columns or weights cannot be used.
    """
    source = open_rows(X)
    if isinstance(source, TableSource):
        parsed = read_model(model, X, feature_names)
        columns = None if X is None else parsed.columns(X)
        if columns is None:
            _check_needs_no_rows(parsed, weighting)
        else:
            check_distribution(columns)
        weights = row_weights(columns, weighting, sample_weight)
        return parsed, None if columns is None else rows_in_memory(columns, weights)
    if not weighting.needs_rows:
        # Weights of rows are refused, whatever rows there are.
        row_weights(None, weighting, sample_weight)
    by_itself = parse_model(model)
    weight = sample_weight if isinstance(sample_weight, str) else None
    head = head_table(source, by_itself.features, weight)
    parsed = read_model(model, head, feature_names)
    reader = source_reader(
        source,
        parsed.features,
        parsed.used_features,
        match_names=by_itself.has_feature_names,
        weight=sample_weight,
    )
    if head is None and parsed.library is not None:
        rows = reader.read(Batch(source.head(), 0, 0, source.describe()))
        parsed.library.check = unasked_check(parsed, rows.columns, _ABSENT)
    return parsed, RowStream(source, reader, progress)


def _check_needs_no_rows(model: Model, weighting: Weighting) -> None:
    """Raise unless a weighting needs no rows, or stands for the weights of an EBM's bins."""
    counted = weighting.fitted(None, None, 0).weighting == Empirical()
    if weighting.needs_rows and not (isinstance(model, AdditiveTables) and counted):
        raise InvalidInputError(
            f"weights={weighting.name!r} needs rows that represent the distribution: pass X, "
            'or use weights="uniform", which needs none'
        )


def row_weights(
    columns: Columns | None, weighting: Weighting, sample_weight: npt.ArrayLike | None
) -> RowWeights:
    """Return the weight of each row, checked; None for equal weights.

    Raises
    ------
    InvalidInputError
        If weights do not fit the rows, are negative or not finite, or are all zero, or if the
        weighting would ignore them.
    """
    if sample_weight is not None and not weighting.needs_rows:
        raise InvalidInputError(
            f"sample_weight would be ignored, since weights={weighting.name!r} does not count "
            'rows. Leave sample_weight out, or use weights="empirical", "laplace" or '
            '"independent"'
        )
    if columns is None and sample_weight is not None:
        raise InvalidInputError("sample_weight is given without rows: pass X")
    return None if columns is None else read_row_weights(sample_weight, columns.n_rows)


def with_note(d: Decomposition, rows: GivenRows) -> Decomposition:
    """Return a decomposition that says of which rows it is."""
    seeds = tuple(sorted({*d.origin.seeds, *seeds_of(rows.facts)}))
    origin = replace(d.origin, seeds=seeds)
    d = replace(d, origin=origin, diagnostics={**d.diagnostics, **rows.facts})
    if not rows.words:
        return d
    certificate = d.certificate
    if certificate is not None:
        certificate = certificate.noted(f"These figures refer to {rows.words}.")
    return replace(d, measure=f"{d.measure}, {rows.words}", certificate=certificate)
