"""Model of the config group `toolchain`."""

from __future__ import annotations

from rocm_perf_lab.core.models import StrictModel


class ToolchainConfig(StrictModel):
    """Compilers in order of preference, and flags of every compilation."""

    compilers: tuple[str, ...] = ("hipcc", "clang", "pip")
    optimisation: str = "-O3"
