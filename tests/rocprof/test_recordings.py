"""Recordings of real GPUs in tests/data/recorded: the readers and metrics return what the files contain."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from rocm_perf_lab.profiling.selection import rank_kernels
from rocm_perf_lab.rocprof.json_reader import read_results
from rocm_perf_lab.rocprof.loading import load_recording
from rocm_perf_lab.rocprof.metrics import evaluate_metric, load_metrics, target_facts
from rocm_perf_lab.target.catalog import load_target

RECORDED = Path(__file__).parents[1] / "data" / "recorded"
MIB = 1 << 20
COPIED_BYTES = 8 * MIB
"""The copy kernel reads and writes 1,048,576 doubles."""
COPIES = {"MI200": "mi250x", "MI300X_A1": "mi300x", "MI350": "mi355x"}


def counters_of(recording: str) -> list[dict[str, float]]:
    """Return the counters of each dispatch of the copy kernel."""
    with (RECORDED / "workloads_vcopy" / recording / "pmc_perf.csv").open() as file:
        rows = list(csv.DictReader(file))
    return [{name: float(value) for name, value in row.items() if name[0].isupper() and is_number(value)} for row in rows]


def is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


@pytest.mark.parametrize("recording", COPIES)
def test_a_copy_has_three_dispatches_that_write_eight_mib_with_all_lanes(recording: str) -> None:
    target = load_target(COPIES[recording])
    metrics, facts = load_metrics(target.architecture), target_facts(target, duration_ns=1000.0)
    dispatches = counters_of(recording)

    written = [evaluate_metric(metrics["dram_write_bytes"], [counters], facts).value or 0 for counters in dispatches]

    assert len(dispatches) == 3
    assert written[0] == COPIED_BYTES and max(written) == COPIED_BYTES  # later dispatches may leave lines in L2
    for counters in dispatches:
        assert evaluate_metric(metrics["active_lanes"], [counters], facts).value == 64


@pytest.mark.parametrize("recording", ["MI200", "MI300X_A1"])
def test_a_copy_reads_eight_mib_through_l2(recording: str) -> None:
    target = load_target(COPIES[recording])
    metrics, facts = load_metrics(target.architecture), target_facts(target, duration_ns=1000.0)

    for counters in counters_of(recording):
        assert evaluate_metric(metrics["dram_read_bytes"], [counters], facts).value == pytest.approx(COPIED_BYTES, rel=0.005)
        assert evaluate_metric(metrics["l2_bytes"], [counters], facts).value == 2 * COPIED_BYTES


def test_a_training_job_is_read_completely() -> None:
    file = RECORDED / "rocprofv3_json" / "908_results.json.gz"
    with gzip.open(file) as stream:
        document = json.load(stream)["rocprofiler-sdk-tool"][0]
    records = document["buffer_records"]["kernel_dispatch"]

    (trace,) = read_results(file)

    assert len(trace.dispatches) == len(records) == 43_915
    assert trace.dispatches.duration_ns.sum() == sum(one["end_timestamp"] - one["start_timestamp"] for one in records)
    assert np.sort(trace.dispatches.duration_ns)[-1] == max(one["end_timestamp"] - one["start_timestamp"] for one in records)


def test_kernels_of_a_training_job_have_the_calls_and_times_of_the_records() -> None:
    file = RECORDED / "rocprofv3_json" / "908_results.json.gz"
    with gzip.open(file) as stream:
        document = json.load(stream)["rocprofiler-sdk-tool"][0]
    name_of = {symbol["kernel_id"]: symbol["kernel_name"].removesuffix(".kd") for symbol in document["kernel_symbols"]}
    agent_of = {agent["id"]["handle"]: agent for agent in document["agents"]}
    expected: dict[str, list[int]] = {}
    gpus: dict[int, int] = {}
    for record in document["buffer_records"]["kernel_dispatch"]:
        launch = record["dispatch_info"]
        totals = expected.setdefault(name_of[launch["kernel_id"]], [0, 0])
        totals[0] += 1
        totals[1] += record["end_timestamp"] - record["start_timestamp"]
        node = agent_of[launch["agent_id"]["handle"]]["node_id"]
        gpus[node] = gpus.get(node, 0) + 1

    (run,) = load_recording([file.parent]).runs
    ranked = rank_kernels(run.trace)

    assert {kernel.mangled_name: [len(kernel.dispatches), kernel.total_ns] for kernel in ranked} == expected
    assert [kernel.total_ns for kernel in ranked] == sorted((total for _, total in expected.values()), reverse=True)
    found = run.trace.dispatches
    assert {run.trace.agents[agent].id: int((found.agent == agent).sum()) for agent in np.unique(found.agent)} == gpus
    assert run.trace.processes[0].command.startswith("/opt/conda/envs/py_3.10/bin/python3.10 -u /workspace/aorta/train.py")


def test_exposed_times_of_a_training_job_agree_with_a_sweep_over_its_records() -> None:
    (trace,) = read_results(RECORDED / "rocprofv3_json" / "908_results.json.gz")
    found = trace.dispatches
    kernel = [trace.kernels[one].mangled_name for one in found.kernel.tolist()]
    events = [
        (int(time), step, row) for step, times in ((1, found.start_ns), (-1, found.end_ns)) for row, time in enumerate(times)
    ]
    running: dict[str, int] = {}
    expected: dict[str, int] = dict.fromkeys(kernel, 0)
    before = 0
    for time, step, row in sorted(events):
        if len(running) == 1:
            expected[next(iter(running))] += time - before
        before = time
        running[kernel[row]] = running.get(kernel[row], 0) + step
        if not running[kernel[row]]:
            del running[kernel[row]]

    assert len(np.unique(found.agent)) == 1  # one GPU: the sweep needs no groups
    assert {one.mangled_name: one.exposed_ns for one in rank_kernels(trace)} == expected
