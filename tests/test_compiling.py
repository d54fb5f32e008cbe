"""Kernels are compiled in one way, and only kernels call their parts."""

import ast
from pathlib import Path

import pytest

import treepurify

PACKAGE = Path(treepurify.__file__).resolve().parent
KERNELS = sorted((PACKAGE / "_kernels").glob("*.py"))
OTHERS = [
    path
    for folder in (PACKAGE, PACKAGE.parent / "tests", PACKAGE.parent / "benchmarks")
    for path in sorted(folder.rglob("*.py"))
    if path not in KERNELS
]


def imported_names(path):
    """Yield ``(module, name)`` for every ``from module import name``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node.module, alias.name


def parts():
    """Return ``(module, name)`` of every function that only kernels may call."""
    return {
        (f"treepurify._kernels.{path.stem}", node.name)
        for path in KERNELS
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(decorator).split("(")[0] == "part" for decorator in node.decorator_list)
    }


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_kernels_are_compiled_in_one_way(path):
    own_way = {("numba", "njit"), ("numba", "jit")} & set(imported_names(path))
    assert not own_way or path.stem == "compiling"


def test_parts_of_kernels_are_called_by_kernels_only():
    """A call from the interpreter would not raise an error, it would end the process."""
    found = parts()
    assert len(found) > 10
    for path in OTHERS:
        names = set(imported_names(path))
        assert not names & found, path
        # Else their parts could be reached as attributes.
        assert "treepurify._kernels" not in {module for module, _ in names}, path
