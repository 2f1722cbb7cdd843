"""Dispatches of one kernel with different launch shapes or code: their times, counters and notes are kept apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.profiling.populations import describe_others, dispatches_like, populations, resources_of_code
from rocm_perf_lab.profiling.profile import build_profile
from rocm_perf_lab.profiling.selection import rank_kernels
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.statistics.stability import stability
from rocm_perf_lab.target.catalog import load_target
from tests.builders.recordings import read_run
from tests.builders.rocpd import VEC_COPY, dispatch, recorded_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.rocprof.recording import DispatchRecord, KernelSymbolRecord
    from rocm_perf_lab.rocprof.trace import Trace

TARGET = load_target("mi300x")
RECORDING = Path(__file__).parents[1] / "data/recorded/rocprofv3_json/908_results.json.gz"
RELOADED = replace(VEC_COPY, id=2)
OTHER_CODE = replace(VEC_COPY, id=3, arch_vgpr_count=64)


def trace_of(path: Path, run: Sequence[DispatchRecord], kernels: tuple[KernelSymbolRecord, ...] = (VEC_COPY,)) -> Trace:
    write_database(path / "run_results.db", recorded_run(TARGET, run, kernels=kernels))
    return read_database(path / "run_results.db")


def series(
    durations: Sequence[int],
    *,
    begin: int = 0,
    groups: int = 4096,
    lds: int = 0,
    kernel: KernelSymbolRecord = VEC_COPY,
    counters: Mapping[str, float] | None = None,
) -> list[DispatchRecord]:
    return [
        replace(
            dispatch(begin + 10_000 * i, begin + 10_000 * i + ns, kernel=kernel, counters=counters),
            grid=(groups * 256, 1, 1),
            lds_bytes=lds,
        )
        for i, ns in enumerate(durations)
    ]


def test_two_grids_are_two_populations_and_the_larger_total_comes_first(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [*series([100] * 6), *series([900] * 3, begin=100_000, groups=65536)])

    profile = build_profile(trace, target=TARGET)

    first, second = profile.populations
    assert (first.grid, first.block, first.total_ns, first.median_ns) == ((65536, 1, 1), (256, 1, 1), 2700, 900)
    assert (second.launch, len(second.dispatches)) == ("4096x1x1 of 256x1x1", 6)
    assert second.share == pytest.approx(600 / 3300)
    assert profile.durations_ns == (900, 900, 900)
    assert profile.grid == (65536, 1, 1)
    assert (
        "times are those of the 3 dispatches of 65536x1x1 of 256x1x1; the other 6 dispatches of the kernel have other launch "
        "shapes or code: 6 x 4096x1x1 of 256x1x1, 18% of the time"
    ) in profile.notes


def test_a_spread_caused_by_two_shapes_is_not_a_spread_of_times(tmp_path: Path) -> None:
    run = [one for i in range(20) for one in series([1000 if i % 2 else 5000], begin=20_000 * i, groups=100 if i % 2 else 500)]
    profile = build_profile(trace_of(tmp_path, run), target=TARGET)

    found = stability(profile.durations_ns, deterministic=False)

    assert (found.runs, found.cv, found.classification, found.warnings) == (10, 0.0, "stable", ())


def test_a_partial_last_workgroup_is_no_other_shape(tmp_path: Path) -> None:
    run = [replace(one, grid=(items, 1, 1)) for one, items in zip(series([100] * 3), (1000, 1024, 1025), strict=True)]
    trace = trace_of(tmp_path, run)

    found = populations(trace, rank_kernels(trace)[0].dispatches)

    # Workgroups of 256: 1,000 and 1,024 work-items are four of them, 1,025 are five.
    assert [(one.grid, one.dispatches.tolist()) for one in found] == [((4, 1, 1), [0, 1]), ((5, 1, 1), [2])]


def test_another_amount_of_lds_is_another_population(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [*series([100] * 2), *series([100] * 3, begin=100_000, lds=2048)])

    assert [(one.lds_bytes, len(one.dispatches)) for one in populations(trace, rank_kernels(trace)[0].dispatches)] == [
        (2048, 3),
        (0, 2),
    ]


def test_symbols_of_one_name_with_other_registers_are_other_code(tmp_path: Path) -> None:
    run = [*series([100] * 2), *series([300] * 2, begin=100_000, kernel=OTHER_CODE)]
    trace = trace_of(tmp_path, run, (VEC_COPY, OTHER_CODE))
    (kernel,) = rank_kernels(trace)

    found = populations(trace, kernel.dispatches)

    assert [(one.version, one.total_ns) for one in found] == [(1, 600), (0, 200)]
    assert "code version 1 of 2, 25% of the time" in describe_others(found)[0]


@pytest.mark.parametrize(("dispatched", "versions"), [(4, 2), (1, 1)])
def test_equal_symbols_are_other_code_if_they_are_dispatched_repeatedly(tmp_path: Path, dispatched: int, versions: int) -> None:
    run = [*series([100] * dispatched), *series([300] * dispatched, begin=100_000, kernel=RELOADED)]
    trace = trace_of(tmp_path, run, (VEC_COPY, RELOADED))

    assert len(populations(trace, rank_kernels(trace)[0].dispatches)) == versions


def test_counters_are_those_of_the_largest_population(tmp_path: Path) -> None:
    run = [
        *series([100] * 6, counters={"SQ_WAVES": 10}),
        *series([900] * 3, begin=100_000, groups=65536, counters={"SQ_WAVES": 70}),
    ]

    profile = build_profile(trace_of(tmp_path, run), target=TARGET)

    assert profile.counter_passes == ({"SQ_WAVES": 70.0},)
    assert profile.population_counters == (({"SQ_WAVES": 70.0},), ({"SQ_WAVES": 10.0},))


def test_counters_of_other_shapes_are_used_with_a_note(tmp_path: Path) -> None:
    (tmp_path / "counted").mkdir()
    timed = trace_of(tmp_path, series([100] * 6))
    counted = trace_of(tmp_path / "counted", series([100], groups=1, counters={"SQ_WAVES": 4}))

    profile = build_profile(timed, target=TARGET, counter_traces=[counted])

    assert profile.counter_passes == ({"SQ_WAVES": 4.0},)
    assert "the counters are of dispatches with other launch shapes than the times" in profile.notes


def test_the_same_population_is_found_in_another_run(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    first = trace_of(tmp_path, series([100] * 6))
    run = [*series([50] * 2, groups=1), *series([120] * 5, begin=100_000), *series([990], begin=200_000, kernel=OTHER_CODE)]
    other = trace_of(tmp_path / "other", run, (VEC_COPY, OTHER_CODE))
    wanted = populations(first, rank_kernels(first)[0].dispatches)[0]

    found = dispatches_like(other, rank_kernels(other)[0].dispatches, wanted, resources_of_code(first.kernels[wanted.kernel]))

    assert other.dispatches.duration_ns[found].tolist() == [120] * 5


def test_the_populations_of_a_training_job_are_those_of_its_raw_rows() -> None:
    trace = read_run([RECORDING])
    table = trace.dispatches
    rows = zip(table.kernel.tolist(), table.grid.tolist(), table.workgroup.tolist(), table.lds_bytes.tolist(), strict=True)
    counted: dict[str, dict[tuple[object, ...], int]] = {}
    for kernel, grid, block, lds in rows:
        shapes = counted.setdefault(trace.kernels[kernel].mangled_name, {})
        shapes[(*grid, *block, lds)] = shapes.get((*grid, *block, lds), 0) + 1

    found = {kernel.mangled_name: populations(trace, kernel.dispatches) for kernel in rank_kernels(trace)}

    assert {name: sorted(shapes.values()) for name, shapes in counted.items()} == {
        name: sorted(len(one.dispatches) for one in groups) for name, groups in found.items()
    }
    assert (len(found), sum(len(groups) for groups in found.values())) == (80, 127)
    (collective,) = [groups for name, groups in found.items() if "nccl" in name]
    assert [(one.launch, len(one.dispatches)) for one in collective] == [
        ("104x1x1 of 256x1x1", 1208),
        ("110x1x1 of 256x1x1", 101),
        ("1x1x1 of 256x1x1", 1),
    ]
