"""
Shapley residuals and the groups of Shapley Sets
================================================

Section 5 of the Shapley Sets paper reads a residual that is not zero as the sign of a non-separable
group. Computed here for the game of section 1, which is example 2, and for the functions of table
1. Part of ``paper_shapley_sets.py``.
"""

from collections.abc import Callable, Sequence

import numpy as np

import treepurify as tp
from examples.paper_shapley_sets_examples import with_product
from examples.reproduction import Entry, Table

Function = Callable[[np.ndarray], np.ndarray]
Groups = Sequence[Sequence[int]]

# Groups of example 2, and whether the game is a sum of theirs and that of the other features.
OF_EXAMPLE_2 = {"x1": True, "x2": False, "x1 & x2": False, "x2 & x3": True}
NAMES = {True: "zero", False: "not zero"}


def _in_words(is_zero: bool) -> str:
    return NAMES[bool(is_zero)]


def residuals_of_groups(
    f: Function, groups: Groups, n_rows: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return residuals of whole groups, of their features, and of two groups mixed, each by row.

    Features of groups of one have none, and are left out of the second.
    """
    rng = np.random.default_rng(0)
    rows, reference = rng.uniform(-1, 1, (n_rows, 7)), rng.uniform(-1, 1, (1, 7))
    d = tp.partial_dependence_anova(f, reference, order=None, progress=False)
    parts = [[j] for group in groups if len(group) > 1 for j in group]
    large = [group for group in groups if len(group) > 1]
    mixed = [[large[0][0], large[1][0]]]
    return tuple(
        d.shapley_residuals(rows, groups=[list(g) for g in some]).to_numpy()
        for some in (groups, parts, mixed)
    )


def residuals(functions: dict[str, tuple[Function, Groups]], n_rows: int) -> Table:
    """Return the residuals of groups and of parts of groups."""
    names = ["x1", "x2", "x3"]
    options = {"order": None, "feature_names": names, "progress": False}
    d = tp.partial_dependence_anova(with_product, np.zeros((1, 3)), **options)
    found = d.shapley_residuals(np.ones((1, 3)), groups=list(OF_EXAMPLE_2))
    entries = []
    for name, adds_up in OF_EXAMPLE_2.items():
        own = float(found[name].iloc[0])
        cells = (f"{own:.3f}", _in_words(own < 1e-12))
        entries.append(Entry(f"example 2, {{{name}}}", ("", NAMES[adds_up]), {"ours": cells}))
    for name, (f, groups) in functions.items():
        kinds = ("whole groups", "single features of groups", "features of two groups")
        every = residuals_of_groups(f, groups, n_rows)
        for kind, values, is_zero in zip(kinds, every, (True, False, False), strict=True):
            shown = f"{values.min():.3f} to {values.max():.3f}"
            cells = (shown, _in_words(values.max() < 1e-7))
            entries.append(Entry(f"{name}, {kind}", ("", NAMES[is_zero]), {"ours": cells}))
    return Table(
        "shapley_sets_residuals",
        "Section 5: Shapley residuals of groups, off the manifold",
        ("residual", "zero or not"),
        entries,
        notes=(
            "The residual is relative, 0 to 1. The rows marked *paper* follow from the definition"
            " that section 5 quotes: zero where the game is a sum of one of the group and one of"
            f" the others. Functions of table 1: {n_rows} rows against one reference, smallest and"
            " largest. In f2, a feature whose sign equals that of the reference has no influence.",
            'So a residual that is not zero is not an "indication that a coalition is a'
            ' non-separable variable group", as section 5 says: the residual of a whole group is'
            " zero, and those of its parts are not. Shapley Sets are the smallest groups without"
            " residual on any row.",
        ),
    )
