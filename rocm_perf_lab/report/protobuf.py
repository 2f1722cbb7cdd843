"""Messages in the wire format of protocol buffers, written field by field.

The few messages of a Perfetto trace do not justify generated code and its library; the format is four rules.
"""

from __future__ import annotations

import struct

_VARINT, _FIXED64, _LENGTH = 0, 1, 2


class Message:
    """A message under construction; every method appends one field and gives the message back."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts = bytearray()

    @property
    def content(self) -> bytes:
        """The fields so far."""
        return bytes(self._parts)

    def integer(self, field: int, value: int) -> Message:
        """A whole number of 64 bits; a negative one as int64 has it."""
        self._varint(field << 3 | _VARINT)
        self._varint(value & 0xFFFF_FFFF_FFFF_FFFF)
        return self

    def fixed(self, field: int, value: int) -> Message:
        """An unsigned number of always eight bytes."""
        self._varint(field << 3 | _FIXED64)
        self._parts += struct.pack("<Q", value)
        return self

    def real(self, field: int, value: float) -> Message:
        """A double."""
        self._varint(field << 3 | _FIXED64)
        self._parts += struct.pack("<d", value)
        return self

    def text(self, field: int, value: str) -> Message:
        """A string."""
        return self._block(field, value.encode("utf-8", "replace"))

    def message(self, field: int, value: Message) -> Message:
        """A message within this one."""
        return self._block(field, value._parts)

    def extend(self, other: Message | None) -> Message:
        """All fields of another message."""
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
