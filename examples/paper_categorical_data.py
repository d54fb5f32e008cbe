"""
Tables 2 and 5 of the categorical closed form: the data sets
============================================================

How many features and levels there are, how many combinations of levels, and how many of these the
rows contain. Part of ``paper_categorical.py``.
"""

import math

from examples.data import dota2, read_table
from examples.reproduction import Cell, Entry, Table

# Name: the file, the column of labels, features, power of ten of the hypergrid, and rows. Of Poker
# Hand, Connect-4 and Dota2 the paper prints powers of 52, 3 and 3.
PAPER = {
    "Car Evaluation": ("car_evaluation", "class", 6, math.log10(1728), None),
    "Nursery": ("nursery", "class", 8, math.log10(12_960), None),
    "Mushrooms": ("mushroom", "class", 22, 14.0, 8124),
    "Poker Hand": ("poker_hand_train", "CLASS", 10, 5 * math.log10(52), 25_000),
    "Connect-4": ("connect4", "class", 42, 42 * math.log10(3), 67_000),
    "Dota2": ("dota2", "win", 113, 115 * math.log10(3), 102_000),
}


def data_table() -> Table:
    """Return what the data sets are made of."""
    entries = []
    for title, (name, label, n_features, power, n_rows) in PAPER.items():
        X = (dota2() if name == "dota2" else read_table(name)).drop(columns=label)
        levels = X.nunique()
        distinct = len(X.drop_duplicates())
        largest = round(sum(math.log10(n) for n in levels), 2)
        of_file: tuple[Cell, ...] = (X.shape[1], f"{levels.min()} to {levels.max()}", largest)
        printed = (n_features, None, round(power, 2), n_rows, None)
        entries.append(Entry(title, printed, {"ours": (*of_file, len(X), distinct)}))
    return Table(
        "categorical_tables_2_and_5",
        "Tables 2 and 5: the data sets",
        ("features", "levels of each", "log10 of the hypergrid", "rows", "different rows"),
        entries,
        ".6g",
        (
            "The paper rounds the numbers of rows. Dota2 has the rows of both its files. Two of the"
            " 113 heroes are played by nobody, so they have one level. The paper writes 3 to the"
            " power of 115 for 113 features.",
        ),
    )
