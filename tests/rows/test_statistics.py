"""Every statistic gives the same of one batch, of many, and of parts that are merged in pairs."""

import importlib
import inspect
import pickle
import pkgutil
from dataclasses import fields, is_dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor

import treepurify as tp
from tests.engines.tree.streams import batches
from treepurify.rows.batches import Batch
from treepurify.rows.reduction import CombinedStatistic, RowStream

QUIET = {"progress": False}
N_ROWS = 1300
# The protocol, and the statistic that is several others.
NO_SINGLE_STATISTIC = {"Statistic", "CombinedStatistic"}
METHODS = ("zero", "add", "merge")


# What is read of a state that keeps rows in no order.
READ = {
    "StreamSample": lambda statistic, state: statistic.result(state),
}


def classes_of_statistics():
    """Return the names of all classes of the package with `zero`, `add` and `merge`."""
    names = set()
    for module in pkgutil.walk_packages(tp.__path__, "treepurify."):
        if module.name.startswith(("treepurify._kernels", "treepurify.__main__")):
            continue
        for name, cls in vars(importlib.import_module(module.name)).items():
            if inspect.isclass(cls) and all(hasattr(cls, method) for method in METHODS):
                names.add(name)
    return sorted(names - NO_SINGLE_STATISTIC)


def given_rows():
    """Return rows with missing values and weights of which some are zero, and a target."""
    rng = np.random.default_rng(4)
    level = rng.integers(0, 9, N_ROWS)
    X = pd.DataFrame(
        {
            "level": level.astype(float),
            "block": (level // 3).astype(float),
            "along": level + rng.normal(size=N_ROWS),
            "alone": rng.normal(size=N_ROWS),
        }
    )
    y = X["level"] + 2.0 * X["block"] + X["along"] * X["alone"] / 8.0
    return X, y, rng.integers(0, 3, N_ROWS).astype(float)


@pytest.fixture(scope="module")
def statistics():
    """Return each statistic that public functions learn from rows in batches, with its reader."""
    found = {}
    reduce = RowStream.reduce

    def noted(stream, statistic, what, report):
        inside = statistic.statistics if isinstance(statistic, CombinedStatistic) else (statistic,)
        for one in inside:
            found.setdefault(type(one).__name__, (one, stream.reader))
        return reduce(stream, statistic, what, report)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RowStream, "reduce", noted)
        patch.setattr("treepurify.engines.tree.plan.LOOKED_ROWS", 60)
        call_everything()
    return found


def call_everything():
    """Ask for all that is learned from rows in batches."""
    X, y, weight = given_rows()
    shallow = GradientBoostingRegressor(n_estimators=20, max_depth=1, random_state=0).fit(X, y)
    deep = GradientBoostingRegressor(n_estimators=8, max_depth=3, random_state=0).fit(X, y)
    forest = RandomForestRegressor(n_estimators=3, max_leaf_nodes=30, random_state=0).fit(X, y)
    rows = batches(X.assign(weight=weight, target=y, group=X["block"] > 0), 210)
    weighted = {"sample_weight": "weight", **QUIET}
    additive = tp.purify(shallow, rows, **{"weights": "empirical", **weighted})
    whole = {"method": "exact", "order": None, "weights": "empirical"}
    exact = tp.purify(deep, rows, **{**whole, **weighted})
    tp.compare(additive, exact, rows, **weighted)
    tp.hooker_anova(deep, rows, bins=2, order=1, **weighted)
    tp.purify(forest, rows, **{"weights": "empirical", **weighted})


def of_one_batch(statistic, reader, table):
    return statistic.add(statistic.zero(), reader.read(Batch(table, 0, 0, "a table")))


def parts_of(reader, table):
    """Return the rows in parts of unequal size, one of them a single row."""
    ends = [0, 1, 300, 310, 900, len(table)]
    for start, stop in pairwise(ends):
        yield reader.read(Batch(table.iloc[start:stop], 0, start, "a part"))


def of_many_batches(statistic, reader, table):
    state = statistic.zero()
    for rows in parts_of(reader, table):
        state = statistic.add(state, rows)
    return state


def of_merged_parts(statistic, reader, table):
    """Learn of each part alone, of copies as other processes have them, and merge in pairs."""
    states = [
        pickle.loads(pickle.dumps(statistic.add(statistic.zero(), rows)))
        for rows in parts_of(reader, table)
    ]
    while len(states) > 1:
        pairs = [states[i : i + 2] for i in range(0, len(states), 2)]
        states = [statistic.merge(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return states[0]


def assert_equal_states(found, expected):
    if is_dataclass(expected):
        for field in fields(expected):
            assert_equal_states(getattr(found, field.name), getattr(expected, field.name))
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            assert_equal_states(found[key], value)
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_equal_states(one, other)
    elif isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(found, expected)
    elif isinstance(expected, np.ndarray | float | int):
        scale = np.max(np.abs(expected), initial=1.0) if np.size(expected) else 1.0
        finite = scale if np.isfinite(scale) else 1.0
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10 * finite)
    else:
        assert found == expected


@pytest.mark.parametrize("name", classes_of_statistics())
@pytest.mark.parametrize("how", [of_many_batches, of_merged_parts])
def test_one_batch_is_many_batches_and_merged_parts(statistics, name, how):
    assert name in statistics, f"no call reduces a {name}: add one to call_everything"
    statistic, reader = statistics[name]
    X, y, weight = given_rows()
    table = X.assign(weight=weight, target=y, group=X["block"] > 0)
    read = READ.get(name, lambda _, state: state)
    expected = read(statistic, of_one_batch(statistic, reader, table))
    assert_equal_states(read(statistic, how(statistic, reader, table)), expected)
