"""Accounts of lost time from PC samples, with values computed from the raw samples."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scipy.stats import binomtest

from rocm_perf_lab.analysis.ledger import Account, Cause, HardwareUnit
from rocm_perf_lab.analysis.sample_account import sample_account, sampled_kernel
from rocm_perf_lab.analysis.sampled_exposure import exposure_of
from rocm_perf_lab.analysis.sampled_places import interval, line_of, samples_by_line
from rocm_perf_lab.analysis.sampled_waits import pending_operations
from rocm_perf_lab.rocprof.pc_samples import (
    ArbiterState,
    PcSampling,
    Pipe,
    SampledInstruction,
    SampledKernel,
    SamplingMethod,
    StallReason,
)
from rocm_perf_lab.rocprof.pc_samples_reader import read_pc_samples

RECORDED = Path(__file__).parent.parent / "data" / "recorded" / "pc_sampling"
BARRIER, WAITCNT, NOT_WIN = 5, 3, 6


def _instruction(text: str, address: int, samples: int = 0, **more: object) -> SampledInstruction:
    return SampledInstruction(text, str(more.pop("source", "")), 1, address, samples, **more)  # type: ignore[arg-type]


def _sampling(kernel: SampledKernel, method: SamplingMethod = SamplingMethod.STOCHASTIC) -> PcSampling:
    return PcSampling(Path("samples.json"), method, (kernel,))


def _share(account: Account, cause: Cause) -> float:
    return sum(part.share or 0 for part in account.losses if part.cause is cause)


def test_recorded_samples_are_charged_to_their_reasons() -> None:
    rows = [row for row in json.loads((RECORDED / "code.json").read_text())["code"] if not row[0].startswith(";")]
    total = sum(row[10] + row[11] for row in rows)
    issued = sum(row[10] for row in rows) / total
    (sampling,) = read_pc_samples(RECORDED)
    exposure = exposure_of(sampling.kernels[0])
    assert exposure is not None

    account = sample_account(sampling)

    # The wavefronts that compete are those that explain how often a ready one loses.
    ready = issued + sum(row[12][NOT_WIN] for row in rows) / total
    waves = exposure.waves_per_simd
    assert (1 - (1 - ready) ** waves) / (waves * ready) == pytest.approx(issued / ready)
    assert exposure.factor == pytest.approx((1 - issued) ** (waves - 1))
    barriers = sum(row[12][BARRIER] for row in rows) / total
    assert _share(account, Cause.BARRIER_IMBALANCE) == pytest.approx(barriers * exposure.factor)
    refused = sum(sum(row[12][6:8]) - row[12][NOT_WIN] for row in rows if row[0].startswith("global_")) / total
    assert _share(account, Cause.MEMORY_BACKPRESSURE) == pytest.approx(refused * exposure.factor)
    spilled = {49228, 49268, 49308}  # s_waitcnt vmcnt(0) right behind scratch_load_dword, by reading the listing
    spills = [part for part in account.losses if part.cause is Cause.REGISTER_SPILLS]
    waits = {row[5]: row[12][WAITCNT] for row in rows}
    assert {part.location for part in spills} <= {"kernel.cpp:586", "kernel.cpp:590", "kernel.cpp:592", None}
    assert sum(part.share or 0 for part in spills) == pytest.approx(
        sum(waits[address] for address in spilled) / total * exposure.factor, rel=0.1
    )
    assert all(0 <= (part.share or 0) <= (part.gain or 1) <= 1 for part in account.losses)
    assert 0.3 < sum(part.share or 0 for part in account.losses) < 1 - issued


def test_lines_of_the_recording_have_the_sums_of_the_raw_rows() -> None:
    rows = json.loads((RECORDED / "code.json").read_text())["code"]
    (sampling,) = read_pc_samples(RECORDED)

    lines = samples_by_line(sampling.kernels[0])

    assert lines["kernel.cpp:552"] == sum(row[10] + row[11] for row in rows if row[3].endswith("/kernel.cpp:552"))
    assert list(lines.values()) == sorted(lines.values(), reverse=True)
    assert sum(lines.values()) == 4690


def test_the_arbiter_tells_hidden_from_exposed_waiting() -> None:
    load = _instruction("global_load_dword v1, v[2:3], off", 0, 100, issued=100, source="a.hip:3", active_lanes=64.0)
    wait = _instruction(
        "s_waitcnt vmcnt(0)",
        8,
        300,
        reasons={StallReason.WAITCNT: 300},
        exposed={StallReason.WAITCNT: 120},
        source="a.hip:4",
    )
    unsampled = _instruction("s_endpgm", 12)
    arbiter = ArbiterState(400, 280, 40, {Pipe.VALU: 200, Pipe.SCALAR: 60}, {})
    kernel = SampledKernel("k", 1, (load, wait, unsampled), {16: 400}, arbiter)

    account = sample_account(_sampling(kernel))

    memory, overhead = account.losses
    assert (memory.cause, memory.share, memory.location) == (Cause.MEMORY_LATENCY, 0.3, "a.hip:3")
    assert "300 of 400 PC samples (75.0%" in memory.evidence[0].text
    assert memory.gain == 0.3  # all exposed waiting waits for it
    assert memory.confidence > 0.8
    assert (overhead.cause, overhead.share) == (Cause.INSTRUCTION_OVERHEAD, 0.1)
    used = {unit.unit: unit.share for unit in account.units}
    assert used == {HardwareUnit.VALU: 0.5, HardwareUnit.INSTRUCTION_ISSUE: 0.6}
    assert account.missing == ()


def test_wave_counts_give_an_estimate_without_the_arbiter() -> None:
    alu = _instruction("v_add_f32_e32 v0, v1, v2", 0, 200, issued=200, active_lanes=64.0)
    barrier = _instruction("s_barrier", 4, 200, reasons={StallReason.BARRIER_WAIT: 200})
    kernel = SampledKernel("k", 1, (alu, barrier), {8: 400})

    account = sample_account(_sampling(kernel))

    # Two wavefronts per SIMD, each issues half of its time: the other one hides half of the waiting. But the vector ALU is then
    # busy all the time, and waiting behind it is no loss.
    assert exposure_of(kernel).factor == 0.5  # type: ignore[union-attr]
    assert account.losses == ()
    assert [(unit.unit, unit.share) for unit in account.units] == [(HardwareUnit.VALU, 1.0)]
    assert "arbiter" in account.missing[0]


def test_waiting_behind_a_busy_pipe_is_no_loss() -> None:
    matrix = _instruction(
        "v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]",
        0,
        100,
        issued=20,
        reasons={StallReason.ARBITER_WIN_EX_STALL: 60, StallReason.ARBITER_NOT_WIN: 20},
    )

    account = sample_account(_sampling(SampledKernel("k", 1, (matrix,))))

    assert account.losses == ()
    assert [unit.unit for unit in account.units] == [HardwareUnit.MATRIX]


def test_a_wait_at_the_start_of_a_loop_finds_the_load_at_its_end() -> None:
    code = (
        _instruction("s_load_dwordx2 s[0:1], s[4:5], 0x0", 0),
        _instruction("s_waitcnt vmcnt(0)", 8, 5),
        _instruction("v_add_f32_e32 v1, v0, v1", 12, 5),
        _instruction("global_load_dword v0, v[2:3], off", 16, 5),
        _instruction("s_cbranch_scc1 65531", 24, 5),  # to 8 = 24 + 4 + 4 * (65531 - 65536)
        _instruction("s_waitcnt lgkmcnt(0)", 28, 5),
    )

    pending = pending_operations(code, 9)

    assert {number: (found.kind, found.instruction) for number, found in pending.items()} == {
        1: ("load", code[3]),
        5: ("scalar", code[0]),
    }


def test_without_the_whole_code_the_counter_of_a_wait_tells_the_kind() -> None:
    scalar = SampledInstruction("s_load_dword s0, s[2:3], 0x0", "", None, None, 5)
    vector = SampledInstruction("s_waitcnt vmcnt(0)", "", None, None, 5)
    either = SampledInstruction("s_waitcnt lgkmcnt(0)", "", None, None, 5)
    lds = SampledInstruction("ds_read_b32 v0, v1", "", None, None, 5)

    with_scalar = pending_operations((scalar, vector, either), 9)
    with_both = pending_operations((scalar, vector, either, lds), 9)

    assert {number: found.kind for number, found in with_scalar.items()} == {1: "load", 2: "scalar"}
    assert {number: found.kind for number, found in with_both.items()} == {1: "load"}


def test_host_trap_samples_do_not_decide_the_cause() -> None:
    wait = _instruction("s_waitcnt vmcnt(0)", 8, 30, source="a.hip:4")
    add = _instruction("v_add_f32_e32 v0, v1, v2", 12, 10, source="a.hip:5", active_lanes=16.0)
    kernel = SampledKernel("k", 1, (wait, add))

    account = sample_account(_sampling(kernel, SamplingMethod.HOST_TRAP))

    (divergence,) = account.losses
    assert (divergence.cause, divergence.share) == (Cause.DIVERGENCE, None)
    assert "not decidable" in account.missing[0]
    assert "stochastic" in account.missing[0]
    assert account.notes == ("40 PC samples: 75.0% at a.hip:4; 25.0% at a.hip:5",)


def test_inactive_lanes_are_a_loss_of_the_time_in_which_vector_instructions_issue() -> None:
    full = _instruction("v_mul_f32_e32 v0, v1, v2", 0, 100, issued=100, active_lanes=64.0)
    half = _instruction(
        "v_add_f32_e32 v0, v1, v2", 4, 200, issued=100, reasons={StallReason.OTHER_WAIT: 100}, active_lanes=32.0, source="a.hip:9"
    )
    kernel = SampledKernel("k", 1, (full, half), {4: 300})

    account = sample_account(_sampling(kernel))

    (part,) = account.losses
    assert (part.cause, part.location) == (Cause.DIVERGENCE, "a.hip:9")
    assert part.share == pytest.approx(200 / 300 * 0.25)  # a quarter of the lanes, in two thirds of the time


def test_names_of_kernels_match_mangled_or_not() -> None:
    kernel = SampledKernel("_Z4copyPf", 1, (_instruction("s_endpgm", 0, 1),))
    sampling = _sampling(kernel)

    assert sampled_kernel(sampling, "_Z4copyPf.kd") is kernel
    assert sampled_kernel(sampling, "copy(float*)") is kernel
    assert sampled_kernel(sampling, None) is kernel
    assert sampled_kernel(sampling, "_Z4scalPf") is None
    assert sample_account(sampling, "_Z4scalPf").losses == ()


@pytest.mark.parametrize(("count", "total"), [(30, 100), (0, 7), (7, 7), (1, 4690)])
def test_intervals_are_those_of_wilson(count: int, total: int) -> None:
    reference = binomtest(count, total).proportion_ci(0.95, "wilson")

    assert interval(count, total) == pytest.approx((reference.low, reference.high), abs=1e-12)


def test_lines_of_headers_are_those_of_their_callers() -> None:
    header = "/opt/rocm/lib/llvm/bin/../../../include/hip/amd_detail/amd_hip_runtime.h:259"

    assert line_of(f"{header} -> /work/a.hip:12") == "a.hip:12"
    assert line_of(header) == "amd_hip_runtime.h:259"
    assert line_of("") is None
