"""The projection on coarse cells by singular values of a dense design."""

import numpy as np

# Squared singular values below this are directions that the rows do not determine.
RANK_TOLERANCE = 1e-10


def least_norm_tables(problem):
    """Tables of the family, by dense least squares on functions of each set of features.

    They are orthonormal where features keep their margins and are independent: so the solution of
    least norm is that of the smallest coefficients.
    """
    functions = [functions_of_one(margin) for margin in problem.margins]
    held = [[problem.terms.position[j] for j in subset] for subset in problem.terms.family]
    columns = []
    for positions in held:
        product = np.ones((len(problem.cells), 1))
        for f in positions:
            values = functions[f][problem.cells[:, f]]
            product = (product[:, :, None] * values[:, None, :]).reshape(len(product), -1)
        columns.append(product)
    root = np.sqrt(problem.weights)[:, None]
    left, singular, right = np.linalg.svd(root * np.hstack(columns), full_matrices=False)
    kept = singular**2 > RANK_TOLERANCE
    along = left[:, kept].T @ (root * problem.target)
    coefficients = right[kept].T @ (along / singular[kept, None])
    pieces = np.split(coefficients, np.cumsum([part.shape[1] for part in columns])[:-1])
    tables = {}
    for subset, positions, piece in zip(problem.terms.family, held, pieces, strict=True):
        table = piece.reshape(*(functions[f].shape[1] for f in positions), piece.shape[1])
        for axis, f in enumerate(positions):
            table = np.moveaxis(np.tensordot(functions[f], table, (1, axis)), 0, axis)
        tables[subset] = table
    return tables


def functions_of_one(margin):
    """Functions of one feature on its cells, orthonormal and of mean zero; zero without mass."""
    root = np.sqrt(margin[margin > 0])
    basis, _ = np.linalg.qr(np.column_stack([root, np.eye(len(root))[:, :-1]]))
    functions = np.zeros((len(margin), len(root) - 1))
    functions[margin > 0] = basis[:, 1:] / root[:, None]
    return functions
