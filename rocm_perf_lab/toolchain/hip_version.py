"""Version of HIP that the headers of a compiler state, and answers to questions about the compiler: `--version`."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

from rocm_perf_lab.core.resources import zig_environment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.toolchain.compilers import Compiler

_PARTS = re.compile(r"#define HIP_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)")
_TARGET = ("-target", "x86_64-unknown-linux-gnu")
_VERSION = "--version"


def hip_version(compiler: Compiler) -> str:
    """Return the version of HIP, for example `7.1.25424`; `0.0.0` if the compiler finds its headers itself."""
    if compiler.bundled_rocm is None:
        return "0.0.0"
    header = compiler.bundled_rocm.include_dir / "hip" / "hip_version.h"
    return ".".join(_PARTS.findall(header.read_text(encoding="utf-8")))


def answer_query(compiler: Compiler, words: Sequence[str]) -> int:
    """Let the compiler answer options that compile nothing on the standard streams, and return its exit code."""
    if _VERSION in words:
        print(f"HIP version: {hip_version(compiler)}", flush=True)
    return subprocess.run([*compiler.command, *_TARGET, *words], check=False, env=zig_environment()).returncode
