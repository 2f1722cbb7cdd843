"""Tables that were written twice, and descriptions of the machine with other names than the profiler's."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

from rocm_perf_lab.rocprof.loading import load_recording

WORKLOADS = Path(__file__).parents[1] / "data" / "recorded" / "workloads_vcopy"


def test_a_table_of_counters_that_was_written_twice_counts_once(tmp_path: Path) -> None:
    shutil.copytree(WORKLOADS / "MI350", tmp_path / "twice", copy_function=shutil.copyfile)
    for table in (tmp_path / "twice").glob("pmc_perf_*.csv"):
        header, *rows = table.read_text().splitlines()
        table.write_text("\n".join([header, *rows, *rows]) + "\n")

    (once,), (twice,) = (load_recording([path]).runs for path in (WORKLOADS / "MI350", tmp_path / "twice"))

    for trace, other in zip(once.traces, twice.traces, strict=True):
        assert {name: column.value.tolist() for name, column in trace.counters.items()} == {
            name: column.value.tolist() for name, column in other.counters.items()
        }


def test_a_kernel_trace_that_was_written_twice_counts_once(tmp_path: Path) -> None:
    columns = {
        "Kind": "KERNEL_DISPATCH", "Agent_Id": 4, "Queue_Id": 1, "Kernel_Name": "add", "Start_Timestamp": 1000,
        "End_Timestamp": 3000, **{f"{what}_Size_{axis}": 64 for what in ("Workgroup", "Grid") for axis in "XYZ"},
    }  # fmt: skip
    rows = [{**columns, "Dispatch_Id": 1}, {**columns, "Dispatch_Id": 2, "Start_Timestamp": 4000, "End_Timestamp": 5000}]
    with (tmp_path / "1_kernel_trace.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows([*rows, *rows])

    (run,) = load_recording([tmp_path]).runs

    assert run.trace.dispatches.start_ns.tolist() == [1000, 4000]
    assert "2 rows repeat a dispatch and were ignored" in run.trace.notes


def test_a_renamed_description_of_the_machine_names_the_gpu(tmp_path: Path) -> None:
    shutil.copyfile(WORKLOADS / "MI200" / "pmc_perf.csv", tmp_path / "monday.csv")
    shutil.copyfile(WORKLOADS / "MI200" / "sysinfo.csv", tmp_path / "machine of monday.csv")

    (run,) = load_recording([tmp_path]).runs

    assert [agent.name for agent in run.trace.agents] == ["gfx90a"]
