"""Settings of all tests: hypothesis profiles, the check of counted property tests, and one secret.

The profile `quick` tries the same examples in every run, so a failure comes from a change. HYPOTHESIS_PROFILE=thorough searches
at random and longer.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.support.outcomes import assert_enough_tested, outcomes_of

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "quick", max_examples=25, deadline=None, derandomize=True, suppress_health_check=QUIET, print_blob=True
)
settings.register_profile("thorough", max_examples=400, deadline=None, suppress_health_check=QUIET, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

SECRET = 0x5EC2E7_0F_7E575_0123456789ABCDEF


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of engines that need Java or a database server run once: in `make test-engines`, which sets SHOAL_TEST_ENGINES."""
    if os.environ.get("SHOAL_TEST_ENGINES"):
        return
    reason = "needs Java or a database server, and runs under `make test-engines` (SHOAL_TEST_ENGINES=1)"
    for item in items:
        if item.get_closest_marker("engines"):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session", autouse=True)
def secret() -> Iterator[None]:
    """Releases without a seed are the same on every run; what comes from the operating system is tested in other processes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shoal.pipeline.run.new_seed", lambda: SECRET)
        patch.setattr("shoal.pipeline.randomized_run.new_seed", lambda: SECRET)
        patch.setattr("shoal.models.tree.new_seed", lambda: SECRET)
        patch.setattr("shoal.models.estimator.new_seed", lambda: SECRET)
        yield


@pytest.fixture(autouse=True)
def no_sessions_of_other_tests() -> Iterator[None]:
    """The relations of a test are not read after it, so their DuckDB sessions end: each has ten threads and a folder."""
    yield
    if session := sys.modules.get("shoal.engines.duckdb.session"):
        session._kept_sessions.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """A counted property test fails where too few of its examples were tested; parametrized tests are counted one by one."""
    outcomes = outcomes_of(getattr(item, "obj", None))
    if outcomes is None:
        return (yield)
    outcomes.clear()
    result = yield
    assert_enough_tested(outcomes)
    return result
