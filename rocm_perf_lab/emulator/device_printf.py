"""What a kernel's printf says: format string and arguments as 64-bit words, to text with the semantics of C.

Words are those of a message of HIP's printf service: the format string, NUL-terminated and padded to a multiple of eight
bytes, then one word per number or pointer, and strings packed like the format string (Clang, CGGPUBuiltin; ROCm device
libraries, `__ockl_printf_append_*`). The compiler widens integers without regard to their sign and floats to double, so
the length modifier says what a word holds. As on the GPU, `%n` prints nothing and a null `%s` prints nothing.
"""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocm_perf_lab.emulator.build import Runtime

_CONVERSION = re.compile(
    rb"%(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d*))?"
    rb"(?P<length>hh|h|ll|l|q|j|z|t|L)?(?P<kind>[diouxXcsfFeEgGaApn%])"
)
_SIGNED, _FLOATS = b"di", b"fFeEgGaA"
_NARROW_BITS = {b"hh": 8, b"h": 16, b"": 32}
_WORD_BYTES = 8
_LONGEST_CONVERSION = 1 << 16
"""Bytes; a longer one, asked for by a width of that size, is cut."""


@dataclass(frozen=True)
class Conversion:
    """One `%` specification; `width` and `precision` are None where there is none, -1 where an argument says it."""

    flags: bytes
    width: int | None
    precision: int | None
    length: bytes
    kind: bytes


@lru_cache(maxsize=256)
def parse_format(text: bytes) -> tuple[bytes | Conversion, ...]:
    """Literal text and conversions, in order; `%` signs that begin no conversion are text."""
    parts: list[bytes | Conversion] = []
    end = 0
    for match in _CONVERSION.finditer(text):
        parts.append(text[end : match.start()])
        end = match.end()
        if match["kind"] == b"%":
            parts.append(b"%")
            continue
        width, precision = (_amount(match[group]) for group in ("width", "precision"))
        parts.append(Conversion(match["flags"], width, precision, match["length"] or b"", match["kind"]))
    parts.append(text[end:])
    return tuple(part for part in parts if part)


def _amount(text: bytes | None) -> int | None:
    return None if text is None else -1 if text == b"*" else int(text or b"0")


class Formatter:
    """Formats messages with the C library that the emulator's runtime was built with."""

    def __init__(self, runtime: Runtime) -> None:
        library = runtime.library
        self._integer, self._float, self._pointer = (
            library.rpl_print_integer,
            library.rpl_print_float,
            library.rpl_print_pointer,
        )
        self._text = ctypes.create_string_buffer(_LONGEST_CONVERSION)

    def message(self, words: Sequence[int]) -> bytes:
        """The text of a message: its format string applied to its arguments; it ends where the arguments do."""
        arguments = Arguments(words)
        return self.formatted(arguments.string(), arguments)

    def formatted(self, text: bytes, arguments: Arguments) -> bytes:
        """`text` with its conversions replaced."""
        printed = []
        for part in parse_format(text):
            if isinstance(part, bytes):
                printed.append(part)
                continue
            if arguments.are_used_up:
                break
            printed.append(self._converted(part, arguments))
        return b"".join(printed)

    def _converted(self, conversion: Conversion, arguments: Arguments) -> bytes:
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


class Arguments:
    """The words of a message, taken one after the other; zero where there are no more."""

    def __init__(self, words: Sequence[int]) -> None:
        self._words = words
        self._next = 0

    @property
    def are_used_up(self) -> bool:
        """Whether all words were taken."""
        return self._next >= len(self._words)

    def word(self) -> int:
        """The next word, unsigned."""
        if self.are_used_up:
            return 0
        self._next += 1
        return self._words[self._next - 1]

    def string(self) -> bytes:
        """The string that is packed into the next words."""
        packed = bytearray()
        while not self.are_used_up:
            packed += self.word().to_bytes(_WORD_BYTES, "little")
            if 0 in packed[-_WORD_BYTES:]:
                break
        return bytes(packed.partition(b"\0")[0])


def _signed(word: int, bits: int) -> int:
    value = word & (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def _padded(text: bytes, flags: bytes, width: int | None) -> bytes:
    size = min(width or 0, _LONGEST_CONVERSION)
    return text.ljust(size) if b"-" in flags else text.rjust(size)
