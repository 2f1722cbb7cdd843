"""`rocm-perf metrics`: everything that metrics.yaml says, told."""

from __future__ import annotations

import pytest

from rocm_perf_lab.rocprof.metrics import load_metrics, metric_architectures
from tests.builders.command import Answer, rocm_perf


def metrics(*words: str) -> Answer:
    return rocm_perf("metrics", *words)


def test_the_list_has_every_metric_in_80_columns() -> None:
    answer = metrics("list")

    assert answer.code == 0
    assert set(metric_architectures()) <= set(answer.out.split())
    assert max(map(len, answer.out.splitlines())) <= 80


def test_the_list_of_a_target_has_the_metrics_of_its_architecture() -> None:
    document = metrics("list", "--target", "rx6800xt", "--json").document

    assert [row["name"] for row in document["metrics"]] == list(load_metrics("gfx1030"))
    assert {tuple(row["architectures"]) for row in document["metrics"]} == {("gfx1030",)}


@pytest.mark.parametrize("name", sorted(metric_architectures()))
def test_every_metric_can_be_shown(name: str) -> None:
    answer = metrics("show", name)

    assert answer.code == 0
    assert max(map(len, answer.out.splitlines())) <= 80


def test_a_metric_is_shown_with_formula_counters_unit_and_source() -> None:
    text = metrics("show", "dram_bytes", "--target", "mi300x").out

    assert "dram_read_bytes + dram_write_bytes" in text
    assert "TCC_EA0_WRREQ_64B_sum" in text
    assert "TCC_EA_WRREQ_64B_sum" not in text  # gfx90a's name
    assert "bytes" in text
    assert "rocprofiler-sdk" in text


def test_json_separates_architectures() -> None:
    document = metrics("show", "vector_l1_hit_rate", "--json").document

    assert set(document["architectures"]) == {"gfx90a", "gfx942", "gfx950"}
    assert "TCP_TOTAL_CACHE_ACCESSES_sum" in document["architectures"]["gfx942"]["counters"]
    assert document["unit"] == "ratio"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("show", "l2_hitrate"), "did you mean l2_hit_rate"),
        (("show", "occupancy"), "did you mean achieved_occupancy"),
        (("show", "zzzzzz"), "rocm-perf metrics list"),
        (("show", ""), "rocm-perf metrics list"),
        (("show", "mfma_share", "--target", "rx6800xt"), "it exists on gfx90a, gfx942"),
        (("show", "flops", "--target", "mi300"), "Did you mean mi300x"),
        (("list", "--target", "mi300"), "Did you mean mi300x"),
    ],
)
def test_an_unknown_name_suggests_the_nearest(words: tuple[str, ...], what: str) -> None:
    answer = metrics(*words)

    assert answer.code == 2
    assert what in answer.err
