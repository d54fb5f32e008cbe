"""On which functions of two features should a tree be projected?

Each tree of an XGBoost model of depth 6 is fitted by least squares on three spaces: indicators of
all pairs of its own cells, of features that are on one path (what treehfd fits); products of its
splits that are on one path (what ``tp.purify`` fits); and products of the sides of its leaves'
boxes. The fits are summed. R-squared of the model on the fitted rows and on 50 000 new ones, which
measures the distance to the best functions of two features in the population.
Run: ``python benchmarks/spaces_of_trees.py``.
"""

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import xgboost
from deep_scaling import response

Box = tuple[float, float]
Product = tuple[tuple[int, Box], ...]

# Rows, features, correlation.
CASES = (
    (10_000, 8, 0.5),
    (10_000, 8, 0.9),
    (100_000, 8, 0.5),
    (100_000, 8, 0.9),
    (100_000, 30, 0.5),
)
N_TREES, N_NEW = 10, 50_000
SPACES = ("pairs of cells", "products of splits", "boxes of leaves")


def rows(seed: int, n_rows: int, n_features: int, correlation: float) -> np.ndarray:
    """Normal features, all with the same correlation, in single precision."""
    rng = np.random.default_rng(seed)
    common, own = rng.normal(size=(n_rows, 1)), rng.normal(size=(n_rows, n_features))
    mixed = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own
    return mixed.astype(np.float32)


def paths(table, node: str, path: tuple = ()) -> Iterator[tuple]:
    """Yield the splits above each leaf: feature, cut and whether the path goes left."""
    split = table[node]
    if split["Feature"] == "Leaf":
        yield path
        return
    feature, cut = int(split["Feature"][1:]), float(np.float32(split["Split"]))
    yield from paths(table, split["Yes"], (*path, (feature, cut, True)))
    yield from paths(table, split["No"], (*path, (feature, cut, False)))


def functions(space: str, of_tree: list[tuple]) -> list[Product]:
    """Return the functions of one and two features in a space, as products of intervals."""
    found: set[Product] = set()
    cuts: dict[int, set[float]] = {}
    for path in of_tree:
        for feature, cut, _ in path:
            cuts.setdefault(feature, set()).add(cut)
    for path in of_tree:
        if space == "products of splits":
            sides = [(feature, (-np.inf, cut)) for feature, cut, _ in path]
        elif space == "boxes of leaves":
            box: dict[int, Box] = {}
            for feature, cut, is_left in path:
                low, high = box.get(feature, (-np.inf, np.inf))
                box[feature] = (low, min(high, cut)) if is_left else (max(low, cut), high)
            sides = list(box.items())
        else:
            sides = [
                (feature, cell)
                for feature in {feature for feature, *_ in path}
                for cell in zip(
                    [-np.inf, *sorted(cuts[feature])], sorted(cuts[feature]), strict=False
                )
            ]
        found.update((side,) for side in sides)
        pairs = (tuple(sorted(pair)) for pair in combinations(sides, 2))
        found.update(pair for pair in pairs if pair[0][0] != pair[1][0])
    return sorted(found)


def design(X: np.ndarray, products: list[Product]) -> np.ndarray:
    """Return the functions on the rows, one a column, the constant first."""
    columns = np.ones((len(X), 1 + len(products)), dtype=np.float32)
    for u, product in enumerate(products, start=1):
        for feature, (low, high) in product:
            columns[:, u] *= (X[:, feature] >= low) & (X[:, feature] < high)
    return columns


def fit(columns: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the coefficients of least squares, by normal equations."""
    gram, sides = 0.0, 0.0
    for start in range(0, len(columns), 10_000):
        some = columns[start : start + 10_000]
        # Sums of this number of ones are exact in single precision.
        gram = gram + (some.T @ some).astype(np.float64)
        sides = sides + some.T.astype(np.float64) @ target[start : start + 10_000]
    return np.linalg.lstsq(gram, sides, rcond=1e-11)[0]


def main() -> None:
    """Print one line a model."""
    print(f"R-squared of {N_TREES} trees on fitted rows, new rows; functions of a tree")
    print(f"{'rows x features, correlation':<30}" + "".join(f"{space:>28}" for space in SPACES))
    for n_rows, n_features, correlation in CASES:
        X, new = (rows(seed, n, n_features, correlation) for seed, n in ((0, n_rows), (1, N_NEW)))
        y = response(X.astype(np.float64))
        booster = xgboost.XGBRegressor(n_estimators=N_TREES, max_depth=6).fit(X, y).get_booster()
        table = booster.trees_to_dataframe().set_index("ID").to_dict("index")
        sums = {space: [np.zeros(n_rows), np.zeros(N_NEW), 0] for space in SPACES}
        margins = [booster.predict(xgboost.DMatrix(some), output_margin=True) for some in (X, new)]
        before = [np.zeros(n_rows), np.zeros(N_NEW)]
        for tree in range(N_TREES):
            after = [
                booster.predict(
                    xgboost.DMatrix(some), output_margin=True, iteration_range=(0, tree + 1)
                ).astype(np.float64)
                for some in (X, new)
            ]
            of_tree = list(paths(table, f"{tree}-0"))
            for space in SPACES:
                products = functions(space, of_tree)
                coefficients = fit(design(X, products), after[0] - before[0])
                sums[space][0] += design(X, products) @ coefficients
                sums[space][1] += design(new, products) @ coefficients
                sums[space][2] += len(products) / N_TREES
            before = after
        found = []
        for space in SPACES:
            shares = [
                1 - np.var(margin - fitted) / np.var(margin)
                for margin, fitted in zip(margins, sums[space][:2], strict=True)
            ]
            found.append(f"{shares[0]:.4f}, {shares[1]:.4f}; {sums[space][2]:.0f}")
        line = "".join(f"{text:>28}" for text in found)
        print(f"{f'{n_rows} x {n_features}, {correlation}':<30}{line}", flush=True)


if __name__ == "__main__":
    main()
