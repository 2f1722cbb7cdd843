"""Thread trace in analysis.json."""

from __future__ import annotations

from typing import Literal

from rocm_perf_lab.profiling.documents import Part


class TracedTime(Part):
    """Cycles of traced wavefronts: `cycles` is latency + idle, `stall` is part of latency, `share` is relative to all cycles."""

    hits: int
    cycles: int
    latency: int
    stall: int
    idle: int
    share: float


class TracedLine(TracedTime):
    """One source line. `caused_cycles`: its own cycles without charged waits, plus stalls its instructions caused elsewhere."""

    source: str
    hidden_cycles: int = 0
    """Waiting cycles during which other wavefronts used the SIMD. Shortening them does not save time."""
    caused_cycles: float
    waits_for: str | None
    waits_for_class: str | None
    waited_cycles: float


class StallCharge(Part):
    """A stall and the instruction that caused it; addresses are relative to the code object."""

    waiting: str
    waiting_address: int
    waiting_source: str
    cause: str
    cause_address: int
    cause_source: str
    counter: str
    cycles: float


class LatencyPart(Part):
    """Cycles from the issue of a memory operation to its data, for waits that stalled."""

    samples: int
    mean: float
    median: float
    p90: float


class HotInstruction(Part):
    """Instruction with a large share of the time."""

    text: str
    address: int
    source: str
    kind: str
    hits: int
    cycles: int
    stall: int
    share: float
    hidden_cycles: int = 0
    """Waiting cycles during which other wavefronts used the SIMD."""
    waits_for: str | None = None
    waits_for_address: int | None = None
    waits_for_source: str | None = None
    waited_cycles: float = 0.0
    """Instruction that caused most of its stall, and for how many cycles."""


class LoopPart(Part):
    """Loop from its first instruction to the branch back; cycles are summed over all traced wavefronts."""

    source: str
    first_address: int
    last_address: int
    turns: int
    turns_per_entry: float
    cycles: int
    cycles_per_turn: float
    share: float


class TimeBalancePart(Part):
    """Composition of cycles: `instructions` = `waves` + `overlapped` - `behind_last` - `unplaced` + `without_file`, exactly."""

    instructions: int
    """Latency + idle of all instructions: the sum over `classes`, and over `lines`."""
    waves: int
    """Lifetimes of the wavefronts that were read."""
    overlapped: int
    """Counted for several instructions of one wavefront at once (GFX10 and later)."""
    behind_last: int
    """From the end of the last instruction to the end of the wavefront; negative if the instruction ends later."""
    unplaced: int
    """Cycles of instructions outside this kernel's code."""
    without_file: int
    """Cycles in the code totals but in no readable wave file."""


class TracedPlace(Part):
    """Instruction to which a loss is charged; without text if it is outside the code of the trace."""

    text: str
    address: int | None
    source: str
    share: float


class TracedLoss(Part):
    """Lost time of one cause, as a share of the time of the traced SIMDs. `gain` is an upper bound of the saved share."""

    cause: str
    share: float
    gain: float
    places: tuple[TracedPlace, ...]


class TracedSimd(Part):
    """Clocks of one SIMD: `span` = `binding` + `beside` + `exposed` + `empty`."""

    engine: int
    compute_unit: int
    simd: int
    waves: int
    span: int
    busy: dict[str, int]
    """By unit. LDS and vector memory, which the SIMDs of a compute unit share: for ideal accesses."""
    binding: int
    """Time in which the trace's busiest unit works."""
    beside: int
    """Time in which only other instructions are issued."""
    exposed: int
    """All wavefronts wait."""
    empty: int
    """Without a wavefront."""


class AccessPacePart(Part):
    """Accesses that stalled: clocks from one to the next, for ideal accesses, and bytes of a full wavefront's access."""

    samples: int
    clocks: float
    ideal_clocks: float
    access_bytes: float


class LoadsInFlightPart(Part):
    """Loads of the later half of the trace: median latency, and useful bytes of all accesses per clock and compute unit."""

    loads: int
    latency: float
    bytes_per_clock: float


class TracedTimePart(Part):
    """Budget of the SIMDs' time: the binding unit's share, `losses` and `unexplained` add up to 1."""

    binding: str | None
    """Busiest unit."""
    units: dict[str, float]
    """Share of the time in which each unit works."""
    co_issue: float
    exposed: float
    losses: tuple[TracedLoss, ...]
    unexplained: float
    simds: tuple[TracedSimd, ...]
    vector_pace: AccessPacePart | None
    in_flight: LoadsInFlightPart | None
    lds_pace: AccessPacePart | None
    lds_excess: float
    """Share of the waits for LDS beyond the time of accesses without conflicts."""
    barriers: int
    barrier_late_clocks: float
    """Mean clocks from the first to the last arrival at a barrier."""
    requested_bytes_per_clock: float
    """By vector memory accesses, per compute unit."""


class TracePhasesPart(Part):
    """Shares of the wavefronts' lifetimes before, in and after their loops."""

    prologue: float
    loops: float
    epilogue: float


class TraceCoveragePart(Part):
    """Part of the launch that was traced. `variation`: coefficient of variation of the wavefronts' lifetimes."""

    waves: int
    launched_waves: float | None
    compute_units: int
    engines: int
    variation: float
    is_partial: bool = False
    """Whether later wavefronts of the traced compute units are known to be missing."""


class ThreadTracePart(Part):
    """Analysis of a thread trace. Cycles are of the shader clock, summed over the traced wavefronts."""

    folder: str
    kernel: str | None
    time_kind: Literal["emulated", "measured"]
    waves: int
    total: TracedTime
    classes: dict[str, TracedTime]
    lines: tuple[TracedLine, ...]
    charged: dict[str, float]
    charges: tuple[StallCharge, ...]
    wait_cycles: int
    unattributed_cycles: float
    memory_latency: dict[str, LatencyPart]
    hot_spots: tuple[HotInstruction, ...]
    loops: tuple[LoopPart, ...] = ()
    hidden_fraction: float | None = None
    """Share of all cycles spent waiting while another wavefront used the SIMD; the remaining waiting is exposed."""
    waves_per_simd: float | None = None
    """Mean wavefronts per active SIMD of the traced shader engines."""
    shader_clock_hz: float | None = None
    time_balance: TimeBalancePart | None = None
    simd_time: TracedTimePart | None = None
    masked_vector_share: float | None = None
    """Share of the vector instructions' issue that is in divergent branches and loops, with an unknown number of active lanes."""
    phases: TracePhasesPart | None = None
    coverage: TraceCoveragePart | None = None
    launch_gap_clocks: float | None = None
    """Median time from the end of a wavefront to the next one in its slot."""
    limits: tuple[str, ...]
    """Limitations of the trace."""
