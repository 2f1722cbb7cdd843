"""Settings of all tests: property tests use the same examples in every run, without deadlines."""

import atexit
import gc
import os

from hypothesis import settings

settings.register_profile("fast", deadline=None, derandomize=True, print_blob=False, max_examples=30)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


def pytest_sessionfinish() -> None:
    """Restore the normal end of the process, which profiles that ran in it replaced by a quick one."""
    atexit.unregister(gc.freeze)
