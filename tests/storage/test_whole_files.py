"""A file is written whole or not at all, and nothing else is left behind."""

import os
import stat
from pathlib import Path

import pytest

import treepurify as tp
from treepurify.storage import write_atomically


def test_a_new_file_and_one_that_is_replaced(tmp_path):
    path = tmp_path / "file"
    for content in (b"first", b"second"):
        write_atomically(path, content)
        assert path.read_bytes() == content
        assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name == "nt", reason="no such permissions")
def test_permissions_are_those_of_an_ordinary_file(tmp_path):
    (tmp_path / "ordinary").write_bytes(b"")
    write_atomically(tmp_path / "file", b"")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ordinary", "file")}
    assert len(modes) == 1


def test_a_folder_is_no_file(tmp_path):
    folder = tmp_path / "results"
    folder.mkdir()
    with pytest.raises(
        tp.errors.InvalidInputError, match="results, which is a folder; add the name"
    ):
        write_atomically(folder, b"content")
    with pytest.raises(tp.errors.InvalidInputError, match="missing does not exist"):
        write_atomically(tmp_path / "missing" / "file", b"content")
    assert list(tmp_path.rglob("*")) == [folder]


@pytest.mark.parametrize("step", ["fsync", "chmod", "replace"])
def test_every_failure_leaves_the_old_file_alone(tmp_path, monkeypatch, step):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os if step == "fsync" else Path, step, fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
