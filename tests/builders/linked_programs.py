"""Executables of tests, linked without a C library: with libraries that do not exist, and with GPU code for any architecture."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.core.resources import zig_environment
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.toolchain.fat_binary import assembly_of_bundle, offload_bundle

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_START = ".globl _start\n_start: mov $60, %eax\n mov $7, %edi\n syscall\n"
"""exit(7)"""
_LOADER = "/lib64/ld-linux-x86-64.so.2"


@dataclass(frozen=True)
class LinkedProgram:
    """An executable below a directory.

    Args:
        directory: Directory of the executable.
        needed: Names of libraries that it needs; they do not exist.
        architectures: Architectures for which it has GPU code.
    """

    directory: Path
    needed: Sequence[str] = ()
    architectures: Sequence[str] = ()

    def link(self) -> Path:
        """Return the path of the executable."""
        text = _START
        if self.architectures:
            bundle = self.directory / "code.hipfb"
            bundle.write_bytes(offload_bundle(dict.fromkeys(self.architectures, b"code")))
            text += assembly_of_bundle(bundle, ["__hip_fatbin_0"], [])
        libraries = [self._library(name) for name in self.needed]
        program = self.directory / "app"
        self._zig("ld.lld", "-dynamic-linker", _LOADER, "-pie", "-o", program, self._object("start", text), *libraries)
        for library in libraries:
            library.unlink()
        return program

    def _library(self, name: str) -> Path:
        path = self.directory / name
        self._zig("ld.lld", "-shared", f"-soname={name}", "-o", path, self._object("empty", ""))
        return path

    def _object(self, name: str, text: str) -> Path:
        source, output = self.directory / f"{name}.s", self.directory / f"{name}.o"
        source.write_text(text)
        self._zig("clang", "-target", "x86_64-linux-gnu", "-c", source, "-o", output)
        return output

    def _zig(self, *words: str | Path) -> None:
        zig = find_compiler(("pip",)).command[0]
        subprocess.run([zig, *map(str, words)], check=True, env=zig_environment(), cwd=self.directory)
