"""What compiles ahead makes calls that work, in processes that report failures."""

import inspect

import pytest

import treepurify as tp
from treepurify import precompiling


@pytest.mark.parametrize("job", precompiling._JOBS)
def test_every_call_works(job, monkeypatch):
    monkeypatch.setattr(precompiling, "_MANY_ROWS", 1000)
    precompiling.run_job(job)


# Functions that read, make or take apart objects, or train models, and compile nothing.
COMPILES_NOTHING = {"load", "parse_model", "refit", "warmup"}


def test_the_default_call_of_every_public_function_is_compiled_ahead():
    called = {name for job in precompiling._JOBS.values() for name in job.__code__.co_names}
    functions = {name for name in tp.__all__ if inspect.isfunction(getattr(tp, name))}
    assert functions - called == COMPILES_NOTHING
    for name in functions & called:
        assert getattr(precompiling, name) is getattr(tp, name)


def test_what_is_compiled_is_stored(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(precompiling, "_JOBS", {"ale_anova": precompiling._JOBS["ale_anova"]})
    tp.warmup(progress=False)
    assert len(list(tmp_path.rglob("*.nbc"))) > 1


def test_a_failure_is_reported_with_what_was_printed(monkeypatch):
    monkeypatch.setattr(precompiling, "_JOBS", {"no such job": None})
    with pytest.raises(tp.errors.TreepurifyError, match=r"no such job[\s\S]*KeyError"):
        tp.warmup(progress=False)
