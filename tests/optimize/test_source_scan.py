"""Tokens and directives as a preprocessor sees them."""

from __future__ import annotations

import pytest

from rocm_perf_lab.optimize.source_scan import scan_source


@pytest.mark.parametrize(
    ("text", "directives"),
    [
        (b"#include <a//b>\n", ["#include <a//b>"]),
        (b'\xef\xbb\xbf%:inc\\\r\nlude /* x */ "a/*b"\r\n', ['#include "a/*b"']),
        (b"/* one\n two */ # /* three\n */ define A(x) \\\n x##y // end\n", ["#define A ( x ) x ## y"]),
        (b"int a; /*\n#pragma once\n*/ # define B\n", []),
        (b'auto t = R"d(\n#include "q"\\\n)d"; \n#undef C\n', ["#undef C"]),
        (b'auto t = "\\\n#define D";\n', []),
        (b"auto n = 1'000; auto c = '\"';\n#define E '\n#define F\n", ["#define E '", "#define F"]),
        (b'#\n# 1 "x"\n', ["#", '#1 "x"']),
        (b"a \\  \n#b\n", []),
    ],
)
def test_directives(text: bytes, directives: list[str]) -> None:
    assert [directive.text for directive in scan_source(text).directives] == directives


def test_lines_are_those_of_the_file() -> None:
    scanned = scan_source(b'a \\\n b\nR"(\n\n)" c\n#define d\n')

    assert [(token.text, token.line) for token in scanned.tokens if token.kind == "word"] == [("a", 1), ("b", 2), ("c", 5)]
    assert [directive.line for directive in scanned.directives] == [6]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"int a; /* no end", "an unterminated comment (line 1)"),
        (b'auto r = R"x(\n)";', "an unterminated raw string (line 1)"),
        (b"??=include <x>\n", "a trigraph (line 1)"),
        (b"// a ??/\nb\n", "a comment that may continue on the next line (line 1)"),
        (b"int \\u0061;\n", "a backslash outside of strings"),
        (b"int a;\n// \xe2\x80\xae\n", "the control character U+202E (line 2)"),
        (b'#define A R"(\n)"\n', "a raw string in a directive (line 1)"),
        (b"\xff\n", "bytes that are not UTF-8"),
        (b"\xc2\xa0#include <x>\n", "the character U+00A0 outside of strings (line 1)"),
        (b"#\xe3\x80\x80include <x>\n", "the character U+3000 outside of strings (line 1)"),
        (b"#warning /*\n#include <x>\n// */\n", "a comment in a directive that compilers may end at the line's end (line 3)"),
        (b"#pragma mark /*\n#include <x>\n// */\n", "a comment in a directive that compilers may end at the line's end (line 3)"),
    ],
)
def test_texts_that_compilers_may_read_differently_are_reported(text: bytes, problem: str) -> None:
    assert problem in scan_source(text).problems


def test_usual_sources_have_no_problems() -> None:
    text = b'// why??)\nauto s = "??/ \\n"; int b = a ? x : y; // \xc2\xb5s\nfloat \xcf\x83 = 1.0e-5f;\n'
    text += b"// no\xc2\xa0break\n#define A 1 /* one\n two */\n#include <x> /* three\n four */\n# /* five\n six */ undef A\n"

    assert scan_source(text).problems == ()
