"""Build of the library that is preloaded into an application: the emulator's C runtime and the emulated kernel driver."""

from __future__ import annotations

from pathlib import Path

from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.emulator.build import runtime_files
from rocm_perf_lab.emulator.c_library import OLDEST_GLIBC, CLibrary, build_library
from rocm_perf_lab.toolchain.hsa_headers import HSA_HEADERS, find_hsa_headers

DRIVER_SOURCES = Path(__file__).parent / "driver"
# Keeps null checks of interposed functions: their arguments are declared non-null, but applications pass null.
_FLAGS = (
    *("-std=gnu11", "-O2", "-march=native", "-fno-strict-aliasing", "-fno-delete-null-pointer-checks"),
    *("-fPIC", "-pthread"),
)
_EXPORTS = DRIVER_SOURCES / "exports.map"
_LINK = ("-lm", "-lpthread", "-ldl", f"-Wl,--version-script={_EXPORTS}")


def build_driver(cache: Path | None = None) -> Path:
    """Return the driver library; compile it if it is not in the cache.

    Args:
        cache: Directory of the built libraries; the user's cache by default.

    Raises:
        MissingHsaHeaders: The HSA headers are not installed.
        RuntimeBuildError: No C compiler was found, or it failed.
    """
    sources, headers = runtime_files()
    include = find_hsa_headers()
    library = CLibrary(
        what="the emulated driver",
        sources=(*sources, *sorted(DRIVER_SOURCES.glob("*.c"))),
        headers=(*headers, *sorted(DRIVER_SOURCES.glob("*.h")), _EXPORTS, *(include / name for name in HSA_HEADERS)),
        flags=(*_FLAGS, "-isystem", str(include), "-isystem", str(include.parent)),
        link_flags=_LINK,
        glibc=OLDEST_GLIBC,
    )
    return build_library(library, cache or cache_dir() / "driver")
