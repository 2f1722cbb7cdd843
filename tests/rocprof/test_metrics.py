"""Counter metrics against the stored counters of a vector copy on a real MI300X, and values checkable by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocm_perf_lab.rocprof import metrics
from rocm_perf_lab.rocprof.metrics import evaluate_metric, load_metrics, target_facts
from rocm_perf_lab.target.catalog import load_target

VEC_COPY = json.loads((Path(__file__).parents[1] / "data" / "vcopy_mi300x.json").read_text())["dispatches"]
GFX942 = load_metrics("gfx942")
FACTS = target_facts(load_target("mi300x"), duration_ns=1000.0)
MIB = 1024 * 1024


@pytest.mark.parametrize("dispatch", range(3))
def test_a_copy_of_a_million_doubles_reads_and_writes_eight_mib(dispatch: int) -> None:
    counters = [VEC_COPY[dispatch]]

    read = evaluate_metric(GFX942["dram_read_bytes"], counters, FACTS).value
    written = evaluate_metric(GFX942["dram_write_bytes"], counters, FACTS).value
    through_l2 = evaluate_metric(GFX942["l2_bytes"], counters, FACTS).value

    assert read == pytest.approx(8 * MIB, rel=0.005)
    assert written == 8 * MIB
    assert through_l2 == 16 * MIB


def test_all_lanes_of_the_copy_are_active() -> None:
    assert evaluate_metric(GFX942["active_lanes"], [VEC_COPY[0]], FACTS).value == 64


def test_fma_counts_two_operations_on_64_lanes() -> None:
    counters = {f"SQ_INSTS_VALU_{op}_F32": value for op, value in {"ADD": 1, "MUL": 2, "TRANS": 3, "FMA": 10}.items()}

    assert evaluate_metric(GFX942["vector_flops_f32"], [counters], FACTS).value == 64 * (1 + 2 + 3 + 20)


def test_matrix_counters_are_in_units_of_512_operations() -> None:
    assert evaluate_metric(GFX942["matrix_flops_f16"], [{"SQ_INSTS_VALU_MFMA_MOPS_F16": 4}], FACTS).value == 2048


def test_reads_of_gfx90a_l2_are_half_as_long() -> None:
    counters = {"TCP_TCC_READ_REQ_sum": 10.0, "TCP_TCC_WRITE_REQ_sum": 1.0}

    gfx942 = evaluate_metric(GFX942["l2_bytes"], [counters], FACTS).value
    gfx90a = evaluate_metric(load_metrics("gfx90a")["l2_bytes"], [counters], FACTS).value

    assert (gfx942, gfx90a) == (10 * 128 + 64, 11 * 64)


def test_reads_of_gfx950_are_counted_by_their_size() -> None:
    counters = {"TCC_EA0_RDREQ_128B_sum": 10.0, "TCC_EA0_RDREQ_64B_sum": 3.0, "TCC_EA0_RDREQ_32B_sum": 1.0, "TCC_BUBBLE_sum": 9.0}

    assert evaluate_metric(load_metrics("gfx950")["dram_read_bytes"], [counters], FACTS).value == 1280 + 192 + 32


def test_cycles_of_the_device_are_divided_by_its_xcds() -> None:
    counters = {"GRBM_GUI_ACTIVE": 8000.0, "SQ_WAVE_CYCLES": 304 * 32 * 1000 / 8}

    assert evaluate_metric(GFX942["gpu_cycles"], [counters], FACTS).value == 1000
    assert evaluate_metric(GFX942["achieved_occupancy"], [counters], FACTS).value == 0.5


def test_a_missing_counter_is_not_zero() -> None:
    found = evaluate_metric(GFX942["l2_hit_rate"], [{"TCC_HIT_sum": 5.0}], FACTS)

    assert (found.value, found.reason) == (None, "not collected: TCC_MISS_sum")


@pytest.mark.parametrize(
    ("name", "counters", "least"),
    [
        ("dram_write_bytes", {"TCC_EA0_WRREQ_sum": 5.0}, 5 * 32),  # a request writes 32 or 64 bytes
        ("dram_read_bytes", {"TCC_EA0_RDREQ_sum": 100.0}, 100 * 32),  # reads 32, 64 or 128 bytes
        ("dram_read_bytes", {"TCC_EA0_RDREQ_sum": 100.0, "TCC_EA0_RDREQ_32B_sum": 10.0}, 90 * 64 + 10 * 32),
        ("dram_bytes", {"FETCH_SIZE": 8.0}, 8192),
        ("vector_flops_f32", {"SQ_INSTS_VALU_FMA_F32": 5.0, "SQ_INSTS_VALU_ADD_F32": 3.0}, 64 * (2 * 5 + 3)),
        ("vector_ops_int", {"SQ_INSTS_VALU_INT64": 2.0}, 128),
    ],
)
def test_a_sum_without_some_of_its_terms_is_a_lower_bound(name: str, counters: dict[str, float], least: float) -> None:
    found = evaluate_metric(GFX942[name], [counters], FACTS)

    assert (found.value, found.is_lower_bound, found.reason) == (least, True, None)
    assert found.notes[0].startswith(f"{name} is a lower bound: ")


@pytest.mark.parametrize(
    ("name", "counters"),
    [
        ("lds_bytes", {"SQ_LDS_IDX_ACTIVE": 5.0}),  # conflicts are subtracted
        ("valu_share", {"SQ_INSTS_VALU": 5.0, "SQ_INSTS": 10.0}),  # matrix instructions are subtracted
        ("vector_l1_hit_rate", {"TCP_TOTAL_CACHE_ACCESSES_sum": 5.0}),
        ("vmem_utilisation", {"SQ_ACTIVE_INST_FLAT": 5.0, "GRBM_GUI_ACTIVE": 80.0}),  # cycles
        ("flops", {"SQ_WAVES": 1.0}),
        ("vector_ops_int", {"SQ_INSTS_VALU_INT64": 0.0}),  # nothing is known
    ],
)
def test_other_metrics_with_missing_counters_have_no_bound(name: str, counters: dict[str, float]) -> None:
    found = evaluate_metric(GFX942[name], [counters], FACTS)

    assert (found.value, found.is_lower_bound) == (None, False)
    assert "not collected" in (found.reason or "")


@pytest.mark.parametrize(
    ("name", "counters", "value"),
    [
        ("dram_read_bytes", {"FETCH_SIZE": 8.0}, 8192),  # KiB
        ("dram_bytes", {"FETCH_SIZE": 8.0, "WRITE_SIZE": 4.0}, 12288),
        ("dram_read_gb_per_s", {"FETCH_SIZE": 1000.0}, 1024),  # in 1000 ns
        ("l2_hit_rate", {"L2CacheHit": 25.0}, 0.25),  # per cent
        ("mfma_utilisation", {"MfmaUtil": 40.0}, 0.4),
        ("divergence", {"VALUUtilization": 75.0}, 0.25),
        ("achieved_occupancy", {"OccupancyPercent": 62.5}, 0.625),
    ],
)
def test_derived_counters_replace_missing_ones(name: str, counters: dict[str, float], value: float) -> None:
    found = evaluate_metric(GFX942[name], [counters], FACTS)

    assert found.value == pytest.approx(value)
    assert found.notes == (f"{name} is from {', '.join(counters)}, which the profiler derives",)


def test_rocprof_names_derived_counters_differently() -> None:
    assert evaluate_metric(GFX942["dram_bytes"], [{"FetchSize": 1.0}, {"WriteSize": 2.0}], FACTS).value == 3072


def test_basic_counters_are_preferred_to_derived_ones() -> None:
    counters = {"TCC_HIT_sum": 1.0, "TCC_MISS_sum": 1.0, "L2CacheHit": 99.0}

    assert evaluate_metric(GFX942["l2_hit_rate"], [counters], FACTS).value == 0.5


def test_a_counter_without_sum_in_its_name_is_the_sum_of_its_instances() -> None:
    assert evaluate_metric(GFX942["l2_hit_rate"], [{"TCC_HIT": 3.0, "TCC_MISS": 1.0}], FACTS).value == 0.75


def test_assumptions_are_noted() -> None:
    found = evaluate_metric(GFX942["l2_bytes"], [{"TCP_TCC_READ_REQ_sum": 1.0, "TCP_TCC_WRITE_REQ_sum": 0.0}], FACTS)

    assert found.value == 128
    assert "TCP_TCC_ATOMIC_WITH_RET_REQ_sum" in found.notes[0]


def test_times_of_different_passes_are_not_divided() -> None:
    passes = [{"SQ_WAIT_ANY": 10.0}, {"SQ_WAVE_CYCLES": 20.0}]

    found = evaluate_metric(GFX942["wait_share"], passes, FACTS)

    assert found.value is None
    assert "different passes" in str(found.reason)


def test_events_of_different_passes_are_combined() -> None:
    passes = [{"TCC_HIT_sum": 30.0}, {"TCC_MISS_sum": 10.0}]

    assert evaluate_metric(GFX942["l2_hit_rate"], passes, FACTS).value == 0.75


def test_one_pass_with_all_counters_is_preferred() -> None:
    passes = [{"SQ_WAIT_ANY": 99.0}, {"SQ_WAIT_ANY": 5.0, "SQ_WAVE_CYCLES": 20.0}]

    assert evaluate_metric(GFX942["wait_share"], passes, FACTS).value == 0.25


@pytest.mark.parametrize("broken", [float("nan"), -1.0])
def test_an_impossible_counter_yields_no_metric(broken: float) -> None:
    found = evaluate_metric(GFX942["l2_hit_rate"], [{"TCC_HIT_sum": broken, "TCC_MISS_sum": 1.0}], FACTS)

    assert found.value is None
    assert "TCC_HIT_sum" in str(found.reason)


def test_a_zero_denominator_is_undefined() -> None:
    found = evaluate_metric(GFX942["l2_hit_rate"], [{"TCC_HIT_sum": 0.0, "TCC_MISS_sum": 0.0}], FACTS)

    assert (found.value, found.reason) == (None, "undefined: its denominator is 0")


def test_gfx1030_has_no_flop_counters_and_gfx90a_no_fp8() -> None:
    assert "flops" not in load_metrics("gfx1030")
    assert "matrix_flops_f8" not in load_metrics("gfx90a")
    assert "SQ_INSTS_VALU_MFMA_MOPS_F8" not in load_metrics("gfx90a")["flops"].counters


@pytest.mark.parametrize("architecture", ["gfx90a", "gfx942", "gfx1030"])
def test_every_expression_is_over_known_names(architecture: str) -> None:
    for metric in load_metrics(architecture).values():
        counters = dict.fromkeys(metric.counters, 2.0)

        assert metric.counters
        reason = evaluate_metric(metric, [counters], FACTS).reason
        assert reason is None or reason.startswith(("undefined: its denominator is 0", "impossible: "))


@pytest.mark.parametrize("architecture", ["gfx90a", "gfx942", "gfx950", "gfx1030"])
@given(data=st.data())
def test_no_counter_values_yield_an_impossible_metric(architecture: str, data: st.DataObject) -> None:
    metric = data.draw(st.sampled_from(list(load_metrics(architecture).values())))
    counters = {name: data.draw(st.floats(-1e3, 1e18) | st.just(math.nan), label=name) for name in metric.counters}

    found = evaluate_metric(metric, [counters], FACTS)

    assert (found.value is None) == (found.reason is not None)
    if found.value is not None:
        assert 0 <= found.value < math.inf
        assert metric.unit != "ratio" or found.value <= float(metric.at_most or 1)


@pytest.mark.parametrize(
    ("name", "counters", "number"),
    [
        # Issue slots of one run over the clocks of a shorter one.
        ("valu_utilisation", {"SQ_ACTIVE_INST_VALU": 304 * 2730.0, "GRBM_GUI_ACTIVE": 8000.0}, "2.73 of at most 2"),
        ("active_lanes", {"SQ_THREAD_CYCLES_VALU": 6500.0, "SQ_ACTIVE_INST_VALU": 100.0}, "65 of at most 64"),
        # More reads of 128 bytes than reads.
        ("dram_read_bytes", {"TCC_BUBBLE_sum": 0.0, "TCC_EA0_RDREQ_sum": 1.0, "TCC_EA0_RDREQ_32B_sum": 9.0}, "-224"),
        ("lds_bytes", {"SQ_LDS_IDX_ACTIVE": 1.0, "SQ_LDS_BANK_CONFLICT": 2.0}, "-128"),
        ("instructions_per_cycle", {"SQ_INSTS": 51.0, "SQ_BUSY_CU_CYCLES": 10.0}, "5.1 of at most 5"),
    ],
)
def test_an_impossible_value_becomes_a_reason(name: str, counters: dict[str, float], number: str) -> None:
    found = evaluate_metric(GFX942[name], [counters], FACTS)

    assert found.value is None
    assert number in str(found.reason)


def test_a_share_rounded_above_one_is_one() -> None:
    counters = {"SQ_BUSY_CU_CYCLES": 304 * 1000.2, "GRBM_GUI_ACTIVE": 8000.0}

    assert evaluate_metric(GFX942["cu_busy_share"], [counters], FACTS).value == 1.0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        # 65 536 read and 131 072 write requests to L2 of 524 288 lookups.
        ("vector_l1_hit_rate", 1 - 196608 / 524288),
        ("l2_hit_rate", 66160 / 197471),
        # 8-byte lanes: four accesses where 4-byte lanes would take one.
        ("coalescing", 0.25),
        ("divergence", 0.0),
        ("instructions_per_wave", 20),
        ("salu_share", 3 / 20),
        ("smem_share", 4 / 20),
        ("vmem_share", 2 / 20),
        ("branch_share", 1 / 20),
        ("lds_share", 0),
        ("vector_ops_int", 64 * (49152 + 32768)),
        # 8 MiB and 0.2 % more in 1 us.
        ("dram_read_gb_per_s", 8403.904),
        ("dram_write_gb_per_s", 8388.608),
        ("l2_gb_per_s", 16777.216),
        ("gpu_cycles", 2572147 / 8),
        ("wave_lifetime_cycles", 4 * 37155126 / 16384),
        ("waves_in_flight", 4 * 37155126 / (2572147 / 8)),
        ("achieved_occupancy", 4 * 37155126 / (2572147 / 8 * 304 * 32)),
        ("valu_utilisation", 98304 / (2572147 / 8 * 304)),
        ("cu_busy_share", 5304706 / (2572147 / 8 * 304)),
        ("se_busy_share", 622203 / (2572147 / 8 * 32)),
        ("instructions_per_cycle", 327680 / 5304706),
    ],
)
def test_metrics_of_the_copy_on_a_real_mi300x(name: str, value: float) -> None:
    assert evaluate_metric(GFX942[name], [VEC_COPY[0]], FACTS).value == pytest.approx(value)


def test_shares_of_instructions_add_up() -> None:
    shares = [
        name for name in GFX942 if name in ("valu_share", "salu_share", "smem_share", "vmem_share", "lds_share", "branch_share")
    ]
    counters = {**VEC_COPY[0], "SQ_INSTS_MFMA": 0.0}

    total = sum(evaluate_metric(GFX942[name], [counters], FACTS).value or 0 for name in shares)

    # Of 20 instructions 16 are named; the others are messages, waits and the like.
    assert total == pytest.approx(16 / 20)


@pytest.mark.parametrize("dispatch", VEC_COPY)
def test_every_share_of_the_copy_is_a_share(dispatch: dict[str, float]) -> None:
    for name, metric in GFX942.items():
        value = evaluate_metric(metric, [dispatch], FACTS).value
        if metric.unit == "ratio" and value is not None:
            assert 0 <= value <= 1, name


@pytest.mark.parametrize(
    ("name", "counters", "value"),
    [
        ("mfma_utilisation", {"SQ_VALU_MFMA_BUSY_CYCLES": 304 * 4 * 500.0, "GRBM_GUI_ACTIVE": 8000.0}, 0.5),
        ("mfma_cycles", {"SQ_VALU_MFMA_BUSY_CYCLES": 3200.0, "SQ_INSTS_MFMA": 100.0}, 32),
        ("vmem_utilisation", {"SQ_ACTIVE_INST_FLAT": 30400.0, "SQ_ACTIVE_INST_VMEM": 0.0, "GRBM_GUI_ACTIVE": 8000.0}, 0.1),
        ("l2_busy_share", {"TCC_BUSY_sum": 128 * 250.0, "GRBM_GUI_ACTIVE": 8000.0}, 0.25),
        ("launch_blocked_by_vgprs", {"SPI_RA_VGPR_SIMD_FULL_CSN": 30400.0, "GRBM_GUI_ACTIVE": 8000.0}, 0.1),
        ("launch_blocked_by_lds", {"SPI_RA_LDS_CU_FULL_CSN": 30400.0, "GRBM_GUI_ACTIVE": 8000.0}, 0.4),
        ("lds_conflicts_per_access", {"SQ_LDS_BANK_CONFLICT": 31.0, "SQ_LDS_IDX_ACTIVE": 32.0}, 31),
        ("scalar_l1_hit_rate", {"SQC_DCACHE_HITS": 3.0, "SQC_DCACHE_MISSES": 1.0}, 0.75),
        ("dram_read_local_share", {"TCC_EA0_RDREQ_DRAM_sum": 9.0, "TCC_EA0_RDREQ_sum": 10.0}, 0.9),
        ("dram_read_latency_cycles", {"TCC_EA0_RDREQ_LEVEL_sum": 7000.0, "TCC_EA0_RDREQ_sum": 10.0}, 700),
        ("uncached_read_bytes", {"TCC_EA0_RD_UNCACHED_32B_sum": 4.0}, 128),
    ],
)
def test_metrics_with_hand_computed_values(name: str, counters: dict[str, float], value: float) -> None:
    assert evaluate_metric(GFX942[name], [counters], FACTS).value == pytest.approx(value)


def test_every_metric_says_where_it_comes_from() -> None:
    assert all(metric.source and metric.description.endswith(".") for metric in GFX942.values())


def test_counters_and_their_sums_are_interchangeable() -> None:
    radeon, facts = load_metrics("gfx1030"), target_facts(load_target("rx6800xt"), duration_ns=1000.0)

    assert evaluate_metric(radeon["wait_share"], [{"SQ_WAIT_ANY_sum": 1.0, "SQ_WAVE_CYCLES_sum": 4.0}], facts).value == 0.25
    assert evaluate_metric(radeon["l2_hit_rate"], [{"GL2C_HIT": 3.0, "GL2C_MISS": 1.0}], facts).value == 0.75


def test_a_row_adds_a_metric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps of "Add a metric" in docs/DEVELOPER_GUIDE.md."""
    row = """
scalar_share:
  unit: ratio
  kind: events
  source: test
  description: Share of scalar instructions.
  expressions: {cdna3: SQ_INSTS_SALU / SQ_INSTS}
"""
    file = tmp_path / "metrics.yaml"
    file.write_text(metrics.METRICS_FILE.read_text() + row)
    monkeypatch.setattr(metrics, "METRICS_FILE", file)

    added = load_metrics("gfx942")["scalar_share"]

    assert evaluate_metric(added, [{"SQ_INSTS_SALU": 3.0, "SQ_INSTS": 12.0}], FACTS).value == 0.25
    assert evaluate_metric(added, [{"SQ_INSTS": 12.0}], FACTS).value is None
