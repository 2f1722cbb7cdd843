"""Settings of all tests: property tests use the same examples in every run, without deadlines; a run may have an end."""

import atexit
import gc
import os
import time
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from sqlalchemy import Engine, event

from tests.builders.sqlite import skip_syncs

settings.register_profile("fast", deadline=None, derandomize=True, print_blob=False, max_examples=30)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))
# Hypothesis mixes constants of the loaded modules into its examples, also with `derandomize`; which modules a worker has loaded
# depends on the order of the tests.
patch.object(providers, "is_local_module_file", create=True, return_value=False).start()
event.listen(Engine, "connect", skip_syncs)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that bounds the time of a run on a slow machine."""
    parser.addoption(
        "--start-until", type=float, metavar="TIME", help="skip the tests that have not begun at this time (seconds since 1970)"
    )


def pytest_configure() -> None:
    """Suspend garbage collection until the tests are collected, which creates millions of objects and discards few."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exclude the collected tests and imported modules from garbage collections, which would look at them again and again."""
    gc.freeze()
    gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that would begin after the end of the run."""
    end = item.config.getoption("--start-until")
    if end is not None and time.time() > end:
        pytest.skip("the time of this run is used up")


def pytest_sessionfinish() -> None:
    """Restore the normal end of the process, which profiles that ran in it replaced by a quick one."""
    atexit.unregister(gc.freeze)
