"""Settings that hold for every test."""

import os
import sys

# Read when matplotlib is first imported: tests draw into memory, with no display.
os.environ.setdefault("MPLBACKEND", "Agg")
# Several workers share the cores: threads of libraries that wait busily would keep each other
# from working.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import pytest
from hypothesis import HealthCheck, settings

# A first call may compile a kernel, which takes longer than any deadline. The same examples are
# drawn on every run: a failure on one machine is a failure on all.
settings.register_profile(
    "treepurify",
    deadline=None,
    derandomize=True,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
# HYPOTHESIS_PROFILE=search looks for new counter-examples, for as long as one has patience.
settings.register_profile("search", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "treepurify"))


@pytest.fixture(autouse=True)
def _close_figures():
    """Leave no figure open: matplotlib warns of many, and warnings are errors."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")
