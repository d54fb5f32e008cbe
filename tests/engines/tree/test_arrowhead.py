"""Equations of blocks and a border, beside the same matrix in full."""

import itertools

import numpy as np
import pytest

from treepurify.engines.tree.arrowhead import Arrowhead


def scene(sizes, n_rest, seed=0):
    """A positive definite arrowhead, with noise where nothing should be read, and in full."""
    rng = np.random.default_rng(seed)
    bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    n_inside = int(bounds[-1])
    full = np.zeros((n_inside + n_rest,) * 2)
    for first, last in itertools.pairwise(bounds):
        square = rng.normal(size=(last - first, last - first))
        full[first:last, first:last] = square @ square.T
    full[:n_inside, n_inside:] = rng.normal(size=(n_inside, n_rest)) / (1 + n_inside)
    full[n_inside:, :n_inside] = full[:n_inside, n_inside:].T
    square = rng.normal(size=(n_rest, n_rest))
    full[n_inside:, n_inside:] = square @ square.T
    full[np.diag_indices_from(full)] += 2.0
    blocks = rng.normal(size=(n_inside, max(sizes, default=0)))
    for first, last in itertools.pairwise(bounds):
        for i in range(first, last):
            blocks[i, i - first : last - first] = full[i, i:last]
    rest = np.triu(full[n_inside:, n_inside:]) + np.tril(rng.normal(size=(n_rest, n_rest)), -1)
    return Arrowhead(bounds, blocks, full[:n_inside, n_inside:].copy(), rest), full


def test_products_with_counts_are_those_of_the_full_matrix():
    matrix, full = scene((6, 3), 7)
    counts = np.round(full * 10 + 100)
    held = [np.round(part * 10 + 100).astype(np.uint16) for part in matrix.parts()]
    counts[:6, 6:9] = counts[6:9, :6] = 0.0
    vectors = np.random.default_rng(1).normal(size=(len(full), 3))
    image = Arrowhead(matrix.bounds, *held).image(vectors)
    np.testing.assert_allclose(image, counts @ vectors, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("sizes", [(), (1,), (3, 1, 0, 4), (5, 5, 5, 5), (9, 12, 8)])
@pytest.mark.parametrize("n_vectors", [0, 1, 9, 40])
def test_products_and_solutions_are_those_of_the_full_matrix(sizes, n_vectors):
    matrix, full = scene(sizes, 6)
    vectors = np.random.default_rng(1).normal(size=(len(full), n_vectors))
    np.testing.assert_allclose(matrix.image(vectors), full @ vectors, atol=1e-13)
    factor = matrix.factor(0.0)
    np.testing.assert_allclose(
        factor.solve(vectors), np.linalg.solve(full, vectors), rtol=1e-10, atol=1e-12
    )
    above = np.zeros_like(full)
    for first, last in factor.parts.spans():
        above[first:last, first:last] = np.triu(factor.parts.blocks[first:last, : last - first])
    n_inside = len(factor.parts.border)
    above[:n_inside, n_inside:] = factor.parts.border
    above[n_inside:, n_inside:] = np.triu(factor.parts.rest)
    np.testing.assert_allclose(above @ factor.solve_upper(vectors), vectors, atol=1e-10)
    assert np.prod(factor.diagonal() ** 2) == pytest.approx(np.linalg.det(full))


def test_a_ridge_makes_singular_equations_positive():
    def singular():
        matrix, full = scene((2, 2), 3)
        matrix.rest[:] = 0.0
        matrix.border[:] = 0.0
        return matrix, full

    matrix, full = singular()
    assert matrix.factor(0.0) is None
    matrix, _ = singular()
    factor = matrix.factor(1e-3)
    sides = np.ones((len(full), 1))
    ridged = full.copy()
    ridged[4:] = ridged[:, 4:] = 0.0
    ridged[np.diag_indices_from(ridged)] += 1e-3
    np.testing.assert_allclose(factor.solve(sides), np.linalg.solve(ridged, sides))


@pytest.mark.parametrize("sizes", [(), (3, 1, 0, 4), (130, 70)])
@pytest.mark.parametrize("n_rest", [2, 150])
def test_gaps_are_the_equations_that_depend_on_those_before(sizes, n_rest):
    matrix, full = scene(sizes, n_rest)
    n, n_inside = len(full), sum(sizes)
    # The third unknown of each block and some others are sums of two before them.
    firsts = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
    copies = [first + 2 for first, size in zip(firsts, sizes, strict=False) if size > 2]
    copies += [place for place in (n_inside + 1, n - 1) if n_rest > 2]
    mixing = np.eye(n)
    for place in copies:
        mixing[:, place] = 0.0
        mixing[place - 2 if place - 2 >= 0 else 0, place] = 1.0
    # What is inside a block must depend on what is inside it.
    full = mixing.T @ full @ mixing
    for first, last in matrix.spans():
        for i in range(first, last):
            matrix.blocks[i, i - first : last - first] = full[i, i:last]
        full[first:last, last:n_inside] = full[last:n_inside, first:last] = 0.0
    matrix.border[:] = full[:n_inside, n_inside:]
    matrix.rest[:] = np.triu(full[n_inside:, n_inside:])
    gapped = matrix.factor_with_gaps(1e-6)
    assert gapped.gaps.tolist() == sorted(copies)
    directions = gapped.directions()
    np.testing.assert_allclose(full @ directions, 0.0, atol=1e-9 * np.abs(full).max())
    np.testing.assert_array_equal(directions[gapped.gaps], np.eye(len(copies)))
    sides = full @ np.random.default_rng(2).normal(size=(n, 3))
    solved = gapped.factor.solve(sides)
    np.testing.assert_allclose(full @ solved, sides, atol=1e-9 * np.abs(sides).max())
    np.testing.assert_allclose(solved[gapped.gaps], 0.0, atol=1e-9 * np.abs(sides).max())
