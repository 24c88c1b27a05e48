"""Settings of all tests: hypothesis profiles and seeds, the check of counted property tests, one secret, and time budgets.

Property tests try other examples in every run. The first lines of a run print the seed; ``--hypothesis-seed`` repeats its
examples, in any selection and order of the tests. The profile `quick` tries few examples; HYPOTHESIS_PROFILE=thorough many. The
profile `ci` tries the same examples in every run, so that a failure comes from a change.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, seed, settings

from tests.support.budget import Budget
from tests.support.outcomes import assert_enough_tested, is_enough_tested, outcomes_of

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("quick", max_examples=12, deadline=None, suppress_health_check=QUIET, print_blob=True)
settings.register_profile(
    "ci", max_examples=25, derandomize=True, deadline=None, suppress_health_check=QUIET, print_blob=True
)
settings.register_profile("thorough", max_examples=400, deadline=None, suppress_health_check=QUIET, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

SECRET = 0x5EC2E7_0F_7E575_0123456789ABCDEF
ROUNDS = 5  # a counted test with too few tested examples tries other examples, so often at most


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed of this run, before hypothesis reads the option; xdist hands it to its workers."""
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(secrets.randbits(32))
    config.pluginmanager.register(Budget(), "budget")


def pytest_report_header(config: pytest.Config) -> str:
    """How to repeat the examples of this run."""
    return f"Using --hypothesis-seed={config.option.hypothesis_seed}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Repeat the seed below the failures."""
    if terminalreporter.stats.get("failed"):
        terminalreporter.write_line(pytest_report_header(config))


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


def run_repeatable(test: object) -> Generator[None, None, None]:
    """Run a property test with the same examples as ever, and count them if it is counted."""
    outcomes = outcomes_of(test)
    if outcomes is not None:
        outcomes.clear()
    result = yield
    if outcomes is not None:
        assert_enough_tested(outcomes)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Seed a property test with the seed of the run and its own name, so that parametrized tests try different examples.

    A counted property test fails where too few of its examples were tested; parametrized tests are counted one by one.
    """
    test = getattr(item, "obj", None)
    if not is_hypothesis_test(test):
        return (yield)
    if settings.default.derandomize:
        return (yield from run_repeatable(test))
    chosen = f"{item.config.option.hypothesis_seed} {item.nodeid}"
    seed(chosen)(test)
    outcomes = outcomes_of(test)
    if outcomes is None:
        return (yield)
    outcomes.clear()
    result = yield
    for number in range(2, ROUNDS + 1):
        if is_enough_tested(outcomes):
            break
        seed(f"{chosen} {number}")(test)
        item.runtest()
    assert_enough_tested(outcomes)
    return result
