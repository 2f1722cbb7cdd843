"""Messages about findings of `rocm-perf run --check` in kernels."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.emulator.structures import AccessKind, FindingRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.emulator.program import Program

_SHOWN_LANES = 4
_ACCESSES, _MOST_STEPS = ("global_", "flat_", "buffer_", "ds_"), 8
"""Maximum distance, in preceding instructions, of a source line that is used for an instruction without one."""


class DeviceDetail(ctypes.Structure):
    """struct rpl_device_detail."""

    _fields_ = (
        ("finding", FindingRecord),
        ("dispatch", ctypes.c_uint64),
        ("queue", ctypes.c_uint32),
        ("waves_per_group", ctypes.c_uint32),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
    )


@dataclass(frozen=True)
class DeviceText:
    """Finding in a kernel, for the user."""

    message: str
    instruction: str
    source: str | None
    """File and line."""
    other_source: str | None
    """Source line of the other access of a race."""


def describe_finding(
    kind: str, place: str, content: bytes, program: Program, line_of: Callable[[int], str | None] | None
) -> DeviceText:
    """Return the text of a finding in a kernel.

    Args:
        kind: Its name (`device_checks.c`).
        place: Text about the address.
        content: struct rpl_device_detail.
        program: Instructions of the kernel.
        line_of: Returns the source line of an address of the code object; None if lines are unknown.

    Raises:
        LabError: The record is damaged.
    """
    if len(content) < ctypes.sizeof(DeviceDetail):
        raise LabError(f"the record of a finding has {len(content)} bytes")
    detail = DeviceDetail.from_buffer_copy(content)
    record, lines = detail.finding, line_of or (lambda _: None)
    texts = _Texts(detail, program, lines)
    address = texts.address()
    return DeviceText(
        message=texts.message(kind, place),
        instruction=texts.instruction(address),
        source=texts.line_near(address),
        other_source=texts.line(record.other_inst),
    )


@dataclass(frozen=True)
class _Texts:
    detail: DeviceDetail
    program: Program
    lines: Callable[[int], str | None]

    @property
    def record(self) -> FindingRecord:
        """The finding."""
        found: FindingRecord = self.detail.finding
        return found

    def address(self) -> int:
        """Return the address of the instruction in the code object; a barrier precedes its resume point."""
        from rocm_perf_lab.emulator.translate.function import resume_id

        instructions = self.program.instructions
        if 0 <= self.record.inst < len(instructions):
            return int(instructions[self.record.inst].address)
        resumes = {resume_id(block): block.address for block in self.program.blocks}
        behind = resumes.get(int(self.record.detail))
        return next((int(one.address) for one in instructions if one.address + one.size == behind), 0)

    def instruction(self, address: int) -> str:
        """Return the text of an instruction."""
        return next((one.text for one in self.program.instructions if one.address == address), "")

    def line(self, index: int) -> str | None:
        """Return the source line of an instruction by its index."""
        known = 0 <= index < len(self.program.instructions)
        return self.line_near(self.program.instructions[index].address) if known else None

    def line_near(self, address: int) -> str | None:
        """Return the line of an instruction; if the compiler merged several lines, that of the last access before it."""
        line = self.lines(address)
        if line is not None:
            return line
        before = [one.address for one in self.program.instructions if one.address < address and one.text.startswith(_ACCESSES)]
        return next((line for line in map(self.lines, reversed(before[-_MOST_STEPS:])) if line is not None), None)

    def message(self, kind: str, place: str) -> str:
        """Return the sentence about a finding."""
        record = self.record
        access = f"{AccessKind(record.access).name.lower()} of {record.width_bytes} byte{'s' * (record.width_bytes != 1)}"
        where = f"by {self._work_item()} of workgroup {_triple(record.workgroup)}"
        match kind:
            case "divergent_barrier" if record.lanes:
                wavefront = f"wavefront {record.wave} of workgroup {_triple(record.workgroup)}"
                return f"{self._lanes()} of {wavefront} skip this barrier{self._later()}"
            case "divergent_barrier":
                return f"wavefronts of workgroup {_triple(record.workgroup)} wait at different barriers"
            case "lds_race":
                return f"{access} at LDS offset {record.address} {where} races with {self._other()}"
            case "memory_race":
                return f"{access} at {place} {where} races with {self._other()}"
            case "lds_uninitialised":
                return f"{access} at uninitialised LDS offset {record.address} {where}; the results depend on it"
            case "memory_uninitialised":
                return f"{access} at uninitialised {place} {where}; the results depend on it"
            case "lds_out_of_bounds":
                return f"{access} at LDS offset {record.address} {where}, which has {int(record.detail)} bytes of LDS"
            case "scratch_out_of_bounds":
                offset, size = int(record.address) & 0xFFFF_FFFF, int(record.detail)
                return f"{access} at offset {offset} of the private memory {where}, which has {size} bytes"
            case "misaligned":
                return f"misaligned {access} at {place or f'LDS offset {record.address}'} {where}"
            case "use_after_free":
                return f"{access} of freed memory, {place}, {where}"
            case _:
                return (
                    f"{access} {place} {where}"
                    if "past the end" in place or " before " in place
                    else f"{access} at {place} {where}"
                )

    def _work_item(self) -> str:
        block = self.detail.block
        lane = (int(self.record.lanes) & -int(self.record.lanes)).bit_length() - 1
        size = -(-(block[0] * block[1] * block[2]) // max(1, self.detail.waves_per_group))
        wave_size = 64 if size > 32 or self.detail.waves_per_group == 1 else 32
        item = self.record.wave * wave_size + max(0, lane)
        more = f" and {bin(int(self.record.lanes)).count('1') - 1} more" if int(self.record.lanes).bit_count() > 1 else ""
        triple = (item % block[0], item // block[0] % block[1], item // (block[0] * block[1]))
        return f"work-item {_triple(triple)}{more}"

    def _lanes(self) -> str:
        lanes = [lane for lane in range(64) if int(self.record.lanes) >> lane & 1]
        more = f" and {len(lanes) - _SHOWN_LANES} more" if len(lanes) > _SHOWN_LANES else ""
        return f"lanes {', '.join(map(str, lanes[:_SHOWN_LANES]))}{more}"

    def _later(self) -> str:
        line = self.line(self.record.other_inst)
        return f" and later execute {line}" if line else " and act later"

    def _other(self) -> str:
        other = self.program.instructions[self.record.other_inst]
        group, wave = divmod(self.record.other_wave - 1, self.detail.waves_per_group)
        line = self.line(self.record.other_inst)
        grid = self.detail.grid
        number = (group % grid[0], group // grid[0] % grid[1], group // (grid[0] * grid[1]))
        return f"`{other.text}`{f' at {line}' if line else ''} by wavefront {wave} of workgroup {_triple(number)}"


def _triple(values: object) -> str:
    return f"({', '.join(map(str, values))})"  # type: ignore[call-overload]
