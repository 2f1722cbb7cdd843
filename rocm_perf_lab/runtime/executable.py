"""Facts about an application's file, read before it starts: file type, GPU code, and missing libraries."""

from __future__ import annotations

import os
import platform
import re
import struct
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.toolchain.bundles import bundled_architectures
from rocm_perf_lab.toolchain.code_object import CodeObjectError
from rocm_perf_lab.toolchain.elf_file import ELF_MAGIC

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

_MACHINES = {3: "x86", 40: "ARM", 62: "x86_64", 183: "aarch64", 224: "AMDGPU", 243: "RISC-V", 258: "LoongArch"}
_ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_PT_LOAD, _PT_INTERP = 1, 3
_RELOCATABLE = 1
_LARGEST_SEARCHED_BYTES = 1 << 29
"""GPU code of larger files is not examined."""
_FAT_BINARY = b".hip_fatbin"
_GLIBC_LOADER, _ONLY_LIST = "ld-linux", {"LD_TRACE_LOADED_OBJECTS": "1"}
"""With this variable, the glibc loader prints the libraries instead of starting the program."""
_NOT_FOUND = re.compile(r"^\s*(\S+) => not found", re.MULTILINE)
_FOUND = re.compile(r"^\s*(\S+) => (/\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Executable:
    """File that starts a process."""

    path: Path
    kind: Literal["dynamic", "static", "script"]
    loader: Path | None = None
    """Dynamic loader of a dynamic executable."""

    def architectures(self) -> tuple[str, ...]:
        """Return the architectures of the GPU code in the file; empty without such code."""
        if self.kind == "script" or self.path.stat().st_size > _LARGEST_SEARCHED_BYTES:
            return ()
        content = self.path.read_bytes()
        if _FAT_BINARY not in content:
            return ()
        with suppress(CodeObjectError):  # The name occurs in another section, or the runtime will report the damage.
            return bundled_architectures(content)
        return ()

    def libraries(self, environment: Mapping[str, str]) -> LoadedLibraries:
        """Return the libraries that the dynamic loader finds in an environment, and the missing ones."""
        if self.loader is None or _GLIBC_LOADER not in self.loader.name or not self.loader.exists():
            return LoadedLibraries({}, ())
        variables = {name: value for name, value in environment.items() if name != "LD_PRELOAD"} | _ONLY_LIST
        command = [str(self.loader), str(self.path.absolute())]  # Without a directory, it would be searched on PATH.
        listed = subprocess.run(command, capture_output=True, text=True, check=False, env=variables, errors="replace").stdout
        return LoadedLibraries(dict(_FOUND.findall(listed)), tuple(dict.fromkeys(_NOT_FOUND.findall(listed))))


@dataclass(frozen=True)
class LoadedLibraries:
    """Shared libraries of an executable, including indirect ones."""

    found: Mapping[str, str]
    """Name -> path."""
    missing: tuple[str, ...]


def read_executable(path: Path) -> Executable:
    """Return the facts about a program file.

    Raises:
        LabError: It is none, or one for another processor.
    """
    try:
        with path.open("rb") as file:
            start = file.read(_ELF_HEADER.size)
            if start.startswith(b"#!"):
                return Executable(path, "script")
            if start.startswith(ELF_MAGIC) and len(start) == _ELF_HEADER.size:
                return _read_elf(path, file, start)
    except PermissionError:  # It may be executable but not readable.
        return Executable(path, "static")
    except OSError as error:
        raise LabError(f"the program cannot be read: {error.strerror}", where=str(path)) from error
    raise LabError(
        "the file is not a program: neither an ELF executable nor a script that starts with #!",
        where=str(path),
        hint="put its interpreter first, for example: rocm-perf run -- bash FILE",
    )


def _read_elf(path: Path, file: BinaryIO, start: bytes) -> Executable:
    _, kind, machine, _, _, table, _, _, _, size, count, *_ = _ELF_HEADER.unpack(start)
    name = _MACHINES.get(machine, f"machine {machine}")
    if name == "AMDGPU":
        raise LabError("the file is a code object, not a program", where=str(path), hint="rocm-perf emulate FILE runs a kernel")
    if name != platform.machine():
        raise LabError(f"the program is for {name}, this machine is {platform.machine()}", where=str(path))
    if kind == _RELOCATABLE:
        raise LabError("the file is an object file, not a program", where=str(path), hint="link it first")
    end = path.stat().st_size
    loader: Path | None = None
    for number in range(count):
        file.seek(table + number * size)
        header = file.read(_PROGRAM_HEADER.size)
        segment, _, offset, _, _, length, *_ = _PROGRAM_HEADER.unpack(header.ljust(_PROGRAM_HEADER.size, b"\0"))
        if len(header) < _PROGRAM_HEADER.size or (segment in (_PT_LOAD, _PT_INTERP) and offset + length > end):
            raise LabError("the program is truncated", where=str(path), hint="build or copy it again")
        if segment == _PT_INTERP:
            file.seek(offset)
            loader = Path(os.fsdecode(file.read(length).rstrip(b"\0")))
    return Executable(path, "static") if loader is None else Executable(path, "dynamic", loader)
