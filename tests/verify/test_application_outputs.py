"""Comparison of an application's outputs with those of two unmodified runs."""

from __future__ import annotations

import struct
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from rocm_perf_lab.verify import application_outputs
from rocm_perf_lab.verify.application_outputs import ApplicationError, ApplicationVerifier, RunOutputs
from tests.builders.processes import ends

VERIFIER = ApplicationVerifier((), None, 10)


def outputs(printed: bytes) -> RunOutputs:
    return RunOutputs({"standard output": printed})


def passes(first: bytes, second: bytes, new: bytes) -> bool:
    return VERIFIER.verify(outputs(first), outputs(second), outputs(new)).passed


def int32(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}i", *values)


@pytest.mark.parametrize(
    ("new", "passed"),
    [
        (b"took 3 s\nsum 5\n", True),
        (b"took 1 s\nsum 6\n", False),
        (b"took 1 s\n", False),
        (b"took 1 s\nsum 5\nmore\n", False),
        (b"took 1 s\nsum 5", False),
        (b"took 1 s\r\nsum 5\r\n", False),
        (b"took 1 s\nsum  5\n", False),
        (b"took \xff s\nsum 5\n", True),
        (b"took 1 s\nsum \xff\n", False),
        (b"took 1 s\nsum \x005\n", False),
        (b"", False),
    ],
)
def test_only_lines_that_vary_between_unmodified_runs_may_differ(new: bytes, passed: bool) -> None:
    assert passes(b"took 1 s\nsum 5\n", b"took 2 s\nsum 5\n", new) is passed


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"1 2\n", b"12\n"),
        (b"1 2\n", b"1  2\n"),
        (b"1\n\n2\n", b"1\n \n2\n"),
        (b"1\r\n2\r\n", b"1\n2\n"),
        (b"1\n2\n", b"1\n2"),
        (b"12\n", b"1\n2"),
        (b"", b"x"),
        (b"x", b""),
    ],
)
def test_white_space_and_line_ends_count(old: bytes, new: bytes) -> None:
    assert passes(old, old, old)
    assert not passes(old, old, new)


@pytest.mark.parametrize("byte", [9, 10, 11, 12, 13, 32, 0, 255])
def test_every_byte_of_binary_output_counts(byte: int) -> None:
    expected = int32(byte, 9, 10, 1000)

    assert passes(expected, expected, expected)
    for position in range(len(expected)):
        wrong = bytearray(expected)
        wrong[position] ^= 1
        assert not passes(expected, expected, bytes(wrong))
    assert not passes(expected, expected, int32(99, 200, 77, 1000))


def test_bytes_that_vary_between_unmodified_runs_may_differ() -> None:
    first, second = b"\xff\x00\x01", b"\xff\x07\x01"

    assert passes(first, second, b"\xff\x63\x01")
    assert not passes(first, second, b"\xff\x00\x02")
    assert not passes(first, second, b"\xff\x00\x01\x00")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (b"\xffbc\nde\n", b"abc\nde\n"),  # only the second is UTF-8
        (b"abc\nde\n", b"\xffbc\nde\n"),
        (b"abc\nde\n", b"\x00bc\nde\n"),
        (b"caf\xe9 1\nde\n", b"caf\xe9 2\nde\n"),  # Latin-1
    ],
)
def test_the_unmodified_runs_decide_that_content_is_binary(first: bytes, second: bytes) -> None:
    """As lines, the whole first line would be ignored; as bytes, only those that vary are."""
    varying = next(i for i in range(len(first)) if first[i] != second[i])
    allowed, wrong = bytearray(first), bytearray(first)
    allowed[varying] = ord("z")
    wrong[2] = ord("z")

    assert passes(first, second, bytes(allowed))
    assert not passes(first, second, bytes(wrong))


def test_an_output_of_varying_length_is_reported_as_not_compared() -> None:
    (check,) = VERIFIER.verify(outputs(b"\x00"), outputs(b"\x00\x01"), outputs(b"\x07")).checks

    assert (check.passed, check.elements) == (True, 0)
    assert "not compared: the number of bytes differs" in check.name


def test_the_first_difference_is_reported_with_its_position() -> None:
    (lines,) = VERIFIER.verify(outputs(b"a\nb\n"), outputs(b"a\nb\n"), outputs(b"a\nc\n")).checks
    (binary,) = VERIFIER.verify(outputs(b"\x00\x01"), outputs(b"\x00\x01"), outputs(b"\x00\x02")).checks

    assert (lines.name, lines.mismatches, lines.worst_index) == ("standard output (b'c\\n' instead of b'b\\n')", 1, (1,))
    assert (binary.name, binary.worst_index) == ("standard output (b'\\x02' instead of b'\\x01')", (1,))


@pytest.mark.parametrize("place", [0, 3 << 20, (16 << 20) - 1])
def test_large_binary_output_is_compared_quickly_and_without_copies(place: int) -> None:
    first = np.random.default_rng(1).integers(0, 256, 16 << 20, np.uint8)
    second, new = first.copy(), first.copy()
    second[5] ^= 1
    new[place] ^= 1
    contents = [RunOutputs({"out": array.tobytes()}) for array in (first, second, new)]

    tracemalloc.start()
    began = time.process_time()
    (check,) = VERIFIER.verify(*contents).checks
    seconds = time.process_time() - began
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert (check.passed, check.mismatches, check.worst_index) == (False, 1, (place,))
    assert seconds < 2  # 0.1 s on an idle machine; ten for one byte after the other
    assert peak < len(first)


@pytest.mark.parametrize(
    ("first", "second"), [(b"", b""), (b"1\n", b"2\n"), (b"a\n", b"a\nb\n"), (b"\n\n", b"\n\n"), (b"\0", b"\1")]
)
def test_an_output_without_comparable_content_is_refused(first: bytes, second: bytes) -> None:
    with pytest.raises(ApplicationError, match="no output that can be compared"):
        VERIFIER.require_comparable_output(outputs(first), outputs(second))


def test_a_verification_command_replaces_the_comparison(tmp_path: Path) -> None:
    binary = tmp_path / "app"
    binary.write_text("good")
    check = f"{sys.executable} -c \"import sys; sys.exit(open(sys.argv[1]).read() != 'good')\" {{binary}}"
    verifier = ApplicationVerifier((), check, 10)

    assert verifier.verify(outputs(b""), outputs(b""), verifier.run(["true"], binary)).passed
    binary.write_text("bad")
    with pytest.raises(ApplicationError, match="the command of --verify failed with exit code 1"):
        verifier.run(["true"], binary)


def test_files_of_an_earlier_run_are_removed_before_the_run(tmp_path: Path) -> None:
    stale = tmp_path / "out.bin"
    stale.write_text("old")

    with pytest.raises(ApplicationError, match="did not write"):
        ApplicationVerifier((stale,), None, 10).run(["true"], tmp_path)


def test_a_rewrite_that_hangs_is_stopped_long_before_the_limit_of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application_outputs, "_LEAST_LIMIT_S", 0.2)
    verifier = ApplicationVerifier((), None, 600)
    unmodified = RunOutputs({"standard output": b""}, seconds=0.01)

    with pytest.raises(ApplicationError, match=r"took more than 0\.2 s"):
        verifier.run(["sleep", "5"], Path("sleep"), (unmodified, unmodified))


def test_processes_of_an_application_that_hangs_are_ended(tmp_path: Path) -> None:
    child = tmp_path / "child"
    command = ["sh", "-c", f"sleep 600 & echo $! > '{child}'; wait"]  # the background process keeps standard output open
    started = time.monotonic()

    with pytest.raises(ApplicationError, match=r"took more than 2 s"):
        ApplicationVerifier((), None, 2).run(command, tmp_path)

    assert time.monotonic() - started < 300
    assert ends(int(child.read_text()))


def test_a_crash_is_reported_with_its_signal(tmp_path: Path) -> None:
    verifier = ApplicationVerifier((), None, 60.0)

    with pytest.raises(ApplicationError, match=r"the application was terminated by signal 11, SIGSEGV"):
        verifier.run(["sh", "-c", "kill -SEGV $$"], tmp_path / "app")
