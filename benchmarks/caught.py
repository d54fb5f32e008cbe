"""What the suite catches: do old faults stay away, and do tests fail where the code is made wrong?

Faults (``caught_faults.py``) are calls and the wrong values that they once gave; they are run here
and now. Mutations (``caught_mutations.toml``) are single lines made wrong, each in a scratch copy
of the checkout, with the tests that should notice. What was found last is in ``caught.json``.
Exits with 1 where a fault came back that had not, or tests no longer notice what they did. A
mutation that survived did so in the tests that are named, which need not be the whole suite. One
whose snippet is no longer in the package is "gone": who rebuilt that code writes another.
Run: ``python benchmarks/caught.py [--faults] [--mutations] [--room NAME ...] [--write]``. All
faults take half a minute, all mutations an hour; ``--missing`` runs those that were not run yet.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[1]
STORED = Path(__file__).with_suffix(".json")
MUTATIONS = Path(__file__).with_name("caught_mutations.toml")
COPIED = ("treepurify", "tests", "examples", "benchmarks", "docs", "README.md", "CHANGELOG.md",
          "CONTRIBUTING.md", "CITATION.cff", "pyproject.toml", ".ci")  # fmt: skip
# A test that waits for ever has noticed, too.
_MOST_SECONDS = 900
_NOT_RUN = "not run yet"


class Mutation(NamedTuple):
    """A line of the package, what stands there instead, and the tests that should notice."""

    file: str
    old: str
    new: str
    tests: str

    @property
    def name(self) -> str:
        """What it is called in the stored file."""
        return f"{self.old}  ->  {self.new}"


def find(mutation: Mutation, root: Path) -> Path | None:
    """Return the file with the snippet: the one named, or the only one, should it have moved."""
    named = root / "treepurify" / mutation.file
    if named.exists() and named.read_text(encoding="utf-8").count(mutation.old) == 1:
        return named
    found = [
        path
        for path in (root / "treepurify").rglob("*.py")
        if mutation.old in path.read_text(encoding="utf-8")
    ]
    is_once = len(found) == 1 and found[0].read_text(encoding="utf-8").count(mutation.old) == 1
    return found[0] if is_once else None


def run_tests(tests: str, root: Path, kernels: str = "") -> subprocess.CompletedProcess[str] | None:
    """Run tests in a copy of the checkout up to the first that fails; None if they do not end.

    `kernels` is a folder for compiled ones, should they differ from those of the checkout.
    """
    command = ["nice", sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    there = [name for name in tests.split() if (root / name.partition("::")[0]).exists()]
    environment = os.environ | {"PYTHONPATH": str(root), "MPLBACKEND": "Agg"}
    if kernels:
        environment["NUMBA_CACHE_DIR"] = kernels
    with contextlib.suppress(subprocess.TimeoutExpired):
        return subprocess.run(
            [*command, *there], cwd=root, env=environment, capture_output=True, text=True,
            timeout=_MOST_SECONDS, check=False,
        )  # fmt: skip
    return None


def outcome(mutation: Mutation, root: Path) -> str:
    """Apply a mutation in a copy of the checkout, run its tests, and take it back."""
    path = find(mutation, root)
    if path is None:
        return "gone"
    if not any((root / name).exists() for name in mutation.tests.split()):
        return "tests gone"
    before = path.read_text(encoding="utf-8")
    path.write_text(before.replace(mutation.old, mutation.new), encoding="utf-8")
    try:
        # Wrong kernels are not stored beside right ones.
        is_kernel = mutation.file.startswith("_kernels/")
        done = run_tests(mutation.tests, root, str(root / "kernels") if is_kernel else "")
    finally:
        path.write_text(before, encoding="utf-8")
    if done is None or done.returncode < 0:  # never ended, or ended the interpreter
        return "caught"
    if done.returncode == 0:
        return "survived"
    # What failed has to pass where nothing is wrong.
    failed = re.findall(r"^(?:FAILED|ERROR) (tests/\S+?\.py(?:::[^\s-][^\n]*?)?)(?: - |$)",
                        done.stdout, flags=re.MULTILINE)  # fmt: skip
    if not failed:
        return f"not decided: pytest ended with {done.returncode}"
    alone = run_tests_named(failed[0], root)
    return "caught" if alone else "not decided: the tests fail anyway"


def run_tests_named(name: str, root: Path) -> bool:
    """Return whether one test passes; its name may have blanks."""
    file, _, function = name.partition("::")
    plain = f"{file}::{function.partition('[')[0]}" if function else file
    done = run_tests(plain, root)
    return done is not None and done.returncode == 0


def run_fault(function: Callable[[], None]) -> str:
    """Return "held", or what came back."""
    import matplotlib.pyplot as plt

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function()
    except Exception:  # noqa: BLE001 - any error is what the fault is about
        return "came back: " + traceback.format_exc().strip().splitlines()[-1][:120]
    finally:
        plt.close("all")
    return "held"


def copy_of_checkout(folder: Path) -> Path:
    """Copy what the tests read, but for data, which are found where they are."""
    for name in COPIED:
        source, target = REPOSITORY / name, folder / name
        if source.is_dir():
            left_out = shutil.ignore_patterns("__pycache__", "_build", "gallery", "generated")
            shutil.copytree(source, target, ignore=left_out)
        elif source.exists():
            shutil.copy(source, target)
    os.environ.setdefault("TREEPURIFY_DATA", str(REPOSITORY.parent / "shared" / "data"))
    return folder


def main() -> int:
    """Run faults and mutations, print what was found, compare with what is stored."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--faults", action="store_true", help="faults only")
    parser.add_argument("--mutations", action="store_true", help="mutations only")
    parser.add_argument("--room", nargs="+", metavar="NAME", help="those of these rooms only")
    parser.add_argument("--missing", action="store_true", help="mutations not run yet only")
    parser.add_argument("--write", action="store_true", help="store what is found")
    arguments = parser.parse_args()
    stored = json.loads(STORED.read_text()) if STORED.exists() else {"faults": {}, "mutations": {}}
    both = arguments.faults == arguments.mutations
    worse = []

    def note(kind: str, room: str, name: str, found: str, good: str) -> None:
        before = stored[kind].setdefault(room, {}).get(name, _NOT_RUN)
        if before == good and found not in (good, "gone"):
            worse.append(name)
        print(f"{room:<14} {found:<10} {name}" + f"  (was: {before})" * (before != found))
        sys.stdout.flush()
        stored[kind][room][name] = found
        if arguments.write:
            STORED.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", "utf-8")

    if both or arguments.faults:
        from benchmarks.caught_faults import FAULTS

        for room, functions in FAULTS.items():
            for function in functions if not arguments.room or room in arguments.room else ():
                note("faults", room, function.__name__, run_fault(function), "held")
    if both or arguments.mutations:
        with tempfile.TemporaryDirectory() as folder:
            root = copy_of_checkout(Path(folder))
            for room, lines in tomllib.loads(MUTATIONS.read_text(encoding="utf-8")).items():
                for line in lines if not arguments.room or room in arguments.room else ():
                    one = Mutation(*line)
                    known = stored["mutations"].get(room, {}).get(one.name, _NOT_RUN)
                    if not arguments.missing or known == _NOT_RUN:
                        note("mutations", room, one.name, outcome(one, root), "caught")
    for name in worse:
        print(f"worse than stored: {name}")
    return int(bool(worse))


if __name__ == "__main__":
    sys.path.insert(0, str(REPOSITORY))
    raise SystemExit(main())
