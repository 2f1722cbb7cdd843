"""`rocm-perf profile ./app`: the path of every GPU user, against a stand-in rocprofv3 that answers with emulated dispatches."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.builders.processes import ends

if TYPE_CHECKING:
    from pathlib import Path

    from tests.builders.workplace import Workplace

TWO_KERNELS = """
launch("vector_add", n=4096)
launch("softmax", rows=8)
launch("vector_add", n=4096)
"""
UNTRACKED = ("--no-roofline", "--output", "run")


def document(directory: Path, name: str = "profile") -> Any:
    return json.loads((directory / "run" / f"{name}.json").read_text())


@pytest.mark.slow
def test_the_longest_kernel_is_profiled_with_its_counters_and_all_are_ranked(workplace: Workplace) -> None:
    workplace.application(TWO_KERNELS)

    answer = workplace.rocm_perf("profile", "./app", "--output", "run")

    assert answer.exit_code == 0, answer.output
    profile = document(workplace.directory)
    assert profile["kernel"]["mangled_name"] == "softmax_kernel"
    assert [(k["name"].partition("(")[0], k["calls"]) for k in profile["kernels"]] == [("softmax_kernel", 1), ("vector_add", 2)]
    assert profile["roofline"] is not None
    assert profile["provenance"]["time_kind"] == "emulated"
    assert {path.name for path in (workplace.directory / "run").glob("*.json")} >= {
        "profile.json", "roofline.json", "dag.json", "analysis.json",
    }  # fmt: skip


@pytest.mark.slow
def test_counters_come_from_as_few_runs_as_the_blocks_allow_and_times_from_a_run_without(workplace: Workplace) -> None:
    workplace.application('open("ran", "a").write("x"); launch("softmax", rows=8)')

    workplace.rocm_perf("profile", "./app", "--output", "run")

    passes = sorted(path.name for path in (workplace.directory / "run" / ".rocpd_profile").iterdir() if path.is_dir())
    assert passes[-1] == "trace"
    assert (workplace.directory / "ran").read_text() == "x" * len(passes)
    assert len(document(workplace.directory)["counters"]) == len(passes) - 1


@pytest.mark.slow
def test_kernel_replay_collects_all_counters_in_one_run(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_VERSION", "1.4.1")
    workplace.application('open("ran", "a").write("x"); launch("softmax", rows=8)')

    workplace.rocm_perf("profile", "./app", "--output", "run")

    assert (workplace.directory / "ran").read_text() == "xx"
    replayed = document(workplace.directory)
    assert replayed["roofline"] is not None
    monkeypatch.setenv("STAND_IN_VERSION", "1.1.0")
    workplace.rocm_perf("profile", "./app", "--output", "run")
    assert replayed["counters"] == document(workplace.directory)["counters"]


@pytest.mark.slow
def test_if_kernel_replay_fails_the_application_is_run_once_per_pass(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_VERSION", "1.4.1")
    monkeypatch.setenv("STAND_IN_FAULT", "replay")
    workplace.application('launch("softmax", rows=8)')

    workplace.rocm_perf("profile", "./app", "--output", "run")

    profile = document(workplace.directory)
    assert profile["roofline"] is not None
    assert any("kernel replay failed" in note for note in profile["notes"])


def test_failed_counter_passes_are_reported_as_the_reason_for_a_missing_roofline(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_FAULT", "counters")
    workplace.application('launch("softmax", rows=8)')

    answer = workplace.rocm_perf("profile", "./app", "--output", "run")

    assert answer.exit_code == 0
    profile = document(workplace.directory)
    assert profile["roofline"] is None
    assert profile["roofline_reason"]
    assert any("this user is not allowed to read counters" in note for note in profile["notes"])
    assert profile["runtime_ms"] > 0


def test_arguments_and_environment_are_passed_on_unchanged(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SETTING", "two words; $HOME")
    workplace.application(
        'import json; json.dump([sys.argv[1:], os.environ["MY_SETTING"], os.environ["HOME"]], open("seen.json", "w"));'
        'launch("vector_add", n=4096)'
    )
    words = ["--size", "a b", "it's", 'say "no"', "${x}", "back\\slash", "--json"]

    answer = workplace.rocm_perf("profile", *UNTRACKED, "--", "./app", *words)

    assert answer.exit_code == 0, answer.output
    assert json.loads((workplace.directory / "seen.json").read_text()) == [words, "two words; $HOME", os.environ["HOME"]]


def test_json_prints_only_the_profile(workplace: Workplace) -> None:
    workplace.application('print("chatter"); launch("vector_add", n=4096)')

    answer = workplace.rocm_perf("profile", "./app", "--json", *UNTRACKED)

    assert json.loads(answer.stdout) == document(workplace.directory)


def test_quiet_prints_only_the_runtime_with_its_kind(workplace: Workplace) -> None:
    workplace.application('launch("vector_add", n=4096)')

    answer = workplace.rocm_perf("profile", "./app", "--quiet", *UNTRACKED)

    assert answer.stdout == f"{document(workplace.directory)['runtime_ms']:.6f} ms emulated\n"


def test_runs_repeats_the_timed_pass(workplace: Workplace) -> None:
    workplace.application('launch("vector_add", n=4096); launch("vector_add", n=4096)')

    workplace.rocm_perf("profile", "./app", "--runs", "3", *UNTRACKED)

    assert document(workplace.directory)["stability"]["runs"] == 6


def test_a_kernel_is_chosen_by_a_regular_expression(workplace: Workplace) -> None:
    workplace.application(TWO_KERNELS)

    workplace.rocm_perf("profile", "./app", "--kernel", "^vector", *UNTRACKED)

    assert document(workplace.directory)["kernel"]["name"].startswith("vector_add")


def test_focus_critical_selects_the_largest_share_of_the_critical_path(workplace: Workplace) -> None:
    workplace.application('launch("softmax", rows=8)\nfor _ in range(9): launch("vector_add", n=65536)')

    workplace.rocm_perf("profile", "./app", "--focus-critical", *UNTRACKED)

    assert document(workplace.directory)["kernel"]["name"].startswith("vector_add")


def test_deep_analysis_records_a_thread_trace_of_that_kernel(workplace: Workplace) -> None:
    workplace.application(TWO_KERNELS)

    answer = workplace.rocm_perf("profile", "./app", "--deep-analysis", *UNTRACKED)

    assert answer.exit_code == 0, answer.output
    assert document(workplace.directory, "analysis")["att"] is not None


def test_a_missing_trace_decoder_prevents_the_thread_trace_only(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_DECODER", "missing")
    workplace.application('launch("vector_add", n=4096)')

    answer = workplace.rocm_perf("profile", "./app", "--deep-analysis", *UNTRACKED)

    assert answer.exit_code == 0
    assert document(workplace.directory, "analysis")["att"] is None
    assert any("rocprof-trace-decoder" in note for note in document(workplace.directory)["notes"])


def test_an_older_database_is_never_read(workplace: Workplace) -> None:
    workplace.application('launch("vector_add", n=4096)')
    workplace.rocm_perf("profile", "./app", *UNTRACKED)
    workplace.application('launch("softmax", rows=8)')

    workplace.rocm_perf("profile", "./app", *UNTRACKED)

    assert [k["name"] for k in document(workplace.directory)["kernels"]] == ["softmax_kernel"]


def test_without_rocprof_only_the_wall_clock_time_is_measured(workplace: Workplace) -> None:
    workplace.application("pass")

    answer = workplace.rocm_perf("profile", "./app", "--no-rocprof", "--runs", "2", "--json", "--output", "run")

    assert json.loads(answer.stdout)["wall_ms"]["runs"] == 2
    assert "no kernel was profiled" in json.loads(answer.stdout)["note"]


def test_varying_wall_times_are_unstable(workplace: Workplace) -> None:
    workplace.application('import time; time.sleep(3 * os.path.exists("ran")); open("ran", "w")')

    answer = workplace.rocm_perf("profile", "./app", "--no-rocprof", "--runs", "2", "--output", "run")

    document = json.loads((workplace.directory / "run" / "wall_time.json").read_text())
    assert document["runtime_ms"] == document["wall_ms"]["median"]
    assert (document["stability"]["runs"], document["stability"]["classification"]) == (2, "unstable")
    assert "unstable" in answer.stdout


# ---- bad input ----


def refused(workplace: Workplace, *words: str, says: str) -> str:
    answer = workplace.rocm_perf("profile", *words)

    assert answer.exit_code == 2, answer.output
    assert says in answer.stderr
    assert "Traceback" not in answer.output
    assert not list(workplace.directory.rglob("profile.json"))
    return answer.stderr


def test_a_command_that_does_not_exist(workplace: Workplace) -> None:
    refused(workplace, "./nothing", *UNTRACKED, says="./nothing")


def test_a_command_that_fails_shows_its_error_output(workplace: Workplace) -> None:
    workplace.application('print("out of cheese", file=sys.stderr); sys.exit(3)')

    error = refused(workplace, "./app", *UNTRACKED, says="ended with exit code 3")

    assert "out of cheese" in error


def test_a_command_that_hangs_is_terminated_with_its_children(workplace: Workplace) -> None:
    workplace.application(
        'import subprocess; child = subprocess.Popen(["sleep", "300"]); open("child", "w").write(str(child.pid)); child.wait()'
    )
    start = time.monotonic()

    refused(workplace, "./app", "--timeout", "8", *UNTRACKED, says="took more than 8 s")

    assert time.monotonic() - start < 200
    child = int((workplace.directory / "child").read_text())
    assert ends(child)


def test_endless_output_is_bounded_in_memory_and_on_disk(workplace: Workplace) -> None:
    workplace.application('[sys.stdout.write("x" * 1_000_000) for _ in range(100)]; launch("vector_add", n=4096)')

    answer = workplace.rocm_perf("profile", "./app", *UNTRACKED)

    assert answer.exit_code == 0, answer.output
    (log,) = (workplace.directory / "run" / ".rocpd_profile").glob("trace.log")
    assert log.stat().st_size < 20 << 20
    assert "more bytes were not kept" in log.read_text(errors="replace")


def test_a_command_that_launches_nothing(workplace: Workplace) -> None:
    workplace.application("pass")

    refused(workplace, "./app", *UNTRACKED, says="dispatched no kernel")


def test_no_rocprofv3(workplace: Workplace) -> None:
    (workplace.directory / "bin" / "rocprofv3").unlink()

    refused(workplace, "./app", "device=rocm", *UNTRACKED, says="rocprofv3 is not on PATH")


def test_a_pattern_without_a_match_lists_the_kernels(workplace: Workplace) -> None:
    workplace.application('launch("vector_add", n=4096)')

    error = refused(workplace, "./app", "--kernel", "gemm", *UNTRACKED, says="no kernel matches 'gemm'")

    assert "vector_add" in error


def test_an_invalid_pattern(workplace: Workplace) -> None:
    workplace.application('launch("vector_add", n=4096)')

    refused(workplace, "./app", "--kernel", "(", *UNTRACKED, says="invalid regular expression")


def test_options_that_exclude_each_other(workplace: Workplace) -> None:
    refused(workplace, "./app", "--json", "--quiet", says="exclude each other")


def test_options_for_applications_only(workplace: Workplace) -> None:
    refused(workplace, "kernel=softmax", "--focus-critical", says="--focus-critical applies to applications")
