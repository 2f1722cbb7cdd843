"""The timing model reproduces its own inputs; `python -m benchmarks.self_consistency` prints all of them."""

import pytest

from benchmarks.self_consistency import KIB, LOOP_CYCLES, MIB, ModelProbe
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.target.timing import TimingParameters


@pytest.fixture(scope="module")
def bench() -> ModelProbe:
    return ModelProbe()


@pytest.fixture(scope="module")
def timing() -> TimingParameters:
    stated = load_target("mi300x").timing
    assert stated is not None
    return stated


@pytest.mark.parametrize(
    ("footprint", "level"), [(16 * KIB, "vector_l1_latency"), (2 * MIB, "l2_latency"), (8 * MIB, "mall_latency")]
)
def test_dependent_loads_take_the_latency_of_the_level_that_holds_them(
    bench: ModelProbe, timing: TimingParameters, footprint: int, level: str
) -> None:
    assert bench.load_cycles(footprint) == pytest.approx(getattr(timing, level) + LOOP_CYCLES, rel=0.15)


def test_a_copy_whose_stores_fit_into_the_memory_side_cache_is_between_its_rate_and_that_of_memory(
    bench: ModelProbe, timing: TimingParameters
) -> None:
    rate = bench.copy_gb_per_s(64 * MIB)

    assert timing.achievable_dram_gb_per_s < rate < timing.achievable_mall_write_gb_per_s


@pytest.mark.slow
def test_a_large_copy_reaches_the_achievable_bandwidth(bench: ModelProbe, timing: TimingParameters) -> None:
    assert bench.copy_gb_per_s(1024 * MIB) == pytest.approx(timing.achievable_dram_gb_per_s, rel=0.15)


@pytest.mark.parametrize("stride", [2, 32])
def test_bank_conflicts_cost_a_clock_for_each_access_to_the_same_bank(bench: ModelProbe, stride: int) -> None:
    assert bench.lds_ns(stride) / bench.lds_ns(1) == pytest.approx(stride, rel=0.10)
