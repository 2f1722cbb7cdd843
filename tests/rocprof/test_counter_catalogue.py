"""Catalogue of counters: what its rows contain, and how certificates combine."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError

from rocm_perf_lab.rocprof.counter_catalogue import (
    CounterDescription,
    counter_catalogue,
    counter_certificates,
    describe_counter,
    metric_certificate,
    weakest_certificate,
)
from rocm_perf_lab.rocprof.metrics import load_metrics
from rocm_perf_lab.rocprof.writer import write_database
from tests.builders.command import rocm_perf
from tests.builders.rocpd import dispatch, recorded_run
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "row",
    [
        {"certificate": "bounded", "description": "Without bound."},
        {"certificate": "exact", "description": "With bound.", "bound": 0.1},
        {"certificate": "unavailable", "description": "Without reason."},
        {"certificate": "estimated", "description": "With reason.", "reason": "None needed."},
        {"certificate": "bounded", "description": "Negative.", "bound": -0.1},
    ],
)
def test_a_row_without_its_bound_or_reason_is_rejected(row: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        CounterDescription.model_validate(row)


@pytest.mark.parametrize("architecture", ["gfx90a", "gfx942", "gfx950"])
def test_counters_of_metrics_are_described(architecture: str) -> None:
    used = {name for metric in load_metrics(architecture).values() for name in metric.counters}

    assert used <= set(counter_catalogue(architecture))


def test_architectures_have_their_own_counters_and_certificates() -> None:
    assert "TCC_EA_RDREQ_sum" in counter_catalogue("gfx90a")
    assert "TCC_EA_RDREQ_sum" not in counter_catalogue("gfx942")
    assert describe_counter("SQ_INSTS_VALU_MFMA_F8", "gfx90a") is None
    assert counter_certificates("gfx942", ["TCC_HIT_sum"]) == {"TCC_HIT_sum": "bounded"}
    assert counter_certificates("gfx90a", ["TCC_HIT_sum"]) == {"TCC_HIT_sum": "estimated"}
    described = [describe_counter("TCC_HIT_sum", one) for one in ("gfx90a", "gfx942")]
    assert len({one.description for one in described if one is not None}) == 1


def test_a_channel_is_an_estimate_of_its_part_of_the_total() -> None:
    total, channel = describe_counter("TCC_HIT_sum"), describe_counter("TCC_HIT[17]")

    assert total is not None
    assert channel is not None
    assert (channel.certificate, channel.unit) == ("estimated", total.unit)
    assert describe_counter("TCC_BUSY[3]") == describe_counter("TCC_BUSY_sum")  # unavailable, with its reason
    assert describe_counter("SQ_WAVES_OF_JOY") is None


def test_a_value_is_as_certain_as_its_weakest_counter() -> None:
    assert weakest_certificate("gfx942", ["SQ_WAVES", "SQ_INSTS"]) == "exact"
    assert weakest_certificate("gfx942", ["SQ_WAVES", "TCC_HIT_sum"]) == "bounded"
    assert weakest_certificate("gfx942", ["TCC_HIT_sum", "SQ_WAVE_CYCLES"]) == "estimated"
    assert weakest_certificate("gfx942", ["SQ_WAVES", "TCC_BUSY_sum"]) == "unavailable"
    assert weakest_certificate("gfx942", ["SQ_WAVES_OF_JOY"]) == "unavailable"
    assert weakest_certificate("gfx1030", ["SQ_WAVES"]) is None  # not in the catalogue


@pytest.mark.parametrize(
    ("metric", "certificate"),
    [
        ("salu_share", "exact"),
        ("dram_bytes", "bounded"),
        ("dram_read_gb_per_s", "estimated"),  # bytes are bounded, the duration is an estimate
        ("instruction_l1_hit_rate", "estimated"),  # SQC_ICACHE_MISSES_DUPLICATE may be missing
        ("l2_busy_share", "unavailable"),
    ],
)
def test_the_certificate_of_a_metric(metric: str, certificate: str) -> None:
    assert metric_certificate("gfx942", load_metrics("gfx942")[metric]) == certificate


def test_certificates_are_those_of_the_catalogue() -> None:
    assert counter_certificates("gfx942", ["SQ_WAVES", "unknown", "SQ_CYCLES"]) == {"SQ_WAVES": "exact", "SQ_CYCLES": "estimated"}
    assert counter_certificates("gfx1030", ["SQ_WAVES"]) == {}


def test_the_command_explains_counters() -> None:
    text = rocm_perf("metrics", "show", "SPI_SWC_CSC_WR").out
    document = rocm_perf("metrics", "show", "TCC_HIT_sum", "--json").document

    assert "unavailable" in text
    assert "the number of SGPRs is unknown" in " ".join(text.split())
    assert (document["certificate"], document["unit"]) == ("bounded", "requests")
    assert 0 < document["bound"] < 0.1


def test_the_list_contains_counters_and_certificates_of_metrics() -> None:
    document = rocm_perf("metrics", "list", "--target", "mi300x", "--json").document
    counters = {row["name"]: row["certificate"] for row in document["counters"]}
    metrics = {row["name"]: row["architectures"]["gfx942"]["emulated_certificate"] for row in document["metrics"]}

    assert counters == {name: row.certificate for name, row in counter_catalogue("gfx942").items()}
    assert (metrics["salu_share"], metrics["achieved_occupancy"]) == ("exact", "estimated")


@pytest.mark.parametrize("emulated", [True, False])
def test_a_database_has_certificates_of_emulated_counters_only(emulated: bool, tmp_path: Path) -> None:
    measured = dispatch(1000, 2000, counters={"SQ_WAVES": 4.0, "TCC_HIT_sum": 2.0})
    write_database(tmp_path / "run.db", recorded_run(mi300x(), [measured], emulated=emulated))

    with sqlite3.connect(tmp_path / "run.db") as connection:
        ((table,),) = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'rocpd_info_pmc%'")
        found = connection.execute(f'SELECT name, units, extdata FROM "{table}"')
        rows = {name: (units, json.loads(extra)) for name, units, extra in found}
    assert rows["SQ_WAVES"] == ("waves", {"certificate": "exact"} if emulated else {})
    assert rows["TCC_HIT_sum"][1].get("certificate") == ("bounded" if emulated else None)
