"""Settings of all tests: property tests find the same examples in every run, however busy the machine is."""

from hypothesis import settings

settings.register_profile("lab", deadline=None, derandomize=True, print_blob=False)
settings.load_profile("lab")
