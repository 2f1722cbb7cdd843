"""rocm-perf-lab: a declarative experiment lab for AMD GPU kernels."""

__version__ = "0.1.0"
