"""Target of a trace: the target of the catalog, corrected by recorded properties of the GPU."""

from __future__ import annotations

import pytest

from rocm_perf_lab.rocprof.recording import AgentRecord
from rocm_perf_lab.target.catalog import TargetError, load_target, target_names
from rocm_perf_lab.target.observed import observed_target

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
    found = observed_target("gfx90a", "AMD Instinct MI210", {"cu_count": 104, "num_xcc": 1}, MI300X)

    assert (found.target.name, found.target.product_name, found.target.compute_units) == ("mi210", "AMD Instinct MI210", 104)
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
    assert found.notes == ("the trace does not name its GPU: AMD Instinct MI300X is assumed, --target chooses another",)


def test_an_architecture_of_no_known_generation_is_an_error() -> None:
    with pytest.raises(TargetError, match="no target describes sm_90"):
        observed_target("sm_90", "H100", {}, MI300X)
