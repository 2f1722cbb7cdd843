"""Metadata notes: one for each object that was linked, and content that is not ours."""

from __future__ import annotations

import struct
from typing import Any

import msgpack

from rocm_perf_lab.toolchain.elf_file import ElfFile, Section
from rocm_perf_lab.toolchain.metadata import read_metadata_note

NOTE_SECTION = 7


def kernel(name: str) -> dict[str, Any]:
    sizes = ("vgpr_count", "sgpr_count", "group_segment_fixed_size", "private_segment_fixed_size", "kernarg_segment_size")
    others = {".kernarg_segment_align": 8, ".wavefront_size": 64, ".max_flat_workgroup_size": 256}
    argument = {".name": "sizeC", ".offset": 0, ".size": 8, ".value_kind": "by_value", ".value_type": "u64"}
    return {".symbol": f"{name}.kd", ".name": name, ".args": [argument], **{f".{s}": 8 for s in sizes}, **others}


def note(content: dict[Any, Any]) -> bytes:
    packed: bytes = msgpack.packb(content)
    padded = packed + bytes(-len(packed) % 4)
    return struct.pack("<III", 7, len(packed), 32) + b"AMDGPU\0\0" + padded


def elf(*sections: bytes) -> ElfFile:
    data, described = b"", []
    for content in sections:
        described.append(Section(".note", NOTE_SECTION, 2, 0, len(data), len(content), 0))
        data += content
    return ElfFile(data, 3, 224, 0x3F, 1, tuple(described))


def test_a_library_of_assembly_has_a_note_for_each_object() -> None:
    """As Tensile's libraries, which ld.lld links from one object per kernel."""
    first = note({"amdhsa.version": [1, 1], "amdhsa.target": "amdgcn-amd-amdhsa--gfx90a", "amdhsa.kernels": [kernel("a")]})
    second = note({"amdhsa.version": [1, 1], "amdhsa.kernels": [kernel("b"), kernel("c")], "amdhsa.printf": ["1:0:x"]})

    found = read_metadata_note(elf(first + second))
    apart = read_metadata_note(elf(first, second))

    assert found is not None
    assert [k.symbol for k in found.kernels] == ["a.kd", "b.kd", "c.kd"]
    assert [k.arguments[0].name for k in found.kernels] == ["sizeC"] * 3
    assert found.target_id == "gfx90a"
    assert found.printf_formats == ("1:0:x",)
    assert apart == found


def test_entries_of_other_tools_may_have_any_keys() -> None:
    config = {"AssertSizeMultiple": {3: 32}}

    found = read_metadata_note(elf(note({"amdhsa.version": [1, 1], "custom.config": config, "amdhsa.kernels": [kernel("a")]})))

    assert found is not None
    assert [k.symbol for k in found.kernels] == ["a.kd"]


def test_without_a_note_there_is_no_metadata() -> None:
    assert read_metadata_note(elf()) is None
