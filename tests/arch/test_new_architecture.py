"""A new architecture is data alone: one YAML file in `conf/arch` of the working directory, and one in `conf/target`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.config.composition import compose_overrides
from rocm_perf_lab.profiling.counter_passes import architectures_of, plan_passes
from rocm_perf_lab.rocprof.metrics import evaluate_metric, load_metrics, metric_architectures, target_facts
from rocm_perf_lab.rocprof.registers import corrected_vgprs, reported_registers
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.target.model import Target
from rocm_perf_lab.target.observed import observed_target
from rocm_perf_lab.target.occupancy import OccupancyRequest, launch_occupancy
from rocm_perf_lab.toolchain.disassembly import disassemble
from rocm_perf_lab.toolchain.elf import read_code_object
from rocm_perf_lab.toolchain.kernel_occupancy import occupancy_request
from rocm_perf_lab.toolchain.static_features import static_features
from tests.builders.kernels import build_hip

if TYPE_CHECKING:
    from pathlib import Path

ARCHITECTURE = """\
inherits: gfx942
family: cdna9
gfx_target_version: 91500
elf_machine: 0xFE
registers: {profiler_reports_half: true}
modes: {wave64: {vgprs_per_lane: 1024}}
lds: {wave64: {bytes: 131072, max_per_workgroup_bytes: 131072}}
"""
PRODUCT = """\
name: mi999x
product_name: AMD Instinct MI999X
architecture: gfx9f0
compute_units: 128
xcds: 4
shader_engines: 16
max_clock_mhz: 2500
dram_bytes: 137438953472
caches: {l2_bytes_per_xcd: 4194304, l2_channels_per_xcd: 16, mall_bytes: 0}
peaks:
  vector_flops_per_cu_clock: {f32: 128}
  dram_gb_per_s: 4000
  l2_gb_per_s: null
  vector_l1_gb_per_s: null
  lds_gb_per_s: null
"""


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for group, name, text in (("arch", "gfx9f0", ARCHITECTURE), ("target", "mi999x", PRODUCT)):
        path = tmp_path / "conf" / group / f"{name}.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_its_limits_decide_the_occupancy() -> None:
    request = OccupancyRequest(vgprs=256, lds_bytes=65536, workgroup_size=(256, 256))

    found = launch_occupancy(load_target("mi999x"), request)

    assert (found.waves_per_simd, found.limiter) == (2, "lds")
    assert found.by_limit["vgpr"] == 4  # 1024 registers; gfx942 with 512 has room for 2


def test_it_is_a_target_of_the_configuration() -> None:
    composed, _ = compose_overrides(["target=mi999x"])

    assert Target.model_validate(composed["target"]) == load_target("mi999x")


def test_it_has_the_metrics_and_counter_slots_of_its_counter_set() -> None:
    metrics = load_metrics("gfx9f0")
    facts = target_facts(load_target("mi999x"), duration_ns=1000.0)
    counters = {"TCC_EA0_RDREQ_sum": 10.0, "TCC_EA0_RDREQ_32B_sum": 0.0, "TCC_BUBBLE_sum": 0.0}

    assert metrics == load_metrics("gfx942")
    assert evaluate_metric(metrics["dram_read_bytes"], [counters], facts).value == 640
    assert "gfx9f0" in metric_architectures()["dram_read_bytes"]
    assert "gfx9f0" in architectures_of(["TCC_EA0_RDREQ_sum"])
    assert plan_passes("gfx9f0", ["SQ_WAVES", "TCC_HIT_sum"]) == (("SQ_WAVES", "TCC_HIT_sum"),)


def test_static_features_of_its_code_objects_are_read(working_directory: Path) -> None:
    source = '#include <hip/hip_runtime.h>\nextern "C" __global__ void scale(float* x) { x[threadIdx.x] *= 2.0f; }'
    compiled = build_hip(source, working_directory, architecture="gfx942").code_object
    data = bytearray(compiled.data)
    data[48] = 0xFE  # e_flags: EF_AMDGPU_MACH

    code_object = read_code_object(bytes(data))
    (kernel,) = code_object.kernels

    assert code_object.architecture == "gfx9f0"
    assert static_features(code_object, kernel) == static_features(compiled, compiled.kernels[0])
    assert [line.text for line in disassemble(code_object, kernel.symbol)][-1].startswith("s_endpgm")
    assert launch_occupancy(load_target("mi999x"), occupancy_request(kernel, workgroup_size=64)).waves_per_simd == 8


def test_register_counts_of_its_profiles_are_decoded() -> None:
    reported = reported_registers("gfx9f0", compute_pgm_rsrc1=7, compute_pgm_rsrc3=15, wavefront_size=64)

    assert (reported.arch_vgprs, reported.accum_vgprs) == (32, 0)
    assert corrected_vgprs("gfx9f0", 32, 0, [0]) == (64, 0)


def test_a_trace_of_another_product_uses_its_limits(working_directory: Path) -> None:
    (working_directory / "conf" / "target" / "mi999x.yaml").unlink()

    found = observed_target("gfx9f0", "AMD Instinct MI998X", {"cu_count": 64}, load_target("mi300x"))

    assert (found.target.compute_units, found.target.wave_limits.vgprs_per_lane) == (64, 1024)
    assert found.target.lds_pool.bytes == 131072
    assert found.notes == ("no target describes gfx9f0: peaks are not available",)
