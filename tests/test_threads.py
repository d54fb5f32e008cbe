"""Work on threads comes back in order, a few results at a time, and fails as it would alone."""

import threading
import time

import numpy as np
import pytest

from treepurify import threads


def test_results_come_in_order_and_few_wait(monkeypatch):
    monkeypatch.setattr(threads, "available_threads", lambda: 3)
    started = []

    def work(item):
        started.append(item)
        time.sleep(0.001 * (item % 3))
        return item, threading.current_thread().name

    found, ahead = [], []
    for item, name in threads.iterate_threads(work, range(60)):
        found.append(item)
        ahead.append(len(started) - len(found))
        assert name != threading.current_thread().name
    assert found == list(range(60))
    assert max(ahead) <= 3 * 4 + 3


def test_an_error_reaches_the_caller_and_stops_the_rest(monkeypatch):
    monkeypatch.setattr(threads, "available_threads", lambda: 2)
    started = []

    def work(item):
        started.append(item)
        if item == 2:
            raise ValueError("item 2")
        return item

    with pytest.raises(ValueError, match="item 2"):
        list(threads.iterate_threads(work, range(1000)))
    assert len(started) < 100


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_of_several_errors_the_first_is_raised_and_the_rest_is_left(n_threads, monkeypatch):
    monkeypatch.setattr(threads, "available_threads", lambda: n_threads)
    started = []

    def work(item):
        started.append(item)
        time.sleep(0.002 * (item == 7))
        if item in (7, 8):
            raise ValueError(f"item {item}")
        return item

    with pytest.raises(ValueError, match="item 7"):
        threads.map_threads(work, range(1000))
    assert len(started) < 40
    assert threads.map_threads(lambda item: item**2, range(50)) == [i**2 for i in range(50)]


def test_one_core_works_in_the_callers_thread(monkeypatch):
    monkeypatch.setattr(threads, "available_threads", lambda: 1)
    names = list(threads.iterate_threads(lambda _: threading.current_thread().name, range(3)))
    assert names == [threading.current_thread().name] * 3


@pytest.mark.parametrize(
    ("limit", "expected"), [(None, 4), ("2", 2), ("8", 4), ("0", 4), ("two", 4), ("4,2", 4)]
)
def test_threads_are_those_that_the_process_may_use(monkeypatch, limit, expected):
    monkeypatch.setattr(threads.os, "sched_getaffinity", lambda _: {0, 1, 5, 7}, raising=False)
    monkeypatch.setattr(threads.os, "cpu_count", lambda: 64)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if limit is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", limit)
    assert threads.available_threads() == expected


def test_large_arrays_are_worked_on_by_threads_and_small_ones_are_not(monkeypatch):
    monkeypatch.setattr(threads, "available_threads", lambda: 2)

    def work(name, array):
        time.sleep(0.01)
        return name, len(array), threading.current_thread().name

    for size, n_threads in ((10, 1), (100_000, 2)):
        arrays = {name: np.zeros(size) for name in "cab"}
        done = threads.map_arrays(work, arrays)
        assert list(done) == ["c", "a", "b"]
        assert [result[:2] for result in done.values()] == [(name, size) for name in "cab"]
        assert len({result[2] for result in done.values()}) == n_threads
    assert threads.map_arrays(work, {}) == {}


@pytest.mark.parametrize("total", [0, 1, 9, 10, 11, 50, 81, 1000])
@pytest.mark.parametrize("together", [1, 2, 3])
def test_pieces_are_even_and_not_too_long(total, together):
    length = threads.even_length(total, 10, together)
    pieces = [min(length, total - start) for start in range(0, total, length)]
    assert sum(pieces) == total
    assert all(0 < piece <= 10 for piece in pieces)
    assert max(pieces, default=0) - min(pieces, default=0) < max(len(pieces), 2)


def test_each_of_two_threads_has_as_many_rows():
    assert threads.even_length(50_000, 16_384, 2) == 12_500


@pytest.mark.parametrize("n_threads", [1, 2])
def test_of_two_the_first_stays_on_the_thread_of_the_caller(n_threads, monkeypatch):
    monkeypatch.setattr(threads, "available_threads", lambda: n_threads)
    caller = threading.current_thread()
    own, other = threads.run_concurrently(threading.current_thread, threading.current_thread)
    assert own is caller
    assert (other is caller) == (n_threads == 1)

    def fail():
        raise ValueError("no")

    for both in ((fail, list), (list, fail)):
        with pytest.raises(ValueError, match="no"):
            threads.run_concurrently(*both)
