"""Values that no caller should pass, by what the argument stands for."""

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from scipy.sparse import csr_matrix

__all__ = ["ANYTHING", "BAD"]

N_ROWS, N_FEATURES = 24, 3
HUGE = 10**400
TOO_LONG = "a" * 5000


class Opaque:
    """An object that nothing is known about."""

    def __repr__(self) -> str:
        return "Opaque()"


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.integers(0, 3, (N_ROWS, N_FEATURES)) * 1.0, columns=["a", "b", "c"])


def a_pipe() -> str:
    """A file that is none, and that reading would wait for ever on."""
    path = Path(mkdtemp()) / "pipe"
    os.mkfifo(path)
    return str(path)


def not_text() -> dict[str, Any]:
    return {"a number": 5, "an object": Opaque(), "a list": [["x"]], "bytes": b"x"}


def not_whole() -> dict[str, Any]:
    return {
        "text": "x",
        "a fraction": 2.5,
        "negative": -7,
        "nan": float("nan"),
        "infinite": float("inf"),
        "a flag": True,
        "complex": 1j,
        "a list": [1, 2],
        "an array": np.array([1, 2]),
        "an object": Opaque(),
        "a type": int,
    }


def not_number() -> dict[str, Any]:
    kept = not_whole()
    for name in ("a fraction", "negative"):
        del kept[name]
    return {**kept, "beyond float": HUGE}


def not_width() -> dict[str, Any]:
    """An infinite bandwidth is the Gaussian copula."""
    kept = not_number()
    del kept["infinite"]
    return kept


def not_table() -> dict[str, Any]:
    X = frame()
    return {
        "nothing in it": object(),
        "text": "abc",
        "a number": 5,
        "a type": pd.DataFrame,
        "bytes": b"abc",
        "a mapping": {"a": [1.0]},
        "a set": {1.0, 2.0},
        "a generator": (row for row in [[1.0, 2.0, 3.0]]),
        "a function": len,
        "ragged": [[1.0, 2.0, 3.0], [1.0]],
        "one dimension": [1.0, 2.0, 3.0],
        "three dimensions": np.zeros((2, 3, 1)),
        "a column": X["a"],
        "no dimension": np.float64(2.0),
        "complex": X.to_numpy() + 1j,
        "too large": [[HUGE, 1, 2]],
        "words": [["a", "b", "c"]],
        "lists in cells": np.array([[[1], [2, 3], None]], dtype=object),
        "dates": np.zeros((2, 3), "datetime64[D]"),
        "a column of dates": X.assign(a=pd.Timestamp("2020-01-01")),
        "complex column": X.assign(a=1j),
        "too large in a column": X.assign(a=pd.Series([HUGE] * N_ROWS, dtype=object)),
        "sparse complex": csr_matrix(X.to_numpy() + 1j),
        "grouped": X.groupby("a"),
        "lazy": pl.LazyFrame(X.to_dict("list")),
        "a class of rows": X.iterrows(),
        "too wide": np.zeros((2, 9)),
        "other names": X.rename(columns={"a": "z"}),
        "repeated names": X.rename(columns={"a": "b"}),
        "no rows": X.iloc[:0],
    }


def not_table_of(*, a_function: bool) -> dict[str, Any]:
    """Rows that bring their own features: to a function, or as labels of levels."""
    answered = {"too wide", "other names", "too large in a column"}
    if not a_function:
        answered |= {"words", "too large"}
    return {name: value for name, value in not_table().items() if name not in answered}


def not_weights() -> dict[str, Any]:
    ones = np.ones(N_ROWS)
    return {
        "text": "heavy",
        "words": ["heavy"] * N_ROWS,
        "a number": 5,
        "an object": Opaque(),
        "ragged": [[1.0], [1.0, 2.0]] * (N_ROWS // 2),
        "complex": ones + 1j,
        "too large": [HUGE] * N_ROWS,
        "wrong length": ones[1:],
        "two dimensions": ones[:, None],
        "negative": -ones,
        "nan": ones * np.nan,
        "infinite": ones * np.inf,
        "zero": ones * 0,
        "dates": np.zeros(N_ROWS, "datetime64[D]"),
        "a mapping": {"a": 1.0},
        "a generator": (1.0 for _ in range(N_ROWS)),
        "a grouping": frame().groupby("a"),
    }


def not_names() -> dict[str, Any]:
    return {
        "text": "abc",
        "longer text": "abcd",
        "a number": 5,
        "an object": Opaque(),
        "nothing": [None, None, None],
        "repeated": ["a", "a", "b"],
        "too few": ["a", "b"],
        "nested": [["a"], ["b"], ["c"]],
        "a set": {"a", "b", "c"},
        "bytes": [b"a", b"b", b"c"],
    }


def not_path() -> dict[str, Any]:
    return {
        "a number": 5,
        "NUL": "a\0b",
        "too long": TOO_LONG,
        "empty": "",
        "an object": Opaque(),
        "a list": ["x"],
        "a folder": "/",
        "a pipe": a_pipe(),
        "no folder": "/nowhere/at/all/x",
        "a type": str,
        "bytes": b"a\0b",
    }


def not_choice() -> dict[str, Any]:
    return {"another word": "zzz", "empty": "", **not_text(), "a mapping": {}, "a flag": True}


def not_tensors() -> dict[str, Any]:
    return {
        "a list": [[1.0, 2.0]],
        "text": "abc",
        "a number": 5,
        "nothing": None,
        "empty": {},
        "an object": Opaque(),
        "ragged": {(0,): [[1.0], [1.0, 2.0]]},
        "words": {(0,): ["a", "b"]},
        "complex": {(0,): [1j, 2.0]},
        "too large": {(0,): [HUGE, 1]},
        "nan": {(0,): [float("nan"), 1.0]},
        "far feature": {(10**8,): [1.0, 2.0]},
        "farther feature": {(10**30,): [1.0, 2.0]},
        "flag feature": {(True, 2): [[1.0, 2.0]]},
        "negative feature": {(-1,): [1.0, 2.0]},
        "named feature": {("a",): [1.0, 2.0]},
        "empty feature": {(): [1.0, 2.0]},
        "no cells": {(0,): []},
        "another shape": {(0, 1): [1.0, 2.0]},
        "text key": {"01": [[1.0, 2.0]]},
        "nested key": {((0,), 1): [[1.0, 2.0]]},
    }


BAD: dict[str, Callable[[], dict[str, Any]]] = {
    "whole": not_whole,
    "order": lambda: {**not_whole(), "zero": 0, "too many": 99},
    "position": lambda: {**not_whole(), "too many": 99},
    "number": not_number,
    "width": not_width,
    "share": lambda: {**not_number(), "negative": -0.5},
    "flag": lambda: {"text": "no", "a number": 2, "an object": Opaque(), "a list": [False]},
    "choice": not_choice,
    "weighting": not_choice,
    "text": not_text,
    "table": not_table,
    # What is read batch by batch may be lazy.
    "table or batches": lambda: {n: rows for n, rows in not_table().items() if n != "lazy"},
    "table of a function": lambda: not_table_of(a_function=True),
    "table of labels": lambda: not_table_of(a_function=False),
    "batches of a function": lambda: {
        name: rows for name, rows in not_table_of(a_function=True).items() if name != "lazy"
    },
    "batches of labels": lambda: {
        name: rows for name, rows in not_table_of(a_function=False).items() if name != "lazy"
    },
    "rows": lambda: {name: rows for name, rows in not_table().items() if name != "no rows"},
    "rows or batches": lambda: {
        name: rows for name, rows in not_table().items() if name not in ("no rows", "lazy")
    },
    "row": lambda: {**not_table(), "a position": 3},
    "weights": not_weights,
    "one number a row": lambda: {
        name: values for name, values in not_weights().items() if name not in ("negative", "zero")
    },
    "observations": lambda: {
        "text": "heavy",
        "words": ["heavy"] * N_ROWS,
        "a number": 5,
        "an object": Opaque(),
        "ragged": [[1.0], [1.0, 2.0]] * (N_ROWS // 2),
        "complex": np.ones(N_ROWS) + 1j,
        "too large": [HUGE] * N_ROWS,
        "wrong length": np.ones(N_ROWS - 1),
        "two columns": np.ones((N_ROWS, 2)),
        "nan": np.full(N_ROWS, np.nan),
    },
    "held-out rows": lambda: {
        "text": "xy",
        "a number": 5,
        "an object": Opaque(),
        "rows alone": frame(),
        "two numbers": (1, 2),
        "no observations": (frame(), None),
    },
    "nodes": lambda: {
        "a list": [0.0, 1.0],
        "text": "abc",
        "a number": 5,
        "an object": Opaque(),
        "one node": {"a": [1.0]},
        "falling": {"a": [1.0, 0.0]},
        "nan": {"a": [0.0, float("nan")]},
        "words": {"a": ["low", "high"]},
        "complex": {"a": [0.0, 1j]},
        "ragged": {"a": [[0.0], [1.0, 2.0]]},
        "too large": {"a": [0, HUGE]},
        "another feature": {"nope": [0.0, 1.0]},
    },
    "cells": lambda: {
        "text": "x",
        "a number": 5,
        "an object": Opaque(),
        "too many": [1.0] * 99,
        "ragged": [[1.0], [1.0, 2.0]],
        "nan": [np.nan] * 3,
    },
    "names": not_names,
    "tensor names": lambda: {n: v for n, v in not_names().items() if n != "too few"},
    "function of a file": lambda: {"text": "x", "a number": 5, "an object": Opaque()},
    "finding": lambda: {**not_whole(), "too many": 99},
    "classes": lambda: {"text": "ab", "a number": 5, "an object": Opaque(), "one": [1]},
    "row of numbers": lambda: {"text": "x", "an object": Opaque(), "a number": 5, "words": ["a"]},
    "several named results": lambda: {
        "text": "x",
        "a number": 5,
        "an object": Opaque(),
        "empty": {},
        "of something else": {"a": Opaque()},
        "a list": [Opaque(), Opaque()],
    },
    "path": not_path,
    "name of a page": lambda: {n: v for n, v in not_path().items() if n != "a pipe"},
    "model": lambda: {
        "nothing": None,
        "a number": 5,
        "text": "no such file",
        "NUL": "a\0b",
        "too long": TOO_LONG,
        "a folder": "/",
        "a device": "/dev/null",
        "an object": Opaque(),
        "a type": Opaque,
        "rows": frame(),
        "a list": [1.0],
        "empty": "",
    },
    "other model": lambda: {n: v for n, v in BAD["model"]().items() if n != "nothing"},
    "several models": lambda: {
        "nothing": None,
        "a number": 5,
        "text": "ab",
        "an object": Opaque(),
        "one": [frame()],
        "of something else": [Opaque(), Opaque()],
        "nothing in it": [None, None],
    },
    "other trainings": lambda: {n: v for n, v in BAD["several models"]().items() if n != "nothing"},
    "estimator": lambda: {
        "nothing": None,
        "a number": 5,
        "text": "ab",
        "an object": Opaque(),
        "a type": Opaque,
        "rows": frame(),
    },
    "targets": lambda: {
        "nothing": None,
        "a number": 5,
        "text": "ab",
        "an object": Opaque(),
        "too few": [1.0, 2.0],
        "words": ["a"] * N_ROWS,
        "nan": [float("nan")] * N_ROWS,
    },
    "rate": lambda: {**not_number(), "negative": -0.5, "all": 1.0, "none": 0.0},
    "function": lambda: {
        "nothing": None,
        "a number": 5,
        "NUL": "a\0b",
        "too long": TOO_LONG,
        "a device": "/dev/null",
        "an object": Opaque(),
        "a type": Opaque,
        "a list": [1.0],
        "labels": np.repeat("label", N_ROWS),
        "a function of labels": lambda X: ["label"] * len(X),
        "a function of complex numbers": lambda X: np.ones(len(X)) * 1j,
        "a function of nothing": lambda X: None,
        "a function of one number": lambda X: 1.0,
        "a function of ragged rows": lambda X: [[1.0], [1.0, 2.0]] * (len(X) // 2),
        "a function of huge numbers": lambda X: [HUGE] * len(X),
        "a function of nan": lambda X: np.full(len(X), np.nan),
        "a function of three dimensions": lambda X: np.zeros((len(X), 1, 1)),
    },
    "interactions": lambda: {
        "text": "ab",
        "an object": Opaque(),
        "another name": [("a", "zzz")],
        "one": [("a",)],
        "repeated": [("a", "a")],
        "too far": [(0, 99)],
        "a fraction": [(0, 1.5)],
        "not a pair": [5],
        "negative": [(-1, 0)],
        "a flag": True,
    },
    "key": lambda: {
        "another name": "zzz",
        "too far": 99,
        "nothing": (),
        "twice": (0, 0),
        "a fraction": 1.5,
        "an object": Opaque(),
        "a list in it": ([0], 1),
        "a slice": slice(1),
        "a flag": True,
        "an array": np.array([0, 1]),
    },
    "output": lambda: {**not_whole(), "too many": 99, "another name": "zzz"},
    "result": lambda: {
        "a number": 5,
        "text": "x",
        "rows": frame(),
        "an object": Opaque(),
        "a type": Opaque,
        "a list": [Opaque()],
        "a mapping": {"a": Opaque()},
    },
    "axes": lambda: {"text": "x", "a number": 5, "an object": Opaque()},
    "pairs to fold": lambda: {
        "another name": ["zzz"],
        "one": ["a"],
        "a number": 5,
        "an object": Opaque(),
    },
    "directions": lambda: {
        "text": "x",
        "a number": 5,
        "an object": Opaque(),
        "another name": {"zzz": "increasing"},
        "another way": {"a": "sideways"},
    },
    "groups of rows": lambda: {
        "a number": 5,
        "an object": Opaque(),
        "too few": ["x", "y"],
        "one group": ["x"] * N_ROWS,
    },
    "two names": lambda: {"a number": 5, "an object": Opaque(), "one": ["x"]},
    "tensors": not_tensors,
    "joint masses": lambda: {
        "text": "abc",
        "a number": 5,
        "an object": Opaque(),
        "ragged": [[1.0], [1.0, 2.0]],
        "words": [["a", "b"], ["c", "d"]],
        "complex": np.ones((2, 2)) * (1 + 1j),
        "too large": [[HUGE, 1], [1, 1]],
        "negative": -np.ones((2, 2)),
        "nan": np.full((2, 2), np.nan),
        "zero": np.zeros((2, 2)),
    },
    "masses": lambda: {
        **BAD["joint masses"](),
        "nothing": None,
        "another shape": np.ones((3, 3)),
        "by another feature": {(7,): [1.0, 2.0]},
        "by text": {"ab": [1.0, 2.0]},
        "by an object": {Opaque(): [1.0, 2.0]},
        "by a nested key": {((0,), 1): [[1.0, 1.0], [1.0, 1.0]]},
        "ragged by feature": {(0, 1): [[1.0], [1.0, 2.0]]},
        "complex by feature": {(0, 1): np.ones((2, 2)) * 1j},
        "words by feature": {(0, 1): [["a", "b"], ["c", "d"]]},
    },
    "intercept": lambda: {
        "text": "x",
        "a pair": [1.0, 2.0],
        "nothing": None,
        "complex": 1j,
        "nan": float("nan"),
        "infinite": float("inf"),
        "too large": HUGE,
        "ragged": [[1.0], [1.0, 2.0]],
        "an object": Opaque(),
    },
    "output names": lambda: {
        "text": "xy",
        "a number": 5,
        "an object": Opaque(),
        "repeated": ["y", "y"],
        "empty": [],
        "too many": ["x", "y", "z"],
        "nested": [["y"], ["z"]],
    },
    "mapping": lambda: {
        "text": "zzz",
        "a number": 5,
        "an object": Opaque(),
        "a list": ["x"],
        "another name": {"zzz": "auto"},
        "by number": {99: [0]},
        "of nothing": {"a": None},
    },
    "features": lambda: {
        "text": "ab",
        "a number": 5,
        "an object": Opaque(),
        "twice": [0, 0],
        "fractions": [0.5, 1.5],
        "negative": [-1, 0],
        "nested": [[0], [1]],
    },
    "groups": lambda: {
        "text": "zzz",
        "a number": 5.5,
        "an object": Opaque(),
        "another name": [["a", "zzz"], ["b"], ["c"]],
        "overlapping": [["a", "b"], ["b", "c"]],
        "too far": [[0, 99]],
        "nested": [[["a"]]],
    },
    "several effects": lambda: {
        "text": "ab",
        "a number": 5,
        "an object": Opaque(),
        "none": [],
        "another name": [["a", "zzz"]],
        "too far": [[0, 99]],
        "repeated": [["a", "a"]],
        "nested": [[["a"]]],
    },
    "names of two": lambda: {
        "text": "ab",
        "a number": 5,
        "an object": Opaque(),
        "one": ["a"],
        "repeated": ["a", "a"],
    },
    "several results": lambda: {
        "text": "x",
        "a number": 5,
        "an object": Opaque(),
        "numbers": [1, 2],
        "nothing in it": [None],
        "by name": {"a": Opaque()},
    },
    "measures": lambda: {
        "text": "uniform",
        "a number": 5,
        "another name": ["zzz"],
        "numbers": [1],
        "an object": Opaque(),
        "repeated": ["uniform", "uniform"],
    },
    "budget": lambda: {**not_number(), "zero": 0, "negative": -1, "text with a unit": "1GB"},
}
"""What must be refused."""

ANYTHING: dict[str, Any] = {
    "None": None,
    "text": "x",
    "empty text": "",
    "NUL": "\0",
    "long text": TOO_LONG,
    "bytes": b"x",
    "zero": 0,
    "minus one": -1,
    "huge": HUGE,
    "a fraction": 0.5,
    "nan": float("nan"),
    "infinite": float("inf"),
    "complex": 1j,
    "True": True,
    "empty list": [],
    "ragged": [[1], [1, 2]],
    "words": ["a", "b"],
    "empty mapping": {},
    "a set": {1},
    "a function": len,
    "a type": int,
    "an object": Opaque(),
    "an array": np.zeros((2, 3)),
    "an array of objects": np.array([None, "x", HUGE], dtype=object),
    "rows": frame(),
    "lazy": pl.LazyFrame({"a": [1.0]}),
    "grouped": frame().groupby("a"),
}
"""What must be refused or answered."""
