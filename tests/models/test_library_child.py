"""A library that reads a file in a process of its own: its limits, and what becomes of its end."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.models import library_child
from treepurify.models.library_child import FileRefusedError, call_in_child


def double(path, target, values):
    target.write_text(path.read_text() + str(2 * values))


def hoard(path):
    bytearray(8 << 30)


def spin(path):
    while True:
        pass


def crash(path):
    os.abort()


def refuse(path):
    raise UnsupportedModelError("no such model")


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "model.txt"
    path.write_text("twice: ")
    return path


def test_what_the_child_finds_comes_back(path, tmp_path):
    target = tmp_path / "answer.txt"
    call_in_child(double, "json", path, target, np.array([1.0, 2.0]))
    assert target.read_text() == "twice: [2. 4.]"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits are those of Linux")
@pytest.mark.parametrize(
    ("function", "message"),
    [(hoard, "json cannot use .*MemoryError"), (spin, r"too much memory or time \(status -\d+\)")],
)
def test_memory_and_time_of_the_child_are_limited(path, function, message):
    with pytest.raises(FileRefusedError, match=message):
        call_in_child(function, "json", path)


def test_the_end_of_the_child_is_an_error_of_ours(path, monkeypatch):
    with pytest.raises(FileRefusedError, match="json crashes on "):
        call_in_child(crash, "json", path)
    with pytest.raises(UnsupportedModelError, match="no such model"):
        call_in_child(refuse, "json", path)
    with pytest.raises(InvalidInputError, match="rows cannot be handed"):
        call_in_child(double, "json", path, Path("target"), lambda: None)
    monkeypatch.setattr(library_child, "_PATIENCE", -30.0)
    with pytest.raises(FileRefusedError, match="did not finish"):
        call_in_child(spin, "json", path)
