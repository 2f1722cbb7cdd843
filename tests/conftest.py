"""Settings of all tests: property tests use the same examples in every run, without deadlines."""

import atexit
import gc
import os
from unittest.mock import patch

from hypothesis import settings
from hypothesis.internal.conjecture import providers

settings.register_profile("fast", deadline=None, derandomize=True, print_blob=False, max_examples=30)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))
# Hypothesis mixes constants of the loaded modules into its examples, also with `derandomize`; which modules a worker has loaded
# depends on the order of the tests.
patch.object(providers, "is_local_module_file", create=True, return_value=False).start()


def pytest_sessionfinish() -> None:
    """Restore the normal end of the process, which profiles that ran in it replaced by a quick one."""
    atexit.unregister(gc.freeze)
