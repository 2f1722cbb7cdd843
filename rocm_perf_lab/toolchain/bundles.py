"""Finds the code objects of one architecture in what compilers produce: bare ELF, offload bundle, host executable.

Formats: "Clang Offload Bundler" (magic `__CLANG_OFFLOAD_BUNDLE__`, a table of offset, size and target id) and the
`.hip_fatbin` section of a host ELF, in which the bundles of all translation units follow each other.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.toolchain.code_object import CodeObjectError
from rocm_perf_lab.toolchain.elf_file import ELF_MAGIC, parse_elf

if TYPE_CHECKING:
    from collections.abc import Iterator

EM_AMDGPU = 224

_BUNDLE_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
_COMPRESSED_MAGIC = b"CCOB"
_U64 = struct.Struct("<Q")
_ENTRY = struct.Struct("<QQQ")


@dataclass(frozen=True)
class _BundleEntry:
    target: str
    """`hipv4-amdgcn-amd-amdhsa--gfx942:sramecc+`, or `host-...`."""
    content: bytes

    @property
    def architecture(self) -> str:
        return self.target.rpartition("--")[2].split(":")[0]


def unpack_code_objects(data: bytes, architecture: str) -> tuple[bytes, ...]:
    """The device ELF files for `architecture` in `data`, in file order; `data` itself where it is one.

    Raises:
        CodeObjectError: Unknown or compressed container, or nothing for this architecture in it.
    """
    if data.startswith(ELF_MAGIC):
        elf = parse_elf(data)
        if elf.machine == EM_AMDGPU:
            return (data,)
        fat_binary = elf.section(".hip_fatbin")
        if fat_binary is None:
            raise CodeObjectError(
                f"the ELF file is for machine {elf.machine}, not AMDGPU ({EM_AMDGPU}), and has no .hip_fatbin section",
                remedy="Pass a code object, or an executable that was compiled from HIP.",
            )
        data = elf.content(fat_binary)
    if data.startswith(_COMPRESSED_MAGIC):
        raise CodeObjectError(
            "the offload bundle is compressed (CCOB)",
            remedy="Compile with --no-offload-compress, or unpack it with clang-offload-bundler.",
        )
    entries = [entry for entry in _bundle_entries(data) if entry.content]
    chosen = tuple(entry.content for entry in entries if entry.architecture == architecture)
    if not chosen:
        present = sorted({entry.architecture for entry in entries if not entry.target.startswith("host")})
        raise CodeObjectError(
            f"the bundle has no code object for {architecture}, only for: {', '.join(present) or 'no GPU at all'}",
            remedy=f"Compile with --offload-arch={architecture}.",
        )
    return chosen


def _bundle_entries(data: bytes) -> Iterator[_BundleEntry]:
    start = data.find(_BUNDLE_MAGIC)
    if start < 0:
        raise CodeObjectError(
            "neither an ELF file nor an offload bundle",
            remedy="Pass a .hsaco file, an offload bundle or a HIP executable.",
        )
    while start >= 0:
        yield from _entries_of_one(data, start)
        start = data.find(_BUNDLE_MAGIC, start + len(_BUNDLE_MAGIC))


def _entries_of_one(data: bytes, start: int) -> Iterator[_BundleEntry]:
    position = start + len(_BUNDLE_MAGIC)
    (count,) = _U64.unpack(_checked(data, position, _U64.size))
    position += _U64.size
    for _ in range(count):
        offset, size, name_size = _ENTRY.unpack(_checked(data, position, _ENTRY.size))
        position += _ENTRY.size
        target = _checked(data, position, name_size).decode("utf-8", errors="replace")
        position += name_size
        yield _BundleEntry(target, _checked(data, start + offset, size))


def _checked(data: bytes, offset: int, size: int) -> bytes:
    if offset + size > len(data):
        raise CodeObjectError("the offload bundle was cut short", remedy="Compile or copy the file again.")
    return data[offset : offset + size]
