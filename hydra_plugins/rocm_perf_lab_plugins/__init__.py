"""Hydra plugins of rocm-perf-lab, found by Hydra through the `hydra_plugins` namespace."""
