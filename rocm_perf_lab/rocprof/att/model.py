"""Decoded thread trace: instructions with their cycles, wavefronts with their timelines, and accompanying data.

All times are shader clocks of one shader engine. For an instruction, `stall` is part of `latency`; `idle` is the gap before
it. The time of a wavefront is therefore the sum of latency + idle over its instructions, never of all three.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    Integers = NDArray[np.signedinteger[Any]]

INLINED = " -> "
"""Separator between the frames of an inlined source location: innermost first, followed by its callers."""


class Category(IntEnum):
    """Decoder's category of a traced instruction; matrix instructions are VALU. rocm-perf-lab's classes are finer."""

    NONE = 0
    SMEM = 1
    SALU = 2
    VMEM = 3
    FLAT = 4
    LDS = 5
    VALU = 6
    JUMP = 7
    NEXT = 8
    IMMEDIATE = 9
    CONTEXT = 10
    MESSAGE = 11
    BVH = 12


class State(IntEnum):
    """State of a wavefront."""

    EMPTY = 0
    IDLE = 1
    EXEC = 2
    WAIT = 3
    STALL = 4


class Column(IntEnum):
    """Columns of a wavefront's instructions: first attempt, category, cycles until issued, cycles until done, row of the code."""

    TIME = 0
    CATEGORY = 1
    STALL = 2
    DURATION = 3
    LINE = 4


class WaveKey(NamedTuple):
    """Location of a wavefront: shader engine (of all XCDs), SIMD, slot in it, and its number in that slot."""

    engine: int
    simd: int
    slot: int
    number: int

    @property
    def file_name(self) -> str:
        """Name of its file, as written by the decoder."""
        return f"se{self.engine}_sm{self.simd}_sl{self.slot}_wv{self.number}.json"


@dataclass(frozen=True)
class PcSamples:
    """PC sampling of one instruction: numbers of samples, not cycles."""

    service: str
    issued: int
    stalled: int
    reasons: tuple[int, ...]


@dataclass(frozen=True)
class InstructionRow:
    """One instruction of the code; `line` is its row number, which wavefronts refer to. Counts are over all traced wavefronts."""

    line: int
    text: str
    source: str
    """`file:line`, followed by callers after ` -> ` if inlined; empty without debug information."""
    code_object: int
    address: int
    hits: int
    latency: int
    stall: int
    idle: int
    samples: PcSamples | None = None

    @property
    def mnemonic(self) -> str:
        """`v_add_u32_e32` of `v_add_u32_e32 v0, s2, v0`."""
        return self.text.split(maxsplit=1)[0] if self.text else ""

    @property
    def source_line(self) -> str:
        """The innermost frame, or an empty text."""
        return self.source.partition(INLINED)[0]

    @property
    def cycles(self) -> int:
        """Wavefront time of the instruction: latency + idle."""
        return self.latency + self.idle


@dataclass(frozen=True)
class KernelLabel:
    """Start of a kernel's code among the rows."""

    line: int
    mangled_name: str
    name: str
    code_object: int
    address: int


@dataclass(frozen=True, eq=False)
class Wave:
    """One wavefront of the traced compute unit.

    `instructions` has shape (n, 5), see :class:`Column`, in order of time; `timeline` has shape (m, 2): state and cycles.
    `waits` are pairs of a wait's row and the rows of the memory operations that it waited for, as found by the decoder.
    """

    key: WaveKey
    compute_unit: int
    identifier: int
    begin: int
    end: int
    instructions: Integers
    timeline: Integers
    waits: tuple[tuple[int, tuple[int, ...]], ...] = ()
    stitched: int | None = None
    """Number of instructions that the decoder located in the code; None for all."""
    workgroup: int | None = None
    """Identifier of its workgroup, unique among those present at a time; None if the trace has none."""

    @property
    def cycles(self) -> int:
        """Lifetime in cycles."""
        return self.end - self.begin


@dataclass(frozen=True, eq=False)
class StateCurve:
    """`waves[i]` wavefronts are in one state from `times[i]` on."""

    name: str
    times: Integers
    waves: Integers


@dataclass(frozen=True, eq=False)
class Clocks:
    """Pairs (shader clock, realtime clock) by shader engine, each of shape (n, 2); origins differ between engines."""

    frequency_hz: int
    pairs: Mapping[int, Integers]


@dataclass(frozen=True)
class AttProvenance:
    """Origin of a trace. Only a device of rocm-perf-lab can be `emulated`; everything else was measured."""

    directory: str
    agent: int | None
    dispatch: int | None
    version: str
    gfxip: int | None
    device: str
    emulated: bool
    architecture: str | None = None
    """For example gfx942; None if no file of the trace names it."""
    is_partial: bool = False
    """Whether later wavefronts of the traced compute units are known to be missing."""


@dataclass(frozen=True, eq=False)
class AttTrace:
    """One decoded directory. `occupancy` maps shader engines to rows (time, cu, simd, slot, starts, kernel), shape (n, 6).

    `counters` maps shader engines to rows (time, four values, cu, bank), shape (n, 7). `snapshots` are the stored source files
    by path. `has_cycles` is false if only PC samples were taken.
    """

    provenance: AttProvenance
    rows: tuple[InstructionRow, ...]
    kernels: tuple[KernelLabel, ...]
    waves: tuple[Wave, ...]
    occupancy: Mapping[int, Integers] = field(default_factory=dict)
    dispatched: Mapping[int, str] = field(default_factory=dict)
    """Mangled kernel names by the kernel number of `occupancy`."""
    states: Mapping[State, StateCurve] = field(default_factory=dict)
    clocks: Clocks | None = None
    counter_names: tuple[str, ...] = ()
    counters: Mapping[int, Integers] = field(default_factory=dict)
    snapshots: Mapping[str, str] = field(default_factory=dict)
    has_cycles: bool = True
    notes: tuple[str, ...] = ()

    def kernel_of(self, line: int) -> KernelLabel | None:
        """Return the kernel of a row: that of the last label above it."""
        return next((label for label in reversed(self.kernels) if label.line <= line), None)
