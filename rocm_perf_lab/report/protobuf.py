"""Writer for messages in the wire format of protocol buffers.

A Perfetto trace uses few messages and four encoding rules; generated code and its library are not justified.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.signedinteger[Any]]

_LONGEST_VARINT = 10
_VARINT, _FIXED64, _LENGTH = 0, 1, 2


class Message:
    """Message under construction; every method appends one field and returns the message."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts = bytearray()

    @property
    def content(self) -> bytes:
        """Return the encoded fields."""
        return bytes(self._parts)

    def integer(self, field: int, value: int) -> Message:
        """Append a 64-bit integer; negative values are encoded as int64."""
        self._varint(field << 3 | _VARINT)
        self._varint(value & 0xFFFF_FFFF_FFFF_FFFF)
        return self

    def fixed(self, field: int, value: int) -> Message:
        """Append an unsigned integer of eight bytes."""
        self._varint(field << 3 | _FIXED64)
        self._parts += struct.pack("<Q", value)
        return self

    def real(self, field: int, value: float) -> Message:
        """Append a double."""
        self._varint(field << 3 | _FIXED64)
        self._parts += struct.pack("<d", value)
        return self

    def text(self, field: int, value: str) -> Message:
        """Append a string."""
        return self._block(field, value.encode("utf-8", "replace"))

    def message(self, field: int, value: Message) -> Message:
        """Append a nested message."""
        return self._block(field, value._parts)

    def extend(self, other: Message | None) -> Message:
        """Append all fields of another message."""
        if other is not None:
            self._parts += other._parts
        return self

    def _block(self, field: int, content: bytes | bytearray) -> Message:
        self._varint(field << 3 | _LENGTH)
        self._varint(len(content))
        self._parts += content
        return self

    def _varint(self, value: int) -> None:
        while value > 0x7F:
            self._parts.append(value & 0x7F | 0x80)
            value >>= 7
        self._parts.append(value)


def varint_width(values: Integers) -> int:
    """Return the number of bytes of the longest of these 64-bit integers as a varint."""
    if not len(values):
        return 1
    if int(values.min()) < 0:
        return _LONGEST_VARINT
    return max(1, -(-int(values.max()).bit_length() // 7))


def padded_varints(values: Integers, width: int) -> NDArray[np.uint8]:
    """Return integers as varints of equal length, shape (n, width); decoders accept leading groups of zero bits."""
    shifts = np.minimum(np.arange(0, 7 * width, 7), 63).astype(np.uint64)
    groups = (values.astype(np.int64).view(np.uint64)[:, None] >> shifts).astype(np.uint8) & np.uint8(0x7F)
    if width == _LONGEST_VARINT:
        groups[:, -1] &= 1
    groups[:, :-1] |= 0x80
    return groups
