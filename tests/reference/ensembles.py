"""Random ensembles built node by node, and their values in every cell."""

import numpy as np

from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Grid
from treepurify.links import Link
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parsed import ModelSource
from treepurify.rows.columns import FeatureSpec

CUTS = np.array([-1.0, 0.25, 1.5])


def random_ensemble(
    rng: np.random.Generator,
    *,
    n_features: int = 3,
    n_categorical: int = 0,
    n_codes: int = 3,
    n_trees: int = 6,
    depth: int = 3,
    n_outputs: int = 1,
    vector_leaves: bool = False,
    n_distinct: int | None = None,
) -> TreeEnsemble:
    """Trees with random splits: repeated and contradictory tests on a path are frequent.

    The last `n_categorical` features are categorical. Each tree uses at most `n_distinct`
    features; with few cuts to choose from, many nodes cannot be reached.
    """
    nodes: dict[str, list] = {
        key: [] for key in ("feature", "cut", "left", "right", "missing", "table", "value")
    }
    tables: list[np.ndarray] = []
    width = n_outputs if vector_leaves else 1
    tree_ptr = [0]

    def grow(level: int, allowed: np.ndarray) -> int:
        node = len(nodes["feature"])
        is_leaf = level == 0 or rng.random() < 0.15
        feature = -1 if is_leaf else int(rng.choice(allowed))
        categorical = feature >= n_features - n_categorical
        nodes["feature"].append(feature)
        nodes["cut"].append(np.nan if is_leaf or categorical else float(rng.choice(CUTS)))
        nodes["missing"].append(bool(not is_leaf and rng.random() < 0.5))
        nodes["table"].append(-1)
        nodes["value"].append(rng.normal(size=width) if is_leaf else np.zeros(width))
        nodes["left"].append(-1)
        nodes["right"].append(-1)
        if categorical:
            nodes["table"][node] = len(tables) * (n_codes + 1)
            tables.append(rng.random(n_codes + 1) < 0.5)
        if not is_leaf:
            nodes["left"][node] = grow(level - 1, allowed)
            nodes["right"][node] = grow(level - 1, allowed)
        return node

    for _ in range(n_trees):
        count = n_features if n_distinct is None else n_distinct
        grow(int(rng.integers(0, depth + 1)), rng.choice(n_features, size=count, replace=False))
        tree_ptr.append(len(nodes["feature"]))
    output = np.full(n_trees, -1) if vector_leaves else rng.integers(0, n_outputs, size=n_trees)
    features = tuple(
        FeatureSpec(f"x{j}")
        if j < n_features - n_categorical
        else FeatureSpec(f"x{j}", "categorical", n_codes=n_codes)
        for j in range(n_features)
    )
    return TreeEnsemble(
        tree_ptr=np.array(tree_ptr, dtype=np.int64),
        feature=np.array(nodes["feature"], dtype=np.int32),
        cut=np.array(nodes["cut"], dtype=np.float64),
        left=np.array(nodes["left"], dtype=np.int32),
        right=np.array(nodes["right"], dtype=np.int32),
        missing_left=np.array(nodes["missing"], dtype=np.bool_),
        category_ptr=np.array(nodes["table"], dtype=np.int64),
        category_left=np.concatenate(tables) if tables else np.zeros(0, dtype=np.bool_),
        value=np.array(nodes["value"], dtype=np.float64).reshape(-1, width),
        tree_output=output.astype(np.int32),
        base=rng.normal(size=n_outputs),
        features=features,
        output_names=tuple(f"y{k}" for k in range(n_outputs)),
        link=Link(),
        source=ModelSource("test", "0", "random"),
    )


def complete_ensemble(
    rng: np.random.Generator, *, n_features: int, depth: int, n_trees: int
) -> TreeEnsemble:
    """Complete trees whose paths test random features at random cuts, made without recursion."""
    n_inner, n_nodes = 2**depth - 1, 2 ** (depth + 1) - 1
    heap = np.arange(n_nodes)
    inner = np.tile(heap < n_inner, n_trees)
    offset = np.repeat(np.arange(n_trees) * n_nodes, n_nodes)
    total = n_trees * n_nodes
    return TreeEnsemble(
        tree_ptr=np.arange(n_trees + 1, dtype=np.int64) * n_nodes,
        feature=np.where(inner, rng.integers(0, n_features, total), -1).astype(np.int32),
        cut=np.where(inner, rng.normal(size=total).round(1), np.nan),
        left=np.where(inner, np.tile(2 * heap + 1, n_trees) + offset, -1).astype(np.int32),
        right=np.where(inner, np.tile(2 * heap + 2, n_trees) + offset, -1).astype(np.int32),
        missing_left=np.zeros(total, dtype=np.bool_),
        category_ptr=np.full(total, -1, dtype=np.int64),
        category_left=np.zeros(0, dtype=np.bool_),
        value=np.where(inner, 0.0, rng.normal(size=total))[:, None],
        tree_output=np.zeros(n_trees, dtype=np.int32),
        base=np.zeros(1),
        features=tuple(FeatureSpec(f"x{j}") for j in range(n_features)),
        output_names=("y",),
        link=Link(),
        source=ModelSource("test", "0", "complete"),
    )


def representatives(axis: FeatureAxis) -> np.ndarray:
    """Two values in every cell of an axis: its lower end and just below its upper end."""
    if axis.cuts is None:
        low = np.arange(axis.n_regular + axis.has_other, dtype=float)
        pairs = np.stack([low, low])
    else:
        cuts = axis.cuts
        pairs = np.stack(
            [
                np.concatenate([[-np.inf], cuts]),
                np.concatenate([np.nextafter(cuts, -9e9), [np.inf]]),
            ]
        )
    return np.hstack([pairs, np.full((2, int(axis.has_missing)), np.nan)])


def values_in_cells(ensemble: TreeEnsemble, grid: Grid) -> np.ndarray:
    """Margin in every cell of the full grid, from the trees themselves.

    Evaluated on both representatives of each cell, which must agree.
    """
    ends = [representatives(axis) for axis in grid.axes]
    found = []
    for end in range(2):
        points = np.meshgrid(*[pair[end] for pair in ends], indexing="ij")
        margin = ensemble.margin(np.stack([p.ravel() for p in points], axis=1))
        found.append(margin.reshape(*points[0].shape, -1))
    np.testing.assert_array_equal(found[0], found[1])
    return found[0]


def spread_out(tables: dict, grid: Grid, intercept: np.ndarray) -> np.ndarray:
    """Sum of tables of subsets of the features, in every cell of the full grid."""
    shape = grid.shape(tuple(range(grid.n_features)))
    total = np.tile(intercept, (*shape, 1)).astype(float)
    for subset, table in tables.items():
        own = [size if j in subset else 1 for j, size in enumerate(shape)]
        total = total + table.reshape(*own, -1)
    return total


def rows_in_all_cells(
    rng: np.random.Generator, ensemble: TreeEnsemble, grid: Grid, n_rows: int
) -> np.ndarray:
    """Dependent rows: every cell of the full grid once, and more rows along a diagonal."""
    points = np.meshgrid(*[representatives(axis)[0] for axis in grid.axes], indexing="ij")
    every = np.stack([p.ravel() for p in points], axis=1)
    every = np.where(np.isneginf(every), -2.0, every)
    place = rng.random(n_rows)
    columns = []
    for axis in grid.axes:
        choice = np.where(np.isneginf(representatives(axis)[0]), -2.0, representatives(axis)[0])
        noisy = np.clip(place + 0.15 * rng.normal(size=n_rows), 0, 0.999)
        columns.append(choice[(noisy * len(choice)).astype(int)])
    rows = np.vstack([every, np.stack(columns, axis=1)])
    numeric = [not axis.is_categorical for axis in grid.axes]
    # Off the cuts, but within the cell.
    rows[:, numeric] += 0.9 * rng.random(rows[:, numeric].shape)
    return rows
