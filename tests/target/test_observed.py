"""Target of a trace: the target of the catalog, corrected by recorded properties of the GPU."""

from __future__ import annotations

import pytest

from rocm_perf_lab.rocprof.recording import AgentRecord
from rocm_perf_lab.target.catalog import TargetError, load_target, target_names
from rocm_perf_lab.target.observed import ASSUMED, ObservedTarget, observed_target, with_implied_clock

MI300X = load_target("mi300x")


@pytest.mark.parametrize("name", target_names())
def test_a_gpu_of_the_catalog_has_its_target(name: str) -> None:
    target = load_target(name)
    agent = AgentRecord.from_target(target, device="rocm", emulated=False, versions={})

    found = observed_target(agent.name, agent.product_name, agent.properties, MI300X)

    assert (found.target, found.notes) == (target, ())


def test_a_partition_has_its_own_units_and_bandwidths() -> None:
    states = {"cu_count": 38, "num_xcc": 1, "num_shader_banks": 4, "max_engine_clk_fcompute": 2100}

    found = observed_target("gfx942:sramecc+:xnack-", "AMD Instinct MI300X", states, MI300X)

    assert (found.target.compute_units, found.target.xcds, found.target.shader_engines) == (38, 1, 4)
    assert found.target.peaks.lds_gb_per_s == pytest.approx(38 * 128 * 2.1)  # bytes per CU and clock, GHz
    assert found.target.peaks.l2_gb_per_s == pytest.approx(16 * 128 * 2.1)
    assert found.notes == ("the GPU is AMD Instinct MI300X and reports compute units 38, xcds 1, shader engines 4",)


def test_an_unknown_product_keeps_its_name_and_units() -> None:
    found = observed_target("gfx90a", "AMD Instinct MI250", {"cu_count": 104, "num_xcc": 1}, MI300X)

    assert (found.target.name, found.target.product_name, found.target.compute_units) == ("mi250", "AMD Instinct MI250", 104)
    assert found.target.architecture == "gfx90a"
    assert "bandwidths of MALL and DRAM are those of AMD Instinct MI250X" in found.notes[0]


def test_an_architecture_without_a_target_has_no_peaks() -> None:
    found = observed_target("gfx1251", "AMD Something", {"cu_count": 256, "lds_size_in_kb": 160}, MI300X)

    assert (found.target.architecture, found.target.compute_units) == ("gfx1251", 256)
    assert found.target.lds_pool.max_per_workgroup_bytes == 160 * 1024
    assert found.target.peaks.dram_gb_per_s is None
    assert found.target.peaks.vector_flops_per_cu_clock == {}
    assert "no target describes gfx1251: occupancy uses the limits of gfx1030" in found.notes[0]


def test_an_unnamed_gpu_uses_the_preferred_target_with_a_note() -> None:
    found = observed_target("", "", {}, MI300X)

    assert found.target == MI300X
    assert found.notes == ("the trace does not identify its GPU: AMD Instinct MI300X is assumed, --target chooses another",)
    assert found.doubts == (ASSUMED,)


def test_an_architecture_of_no_known_generation_is_an_error() -> None:
    with pytest.raises(TargetError, match="no target describes sm_90"):
        observed_target("sm_90", "H100", {}, MI300X)


WHOLE = {"cu_count": 304, "num_xcc": 8, "num_shader_banks": 32, "max_engine_clk_fcompute": 2100}


@pytest.mark.parametrize(
    ("wrong", "note"),
    [
        ({"num_xcc": 1}, "xcds 1 (used: 8)"),
        ({"num_xcc": 1, "num_shader_banks": 4}, "xcds 1 (used: 8), shader engines 4 (used: 32)"),
        ({"cu_count": 128}, "compute units 128 (used: 304)"),
        ({"num_shader_banks": 16}, "shader engines 16 (used: 32)"),
        ({"max_engine_clk_fcompute": 132}, "max clock mhz 132 (used: 2100)"),
        ({"max_engine_clk_fcompute": 21_000}, "max clock mhz 21000 (used: 2100)"),
    ],
)
def test_an_impossible_description_is_replaced_by_the_catalog_with_a_note(wrong: dict[str, int], note: str) -> None:
    found = observed_target("gfx942", "AMD Instinct MI300X", {**WHOLE, **wrong}, MI300X)

    assert found.target == MI300X
    assert found.notes == (f"the recording describes its GPU wrongly: {note}",)


@pytest.mark.parametrize(
    ("product", "states"),
    [
        ("AMD Instinct MI308X", {"cu_count": 80, "num_xcc": 4, "num_shader_banks": 16, "max_engine_clk_fcompute": 1420}),
        ("AMD Instinct MI300A", {"cu_count": 228, "num_xcc": 6, "num_shader_banks": 24, "max_engine_clk_fcompute": 2100}),
        ("AMD Instinct MI300X", {"cu_count": 76, "num_xcc": 2, "num_shader_banks": 8, "max_engine_clk_fcompute": 2100}),
    ],
)
def test_products_and_partitions_that_exist_are_believed(product: str, states: dict[str, int]) -> None:
    found = observed_target("gfx942", product, states, MI300X)

    target = found.target
    assert [target.compute_units, target.xcds, target.shader_engines, target.max_clock_mhz] == list(states.values())
    assert not any("wrongly" in note for note in found.notes)


def test_the_partition_of_one_xcd_with_the_units_of_two_has_two() -> None:
    found = observed_target("gfx942", "AMD Instinct MI300X", {**WHOLE, "cu_count": 76, "num_xcc": 1}, MI300X)

    assert (found.target.compute_units, found.target.xcds, found.target.shader_engines) == (76, 2, 8)


def test_a_workload_of_an_mi350_with_half_of_its_units_is_corrected() -> None:
    """sysinfo.csv of the recorded workload: 128 CUs on 8 XCDs, 16 shader engines, clock 0."""
    states = {"cu_count": 128, "num_xcc": 8, "num_shader_banks": 16, "max_engine_clk_fcompute": 0}

    found = observed_target("gfx950", "AMD Instinct MI350", states, MI300X)

    assert (found.target.compute_units, found.target.xcds, found.target.shader_engines) == (256, 8, 32)
    assert found.target.max_clock_mhz == load_target("mi355x").max_clock_mhz
    assert found.notes[-1] == (
        "the recording describes its GPU wrongly: compute units 128 (used: 256), shader engines 16 (used: 32)"
    )


def test_a_clock_above_the_recorded_maximum_is_explained_by_the_catalog() -> None:
    slow = observed_target("gfx942", "AMD Instinct MI300X", {**WHOLE, "max_engine_clk_fcompute": 1400}, MI300X)

    found = with_implied_clock(slow, 2000.0)

    assert (slow.target.max_clock_mhz, found.target.max_clock_mhz) == (1400, 2100)
    assert found.target.peaks.lds_gb_per_s == pytest.approx(MI300X.peaks.lds_gb_per_s)
    assert found.notes[-1] == ("counters imply a clock of 2,000 MHz, above the maximum of 1,400 MHz: 2,100 MHz are used")


def test_counters_of_more_xcds_than_recorded_are_explained_by_the_catalog() -> None:
    """A partition of one XCD: counters summed over 8 XCDs at 2 GHz would be a clock of 16 GHz."""
    part = observed_target("gfx942", "AMD Instinct MI300X", {"cu_count": 38, "num_xcc": 1, "num_shader_banks": 4}, MI300X)

    found = with_implied_clock(part, 16_000.0)

    assert found.target.xcds == 8
    assert found.notes[-1].endswith("8 XCDs are used")


def test_an_unexplained_clock_marks_the_figures_that_depend_on_it() -> None:
    found = with_implied_clock(ObservedTarget(MI300X), 50_000.0)

    assert found.target == MI300X
    assert "unreliable" in found.notes[-1]
    assert with_implied_clock(ObservedTarget(MI300X), 2200.0) == ObservedTarget(MI300X)
    assert with_implied_clock(ObservedTarget(MI300X), None) == ObservedTarget(MI300X)
