"""Run kernels in parallel threads, and searches in a thread of their own. Kernels release the global interpreter lock.

Python runs signal handlers in the main thread, and only between two of its instructions. A kernel that runs in the main thread
therefore delays Ctrl-C until its end. So the main thread only waits, in steps, while other threads work. These are daemon
threads: a program that was interrupted ends without waiting for a running kernel.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

CORES = min(os.cpu_count() or 1, 8)
FEW_ROWS = 5_000  # below this number, starting threads takes longer than the work
STEP = 0.1  # seconds; a wait without a limit cannot be interrupted on Windows
THREAD_NAME = "shoal-worker"


class Abandoned(BaseException):
    """Ends a search whose caller was interrupted."""


class Pool:
    """Daemon threads that work on submitted tasks, first come, first served."""

    def __init__(self, count: int) -> None:
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._left = threading.Event()
        self._threads = [threading.Thread(target=self._work, name=THREAD_NAME, daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None and not self._left.is_set():
            task()

    def submit(self, work: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """Schedule a task; it must not wait for other tasks of the pool."""
        future: Future[Result] = Future()
        self._tasks.put(lambda: _complete(future, work, *arguments))
        return future

    def end(self, *, wait: bool) -> None:
        """End the threads, with ``wait`` after all tasks, otherwise each after its current task."""
        if not wait:
            self._left.set()
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads if wait else ():
            while thread.is_alive():
                thread.join(STEP)


@contextmanager
def open_pool(count: int = CORES) -> Iterator[Pool]:
    """A pool of threads for this context. An interrupt does not wait for running tasks."""
    pool = Pool(count)
    try:
        yield pool
    except Exception:
        pool.end(wait=True)
        raise
    except BaseException:
        pool.end(wait=False)
        raise
    pool.end(wait=True)


def _complete(future: Future[Result], work: Callable[..., Result], *arguments: Any) -> None:
    """Run a task, unless it was cancelled, and set its result or the error that ended it."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work(*arguments)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)


def wait_for(future: Future[Result]) -> Result:
    """The result of a task; a signal interrupts the wait."""
    while not future.done():
        try:
            return future.result(STEP)
        except TimeoutError:  # the step is over, or this is the error of the task
            continue
    return future.result()


def take(queue: SimpleQueue[Item]) -> Item:
    """The next item of a queue; a signal interrupts the wait."""
    while True:
        try:
            return queue.get(timeout=STEP)
        except Empty:
            continue


def run_search(
    search: Callable[[Callable[[str, int, int], None]], Result], report: Callable[[str, int, int], None]
) -> Result:
    """Run a search in a thread of its own; a signal interrupts the caller within `STEP` seconds, even during a kernel.

    The search gets a function for its progress. It calls ``report`` in the thread of the caller. After an interrupt, the search
    ends with its current kernel, at its next report. The search must not use files or connections of the caller.
    """
    if threading.current_thread() is not threading.main_thread():  # handlers do not run here
        return search(report)
    messages: SimpleQueue[tuple[str, int, int] | None] = SimpleQueue()
    left = threading.Event()

    def forward(stage: str, done: int, total: int) -> None:
        if left.is_set():
            raise Abandoned
        messages.put((stage, done, total))

    def work() -> None:
        _complete(future, context.run, search, forward)
        messages.put(None)

    future: Future[Result] = Future()
    context = copy_context()
    threading.Thread(target=work, name=THREAD_NAME, daemon=True).start()
    try:
        while (message := take(messages)) is not None:
            report(*message)
    except BaseException:
        left.set()
        raise
    return future.result()


def find_running() -> bool:
    """Whether a thread still runs a task, because its caller was interrupted."""
    return any(thread.name == THREAD_NAME for thread in threading.enumerate())


@dataclass(frozen=True)
class Workers:
    """A thread pool for one search. A task must not submit further tasks and wait for them: that can deadlock."""

    pool: Pool | None

    def each(self, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Return the results for all items, in order. Tasks must not write to the same memory."""
        listed = list(items)
        if self.pool is None or len(listed) < 2:
            return [work(item) for item in listed]
        futures = [self.pool.submit(work, item) for item in listed]
        try:
            return [wait_for(future) for future in futures]
        finally:
            for future in futures:  # after an error
                future.cancel()


@contextmanager
def workers(rows: int = FEW_ROWS) -> Iterator[Workers]:
    """A thread pool with one thread per core, at most eight; no pool where ``rows``, the rows of the table, are few."""
    if CORES < 2 or rows < FEW_ROWS:
        yield Workers(None)
        return
    with open_pool() as pool:
        yield Workers(pool)


def each(work: Callable[[Item], Result], items: Iterable[Item], rows: int = FEW_ROWS) -> list[Result]:
    """Run `Workers.each` in a thread pool for this call only; see `workers`.

    >>> each(abs, [-1, 2])
    [1, 2]
    """
    listed = list(items)
    if len(listed) < 2:
        return [work(item) for item in listed]
    with workers(rows) as pool:
        return pool.each(work, listed)
