"""What a decoded thread trace holds: instructions with their cycles, wavefronts with their timelines, and what goes with them.

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
"""Between the frames of one source: the innermost first, its callers behind."""


class Category(IntEnum):
    """What the decoder takes a traced instruction for; matrix instructions are VALU, its own classes are coarse."""

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
    """What a wavefront is doing."""

    EMPTY = 0
    IDLE = 1
    EXEC = 2
    WAIT = 3
    STALL = 4


class Column(IntEnum):
    """Columns of a wavefront's instructions: first attempt, category, cycles until issued, until done, row of the code."""

    TIME = 0
    CATEGORY = 1
    STALL = 2
    DURATION = 3
    LINE = 4


class WaveKey(NamedTuple):
    """Where a wavefront ran: shader engine (of all XCDs), SIMD, slot in it, and its number in that slot."""

    engine: int
    simd: int
    slot: int
    number: int

    @property
    def file_name(self) -> str:
        """As the decoder names its file."""
        return f"se{self.engine}_sm{self.simd}_sl{self.slot}_wv{self.number}.json"


@dataclass(frozen=True)
class PcSamples:
    """What PC sampling saw of one instruction: numbers of samples, not cycles."""

    service: str
    issued: int
    stalled: int
    reasons: tuple[int, ...]


@dataclass(frozen=True)
class InstructionRow:
    """One instruction of the code; `line` is its row number, which wavefronts refer to. Counts are over all traced waves."""

    line: int
    text: str
    source: str
    """`file:line`, with callers behind ` -> ` where inlined; empty without debug information."""
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
        """The innermost frame, or nothing."""
        return self.source.partition(INLINED)[0]

    @property
    def cycles(self) -> int:
        """The time of wavefronts that went into it."""
        return self.latency + self.idle


@dataclass(frozen=True)
class KernelLabel:
    """Where a kernel's code begins among the rows."""

    line: int
    mangled_name: str
    name: str
    code_object: int
    address: int


@dataclass(frozen=True, eq=False)
class Wave:
    """One wavefront of the traced compute unit.

    `instructions` has shape (n, 5), see :class:`Column`, in order of time; `timeline` (m, 2): state and cycles.
    `waits` are pairs of a wait's row and the rows of the memory operations that it waited for, as the decoder found them.
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
    """Instructions that the decoder could give a place in the code; None where all of them."""

    @property
    def cycles(self) -> int:
        """Its life."""
        return self.end - self.begin


@dataclass(frozen=True, eq=False)
class StateCurve:
    """`waves[i]` wavefronts are in one state from `times[i]` on."""

    name: str
    times: Integers
    waves: Integers


@dataclass(frozen=True, eq=False)
class Clocks:
    """Pairs (shader clock, realtime clock) by shader engine, each (n, 2); origins differ between engines."""

    frequency_hz: int
    pairs: Mapping[int, Integers]


@dataclass(frozen=True)
class AttProvenance:
    """Where a trace comes from. Only a device of the lab states `emulated`; anything else was measured."""

    directory: str
    agent: int | None
    dispatch: int | None
    version: str
    gfxip: int | None
    device: str
    emulated: bool


@dataclass(frozen=True, eq=False)
class AttTrace:
    """One decoded directory. `occupancy` has, by shader engine, the rows (time, cu, simd, slot, starts, kernel), shape (n, 6).

    `counters` has, by shader engine, the rows (time, four values, cu, bank), shape (n, 7). `snapshots` are the stored
    source files by their path. `has_cycles` is false where only PC samples were taken.
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
        """The kernel that a row belongs to: that of the last label above it."""
        return next((label for label in reversed(self.kernels) if label.line <= line), None)
