"""Vector instructions that share one loop over chunks of lanes, inside which vector registers are SSA values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from rocm_perf_lab.emulator.pcode.ir import Builder
from rocm_perf_lab.emulator.pcode.llvm_text import CHUNK, type_text
from rocm_perf_lab.emulator.pcode.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.emulator.pcode.llvm_text import SsaNames

_CHUNK_BYTES = CHUNK * 4


class GroupOwner(Protocol):
    """Registers of the basic block to which a group belongs; `lines` receives code before the loop."""

    names: SsaNames
    lines: list[str]

    @property
    def group(self) -> LaneGroup:
        """The open group."""
        ...

    def mode_bit(self, index: int) -> Value:
        """Return a bit of MODE."""
        ...

    wave_size: int

    @property
    def mask_registers(self) -> int:
        """SGPRs of a lane mask."""
        ...

    def read_mask(self, register: int) -> Value:
        """Return a lane mask as 64 bits."""
        ...

    def row_origin(self, row: int) -> str:
        """Return the number of dwords from the start of the wavefront to a row of the vector register file."""
        ...


@dataclass
class _Mask:
    bits: Value
    accumulator: str


@dataclass
class LaneGroup:
    """Vector instructions that share one loop over chunks of lanes."""

    state: GroupOwner
    execute: str
    label: str
    body: list[str] = field(default_factory=list)
    rows: dict[int, str] = field(default_factory=dict)
    loaded: dict[int, str] = field(default_factory=dict)
    written: set[int] = field(default_factory=set)
    masks: dict[int, _Mask] = field(default_factory=dict)
    accumulators: list[str] = field(default_factory=list)
    watched: list[tuple[int, str]] = field(default_factory=list)
    """Probes and accumulators of the masks whose outcomes are recorded."""
    instructions: int = 0
    rounding: int | None = None
    """First bit of the rounding field of MODE for this group; None for round to nearest even."""
    here: str = ""
    """Label of the code that `body` ends with; empty for the start of the body."""

    @property
    def builder(self) -> Builder:
        """Builder that puts scalar parts before the loop and chunk parts into it."""
        return Builder(self.state.names, self.state.lines, self.body, self.state.mode_bit)

    def read_row(self, row: int) -> Value:
        """Return the chunk of a vector register."""
        if row not in self.rows:
            name = self.state.names.fresh()
            self.loaded[row] = self.rows[row] = name
        return Value(self.rows[row], "u", 32, is_chunk=True)

    def write_row(self, row: int, value: Value) -> None:
        """Set a vector register; lanes outside EXEC are kept."""
        self.rows[row] = self.builder.text(value, as_chunk=True)
        self.written.add(row)

    def mask_bits(self, register: int) -> Value:
        """Return this chunk's bits of a mask in scalar registers."""
        if register in self.masks:
            return self.masks[register].bits
        mask = self.state.read_mask(register)
        group = self.state.group  # reading may have closed this group
        names = self.state.names
        shifted, byte, bits = (names.fresh() for _ in range(3))
        group.body += [
            f"{shifted} = lshr i64 {mask.operand}, %{group.label}_lane",
            f"{byte} = trunc i64 {shifted} to i{CHUNK}",
            f"{bits} = bitcast i{CHUNK} {byte} to <{CHUNK} x i1>",
        ]
        return Value(bits, "u", 1, is_chunk=True)

    def write_mask(self, register: int, value: Value) -> None:
        """Set the bits of active lanes and clear the others."""
        names = self.state.names
        mine, byte, wide, placed, joined = (names.fresh() for _ in range(5))
        accumulator = names.fresh()
        self.body += [
            f"{mine} = and <{CHUNK} x i1> {self.builder.text(value, as_chunk=True)}, %{self.label}_mask",
            f"{byte} = bitcast <{CHUNK} x i1> {mine} to i{CHUNK}",
            f"{wide} = zext i{CHUNK} {byte} to i64",
            f"{placed} = shl i64 {wide}, %{self.label}_lane",
            f"{joined} = or i64 {accumulator}_in, {placed}",
        ]
        self.body.append(f"{accumulator}_set = add i64 {joined}, 0")
        self.accumulators.append(accumulator)
        self.masks[register] = _Mask(Value(mine, "u", 1, is_chunk=True), accumulator)

    def branch(self, likely: Value, usual: list[Value], general: Callable[[], list[Value]]) -> list[Value]:
        """Return `usual` if a condition holds for all active lanes of the chunk, else what the code of `general` computes.

        Args:
            likely: Condition, one bit per lane.
            usual: Values that exist already; zero for those that only `general` returns.
            general: Emits code and returns its values, as many as `usual` or more.
        """
        builder, names = self.builder, self.state.names
        bits, active, holds = (names.fresh() for _ in range(3))
        label = f"{holds.lstrip('%')}_general", f"{holds.lstrip('%')}_join"
        self.body += [
            f"{bits} = bitcast <{CHUNK} x i1> {builder.text(likely, as_chunk=True)} to i{CHUNK}",
            f"{active} = and i{CHUNK} {bits}, %{self.label}_byte",
            f"{holds} = icmp eq i{CHUNK} {active}, %{self.label}_byte",
            f"br i1 {holds}, label %{label[1]}, label %{label[0]}",
            f"{label[0]}:",
        ]
        origin, self.here = self.here or f"{self.label}_body", label[0]
        computed = general()
        given = [*usual, *(Value(0, value.kind, value.bits) for value in computed[len(usual) :])]
        texts = [[builder.text(value, as_chunk=True) for value in values] for values in (given, computed)]
        self.body += [f"br label %{label[1]}", f"{label[1]}:"]
        results = [Value(names.fresh(), value.kind, value.bits, is_chunk=True) for value in computed]
        for result, one, other in zip(results, *texts, strict=True):
            kind = type_text(result.kind, result.bits, is_chunk=True)
            self.body.append(f"{result.operand} = phi {kind} [{one}, %{origin}], [{other}, %{self.here}]")
        self.here = label[1]
        return results

    def overlaps(self, register: int, count: int) -> bool:
        """Return whether a pending mask shares an SGPR with [register, register + count)."""
        return any(register < mask + self.state.mask_registers and mask < register + count for mask in self.masks)

    def clashes(self, register: int) -> bool:
        """Return whether a mask here would share only one SGPR with a pending mask."""
        return self.state.mask_registers > 1 and (register - 1 in self.masks or register + 1 in self.masks)

    def finish(self, lines: list[str]) -> dict[int, str]:
        """Emit the loop and return the 64-bit masks by register."""
        name = self.label
        lines += [f"br label %{name}_before", f"{name}_before:", f"br label %{name}_head", f"{name}_head:"]
        lines.append(f"%{name}_lane = phi i64 [0, %{name}_before], [%{name}_next, %{name}_latch]")
        lines += [f"{a}_in = phi i64 [0, %{name}_before], [{a}_out, %{name}_latch]" for a in self.accumulators]
        lines += [
            f"%{name}_rest = lshr i64 {self.execute}, %{name}_lane",
            f"%{name}_byte = trunc i64 %{name}_rest to i{CHUNK}",
            f"%{name}_none = icmp eq i{CHUNK} %{name}_byte, 0",
            f"br i1 %{name}_none, label %{name}_latch, label %{name}_body",
            f"{name}_body:",
            f"%{name}_mask = bitcast i{CHUNK} %{name}_byte to <{CHUNK} x i1>",
        ]
        pointers = {row: self._pointer(row, lines) for row in sorted({*self.loaded, *self.written})}
        for row, loaded in self.loaded.items():
            lines.append(f"{loaded} = load <{CHUNK} x i32>, ptr {pointers[row]}, align {_CHUNK_BYTES}")
        lines += self.body
        last = self._store_rows(lines, pointers) if self.written else self.here or f"{name}_body"
        lines += [f"br label %{name}_latch", f"{name}_latch:"]
        lines += [f"{a}_out = phi i64 [{a}_in, %{name}_head], [{a}_set, %{last}]" for a in self.accumulators]
        lines += [
            f"%{name}_next = add i64 %{name}_lane, {CHUNK}",
            f"%{name}_done = icmp eq i64 %{name}_next, {self.state.wave_size}",
            f"br i1 %{name}_done, label %{name}_after, label %{name}_head",
            f"{name}_after:",
        ]
        return {register: f"{mask.accumulator}_out" for register, mask in self.masks.items()}

    def _pointer(self, row: int, lines: list[str]) -> str:
        element, pointer = self.state.names.fresh(), self.state.names.fresh()
        origin = self.state.row_origin(row)
        lines += [
            f"{element} = add i64 %{self.label}_lane, {origin}",
            f"{pointer} = getelementptr i32, ptr %wave, i64 {element}",
        ]
        return pointer

    def _store_rows(self, lines: list[str], pointers: dict[int, str]) -> str:
        """Store full chunks as they are, and merge partial ones with the previous content."""
        name = self.label
        lines += [
            f"%{name}_all = icmp eq i{CHUNK} %{name}_byte, -1",
            f"br i1 %{name}_all, label %{name}_full, label %{name}_part",
            f"{name}_full:",
        ]
        rows = sorted(self.written)
        for row in rows:
            lines.append(f"store <{CHUNK} x i32> {self.rows[row]}, ptr {pointers[row]}, align {_CHUNK_BYTES}")
        lines += [f"br label %{name}_stored", f"{name}_part:"]
        for row in rows:
            before, merged = self.state.names.fresh(), self.state.names.fresh()
            lines += [
                f"{before} = load <{CHUNK} x i32>, ptr {pointers[row]}, align {_CHUNK_BYTES}",
                f"{merged} = select <{CHUNK} x i1> %{name}_mask, <{CHUNK} x i32> {self.rows[row]}, <{CHUNK} x i32> {before}",
                f"store <{CHUNK} x i32> {merged}, ptr {pointers[row]}, align {_CHUNK_BYTES}",
            ]
        lines += [f"br label %{name}_stored", f"{name}_stored:"]
        return f"{name}_stored"
