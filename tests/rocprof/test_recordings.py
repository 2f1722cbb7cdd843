"""Recordings of real GPUs in tests/data/recorded: the readers and metrics return what the files contain."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from rocm_perf_lab.rocprof.json_reader import read_results
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
