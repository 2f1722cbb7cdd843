"""Settings of all tests: property tests find the same examples in every run, however busy the machine is."""

import atexit
import gc

from hypothesis import settings

settings.register_profile("lab", deadline=None, derandomize=True, print_blob=False)
settings.load_profile("lab")


def pytest_sessionfinish() -> None:
    """A profile that ran in this process asked for a quick end of it, but so many tests end better tidily."""
    atexit.unregister(gc.freeze)
