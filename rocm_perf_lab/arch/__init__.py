"""GPU architectures as data: one YAML file each, read by :mod:`rocm_perf_lab.arch.registry`."""
