"""A unit of time that makes times from two machines comparable."""

import statistics
import time

import numpy as np

ROWS = 10_000_000
RUNS = 3


def yardstick() -> float:
    """Return the CPU seconds of a stable NumPy sort of ten million random 64-bit integers: the median of three runs."""
    numbers = np.random.default_rng(0).integers(np.iinfo(np.int64).max, size=ROWS)
    return statistics.median(_seconds(numbers) for _ in range(RUNS))


def _seconds(numbers: np.ndarray) -> float:
    copy = numbers.copy()
    start = time.process_time()
    copy.sort(kind="stable")
    return time.process_time() - start
