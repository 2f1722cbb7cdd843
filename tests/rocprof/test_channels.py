"""The busiest and the mean L2 channel of a dispatch, from rows of instances and from counters that are named by channel."""

from __future__ import annotations

import csv
import statistics
from pathlib import Path

import numpy as np
import pytest

from rocm_perf_lab.rocprof.counter_values import per_dispatch
from rocm_perf_lab.rocprof.loading import load_recording
from rocm_perf_lab.rocprof.reader import read_database
from tests.builders.rocpd_by_hand import Database

WORKLOAD = Path(__file__).parents[1] / "data" / "recorded" / "workloads_vcopy" / "MI300X_A1_rocpd"


def test_rows_of_one_dispatch_in_a_database_are_channels(tmp_path: Path) -> None:
    with Database(tmp_path / "x.db") as database:
        database.process("00000000-0000-4000-8000-000000000001", 11)
        database.agent(4)
        database.kernel(1, "add")
        database.dispatch(1, 1, 1000, 3000, agent=4, event=7)
        database.counter(3, "TCC_REQ", 4)
        database.values(7, 3, 10.0, 50.0, 20.0, 20.0)

    counters = read_database(tmp_path / "x.db").counters_of(0)

    assert counters == {"TCC_REQ": 100.0, "TCC_REQ_max": 50.0, "TCC_REQ_avr": 25.0}


def test_a_sum_in_one_row_and_unequal_numbers_of_rows_have_no_channels() -> None:
    one_row = per_dispatch(["TCC_REQ"], np.zeros(2, np.int64), np.array([0, 1]), np.array([5.0, 6.0]), rows_are_channels=True)
    unequal = per_dispatch(["TCC_REQ"], np.zeros(3, np.int64), np.array([0, 0, 1]), np.ones(3), rows_are_channels=True)

    assert [set(counters) for counters, _ in (one_row, unequal)] == [{"TCC_REQ"}, {"TCC_REQ"}]


@pytest.mark.parametrize("counter", ["TCC_REQ", "TCC_EA0_RDREQ", "TCC_EA0_WRREQ"])
def test_channels_of_a_recorded_workload_are_those_of_its_rows(counter: str) -> None:
    values: dict[str, list[float]] = {}
    with (WORKLOAD / "pmc_perf.csv").open() as table:
        for row in csv.DictReader(table):
            if row["Counter_Name"].startswith(f"{counter}["):
                values.setdefault(row["Dispatch_ID"], []).append(float(row["Counter_Value"]))

    (run,) = load_recording([WORKLOAD]).runs
    passes = [found for trace in run.traces for found in trace.passes if f"{counter}_max" in found]

    assert len(passes) == 1
    assert passes[0][f"{counter}_max"].value.tolist() == [max(own) for own in values.values()]
    assert passes[0][f"{counter}_avr"].value.tolist() == pytest.approx([statistics.mean(own) for own in values.values()])
