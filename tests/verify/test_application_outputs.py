"""What of an application's output has to stay the same."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.jobs.optimize.application_bench import ApplicationSource
from rocm_perf_lab.verify.application_outputs import ApplicationError, OutputJudge, Outputs

if TYPE_CHECKING:
    from pathlib import Path


def outputs(printed: bytes) -> Outputs:
    return Outputs({"standard output": printed})


JUDGE = OutputJudge((), None, 10)


@pytest.mark.parametrize(
    ("new", "passed"),
    [
        (b"took 3 s\nsum 5\n", True),
        (b"took 1 s\nsum 6\n", False),
        (b"took 1 s\n", False),
        (b"took 1 s\nsum 5\nmore\n", False),
    ],
)
def test_lines_that_differ_between_two_runs_may_differ_and_no_other(new: bytes, passed: bool) -> None:
    result = JUDGE.judge(outputs(b"took 1 s\nsum 5\n"), outputs(b"took 2 s\nsum 5\n"), outputs(new))

    assert result.passed is passed


def test_of_binary_files_each_byte_counts() -> None:
    first, second = outputs(b"\xff\x00\x01"), outputs(b"\xff\x07\x01")

    assert JUDGE.judge(first, second, outputs(b"\xff\x63\x01")).passed
    assert not JUDGE.judge(first, second, outputs(b"\xff\x00\x02")).passed


@pytest.mark.parametrize(("first", "second"), [(b"", b""), (b"1\n", b"2\n"), (b"a\n", b"a\nb\n"), (b"\n\n", b"\n\n")])
def test_an_output_that_says_nothing_is_refused(first: bytes, second: bytes) -> None:
    with pytest.raises(ApplicationError, match="says nothing of its results"):
        JUDGE.require_something_to_compare(outputs(first), outputs(second))


def test_a_check_of_the_users_own_decides(tmp_path: Path) -> None:
    binary = tmp_path / "app"
    binary.write_text("good")
    check = f"{sys.executable} -c \"import sys; sys.exit(open(sys.argv[1]).read() != 'good')\" {{binary}}"
    judge = OutputJudge((), check, 10)

    assert judge.judge(outputs(b""), outputs(b""), judge.run(["true"], binary)).passed
    binary.write_text("bad")
    with pytest.raises(ApplicationError, match="the check of --verify ended with exit code 1"):
        judge.run(["true"], binary)


def test_a_file_of_an_earlier_run_is_never_taken_for_new(tmp_path: Path) -> None:
    stale = tmp_path / "out.bin"
    stale.write_text("old")

    with pytest.raises(ApplicationError, match="did not write"):
        OutputJudge((stale,), None, 10).run(["true"], tmp_path)


def test_macros_and_directories_of_the_build_reach_the_labs_compiler(tmp_path: Path) -> None:
    build = "hipcc -O3 -DN=4 -I inc -std=c++20 --offload-arch=gfx942 {source} -o {binary} -lm"

    application = ApplicationSource(tmp_path / "k.hip", build, ("./app", "--size", "4"))

    assert application.device_flags() == ("-O3", "-DN=4", "-I", "inc", "-std=c++20")
    assert application.words_of_run(tmp_path / "new") == [str(tmp_path / "new"), "--size", "4"]
    assert ApplicationSource(tmp_path, build, ("python", "run.py", "{binary}")).words_of_run(tmp_path / "b") == [
        "python", "run.py", str(tmp_path / "b")
    ]  # fmt: skip
