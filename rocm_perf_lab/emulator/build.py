"""Builds and loads the C runtime: `load_runtime() -> Runtime`."""

from __future__ import annotations

import ctypes
import platform
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.emulator.c_library import OLDEST_GLIBC, CLibrary, build_library

if TYPE_CHECKING:
    from collections.abc import Mapping

RUNTIME_SOURCES = Path(__file__).parent / "runtime"
RUNTIME_FLAGS = ("-std=gnu11", "-O3", "-march=native", "-fno-strict-aliasing", "-fPIC")
_DECLARATION = re.compile(r"^\w[\w ]*?\**\b(rpl_\w+)\(", re.MULTILINE)


@dataclass(frozen=True)
class Runtime:
    """Loaded runtime library."""

    path: Path
    library: ctypes.CDLL

    @cached_property
    def helpers(self) -> Mapping[str, int]:
        """Address of every helper that translated code may call, by name."""
        names = _DECLARATION.findall((RUNTIME_SOURCES / "wave.h").read_text() + (RUNTIME_SOURCES / "machine.h").read_text())
        return {name: self.address_of(name) for name in names}

    def address_of(self, name: str) -> int:
        """Return the address of an exported function."""
        return int(ctypes.cast(getattr(self.library, name), ctypes.c_void_p).value or 0)


def load_runtime(cache: Path | None = None) -> Runtime:
    """Return the runtime, and build it if it is not in the cache.

    Args:
        cache: Directory of the built libraries; the user's cache by default.

    Raises:
        RuntimeBuildError: No C compiler was found, or it failed.
    """
    path = build_runtime(cache or cache_dir() / "runtime")
    return Runtime(path, ctypes.CDLL(str(path)))


def build_runtime(cache: Path) -> Path:
    """Return the shared library in `cache`; compile it unless an intact one exists."""
    sources, headers = runtime_files()
    # As the other libraries: zig's compiler support library is built once for all of them.
    glibc = OLDEST_GLIBC if platform.libc_ver()[0] == "glibc" else None
    library = CLibrary("the C runtime of the emulator", sources, headers, RUNTIME_FLAGS, ("-lm",), glibc)
    return build_library(library, cache)


def runtime_files() -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Return the C files and the headers of the runtime."""
    return tuple(sorted(RUNTIME_SOURCES.glob("*.c"))), tuple(sorted(RUNTIME_SOURCES.glob("*.h")))
