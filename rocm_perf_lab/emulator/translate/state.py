"""Registers of a wavefront during translation of a basic block.

Scalar registers are SSA values, loaded on first use and stored when the block ends or the runtime needs them. Vector
instructions between two scalar or memory instructions form a :class:`LaneGroup`: one loop over chunks of lanes, inside
which vector registers are SSA values too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rocm_perf_lab.emulator.pcode.ir import Builder
from rocm_perf_lab.emulator.pcode.values import Value, constant
from rocm_perf_lab.emulator.structures import EXEC, LANES, NULL, offset_of
from rocm_perf_lab.emulator.translate.lane_group import LaneGroup

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.emulator.isa.instruction import Instruction
    from rocm_perf_lab.emulator.pcode.llvm_text import SsaNames
    from rocm_perf_lab.emulator.translate.mode import ModeRegister

_WORD_BITS = 32


class OperationCalls(Protocol):
    """Functions to call for operations (see :mod:`.shared_operations`)."""

    def enter_block(self, block: int, instructions: int, names: SsaNames) -> str:
        """Return a call that counts the execution of a block."""
        ...

    def call(
        self,
        state: BlockState,
        instruction: Instruction,
        emit: Callable[[BlockState, Instruction, int | None], None],
        source0_row: int | None = None,
    ) -> bool:
        """Emit an instruction as a call, and return whether that is possible."""
        ...


class BlockState:
    """Registers of one basic block under translation; `lines` receives finished code."""

    def __init__(
        self,
        names: SsaNames,
        lines: list[str],
        mode: ModeRegister,
        shared: OperationCalls | None = None,
        *,
        wave_size: int = LANES,
    ) -> None:
        self.names = names
        self.lines = lines
        self.mode = mode
        self.shared = shared
        """Functions to call for operations; None translates operations in place."""
        self.wave_size = wave_size
        """Lanes of the wavefront: 64, or 32 with masks of a single SGPR."""
        self.last_index = 0
        self._vectors: dict[str, int] = {}
        self._scalars: dict[int, str] = {}
        self._pairs: dict[int, str] = {}
        self._masks: dict[int, str] = {}
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

    def device_address(self, address: int) -> Value:
        """Return the device address of an address of the code object, which may be loaded anywhere."""
        field, base, value = (self.names.fresh() for _ in range(3))
        self.lines += [
            f"{field} = getelementptr i8, ptr %wave, i64 {offset_of('load_address')}",
            f"{base} = load i64, ptr {field}",
            f"{value} = add i64 {base}, {address}",
        ]
        return Value(value, "u", 64)

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
        """Return an SGPR pair; NULL is zero."""
        if register == NULL:
            return constant(0, 64)
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

    @property
    def mask_registers(self) -> int:
        """SGPRs of a lane mask."""
        return self.wave_size // _WORD_BITS

    def read_mask(self, register: int) -> Value:
        """Return a lane mask as 64 bits, those beyond the wavefront zero."""
        if self.wave_size == LANES:
            return self.read64(register)
        self._settle_masks(register, 1)
        if register not in self._masks:
            wide = self.names.fresh()
            self.lines.append(f"{wide} = zext i32 {self._load32(register)} to i64")
            self._masks[register] = wide
        return Value(self._masks[register], "u", 64)

    def write_mask(self, register: int, value: Value) -> None:
        """Set a lane mask from 64 bits."""
        self.write(register, self.scalar_builder.resize(value, self.wave_size, signed=False))

    def write(self, register: int, value: Value) -> None:
        """Set an SGPR, or a pair if the value has 64 bits; nothing is written to NULL."""
        if register == NULL:
            return
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
        if register != EXEC or self.wave_size == LANES:
            self._pairs[register] = whole

    def forget(self, register: int, count: int) -> None:
        """Discard SGPRs that the runtime has written in memory."""
        self._settle_masks(register, count)
        for number in range(register, register + count):
            self._scalars.pop(number, None)
            self._dirty.discard(number)
            self._pairs.pop(number, None)
            self._pairs.pop(number - 1, None)
            self._masks.pop(number, None)

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
        self._masks.pop(register, None)
        if register == EXEC + 1 and self.wave_size < LANES:
            operand = "0"  # of lanes that do not exist
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
            execute = self.read_mask(EXEC)
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
            for slot, accumulator in group.watched:
                self.mark_mask(slot, f"{accumulator}_out", group.execute)
            for register, name in masks.items():
                self.write_mask(register, Value(name, "u", 64))

    def _set_rounding(self, first_bit: int | None) -> None:
        if first_bit is not None:
            self.names.declare("declare void @rpl_set_rounding(ptr, i32)")
            self.lines.append(f"call void @rpl_set_rounding(ptr %wave, i32 {first_bit})")

    def pending_mask(self, register: int) -> Value | None:
        """Return this chunk's bits of a mask that the open group has computed."""
        return self._group.masks[register].bits if self._group is not None and register in self._group.masks else None

    # outcomes of conditions

    def watch_mask(self, slot: int, register: int) -> None:
        """Record the outcomes of the comparison that has just written a mask: now, or when the open group ends."""
        if self._group is not None and register in self._group.masks:
            self._group.watched.append((slot, self._group.masks[register].accumulator))
            return
        mask, execute = self.read_mask(register), self.read_mask(EXEC)  # neither closes a group that holds the mask
        self.mark_mask(slot, str(self.scalar_builder.text(mask)), str(self.scalar_builder.text(execute)))

    def mark_mask(self, slot: int, mask: str, execute: str) -> None:
        """Record whether a bit of a mask is set, and whether one is clear, for any active lane."""
        active, some, outside, others, lacks, low, high, both = (self.names.fresh() for _ in range(8))
        self.lines += [
            f"{active} = and i64 {mask}, {execute}",
            f"{some} = icmp ne i64 {active}, 0",
            f"{outside} = xor i64 {mask}, -1",
            f"{others} = and i64 {outside}, {execute}",
            f"{lacks} = icmp ne i64 {others}, 0",
            f"{low} = select i1 {some}, i64 1, i64 0",
            f"{high} = select i1 {lacks}, i64 2, i64 0",
            f"{both} = or i64 {low}, {high}",
        ]
        self._mark(slot, both)

    def mark_condition(self, slot: int, condition: Value) -> None:
        """Record the outcome of a condition of the whole wavefront."""
        outcome = self.names.fresh()
        self.lines.append(f"{outcome} = select i1 {self.scalar_builder.text(condition)}, i64 1, i64 2")
        self._mark(slot, outcome)

    def keep_word(self, slot: int, value: Value) -> None:
        """Store a value of the wavefront in a word that follows the counts of the blocks."""
        wide = self.scalar_builder.text(self.scalar_builder.resize(value, 64, signed=False))
        self.lines.append(f"store i64 {wide}, ptr {self._word(slot)}")

    def _mark(self, slot: int, outcomes: str) -> None:
        before, joined = self.names.fresh(), self.names.fresh()
        address = self._word(slot)
        self.lines += [
            f"{before} = load i64, ptr {address}",
            f"{joined} = or i64 {before}, {outcomes}",
            f"store i64 {joined}, ptr {address}",
        ]

    def _word(self, slot: int) -> str:
        address = self.names.fresh()
        self.lines.append(f"{address} = getelementptr i64, ptr %executions, i64 {slot}")
        return address

    # counts of active lanes

    def count_vector(self) -> None:
        """Count a vector instruction that is not part of a group."""
        execute = str(self.read_mask(EXEC).operand)
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
