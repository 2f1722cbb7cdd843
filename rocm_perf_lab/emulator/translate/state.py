"""Registers of a wavefront during translation of a basic block.

Scalar registers are SSA values, loaded on first use and stored when the block ends or the runtime needs them. Vector
instructions between two scalar or memory instructions form a :class:`LaneGroup`: one loop over chunks of lanes, inside
which vector registers are SSA values too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.pcode.ir import Builder
from rocm_perf_lab.emulator.pcode.llvm_text import CHUNK, SsaNames, type_text
from rocm_perf_lab.emulator.pcode.values import Value, constant
from rocm_perf_lab.emulator.structures import EXEC, LANES, offset_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.emulator.isa.instruction import Instruction
    from rocm_perf_lab.emulator.translate.mode import ModeRegister
    from rocm_perf_lab.emulator.translate.shared_operations import SharedOperations

_CHUNK_BYTES = CHUNK * 4


class BlockState:
    """Registers of one basic block under translation; `lines` receives finished code."""

    def __init__(self, names: SsaNames, lines: list[str], mode: ModeRegister, shared: SharedOperations | None = None) -> None:
        self.names = names
        self.lines = lines
        self.mode = mode
        self.shared = shared
        """Functions to call for operations; None translates operations in place."""
        self.last_index = 0
        self._vectors: dict[str, int] = {}
        self._scalars: dict[int, str] = {}
        self._pairs: dict[int, str] = {}
        self._dirty: set[int] = set()
        self._scc: Value | None = None
        self._scc_dirty = False
        self._group: LaneGroup | None = None
        self._groups = 0

    @property
    def scalar_builder(self) -> Builder:
        """Builder for code that is common to the whole wavefront."""
        return Builder(self.names, self.lines, self.lines, self.mode_bit)

    # the MODE register

    def mode_bit(self, index: int) -> Value:
        """Return a bit of MODE, as a constant unless it depends on the path."""
        known = self.mode.bit(index)
        if known is not None:
            return Value(int(known), "u", 1)
        builder = Builder(self.names, self.lines, self.lines)
        return builder.resize(builder.binary(">>", self.load_mode(), constant(index)), 1, signed=False)

    def load_mode(self) -> Value:
        """Return the whole register of the wavefront."""
        address, value = self.names.fresh(), self.names.fresh()
        self.lines += [
            f"{address} = getelementptr i8, ptr %wave, i64 {offset_of('mode')}",
            f"{value} = load i32, ptr {address}",
        ]
        return Value(value, "u", 32)

    def literal(self, instruction: Instruction, bits: int) -> Value:
        """Return the literal of an instruction that reads it as part of its operation."""
        return constant(instruction.fields["literal"], bits)

    # scalar registers

    def sgpr_pointer(self, register: int) -> str:
        """Return the address of an SGPR."""
        address = self.names.fresh()
        self.lines.append(f"{address} = getelementptr i8, ptr %wave, i64 {offset_of('sgpr') + 4 * register}")
        return address

    def read32(self, register: int) -> Value:
        """Return an SGPR."""
        self._settle_masks(register, 1)
        return Value(self._load32(register), "u", 32)

    def read64(self, register: int) -> Value:
        """Return an SGPR pair."""
        self._settle_masks(register, 2)
        if register not in self._pairs:
            low, high = self._load32(register), self._load32(register + 1)
            wide_low, wide_high, shifted, joined = (self.names.fresh() for _ in range(4))
            self.lines += [
                f"{wide_low} = zext i32 {low} to i64",
                f"{wide_high} = zext i32 {high} to i64",
                f"{shifted} = shl i64 {wide_high}, 32",
                f"{joined} = or i64 {shifted}, {wide_low}",
            ]
            self._pairs[register] = joined
        return Value(self._pairs[register], "u", 64)

    def write(self, register: int, value: Value) -> None:
        """Set an SGPR, or a pair if the value has 64 bits."""
        raw = self.scalar_builder.raw(value)
        if raw.bits <= 32:
            self._settle_masks(register, 1)
            self._write32(register, self.scalar_builder.text(self.scalar_builder.resize(raw, 32, signed=False)))
            return
        self._settle_masks(register, 2)
        whole = self.scalar_builder.text(raw)
        low, shifted, high = (self.names.fresh() for _ in range(3))
        self.lines += [
            f"{low} = trunc i64 {whole} to i32",
            f"{shifted} = lshr i64 {whole}, 32",
            f"{high} = trunc i64 {shifted} to i32",
        ]
        self._write32(register, low)
        self._write32(register + 1, high)
        self._pairs[register] = whole

    def forget(self, register: int, count: int) -> None:
        """Discard SGPRs that the runtime has written in memory."""
        self._settle_masks(register, count)
        for number in range(register, register + count):
            self._scalars.pop(number, None)
            self._dirty.discard(number)
            self._pairs.pop(number, None)
            self._pairs.pop(number - 1, None)

    @property
    def scc(self) -> Value:
        """Scalar condition code, one bit."""
        if self._scc is None:
            address, word, bit = (self.names.fresh() for _ in range(3))
            self.lines += [
                f"{address} = getelementptr i8, ptr %wave, i64 {offset_of('scc')}",
                f"{word} = load i32, ptr {address}",
                f"{bit} = trunc i32 {word} to i1",
            ]
            self._scc = Value(bit, "u", 1)
        return self._scc

    @scc.setter
    def scc(self, value: Value) -> None:
        self._scc = self.scalar_builder.boolean(value)
        self._scc_dirty = True

    def forget_scc(self) -> None:
        """Discard SCC, which a function has written in memory."""
        self._scc, self._scc_dirty = None, False

    @property
    def pending_stores(self) -> tuple[tuple[int, ...], bool]:
        """Changed SGPRs, and whether SCC has changed."""
        return tuple(sorted(self._dirty)), self._scc_dirty

    def store_scalars(self) -> None:
        """Write changed registers back to the memory of the wavefront."""
        for register in sorted(self._dirty):
            address = self.sgpr_pointer(register)
            self.lines.append(f"store i32 {self._scalars[register]}, ptr {address}")
        self._dirty.clear()
        if self._scc_dirty and self._scc is not None:
            address, word = self.names.fresh(), self.names.fresh()
            self.lines += [
                f"{word} = zext i1 {self.scalar_builder.text(self._scc)} to i32",
                f"{address} = getelementptr i8, ptr %wave, i64 {offset_of('scc')}",
                f"store i32 {word}, ptr {address}",
            ]
            self._scc_dirty = False

    def _load32(self, register: int) -> str:
        if register not in self._scalars:
            address, value = self.sgpr_pointer(register), self.names.fresh()
            self.lines.append(f"{value} = load i32, ptr {address}")
            self._scalars[register] = value
        return self._scalars[register]

    def _write32(self, register: int, operand: str) -> None:
        self._scalars[register] = operand
        self._dirty.add(register)
        self._pairs.pop(register, None)
        self._pairs.pop(register - 1, None)

    def _settle_masks(self, register: int, count: int) -> None:
        """Finish the open group if it holds a pending mask that overlaps these SGPRs."""
        if self._group is not None and self._group.overlaps(register, count):
            self.close_group()

    # lane groups

    def row_origin(self, row: int) -> str:
        """Return the number of dwords from the start of the wavefront to a row of the vector register file."""
        return str(row * LANES)

    @property
    def group(self) -> LaneGroup:
        """The open group; opened with the current EXEC if there is none."""
        if self._group is None:
            execute = self.read64(EXEC)
            self._groups += 1
            self._group = LaneGroup(self, str(execute.operand), f"g{self._groups}_{len(self.lines)}")
        return self._group

    def round_as(self, first_bit: int) -> None:
        """Round the next vector instruction by the field of MODE at `first_bit`; closes a group with another rounding."""
        is_default = self.mode.bit(first_bit) is False and self.mode.bit(first_bit + 1) is False
        wanted = None if is_default else first_bit
        if self._group is not None and self._group.rounding != wanted:
            self.close_group()
        self.group.rounding = wanted

    def close_group(self) -> None:
        """Emit the loop of the open group."""
        group, self._group = self._group, None
        if group is not None:
            self._set_rounding(group.rounding)
            masks = group.finish(self.lines)
            self._set_rounding(None if group.rounding is None else -1)
            self._vectors[group.execute] = self._vectors.get(group.execute, 0) + group.instructions
            for register, name in masks.items():
                self.write(register, Value(name, "u", 64))

    def _set_rounding(self, first_bit: int | None) -> None:
        if first_bit is not None:
            self.names.declare("declare void @rpl_set_rounding(ptr, i32)")
            self.lines.append(f"call void @rpl_set_rounding(ptr %wave, i32 {first_bit})")

    def pending_mask(self, register: int) -> Value | None:
        """Return this chunk's bits of a mask that the open group has computed."""
        return self._group.masks[register].bits if self._group is not None and register in self._group.masks else None

    # counts of active lanes

    def count_vector(self) -> None:
        """Count a vector instruction that is not part of a group."""
        execute = str(self.read64(EXEC).operand)
        self._vectors[execute] = self._vectors.get(execute, 0) + 1

    def active_lanes(self) -> str | None:
        """Emit the sum of popcount(EXEC) over the vector instructions so far (SQ_THREAD_CYCLES_VALU); None without any."""
        total: str | None = None
        for execute, instructions in self._vectors.items():
            self.names.declare("declare i64 @llvm.ctpop.i64(i64)")
            lanes, weighted = self.names.fresh(), self.names.fresh()
            self.lines += [
                f"{lanes} = call i64 @llvm.ctpop.i64(i64 {execute})",
                f"{weighted} = mul i64 {lanes}, {instructions}",
            ]
            if total is not None:
                both = self.names.fresh()
                self.lines.append(f"{both} = add i64 {total}, {weighted}")
                weighted = both
            total = weighted
        return total


@dataclass
class _Mask:
    bits: Value
    accumulator: str


@dataclass
class LaneGroup:
    """Vector instructions that share one loop over chunks of lanes."""

    state: BlockState
    execute: str
    label: str
    body: list[str] = field(default_factory=list)
    rows: dict[int, str] = field(default_factory=dict)
    loaded: dict[int, str] = field(default_factory=dict)
    written: set[int] = field(default_factory=set)
    masks: dict[int, _Mask] = field(default_factory=dict)
    accumulators: list[str] = field(default_factory=list)
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
        """Return this chunk's bits of a mask in an SGPR pair."""
        if register in self.masks:
            return self.masks[register].bits
        mask = self.state.read64(register)
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
        return any(register < mask + 2 and mask < register + count for mask in self.masks)

    def clashes(self, register: int) -> bool:
        """Return whether a mask here would share only one SGPR with a pending mask."""
        return register - 1 in self.masks or register + 1 in self.masks

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
            f"%{name}_done = icmp eq i64 %{name}_next, {LANES}",
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
