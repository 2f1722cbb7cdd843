"""Builds the stand-in runtime and its applications, and runs its emulator.

The directory of :func:`library_directory` goes into LD_LIBRARY_PATH; :func:`emulator` yields the rest of the environment.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.replay.tool_build import SOURCES
from rocm_perf_lab.toolchain.build import CompileRequest, compile_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HERE = Path(__file__).parent
LIBRARY = "libhsa-runtime64.so.1"
_RUNTIME = ("table", "agents", "memory", "sharing", "signal", "queue", "code", "emulator", "rocprofiler")


def hsa_include_dir() -> Path:
    """Return the directory of HSA headers in the triton wheel."""
    import triton

    return Path(triton.__file__).parent / "backends" / "amd" / "include" / "hsa"


@cache
def library_directory(sanitizers: str = "") -> Path:
    """Return the directory with libhsa-runtime64.so.1 and the link name libhsa-runtime64.so.

    Args:
        sanitizers: Sanitizers of g++: "thread", "address,undefined", or empty.
    """
    sources = [HERE / f"{name}.cpp" for name in _RUNTIME]
    definitions = [] if sanitizers else ["-Wl,-z,defs"]  # the symbols of a sanitizer are in the application
    path = _built(LIBRARY, sources, ["-shared", f"-Wl,-soname,{LIBRARY}", *definitions, *_sanitized(sanitizers)], ["-ldl"])
    link = path.with_name("libhsa-runtime64.so")
    if not link.exists():
        link.symlink_to(LIBRARY)
    return path.parent


@cache
def application(name: str, sanitizers: str = "") -> Path:
    """Build one of the C++ programs of this directory, linked with the stand-in."""
    directory = library_directory(sanitizers)
    libraries = [f"-L{directory}", "-lhsa-runtime64", f"-Wl,-rpath,{directory}"]
    return _built(name, [HERE / f"{name}.cpp"], _sanitized(sanitizers), libraries)


@cache
def capture_tool(sanitizers: str) -> Path:
    """Build the capture tool with sanitizers, for an application that also has them."""
    flags = ["-shared", "-fvisibility=hidden", *_sanitized(sanitizers)]
    return _built("capture_tool.so", sorted(SOURCES.glob("*.cpp")), flags, ["-ldl"], headers=sorted(SOURCES.glob("*.h")))


@cache
def shared_object(name: str) -> Path:
    """Build a library for LD_PRELOAD."""
    return _built(f"{name}.so", [HERE / f"{name}.cpp"], ["-shared"], ["-ldl"])


def kernels(name: str = "kernels") -> Path:
    """Compile NAME.hip for gfx942 and return the code object."""
    built = compile_source(CompileRequest(source=HERE / f"{name}.hip", architecture="gfx942"))
    path = cache_dir() / "tests" / f"{name}-{built.code_object.sha256[:16]}.hsaco"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(built.code_object.data)
    return path


@contextmanager
def emulator() -> Iterator[dict[str, str]]:
    """Run an emulator; yield the environment in which programs use the stand-in with it."""
    short = tempfile.gettempdir() if len(tempfile.gettempdir()) < 60 else "/tmp"  # the path of a socket has at most 107 bytes
    with tempfile.TemporaryDirectory(prefix="stand-in-", dir=short) as directory:
        path = Path(directory) / "emulator"
        root = HERE.parents[2]  # of this checkout
        command, variables = [sys.executable, str(HERE / "server.py"), str(path)], os.environ | {"PYTHONPATH": str(root)}
        server = subprocess.Popen(command, cwd=root, env=variables)
        try:
            while not path.exists():
                if server.poll() is not None:
                    raise RuntimeError("the emulator ended")
                time.sleep(0.02)
            yield {**os.environ, "STAND_IN_HSA_EMULATOR": str(path), "LD_LIBRARY_PATH": str(library_directory())}
        finally:
            server.terminate()
            server.wait()


def _sanitized(sanitizers: str) -> list[str]:
    return [f"-fsanitize={sanitizers}", "-fno-omit-frame-pointer", "-DSTAND_IN_SANITIZED"] if sanitizers else []


def _built(
    name: str, sources: Sequence[Path], flags: Sequence[str], libraries: Sequence[str], headers: Sequence[Path] = ()
) -> Path:
    common = ["-std=c++17", "-O2", "-g", "-Wall", "-Wextra", "-fPIC", "-pthread", f"-I{hsa_include_dir()}"]
    digest = hashlib.sha256("\0".join([*common, *flags, *libraries]).encode())
    for file in sorted([*sources, *headers, *HERE.glob("*.h")]):
        digest.update(file.read_bytes())
    directory = cache_dir() / "tests" / f"{name}-{digest.hexdigest()[:16]}"
    path = directory / name
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        scratch = directory / f".{name}.{os.getpid()}"
        subprocess.run(["g++", *common, *flags, *map(str, sources), "-o", str(scratch), *libraries], check=True)
        scratch.rename(path)
    return path
