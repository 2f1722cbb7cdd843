"""Device code in object files for -fgpu-rdc: LLVM modules in sections that the linker leaves out of programs.

Names and format of the sections are those of clang's offload bundles in objects, so that objects of ROCm's hipcc are read too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.toolchain.code_object import CodeObjectError
from rocm_perf_lab.toolchain.compiler_run import CompileError
from rocm_perf_lab.toolchain.elf_file import ELF_MAGIC, parse_elf
from rocm_perf_lab.toolchain.fat_binary import HOST_TARGET

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_SECTION = "__CLANG_OFFLOAD_BUNDLE__"
_TARGET = re.compile(rf"{_SECTION}hip(?:v\d+)?-amdgcn-amd-amdhsa-.*?-(gfx[^\0]+)")
_ARCHIVE = b"!<arch>\n"
_MEMBER_HEADER, _MEMBER_SIZE = 60, slice(48, 58)


@dataclass(frozen=True)
class ObjectWithModules:
    """An object file, and its LLVM modules by architecture."""

    content: bytes
    modules: Mapping[str, bytes]


def assembly_of_modules(modules: Mapping[str, Path]) -> str:
    """Return assembly whose object has the files as sections: one LLVM module per architecture."""
    lines = [f'.section "{_SECTION}{HOST_TARGET}","e",@progbits', ".byte 0"]
    for architecture, file in modules.items():
        lines += [f'.section "{_SECTION}hip-amdgcn-amd-amdhsa--{architecture}","e",@progbits', f'.incbin "{file}"']
    return "\n".join([*lines, '.section .note.GNU-stack,"",@progbits', ""])


def objects_with_modules(file: Path) -> Iterator[ObjectWithModules]:
    """Yield the objects with LLVM modules in a file: itself, or members of an archive.

    Raises:
        CompileError: The file is damaged.
    """
    content = file.read_bytes()
    if _SECTION.encode() not in content:
        return
    try:
        for member in _members(content) if content.startswith(_ARCHIVE) else [content]:
            modules = _modules(member) if member.startswith(ELF_MAGIC) else {}
            if modules:
                yield ObjectWithModules(member, modules)
    except (CodeObjectError, ValueError) as error:
        raise CompileError(f"the file to link is damaged: {error}", log="", where=str(file), hint="Compile it again.") from error


def _modules(content: bytes) -> dict[str, bytes]:
    elf = parse_elf(content)
    found = ((_TARGET.fullmatch(section.name), section) for section in elf.sections)
    return {match[1]: elf.content(section) for match, section in found if match is not None}


def _members(archive: bytes) -> Iterator[bytes]:
    position = len(_ARCHIVE)
    while position + _MEMBER_HEADER <= len(archive):
        header = archive[position : position + _MEMBER_HEADER]
        size = int(header[_MEMBER_SIZE])
        position += _MEMBER_HEADER
        yield archive[position : position + size]
        position += size + size % 2
