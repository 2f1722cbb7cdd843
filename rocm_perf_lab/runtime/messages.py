"""Messages between the emulated driver and the translation service: the structures of `driver/service.h`.

A test compares sizes and offsets with those of the compiled structures. Those of durations and records are in
:mod:`rocm_perf_lab.runtime.dispatch_records`.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum
from typing import TYPE_CHECKING, TypeVar

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Sequence

PROTOCOL = 1
NOT_IN_FILE = (1 << 64) - 1
"""`image_offset` of memory that is not in the memory file."""
_RANGE_BYTES = 16

Structure = TypeVar("Structure", bound=ctypes.LittleEndianStructure)


class MessageError(LabError):
    """Message of a driver with an invalid layout."""


class MessageKind(IntEnum):
    """enum rpl_message_kind."""

    HELLO = 1
    KERNEL = 2
    HOT = 3
    FAULT_TEXT = 4
    RECORD = 5
    HIP_CODE = 20
    HIP_COMPILE = 21
    CHECK_FACTS = 30
    OK = 100
    REFUSED = 101
    KERNEL_IS = 102
    CODE_IS = 103
    DURATION_IS = 104
    TEXT_IS = 105
    HIP_CODE_IS = 120
    HIP_COMPILED = 121
    CHECK_FACTS_ARE = 130


class MessageHeader(ctypes.LittleEndianStructure):
    """struct rpl_message."""

    _fields_ = (("kind", ctypes.c_uint32), ("reserved", ctypes.c_uint32), ("bytes", ctypes.c_uint64))


class Hello(ctypes.LittleEndianStructure):
    """struct rpl_hello."""

    _fields_ = (("protocol", ctypes.c_uint32), ("pid", ctypes.c_uint32))


class KernelQuery(ctypes.LittleEndianStructure):
    """struct rpl_kernel_query."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("object", "image", "image_bytes", "image_offset", "elf_bytes")),
        ("gpu", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    )


class KernelAnswer(ctypes.LittleEndianStructure):
    """struct rpl_kernel_answer."""

    _fields_ = (
        ("load_address", ctypes.c_uint64),
        *(
            (name, ctypes.c_uint32)
            for name in (
                "id", "block_count", "probe_count", "vgpr_rows", "agpr_rows", "depends_on_order",
                "wave_size", "mode", "system_sgprs", "work_item_id_dims", "work_item_id_rows",
                "static_scratch_bytes", "static_lds_bytes", "kernarg_bytes",
                "properties", "user_sgprs", "preload_offset", "preload_dwords", "cooperative", "is_final",
            )
        ),
    )  # fmt: skip


class CheckFacts(ctypes.LittleEndianStructure):
    """struct rpl_check_facts."""

    _fields_ = (("instructions", ctypes.c_uint32), ("unseen_releases", ctypes.c_uint32))


class HotBlocks(ctypes.LittleEndianStructure):
    """struct rpl_hot_blocks."""

    _fields_ = (("id", ctypes.c_uint32), ("block_count", ctypes.c_uint32))


class FaultReport(ctypes.LittleEndianStructure):
    """struct rpl_fault_report."""

    _fields_ = (
        ("id", ctypes.c_uint32),
        ("queue", ctypes.c_uint32),
        ("dispatch", ctypes.c_uint64),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("max_instructions", ctypes.c_uint64),
        ("is_in_host_memory", ctypes.c_uint64),
    )


def parse(kind: type[Structure], content: bytes) -> tuple[Structure, bytes]:
    """Return the structure at the start of a message, and the rest of the message.

    Raises:
        MessageError: The message is too short.
    """
    size = ctypes.sizeof(kind)
    if len(content) < size:
        raise MessageError(f"a message of {len(content)} bytes is too short for {kind.__name__} ({size} bytes)")
    return kind.from_buffer_copy(content), content[size:]


def parse_words(content: bytes, count: int) -> tuple[int, ...]:
    """Return the first `count` words of 64 bits.

    Raises:
        MessageError: There are fewer.
    """
    if count * 8 > len(content):
        raise MessageError(f"a message has {len(content)} bytes of counts instead of {count * 8}")
    return tuple(memoryview(content[: count * 8]).cast("Q"))


def parse_ranges(content: bytes) -> tuple[range, ...]:
    """Return the address ranges in the rest of a message: pairs of words, begin and end."""
    words = parse_words(content, len(content) // _RANGE_BYTES * 2)
    return tuple(range(*pair) for pair in zip(words[::2], words[1::2], strict=True))


def texts(*values: str) -> bytes:
    """Return zero-terminated strings."""
    return b"".join(value.encode("utf-8", "surrogateescape").replace(b"\0", b"") + b"\0" for value in values)


def message(kind: MessageKind, *parts: bytes | ctypes.LittleEndianStructure) -> bytes:
    """Return a message with its header."""
    content = _joined(parts)
    return bytes(MessageHeader(kind=kind, bytes=len(content))) + content


def _joined(parts: Sequence[bytes | ctypes.LittleEndianStructure]) -> bytes:
    return b"".join(bytes(part) for part in parts)
