"""Kernels are compiled in one way, and only kernels call their parts."""

import ast
import gc
from pathlib import Path

import pytest
from numba import int64
from numba.core import event
from numba.core.errors import TypingError

import treepurify
from treepurify._kernels.compiling import part

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


def functions_marked(*marks):
    """Yield ``(path, name)`` of every function of the kernels with one of these decorators."""
    for path in KERNELS:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and any(
                ast.unparse(decorator).split("(")[0] in marks for decorator in node.decorator_list
            ):
                yield path, node.name


def parts():
    """Return ``(module, name)`` of every function that only kernels may call."""
    return {
        (f"treepurify._kernels.{path.stem}", name)
        for path, name in functions_marked("part", "inlined")
    }


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_kernels_are_compiled_in_one_way(path):
    own_way = {("numba", "njit"), ("numba", "jit")} & set(imported_names(path))
    assert not own_way or path.stem == "compiling"


def test_parts_that_are_inlined_are_called_in_one_place():
    """Each caller would compile it anew, and grow with each call."""
    found = list(functions_marked("inlined"))
    assert len(found) > 10
    for path, name in found:
        calls = [
            node
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Name) and node.id == name
        ]
        assert len(calls) == 1, (path, name)


def test_parts_of_kernels_are_called_by_kernels_only():
    """A call from the interpreter would not raise an error, it would end the process."""
    found = parts()
    assert len(found) > 10
    for path in OTHERS:
        names = set(imported_names(path))
        assert not names & found, path
        # Else their parts could be reached as attributes.
        assert "treepurify._kernels" not in {module for module, _ in names}, path


class Watch(event.Listener):
    """Whether garbage is collected when a compilation begins and when it ends."""

    def __init__(self):
        self.is_on = []

    def on_start(self, event):
        self.is_on.append(gc.isenabled())

    def on_end(self, event):
        self.is_on.append(gc.isenabled())


def successor(number):
    return number + 1


def unknown(number):
    return number.no_such_attribute


@pytest.mark.parametrize("was_on", [True, False])
def test_garbage_waits_while_functions_are_compiled(was_on):
    inner = part(successor)

    def outer(number):
        return inner(number) + inner(number)

    watch = Watch()
    try:
        with event.install_listener("numba:compile", watch):
            if not was_on:
                gc.disable()
            for function in (outer, unknown):
                try:
                    part(function).compile((int64,))
                except TypingError:
                    assert function is unknown
                assert gc.isenabled() == was_on
    finally:
        gc.enable()
    # Three functions, one of them within another.
    assert watch.is_on == [False] * 6


class Broken(event.Listener):
    """A listener of others that fails."""

    def on_start(self, event):
        raise RuntimeError("broken")

    def on_end(self, event):
        pass


@pytest.mark.parametrize("kind", ["numba:compile", "numba:compiler_lock"])
def test_garbage_waits_after_another_listener_failed(kind):
    heard = event._registered[kind]
    broken, watch = Broken(), Watch()
    heard.insert(0, broken)
    try:
        with pytest.raises(RuntimeError, match="broken"):
            part(successor).compile((int64,))
    finally:
        heard.remove(broken)
    assert gc.isenabled()
    with event.install_listener("numba:compile", watch):
        part(successor).compile((int64,))
    assert watch.is_on == [False, False]
    assert gc.isenabled()
