"""AMD's and others' test suites on the emulated GPU, for `python -m benchmarks.rocm_suites`."""
