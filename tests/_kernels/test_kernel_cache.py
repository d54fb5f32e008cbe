"""Stored kernels are those of the installed sources, wherever they can be stored.

The tests run on a package of two kernel files, which has the cache of treepurify.
"""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import treepurify
from treepurify._kernels.kernel_cache import _can_be_trusted, _make_root

KERNELS = Path(treepurify.__file__).parent / "_kernels"
PIP = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
INSTALL = ["install", "--no-index", "--no-deps", "--upgrade"]

CALLER = """
from twofiles._kernels.compiling import kernel
from twofiles._kernels.called import addend

@kernel
def total(number):
    return number + addend()
"""

CALLED = """
from twofiles._kernels.compiling import part

@part
def addend():
    return {addend}
"""

# Prints the sum, how many kernels were loaded, and how many were compiled.
RUN = """
from twofiles._kernels.caller import total
print(*(total(number) for number in ({numbers},)))
print(sum(total.stats.cache_hits.values()), sum(total.stats.cache_misses.values()))
"""


def sources(addend, other="of no kernel"):
    """Return the files of a package whose kernel adds what a function of another file returns."""
    texts = {
        f"twofiles/_kernels/{name}.py": (KERNELS / f"{name}.py")
        .read_text(encoding="utf-8")
        .replace("treepurify", "twofiles")
        for name in ("__init__", "compiling", "kernel_cache")
    }
    texts["twofiles/__init__.py"] = f'"""A change {other}."""\n'
    texts["twofiles/_kernels/caller.py"] = CALLER
    texts["twofiles/_kernels/called.py"] = CALLED.format(addend=addend)
    return texts


@pytest.fixture
def package(tmp_path):
    """A folder for ``PYTHONPATH`` with the package, and nothing compiled."""
    for path, text in sources(1.0).items():
        file = tmp_path / "installed" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return tmp_path / "installed"


def environment(package, home, **more):
    """Return the variables of a process that imports the package and has this home."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")
    }
    return kept | {"PYTHONPATH": str(package), "HOME": str(home)} | more


def run(code, variables, **options):
    """Return what a new process prints, and what it says on standard error."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1], done.stderr


def stored_in(folder):
    return sorted(folder.rglob("*.nbc"))


def blocked(folder):
    """Return a path at which nothing can be made, not even by root."""
    file = folder / "file"
    file.write_text("")
    return file / "folder"


def wheel(folder, version, texts):
    """Write a wheel of the package and return its path."""
    path = folder / f"twofiles-{version}-py3-none-any.whl"
    info = f"twofiles-{version}.dist-info"
    texts = texts | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: twofiles\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in [*texts, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as file:
        for name, text in {**texts, f"{info}/RECORD": record}.items():
            file.writestr(name, text)
    return path


def test_an_upgrade_compiles_anew_what_calls_changed_functions(tmp_path):
    pytest.importorskip("pip")
    python = tmp_path / "environment" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", python.parents[1]], check=True)
    paths = {"base": str(python.parents[1]), "platbase": str(python.parents[1])}
    site_packages = Path(sysconfig.get_path("purelib", vars=paths))
    (site_packages / "numba.pth").write_text(sysconfig.get_path("purelib"))
    variables = environment("", tmp_path)
    seen = []
    for version, texts in {
        1: sources(1.0),
        2: sources(100.0),
        3: sources(100.0, "elsewhere"),
    }.items():
        subprocess.run(
            [*PIP, "--python", python, *INSTALL, wheel(tmp_path, version, texts)], check=True
        )
        command = [python, "-c", RUN.format(numbers=1.0)]
        seen.append(subprocess.check_output(command, env=variables, text=True).split())
    #                 sum      loaded, compiled
    assert seen == [["2.0", "0", "1"], ["101.0", "0", "1"], ["101.0", "1", "0"]]
    assert len(stored_in(site_packages)) == 1  # the outdated one is gone


def test_kernels_are_stored_in_the_first_folder_that_takes_them(package, tmp_path):
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    temporary.mkdir()
    inside = package / "twofiles/_kernels/__pycache__"
    variables = environment(package, home, TMPDIR=str(temporary), PYTHONDONTWRITEBYTECODE="1")
    code = RUN.format(numbers=1)

    assert run(code, variables)[0] == ["2.0", "0 1"]
    assert len(stored_in(package)) == 1
    # A package that another user installed, or that cannot be written to.
    assert run(code, variables)[0] == ["2.0", "1 0"]
    stored_in(package)[0].unlink()
    stored_in_package = next(inside.iterdir())
    stored_in_package.rmdir()
    inside.rmdir()
    inside.write_text("")

    for _ in range(2):
        lines, errors = run(code, variables)
    assert (lines, errors) == (["2.0", "1 0"], "")
    assert len(stored_in(home)) == 1
    variables["HOME"] = str(blocked(tmp_path))
    for _ in range(2):
        lines, errors = run(code, variables)
    assert (lines, errors) == (["2.0", "1 0"], "")
    assert len(stored_in(temporary)) == 1
    for folder in (home / ".cache/twofiles", next(temporary.iterdir())):
        assert folder.stat().st_mode & 0o777 == 0o700

    code = f"import tempfile; tempfile.tempdir = {variables['HOME']!r}\n{code}"
    lines, errors = run(code.replace("{numbers}", "1, 2.0"), variables)
    assert lines == ["2.0", "0 1"]
    assert errors.count("compiled code cannot be stored") == 1
    assert "NUMBA_CACHE_DIR" in errors


def test_a_named_folder_is_the_only_one(package, tmp_path):
    named = tmp_path / "named"
    variables = environment(package, tmp_path / "home", NUMBA_CACHE_DIR=str(named))
    code = RUN.format(numbers=1.0)
    assert run(code, variables)[0] == ["2.0", "0 1"]
    assert run(code, variables)[0] == ["2.0", "1 0"]
    assert stored_in(tmp_path) == stored_in(named) != []


def test_a_full_disk_stops_no_call(package, tmp_path):
    variables = environment(package, tmp_path)
    # Files stay empty, as on a full disk, and Python gets the error from writing.
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
    lines, errors = run(limit + RUN.format(numbers="1.0, 1"), variables)
    assert lines == ["2.0 2.0", "0 2"]
    assert errors.count("compiled code cannot be stored") == 1
    assert not list(tmp_path.rglob("*.tmp"))
    assert stored_in(tmp_path) == []


def test_damaged_files_are_compiled_anew(package, tmp_path):
    variables = environment(package, tmp_path)
    code = RUN.format(numbers=1.0)
    run(code, variables)
    path = stored_in(package)[0]
    whole = path.read_bytes()
    flipped = whole[:100] + bytes([whole[100] ^ 1]) + whole[101:]
    for damaged in (b"", whole[:20], whole[:-1], flipped):
        path.write_bytes(damaged)
        assert run(code, variables)[0] == ["2.0", "0 1"]
        assert path.read_bytes() != damaged
        assert run(code, variables)[0] == ["2.0", "1 0"]


def test_processes_that_compile_at_once_do_not_mix_up_their_kernels(package, tmp_path):
    variables = environment(package, tmp_path)
    numbers = ["1", "1.0", "True", "1j", "np.float32(1)", "np.ones(1)[0]", "np.int8(1)"]
    codes = ["import numpy as np\n" + RUN.format(numbers=number) for number in numbers]
    started = [
        subprocess.Popen([sys.executable, "-c", code], env=variables, stdout=subprocess.PIPE)
        for code in codes
    ]
    for process in started:
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        assert complex(output.split()[0].decode()) in (2.0, 1.0 + 1.0j)
    for code in codes:
        assert run(code, variables)[0][1] == "1 0"


FORK = """
import os, threading, time
import numpy as np
from twofiles._kernels.caller import total

def compile_all():
    for dtype in "f8 f4 i8 i4 i2 i1 u8 u4 u2 u1".split():
        for n_dimensions in range(6):
            total(np.ones((1,) * n_dimensions, dtype=dtype))

thread = threading.Thread(target=compile_all)
thread.start()
n_forks = 0
while thread.is_alive() and n_forks < 5:
    time.sleep(0.1)
    n_forks += thread.is_alive()
    if not (child := os.fork()):
        os._exit(0 if total(True) == 2.0 else 1)
    assert os.waitpid(child, 0)[1] == 0
print("forked while compiling:", n_forks > 0, flush=True)
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork a process")
def test_a_process_forked_while_another_thread_compiles_can_compile(package, tmp_path):
    variables = environment(package, tmp_path) | {"PYTHONWARNINGS": "ignore::DeprecationWarning"}
    found = run(FORK, variables | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")})
    assert found[0] == ["forked while compiling: True"]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="folders have no owners and modes here")
def test_only_folders_that_nobody_else_can_write_to_are_trusted(tmp_path):
    folder = tmp_path / "folder"
    assert not _can_be_trusted(folder)
    _make_root(folder)
    assert _can_be_trusted(folder)
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert not _can_be_trusted(link)
    with pytest.raises(PermissionError, match="link"):
        _make_root(link)
    for mode in (0o720, 0o702, 0o777):
        folder.chmod(mode)
        assert not _can_be_trusted(folder)
        with pytest.raises(PermissionError, match="others can write"):
            _make_root(folder)
    folder.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(folder, 12345, -1)
        assert not _can_be_trusted(folder)
