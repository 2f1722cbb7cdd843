"""Search for the C headers of AMD's HSA runtime, which the capture tool and the emulated driver are compiled with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.toolchain.compilers import ToolSearch

if TYPE_CHECKING:
    from pathlib import Path

HSA_HEADERS = ("hsa.h", "hsa_ext_amd.h", "hsa_ven_amd_loader.h")


class MissingHsaHeaders(LabError):
    """HSA headers that are not installed."""


def find_hsa_headers(search: ToolSearch | None = None) -> Path:
    """Return the directory with hsa.h and hsa_ext_amd.h: of ROCm, else of the triton wheel.

    Raises:
        MissingHsaHeaders: Neither is installed.
    """
    search = search or ToolSearch()
    root, triton = search.rocm_root, search.package_dir("triton")
    candidates = [
        *([root / "include" / "hsa"] if root else []),
        *([triton / "backends" / "amd" / "include" / "hsa"] if triton else []),
    ]
    for candidate in candidates:
        if all((candidate / header).is_file() for header in HSA_HEADERS):
            return candidate
    raise MissingHsaHeaders(
        "nothing can be built for ROCm's runtime without HSA headers (hsa.h, hsa_ext_amd.h)",
        where=", ".join(map(str, candidates)) or "neither ROCm nor the triton wheel is installed",
        hint="Install hsa-rocr-dev of ROCm, or: pip install 'rocm-perf-lab[triton]'.",
    )
