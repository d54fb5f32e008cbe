"""Ctrl-C while the command is still loading."""

import subprocess
import sys

import pytest

# The importing of one module is interrupted, as Ctrl-C does whichever it meets.
INTERRUPTED = """
import runpy, sys

class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupted())
sys.argv = [{called!r}]
{run}
"""
AS_MODULE = 'runpy.run_module("treepurify", run_name="__main__")'
AS_SCRIPT = "from treepurify.cli import main; main()"


def run(module, called, code):
    program = INTERRUPTED.format(module=module, called=called, run=code)
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize(
    "module", ["numba", "treepurify.engines.tree.purify", "treepurify.cli.app"]
)
@pytest.mark.parametrize(
    ("called", "code"), [("-m", AS_MODULE), ("/bin/treepurify", AS_SCRIPT)], ids=["-m", "script"]
)
def test_the_command_ends_without_a_traceback(module, called, code):
    done = run(module, called, code)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr


def test_other_programs_keep_their_traceback():
    done = run("numba", "my_script.py", "from treepurify import purify")
    assert "KeyboardInterrupt" in done.stderr
    assert done.returncode != 130
