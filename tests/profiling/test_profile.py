"""Selection of the kernel, and the profile built from trace, target and compiler metadata."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.profiling.profile import build_profile
from rocm_perf_lab.profiling.selection import ProfileError, rank_kernels, select_kernel
from rocm_perf_lab.rocprof.loading import read_counter_passes
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.rocprof.recording import KernelSymbolRecord
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.target.occupancy import LaunchImpossible
from rocm_perf_lab.toolchain.code_object import KernelDescriptor, KernelMetadata
from tests.builders.rocpd import REDUCE, VEC_COPY, dispatch, recorded_run

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.rocprof.recording import DispatchRecord
    from rocm_perf_lab.rocprof.trace import Trace

TARGET = load_target("mi300x")
HELPERS = ("^__amd_rocclr_",)
FILL = KernelSymbolRecord(3, 1, "__amd_rocclr_fillBufferAligned", "__amd_rocclr_fillBufferAligned", 8, 0, 16, 0, 0)


def trace_of(directory: Path, dispatches: list[DispatchRecord]) -> Trace:
    write_database(directory / "x.db", recorded_run(TARGET, dispatches, kernels=(VEC_COPY, REDUCE, FILL)))
    return read_database(directory / "x.db")


def metadata(*, vgprs: int, agprs: int, sgprs: int) -> KernelMetadata:
    return KernelMetadata(
        symbol="reduce", name="reduce", entry_address=0, code_bytes=64, descriptor_address=0,
        descriptor=KernelDescriptor(0, 0, 0, 0, 0, 0, 0, 0, 0), vgpr_count=vgprs, agpr_count=agprs, sgpr_count=sgprs,
        vgpr_spill_count=3, sgpr_spill_count=0, lds_bytes=1024, scratch_bytes=16, kernarg_bytes=0, kernarg_alignment=8,
        wavefront_size=64, max_flat_workgroup_size=1024, required_workgroup_size=None, uses_dynamic_stack=False,
        arguments=(),
    )  # fmt: skip


def test_the_kernel_with_the_largest_total_time_is_selected(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [dispatch(0, 60), dispatch(100, 160), dispatch(200, 300, kernel=REDUCE)])

    ranked = rank_kernels(trace, HELPERS)

    assert [(kernel.mangled_name, kernel.total_ns, kernel.exposed_ns) for kernel in ranked] == [
        ("_Z7vecCopyPdS_S_ii", 120, 120),
        ("reduce", 100, 100),
    ]
    assert select_kernel(trace, ranked).name == VEC_COPY.display_name
    assert ranked[0].share == pytest.approx(120 / 220)


def test_runtime_helpers_are_skipped(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [dispatch(0, 1000, kernel=FILL), dispatch(2000, 2010, kernel=REDUCE)])

    assert build_profile(trace, target=TARGET, helper_patterns=HELPERS).kernel.name == "reduce"


def test_if_only_helpers_ran_the_longest_is_used_with_a_note(tmp_path: Path) -> None:
    profile = build_profile(trace_of(tmp_path, [dispatch(0, 9, kernel=FILL)]), target=TARGET, helper_patterns=HELPERS)

    assert profile.kernel.name == FILL.display_name
    assert "only runtime helper kernels were dispatched" in profile.notes


def test_grid_counts_workgroups_and_block_work_items(tmp_path: Path) -> None:
    profile = build_profile(trace_of(tmp_path, [dispatch(0, 5)]), target=TARGET)

    assert (profile.grid, profile.block, profile.threads_per_block) == ((4096, 1, 1), (256, 1, 1), 256)


def test_the_compilers_registers_are_preferred_to_the_profilers(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [dispatch(0, 5, kernel=REDUCE)])

    compiled = build_profile(trace, target=TARGET, resources=metadata(vgprs=96 + 32, agprs=32, sgprs=40))
    reported = build_profile(trace, target=TARGET)

    assert (compiled.resources.vgpr_per_thread, compiled.resources.agpr_per_thread) == (96, 32)
    assert (compiled.resources.vgpr_spills, compiled.resources.source) == (3, "code object")
    assert (reported.resources.vgpr_per_thread, reported.resources.source) == (32, "profiler")
    # 96 + 32 = 128 of 512 registers: 4 wavefronts per SIMD.
    assert (compiled.occupancy.waves_per_simd, compiled.occupancy.limiter) == (4, "vgpr")


def test_lds_and_scratch_are_those_of_the_dispatch(tmp_path: Path) -> None:
    profile = build_profile(trace_of(tmp_path, [dispatch(0, 5, kernel=REDUCE)]), target=TARGET)

    assert (profile.resources.lds_bytes, profile.resources.scratch_bytes) == (1024, 16)


def test_counters_are_the_mean_over_the_kernels_own_dispatches(tmp_path: Path) -> None:
    run = [
        dispatch(0, 50, counters={"SQ_WAVES": 10}),
        dispatch(60, 110, counters={"SQ_WAVES": 20}),
        dispatch(200, 201, kernel=REDUCE, counters={"SQ_WAVES": 9999}),
    ]

    assert build_profile(trace_of(tmp_path, run), target=TARGET).counter_passes == ({"SQ_WAVES": 15.0},)


def test_every_counter_run_is_a_separate_pass(tmp_path: Path) -> None:
    timed = trace_of(tmp_path, [dispatch(0, 5)])
    counted = trace_of(tmp_path, [dispatch(0, 9, counters={"SQ_WAVES": 4})])

    profile = build_profile(timed, target=TARGET, counter_traces=[counted, counted])

    assert profile.counter_passes == ({"SQ_WAVES": 4.0},) * 2
    assert profile.durations_ns == (5,)


def test_counters_in_csv_are_of_the_kernel_by_its_demangled_name(tmp_path: Path) -> None:
    timed = trace_of(tmp_path, [dispatch(0, 10)])
    (tmp_path / "1_counter_collection.csv").write_text(
        '"Dispatch_Id","Agent_Id","Grid_Size","Kernel_Name","Workgroup_Size","Counter_Name","Counter_Value","Start_Timestamp",'
        '"End_Timestamp"\n'
        '1,"Agent 1",1024,"vecCopy(double*, double*, double*, int, int)",64,"SQ_WAVES",16.0,1,2\n'
        '2,"Agent 1",1024,"other(int)",64,"SQ_WAVES",99.0,3,4\n'
    )

    profile = build_profile(timed, target=TARGET, counter_traces=read_counter_passes(tmp_path / "1_counter_collection.csv"))

    assert profile.counter_passes == ({"SQ_WAVES": 16.0},)


def test_dispatches_that_end_before_they_start_are_ignored_and_counted(tmp_path: Path) -> None:
    profile = build_profile(trace_of(tmp_path, [dispatch(100, 50), dispatch(200, 230)]), target=TARGET)

    assert profile.durations_ns == (30,)
    assert "1 dispatches end before they start and were ignored" in profile.notes


def test_decreasing_times_yield_no_profile(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="clocks"):
        build_profile(trace_of(tmp_path, [dispatch(100, 50)]), target=TARGET)


def test_a_run_without_dispatches_yields_no_profile(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="no kernel was dispatched"):
        build_profile(trace_of(tmp_path, []), target=TARGET)


def test_a_trace_of_another_architecture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="the trace is of gfx942, the target mi250x is gfx90a"):
        build_profile(trace_of(tmp_path, [dispatch(0, 1)]), target=load_target("mi250x"))


def test_a_kernel_that_was_not_dispatched_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="'gemm' was not dispatched"):
        build_profile(trace_of(tmp_path, [dispatch(0, 1)]), target=TARGET, symbol="gemm")


def test_a_broken_helper_pattern_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="not a regular expression"):
        build_profile(trace_of(tmp_path, [dispatch(0, 1)]), target=TARGET, helper_patterns=["("])


def test_provenance_names_the_device_and_hashes_the_database(tmp_path: Path) -> None:
    profile = build_profile(trace_of(tmp_path, [dispatch(0, 1)]), target=TARGET, identity_note="no /dev/kfd")

    assert (profile.provenance.trace.device, profile.provenance.trace.emulated) == ("emulator", True)
    assert profile.provenance.note == "no /dev/kfd"
    assert len(profile.provenance.database_sha256) == 64


def test_mangled_names_are_demangled(tmp_path: Path) -> None:
    mangled = dataclasses.replace(VEC_COPY, display_name=VEC_COPY.mangled_name)
    write_database(tmp_path / "m.db", recorded_run(TARGET, [dispatch(0, 1)], kernels=(mangled,)))

    profile = build_profile(read_database(tmp_path / "m.db"), target=TARGET)

    assert profile.kernel.name == "vecCopy(double*, double*, double*, int, int)"


@pytest.mark.parametrize(
    ("agprs", "limiter", "what_if"),
    [
        # 65536 / 32768 = 2 groups of 4 waves: 2 per SIMD. LLVM then allocates 176 registers, with which 3 do not fit either.
        (176 - 32, "lds", "saving 11264 bytes of LDS allows one more wave per SIMD"),
        (184 - 32, "vgpr", "saving 16 VGPRs and 11264 bytes of LDS allows one more wave per SIMD"),
    ],
)
def test_registers_that_the_compiler_only_pads_do_not_limit(tmp_path: Path, agprs: int, limiter: str, what_if: str) -> None:
    padded = KernelSymbolRecord(9, 1, "tile", "tile", 32, agprs, 16, 32768, 0)
    write_database(tmp_path / "x.db", recorded_run(TARGET, [dispatch(0, 5, kernel=padded)], kernels=(padded,)))

    occupancy = build_profile(read_database(tmp_path / "x.db"), target=TARGET).occupancy

    assert (occupancy.waves_per_simd, occupancy.limiter, occupancy.what_if) == (2, limiter, (what_if,))


def test_vgprs_that_the_profiler_halves_are_corrected_with_a_note(tmp_path: Path) -> None:
    target = load_target("gfx950")
    halved = KernelSymbolRecord(9, 1, "wide", "wide", 64, 0, 16, 0, 0)
    write_database(tmp_path / "x.db", recorded_run(target, [dispatch(0, 5, kernel=halved)], kernels=(halved,)))

    profile = build_profile(read_database(tmp_path / "x.db"), target=target)

    assert (profile.resources.vgpr_per_thread, profile.occupancy.waves_per_simd) == (128, 4)
    assert "rocprofv3 reports half of the allocated VGPRs on this architecture: the count is doubled" in profile.notes


def test_a_launch_that_ran_always_has_an_occupancy(tmp_path: Path) -> None:
    # 1024 work-items are 16 wavefronts, 4 on each SIMD, which has 512 registers for them.
    wide = KernelSymbolRecord(9, 1, "wide", "wide", 128, 128, 16, 0, 0)
    run = recorded_run(
        TARGET, [dataclasses.replace(dispatch(0, 5, kernel=wide), workgroup=(1024, 1, 1))], emulated=False, kernels=(wide,)
    )
    write_database(tmp_path / "x.db", run)

    assert build_profile(read_database(tmp_path / "x.db"), target=TARGET).occupancy.waves_per_simd == 4


def test_missing_register_counts_are_noted(tmp_path: Path) -> None:
    bare = KernelSymbolRecord(9, 1, "bare", "bare", 0, 0, 0, 0, 0)
    write_database(tmp_path / "x.db", recorded_run(TARGET, [dispatch(0, 5, kernel=bare)], kernels=(bare,)))

    notes = build_profile(read_database(tmp_path / "x.db"), target=TARGET).notes

    assert "the trace does not state the kernel's register counts: the occupancy shown is an upper bound" in notes


def test_an_impossible_launch_of_compiled_code_is_an_error(tmp_path: Path) -> None:
    run = recorded_run(TARGET, [dataclasses.replace(dispatch(0, 5, kernel=REDUCE), workgroup=(1024, 1, 1))])
    write_database(tmp_path / "x.db", run)

    with pytest.raises(LaunchImpossible, match="16 wavefronts of 160 VGPRs"):
        build_profile(read_database(tmp_path / "x.db"), target=TARGET, resources=metadata(vgprs=160, agprs=0, sgprs=16))


@pytest.mark.parametrize(("waves", "lanes"), [(4096 * 8, 32), (4096 * 4, 64), (7, 32), (None, 32)])
def test_counted_wavefronts_determine_the_wave_size(tmp_path: Path, waves: int | None, lanes: int) -> None:
    radeon = load_target("rx6800xt")
    counters = {} if waves is None else {"SQ_WAVES": float(waves)}
    write_database(tmp_path / "x.db", recorded_run(radeon, [dispatch(0, 60, counters=counters)], kernels=(VEC_COPY,)))

    assert build_profile(read_database(tmp_path / "x.db"), target=radeon).wave_size == lanes
