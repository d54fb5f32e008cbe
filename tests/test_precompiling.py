"""What compiles ahead makes calls that work, in processes that report failures."""

import pytest

import treepurify as tp
from treepurify import precompiling


@pytest.mark.parametrize("job", precompiling._JOBS)
def test_every_call_works(job, monkeypatch):
    monkeypatch.setattr(precompiling, "_MANY_ROWS", 1000)
    precompiling.run_job(job)


def test_what_is_compiled_is_stored(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(precompiling, "_JOBS", {"ale_anova": precompiling._JOBS["ale_anova"]})
    tp.warmup(progress=False)
    assert len(list(tmp_path.rglob("*.nbc"))) > 1


def test_a_failure_is_reported_with_what_was_printed(monkeypatch):
    monkeypatch.setattr(precompiling, "_JOBS", {"no such job": None})
    with pytest.raises(tp.errors.TreepurifyError, match=r"no such job[\s\S]*KeyError"):
        tp.warmup(progress=False)
