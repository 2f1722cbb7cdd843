"""A written trace reads back unchanged."""

from __future__ import annotations

import csv
import tempfile
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rocm_perf_lab.rocprof.att.directories import find_directories
from rocm_perf_lab.rocprof.att.model import (
    AttProvenance,
    AttTrace,
    Clocks,
    Column,
    InstructionRow,
    KernelLabel,
    PcSamples,
    State,
    StateCurve,
    Wave,
    WaveKey,
)
from rocm_perf_lab.rocprof.att.reader import read_directory
from rocm_perf_lab.rocprof.att.writer import write_trace
from tests.builders.att import thread_trace

COUNT = st.integers(0, 2**40)
NAME = st.text(st.characters(codec="utf-8", exclude_characters=";"), max_size=20).map(str.strip)


def plain(value: Any) -> Any:
    """Arrays become lists, dataclasses dictionaries, so that whole traces compare."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return tuple(plain(inner) for inner in value) if isinstance(value, tuple) else value


def table(draw: st.DrawFn, width: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    rows = draw(st.lists(st.lists(st.integers(-(2**40), 2**40), min_size=width, max_size=width), max_size=4))
    return np.array(rows, dtype=np.int64).reshape(-1, width)


@st.composite
def traces(draw: st.DrawFn) -> AttTrace:
    lines = iter(range(1000))
    sampled = draw(st.booleans())
    kernels = tuple(
        KernelLabel(next(lines), draw(NAME), draw(NAME), draw(COUNT), draw(COUNT)) for _ in range(draw(st.integers(0, 2)))
    )
    rows = tuple(
        InstructionRow(
            next(lines), draw(NAME), draw(NAME), draw(COUNT), draw(COUNT), draw(COUNT), draw(COUNT), draw(COUNT), draw(COUNT),
            PcSamples(draw(NAME), draw(COUNT), draw(COUNT), tuple(draw(st.lists(COUNT, max_size=3)))) if sampled else None,
        )
        for _ in range(draw(st.integers(1, 5)))
    )  # fmt: skip
    keys = draw(st.lists(st.builds(WaveKey, *([st.integers(0, 31)] * 4)), unique=True, min_size=1, max_size=3))
    waits = st.lists(st.tuples(COUNT, st.lists(COUNT, max_size=3).map(tuple)), max_size=2).map(tuple)
    waves = tuple(
        Wave(key, draw(COUNT), draw(COUNT), draw(COUNT), draw(COUNT), table(draw, len(Column)), table(draw, 2), draw(waits))
        for key in sorted(keys)
    )
    states = draw(st.sets(st.sampled_from([State.IDLE, State.EXEC, State.WAIT, State.STALL])))
    curve = np.array(draw(st.lists(COUNT, min_size=1, max_size=4)), dtype=np.int64)
    emulated = draw(st.booleans())
    return AttTrace(
        AttProvenance(
            "ui_output_agent_7_dispatch_3", 7, 3, "3.0.0", draw(st.sampled_from([9, 11])),
            "emulator" if emulated else "rocprofv3", emulated,
        ),
        rows,
        kernels,
        waves,
        {engine: table(draw, 6) for engine in draw(st.sets(st.integers(0, 31), max_size=2))},
        draw(st.dictionaries(st.integers(0, 9), NAME, max_size=2)),
        {state: StateCurve(state.name, curve, curve) for state in states},
        draw(st.sampled_from([None, Clocks(100_000_000, {0: np.array([[1, 2]])})])),
        tuple(draw(st.lists(NAME, max_size=2))),
        {engine: table(draw, 7) for engine in draw(st.sets(st.integers(0, 31), max_size=2))},
        draw(st.sampled_from([{}, {"/a/b.hip": "source_0_b.hip", "/a/c/d.h": "source_1_d.h", "e.hip": "source_2_e.hip"}])),
        draw(st.booleans()),
    )  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(traces())
def test_round_trip(trace: AttTrace) -> None:
    with tempfile.TemporaryDirectory() as directory:
        read = read_directory(write_trace(trace, Path(directory)))

    assert plain(read) == plain(trace)


def test_the_directory_is_named_as_by_rocprofv3(tmp_path: Path) -> None:
    trace = thread_trace([("v_nop", "a.hip:1")], [(1, 0, 0, 4)])

    decoded = write_trace(trace, tmp_path)

    assert decoded == tmp_path / "ui_output_agent_7_dispatch_3"
    assert find_directories(tmp_path) == (decoded,)


def test_empty_code_is_null(tmp_path: Path) -> None:
    trace = replace(thread_trace([]), kernels=())

    assert '"code":null' in (write_trace(trace, tmp_path) / "code.json").read_text()


def test_the_table_of_totals_has_every_instruction(tmp_path: Path) -> None:
    write_trace(thread_trace([("s_load_dwordx2 s[0:1], s[4:5], 0x0", "a.hip:1")], [(1, 4, 2, 8)]), tmp_path)

    with (tmp_path / "stats_ui_output_agent_7_dispatch_3.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["Instruction"], row["Hitcount"], row["Latency"], row["Stall"], row["Idle"]) == (
        "s_load_dwordx2 s[0:1], s[4:5], 0x0", "1", "8", "2", "4",
    )  # fmt: skip
