"""Odd runs as a user meets them: `rocm-perf analyze` on databases of hand-made dispatches."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocm_perf_lab.rocprof.schema import make_guid, suffix_of
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
from tests.builders.profiles import VEC_COPY_NS, vec_copy_counters
from tests.builders.rocpd import GUID, REDUCE, VEC_COPY, dispatch, recorded_run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from click.testing import Result

    from rocm_perf_lab.rocprof.recording import DispatchRecord, KernelSymbolRecord
    from tests.builders.workplace import Workplace

END = 1000 + VEC_COPY_NS


def recorded(directory: Path, *dispatches: DispatchRecord, kernels: tuple[KernelSymbolRecord, ...] = (VEC_COPY, REDUCE)) -> Path:
    path = directory / "x.db"
    write_database(path, recorded_run(load_target("mi300x"), dispatches, emulated=False, kernels=kernels))
    return path


def changed(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement.format(suffix=suffix_of(GUID)))


def analysed(place: Workplace, *words: str) -> tuple[Result, dict[str, Any]]:
    answer = place.rocm_perf("analyze", "x.db", "--output", "out", *words)
    assert answer.exit_code == 0, answer.output
    return answer, json.loads((place.directory / "out" / "profile.json").read_text())


def refused(place: Workplace, *words: str) -> str:
    answer = place.rocm_perf("analyze", *words, "--output", "out")
    assert answer.exit_code == 2, answer.output
    assert answer.stderr.startswith("error: ")
    assert "Traceback" not in answer.output
    assert not list(place.directory.glob("out/*.json"))
    return answer.stderr


def test_only_helper_kernels(workplace: Workplace) -> None:
    helper = replace(VEC_COPY, mangled_name="__amd_rocclr_fillBufferAligned", display_name="__amd_rocclr_fillBufferAligned")
    recorded(workplace.directory, dispatch(1000, END), kernels=(helper,))

    _, profile = analysed(workplace)

    assert profile["kernel"]["name"] == "__amd_rocclr_fillBufferAligned"
    assert profile["kernels"][0]["helper"]
    assert "only runtime helper kernels were dispatched" in profile["notes"]


def test_dispatches_of_zero_duration(workplace: Workplace) -> None:
    recorded(workplace.directory, dispatch(1000, 1000, counters=vec_copy_counters()))

    answer, profile = analysed(workplace)

    assert profile["runtime_ms"] == 0
    assert profile["roofline"] is None
    assert profile["roofline_reason"]
    assert "1 dispatches have a duration of 0" in profile["notes"]
    assert "nan" not in answer.stdout.lower()


def test_a_clock_that_goes_backwards(workplace: Workplace) -> None:
    recorded(workplace.directory, dispatch(9000, 1000), dispatch(20_000, 21_000))

    _, profile = analysed(workplace)

    assert profile["runtime_ms"] == 0.001
    assert "1 dispatches end before they start and were ignored" in profile["notes"]


def test_a_clock_that_only_goes_backwards(workplace: Workplace) -> None:
    recorded(workplace.directory, dispatch(9000, 1000))

    assert "clocks of the trace are unreliable" in refused(workplace, "x.db")


def test_no_dispatch(workplace: Workplace) -> None:
    recorded(workplace.directory)

    assert "no kernel was dispatched" in refused(workplace, "x.db")


def test_a_kernel_name_of_64_kb(workplace: Workplace) -> None:
    name = "k" * (64 << 10)
    recorded(workplace.directory, dispatch(1000, END), kernels=(replace(VEC_COPY, mangled_name=name, display_name=name),))

    answer, profile = analysed(workplace)

    assert profile["kernel"]["name"] == name
    assert len(answer.stdout) < 4 * len(name)
    assert (workplace.directory / "out" / "timeline.perfetto-trace").stat().st_size > 0


def with_read_requests(place: Workplace, value: str) -> None:
    path = recorded(place.directory, dispatch(1000, END, counters=vec_copy_counters()))
    named = "SELECT id FROM rocpd_info_pmc{suffix} WHERE name LIKE 'TCC_EA0_RDREQ%'"
    changed(path, f"UPDATE rocpd_pmc_event{{suffix}} SET value = {value} WHERE pmc_id IN ({named})")


@pytest.mark.parametrize("value", ["NULL", "-1", "9e999"])
def test_invalid_counters_have_no_roofline(workplace: Workplace, value: str) -> None:
    with_read_requests(workplace, value)

    _, profile = analysed(workplace)

    assert profile["roofline"] is None
    assert "DRAM" in profile["roofline_reason"]
    assert "NaN" not in (workplace.directory / "out" / "analysis.json").read_text()


def test_a_counter_that_is_text_is_rejected(workplace: Workplace) -> None:
    with_read_requests(workplace, "'much'")

    assert "contains a value that is not" in refused(workplace, "x.db")


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ('DROP TABLE "rocpd_info_agent{suffix}"', "rocpd_info_agent"),
        ('DROP TABLE "rocpd_kernel_dispatch{suffix}"', "rocpd_kernel_dispatch"),
        ('ALTER TABLE "rocpd_kernel_dispatch{suffix}" RENAME COLUMN queue_id TO lane', "queue_id"),
    ],
)
def test_a_missing_table_or_column_is_named(workplace: Workplace, statement: str, what: str) -> None:
    path = recorded(workplace.directory, dispatch(1000, END))
    with closing(sqlite3.connect(path)) as connection, connection:
        views = connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'").fetchall()
        for (name,) in views:
            connection.execute(f'DROP VIEW "{name}"')
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute(statement.format(suffix=suffix_of(GUID)))

    assert what in refused(workplace, "x.db")


def test_counter_runs_of_a_directory_are_separate_passes(workplace: Workplace) -> None:
    recorded(workplace.directory, dispatch(1000, END))
    waves, others = {"SQ_WAVES": 16384.0}, {"SQ_INSTS": 5.0, "SQ_WAIT_ANY": 2.0}
    groups: tuple[Mapping[str, float], ...] = (waves, waves, others)
    for number, counters in enumerate(groups):
        directory = workplace.directory / "counters" / f"pass_{number}"
        directory.mkdir(parents=True)
        guid = make_guid(1_700_000_000_000 + number, f"pass {number}")
        start = 1_000_000 * number
        launch = dispatch(start, start + VEC_COPY_NS, counters=counters)
        run = recorded_run(load_target("mi300x"), [launch], emulated=False, guid=guid)
        write_database(directory / "1_results.db", run)

    _, profile = analysed(workplace, "--counters", "counters")

    assert profile["counters"] == [waves, others]


def test_a_counter_directory_without_counters_is_rejected(workplace: Workplace) -> None:
    recorded(workplace.directory, dispatch(1000, END))

    assert "no counters were collected" in refused(workplace, "x.db", "--counters", ".")


def test_the_roofline_is_drawn_under_measured_peaks(workplace: Workplace) -> None:
    recorded(workplace.directory, dispatch(1000, END, counters=vec_copy_counters()))
    (workplace.directory / "roofline.csv").write_text("device,HBMBw,FP32Flops\n0,4000,60000\n")

    analysed(workplace, "--roofline", "--roofline-csv", "roofline.csv")

    out = workplace.directory / "out"
    roof = json.loads((out / "roofline.json").read_text())["roofline"]
    assert roof["peak_gb_per_s"] == 4000
    assert (out / "roofline.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (out / "roofline.html").read_text() or "<canvas" in (out / "roofline.html").read_text()


def test_a_full_disk_leaves_no_partial_document(workplace: Workplace) -> None:
    path = recorded(workplace.directory, dispatch(1000, END, counters=vec_copy_counters()))
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096));from rocm_perf_lab.cli import main; main()"
    )

    run = subprocess.run(
        [sys.executable, "-c", limited, "analyze", str(path), "--output", "out"], capture_output=True, text=True, check=False
    )

    assert run.returncode == 2, run.stderr
    assert "cannot write" in run.stderr
    assert "Traceback" not in run.stderr
    written = list((workplace.directory / "out").iterdir())
    assert not [file for file in written if file.name.startswith(".")]
    for file in written:
        json.loads(file.read_text())


def test_a_full_disk_for_the_log_does_not_stop_the_application(workplace: Workplace) -> None:
    workplace.profiler()
    workplace.application('print("x" * 5_000_000, flush=True); launch("vector_add", n=4096)')
    limited = (
        "import signal, resource; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4_000_000, 4_000_000)); from rocm_perf_lab.cli import main; main()"
    )
    deferred = {name: value for name, value in os.environ.items() if name != "ROCM_PERF_LAB_TRACKING"}
    deferred["PYTHONPATH"] = str(Path(__file__).parents[2])

    run = subprocess.run(
        [sys.executable, "-c", limited, "profile", "--no-roofline", "--quiet", "--output", "run", "./app"],
        capture_output=True,
        text=True,
        check=False,
        env=deferred,
        timeout=300,
    )

    assert (run.returncode, run.stderr) == (0, "")
    assert (workplace.directory / "run" / ".rocpd_profile" / "trace.log").stat().st_size <= 4_000_000
