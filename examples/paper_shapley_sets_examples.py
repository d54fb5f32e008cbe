"""
The worked examples of the Shapley Sets paper
=============================================

Examples 1 and 2 with and without dependent features, the comparison on and off the manifold of the
data (section 4), Owen values within a group, and products (section 7). Part of
``paper_shapley_sets.py``.
"""

import numpy as np

import treepurify as tp
from examples.paper_shapley_sets_owen import owen_values
from examples.paper_shapley_sets_products import product_groups
from examples.paper_shapley_sets_sources import interaction_sources
from examples.reproduction import Entry, Table
from treepurify.results import ShapleySets

ALPHA = 0.5


def additive(X: np.ndarray) -> np.ndarray:
    """Return the first feature plus the last."""
    return X[:, 0] + X[:, -1]


def with_product(X: np.ndarray) -> np.ndarray:
    """Return x1 + 2 x2 x3, whatever else there is."""
    return X[:, 0] + 2 * X[:, 1] * X[:, 2]


def _groups(sets: ShapleySets) -> str:
    pairs = zip(sets.group_names, sets.values[0, :, 0], strict=True)
    return ", ".join(f"{{{name}}} {value + 0.0:.2f}" for name, value in pairs)


def example_1() -> Table:
    """Return example 1: f = x1 + x3, binary, x2 = x3, with and without x2."""
    X = np.random.default_rng(0).integers(0, 2, size=(4000, 3)).astype(float)
    X[:, 2] = X[:, 1]
    entries = []
    for name, columns in (("with x2", [0, 1, 2]), ("without x2", [0, 2])):
        names = [f"x{j + 1}" for j in columns]
        options = {"value": "conditional", "feature_names": names, "progress": False}
        row = np.ones((1, len(columns)))
        sets = tp.shapley_sets(additive, X[:, columns], row, **options)
        single = tp.shapley_sets(additive, X[:, columns], groups=[], **options)
        values = owen_values(single, row)[0, :, 0]
        shown = ", ".join(f"{n} {v:.2f}" for n, v in zip(names, values, strict=True))
        printed = ("{x1}, {x2, x3} alike" if name == "with x2" else "{x1}, {x3} alike", "")
        entries.append(Entry(name, printed, {"ours": (_groups(sets), shown)}))
    return Table(
        "shapley_sets_example_1",
        "Example 1: f = x1 + x3, binary, x2 = x3, at (1, 1, 1), conditional",
        ("Shapley Sets", "Shapley values"),
        entries,
        notes=(
            "The paper: Shapley Sets give x1 and x3 the same with and without x2, conditional"
            " Shapley values do not. Values are relative to the mean of one. (According to the "
            "paper's text, the values of both x2 and x3 are *greater* than the value of x1; they "
            "are half of it.)",
        ),
    )


def example_2() -> Table:
    """Return example 2: f = x1 + 2 x2 x3, with independent features and with x1 = alpha x2."""
    rng = np.random.default_rng(0)
    independent = rng.normal(size=(5000, 3))
    dependent = independent.copy()
    dependent[:, 0] = ALPHA * dependent[:, 1]
    row = np.ones((1, 3))
    of_group = "{x1} 1.00, {x2 & x3} 2.00"
    cases = (
        ("independent, off the manifold", independent, "baseline", of_group),
        ("independent, on the manifold", independent, "conditional", of_group),
        ("x1 = x2 / 2, off the manifold", dependent, "baseline", of_group),
        ("x1 = x2 / 2, on the manifold", dependent, "conditional", "{x1 & x2 & x3} 3 - E[f]"),
    )
    entries = []
    for name, X, value, printed in cases:
        options = {"value": value, "feature_names": ["x1", "x2", "x3"], "progress": False}
        if value == "baseline":
            options["baseline"] = [0.0, 0.0, 0.0]
        sets = tp.shapley_sets(with_product, X, row, **options)
        within = owen_values(sets, row)[0, :, 0]
        shown = " ".join(f"{value + 0.0:.2f}" for value in within)
        cells = (_groups(sets), shown, float(sets.base[0]))
        entries.append(Entry(name, (printed, None, None), {"ours": cells}))
    return Table(
        "shapley_sets_example_2",
        "Example 2: f = x1 + 2 x2 x3 at (1, 1, 1)",
        ("Shapley Sets", "Owen values", "E[f], as estimated"),
        entries,
        ".2f",
        (
            "On the manifold, values are relative to the mean and the correlations, which are"
            " estimated from 5000 rows. Owen values divide a group further: x2 and x3 each have one"
            " within {x2, x3}, equal to the Shapley value.",
        ),
    )


def sources() -> Table:
    """Return where the interactions of the examples come from, pair by pair."""
    rng = np.random.default_rng(0)
    independent = rng.normal(size=(5000, 3))
    dependent = independent.copy()
    dependent[:, 0] = ALPHA * dependent[:, 1]
    copied = independent.copy()
    copied[:, 2] = copied[:, 1]
    cases = (
        ("example 1", additive, copied),
        ("example 2, independent", with_product, independent),
        ("example 2, x1 = x2 / 2", with_product, dependent),
    )
    expected = {
        "example 1": ("none", "none", "data"),
        "example 2, independent": ("none", "none", "model"),
        "example 2, x1 = x2 / 2": ("data", None, "model"),
    }
    pairs = (("x1", "x2"), ("x1", "x3"), ("x2", "x3"))
    entries = []
    for name, f, X in cases:
        found = interaction_sources(f, X, feature_names=["x1", "x2", "x3"], progress=False)
        named = {(row.first, row.second): row.source for row in found.to_frame().itertuples()}
        cells = tuple(named[pair] for pair in pairs)
        entries.append(Entry(name, expected[name], {"ours": cells}))
    return Table(
        "shapley_sets_section_4",
        "Section 4: where an interaction takes place",
        tuple(" and ".join(pair) for pair in pairs),
        entries,
        notes=(
            "The rows marked *paper* are derived from its text. *Through others* means that x1 and"
            " x3 neither interact in the model nor depend on each other, but x1 stands for x2,"
            " which interacts with x3.",
        ),
    )


def products() -> Table:
    """Return factors of groups that addition cannot separate."""
    functions = {
        "x1 x2 x3": (4, lambda X: X[:, :3].prod(axis=1), "one group, {x1, x2, x3}"),
        "x4 + 2 + exp(x1) sin(x2 + x3)": (
            4,
            lambda X: X[:, 3] + 2 + np.exp(X[:, 0]) * np.sin(X[:, 1] + X[:, 2]),
            "",
        ),
        "x1 x2 + x2 x3 + x3 x1": (
            4,
            lambda X: X[:, 0] * X[:, 1] + X[:, 1] * X[:, 2] + X[:, 2] * X[:, 0],
            "",
        ),
        "(x1 + x2) ... (x11 + x12)": (
            12,
            lambda X: (X[:, 0::2] + X[:, 1::2]).prod(axis=1),
            "",
        ),
    }
    entries = []
    for name, (n_features, f, printed) in functions.items():
        X = np.random.default_rng(0).normal(size=(500, n_features))
        names = [f"x{j + 1}" for j in range(n_features)]
        sets = tp.shapley_sets(f, X, feature_names=names, progress=False)
        found = product_groups(sets, X)
        shown = "; ".join(
            " times ".join("{" + ", ".join(names[j] for j in part) + "}" for part in own.factors)
            for own in found
        )
        paper = (printed, "") if printed else ()
        groups = ", ".join(f"{{{group}}}" for group in sets.group_names)
        entries.append(Entry(name, paper, {"ours": (groups, shown)}))
    return Table(
        "shapley_sets_products",
        "Section 7, future work of the paper: multiplicative separability",
        ("additive groups", "factors"),
        entries,
    )
