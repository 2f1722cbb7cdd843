"""Thread traces of the timing engine: the parts of a wavefront add up to its lifetime, hits are those of its blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.emulator.build import Runtime, load_runtime
from rocm_perf_lab.emulator.timing.engine import TracedLaunch, estimate
from tests.builders.emulation import EmulatorBench, emulation_code_object, int32
from tests.builders.targets import mi300x
from tests.builders.timed_launches import (
    BARRIER,
    END,
    LDS_READ,
    LOAD,
    STORE,
    VALU,
    WAIT_LDS,
    WAIT_LOADS,
    Step,
    lds_record,
    traced_launch,
    vector_record,
)

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.timing.thread_trace import TracedWave

TARGET = mi300x()
assert TARGET.timing is not None
TIMING = TARGET.timing
SCALAR = Step("S_ADD_U32", "SOP2")
STEPS = [LOAD, VALU, SCALAR, LDS_READ, WAIT_LDS, BARRIER, WAIT_LOADS, VALU, STORE, END]
RECORDS = [vector_record(0, [0, 64, 4096]) + lds_record(3, 7) + vector_record(8, [1 << 20])] * 6


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    return load_runtime()


def lengths(wave: TracedWave) -> tuple[int, int]:
    """Return the lifetime, and latency + idle of all instructions."""
    before = np.concatenate([[wave.begin], wave.done[:-1]])
    return wave.end - wave.begin, int((wave.done - wave.attempts).sum() + (wave.attempts - before).sum())


def test_a_thread_trace_is_optional_and_does_not_change_the_time(runtime: Runtime) -> None:
    launch = traced_launch(STEPS, [RECORDS], workgroups=3000, resident=3)

    plain, traced = estimate(runtime, launch, TARGET), estimate(runtime, launch, TARGET, thread_trace=True)

    assert plain.thread_trace == ()
    assert (plain.duration_ns, plain.counters) == (traced.duration_ns, traced.counters)
    assert len(traced.thread_trace) == 10 * 6  # ceil(3000 / 304) workgroups on the compute unit


def test_latency_and_idle_add_up_to_the_lifetime_of_every_wavefront(runtime: Runtime) -> None:
    waves = estimate(
        runtime, traced_launch(STEPS, [RECORDS], workgroups=3000, resident=3), TARGET, thread_trace=True
    ).thread_trace  # fmt: skip

    for wave in waves:
        life, parts = lengths(wave)
        assert life == parts > 0
        assert (wave.attempts <= wave.issued).all()
        assert (wave.issued <= wave.done).all()


def test_totals_of_the_wavefronts_are_those_of_the_estimate(runtime: Runtime) -> None:
    result = estimate(runtime, traced_launch(STEPS, [RECORDS], workgroups=3000, resident=3), TARGET, thread_trace=True)

    for index in range(len(STEPS)):
        latency = sum(int((w.done - w.attempts)[w.instructions == index].sum()) for w in result.thread_trace)
        hits = sum(int((w.instructions == index).sum()) for w in result.thread_trace)
        assert hits == result.hits[index] == len(result.thread_trace)
        assert latency == pytest.approx(result.latency_cycles[index], abs=2 * hits)


def test_cycles_of_one_wavefront_counted_by_hand(runtime: Runtime) -> None:
    (wave,) = estimate(runtime, traced_launch([VALU, SCALAR, VALU, END]), TARGET, thread_trace=True).thread_trace

    start = TIMING.first_fetch_cycles
    assert (wave.attempts - start).tolist() == [0, 4, 8, 12]
    assert (wave.done - start).tolist() == [4, 8, 12, 16]
    assert (wave.simd, wave.slot, wave.begin, wave.end) == (0, 0, 0, start + 16)


def test_a_wait_has_the_latency_of_its_load_and_the_load_only_its_issue(runtime: Runtime) -> None:
    launch = traced_launch([LOAD, WAIT_LOADS, END], [[vector_record(0, [0])]])

    (wave,) = estimate(runtime, launch, TARGET, thread_trace=True).thread_trace

    assert (wave.done - wave.attempts)[0] == 4
    assert (wave.issued - wave.attempts)[1] > 0.9 * TIMING.dram_latency


def test_a_busy_simd_is_a_stall_and_a_lost_scalar_unit_is_idle(runtime: Runtime) -> None:
    vector = estimate(runtime, traced_launch([VALU, END], [[()] * 9]), TARGET, thread_trace=True).thread_trace
    scalar = estimate(runtime, traced_launch([SCALAR, END], [[()] * 5]), TARGET, thread_trace=True).thread_trace

    assert [int((w.issued - w.attempts)[0]) for w in vector] == [0] * 8 + [4]  # slots 0 and 1 of a SIMD have ports of their own
    assert [(w.simd, w.slot) for w in vector[:5]] == [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1)]
    assert [int(w.attempts[0]) - TIMING.first_fetch_cycles for w in scalar] == [0, 0, 0, 0, 4]
    assert all((w.issued == w.attempts).all() for w in scalar)


def test_a_barrier_lasts_until_the_last_wavefront(runtime: Runtime) -> None:
    records = [[vector_record(0, [0]), ()]]
    launch = traced_launch([LOAD, WAIT_LOADS, BARRIER, END], records)

    late, early = estimate(runtime, launch, TARGET, thread_trace=True).thread_trace

    assert late.done[2] == early.done[2]
    assert (early.done - early.attempts)[2] > (late.done - late.attempts)[2] + 700


def test_long_launches_are_traced_in_part(runtime: Runtime) -> None:
    launch = traced_launch([VALU] * 50_000 + [END], [[()] * 4], workgroups=10_000, resident=2)

    assert len(estimate(runtime, launch, TARGET, thread_trace=True).thread_trace) == 2 * 4


def test_equal_launches_give_equal_traces(runtime: Runtime) -> None:
    def trace(base: int) -> list[list[int]]:
        launch = traced_launch(STEPS, [RECORDS], workgroups=900, resident=2, base=base)
        return [w.done.tolist() for w in estimate(runtime, launch, TARGET, thread_trace=True).thread_trace]

    assert trace(0) == trace(0)


@pytest.mark.parametrize(("kernel", "block"), [("reduce", 256), ("scratch", 64)])
def test_hits_are_the_executions_of_the_blocks_of_a_real_kernel(runtime: Runtime, kernel: str, block: int) -> None:
    x = np.arange(256, dtype=np.int32)
    with EmulatorBench(emulation_code_object(), sample=1) as bench:
        out = bench.buffer(np.zeros(256, np.int32), "out")
        arguments = (bench.buffer(x), out) if kernel == "reduce" else (out, int32(3))
        result = bench.launch(kernel, 1, block, *arguments, lds=4 * block)
    launch = TracedLaunch(result.program, result.traces, [(out.address, out.nbytes)], 1, result.waves, 1)

    waves = estimate(runtime, launch, TARGET, thread_trace=True).thread_trace

    hits = np.bincount(np.concatenate([wave.instructions for wave in waves]), minlength=len(result.program.instructions))
    assert len(waves) == result.waves == block // 64
    assert hits.sum() == result.counters["SQ_INSTS"]
    for b in result.program.blocks:
        assert {int(hits[i.index]) for i in b.instructions} == {int(result.block_executions[b.index])}
    for wave in waves:
        assert lengths(wave)[0] == lengths(wave)[1]
