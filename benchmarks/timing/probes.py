"""Assembly probes: a few instructions in a kernel, and their events in the emulator's thread trace.

`run_probe(Probe(body))` assembles the body into `benchmarks/kernels/timing/probe.s`, runs it with a thread trace, as
`passes=deep` does, and reads the trace back. By default the body is a loop of three iterations, of which only the last one
counts, so that neither the instruction fetch nor the caches are cold.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.timing.emulation import KERNELS, TARGET, output, source_buffer
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.device.protocol import Launch
from rocm_perf_lab.languages.compilation import compile_description
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.rocprof.att.model import Category, Column
from rocm_perf_lab.rocprof.att.reader import read_directory
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocm_perf_lab.rocprof.att.model import AttTrace
    from rocm_perf_lab.toolchain.code_object import CodeObject

MARK = "s_mov_b32 s47"
"""Instruction at the start of each iteration of a repeated body."""
_LOOP = f"""
  s_mov_b32 s46, 3
.p2align 6
.Lrepeat:
  {MARK}, s46
{{body}}
  s_sub_u32 s46, s46, 1
  s_cmp_lg_u32 s46, 0
  s_cbranch_scc1 .Lrepeat
"""
_LDS_BYTES = 16384


@dataclass(frozen=True)
class Probe:
    """A kernel of one purpose.

    Args:
        body: Instructions to observe; v1 to v63, a0 to a63, s8 to s45, vcc, m0 and exec are free.
        setup: Instructions that run once before the body.
        repeat: Whether the body runs three times, of which the last counts.
        waves: Wavefronts per workgroup.
        workgroups: Workgroups of the launch.
        data: Content of the data buffer.
        output_bytes: Size of the output buffer.
        lds_bytes: LDS of a workgroup.
        cache: `warm` or `cold`; see :class:`EmulatorDevice`.
    """

    body: str
    setup: str = ""
    repeat: bool = True
    waves: int = 1
    workgroups: int = 1
    data: np.ndarray[Any, Any] = field(default_factory=lambda: np.zeros(1 << 18, np.uint32))
    output_bytes: int = 1 << 20
    lds_bytes: int = _LDS_BYTES
    cache: str = "warm"

    @property
    def text(self) -> str:
        """Return the assembly."""
        return self.setup + (_LOOP.replace("{body}", self.body) if self.repeat else self.body) + "\n"


@dataclass(frozen=True)
class Event:
    """One executed instruction; times in shader clocks. `issue` is the end of the stall, for waits that of the wait."""

    text: str
    attempt: int
    issue: int
    done: int


@dataclass(frozen=True)
class TracedWavefront:
    """Events of one wavefront in order, of the last iteration if the probe is repeated."""

    simd: int
    slot: int
    begin: int
    end: int
    events: tuple[Event, ...]

    def find(self, start: str) -> list[Event]:
        """Return the events whose text starts with `start`."""
        return [event for event in self.events if event.text.startswith(start)]

    def pairs(self, first: str, second: str) -> Iterator[tuple[Event, Event]]:
        """Yield consecutive events whose texts start as given."""
        for one, other in pairwise(self.events):
            if one.text.startswith(first) and other.text.startswith(second):
                yield one, other


@dataclass(frozen=True)
class ProbeRun:
    """Result of a probe: traced wavefronts in order of their begin, and the duration of the dispatch."""

    waves: tuple[TracedWavefront, ...]
    nanoseconds: float
    clock_ghz: float

    def gap(self, first: str, second: str) -> float:
        """Return the median clocks from the issue of an instruction to that of its successor."""
        found = [other.issue - one.issue for wave in self.waves for one, other in wave.pairs(first, second)]
        if not found:
            raise ValueError(f"no {first!r} directly before {second!r} in the trace")
        return float(np.median(found))

    def latency(self, first: str, until: str = "s_waitcnt") -> float:
        """Return the median clocks from the issue of an instruction to the end of the wait that follows it."""
        found = []
        for wave in self.waves:
            for number, event in enumerate(wave.events):
                if event.text.startswith(first):
                    wait = next(later for later in wave.events[number + 1 :] if later.text.startswith(until))
                    found.append(wait.done - event.issue)
        return float(np.median(found))

    def rate(self, start: str) -> float:
        """Return the clocks per instruction of all traced wavefronts together, between their first and last issue."""
        issues = sorted(event.issue for wave in self.waves for event in wave.find(start))
        return (issues[-1] - issues[0]) / (len(issues) - 1)

    def busy(self, *, first: str, last: str = "s_waitcnt") -> int:
        """Return the clocks from the first attempt of `first` to the end of the last `last` in any wavefront."""
        begin = min(event.attempt for wave in self.waves for event in wave.find(first))
        return max(event.done for wave in self.waves for event in wave.find(last)) - begin


def run_probe(probe: Probe) -> ProbeRun:
    """Run a probe on the emulator and read its thread trace."""
    target = load_target(TARGET)
    code = _assembled(probe, target.architecture)
    data, out = source_buffer("data", probe.data), output("out", probe.output_bytes // 4, "u4")
    launch = Launch(code, find_kernel(code, "probe").symbol, (probe.workgroups, 1, 1), (64 * probe.waves, 1, 1), 0, (data, out))
    waves, nanoseconds = traced(launch, repeat=probe.repeat, cache=probe.cache)
    return ProbeRun(waves, nanoseconds, target.max_clock_mhz / 1000)


def traced(launch: Launch, *, repeat: bool = False, cache: str = "warm") -> tuple[tuple[TracedWavefront, ...], float]:
    """Run a launch with a thread trace; return its wavefronts in order of their begin, and its duration in ns."""
    with tempfile.TemporaryDirectory() as directory:
        att, database = Path(directory) / "ui_output_agent_1_dispatch_1", Path(directory) / "run.db"
        device = EmulatorDevice(target=load_target(TARGET), cache=cache)
        device.run(launch, database=database, runs=1, counters=(), att=att)
        trace = read_directory(next(path.parent for path in Path(directory).rglob("code.json")), curves=False)
        duration = float(read_database(database).dispatches.duration_ns[0])
    return tuple(sorted(_waves(trace, repeat=repeat), key=lambda wave: (wave.begin, wave.simd, wave.slot))), duration


def _assembled(probe: Probe, architecture: str) -> CodeObject:
    with tempfile.TemporaryDirectory() as directory:
        frame, body = Path(directory) / "probe.s", Path(directory) / "body.inc"
        frame.write_text((KERNELS / "probe.s").read_text())
        body.write_text(probe.text)
        description = KernelDescription.model_validate(
            {
                "name": "probe",
                "directory": Path(directory),
                "language": "assembly",
                "source": "probe.s",
                "entry": "probe",
                "defines": {"LDS_BYTES": str(probe.lds_bytes)},
                "flags": [f'-DPROBE="{body}"'],
                "grid": ["1"],
                "block": ["64"],
                "arguments": [],
            }
        )
        built = compile_description(description, frame, architecture=architecture, compiler=find_compiler, fresh=True)
        return built.code_object


def _waves(trace: AttTrace, *, repeat: bool) -> Iterator[TracedWavefront]:
    texts = {row.line: row.text for row in trace.rows}
    for wave in trace.waves:
        events = [_event(texts[int(row[Column.LINE])], row) for row in wave.instructions]
        if repeat:
            last = max(number for number, event in enumerate(events) if event.text.startswith(MARK))
            events = events[last:]
        yield TracedWavefront(wave.key.simd, wave.key.slot, wave.begin, wave.end, tuple(events))


def _event(text: str, row: np.ndarray[Any, Any]) -> Event:
    attempt, stall, duration = (int(row[column]) for column in (Column.TIME, Column.STALL, Column.DURATION))
    waits = row[Column.CATEGORY] == Category.IMMEDIATE
    return Event(text, attempt, attempt if waits else attempt + stall, attempt + duration)
