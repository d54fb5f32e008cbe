"""Read CatBoost's statistics of categories (CTR), which are tables of numbers at prediction.

In training, CatBoost replaces a category, or a combination of categories and of tests of other
columns, by statistics of the rows before each row. What it keeps for prediction are counts of the
training rows with the same combination, which it finds by a hash. A statistic of a single column is
thus a number for each category; those of a combination make a column that is derived from others.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.errors import UnsupportedModelError
from treepurify.typing import Array, Indices, Mask

Hashes = npt.NDArray[np.uint64]
Singles = npt.NDArray[np.float32]

_MULTIPLIER = 0x4906BA494954CB65
# A hash that marks empty places of CatBoost's tables.
_NO_HASH = (1 << 64) - 1
_MEANS = frozenset({"BinarizedTargetMeanValue", "FloatTargetMeanValue"})
_COUNTS = frozenset({"Counter", "FeatureFreq"})
_SHARES = frozenset({"Borders", "Buckets"})
_ELEMENTS = ("cat_feature_value", "float_feature", "cat_feature_exact_value")


@dataclass(frozen=True)
class Combination:
    """What rows have in common that a statistic counts together.

    Parameters
    ----------
    categories : tuple of int
        Positions of the columns whose categories are the same.
    above : tuple of (int, float)
        Positions of numeric columns, each with the border which all values lie above, or none.
    equal : tuple of (int, int)
        Positions of categorical columns, each with the hash of the one label which all rows have,
        or none.
    """

    categories: tuple[int, ...]
    above: tuple[tuple[int, float], ...] = ()
    equal: tuple[tuple[int, int], ...] = ()

    @property
    def column(self) -> int | None:
        """Position of the only column that counts; None where there are several or tests."""
        is_single = len(self.categories) == 1 and not self.above and not self.equal
        return self.categories[0] if is_single else None

    @property
    def columns(self) -> tuple[int, ...]:
        """Positions of all columns, increasing."""
        tested = [column for column, _ in (*self.above, *self.equal)]
        return tuple(sorted({*self.categories, *tested}))


@dataclass(frozen=True, eq=False)
class CategoryStatistic:
    """One statistic: a number for each combination that the training rows had.

    Parameters
    ----------
    combination : Combination
        What is counted together.
    kind : str
        CatBoost's name of the statistic.
    target_border : int
        Which border, or class, of the target it is about.
    prior : float
        What was added to the count.
    hashes : ndarray of uint64, shape (n_known,)
        Hashes of the combinations, increasing.
    values : ndarray of float32, shape (n_known,)
        The statistic of each.
    unseen : float32
        The statistic of any other.
    shift, scale : float32
        A border is compared with ``(value + shift) * scale``.
    borders : tuple of float
        Borders that it is tested at, increasing.
    has_fractions : bool
        Whether its table holds numbers that are not whole.
    """

    combination: Combination
    kind: str
    target_border: int
    prior: float
    hashes: Hashes
    values: Singles
    unseen: np.float32
    shift: np.float32
    scale: np.float32
    borders: tuple[float, ...]
    has_fractions: bool

    def goes_right(self, values: Singles, border: float) -> Mask:
        """Return whether values lie above a border, rounded as CatBoost rounds them."""
        return np.asarray((values + self.shift) * self.scale > np.float32(border))

    def borders_below(self, values: Singles) -> Indices:
        """Return how many different borders values lie above."""
        borders = np.unique(np.array(self.borders, dtype=np.float32))
        return np.searchsorted(borders, (values + self.shift) * self.scale)

    def of_hashes(self, hashes: Hashes) -> Singles:
        """Return the statistic of rows, given the hashes of their combinations."""
        return np.append(self.values, self.unseen)[find_hashes(self.hashes, hashes)]

    def of_labels(self, label_hashes: Sequence[int]) -> Singles:
        """Return the statistic of labels of a single column, and behind them that of any other."""
        start = np.zeros(len(label_hashes), dtype=np.uint64)
        labels = np.array(label_hashes, dtype=np.int64).view(np.uint64)
        return np.append(self.of_hashes(with_part(start, labels)), self.unseen)

    @cached_property
    def label_hashes(self) -> tuple[int, ...]:
        """Hashes of the labels of a single column that are known."""
        # Multiplication by an odd number can be undone, modulo 2^64.
        undo = np.uint64(pow(_MULTIPLIER, -2, 1 << 64))
        labels = (self.hashes * undo).view(np.int64)
        # No label has another hash.
        return tuple(labels[labels == labels.astype(np.int32)].tolist())

    @cached_property
    def recipe(self) -> str:
        """All that it is made by, as text."""
        table = hashlib.sha256(self.hashes.tobytes() + self.values.tobytes()).hexdigest()
        return f"{self.kind} {self.unseen!r} {self.shift!r} {self.scale!r} {self.borders} {table}"


def find_hashes(known: Hashes, hashes: Hashes) -> Indices:
    """Return the position of each hash among known ones, which increase; behind them if unknown."""
    if not len(known):
        return np.zeros(len(hashes), dtype=np.intp)
    place = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
    return np.where(known[place] == hashes, place, len(known))


def with_part(total: Hashes, part: Hashes) -> Hashes:
    """Return the hash of a combination with one part more."""
    factor = np.uint64(_MULTIPLIER)
    return factor * (total + factor * part)


def read_statistic(
    entry: dict[str, Any],
    tables: dict[str, Any],
    numeric: dict[int, int],
    categorical: dict[int, int],
) -> CategoryStatistic:
    """Read one of the ``ctrs`` of a CatBoost document.

    Parameters
    ----------
    entry : dict
        What the document says of the statistic.
    tables : dict
        The ``ctr_data`` of the document.
    numeric, categorical : dict of int to int
        Position in the table of each numeric and each categorical feature, by its number among
        its kind.

    Returns
    -------
    CategoryStatistic

    Raises
    ------
    UnsupportedModelError
        If it is of an unknown kind, or its table is damaged.
    """
    kind = entry["ctr_type"]
    table = tables[entry["identifier"]]
    columns = np.array(table["hash_map"], dtype=object).reshape(-1, table["hash_stride"])
    columns = columns[[int(text) != _NO_HASH for text in columns[:, 0]]]
    hashes = np.array([int(text) for text in columns[:, 0]], dtype=np.uint64)
    order = np.argsort(hashes)
    stored = columns[order, 1:].astype(np.float64)
    if len(np.unique(hashes)) < len(hashes) or not np.all(np.isfinite(stored)):
        raise damaged(
            "the table of a statistic repeats a hash or contains numbers that are not finite"
        )
    denominator = float(table["counter_denominator"]) if kind in _COUNTS else 0.0
    target_border = entry["target_border_idx"]
    count, total = _counts(kind, stored, target_border)
    prior, prior_total, shift, scale = (
        np.float32(entry[key]) for key in ("prior_numerator", "prior_denomerator", "shift", "scale")
    )
    # The last is what the training rows did not have.
    counts = np.append(count, 0.0).astype(np.float32)
    totals = np.append(total, 0.0).astype(np.float32) + np.float32(denominator)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = (counts + prior) / (totals + prior_total)
    borders = tuple(float(border) for border in entry["borders"])
    if not scale > 0 or not np.all(np.isfinite([*values, shift, scale, *borders])):
        raise damaged(
            "a statistic of categories is not finite, or its scale is not a positive number"
        )
    return CategoryStatistic(
        combination=_combination(entry["elements"], numeric, categorical),
        kind=kind,
        target_border=target_border,
        prior=float(prior),
        hashes=hashes[order],
        values=values[:-1],
        unseen=values[-1],
        shift=shift,
        scale=scale,
        borders=borders,
        has_fractions=bool(np.any(stored % 1)),
    )


def _counts(kind: str, stored: Array, target_border: int) -> tuple[Array, Array]:
    """Return the numerator of each combination, and what is its own in the denominator."""
    n_numbers = stored.shape[1]
    total = stored.sum(axis=1)
    if kind in _MEANS and n_numbers == 2:
        return stored[:, 0], stored[:, 1]
    if kind in _COUNTS and n_numbers == 1:
        return stored[:, 0], np.zeros(len(stored))
    if kind == "Buckets" and 0 <= target_border < n_numbers:
        return stored[:, target_border], total
    if kind == "Borders" and 0 <= target_border < n_numbers - 1:
        # Of two classes CatBoost counts the second, as is that above the first border.
        return stored[:, target_border + 1 :].sum(axis=1), total
    raise damaged(
        f"a statistic of the kind {kind!r} stores {n_numbers} numbers for each combination, but "
        f"refers to number {target_border}"
    )


def _combination(
    elements: Sequence[dict[str, Any]], numeric: dict[int, int], categorical: dict[int, int]
) -> Combination:
    of_kind: dict[str, list[Any]] = {kind: [] for kind in _ELEMENTS}
    for element in elements:
        of_kind[element["combination_element"]].append(element)
    return Combination(
        tuple(categorical[e["cat_feature_index"]] for e in of_kind["cat_feature_value"]),
        tuple(
            (numeric[e["float_feature_index"]], float(e["border"]))
            for e in of_kind["float_feature"]
        ),
        tuple(
            (categorical[e["cat_feature_index"]], int(e["value"]))
            for e in of_kind["cat_feature_exact_value"]
        ),
    )


def damaged(what: str) -> UnsupportedModelError:
    """Return the error for a document that CatBoost did not write like this."""
    return UnsupportedModelError(
        f"this CatBoost JSON is damaged: {what}. Save the model again with "
        "save_model(path, format='json')"
    )
