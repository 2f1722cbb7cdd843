"""The C++ environment of host code: glibc's headers and libc++ of the ziglang wheel, with which programs start on any Linux.

Kernels alone are compiled with musl's headers, whose types differ; a program shares its types with the C library of the machine.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.resources import zig_environment
from rocm_perf_lab.toolchain.compiler_run import CompileError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.toolchain.compilers import Compiler

_GLIBC_MINOR = 28
"""That of RHEL 8 and Debian 10: programs start on these and on newer ones, also inside a ROCm root."""
HOST_TRIPLE = f"x86_64-linux-gnu.2.{_GLIBC_MINOR}"
_HOST_HEADERS = Path(__file__).parent / "host_headers"
_GLIBC_HEADERS = ("x86-linux-gnu", "generic-glibc", "x86-linux-any", "any-linux-any")
_REPLACED = ("musl", "libcxx_configuration.h")
"""Parts of flags for kernels that name musl's headers."""
_LIBCXX_SETTINGS = {
    "_LIBCPP_ABI_VERSION": "1",
    "_LIBCPP_ABI_NAMESPACE": "__1",
    "_LIBCPP_HAS_THREADS": "1",
    "_LIBCPP_HAS_THREAD_API_PTHREAD": "1",
    "_LIBCPP_HAS_MONOTONIC_CLOCK": "1",
    "_LIBCPP_HAS_TERMINAL": "1",
    "_LIBCPP_HAS_MUSL_LIBC": "0",
    "_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS": "0",
    "_LIBCPP_HAS_FILESYSTEM": "1",
    "_LIBCPP_HAS_RANDOM_DEVICE": "1",
    "_LIBCPP_HAS_LOCALIZATION": "1",
    "_LIBCPP_HAS_UNICODE": "1",
    "_LIBCPP_HAS_WIDE_CHARACTERS": "1",
    "_LIBCPP_HAS_TIME_ZONE_DATABASE": "1",
    "_LIBCPP_PSTL_BACKEND_SERIAL": "1",
    "_LIBCPP_HARDENING_MODE_DEFAULT": "_LIBCPP_HARDENING_MODE_NONE",
    "_LIBCPP_ASSERTION_SEMANTIC_DEFAULT": "_LIBCPP_ASSERTION_SEMANTIC_IGNORE",
    "_LIBCXXABI_DISABLE_VISIBILITY_ANNOTATIONS": "1",
    "_LIBCPP_DISABLE_VISIBILITY_ANNOTATIONS": "1",
}
"""Settings with which `zig c++` builds libc++; headers and library have to agree."""
_KEPT_BY_GNU = {
    17: ("AUTO_PTR", "BINDERS", "RANDOM_SHUFFLE", "UNARY_BINARY_FUNCTION"),
    20: (
        *("BINDER_TYPEDEFS", "NEGATORS", "RAW_STORAGE_ITERATOR", "SHARED_PTR_UNIQUE", "TEMPORARY_BUFFER"),
        *("TYPE_TRAITS", "UNCAUGHT_EXCEPTION"),
    ),
}
"""Parts that a standard removed, and GNU's library, for which most programs were written, still has."""
_ROCM_PATH = "--rocm-path="
_MOST_ERROR_CHARACTERS = 4000


def program_flags(compiler: Compiler, cache: Path) -> tuple[str, ...]:
    """Return the flags for the sources of a program, the same for their host and device parts."""
    flags = [flag for flag in compiler.hip_flags(cache) if not any(part in flag for part in _REPLACED)]
    libraries = Path(compiler.command[0]).parent / "lib"
    return (
        f"-isystem{_HOST_HEADERS / 'first'}",
        *flags,
        *(f"-idirafter{libraries / 'libc' / 'include' / name}" for name in _GLIBC_HEADERS),
        f"-idirafter{libraries / 'libcxxabi' / 'include'}",
        f"-idirafter{_HOST_HEADERS}",
        f"-idirafter{_HOST_HEADERS / 'hip'}",
        f"-D__GLIBC_MINOR__={_GLIBC_MINOR}",
        *(f"-D{name}={value}" for name, value in _LIBCXX_SETTINGS.items()),
        *(f"-D_LIBCPP_ENABLE_CXX{year}_REMOVED_{part}" for year, parts in _KEPT_BY_GNU.items() for part in parts),
        "-Wno-unknown-pragmas",
    )


def c_flags(flags: Sequence[str]) -> tuple[str, ...]:
    """Return the flags of a program's sources in C, which may call the HIP runtime, from those of the sources in HIP C++."""
    root = next((flag.removeprefix(_ROCM_PATH) for flag in flags if flag.startswith(_ROCM_PATH)), None)
    headers = [] if root is None else [f"-idirafter{Path(root) / 'include'}"]
    # The flags for device code and libc++ have no effect.
    return (*flags, *headers, "-D__HIP_PLATFORM_AMD__=1", "-Wno-unused-command-line-argument")


def call_zig(compiler: Compiler, arguments: Sequence[str], *, what: str, where: str) -> None:
    """Run a tool of the ziglang wheel.

    Args:
        compiler: Compiler of the wheels.
        arguments: Name of the tool, for example `ld.lld`, and its arguments.
        what: Message if it fails; its output follows.
        where: Place of that error.

    Raises:
        CompileError: The tool failed.
    """
    done = subprocess.run([compiler.command[0], *arguments], capture_output=True, text=True, check=False, env=zig_environment())
    if done.returncode != 0:
        log = (done.stderr or done.stdout).strip()
        shown = "\n".join(dict.fromkeys(log[-_MOST_ERROR_CHARACTERS:].splitlines()))
        raise CompileError(f"{what}:\n{shown}", log=log, where=where, hint=_hint(log))


def _hint(log: str) -> str:
    if "undefined symbol: __kmpc" in log or "undefined symbol: omp_" in log:
        return "OpenMP is not supported: remove -fopenmp."
    if "undefined symbol" in log:
        return "Name all sources, objects and libraries of the program ('-L DIR -l NAME'; of rocm-perf run in --build-args)."
    if "unable to find" in log or "cannot find" in log or "FileNotFound" in log:
        return "Install the library, or name its directory: --build-args '-L DIR'."
    return "Correct --build-args."
