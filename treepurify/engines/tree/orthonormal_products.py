"""Functions that are orthonormal where features are independent, spanned by products of splits.

Products of sides less their masses are orthogonal to those of other features, so that what remains
to be made orthogonal are the few products of the same features. All products are turned into such
functions, and back, in a time that grows with their number and hardly with its square.
"""

from dataclasses import dataclass

import numpy as np

from treepurify._kernels.split_products import centre, subtract_means
from treepurify.typing import Array, Indices, Integers

__all__ = ["OrthonormalProducts", "orthonormal_products"]

# Products of the same features may cancel: a share of this size is rounding.
_LEAST_SHARE = 1e-12


@dataclass(frozen=True, eq=False)
class OrthonormalProducts:
    """Orthonormal functions, as many as products; those that the others span already are zero.

    Parameters
    ----------
    products, parts : ndarray of int64, shape (n_products, order)
        See `SplitProducts`.
    mass : ndarray of float64, shape (n_sides,)
        Probability of each side.
    places : list of ndarray of int, shape (n_sets, size)
        The products of each set of features that has `size` of them.
    turns : list of ndarray of float64, shape (n_sets, size, size)
        The functions, as columns of multiples of these products of sides less their masses.
    """

    products: Integers
    parts: Integers
    mass: Array
    places: list[Indices]
    turns: list[Array]

    @property
    def rank(self) -> int:
        """How many functions are not zero."""
        return sum(int(np.count_nonzero(turn.any(axis=1))) for turn in self.turns)

    def values(self, of_products: Array) -> Array:
        """Return what linear maps make of the functions, given what they make of the products.

        Shape (n_products, n_maps), both.
        """
        centred = of_products.copy()
        subtract_means(self.products, self.parts, self.mass, centred)
        for places, turn in zip(self.places, self.turns, strict=True):
            centred[places] = turn.transpose(0, 2, 1) @ centred[places]
        return centred

    def multiples_of_products(self, multiples: Array) -> Array:
        """Return sums of multiples of the functions as multiples of products.

        Shape (n_products, n_sums), both.
        """
        of_products = np.empty_like(multiples)
        for places, turn in zip(self.places, self.turns, strict=True):
            of_products[places] = turn @ multiples[places]
        centre(self.products, self.parts, -self.mass, of_products)
        return of_products


def orthonormal_products(
    products: Integers, parts: Integers, feature: Integers, mass: Array, both: Array
) -> OrthonormalProducts:
    """Return orthonormal functions of products.

    Parameters
    ----------
    products, parts : ndarray of int64, shape (n_products, order)
        See `SplitProducts`.
    feature : ndarray of int64, shape (n_sides,)
        Feature of each side.
    mass : ndarray of float64, shape (n_sides,)
        Probability of each side.
    both : ndarray of float64, shape (n_sides, n_sides)
        Probability of two sides of one feature together.
    """
    # The last stands for no side.
    covariance = np.pad(both - np.multiply.outer(mass, mass), (0, 1), constant_values=1.0)
    features = np.append(feature, -1)[products]
    _, owner, size = np.unique(features, axis=0, return_inverse=True, return_counts=True)
    in_order, first = np.argsort(owner.ravel(), kind="stable"), np.cumsum(size) - size
    places, turns = [], []
    for n in np.unique(size).tolist():
        own = in_order[first[size == n][:, None] + np.arange(n)]
        sides = products[own]
        gram = np.ones((len(own), n, n))
        for k in range(products.shape[1]):
            gram *= covariance[sides[:, :, None, k], sides[:, None, :, k]]
        places.append(own)
        turns.append(_orthonormal(gram))
    return OrthonormalProducts(products, parts, mass, places, turns)


def _orthonormal(gram: Array) -> Array:
    """Return orthonormal functions as columns for each matrix of inner products, or zeros."""
    size = np.sqrt(np.maximum(np.diagonal(gram, axis1=1, axis2=2), 0.0))
    scaling = np.where(size > 0, 1 / np.where(size > 0, size, 1.0), 0.0)
    scaled = gram * scaling[:, :, None] * scaling[:, None, :]
    eigenvalues, vectors = np.linalg.eigh(scaled)
    is_kept = eigenvalues > _LEAST_SHARE * gram.shape[1]
    root = np.where(is_kept, 1 / np.sqrt(np.where(is_kept, eigenvalues, 1.0)), 0.0)
    return np.asarray(scaling[:, :, None] * vectors * root[:, None, :])
