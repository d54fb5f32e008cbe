"""Models of tables whose larger terms have cuts of their own, as those of EBMs do."""

from itertools import combinations

import numpy as np

from treepurify.links import Link
from treepurify.models.additive_tables import AdditiveTables, TableTerm
from treepurify.models.parsed import ModelSource
from treepurify.rows.columns import FeatureSpec


def tables_with_coarse_terms(
    rng: np.random.Generator, n_features: int, n_cuts: tuple[int, ...]
) -> AdditiveTables:
    """Return a model with a term for every set of features, cut at `n_cuts[size - 1]` values."""

    def term(subset: tuple[int, ...]) -> TableTerm:
        n = n_cuts[len(subset) - 1]
        cuts = tuple(np.sort(rng.normal(size=n)) for _ in subset)
        return TableTerm(subset, cuts, rng.normal(size=(n + 3,) * len(subset) + (1,)))

    subsets = [
        subset
        for size in range(1, len(n_cuts) + 1)
        for subset in combinations(range(n_features), size)
    ]
    features = tuple(FeatureSpec(f"x{j}") for j in range(n_features))
    source = ModelSource("none", "0", "tables")
    terms = tuple(map(term, subsets))
    return AdditiveTables(terms, np.zeros(1), features, ("margin",), Link(), source, False)
