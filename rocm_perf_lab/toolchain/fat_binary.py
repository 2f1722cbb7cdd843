"""Offload bundles: writes device code as clang does, so that any HIP runtime and the lab's reader find it in an executable."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
HOST_TARGET = "host-x86_64-unknown-linux-gnu-"
"""Entry of the host in a bundle."""
_ALIGNMENT = 4096
"""Of every code object, as the runtime maps them from the file."""


def offload_bundle(code_objects: Mapping[str, bytes]) -> bytes:
    """Return the bundle of code objects by architecture, with an empty entry for the host in front."""
    entries = [(HOST_TARGET, b""), *((f"hipv4-amdgcn-amd-amdhsa--{name}", content) for name, content in code_objects.items())]
    offset = _aligned(len(_MAGIC) + 8 + sum(24 + len(target) for target, _ in entries))
    table, contents = struct.pack("<Q", len(entries)), b""
    for target, content in entries:
        table += struct.pack("<QQQ", offset + len(contents), len(content), len(target)) + target.encode()
        contents += content.ljust(_aligned(len(content)), b"\0")
    return (_MAGIC + table).ljust(offset, b"\0") + contents


def assembly_of_bundle(bundle: Path, symbols: Sequence[str], handles: Sequence[str]) -> str:
    """Return assembly that defines symbols for a bundle, which it includes, and for the handle of its registration.

    Args:
        bundle: File with the bundle.
        symbols: Names of the bundle (`__hip_fatbin_...`): one per source that shares it.
        handles: Names of the handle (`__hip_gpubin_handle_...`) for sources with -fgpu-rdc, which register the bundle once.
    """
    lines = ['.section .hip_fatbin,"a",@progbits', ".p2align 12", *_labels(symbols), f'.incbin "{bundle}"']
    if handles:
        lines += ['.section .hip_gpubin_handle,"aw",@nobits', ".p2align 3", *_labels(handles), ".zero 8"]
    return "\n".join([*lines, '.section .note.GNU-stack,"",@progbits', ""])


def _labels(names: Sequence[str]) -> list[str]:
    return [line for name in names for line in (f".globl {name}", f"{name}:")]


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
