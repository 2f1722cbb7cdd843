"""Hand-written thread traces of several SIMDs and workgroups: `Traced(code).wave(...)`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rocm_perf_lab.rocprof.att.model import AttTrace, Column, InstructionRow, Wave, WaveKey
from tests.builders.att import KERNEL, PROVENANCE, totals_of, wave

if TYPE_CHECKING:
    from collections.abc import Sequence

Step = tuple[int, int, int, int]
"""(row, idle, stall, latency) of an executed instruction."""


@dataclass
class Traced:
    """A trace under construction.

    Args:
        code: (instruction, source line), from row 1 on.
    """

    code: Sequence[tuple[str, str]]
    waves: list[Wave] = field(default_factory=list)
    _steps: list[Sequence[Step]] = field(default_factory=list)

    def wave(
        self,
        steps: Sequence[Step],
        *,
        simd: int = 0,
        slot: int = 0,
        begin: int = 0,
        tail: int = 0,
        unit: int = 1,
        workgroup: int | None = None,
    ) -> Traced:
        """Add a wavefront that starts at `begin` and ends `tail` clocks after its last instruction."""
        key = WaveKey(0, simd, slot, sum(one.key[1:3] == (simd, slot) for one in self.waves))
        made = wave(steps, [text for text, _ in self.code], key)
        instructions = made.instructions.copy()
        instructions[:, Column.TIME] += begin
        self.waves.append(
            replace(
                made,
                compute_unit=unit,
                begin=begin,
                end=made.end + begin + tail,
                instructions=instructions,
                workgroup=workgroup,
            )
        )
        self._steps.append(steps)
        return self

    def trace(self, *, gfxip: int = 9, architecture: str | None = "gfx942", is_partial: bool = False) -> AttTrace:
        """Return the trace."""
        totals = totals_of(self._steps)
        rows = tuple(
            InstructionRow(line, text, source, 1, 0x1000 + 8 * (line - 1), *totals.get(line, (0, 0, 0, 0)))
            for line, (text, source) in enumerate(self.code, start=1)
        )
        provenance = replace(PROVENANCE, gfxip=gfxip, architecture=architecture, is_partial=is_partial)
        return AttTrace(provenance, rows, (KERNEL,), tuple(self.waves))
