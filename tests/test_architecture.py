"""The rules of the house, read from the source: who may import what, and what is public."""

import ast
import inspect
import json
import re
import runpy
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

import treepurify
import treepurify.weights
from treepurify import decomposition, results
from treepurify.models.families import FAMILIES

ROOT = Path(treepurify.__file__).resolve().parent
PATHS = tuple(sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py")))
DOCS = ROOT.parent / "docs"

# What each part may import beside itself. One direction, no way back. A part is a folder or a
# file of the top level; a file that is not named here belongs to the base.
FLOOR = {"base", "_kernels"}
# Everything reads rows: models and grids too, so rows know neither.
GROUND = FLOOR | {"rows"}
MAY_IMPORT = {
    "_kernels": set(),
    "base": {"_kernels"},
    "rows": FLOOR,
    "models": GROUND,
    "grids": GROUND,
    "weights": GROUND | {"grids"},
    "effects": GROUND | {"models", "grids", "weights"},
    "purification": GROUND | {"grids", "weights", "effects"},
    # Which main effects the rows leave open is a question about the tables of pairs.
    "decomposition": GROUND | {"grids", "effects", "purification"},
    "engines": GROUND | {"models", "grids", "weights", "effects", "purification", "decomposition"},
    "interactions": GROUND
    | {"models", "grids", "weights", "effects", "purification", "decomposition", "engines"},
    "profiles": GROUND | {"models", "grids", "decomposition", "engines"},
    # Trees are grouped by the indices of their interactions.
    "grouping": GROUND | {"models", "grids", "effects", "engines", "interactions"},
    # Of functions, which engines read.
    "shapley": GROUND | {"models", "grids", "effects", "decomposition", "engines"},
    # Components belong to the engine that makes them; what is saved of them is known here.
    "storage": GROUND | {"models", "grids", "effects", "decomposition", "engines"},
    "frames": GROUND | {"grids", "effects", "purification", "decomposition"},
    "verification": GROUND | {"models", "decomposition"},
    "row_values": GROUND | {"grids", "decomposition", "frames", "shapley", "storage"},
    "comparing": GROUND | {"grids", "effects", "purification", "decomposition", "frames"},
    "evidence": GROUND
    | {"models", "grids", "weights", "effects", "purification", "decomposition", "engines"}
    | {"comparing"},
    "auditing": GROUND
    | {"models", "grids", "weights", "effects", "decomposition", "engines", "comparing"}
    | {"evidence"},
    "validation": GROUND
    | {"models", "grids", "weights", "effects", "decomposition", "engines", "shapley", "storage"}
    | {"comparing", "evidence"},
    "plots": GROUND
    | {"grids", "decomposition", "interactions", "grouping", "comparing", "auditing", "evidence"}
    | {"profiles", "validation"},
    # Reports call libraries by the names that the list of families gives them. That of a validation
    # makes its results itself.
    "report": GROUND
    | {"models", "grids", "decomposition", "storage", "comparing", "auditing", "evidence"}
    | {"engines", "validation", "plots"},
    # Cells are written down with the cuts of single precision, which models know.
    "export": GROUND | {"models", "grids", "decomposition", "frames", "storage", "shapley"},
}
PART_OF_FILE = dict.fromkeys(
    ("collinear", "components", "moments", "ranking", "remainder", "row_results"),
    "decomposition",
)
PART_OF_FILE |= dict.fromkeys(("spread", "verdict"), "decomposition")
PART_OF_FILE["summary"] = "frames"
# The entrances: they may import everything, and nothing may import them.
ENTRANCES = {"__init__", "__main__", "cli", "demo", "options", "precompiling", "results"}

# Where a library of models is imported beside the files that read its models.
BESIDE_MODELS = {
    "xgboost": ["demo/model.py", "precompiling.py"],
    "sklearn": ["demo/*.py", "precompiling.py", "evidence/refit.py"],
    "interpret": ["export/ebm*.py"],
}
# Where decompositions are built.
BUILDERS = {"engines/common/finish.py"}

# Where a framework or a plotting library may be imported at all.
ALLOWED_FILES = {
    **{
        family.library: [
            f"models/{family.module.rpartition('.')[2]}*.py",
            *BESIDE_MODELS.get(family.library, []),
        ]
        for family in FAMILIES
    },
    "matplotlib": ["plots/*.py", "report/*.py"],
    "jinja2": ["report/page.py"],
    "yaml": ["report/about.py"],
    "shap": ["export/shap.py"],
    "dask": ["rows/dask_source.py"],
    "typer": ["cli/*.py"],
    "rich": ["cli/*.py"],
}
# Numba is built on llvmlite, which its intrinsics write for.
DECLARED = {
    "numpy",
    "scipy",
    "numba",
    "llvmlite",
    "pandas",
    "pyarrow",
    "threadpoolctl",
    *ALLOWED_FILES,
}
# Optional, or slow to import: inside functions only.
NEVER_AT_MODULE_LEVEL = {
    *(family.library for family in FAMILIES),
    "PIL",
    "yaml",
    "shap",
    "matplotlib",
    "pandas",
    "dask",
    "distributed",
    "duckdb",
    "polars",
    "pyarrow",
}
WEIGHTINGS = {
    name
    for name, value in vars(treepurify.weights).items()
    if isinstance(value, type) and issubclass(value, treepurify.weights.Weighting)
} - {"Weighting"}
# So many that a reader takes them in: the verbs, the engines, and namespaces for the rest.
MOST_NAMES_AT_THE_TOP = 37
MOST_LINES_IN_A_FILE = 800
MOST_LINES_IN_A_FUNCTION = 90

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Import(NamedTuple):
    """One imported module, and whether it is imported when the file is."""

    module: str
    line: int
    at_module_level: bool
    for_types_only: bool


@cache
def tree_of(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"), filename=path)


@cache
def imports_of(path: str) -> tuple[Import, ...]:
    return tuple(_imports(tree_of(path), at_module_level=True, for_types_only=False))


def _imports(node: ast.AST, *, at_module_level: bool, for_types_only: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, child.lineno, at_module_level, for_types_only)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"relative import in line {child.lineno}"
            # `from treepurify import grids` names a module, `from treepurify.grids import Grid`
            # does not: the longer name tells more and is harmless in both cases.
            for alias in child.names:
                module = f"{child.module}.{alias.name}"
                yield Import(module, child.lineno, at_module_level, for_types_only)
        else:
            is_type_block = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            yield from _imports(
                child,
                at_module_level=at_module_level and not isinstance(child, Function | ast.Lambda),
                for_types_only=for_types_only or is_type_block,
            )


def part_of(parts: list[str]) -> str:
    """The part of the package that a dotted or a slashed name belongs to."""
    name = parts[0].removesuffix(".py")
    name = PART_OF_FILE.get(name, name)
    return name if name in MAY_IMPORT or name in ENTRANCES else "base"


def files_imported_by(path: str) -> set[str]:
    """The files of the package that a file imports."""
    files = set()
    for found in imports_of(path):
        # The longest name that is a file: what follows is defined in it.
        parts = found.module.split(".")[1:]
        names = ["/".join(parts[:size]) for size in range(len(parts), 0, -1)]
        candidates = [file for name in names for file in (f"{name}.py", f"{name}/__init__.py")]
        files |= set([file for file in candidates if file in PATHS][:1])
    return files - {path}


def functions_of(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        name = f"{prefix}{getattr(child, 'name', '')}"
        if isinstance(child, Function):
            yield name, child
        inside = isinstance(child, Function | ast.ClassDef)
        yield from functions_of(child, f"{name}." if inside else prefix)


def is_public(qualified: str) -> bool:
    names = qualified.split(".")
    return not any(name.startswith("_") and not name.startswith("__") for name in names)


def test_the_package_has_files():
    assert "errors.py" in PATHS
    assert "models/parse.py" in PATHS


def test_the_import_law_has_no_way_back():
    order = list(TopologicalSorter(MAY_IMPORT).static_order())
    assert set(order) == set(MAY_IMPORT)


def test_every_part_is_on_the_page_and_in_the_picture():
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    drawn = set(runpy.run_path(str(DOCS / "architecture_picture.py"))["reading_order"]())
    for part in MAY_IMPORT:
        assert re.search(rf"^\| `?{part}`? \|", page, flags=re.MULTILINE), part
        assert part in drawn
    assert ENTRANCES - {"__main__"} <= drawn


def test_the_picture_shows_the_import_law():
    drawing = runpy.run_path(str(DOCS / "architecture_picture.py"))
    order = drawing["reading_order"]()
    for part, imported in MAY_IMPORT.items():
        assert {order.index(other) < order.index(part) for other in imported} <= {True}, part
    for name, picture in drawing["pictures"]().items():
        drawn = (DOCS / "_static" / name).read_text(encoding="utf-8")
        assert drawn == picture, "run python docs/architecture_picture.py"


def test_the_steps_on_the_page_are_where_it_says():
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    steps = re.findall(r"^\| (`\w+`.*?) \| (`[\w/]+\.py`.*?) \|", page, flags=re.MULTILINE)
    assert len(steps) >= 10
    for names, paths in steps:
        pairs = zip(re.findall(r"\w+(?=`)", names), re.findall(r"[\w/]+\.py", paths), strict=True)
        for name, path in pairs:
            assert name in _bound_names(tree_of(path)), f"{name} is not in {path}"


def test_imports_point_one_way():
    wrong = []
    for path in PATHS:
        part = part_of(path.split("/"))
        for found in imports_of(path) if part not in ENTRANCES else ():
            names = found.module.split(".")
            if names[0] != "treepurify":
                continue
            target = part_of(names[1:])
            if target != part and target not in MAY_IMPORT[part]:
                wrong.append(f"{path}:{found.line} ({part}) imports {found.module} ({target})")
    assert not wrong, "\n".join(wrong)


def test_methods_are_done_by_functions_that_take_a_decomposition():
    """What is named in the table of methods is there, and every name is a method."""
    for method, name in decomposition._DONE_BY.items():
        module, function = name.rsplit(".", 1)
        found = getattr(import_module(f"treepurify.{module}"), function)
        first = next(iter(inspect.signature(found).parameters.values()))
        assert first.annotation is treepurify.Decomposition, name
        assert callable(getattr(treepurify.Decomposition, method))


def test_no_files_import_each_other():
    """Nor in a circle; imports for types and inside functions count."""
    TopologicalSorter({path: files_imported_by(path) for path in PATHS}).prepare()


def test_nobody_asks_for_the_class_of_a_weighting():
    """A weighting says itself what may be done with it, so one of a user's own works everywhere."""
    asked = [
        f"{path}:{node.lineno} {ast.unparse(node)}"
        for path in PATHS
        if not path.startswith("weights/")
        for node in ast.walk(tree_of(path))
        if _is_question_about_class(node)
        and any(isinstance(part, ast.Name) and part.id in WEIGHTINGS for part in ast.walk(node))
    ]
    assert not asked, "\n".join(asked)


def _is_question_about_class(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) in ("isinstance", "issubclass")
    if isinstance(node, ast.Compare):
        return "type(" in ast.unparse(node) or "__class__" in ast.unparse(node)
    return isinstance(node, ast.MatchClass)


def test_decompositions_are_made_in_one_place():
    """Engines hand what they found to `finish`; storage builds again what was saved."""
    built = {"Decomposition": set()}
    for path in PATHS:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call):
                called = getattr(node.func, "id", getattr(node.func, "attr", ""))
                built.get(called, set()).add(path)
    assert built == {"Decomposition": BUILDERS}


def test_what_code_reads_of_a_result_is_a_typed_field():
    """Diagnostics are for people; and nobody asks which engine made a decomposition."""
    wrong = [
        f"{path}:{node.lineno} {ast.unparse(node)}"
        for path in PATHS
        if not path.startswith(("engines/", "storage/"))
        for node in ast.walk(tree_of(path))
        if (isinstance(node, ast.Subscript) and _is_attribute(node.value, "diagnostics"))
        or (_is_attribute(node, "get") and _is_attribute(node.value, "diagnostics"))
        or (
            isinstance(node, ast.Compare)
            and any(_is_attribute(side, "engine") for side in (node.left, *node.comparators))
        )
    ]
    assert not wrong, "\n".join(wrong)


def _is_attribute(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name


def test_what_callers_pass_for_rows_is_recognised_in_one_place():
    """`open_rows` returns a source for anything; behind it nobody asks what the rows were."""
    asking = {path for path in PATHS if re.search(r"\bas_source\b", ast.unparse(tree_of(path)))}
    assert not {path for path in asking if not path.startswith("rows/")}


def test_kernels_import_numpy_and_numba_only():
    known = {"numpy", "numba", "math", "typing", "treepurify", "llvmlite"}
    no_kernels = {"_kernels/compiling.py", "_kernels/kernel_cache.py"}
    wrong = [
        f"{path}:{found.line} imports {found.module}"
        for path in PATHS
        if path.startswith("_kernels/")
        for found in imports_of(path)
        if (root := found.module.split(".")[0]) not in known
        and not (path in no_kernels and root in sys.stdlib_module_names)
    ]
    assert not wrong, "\n".join(wrong)


def test_frameworks_are_imported_in_one_place():
    wrong = [
        f"{path}:{found.line} imports {found.module}"
        for path in PATHS
        for found in imports_of(path)
        if not found.for_types_only
        and (allowed := ALLOWED_FILES.get(found.module.split(".")[0])) is not None
        and not any(fnmatch(path, pattern) for pattern in allowed)
    ]
    assert not wrong, "\n".join(wrong)


def test_only_declared_packages_are_imported():
    known = DECLARED | sys.stdlib_module_names | {"treepurify"}
    wrong = [
        f"{path}:{found.line} imports {found.module}"
        for path in PATHS
        for found in imports_of(path)
        if found.module.split(".")[0] not in known
    ]
    assert not wrong, "\n".join(wrong)


def test_optional_packages_are_imported_inside_functions():
    wrong = [
        f"{path}:{found.line} imports {found.module}"
        for path in PATHS
        for found in imports_of(path)
        if found.at_module_level
        and not found.for_types_only
        and found.module.split(".")[0] in NEVER_AT_MODULE_LEVEL
    ]
    assert not wrong, "\n".join(wrong)


def loaded_by(statement: str) -> set[str]:
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_treepurify_waits_for_nothing():
    """The number of modules stands for the time, which a test cannot measure reliably.

    ``benchmarks/import_time.py`` measures the time itself.
    """
    more = loaded_by("import treepurify") - loaded_by("pass")
    beyond = {name for name in more if name.split(".")[0] not in sys.stdlib_module_names}
    assert beyond == {"treepurify", "treepurify.interruption"}


def test_everything_but_drawing_loads_little_more_than_numba():
    names = sorted(set(treepurify.__all__) - {"export", "plots", "report"})
    everything = f"from treepurify import {', '.join(names)}"
    more = loaded_by(everything) - loaded_by("import numba, numpy.typing")
    packages = {name.split(".")[0] for name in more} - sys.stdlib_module_names
    assert packages == {"treepurify"}, f"also loaded: {sorted(packages - {'treepurify'})}"


def test_one_engine_does_not_load_the_others():
    loaded = loaded_by("import treepurify; treepurify.purify")
    engines = {name.split(".")[2] for name in loaded if name.startswith("treepurify.engines.")}
    assert engines == {"common", "tree"}


def test_public_names_come_from_where_type_checkers_see_them():
    seen = {}
    for node in ast.walk(tree_of("__init__.py")):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for found in node.body:
                for alias in found.names:
                    seen[alias.name] = f"{found.module}.{alias.name}"
    home = {}
    for name, module in treepurify._HOME.items():
        is_module = inspect.ismodule(getattr(treepurify, name))
        home[name] = f"treepurify.{module}" + ("" if is_module else f".{name}")
    assert home == seen
    assert {*home, "__version__"} == set(treepurify.__all__)
    with pytest.raises(AttributeError, match="no attribute 'purifi'"):
        treepurify.purifi  # noqa: B018


def test_all_names_what_is_there():
    wrong = []
    for path in PATHS:
        listed = _listed_names(tree_of(path)) or []
        # Names of the top level are loaded when they are asked for.
        bound = _bound_names(tree_of(path)) | set(treepurify._HOME if path == "__init__.py" else ())
        private = [name for name in listed if name.startswith("_") and name != "__version__"]
        twice = [name for name, count in Counter(listed).items() if count > 1]
        wrong += [f"{path}: {name}" for name in [*(set(listed) - bound), *private, *twice]]
    assert not wrong, "\n".join(wrong)


def _listed_names(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return None


def _bound_names(tree: ast.Module) -> set[str]:
    names = set()
    for node in tree.body:
        if isinstance(node, Function | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {
                name.id
                for target in targets
                for name in ast.walk(target)
                if isinstance(name, ast.Name)
            }
    return names


def test_public_names_can_be_had_and_have_docstrings():
    namespaces = [value for name in treepurify.__all__ if inspect.ismodule(value := _public(name))]
    for module in (treepurify, results, *namespaces):
        assert dir(module) == module.__all__
        for name in module.__all__:
            value = getattr(module, name)
            said = name == "__version__" or (value.__doc__ or "").strip()
            assert said, f"{module.__name__}.{name} has no docstring"


def _public(name: str) -> object:
    return getattr(treepurify, name)


def test_the_top_level_has_few_names():
    assert len(treepurify.__all__) <= MOST_NAMES_AT_THE_TOP


def test_no_two_classes_have_the_same_name():
    """Not even private ones, so that a name in a traceback says what it is about."""
    names = Counter(
        node.name
        for path in PATHS
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef)
    )
    assert not {name for name, count in names.items() if count > 1}


def test_public_code_has_docstrings():
    missing = []
    for path in PATHS:
        tree = tree_of(path)
        missing += [] if (ast.get_docstring(tree) or "").strip() else [f"{path} itself"]
        listed = set(_listed_names(tree) or ())
        for node in tree.body:
            if not isinstance(node, Function | ast.ClassDef) or node.name not in listed:
                continue
            functions = [n for n in node.body if isinstance(n, Function)]
            methods = [n for n in functions if not n.name.startswith("_")]
            missing += [
                f"{path}:{inner.lineno} {inner.name}"
                for inner in [node, *(methods if isinstance(node, ast.ClassDef) else [])]
                if not ast.get_docstring(inner)
            ]
    assert not missing, "\n".join(missing)


def test_public_functions_name_their_arguments():
    wrong = [
        f"{path}:{node.lineno} {name} takes **{node.args.kwarg.arg}"
        for path in PATHS
        for name, node in functions_of(tree_of(path))
        if node.args.kwarg is not None and is_public(name)
    ]
    assert not wrong, "\n".join(wrong)


def test_no_file_is_a_drawer_for_everything():
    drawers = {"utils", "util", "helpers", "misc", "common"}
    # What engines share is a room of its own, of files with names of their own.
    paths = [path.removeprefix("engines/common/").removesuffix(".py") for path in PATHS]
    assert not [path for path in paths if drawers & set(path.split("/"))]


def test_files_and_functions_are_short():
    lines = {path: (ROOT / path).read_text(encoding="utf-8").count("\n") for path in PATHS}
    long = [f"{path} has {n} lines" for path, n in lines.items() if n > MOST_LINES_IN_A_FILE]
    long += [
        f"{path}:{node.lineno} {name} has {_lines_of(node)} lines"
        for path in PATHS
        for name, node in functions_of(tree_of(path))
        if _lines_of(node) > MOST_LINES_IN_A_FUNCTION
    ]
    assert not long, "\n".join(long)


def _lines_of(function: Function) -> int:
    """Lines of a function, its docstring apart."""
    first = function.body[0]
    docstring = 0
    if ast.get_docstring(function) is not None:
        docstring = (first.end_lineno or first.lineno) - first.lineno + 1
    return (function.end_lineno or function.lineno) - function.lineno + 1 - docstring
