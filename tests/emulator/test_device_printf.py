"""Text of printf in kernels, with the semantics of C."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocm_perf_lab.emulator.build import load_runtime
from rocm_perf_lab.emulator.device_printf import PrintfArguments, PrintfConversion, PrintfFormatter, parse_format


def packed(text: bytes) -> list[int]:
    """Return a string in the format of the device libraries: NUL-terminated and padded to words."""
    padded = text + b"\0" * (8 - len(text) % 8)
    return list(struct.unpack(f"<{len(padded) // 8}Q", padded))


def words_of(*values: float | bytes) -> list[int]:
    """Return arguments as passed by compilers: integers widened with zeros, floats as double."""
    words: list[int] = []
    for value in values:
        if isinstance(value, bytes):
            words += packed(value)
        else:
            words.append(struct.unpack("<Q", struct.pack("<d", value))[0] if isinstance(value, float) else value)
    return words


def printed(text: bytes, *values: float | bytes) -> bytes:
    return PrintfFormatter(load_runtime()).message([*packed(text), *words_of(*values)])


MINUS_1 = 0xFFFF_FFFF
"""An `int` of -1, widened with zeros."""


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        (b"plain\n", (), b"plain\n"),
        (b"100%%\n", (), b"100%\n"),
        (b"%d", (42,), b"42"),
        (b"%d", (MINUS_1,), b"-1"),
        (b"%u", (MINUS_1,), b"4294967295"),
        (b"%i|%5d|%-5d|%05d|%+d|% d", (7, 7, 7, 7, 7, 7), b"7|    7|7    |00007|+7| 7"),
        (b"%hhd %hd %hhu", (0x1FF, 0x18000, 0x1FF), b"-1 -32768 255"),
        (b"%ld %lld %zu %jd %td", (2**64 - 1,) * 5, b"-1 -1 18446744073709551615 -1 -1"),
        (b"%x %X %#x %o %#o", (255, 255, 255, 8, 8), b"ff FF 0xff 10 010"),
        (b"%lx", (2**63,), b"8000000000000000"),
        (b"%.3d|%8.3d|%-8.3d|", (5, 5, 5), b"005|     005|005     |"),
        (b"%f %.2f %8.3f|%-8.1f|%e", (1.5, 2.345, 3.14159, 2.5, 12345.678), b"1.500000 2.35    3.142|2.5     |1.234568e+04"),
        (b"%g %G %a", (1e-10, 1e20, 1.0), b"1e-10 1E+20 0x1p+0"),
        (b"%f %f %5.1f", (float("inf"), float("-inf"), float("nan")), b"inf -inf   nan"),
        (b"%Lf", (0.5,), b"0.500000"),
        (b"%c%c%3c|%-3c|", (72, 105, 33, 33), b"Hi  !|!  |"),
        (b"%s, %s!", (b"hello", b"a string of more than eight bytes"), b"hello, a string of more than eight bytes!"),
        (b"%.2s|%6.2s|%-6s|%6s", (b"abc", b"abc", b"abc", b"abc"), b"ab|    ab|abc   |   abc"),
        (b"[%s] %d", (b"", 3), b"[] 3"),
        (b"%*d|%-*d|%*d", (5, 1, 5, 1, MINUS_1 - 4, 1), b"    1|1    |1    "),
        (b"%.*f %.*s|%.*f", (1, 2.25, 2, b"abcd", MINUS_1, 0.5), b"2.2 ab|0.500000"),
        (b"%p", (0xDEADBEEF,), b"0xdeadbeef"),
        (b"a%nb %d", (1, 2), b"ab 2"),
        (b"100% of it", (), b"100"),  # "% o" is a conversion without an argument
        (b"%q %y", (), b"%q %y"),
        (b"50%", (), b"50%"),
        (b"", (), b""),
    ],
)  # fmt: skip
def test_a_message_equals_the_output_of_c(text: bytes, values: tuple[int | float | bytes, ...], expected: bytes) -> None:
    assert printed(text, *values) == expected


def test_a_message_ends_with_its_arguments() -> None:
    assert printed(b"%d and %d and more", 1) == b"1 and "


def test_an_excessive_width_is_truncated() -> None:
    assert len(printed(b"%999999999d", 1)) < 1 << 17


def test_a_format_is_parsed_into_text_and_conversions() -> None:
    assert parse_format(b"x = %-8.3lld%%") == (b"x = ", PrintfConversion(b"-", 8, 3, b"ll", b"d"), b"%")


@given(st.binary(max_size=60), st.lists(st.integers(0, 2**64 - 1), max_size=8))
def test_no_format_and_no_arguments_break_it(text: bytes, words: list[int]) -> None:
    formatter = PrintfFormatter(load_runtime())

    assert isinstance(formatter.formatted(text, PrintfArguments(words)), bytes)


@given(st.lists(st.binary(max_size=30).map(lambda text: text.replace(b"\0", b"")), max_size=5))
def test_strings_come_back_from_their_words(strings: list[bytes]) -> None:
    arguments = PrintfArguments(words_of(*strings))

    assert [arguments.string() for _ in strings] == strings
    assert arguments.are_used_up
