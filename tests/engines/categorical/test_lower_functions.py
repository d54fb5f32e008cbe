"""Functions made orthogonal to those of fewer features, compared with a dense projection."""

import numpy as np
import pytest

from treepurify.engines.categorical.selected_functions import lower_functions


def dense_pure(mass, vectors):
    """Vectors over the cells with mass, less their projection on the slices of every axis."""
    cells = np.nonzero(mass > 0)
    columns = []
    for axis in range(mass.ndim):
        rest = np.stack([levels for j, levels in enumerate(cells) if j != axis])
        for place in np.unique(rest, axis=1).T:
            columns.append(np.all(place == rest.T, axis=1))
    design = np.sqrt(mass[cells])[:, None] * np.stack(columns, axis=1)
    return vectors - design @ np.linalg.lstsq(design, vectors, rcond=1e-10)[0]


@pytest.mark.parametrize("most_entries", [None, 0])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
@pytest.mark.parametrize("shape", [(12, 9), (6, 5, 7)])
def test_what_is_left_is_a_dense_projection(shape, share, most_entries):
    rng = np.random.default_rng(int(10 * share))
    mass = rng.random(shape) * (rng.random(shape) < share)
    mass /= mass.sum()
    lower = lower_functions(mass, 1 << 30, most_entries)
    assert (lower.span is None) == (most_entries == 0 and len(lower.root) > 0)
    vectors = rng.normal(size=(np.count_nonzero(mass), 4))
    truth = dense_pure(mass, vectors)
    number = np.full(shape, -1)
    number[mass > 0] = np.arange(len(vectors))
    inside = number[lower.cells]
    found = np.zeros_like(vectors)
    if len(inside):
        found[inside] = lower.reduce(vectors[inside])
    np.testing.assert_allclose(found, truth, atol=1e-10)
