"""The reader against directories as the decoder writes them: whole, old, new, partial and damaged ones."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rocm_perf_lab.analysis.thread_trace import ThreadTrace, analyse
from rocm_perf_lab.rocprof.att.content import AttError, take_tables
from rocm_perf_lab.rocprof.att.directories import find_directories, read_kernel_trace
from rocm_perf_lab.rocprof.att.model import Column, State
from rocm_perf_lab.rocprof.att.reader import read_directory

HEADER = "ISA, _, LineNumber, Source, Codeobj, Vaddr, Hit, Latency, Stall, Idle"
LABEL = ["; _Z4copyPf", 0, 0, "copy(float*)", 1, 4096, 0, 0, 0, 0]
LOAD = ["global_load_dword v1, v0, s[0:1]", 0, 1, "a.hip:7 -> a.hip:12", 1, 4096, 2, 16, 8, 0]
WAIT = ["s_waitcnt vmcnt(0)", 0, 2, "a.hip:7", 1, 4104, 2, 800, 800, 4]
MATRIX = "v_mfma_f32_4x4x4f32 a[0:3], v0, v1, 0"
END = ["s_endpgm", 0, 3, "", 1, 4108, 0, 0, 0, 0]


def wave_document(**changes: Any) -> dict[str, Any]:
    wave = {
        "cu": 1, "simd": 2, "slot": 3, "id": 5, "begin": 100, "end": 512,
        "instructions": [[100, 4, 4, 8, 1], [112, 9, 400, 400, 2]],
        "timeline": [[2, 8], [3, 400], [1, 4]],
        "waitcnt": [[2, [[1, 0]]]],
    }  # fmt: skip
    return {"name": "SE4", "duration": 412, "num_insts": 2, "num_stitched": 2, "wave": wave | changes}


def directory_with(root: Path, files: dict[str, Any]) -> Path:
    directory = root / "ui_output_agent_14065_dispatch_12"
    directory.mkdir()
    for name, content in files.items():
        (directory / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return directory


def code(*rows: list[Any], header: str | None = HEADER, version: str = "3.0.0") -> dict[str, Any]:
    return {"code": list(rows), "version": version} | ({"header": header} if header else {})


def complete() -> dict[str, Any]:
    return {
        "code.json": code(LABEL, LOAD, WAIT, END),
        "filenames.json": {
            "global_begin_time": 0, "gfxv": "vega", "gfxip": 9, "version": "3.0.0", "counter_names": ["SQ_WAVES"],
            "wave_filenames": {"4": {"2": {"3": {"0": ["se4_sm2_sl3_wv0.json", 100, 512]}}}},
        },
        "occupancy.json": {
            "4": [[100, 1, 2, 3, 1, 1], [512, 1, 2, 3, 0, 1]], "dispatches": {"1": "_Z4copyPf"}, "version": "3.0.0",
        },
        "wstates3.json": {"name": "WAIT", "time": [112, 512], "state": [1, 0]},
        "se4_sm2_sl3_wv0.json": wave_document(),
        "realtime.json": {"SE4": [[100, 10], [2200, 110]], "metadata": {"frequency": 100000000, "descriptor": ""}},
        "se4_perfcounter.json": {"data": [[100, 1, 2, 3, 4, 1, 0]]},
        "snapshots.json": {"/": {"src": {"a.hip": "source_0_a.hip"}}, "b.hip": "source_1_b.hip"},
    }  # fmt: skip


def test_a_whole_directory(tmp_path: Path) -> None:
    trace = read_directory(directory_with(tmp_path, complete()))

    assert [(row.line, row.hits, row.latency, row.stall, row.idle) for row in trace.rows] == [
        (1, 2, 16, 8, 0),
        (2, 2, 800, 800, 4),
        (3, 0, 0, 0, 0),
    ]
    assert (trace.rows[0].source_line, trace.rows[1].cycles) == ("a.hip:7", 804)
    label = trace.kernel_of(2)
    assert label is not None
    assert (label.mangled_name, label.name) == ("_Z4copyPf", "copy(float*)")
    assert (trace.provenance.agent, trace.provenance.dispatch, trace.provenance.gfxip) == (14065, 12, 9)
    assert (trace.provenance.device, trace.provenance.emulated) == ("rocprofv3", False)
    (wave,) = trace.waves
    assert (wave.key, wave.compute_unit, wave.identifier, wave.cycles) == ((4, 2, 3, 0), 1, 5, 412)
    assert wave.instructions[:, Column.STALL].tolist() == [4, 400]
    assert wave.timeline.tolist() == [[2, 8], [3, 400], [1, 4]]
    assert wave.waits == ((2, (1,)),)
    assert trace.occupancy[4].shape == (2, 6)
    assert trace.dispatched == {1: "_Z4copyPf"}
    assert trace.states[State.WAIT].waves.tolist() == [1, 0]
    assert trace.clocks is not None
    assert trace.clocks.pairs[4].tolist() == [[100, 10], [2200, 110]]
    assert trace.counters[4].tolist() == [[100, 1, 2, 3, 4, 1, 0]]
    assert trace.snapshots == {"/src/a.hip": "source_0_a.hip", "b.hip": "source_1_b.hip"}
    assert (trace.has_cycles, trace.notes) == (True, ())


def test_version_2_without_header_takes_stalls_from_wave_files(tmp_path: Path) -> None:
    rows = [row[:8] for row in (LABEL, LOAD, WAIT)]

    trace = read_directory(directory_with(tmp_path, {**complete(), "code.json": code(*rows, header=None, version="2.1.0")}))

    # Latency is that of the code, over two wavefronts; one has a file: its stalls are 4 and 400, and 4 cycles lie between.
    assert [(row.latency, row.stall, row.idle) for row in trace.rows] == [(16, 4, 0), (800, 400, 4)]
    assert trace.provenance.version == "2.1.0"
    assert trace.notes == (
        "code.json (version 2.1.0) has no column Stall, Idle",
        "Stall, Idle of the code are summed from the wave files",
    )


def test_columns_are_found_by_name_whatever_their_order(tmp_path: Path) -> None:
    header = "Hit, _, LineNumber, Source, Vaddr, Codeobj, Idle, ISA, Stall, Latency"
    label = [0, 0, 0, "copy(float*)", 4096, 1, 0, "; _Z4copyPf", 0, 0]
    row = [2, 0, 1, None, 4096, 1, 4, "v_nop", 8, 16]

    trace = read_directory(directory_with(tmp_path, {**complete(), "code.json": code(label, row, header=header)}))

    (found,) = trace.rows
    assert (found.address, found.code_object, found.idle, found.hits, found.stall, found.latency) == (4096, 1, 4, 2, 8, 16)
    assert (found.text, found.source, [one.name for one in trace.kernels]) == ("v_nop", "", ["copy(float*)"])


def test_pc_samples_are_counted_as_samples(tmp_path: Path) -> None:
    rows = [[*LABEL, 0, 0, 0, []], [*LOAD, "VMEM", 5, 90, [1, 2, 87]]]
    header = HEADER + ", ServiceType, Issued, Stalled, [NotIssuedReasons]"

    trace = read_directory(directory_with(tmp_path, {**complete(), "code.json": code(*rows, header=header)}))

    (row,) = trace.rows
    assert row.samples is not None
    assert (row.samples.service, row.samples.issued, row.samples.stalled, row.samples.reasons) == ("VMEM", 5, 90, (1, 2, 87))
    assert (row.latency, row.stall) == (16, 8)


def test_the_header_may_be_a_list_with_other_names(tmp_path: Path) -> None:
    header = ["ISA", "_", "LineNumber", "Source", "Codeobj", "Vaddr", "Hit", "Latency", "Stall", "Idle",
              "PC_Issued", "PC_Stalled", "Stall_Reasons"]  # fmt: skip
    row = ["s_waitcnt lgkmcnt(0)", 0, 15, "kernel.cpp:539", 2, 44360, 0, 0, 0, 0, 0, 1, [0, 0, 0, 1]]
    code_json = {"code": [[*LABEL, 0, 0, [0] * 4], row], "header": header, "version": "3.0.0"}
    names = {"gfxip": 9, "pc_sampling": True, "is_pcs_stochastic": False, "thread_trace": False, "wave_filenames": None}

    trace = read_directory(directory_with(tmp_path, {"code.json": code_json, "filenames.json": names}))

    (found,) = trace.rows
    assert found.samples is not None
    assert (found.samples.issued, found.samples.stalled, found.samples.reasons) == (0, 1, (0, 0, 0, 1))
    assert (trace.has_cycles, [note for note in trace.notes if "wavefront" in note]) == (False, [])


def test_a_directory_of_pc_samples_alone_has_no_cycles(tmp_path: Path) -> None:
    files = complete()
    files["filenames.json"] |= {"thread_trace": False, "pc_sampling": True}

    assert not read_directory(directory_with(tmp_path, files)).has_cycles


@pytest.mark.parametrize("empty", [None, []])
def test_null_code_is_reported(tmp_path: Path, empty: Any) -> None:
    trace = read_directory(directory_with(tmp_path, {**complete(), "code.json": {"code": empty, "version": "3.0.0"}}))

    assert trace.rows == ()
    assert "found no code" in trace.notes[0]


def test_newer_occupancy_rows_are_longer_and_other_keys_are_no_engines(tmp_path: Path) -> None:
    occupancy = {"0": [[8, 1, 0, 0, 1, 1, 0, 0, 0, 17, 0]], "-1": [], "dispatches": None}

    trace = read_directory(directory_with(tmp_path, {**complete(), "occupancy.json": occupancy}))

    assert {engine: rows.tolist() for engine, rows in trace.occupancy.items()} == {0: [[8, 1, 0, 0, 1, 1]]}


def test_optional_files_may_be_missing(tmp_path: Path) -> None:
    files = complete()
    for name in ("wstates3.json", "realtime.json", "se4_perfcounter.json", "snapshots.json"):
        del files[name]

    trace = read_directory(directory_with(tmp_path, files))

    assert (trace.clocks, trace.states, trace.counters, trace.snapshots, trace.notes) == (None, {}, {}, {}, ())


def test_missing_and_damaged_wave_files_are_noted(tmp_path: Path) -> None:
    files = complete()
    slots = files["filenames.json"]["wave_filenames"]["4"]["2"]["3"]
    slots |= {"1": ["se4_sm2_sl3_wv1.json", 0, 1], "2": ["se4_sm2_sl3_wv2.json", 0, 1]}
    files["se4_sm2_sl3_wv2.json"] = json.dumps(wave_document())[:150]

    trace = read_directory(directory_with(tmp_path, files))

    assert len(trace.waves) == 1
    assert trace.notes == (
        "1 of 3 wave files are missing: se4_sm2_sl3_wv1.json",
        "1 wave files are damaged and were ignored: se4_sm2_sl3_wv2.json",
    )


def test_without_the_list_of_files_waves_are_found_by_their_names(tmp_path: Path) -> None:
    files = complete()
    del files["filenames.json"]

    trace = read_directory(directory_with(tmp_path, files))

    assert len(trace.waves) == 1
    assert trace.notes == ("filenames.json is missing",)


def test_waves_of_several_engines_with_long_gaps_and_categories_not_seen_yet(tmp_path: Path) -> None:
    """A wavefront of engine 12 that slept for 10 ** 12 cycles; category 99 and row 4000 mean nothing to this reader."""
    late = 10**12
    gap = wave_document(end=late + 4, instructions=[[100, 99, 4, 8, 1], [late, 12, 0, 4, 4000]], timeline=[[7, late - 96]])

    trace = read_directory(directory_with(tmp_path, complete() | {"se12_sm0_sl0_wv3.json": gap}))
    found = analyse(trace)

    assert [(wave.key.engine, wave.cycles) for wave in trace.waves] == [(4, 412), (12, late - 96)]
    assert isinstance(found, ThreadTrace)
    # Sums are those of code.json: 16 of the load and 804 of the wait.
    assert (found.waves, found.total.cycles, found.total.hits) == (2, 820, 4)
    assert found.limits[0].startswith("2 wavefronts were traced, on 2 compute unit(s) of 2 shader engine(s)")
    # Engines have clocks of their own: the mean of two instructions in 412 and in nearly 10 ** 12 cycles.
    assert found.instructions_per_cycle == pytest.approx((2 / 412 + 2 / (late - 96)) / 2)
    # All of the sleep is in front of the instruction of row 4000, which the code does not have.
    assert "of the wavefronts' cycles 100.0% belong to instructions outside this kernel's code" in found.limits


def test_a_trace_without_waves_has_a_hint(tmp_path: Path) -> None:
    trace = read_directory(directory_with(tmp_path, {"code.json": code(LABEL, END)}))

    assert any("--att-target-cu" in note for note in trace.notes)


@pytest.mark.parametrize("damaged", ["filenames.json", "occupancy.json", "snapshots.json", "realtime.json", "wstates3.json"])
@pytest.mark.parametrize("content", ["{", "", "[]", "7", "\x00"])
def test_a_damaged_optional_file_is_a_note(tmp_path: Path, damaged: str, content: str) -> None:
    trace = read_directory(directory_with(tmp_path, complete() | {damaged: content}))

    assert len(trace.rows) == 3
    assert any(damaged in note for note in trace.notes)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"code": [[1]]}', '{"code": 7}', '{"code": [["a", 0, "x", 0, 0, 0, 0]]}']
)
def test_damaged_code_is_one_clear_error(tmp_path: Path, content: str) -> None:
    with pytest.raises(AttError, match=r"code\.json"):
        read_directory(directory_with(tmp_path, {"code.json": content}))


@pytest.mark.parametrize(
    "instructions", [None, [], [[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]], [[1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6]]]
)
def test_instruction_lists_of_any_shape(tmp_path: Path, instructions: Any) -> None:
    files = complete() | {"se4_sm2_sl3_wv0.json": wave_document(instructions=instructions)}

    (wave,) = read_directory(directory_with(tmp_path, files)).waves

    assert wave.instructions.tolist() == [row[:5] for row in instructions or []]


@pytest.mark.parametrize("instructions", [[["a", 0, 0, 0, 0]], [[1, 2, 3, 4]], [1, 2, 3, 4, 5], "x"])
def test_invalid_instructions_make_a_wave_damaged(tmp_path: Path, instructions: Any) -> None:
    files = complete() | {"se4_sm2_sl3_wv0.json": wave_document(instructions=instructions)}

    trace = read_directory(directory_with(tmp_path, files))

    assert trace.waves == ()
    assert "damaged" in trace.notes[0]


def test_directories_are_found_below_the_output_directory(tmp_path: Path) -> None:
    first = directory_with(tmp_path, complete())
    second = tmp_path / "ui_output_agent_14065_dispatch_3"
    first.rename(second)
    first = directory_with(tmp_path, complete())

    assert find_directories(tmp_path) == (second, first)
    assert find_directories(first) == (first,)


def test_other_content_is_refused_with_a_description(tmp_path: Path) -> None:
    with pytest.raises(AttError, match="no such directory"):
        find_directories(tmp_path / "none")
    with pytest.raises(AttError, match=r"no code\.json"):
        find_directories(tmp_path)
    (tmp_path / "1_agent_shader_engine_0_1.att").touch()
    with pytest.raises(AttError, match="not decoded"):
        find_directories(tmp_path)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["0", "SE0", "SEx", "a"]), inner, max_size=3),
    max_leaves=12,
)
SHAPED = st.dictionaries(
    st.sampled_from(
        ["code", "header", "version", "wave", "time", "state", "name", "data", "metadata", "frequency", "dispatches",
         "wave_filenames", "counter_names", "gfxip", "rocm_perf_lab", "instructions", "num_stitched", "0", "SE0", "SEx"]
    ),
    ANY_JSON
    | st.dictionaries(st.sampled_from(["frequency", "cu", "begin", "end", "instructions", "timeline", "waitcnt"]), ANY_JSON),
    max_size=6,
)  # fmt: skip


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(sorted(complete())), ANY_JSON | SHAPED)
@example("occupancy.json", {"0": {}})  # from Python 3.12 on, a slice may be the key of a dictionary
@example("occupancy.json", {"0": [{}]})
@example("realtime.json", {"SE0": {}})
@example("se0_perfcounter.json", {"data": [{}]})
def test_any_json_is_read_or_refused(name: str, content: Any) -> None:
    with tempfile.TemporaryDirectory() as root:
        directory = directory_with(Path(root), complete() | {name: json.dumps(content)})
        try:
            trace = read_directory(directory)
        except AttError as error:
            assert name == "code.json"
            assert "code.json" in error.what
            return
        analyse(trace, symbol="copy")


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.lists(st.integers(-(2**40), 2**40) | st.integers(-3, 12), min_size=5, max_size=6), max_size=6),
    st.lists(
        st.tuples(
            st.sampled_from([LOAD[0], WAIT[0], "s_cbranch_scc1 3", "s_nop 1", "", "; other", MATRIX]),
            st.integers(-3, 6), st.integers(-5, 2**50), st.integers(-5, 900), st.integers(-5, 900), st.integers(-5, 900),
        ),
        max_size=6,
    ),
    st.integers(-(2**40), 2**40), st.integers(-(2**40), 2**40),
)  # fmt: skip
def test_any_numbers_are_analysed(
    instructions: list[list[int]], rows: list[tuple[str, int, int, int, int, int]], begin: int, end: int
) -> None:
    entries = [[text, 0, line, "a.hip:1", 1, 8 * line, hits, *cycles] for text, line, hits, *cycles in rows]
    files = complete() | {
        "code.json": code(*entries), "se4_sm2_sl3_wv0.json": wave_document(instructions=instructions, begin=begin, end=end),
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as root:
        found = analyse(read_directory(directory_with(Path(root), files)))

    if isinstance(found, ThreadTrace):
        assert sum(spent.cycles for spent in found.classes.values()) == found.total.cycles
        assert all(charge.cycles > 0 for charge in found.charges)


def test_directories_are_found_at_any_depth(tmp_path: Path) -> None:
    directory = directory_with(tmp_path, complete())
    deep = tmp_path / "host" / "att"
    deep.mkdir(parents=True)
    directory.rename(deep / directory.name)

    assert find_directories(tmp_path) == (deep / directory.name,)


@pytest.mark.parametrize("name", ["_Z4copyPf", "_Z4copyPf.kd", "copy(float*)", "copy"])
def test_a_kernel_is_found_by_any_of_its_names(tmp_path: Path, name: str) -> None:
    other = ["; _Z3sumPf", 0, 0, "sum(float*)", 1, 4096, 0, 0, 0, 0]
    directory_with(tmp_path, {**complete(), "code.json": code(other, LOAD, WAIT, END)})
    (tmp_path / "ui_output_agent_14065_dispatch_12").rename(tmp_path / "ui_output_agent_14065_dispatch_3")
    directory_with(tmp_path, complete())

    assert read_kernel_trace(tmp_path, name).provenance.dispatch == 12


def test_of_several_dispatches_a_warm_one_with_median_cycles_is_used(tmp_path: Path) -> None:
    for dispatch, latency in ((3, 9000), (5, 700), (6, 500), (8, 600)):
        slow = [*WAIT[:7], latency, *WAIT[8:]]
        files = {**complete(), "code.json": code(LABEL, LOAD, slow, END)}
        directory_with(tmp_path, files).rename(tmp_path / f"ui_output_agent_14065_dispatch_{dispatch}")
    directory_with(tmp_path, {**complete(), "code.json": "{"})

    trace = read_kernel_trace(tmp_path, "copy")

    assert trace.provenance.dispatch == 8
    assert trace.notes[0].startswith("ignored: ")
    assert trace.notes[1] == (
        "4 directories belong to this kernel; using ui_output_agent_14065_dispatch_8 (also: ui_output_agent_14065_dispatch_3, "
        "ui_output_agent_14065_dispatch_5, ui_output_agent_14065_dispatch_6)"
    )


def test_the_first_dispatch_is_used_if_the_others_have_no_wavefront(tmp_path: Path) -> None:
    idle = [[*row[:6], 0, 0, 0, 0] for row in (LOAD, WAIT, END)]
    for dispatch, rows in ((3, (LOAD, WAIT, END)), (5, idle)):
        files = {**complete(), "code.json": code(LABEL, *rows)}
        directory_with(tmp_path, files).rename(tmp_path / f"ui_output_agent_14065_dispatch_{dispatch}")

    assert read_kernel_trace(tmp_path, "copy").provenance.dispatch == 3
    assert read_kernel_trace(tmp_path / "ui_output_agent_14065_dispatch_5" / "code.json", "copy").provenance.dispatch == 5


def test_code_objects_next_to_the_directory_name_the_architecture(tmp_path: Path) -> None:
    directory = directory_with(tmp_path, complete())
    assert read_directory(directory).provenance.architecture is None

    for number in (1, 2):
        (tmp_path / f"host_4711_gfx950_code_object_id_{number}.out").touch()
    assert read_directory(directory).provenance.architecture == "gfx950"

    (tmp_path / "host_4711_gfx90a_code_object_id_3.out").touch()
    assert read_directory(directory).provenance.architecture is None


@pytest.mark.parametrize("is_regular", [True, False])
def test_newer_occupancy_rows_tell_workgroups_apart(tmp_path: Path, *, is_regular: bool) -> None:
    (wave,) = read_directory(directory_with(tmp_path, complete())).waves
    start = [wave.begin, wave.compute_unit, wave.key.simd, wave.key.slot, 1, 1]
    older = [wave.begin, 0, 0, 0, 1, 1]
    rows = [[*start, 1, 0, 0, 77, 0], [*older, 1, 0, 0, 78, 0] if is_regular else older]
    files = {**complete(), "occupancy.json": {str(wave.key.engine): rows, "dispatches": {"1": "_Z4copyPf"}}}

    newer = tmp_path / "newer"
    newer.mkdir()

    trace = read_directory(directory_with(newer, files))

    assert trace.waves[0].workgroup == 77
    assert trace.occupancy[wave.key.engine].shape == (2, 6)
    assert wave.workgroup is None


def test_the_first_of_several_damaged_directories_is_reported(tmp_path: Path) -> None:
    directory_with(tmp_path, {**complete(), "code.json": "{"})

    with pytest.raises(AttError, match=r"code\.json is damaged"):
        read_kernel_trace(tmp_path, "copy")


def test_the_trace_of_a_kernel_is_read_without_its_curves(tmp_path: Path) -> None:
    directory_with(tmp_path, complete())

    trace = read_kernel_trace(tmp_path, "copy")

    assert (trace.states, trace.counters, trace.waves[0].timeline.shape) == ({}, {}, (0, 2))
    assert len(trace.waves[0].instructions) == 2


def test_wave_files_may_have_any_name_inside_the_directory(tmp_path: Path) -> None:
    files = complete()
    files["first.json"] = files.pop("se4_sm2_sl3_wv0.json")
    slots = files["filenames.json"]["wave_filenames"]["4"]["2"]["3"]
    slots |= {"0": ["first.json", 100, 512], "1": ["../outside.json", 100, 512], "x": ["first.json", 0, 0], "2": [7]}
    (tmp_path / "outside.json").write_text(json.dumps(wave_document()))

    trace = read_directory(directory_with(tmp_path, files))

    assert [(wave.key, wave.cycles) for wave in trace.waves] == [((4, 2, 3, 0), 412)]
    assert trace.notes == ("1 of 2 wave files are missing: ../outside.json",)


def test_a_wave_file_of_a_later_version_has_neither_timeline_nor_links(tmp_path: Path) -> None:
    document = wave_document()
    for name in ("timeline", "waitcnt", "simd", "slot", "cu"):
        del document["wave"][name]

    (wave,) = read_directory(directory_with(tmp_path, complete() | {"se4_sm2_sl3_wv0.json": document})).waves

    assert (len(wave.instructions), len(wave.timeline), wave.waits) == (2, 0, ())


def test_labels_may_be_shorter_than_rows(tmp_path: Path) -> None:
    header = HEADER + ", ServiceType, Issued, Stalled, NotIssuedReasons"
    row = [*LOAD, 3, 5, 90, [1, 2, 87]]

    trace = read_directory(directory_with(tmp_path, {**complete(), "code.json": code(LABEL[:4], row, header=header)}))

    assert (trace.kernels[0].name, trace.kernels[0].address) == ("copy(float*)", 0)
    assert trace.rows[0].samples is not None
    assert (trace.rows[0].samples.service, trace.rows[0].samples.stalled) == ("3", 90)


@pytest.mark.parametrize(
    ("names", "text", "generation"),
    [
        ({"gfxip": 10}, "s_nop 0", 10), ({"gfxip": "11"}, "s_nop 0", 11), ({"gfxv": "vega"}, "s_nop 0", 9), ({}, "s_nop 0", None),
        ({"gfxv": "navi"}, "s_nop 0", 10), ({"gfxv": "navi"}, "s_wait_kmcnt 0x0", 12), ({}, "s_waitcnt_vscnt null, 0x0", 10),
        ({"gfxip": None}, "s_delay_alu instid0(VALU_DEP_1)", 11),
    ],
)  # fmt: skip
def test_the_generation_is_known_by_number_name_or_instructions(
    tmp_path: Path, names: dict[str, Any], text: str, generation: int | None
) -> None:
    files = {"code.json": code([text, *LOAD[1:]]), "filenames.json": names}

    assert read_directory(directory_with(tmp_path, files)).provenance.gfxip == generation


@pytest.mark.parametrize("line", [-3, 0, 10**12])
def test_rows_may_have_any_number(tmp_path: Path, line: int) -> None:
    load, wait = [LOAD[0], 0, line, *LOAD[3:]], [WAIT[0], 0, line + 1, *WAIT[3:]]
    waves = wave_document(instructions=[[100, 4, 4, 8, line], [112, 9, 400, 400, line + 1]])

    found = analyse(read_directory(directory_with(tmp_path, {"code.json": code(load, wait), "se4_sm2_sl3_wv0.json": waves})))

    assert isinstance(found, ThreadTrace)
    assert [(charge.victim.line, charge.cause.line, charge.cycles) for charge in found.charges] == [(line + 1, line, 400)]


def test_counters_and_curves_ignore_extra_columns(tmp_path: Path) -> None:
    occupancy = {"0": [[8, 1, 0, 0, 1, 1, "x"]], "1": [[8, 1]], "2": [[2**40, 1, 0, 0, 1, 1]], "dispatches": {"1": "k [1, 2]"}}
    files = complete() | {"occupancy.json": occupancy, "wstates3.json": {"time": [1, 2, 3], "state": [1, 0], "name": "WAIT"}}

    trace = read_directory(directory_with(tmp_path, files))

    assert {engine: rows.tolist() for engine, rows in trace.occupancy.items()} == {
        0: [[8, 1, 0, 0, 1, 1]],
        2: [[2**40, 1, 0, 0, 1, 1]],
    }
    assert (trace.dispatched, trace.states) == ({1: "k [1, 2]"}, {})
    assert trace.notes == (
        "occupancy.json has rows with fewer than 6 numbers and was ignored",
        "wstates3.json is damaged and was ignored",
    )


def test_a_listed_file_name_that_no_file_can_have_is_a_missing_file(tmp_path: Path) -> None:
    listed = {"4": {"2": {"3": {"0": ["x" * 5000, 100, 512]}}}}
    directory = directory_with(tmp_path, {"code.json": code(LOAD), "filenames.json": {"wave_filenames": listed}})

    trace = read_directory(directory)

    assert trace.waves == ()
    assert any(note.startswith("1 of 1 wave files are missing") for note in trace.notes)


@pytest.mark.parametrize(
    ("text", "rest", "tables"),
    [
        (b'{"t": [[1, 2], [-3, 4]], "n": [5]}', {"t": [], "n": [5]}, {"t": [[1, 2], [-3, 4]]}),
        (b'{"t": [[1],\n[2]]}', {"t": []}, {"t": [[1], [2]]}),
        (b'{"t": [7, 8], "u": [[1, 2]]}', {"t": [], "u": []}, {"t": [7, 8]}),
        (b'{"t": [[1, 2], [3]]}', {"t": [[1, 2], [3]]}, {}),
        (b'{"t": [[1, 2], [3, 4.5]]}', {"t": [[1, 2], [3, 4.5]]}, {}),
        (b'{"t": [[[1], [2]]], "n": [[1]]}', {"t": [[[1], [2]]], "n": [[1]]}, {}),
        (b'{"t": [], "u": "[[1]]"}', {"t": [], "u": "[[1]]"}, {}),
    ],
)
def test_only_rectangular_lists_of_integers_are_tables(text: bytes, rest: object, tables: dict[str, list[Any]]) -> None:
    document, found = take_tables(text, re.compile(rb"t|u"), unused=re.compile(rb"u"))

    assert json.loads(document) == rest
    assert {name: table.tolist() for name, table in found.items()} == tables
