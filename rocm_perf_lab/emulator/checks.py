"""Checks beyond those of a GPU, for one launch: races, uninitialised reads, barriers, alignment.

`Checks` owns the shadow memory of `runtime/checks.h` during a launch; `findings()` returns each problem once per source line.
Without checks the runtime tests one pointer per access.
"""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Self

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.emulator.device_heap import BOOKS_NAME, SLAB_NAME
from rocm_perf_lab.emulator.device_printf import BUFFER_NAME
from rocm_perf_lab.emulator.host_calls import QUEUE_NAME
from rocm_perf_lab.emulator.kernarg import GRID_SYNC_NAME, LDS_APERTURE_HIGH
from rocm_perf_lab.emulator.loader import ALLOCATION_NAME
from rocm_perf_lab.emulator.structures import AccessKind, ChecksRecord, FindingRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.build import Runtime
    from rocm_perf_lab.emulator.isa.instruction import Instruction
    from rocm_perf_lab.emulator.isa.instruction_set import InstructionSet
    from rocm_perf_lab.emulator.memory import Allocation, DeviceMemory
    from rocm_perf_lab.emulator.program import Program

_CELL_BYTES = 64
"""sizeof(struct rpl_cell); a test compares both."""
_DWORD_BYTES = 4
_CAPACITY = 256
_SHOWN_LANES = 8
_RUNTIME_BUFFERS = ("dispatch packet", "kernel arguments", GRID_SYNC_NAME, QUEUE_NAME, BOOKS_NAME, SLAB_NAME, BUFFER_NAME)
"""Buffers that the runtime and the device libraries synchronise themselves, and memory that is reused."""
_COHERENT_BITS = {"GLOBAL": (16, 25), "FLAT": (16, 25), "MUBUF": (14, 15)}
"""SC0 and SC1 of the encoding, set on atomic or volatile loads and stores (LLVM, AMDGPU memory model gfx942)."""
_RETURN_BITS = {"GLOBAL": 16, "FLAT": 16, "MUBUF": 14, "SMEM": 16}
"""Bit of an atomic's encoding that is set if it returns the replaced value."""
_RETURNS_OF_LDS = re.compile(r"DS_\w+_RTN")
_EXCHANGE = re.compile(r"_ATOMIC_SWAP(?:_X2)?$")
_COMPARE = re.compile(r"_ATOMIC_F?CMPSWAP|^DS_CMPST")
_NONTEMPORAL_BITS = {"GLOBAL": 17, "FLAT": 17, "MUBUF": 17}
"""SLC of the encoding, set with GLC on nontemporal accesses, which are not atomic (LLVM, AMDGPU memory model gfx90a)."""
_COHERENT, _ONLY_WRITES, _MAY_BE_ATOMIC_IN_GROUP, _MAY_BE_ATOMIC, _COMPARES, _RETURNS = 1, 2, 4, 8, 16, 32
_LONGEST_ATOMIC_BITS = 64


class CheckKind(IntEnum):
    """Kind of problem to look for (enum rpl_check_kind)."""

    LDS_RACES = 0
    MEMORY_RACES = 1
    LDS_UNINITIALISED = 2
    MEMORY_UNINITIALISED = 3
    BARRIERS = 4
    ALIGNMENT = 5
    SAME_VALUE = 6
    POSSIBLE_RACES = 7

    @property
    def option(self) -> str:
        """Return the name in the configuration: `lds_races`."""
        return self.name.lower()


_RACES = (CheckKind.LDS_RACES, CheckKind.MEMORY_RACES, CheckKind.SAME_VALUE, CheckKind.POSSIBLE_RACES)
_NEEDS_CELLS = frozenset({CheckKind.MEMORY_RACES, CheckKind.POSSIBLE_RACES})
_REMARKS = frozenset({CheckKind.SAME_VALUE.option, CheckKind.POSSIBLE_RACES.option})
UNINITIALISED = frozenset({CheckKind.LDS_UNINITIALISED, CheckKind.MEMORY_UNINITIALISED})


@dataclass(frozen=True)
class CheckFinding:
    """Problem found by a check.

    `source` is the source line if known, `address` the address of the instruction in the code object. A `same_value` is not a
    defect: several wavefronts store the same value to one address without synchronisation. Kernels do this on purpose (a flag, a
    common maximum), but it becomes a race as soon as one of them stores another value. `possible_races` are races unless both
    accesses are atomic, which gfx90a does not show; or loads that may be the guess of a loop of compare-and-swaps.
    """

    check: str
    message: str
    instruction: str
    address: int
    source: str | None
    workgroup: tuple[int, int, int]
    wave: int
    lanes: tuple[int, ...]
    has_effect: bool = True
    """False for a read of uninitialised memory on which no result of the launch depends."""

    @property
    def is_defect(self) -> bool:
        """Return False for a finding that is only a remark."""
        return self.has_effect and self.check not in _REMARKS

    @property
    def reads_uninitialised(self) -> bool:
        """Return whether the finding is a read of uninitialised memory."""
        return self.check in {check.option for check in UNINITIALISED}

    def without_effect(self) -> CheckFinding:
        """Return the finding as a remark: the results do not depend on the value that was read."""
        return replace(self, message=f"{self.message}; the results do not depend on it", has_effect=False)

    def __str__(self) -> str:
        place = f"{self.source}: " if self.source else ""
        return f"{place}{self.message} (`{self.instruction}` at {self.address:#x})"


def parse_checks(names: str | Iterable[str]) -> frozenset[CheckKind]:
    """Parse `none`, `all`, or names separated by commas.

    Raises:
        LabError: A name is not that of a check.
    """
    separate = names.split(",") if isinstance(names, str) else list(names)
    chosen: set[CheckKind] = set()
    for name in filter(None, (n.strip() for n in separate)):
        if name == "all":
            chosen |= set(CheckKind)
        elif name != "none":
            known = {check.option: check for check in CheckKind}
            if name not in known:
                raise LabError(
                    f"unknown check {name!r}", where="device.check", hint=f"Use all, none, or some of: {', '.join(known)}."
                )
            chosen.add(known[name])
    return frozenset(chosen)


def limits_of_checks(isa: InstructionSet, chosen: frozenset[CheckKind]) -> str | None:
    """Return the limits of the chosen checks on an instruction set, as a sentence; None if there are none."""
    if isa.marks_atomic_stores or not chosen & _NEEDS_CELLS:
        return None
    return (
        f"memory races: {isa.architecture} does not mark atomic stores, atomic loads of a workgroup and releases. Two accesses "
        "that may be atomic are a possible race, one of them does not race with an atomic, and an acquire orders all before it"
    )


class Checks:
    """Shadow memory of one launch; a context manager that frees it.

    Args:
        chosen: Checks to make; not empty.
        runtime: C runtime.
        program: Program of the kernel.
        memory: Device memory; its allocations must not change during the lifetime of this object.
        workgroups: Workgroups of the launch.
        waves_per_workgroup: Wavefronts per workgroup.
        named_barriers: Require that wavefronts meet at the same barrier instruction, as HIP and OpenCL do; the hardware does not.
    """

    def __init__(
        self,
        chosen: frozenset[CheckKind],
        runtime: Runtime,
        program: Program,
        memory: DeviceMemory,
        workgroups: int,
        waves_per_workgroup: int,
        *,
        named_barriers: bool = True,
    ) -> None:
        self._runtime, self._program, self._memory = runtime, program, memory
        self._waves_per_workgroup = waves_per_workgroup
        allocations = [a for a in memory.allocations if a.nbytes]
        count = max(1, len(program.instructions))
        self._traits = (ctypes.c_uint8 * count)(*map(access_traits, program.instructions))
        self._reported = (ctypes.c_uint8 * count)()
        self._released = (ctypes.c_uint32 * workgroups)()
        self._findings = (FindingRecord * _CAPACITY)()
        self._maps = [self._map(a) if chosen & _NEEDS_CELLS else None for a in allocations]
        self._masks = [memory.initialised(a) if CheckKind.MEMORY_UNINITIALISED in chosen else None for a in allocations]
        self._cells = (ctypes.c_void_p * max(1, len(allocations)))(*(m and m[0] for m in self._maps))
        self._initialised = (ctypes.c_void_p * max(1, len(allocations)))(*map(_address, self._masks))
        self.record = ChecksRecord(
            enabled=sum(1 << check for check in chosen),
            traits=ctypes.addressof(self._traits),
            reported=ctypes.addressof(self._reported),
            cells=ctypes.addressof(self._cells),
            initialised=ctypes.addressof(self._initialised),
            released=ctypes.addressof(self._released),
            findings=ctypes.addressof(self._findings),
            finding_capacity=_CAPACITY,
            meeting=next((a.address for a in allocations if a.name == GRID_SYNC_NAME and not memory.is_freed(a)), 0),
            waves_per_group=waves_per_workgroup,
            one_barrier=not named_barriers,
            unseen_releases=not program.isa.marks_atomic_stores,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for mapped in filter(None, self._maps):
            self._runtime.library.rpl_shadow_unmap(ctypes.c_void_p(mapped[0]), ctypes.c_uint64(mapped[1]))

    def _map(self, allocation: Allocation) -> tuple[int, int] | None:
        if allocation.name in _RUNTIME_BUFFERS or self._memory.is_freed(allocation):
            return None
        size = (allocation.nbytes // _DWORD_BYTES + 2) * _CELL_BYTES
        make = self._runtime.library.rpl_shadow_map
        make.restype = ctypes.c_void_p
        address = make(ctypes.c_uint64(size))
        if address is None:
            raise LabError(
                f"no memory to check races on buffer {allocation.name!r}", where="device.check", hint="Use smaller buffers."
            )
        return int(address), size

    def findings(
        self, resume_address: Callable[[int], int | None], source_line: Callable[[int], str | None] | None
    ) -> tuple[CheckFinding, ...]:
        """Return the problems, each once per check and source line (or instruction if lines are unknown).

        Args:
            resume_address: Returns the address of a resume point, to find the barrier before it.
            source_line: Returns the source line of an address of the code object.
        """
        line_of = source_line or (lambda _: None)
        records = self._findings[: self.record.finding_count]
        raced = {frozenset((r.inst, r.other_inst)) for r in records if CheckKind(r.kind) in _RACES}
        seen: dict[tuple[str, object], CheckFinding] = {}
        for record in records:
            if CheckKind(record.kind) in UNINITIALISED and any(record.inst in pair for pair in raced):
                continue  # a read that races with the write of its data
            if CheckKind(record.kind) is CheckKind.ALIGNMENT and self._is_of_compiler(record):
                continue  # constant data such as strings, which compilers load in words at any address
            finding = self._describe(record, resume_address, line_of)
            seen.setdefault((finding.check, self._identity(record, finding, line_of)), finding)
        return tuple(seen.values())

    def _is_of_compiler(self, record: FindingRecord) -> bool:
        buffer = self._memory.nearest(record.address)
        return buffer is not None and buffer.name in (ALLOCATION_NAME, QUEUE_NAME, BUFFER_NAME)

    def _identity(self, record: FindingRecord, finding: CheckFinding, line_of: Callable[[int], str | None]) -> object:
        """Return the identity that merges equal problems; a race is identified by its two lines in any order."""
        here = finding.source or finding.address
        if CheckKind(record.kind) not in _RACES:
            return here
        other = self._program.instructions[record.other_inst].address
        return frozenset((here, line_of(other) or other))

    def _describe(
        self, record: FindingRecord, resume_address: Callable[[int], int | None], line_of: Callable[[int], str | None]
    ) -> CheckFinding:
        instruction = self._instruction(record, resume_address)
        lanes = tuple(lane for lane in range(64) if record.lanes >> lane & 1)
        x, y, z = record.workgroup
        return CheckFinding(
            check=CheckKind(record.kind).option,
            message=self._message(record, lanes, line_of),
            instruction=instruction.text,
            address=instruction.address,
            source=line_of(instruction.address),
            workgroup=(x, y, z),
            wave=record.wave,
            lanes=lanes,
        )

    def _instruction(self, record: FindingRecord, resume_address: Callable[[int], int | None]) -> Instruction:
        if record.inst >= 0:
            named: Instruction = self._program.instructions[record.inst]
            return named
        behind = resume_address(int(record.detail))
        barrier: Instruction = next(i for i in self._program.instructions if i.address + i.size == behind)
        return barrier

    def _message(self, record: FindingRecord, lanes: Sequence[int], line_of: Callable[[int], str | None]) -> str:
        access = f"{AccessKind(record.access).name.lower()} of {record.width_bytes} bytes"
        where = f"wavefront {record.wave} of workgroup {_group_text(record)}"
        match CheckKind(record.kind):
            case CheckKind.BARRIERS if lanes:
                return f"{_lanes_text(lanes)} of {where} skip this barrier and {self._later(record, line_of)}"
            case CheckKind.BARRIERS:
                return f"wavefronts of workgroup {_group_text(record)} wait at different barriers"
            case CheckKind.LDS_RACES:
                return f"race on LDS offset {record.address}: {access} by {where}, {self._other(record, line_of)}"
            case CheckKind.SAME_VALUE:
                return f"one value is stored at {self._place(record)} by {where}, {self._other(record, line_of)}, unsynchronised"
            case CheckKind.POSSIBLE_RACES:
                return (
                    f"race on {self._place(record)} unless both are atomic: {access} by {where}, {self._other(record, line_of)}"
                )
            case CheckKind.MEMORY_RACES:
                return f"race on {self._place(record)}: {access} by {where}, {self._other(record, line_of)}"
            case CheckKind.LDS_UNINITIALISED:
                return f"{access} at uninitialised LDS offset {record.address} by {where}, {_lanes_text(lanes)}"
            case CheckKind.MEMORY_UNINITIALISED:
                return f"{access} at uninitialised {self._place(record)} by {where}, {_lanes_text(lanes)}"
            case _:
                return f"misaligned {access} at {self._place(record)} by {where}, {_lanes_text(lanes)}"

    def _later(self, record: FindingRecord, line_of: Callable[[int], str | None]) -> str:
        """Return a description of the later execution of lanes that skipped a barrier; they may reach another one."""
        if record.other_inst < 0:
            return "reach a later one"
        then = self._program.instructions[record.other_inst]
        line = line_of(then.address)
        return f"later execute `{then.text}`{f' at {line}' if line else ''}"

    def _place(self, record: FindingRecord) -> str:
        if record.address >> 32 == LDS_APERTURE_HIGH:
            return f"LDS offset {record.address & 0xFFFF_FFFF}"
        buffer = self._memory.nearest(record.address)
        if buffer is None or not buffer.address <= record.address < buffer.end:
            return f"{record.address:#x}"
        return f"byte {record.address - buffer.address:,} of buffer {buffer.name!r}"

    def _other(self, record: FindingRecord, line_of: Callable[[int], str | None]) -> str:
        group, wave = divmod(record.other_wave - 1, self._waves_per_workgroup)
        other = self._program.instructions[record.other_inst]
        line = line_of(other.address)
        return f"and `{other.text}`{f' at {line}' if line else ''} by wavefront {wave} of workgroup {group}"


def access_traits(instruction: Instruction) -> int:
    """Return the properties of an access (enum rpl_access_trait)."""
    coherent = any(instruction.bits(bit, bit) for bit in _COHERENT_BITS.get(instruction.encoding, ()))
    returns = _RETURNS * _returns(instruction)
    if _COMPARE.search(instruction.mnemonic):
        return _COHERENT | _COMPARES | returns
    if instruction.isa.marks_atomic_stores or "_ATOMIC_" in instruction.mnemonic:
        return _COHERENT * coherent | _ONLY_WRITES * _only_writes(instruction) | returns
    nontemporal = _NONTEMPORAL_BITS.get(instruction.encoding)
    if nontemporal is None or instruction.bits(nontemporal, nontemporal) or not _may_be_atomic(instruction):
        return returns
    if "_STORE_" in instruction.mnemonic:
        return _MAY_BE_ATOMIC
    return _COHERENT if coherent else _MAY_BE_ATOMIC_IN_GROUP


def _may_be_atomic(instruction: Instruction) -> bool:
    """Return whether a load or store has the width of an atomic one."""
    data = [operand for name, operand in instruction.operands.items() if name in ("data", "vdata", "vdst")]
    return bool(data) and all(operand.bits <= _LONGEST_ATOMIC_BITS for operand in data)


def _only_writes(instruction: Instruction) -> bool:
    """Return whether an instruction is an atomic exchange whose result is not returned: the replaced value does not matter."""
    return instruction.encoding in _RETURN_BITS and bool(_EXCHANGE.search(instruction.mnemonic)) and not _returns(instruction)


def _returns(instruction: Instruction) -> bool:
    """Return whether an instruction is an atomic that returns the value that it replaces."""
    if "_ATOMIC_" not in instruction.mnemonic:
        return bool(_RETURNS_OF_LDS.match(instruction.mnemonic))
    bit = _RETURN_BITS.get(instruction.encoding)
    return bit is not None and bool(instruction.bits(bit, bit))


def _address(mask: NDArray[np.uint8] | None) -> int | None:
    return None if mask is None else mask.ctypes.data


def _group_text(record: FindingRecord) -> str:
    return f"({', '.join(map(str, record.workgroup))})"


def _lanes_text(lanes: Sequence[int]) -> str:
    more = f" and {len(lanes) - _SHOWN_LANES} more" if len(lanes) > _SHOWN_LANES else ""
    return f"lanes {', '.join(map(str, lanes[:_SHOWN_LANES]))}{more}"
