"""Output of printf in kernels: converts format strings and arguments in 64-bit words to text with the semantics of C.

A message of HIP's printf service is the format string, NUL-terminated and padded to a multiple of eight bytes, then one word
per number or pointer, and strings packed like the format string (Clang, CGGPUBuiltin; ROCm device libraries,
`__ockl_printf_append_*`). The compiler widens integers regardless of their sign and floats to double, so the length modifier
determines the type of a word. As on the GPU, `%n` and a null `%s` print an empty string.

With `-mprintf-kind=buffered` kernels write records to a buffer that the host reads after the launch. The buffer starts with two
32-bit words: bytes used and bytes available. A record is a control word, with the size of the record above two flags (to stderr;
constant format string), followed by 64-bit words: the hash of a constant format string or the string itself, then the arguments
as above. The metadata note lists the constant formats as `0:0:hash,text`. Source: ROCm device libraries (`printf_alloc.cl`),
ROCclr (`devhcprintf.cpp`, `rocprintf.cpp`).
"""

from __future__ import annotations

import ctypes
import re
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.build import Runtime

_CONVERSION = re.compile(
    rb"%(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d*))?"
    rb"(?P<length>hh|h|ll|l|q|j|z|t|L)?(?P<kind>[diouxXcsfFeEgGaApn%])"
)
_SIGNED, _FLOATS = b"di", b"fFeEgGaA"
_NARROW_BITS = {b"hh": 8, b"h": 16, b"": 32}
_WORD_BYTES = 8
_LONGEST_CONVERSION = 1 << 16
"""Longest text of one conversion in bytes; longer text is truncated."""
BUFFER_NAME = "printf buffer"
BUFFER_BYTES = 16 << 20
"""Messages beyond this size are dropped; printf in the kernel then returns -1."""
_HEADER_BYTES, _CONTROL_BYTES = 8, 4
_TO_STDERR, _IS_CONSTANT, _SIZE_SHIFT = 1, 2, 2
_CONSTANT_FORMAT = re.compile(r"0:0:([0-9a-fA-F]{1,16}),(.*)", re.DOTALL)


@dataclass(frozen=True)
class PrintfConversion:
    """One `%` specification; `width` and `precision` are None if absent and -1 if an argument supplies them."""

    flags: bytes
    width: int | None
    precision: int | None
    length: bytes
    kind: bytes


@lru_cache(maxsize=256)
def parse_format(text: bytes) -> tuple[bytes | PrintfConversion, ...]:
    """Split a format string into literal text and conversions; other `%` signs are text."""
    parts: list[bytes | PrintfConversion] = []
    end = 0
    for match in _CONVERSION.finditer(text):
        parts.append(text[end : match.start()])
        end = match.end()
        if match["kind"] == b"%":
            parts.append(b"%")
            continue
        width, precision = (_amount(match[group]) for group in ("width", "precision"))
        parts.append(PrintfConversion(match["flags"], width, precision, match["length"] or b"", match["kind"]))
    parts.append(text[end:])
    return tuple(part for part in parts if part)


def _amount(text: bytes | None) -> int | None:
    return None if text is None else -1 if text == b"*" else int(text or b"0")


class PrintfFormatter:
    """Formatter of messages, based on the C library of the runtime."""

    def __init__(self, runtime: Runtime) -> None:
        library = runtime.library
        self._integer, self._float, self._pointer = (
            library.rpl_print_integer,
            library.rpl_print_float,
            library.rpl_print_pointer,
        )
        self._text = ctypes.create_string_buffer(_LONGEST_CONVERSION)

    def message(self, words: Sequence[int]) -> bytes:
        """Return the text of a message, truncated at the first conversion without an argument."""
        arguments = PrintfArguments(words)
        return self.formatted(arguments.string(), arguments)

    def formatted(self, text: bytes, arguments: PrintfArguments) -> bytes:
        """Return `text` with its conversions replaced."""
        printed = []
        for part in parse_format(text):
            if isinstance(part, bytes):
                printed.append(part)
                continue
            if arguments.are_used_up:
                break
            printed.append(self._converted(part, arguments))
        return b"".join(printed)

    def _converted(self, conversion: PrintfConversion, arguments: PrintfArguments) -> bytes:
        flags, width = conversion.flags, conversion.width
        if width == -1:
            width = _signed(arguments.word(), 32)
            flags, width = (flags + b"-", -width) if width < 0 else (flags, width)
        precision = conversion.precision
        if precision == -1:
            asked = _signed(arguments.word(), 32)
            precision = asked if asked >= 0 else None
        kind = conversion.kind
        size = b"%d" % min(width, _LONGEST_CONVERSION) if width else b""
        size += b".%d" % min(precision, _LONGEST_CONVERSION) if precision is not None else b""
        if kind == b"n":
            arguments.word()
            return b""
        if kind == b"s":
            string = arguments.string()
            return _padded(string if precision is None else string[:precision], flags, width)
        word = arguments.word()
        if kind == b"c":
            return _padded(bytes((word & 0xFF,)), flags, width)
        if kind == b"p":
            return self._print(self._pointer, b"%" + flags + size + kind, word)
        if kind in _FLOATS:
            return self._print(self._float, b"%" + flags + size + kind, word)
        bits = _NARROW_BITS.get(conversion.length, 64)
        value = _signed(word, bits) if kind in _SIGNED else word & (1 << bits) - 1
        return self._print(self._integer, b"%" + flags + size + b"ll" + kind, value & (1 << 64) - 1)

    def _print(self, function: Callable[..., int], specification: bytes, word: int) -> bytes:
        length = function(self._text, ctypes.c_uint64(_LONGEST_CONVERSION), specification, ctypes.c_uint64(word))
        return self._text.raw[: max(0, min(length, _LONGEST_CONVERSION - 1))]


class PrintfArguments:
    """Sequential reader of the words of a message; zero after its end."""

    def __init__(self, words: Sequence[int]) -> None:
        self._words = words
        self._next = 0

    @property
    def are_used_up(self) -> bool:
        """True after the last word."""
        return self._next >= len(self._words)

    def word(self) -> int:
        """Return the next word, unsigned."""
        if self.are_used_up:
            return 0
        self._next += 1
        return self._words[self._next - 1]

    def string(self) -> bytes:
        """Return the string packed in the next words."""
        packed = bytearray()
        while not self.are_used_up:
            packed += self.word().to_bytes(_WORD_BYTES, "little")
            if 0 in packed[-_WORD_BYTES:]:
                break
        return bytes(packed.partition(b"\0")[0])


@dataclass(frozen=True)
class BufferedMessage:
    """Output of one printf call of one work-item."""

    text: bytes
    to_stderr: bool


def constant_formats(entries: Sequence[str]) -> dict[int, bytes]:
    """Return the format strings of `amdhsa.printf` by hash, without those of OpenCL, which have no hash."""
    matches = filter(None, map(_CONSTANT_FORMAT.fullmatch, entries))
    return {int(match[1], 16): match[2].encode() for match in matches}


def clear_printf_buffer(content: NDArray[np.uint8]) -> None:
    """Mark the buffer as empty."""
    struct.pack_into("<II", content.data, 0, 0, len(content))


def buffered_messages(
    content: NDArray[np.uint8], formats: dict[int, bytes], formatter: PrintfFormatter
) -> Iterator[BufferedMessage]:
    """Return the messages of the records in order, up to the first damaged record."""
    (used,) = struct.unpack_from("<I", content.data, 0)
    position, end = _HEADER_BYTES, min(_HEADER_BYTES + used, len(content))
    while position + _CONTROL_BYTES <= end:
        (control,) = struct.unpack_from("<I", content.data, position)
        size = control >> _SIZE_SHIFT
        if size < _CONTROL_BYTES or position + size > end:
            return
        count = (size - _CONTROL_BYTES) // _WORD_BYTES
        words = struct.unpack_from(f"<{count}Q", content.data, position + _CONTROL_BYTES)
        position += size
        if control & _IS_CONSTANT:
            text = formatter.formatted(formats.get(words[0], b""), PrintfArguments(words[1:])) if words else b""
        else:
            text = formatter.message(words)
        yield BufferedMessage(text, bool(control & _TO_STDERR))


def _signed(word: int, bits: int) -> int:
    value = word & (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def _padded(text: bytes, flags: bytes, width: int | None) -> bytes:
    size = min(width or 0, _LONGEST_CONVERSION)
    return text.ljust(size) if b"-" in flags else text.rjust(size)
