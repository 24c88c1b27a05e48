"""Threads: the order of results, errors, and searches whose caller was interrupted."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextvars import ContextVar
from queue import SimpleQueue

import pytest

from shoal import threads


def test_results_come_in_the_order_of_the_items() -> None:
    gate = threading.Event()

    def work(item: int) -> int:
        if item == 0:
            assert gate.wait(60)  # the first task ends after the second
        gate.set()
        return -item

    with threads.open_pool(2) as pool:
        assert threads.Workers(pool).each(work, range(50)) == [-item for item in range(50)]


def test_an_error_of_a_task_reaches_the_caller_and_cancels_later_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    cancel, cancelled, gate, done = Future.cancel, list[bool](), threading.Event(), list[int]()

    def work(item: int) -> None:
        if item == 0:
            raise TimeoutError("not the end of a step")
        assert gate.wait(60)
        done.append(item)

    def count(future: Future[None]) -> bool:
        cancelled.append(cancel(future))
        if len(cancelled) == 9:
            gate.set()
        return cancelled[-1]

    monkeypatch.setattr(Future, "cancel", count)
    with pytest.raises(TimeoutError, match="not the end"), threads.open_pool(1) as pool:
        threads.Workers(pool).each(work, range(9))
    assert set(done) <= {1}  # it had begun, or not yet
    assert not threads.find_running()


def test_an_interrupt_does_not_wait_for_a_running_task() -> None:
    begun, gate = threading.Event(), threading.Event()

    def work() -> bool:
        begun.set()
        return gate.wait(60)

    def interrupt() -> Future[bool]:
        with threads.open_pool(1) as pool:
            futures.extend([pool.submit(work), pool.submit(work)])
            assert begun.wait(60)
            raise KeyboardInterrupt

    futures: list[Future[bool]] = []
    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert threads.find_running() and not futures[0].done()
    gate.set()
    assert threads.wait_for(futures[0])
    assert not futures[1].done()  # was never begun


def test_a_search_runs_in_its_own_thread_and_reports_in_that_of_the_caller() -> None:
    number: ContextVar[int] = ContextVar("number", default=0)
    seen: list[tuple[str, int, int, bool]] = []

    def search(report: object) -> tuple[bool, int]:
        assert callable(report)
        for done in range(3):
            report("searching", done, 2)
        return threading.current_thread() is threading.main_thread(), number.get()

    def report(stage: str, done: int, total: int) -> None:
        seen.append((stage, done, total, threading.current_thread() is threading.main_thread()))

    number.set(7)
    assert threads.run_search(search, report) == (False, 7)
    assert seen == [("searching", done, 2, True) for done in range(3)]


def test_a_search_inside_another_thread_runs_in_that_thread() -> None:
    found: SimpleQueue[bool] = SimpleQueue()

    def outer() -> None:
        found.put(
            threads.run_search(lambda _: threading.current_thread(), lambda *_: None) is threading.current_thread()
        )

    thread = threading.Thread(target=outer)
    thread.start()
    thread.join()
    assert found.get()


def test_an_error_of_a_search_reaches_the_caller() -> None:
    def search(report: object) -> None:
        raise ValueError("no such group")

    with pytest.raises(ValueError, match="no such group"):
        threads.run_search(search, lambda *_: None)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_search_ends_at_its_next_report_after_the_caller_has_left(error: type[BaseException]) -> None:
    gate, ended = threading.Event(), threading.Event()

    def search(report: object) -> None:
        assert callable(report)
        try:
            report("searching", 0, 2)
            assert gate.wait(60)
            report("searching", 1, 2)
        except threads.Abandoned:
            ended.set()
            raise

    def leave(stage: str, done: int, total: int) -> None:
        raise error

    with pytest.raises(error):
        threads.run_search(search, leave)
    gate.set()
    assert ended.wait(60)
