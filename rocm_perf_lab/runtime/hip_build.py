"""Build of rocm-perf-lab's HIP runtime, and of the directory from which applications load it by AMD's library names."""

from __future__ import annotations

from pathlib import Path

from rocm_perf_lab.core.files import replace_link
from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.emulator.c_library import OLDEST_GLIBC, CLibrary, build_library
from rocm_perf_lab.toolchain.hsa_headers import find_hsa_headers

HIP_SOURCES = Path(__file__).parent / "hip"
_DRIVER_HEADERS = ("service.h",)
_EXPORTS = HIP_SOURCES / "exports.map"
_FLAGS = (
    *("-std=gnu11", "-O2", "-fno-strict-aliasing", "-fno-delete-null-pointer-checks", "-fvisibility=hidden"),
    *("-Wall", "-Wextra", "-Wno-deprecated-declarations", "-fPIC", "-pthread"),
)
_LINK_FLAGS = ("-lpthread", "-ldl", "-Wl,--no-undefined", "-Wl,-soname,libamdhip64.so.6")
"""A missing function is a build error; functions of the preloaded driver are weak."""
LIBRARY_NAMES = (
    *(f"{library}.so{version}" for library in ("libamdhip64", "libhiprtc") for version in ("", ".5", ".6", ".7")),
    "libroctx64.so",
    "librocprofiler-sdk-roctx.so",
)
"""Library names with which applications load the runtime and rocTX: those of ROCm 5, 6 and 7, and the linker name."""


def build_hip_runtime(cache: Path | None = None) -> Path:
    """Return the directory with the HIP runtime, for LD_LIBRARY_PATH and `-L`; compile the library if it is not in the cache.

    Args:
        cache: Directory of the built libraries; the user's cache by default.

    Raises:
        MissingHsaHeaders: There are no headers of ROCm.
        RuntimeBuildError: No C compiler was found, or it failed.
    """
    library = build_library(_library(), cache or cache_dir() / "hip")
    directory = library.with_suffix("")
    directory.mkdir(exist_ok=True)
    for name in LIBRARY_NAMES:
        replace_link(directory / name, Path("..") / library.name)
    return directory


def _library() -> CLibrary:
    include = find_hsa_headers().parent
    sources = tuple(sorted(HIP_SOURCES.glob("*.c")))
    driver = tuple(HIP_SOURCES.parent / "driver" / name for name in _DRIVER_HEADERS)
    exports = (_EXPORTS,) if _EXPORTS.exists() else ()
    api = tuple(sorted((include / "hip").glob("*.h")))
    return CLibrary(
        what="the HIP runtime",
        sources=sources,
        headers=(*sorted(HIP_SOURCES.glob("*.h")), *sorted(HIP_SOURCES.glob("*.inc")), *driver, *exports, *api),
        flags=(*_FLAGS, "-isystem", str(include)),
        link_flags=(*_LINK_FLAGS, *(f"-Wl,--version-script={path}" for path in exports)),
        glibc=OLDEST_GLIBC,
    )
