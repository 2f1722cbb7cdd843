"""`rocm-perf run`: run an application on emulated GPUs."""
