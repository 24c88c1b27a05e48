"""Count how the examples of a property test end, so that a test that tests (almost) nothing fails.

Some examples cannot be tested, such as a table without any release that meets the requirement. An early return hides them, and
``assume`` tries another example instead, which costs time. A counted test returns the reason of an early end, and a share of
its examples must reach the end::

    @given(case=cases())
    @counted
    def test_labels_cover_the_originals(case: Case) -> Outcome:
        release = released(case, "mondrian", {})
        if release is None:
            return "not met"
        assert ...
        return None

``pytest --hypothesis-show-statistics`` prints the share of every outcome.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import event

Outcome = str | None  # why an example ended early, or None where it reached the end

TESTED = "tested"
LEAST_SHARE = 0.1


def counted(body: Callable[..., Outcome]) -> Callable[..., None]:
    """Count the outcomes of the examples. This decorator belongs below ``@given``."""
    outcomes: Counter[str] = Counter()

    @functools.wraps(body)
    def count(*args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        outcome = body(*args, **kwargs) or TESTED
        outcomes[outcome] += 1
        event(f"outcome: {outcome}")

    count.outcomes = outcomes
    return count


def outcomes_of(test: object) -> Counter[str] | None:
    """The outcomes of a counted property test, or None for any other test."""
    return getattr(getattr(getattr(test, "hypothesis", None), "inner_test", None), "outcomes", None)


def is_enough_tested(outcomes: Counter[str]) -> bool:
    """Whether a tenth of the examples, and at least one, reached the end of the test."""
    return bool(outcomes[TESTED]) and outcomes[TESTED] >= LEAST_SHARE * outcomes.total()


def assert_enough_tested(outcomes: Counter[str]) -> None:
    """Fail where fewer than a tenth of the examples reached the end of the test."""
    __tracebackhide__ = True
    assert is_enough_tested(outcomes), (
        f"only {outcomes[TESTED]} of {outcomes.total()} examples reached the end of the test: {dict(outcomes)}. "
        "Change the strategy so that more examples can be tested."
    )
