"""Models that know the codes of categories only, and not the same number of them."""

from dataclasses import replace

import numpy as np

from tests.cases import rows_beside_cuts
from tests.reference.ensembles import random_ensemble
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.pipelines.join import weighted_sum


def with_one_code_more(ensemble: TreeEnsemble) -> TreeEnsemble:
    """Return the same function, with a code that no tree tests."""
    features = tuple(
        replace(spec, n_codes=spec.n_codes + 1) if spec.is_categorical else spec
        for spec in ensemble.features
    )
    pointers, left, length = ensemble.category_ptr.copy(), [], 0
    for node in np.flatnonzero(ensemble.category_ptr >= 0):
        n_codes = ensemble.features[ensemble.feature[node]].n_codes
        known = ensemble.category_left[ensemble.category_ptr[node] :][: n_codes + 1]
        left.append(np.append(known, known[-1]))  # an unknown code goes where it went before
        pointers[node], length = length, length + n_codes + 2
    return replace(
        ensemble, features=features, category_ptr=pointers, category_left=np.concatenate(left)
    )


def test_their_sum_is_that_of_their_margins():
    rng = np.random.default_rng(0)
    one, two = (
        random_ensemble(rng, n_features=3, n_categorical=2, n_trees=6, depth=3) for _ in range(2)
    )
    two = replace(two, features=one.features) if one.features != two.features else two
    wide = with_one_code_more(two)
    X = rows_beside_cuts(wide, 300, seed=1)
    np.testing.assert_array_equal(wide.margin(X), two.margin(X))
    joined = weighted_sum([one, wide], [0.25, 2.0], one.output_names)
    assert [spec.n_codes for spec in joined.features] == [spec.n_codes for spec in wide.features]
    expected = 0.25 * one.margin(X) + 2.0 * wide.margin(X)
    np.testing.assert_allclose(joined.margin(X), expected, atol=1e-12)
