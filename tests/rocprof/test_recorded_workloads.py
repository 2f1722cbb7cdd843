"""Recorded workloads of rocprof-compute: expected values are computed here from the raw files with the csv module."""

from __future__ import annotations

import csv
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from statistics import mean

import pytest

from rocm_perf_lab.profiling.profile import build_profile
from rocm_perf_lab.rocprof.loading import load_recording
from rocm_perf_lab.target.catalog import load_target
from tests.builders.recordings import read_passes

WORKLOADS = Path(__file__).parents[1] / "data" / "recorded" / "workloads_vcopy"
KERNEL = "vecCopy(double*, double*, double*, int, int)"
GRID, BLOCK = 1_048_576, 256
NO_COUNTERS = {
    "Dispatch_ID", "GPU_ID", "Queue_ID", "PID", "TID", "Grid_Size", "Workgroup_Size", "LDS_Per_Workgroup",
    "Scratch_Per_Workitem", "Arch_VGPR", "Accum_VGPR", "SGPR", "Wave_Size", "wave_size", "Start_Timestamp", "End_Timestamp",
    "Correlation_ID", "Kernel_ID", "XCC_Index", "queue-id", "queue-index", "pid", "tid", "DispatchNs", "CompleteNs",
}  # fmt: skip
COUNTS = {"MI200": 3, "MI300X_A1": 3, "MI300X_A1_rocpd": 3, "MI350": 3}


def rows_of(workload: str, table: str) -> list[dict[str, str]]:
    with (WORKLOADS / workload / table).open(newline="") as file:
        return list(csv.DictReader(file))


def counters_in(row: dict[str, str]) -> dict[str, float]:
    """Return the counters of a row of a wide table, summed over instances."""
    found: dict[str, float] = defaultdict(float)
    for name, text in row.items():
        plain = name.split("[")[0]
        is_repeated = plain.rpartition("_")[2].isdigit() and plain.rpartition("_")[0] in NO_COUNTERS
        if plain in NO_COUNTERS or is_repeated or not text.replace(".", "", 1).isdigit():
            continue
        found[plain] += float(text)
    return dict(found)


def durations_in(workload: str, table: str) -> list[int]:
    rows = rows_of(workload, table)
    return [int(Decimal(row["End_Timestamp"]) - Decimal(row["Start_Timestamp"])) for row in rows]


@pytest.mark.parametrize(("workload", "count"), COUNTS.items())
def test_a_dispatch_that_several_tables_repeat_is_one(workload: str, count: int) -> None:
    trace, passes = read_passes([WORKLOADS / workload])

    assert [len(one.dispatches) for one in (trace, *passes)] == [count] * (1 + len(passes))
    assert {kernel.name for one in (trace, *passes) for kernel in one.kernels} == {KERNEL}
    assert {tuple(row) for row in trace.dispatches.grid.tolist()} == {(GRID, 1, 1)}
    assert {tuple(row) for row in trace.dispatches.workgroup.tolist()} == {(BLOCK, 1, 1)}


@pytest.mark.parametrize(("workload", "table"), [("MI200", "timestamps.csv"), ("MI350", "SQ_IFETCH_LEVEL.csv")])
def test_times_are_those_of_the_run_that_is_named(workload: str, table: str) -> None:
    trace, _ = read_passes([WORKLOADS / workload])

    assert trace.dispatches.duration_ns.tolist() == durations_in(workload, table)
    assert any(note.endswith(f"times are those of {table}") for note in trace.notes)


def test_times_with_five_digits_are_unknown_and_reported_once() -> None:
    """8.1097E+14 ns stands for a range of 10 s."""
    recording = load_recording([WORKLOADS / "MI300X_A1"])
    trace = recording.runs[0].trace

    assert not trace.dispatches.start_ns.any() and not trace.dispatches.end_ns.any()
    assert [note for note in trace.notes if "precision" in note] == [
        "timestamps have a precision of 10 s: times are unknown, counters are used"
    ]
    profile = build_profile(trace, target=load_target("mi300x"), counter_traces=recording.runs[0].counter_passes)
    assert profile.durations_ns == (0, 0, 0)
    waves = [counters_in(row)["SQ_WAVES"] for row in rows_of("MI300X_A1", "pmc_perf.csv")]
    assert profile.counter_passes[-1]["SQ_WAVES"] == mean(waves) == GRID / 64


def test_times_of_long_tables_are_those_of_the_first_execution() -> None:
    trace, _ = read_passes([WORKLOADS / "MI300X_A1_rocpd"])
    first: dict[str, int] = {}
    for row in rows_of("MI300X_A1_rocpd", "pmc_perf.csv"):
        first.setdefault(row["Dispatch_ID"], int(row["End_Timestamp"]) - int(row["Start_Timestamp"]))

    assert trace.dispatches.duration_ns.tolist() == list(first.values()) == [8653, 6811, 6730]


@pytest.mark.parametrize("workload", ["MI200", "MI300X_A1", "MI350"])
def test_every_counter_of_every_table_is_read(workload: str) -> None:
    trace, passes = read_passes([WORKLOADS / workload])
    found = {one.path.name: one for one in (trace, *passes)}
    tables = [path.name for path in sorted((WORKLOADS / workload).glob("*.csv"))]
    counted = [name for name in tables if name.startswith(("SQ_", "pmc_perf"))]
    in_passes = {name for table in counted if table != "pmc_perf.csv" for name in counters_in(rows_of(workload, table)[0])}
    joined = set(counters_in(rows_of(workload, "pmc_perf.csv")[0]))
    if joined <= in_passes:
        counted.remove("pmc_perf.csv")

    assert {name for name in found if name != "timestamps.csv"} == set(counted)
    for table in counted:
        for position, row in enumerate(rows_of(workload, table)):
            assert found[table].counters_of(position) == pytest.approx(counters_in(row)), table


def test_every_counter_of_a_long_table_is_read_by_execution() -> None:
    trace, _ = read_passes([WORKLOADS / "MI300X_A1_rocpd"])
    expected: dict[tuple[str, str, str], float] = {}
    for row in rows_of("MI300X_A1_rocpd", "pmc_perf.csv"):
        key = (row["Dispatch_ID"], row["Start_Timestamp"], row["Counter_Name"])
        expected[key] = expected.get(key, 0.0) + float(row["Counter_Value"])

    written = {counter for _, _, counter in expected}  # the busiest and the mean channel are computed
    columns = [column for one in trace.passes for name, column in one.items() if name in written]
    values = sorted(value for column in columns for value in column.value.tolist())

    assert values == sorted(expected.values())
    assert len(trace.passes) == len({start for dispatch, start, _ in expected if dispatch == "1"})


@pytest.mark.parametrize(
    ("workload", "architecture", "product"),
    [
        ("MI200", "gfx90a", "AMD Instinct MI200"),
        ("MI300X_A1", "gfx942", "AMD Instinct MI300X"),
        ("MI300X_A1_rocpd", "gfx942", "AMD Instinct MI300X"),
        ("MI350", "gfx950", "AMD Instinct MI350"),
    ],
)
def test_sysinfo_names_the_gpu(workload: str, architecture: str, product: str) -> None:
    (info,) = rows_of(workload, "sysinfo.csv")
    trace, _ = read_passes([WORKLOADS / workload])

    (agent,) = trace.agents
    assert (agent.name, agent.product_name) == (architecture, product) == (info["gpu_arch"], product)
    assert agent.properties["cu_count"] == int(info["cu_per_gpu"])


def test_the_measured_peaks_of_a_workload_are_found() -> None:
    assert load_recording([WORKLOADS / "MI200"]).roofline == WORKLOADS / "MI200" / "roofline.csv"
    assert load_recording([WORKLOADS / "MI350"]).roofline is None


def test_workloads_of_several_gpus_are_separate_runs() -> None:
    runs = load_recording([WORKLOADS]).runs

    assert [(run.label, run.trace.agents[0].name, len(run.trace.dispatches)) for run in runs] == [
        ("MI200", "gfx90a", 3),
        ("MI300X_A1", "gfx942", 3),
        ("MI300X_A1_rocpd", "gfx942", 3),
        ("MI350", "gfx950", 3),
    ]
