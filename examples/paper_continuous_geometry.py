"""
The geometry of a black box, from the closed form
=================================================

The continuous paper leaves "new diagnostics on the geometry of black-box models" to future work.
The closed form is a smooth function that can be differentiated, also where the model cannot, as a
sum of trees. Here are three diagnostics of functions with known derivatives: the directions along
which the function changes (eigenvectors of the mean outer product of gradients), how often it rises
with a feature, and how much of the mixed curvature belongs to each pair. Part of
``paper_continuous.py``.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import treepurify as tp
from examples.reproduction import Entry, Table
from treepurify import Decomposition

Function = Callable[[np.ndarray], np.ndarray]
STEP = 1e-3
# Of second derivatives.
WIDE_STEP = 0.03
# Rows this near to the ends of a feature are not differentiated.
INSIDE = 0.9


@dataclass(frozen=True)
class Geometry:
    """Diagnostics of a function on rows.

    Parameters
    ----------
    shares : ndarray of shape (n_features,)
        Eigenvalues of the mean outer product of gradients, relative to their sum, the largest
        first.
    direction : ndarray of shape (n_features,)
        The eigenvector of the largest.
    rising : float
        Share of rows where the function rises with the first feature.
    mixed : float
        Root mean square of the second derivative by the first two features.
    """

    shares: np.ndarray
    direction: np.ndarray
    rising: float
    mixed: float


def geometry(f: Function, X: np.ndarray) -> Geometry:
    """Return diagnostics of a smooth function, by central differences."""
    n = X.shape[1]
    steps = STEP * np.eye(n)
    slopes = np.stack([(f(X + s) - f(X - s)) / (2 * STEP) for s in steps], axis=1)
    values, vectors = np.linalg.eigh(slopes.T @ slopes / len(X))
    first, second = WIDE_STEP * np.eye(n)[:2]
    corners = f(X + first + second) + f(X - first - second)
    corners -= f(X + first - second) + f(X - first + second)
    return Geometry(
        values[::-1] / values.sum(),
        vectors[:, -1],
        float(np.mean(slopes[:, 0] > 0)),
        float(np.sqrt(np.mean((corners / (4 * WIDE_STEP**2)) ** 2))),
    )


def smooth_part(d: Decomposition) -> Function:
    """Return the sum of the components, without what the fit leaves."""
    fitted = d.without("remainder") if d.remainder is not None else d
    return fitted.predict


def _cases() -> dict[str, Function]:
    return {
        "sin(2 (x1 + x2)) + x3": lambda X: np.sin(2 * (X[:, 0] + X[:, 1])) + X[:, 2],
        "x1 + exp(x2) + x3 squared": lambda X: X[:, 0] + np.exp(X[:, 1]) + X[:, 2] ** 2,
        "x1 x2 + x1 x3 / 2": lambda X: X[:, 0] * X[:, 1] + X[:, 0] * X[:, 2] / 2,
    }


def dependent_rows(n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return rows in (-1, 1), the first two features correlated by 0.5."""
    normal = rng.multivariate_normal([0, 0, 0], [[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]], n_rows)
    return np.tanh(normal)


def geometry_table(n_rows: int) -> Table:
    """Return diagnostics of known functions, and of their closed forms fitted to rows."""
    X = dependent_rows(n_rows, np.random.default_rng(0))
    inside = X[(np.abs(X) < INSIDE).all(axis=1)]
    entries = []
    for name, f in _cases().items():
        true = geometry(f, inside)
        lines = {"true": _cells(true, true)}
        for kind, explained in (("closed form", f), ("closed form of trees", _trees(f, X))):
            d = tp.legendre_anova(explained, X, degree=6, scaling="minmax", progress=False)
            lines[kind] = _cells(geometry(smooth_part(d), inside), true)
        entries.append(Entry(name, (), lines))
    return Table(
        "continuous_geometry",
        "Section 6, future work of the paper: the geometry of a black box",
        ("eigenvalues, shares", "degrees off", "rises with x1", "mixed curvature of x1, x2"),
        entries,
        ".2f",
        (
            f"{n_rows} rows, x1 and x2 correlated; degree 6, pairs; means over the rows inside"
            f" (-{INSIDE}, {INSIDE}). Trees: XGBoost, 300 of depth 4, which have no derivatives"
            " themselves. *Degrees off* is the angle between the first eigenvectors.",
            "One eigenvalue per direction along which the function changes: two for the first"
            " function, which has three features.",
        ),
    )


def _trees(f: Function, X: np.ndarray) -> Function:
    from xgboost import XGBRegressor

    model = XGBRegressor(n_estimators=300, max_depth=4, learning_rate=0.1).fit(X, f(X))
    return lambda rows: model.predict(rows).astype(float)


def _cells(own: Geometry, true: Geometry) -> tuple[str, float, float, float]:
    shares = " ".join(f"{share:.2f}" for share in own.shares)
    cosine = min(1.0, abs(float(own.direction @ true.direction)))
    return shares, float(np.degrees(np.arccos(cosine))), own.rising, own.mixed
