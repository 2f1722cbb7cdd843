from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocm_perf_lab.core.resources import load_yaml, resource_dir
from rocm_perf_lab.device.rocprofv3 import Rocprofv3
from rocm_perf_lab.profiling.application import ApplicationRuns
from rocm_perf_lab.profiling.counter_passes import CounterPassError, counters_for, plan_passes
from rocm_perf_lab.rocprof.metrics import load_metrics

if TYPE_CHECKING:
    from pathlib import Path

BLOCK_SLOTS = {"SQ": 8, "TCC": 4, "TCP": 4, "TA": 2, "GRBM": 2}
NAMES = st.builds(lambda block, number: f"{block}_EVENT_{number}", st.sampled_from(sorted(BLOCK_SLOTS)), st.integers(0, 12))


def test_a_gpu_whose_counter_slots_are_unknown_is_profiled_without_counters(tmp_path: Path) -> None:
    runs = ApplicationRuns(Rocprofv3("rocprofv3", "1.1.0"), ("./app",), tmp_path, 1.0, print)

    assert runs.counters("gfx1153", ["SQ_WAVES"], "kernel") == (
        (),
        ("no counters were collected: counter slots of gfx1153 are unknown",),
    )


def test_blocks_are_filled_side_by_side() -> None:
    sq = [f"SQ_EVENT_{i}" for i in range(8)]
    tcc = [f"TCC_EVENT_{i}_sum" for i in range(4)]

    assert plan_passes("gfx942", [*sq, *tcc]) == ((*sq, *tcc),)


def test_the_ninth_counter_of_the_sequencer_needs_a_second_pass() -> None:
    sq = [f"SQ_EVENT_{i}" for i in range(9)]

    assert plan_passes("gfx942", sq) == (tuple(sq[:8]), ("SQ_EVENT_8",))


def test_instruction_cache_counters_share_the_slots_of_the_sequencer() -> None:
    assert len(plan_passes("gfx90a", [*(f"SQ_EVENT_{i}" for i in range(5)), *(f"SQC_EVENT_{i}" for i in range(4))])) == 2


def test_counters_of_one_ratio_of_times_share_a_pass() -> None:
    others = [f"SQ_EVENT_{i}" for i in range(7)]
    ratio = {"SQ_WAIT_ANY", "SQ_WAVE_CYCLES"}

    passes = plan_passes("gfx942", ["SQ_WAIT_ANY", *others, "SQ_WAVE_CYCLES"])

    assert any(ratio <= set(one) for one in passes)


def test_a_counter_of_two_ratios_is_collected_with_both() -> None:
    wanted = ["SQ_WAIT_ANY", "SQ_WAVE_CYCLES", "SQ_WAVES", "GRBM_GUI_ACTIVE", "SQ_ACTIVE_INST_VALU"]

    passes = plan_passes("gfx942", [*wanted, *(f"SQ_EVENT_{i}" for i in range(8))])

    for ratio in ({"SQ_WAIT_ANY", "SQ_WAVE_CYCLES"}, {"GRBM_GUI_ACTIVE", "SQ_ACTIVE_INST_VALU"}):
        assert any(ratio <= set(one) for one in passes)


def test_each_in_flight_counter_needs_its_own_pass() -> None:
    assert len(plan_passes("gfx942", ["SQ_INST_LEVEL_VMEM", "SQ_INST_LEVEL_LDS"])) == 2


def test_without_counters_there_is_no_pass() -> None:
    assert plan_passes("gfx942", []) == ()


@given(st.lists(NAMES, max_size=40))
def test_every_counter_is_in_a_pass_and_no_block_overflows(names: list[str]) -> None:
    passes = plan_passes("gfx942", names)

    assert {name for one in passes for name in one} == set(names)
    for one in passes:
        for block, slots in BLOCK_SLOTS.items():
            assert sum(name.startswith(f"{block}_") for name in one) <= slots


def test_a_counter_of_no_block_is_refused() -> None:
    with pytest.raises(CounterPassError, match="XYZ_EVENT"):
        plan_passes("gfx942", ["XYZ_EVENT"])


def test_an_architecture_without_a_table_is_refused() -> None:
    with pytest.raises(CounterPassError, match="gfx803"):
        plan_passes("gfx803", ["SQ_WAVES"])


DRAM_READS = ("TCC_BUBBLE_sum", "TCC_EA0_RDREQ_sum", "TCC_EA0_RDREQ_32B_sum")


@pytest.mark.parametrize(
    ("architecture", "expected"),
    [
        ("gfx942", DRAM_READS),
        ("gfx90a", ("TCC_EA_RDREQ_32B_sum", "TCC_EA_RDREQ_sum")),
        ("gfx950", ("TCC_EA0_RDREQ_32B_sum", "TCC_EA0_RDREQ_64B_sum", "TCC_EA0_RDREQ_128B_sum")),
        ("gfx1030", tuple(f"GL2C_EA_RDREQ_{size}B_sum" for size in (32, 64, 96, 128))),
    ],
)
def test_dram_reads_use_architecture_specific_counters(architecture: str, expected: tuple[str, ...]) -> None:
    found = counters_for(architecture, ("SQ_WAVES", "TCC_REQ_sum", "SQ_INSTS_SALU", *DRAM_READS))

    assert set(expected) <= set(found)
    assert {"SQ_WAVES", "SQ_INSTS_SALU"} <= set(found)
    assert ("TCC_REQ_sum" in found) == (architecture != "gfx1030")


def test_counters_of_one_architecture_stay_as_they_are() -> None:
    assert counters_for("gfx90a", ["SQ_WAVES", "TCC_EA_RDREQ_sum", "SQ_OF_MY_OWN"]) == (
        "SQ_WAVES",
        "TCC_EA_RDREQ_sum",
        "SQ_OF_MY_OWN",
    )


@pytest.mark.parametrize("architecture", ["gfx942", "gfx90a", "gfx950", "gfx1030"])
def test_the_shipped_counters_cover_dram_traffic_on_every_architecture(architecture: str) -> None:
    shipped = load_yaml((resource_dir("conf") / "passes" / "default.yaml").read_text())["counters"]

    collected = {counter for one in plan_passes(architecture, shipped) for counter in one}

    assert set(load_metrics(architecture)["dram_bytes"].counters) <= collected


def test_the_shipped_counters_are_those_of_gfx942_and_one_of_gfx950() -> None:
    shipped = load_yaml((resource_dir("conf") / "passes" / "default.yaml").read_text())["counters"]

    assert set(shipped) - set(counters_for("gfx942", shipped)) == {"SQ_INSTS_VALU_MFMA_MOPS_F6F4"}
    assert set(counters_for("gfx942", shipped)) < set(shipped)
    assert "SQ_INSTS_VALU_MFMA_MOPS_F6F4" in counters_for("gfx950", shipped)
