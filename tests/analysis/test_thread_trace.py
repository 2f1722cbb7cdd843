"""The analysis of thread traces, on traces small enough to count by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rocm_perf_lab.analysis.roofline import Unavailable
from rocm_perf_lab.analysis.thread_trace import ThreadTrace, analyse
from rocm_perf_lab.analysis.traced_lines import UNKNOWN_SOURCE
from rocm_perf_lab.rocprof.att.model import AttTrace, Column, KernelLabel, WaveKey
from rocm_perf_lab.toolchain.static_features import instruction_class
from tests.builders.att import thread_trace

LOAD_A = ("global_load_dword v1, v0, s[0:1]", "k.hip:10")
LOAD_B = ("buffer_load_dwordx4 v[4:7], v0, s[8:11], 0 offen", "k.hip:11")
LDS = ("ds_read_b32 v9, v8", "k.hip:12")
SMEM = ("s_load_dwordx2 s[0:1], s[4:5], 0x0", "k.hip:9")
ADD = ("v_add_f32_e32 v2, v1, v1", "k.hip:20")
MFMA = ("v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]", "k.hip:30")
READ = ("v_accvgpr_read_b32 v9, a3", "k.hip:31")
LOOP = ("s_cbranch_scc1 65530", "k.hip:8")
BARRIER = ("s_barrier", "k.hip:40")
END = ("s_endpgm", "")


def wait(text: str, source: str = "k.hip:20") -> tuple[str, str]:
    return f"s_waitcnt {text}", source


def analysed(trace: AttTrace, **options: object) -> ThreadTrace:
    result = analyse(trace, **options)  # type: ignore[arg-type]
    assert isinstance(result, ThreadTrace)
    return result


def charged(result: ThreadTrace) -> dict[tuple[int, int], float]:
    """(row that waited, row that it waited for) -> cycles."""
    return {(charge.victim.line, charge.cause.line): charge.cycles for charge in result.charges}


def test_time_is_latency_and_idle_and_never_counts_stall_twice() -> None:
    trace = thread_trace([LOAD_A, wait("vmcnt(0)"), ADD, END], [(1, 4, 4, 8), (2, 0, 700, 700), (3, 8, 0, 4), (4, 0, 0, 4)])

    result = analysed(trace)

    assert (result.total.cycles, result.total.latency, result.total.stall, result.total.idle) == (728, 716, 704, 12)
    assert result.total.cycles == trace.waves[0].cycles
    assert result.stall_fraction == 704 / 728
    assert result.issue_fraction == 12 / 728
    assert result.idle_fraction == 12 / 728
    assert result.instructions_per_cycle == 4 / 728


def test_every_instruction_is_in_the_class_of_its_unit() -> None:
    code = [LOAD_A, LOAD_B, LDS, SMEM, ADD, MFMA, LOOP, BARRIER, wait("vmcnt(0)"), ("scratch_store_dword off, v0, s32", ""), END]

    classes = analysed(thread_trace(code, [(n, 0, 0, 4) for n in range(1, 12)])).classes

    assert {kind: spent.cycles for kind, spent in classes.items()} == {
        "vmem": 12, "lds": 4, "smem": 4, "valu": 4, "mfma": 4, "branch": 4, "barrier": 4, "waitcnt": 4, "other": 4,
    }  # fmt: skip
    assert sum(spent.share for spent in classes.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("buffer_gl0_inv", "vmem"), ("image_sample v[0:3], v[0:1]", "vmem"), ("s_waitcnt_vscnt null, 0x0", "waitcnt"),
        ("s_waitcnt_depctr 0xffe3", "waitcnt"), ("s_clause 0x3", "other"), ("s_inst_prefetch 0x1", "other"),
        ("v_dot4_i32_i8 v0, v1, v2, v3", "valu"), ("s_subvector_loop_end s0", "branch"), ("s_gl1_inv", "smem"),
        ("ds_bpermute_b32 v0, v1, v2", "lds"), ("v_unheard_of v0", "valu"), ("unheard_of v0", "other"),
    ],
)  # fmt: skip
def test_instructions_of_rdna2_and_unknown_ones(text: str, kind: str) -> None:
    assert instruction_class(text.partition(" ")[0]) == kind


def test_lines_sum_their_instructions_and_are_ordered_by_time() -> None:
    inlined = ("v_mul_f32_e32 v3, v3, v3", "k.hip:10 -> k.hip:50")
    trace = thread_trace([LOAD_A, inlined, ADD, END], [(1, 0, 0, 4), (2, 4, 0, 8), (3, 0, 0, 4), (4, 0, 0, 20)])

    lines = analysed(trace).lines

    assert [(line.source, line.spent.cycles, line.spent.hits) for line in lines] == [
        (UNKNOWN_SOURCE, 20, 1),
        ("k.hip:10", 16, 2),
        ("k.hip:20", 4, 1),
    ]


def test_a_wait_is_charged_to_its_load() -> None:
    trace = thread_trace([LOAD_A, wait("vmcnt(0)"), ADD, END], [(1, 0, 0, 4), (2, 0, 700, 700), (3, 0, 0, 4), (4, 0, 0, 4)])

    result = analysed(trace)

    assert charged(result) == {(2, 1): 700}
    assert result.charged == {"vmem": 700}
    assert (result.wait_cycles, result.unattributed_cycles) == (700, 0)
    lines = {line.source: line for line in result.lines}
    assert (lines["k.hip:20"].spent.cycles, lines["k.hip:20"].caused_cycles) == (704, 4)
    assert (lines["k.hip:10"].spent.cycles, lines["k.hip:10"].caused_cycles) == (4, 704)
    assert (lines["k.hip:20"].waits_for, lines["k.hip:20"].waits_for_class, lines["k.hip:20"].waited_cycles) == (
        "k.hip:10", "vmem", 700,
    )  # fmt: skip
    assert sum(line.caused_cycles for line in result.lines) == result.total.cycles


def test_a_partial_wait_is_charged_to_the_oldest_load_only() -> None:
    code = [LOAD_A, LOAD_B, wait("vmcnt(1)"), wait("vmcnt(0)"), END]

    result = analysed(thread_trace(code, [(1, 0, 0, 4), (2, 0, 0, 4), (3, 0, 500, 500), (4, 0, 60, 60), (5, 0, 0, 4)]))

    assert charged(result) == {(3, 1): 500, (4, 2): 60}


def test_a_wait_for_several_loads_is_divided_among_outstanding_ones() -> None:
    # Issued at 0, 4, 8, 12; the wait lasts from 16 to 416. By lgkmcnt the youngest took 412 cycles, by vmcnt 404: the older
    # one of either counter came 4 cycles before the end. 396 cycles are shared by four, 4 by two.
    code = [SMEM, LDS, LOAD_A, LOAD_B, wait("vmcnt(0) lgkmcnt(0)"), END]

    result = analysed(thread_trace(code, [*((n, 0, 0, 4) for n in range(1, 5)), (5, 0, 400, 400), (6, 0, 0, 4)]))

    assert charged(result) == {(5, 1): 99, (5, 2): 101, (5, 3): 99, (5, 4): 101}
    assert result.charged == {"vmem": 200, "lds": 101, "smem": 99}
    assert result.memory_latency == {}  # which of the counters was last cannot be told


def test_a_completed_load_is_not_charged() -> None:
    # The second load was under way from 1004 to 1208; the first would have come at 204, before the wait.
    code = [LOAD_A, ADD, LOAD_B, wait("vmcnt(0)"), END]

    result = analysed(thread_trace(code, [(1, 0, 0, 4), (2, 0, 0, 1000), (3, 0, 0, 4), (4, 0, 200, 200), (5, 0, 0, 4)]))

    assert charged(result) == {(4, 3): 200}
    assert result.memory_latency["vmem"].mean == 204


def test_a_load_of_the_previous_iteration_is_charged() -> None:
    code = [wait("vmcnt(0)"), ADD, LOAD_A, LOOP, END]
    once = [(2, 0, 0, 4), (3, 0, 0, 4), (4, 0, 0, 8)]

    result = analysed(thread_trace(code, [(1, 0, 4, 4), *once, (1, 0, 300, 300), *once, (1, 0, 200, 200), (5, 0, 0, 4)]))

    assert charged(result) == {(1, 3): 500}
    assert (result.wait_cycles, result.unattributed_cycles) == (504, 4)


def test_memory_latency_is_measured_from_issue_to_the_end_of_a_stalling_wait() -> None:
    code = [LOAD_A, ADD, wait("vmcnt(0)"), LDS, wait("lgkmcnt(0)"), END]
    first = [(1, 0, 4, 8), (2, 0, 0, 4), (3, 0, 600, 600), (4, 0, 0, 4), (5, 0, 60, 60), (6, 0, 0, 4)]
    second = [(1, 0, 0, 4), (2, 0, 0, 4), (3, 0, 4, 4), (4, 0, 0, 4), (5, 0, 100, 100), (6, 0, 0, 4)]

    latency = analysed(thread_trace(code, first, second)).memory_latency

    assert (latency["vmem"].samples, latency["vmem"].mean) == (1, 4 + 4 + 600)  # the second found its data there
    assert (latency["lds"].samples, latency["lds"].mean, latency["lds"].median) == (2, 84, 84)


def test_the_stall_of_a_reader_is_charged_to_the_matrix_instruction() -> None:
    result = analysed(thread_trace([MFMA, READ, END], [(1, 0, 0, 16), (2, 0, 60, 64), (3, 0, 0, 4)]))

    assert charged(result) == {(2, 1): 60}
    assert result.charged == {"mfma": 60}
    assert (result.wait_cycles, result.unattributed_cycles) == (0, 0)


def test_charges_add_up_over_wavefronts() -> None:
    one = [(1, 0, 0, 4), (2, 0, 100, 100), (3, 0, 0, 4)]

    result = analysed(thread_trace([LOAD_A, wait("vmcnt(0)"), END], one, one, one))

    assert (result.waves, charged(result)) == (3, {(2, 1): 300})


def test_without_timelines_waits_are_charged_in_code_order_with_a_note() -> None:
    code = [LOAD_A, LOAD_B, wait("vmcnt(0)"), END]
    trace = thread_trace(code, [(1, 0, 0, 4), (2, 0, 0, 4), (3, 0, 100, 100), (4, 0, 0, 4)])

    result = analysed(replace(trace, waves=()))

    assert charged(result) == {(3, 1): 50, (3, 2): 50}
    assert result.instructions_per_cycle is None
    assert "code order" in result.limits[0]


def test_hot_spots_name_instruction_and_source() -> None:
    code = [LOAD_A, wait("vmcnt(0)"), END]

    spots = analysed(thread_trace(code, [(1, 0, 0, 4), (2, 0, 92, 92), (3, 0, 0, 4)])).hot_spots

    assert [(spot.row.text, spot.kind, spot.share) for spot in spots[:1]] == [("s_waitcnt vmcnt(0)", "waitcnt", 0.92)]
    assert spots[0].row.source_line == "k.hip:20"


def test_limits_say_how_many_wavefronts_were_seen() -> None:
    trace = thread_trace([END], [(1, 0, 0, 4)])

    limits = analysed(replace(trace, notes=("2 of 3 wave files are missing",)), launched_waves=4096).limits

    assert limits[0].startswith("1 of 4,096 wavefronts were traced, on 1 compute unit")
    assert "compile with -g" in limits[1]
    assert limits[-1] == "2 of 3 wave files are missing"


def test_the_trace_of_another_kernel_is_rejected() -> None:
    trace = thread_trace([("v_nop", "a.hip:1")], [(1, 0, 0, 4)])

    assert analyse(trace, symbol="reduce") == Unavailable("the thread trace is of kernel(float*), not of reduce")


@pytest.mark.parametrize("name", ["_Z6kernelPf", "_Z6kernelPf.kd", "kernel(float*)", "kernel"])
def test_a_kernel_matches_by_any_of_its_names(name: str) -> None:
    trace = thread_trace([("v_nop", "a.hip:1")], [(1, 0, 0, 4)])

    assert isinstance(analyse(trace, symbol=name), ThreadTrace)


def test_rows_of_another_dispatched_kernel_are_excluded() -> None:
    trace = thread_trace([ADD, END, MFMA, END], [(1, 0, 0, 4), (2, 0, 0, 4)])
    rows = (*trace.rows[:2], replace(trace.rows[2], line=4, hits=1, latency=1000), replace(trace.rows[3], line=5))
    two = replace(
        trace,
        rows=rows,
        kernels=(*trace.kernels, KernelLabel(3, "other", "other", 1, 0)),
        dispatched={1: "_Z6kernelPf.kd", 2: "other"},
    )

    moved = trace.waves[0].instructions.copy()
    moved[:, Column.LINE] += 3
    of_other = replace(trace.waves[0], key=WaveKey(0, 1, 0, 0), instructions=moved)
    two = replace(two, waves=(*two.waves, of_other))

    assert analysed(two, symbol="_Z6kernelPf").total.cycles == 8
    assert analysed(two, symbol="kernel(float*)").total.cycles == 8
    assert analysed(two, symbol="_Z6kernelPf").waves == 1
    # Without a name the kernel with the most cycles is analysed, and the others are named.
    assert (analysed(two).total.cycles, analysed(two).waves) == (1000, 1)
    assert any("1 other kernel(s): _Z6kernelPf" in limit for limit in analysed(two).limits)


@pytest.mark.parametrize(
    ("trace", "reason"),
    [
        (thread_trace([]), "no instructions"),
        (thread_trace([END]), "no wavefront"),
        (replace(thread_trace([END], [(1, 0, 0, 4)]), has_cycles=False), "PC samples"),
    ],
)
def test_a_trace_without_cycles_is_unavailable_with_a_reason(trace: AttTrace, reason: str) -> None:
    result = analyse(trace)

    assert isinstance(result, Unavailable)
    assert reason in result.reason
