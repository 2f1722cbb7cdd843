"""Single PC samples as columns of numbers, and their sums by kernel and instruction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.rocprof.json_document import Rows
from rocm_perf_lab.rocprof.pc_samples import (
    ArbiterState,
    Pipe,
    SampledInstruction,
    SampledKernel,
    StallReason,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

UNKNOWN = -1
_REASON_PREFIX = "ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_"
_REASONS: dict[str, StallReason] = {
    **StallReason.__members__,
    # Names of prereleases, and of the documentation.
    "NOT_AVAILABLE": StallReason.NO_INSTRUCTION_AVAILABLE,
    "ALU": StallReason.ALU_DEPENDENCY,
    "INTERNAL": StallReason.INTERNAL_INSTRUCTION,
    "BARRIER": StallReason.BARRIER_WAIT,
    "ARBITER": StallReason.ARBITER_NOT_WIN,
    "EX_STALL": StallReason.ARBITER_WIN_EX_STALL,
    "OTHER": StallReason.OTHER_WAIT,
    "SLEEP": StallReason.SLEEP_WAIT,
}
_COLUMNS = ("instruction", "dispatch", "lanes", "issued", "reason", "waves", "accepted", "refused")
_PIPES = tuple(Pipe)
_OVERHEAD = sum(1 << number for number, pipe in enumerate(_PIPES) if pipe in (Pipe.SCALAR, Pipe.MISC, Pipe.BRMSG, Pipe.EXP))
_LANES = 64
_ALL_LANES = (1 << _LANES) - 1


@dataclass(frozen=True)
class InstructionKey:
    """Identity of a sampled instruction; None if the format does not state it."""

    code_object: int | None
    address: int | None
    text: str
    source: str


class SampleRows:
    """Samples of one recording, added one at a time."""

    def __init__(self) -> None:
        self._rows = Rows(_COLUMNS)
        self._numbers: dict[InstructionKey, int] = {}
        self.undecoded = 0
        """Samples in unknown code."""

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self,
        key: InstructionKey,
        dispatch: int,
        *,
        exec_mask: int | None,
        issued: int = UNKNOWN,
        reason: int = UNKNOWN,
        waves: int = UNKNOWN,
        accepted: int = UNKNOWN,
        refused: int = UNKNOWN,
    ) -> None:
        """Add one sample.

        Args:
            key: Its instruction.
            dispatch: Id of its dispatch.
            exec_mask: Active lanes as bits.
            issued: 1 if the wavefront issued the instruction, else 0.
            reason: Number of the stall reason if it did not.
            waves: Wavefronts on the compute unit.
            accepted: Bits of the pipes that accepted an instruction, in the order of :class:`Pipe`.
            refused: Bits of the pipes that refused one.
        """
        lanes = (exec_mask & _ALL_LANES).bit_count() if exec_mask is not None else UNKNOWN
        number = self._numbers.setdefault(key, len(self._numbers))
        self._rows.add((number, dispatch, lanes, issued, reason, waves, accepted, refused))

    def kernels(self, names: Mapping[int, str]) -> tuple[SampledKernel, ...]:
        """Return the sums by kernel, most samples first, and release the samples.

        Args:
            names: Name of the kernel of each dispatch; dispatches without name form one kernel without name.
        """
        columns = self._rows.taken()
        keys = tuple(self._numbers)
        dispatches, place = np.unique(columns["dispatch"], return_inverse=True)
        owners = [names.get(dispatch, "") for dispatch in dispatches.tolist()]
        number_of = {name: number for number, name in enumerate(dict.fromkeys(owners))}
        kernel_of = np.array([number_of[name] for name in owners], np.int64)[place.ravel()] if len(place) else place
        found = []
        for name, number in number_of.items():
            own = {column: values[kernel_of == number] for column, values in columns.items()}
            found.append(_kernel(name, own, keys))
        return tuple(sorted(found, key=lambda kernel: (-kernel.samples, kernel.name)))


def reason_number(text: str) -> int:
    """Return the number of a stall reason from its name in any release; unknown names are other waits."""
    return int(_REASONS.get(text.strip().removeprefix(_REASON_PREFIX), StallReason.OTHER_WAIT))


def pipe_bits(fields: Mapping[str, object], prefix: str) -> int:
    """Return the bits of the pipes whose field `prefix + name` is set; UNKNOWN if there is no such field."""
    values = [fields.get(prefix + pipe) for pipe in _PIPES]
    if all(value is None for value in values):
        return UNKNOWN
    return sum(1 << number for number, value in enumerate(values) if value)


def _kernel(name: str, columns: Mapping[str, Integers], keys: tuple[InstructionKey, ...]) -> SampledKernel:
    numbers, place = np.unique(columns["instruction"], return_inverse=True)
    place = place.ravel()
    stalled = columns["issued"] == 0
    reasons = np.clip(columns["reason"], 0, len(StallReason) - 1)
    arbiter = _arbiter(columns)
    by_reason = _table(place[stalled], reasons[stalled], len(numbers))
    waiting = stalled & (columns["accepted"] == 0)
    exposed = _table(place[waiting], reasons[waiting], len(numbers)) if arbiter else None
    samples = np.bincount(place, minlength=len(numbers))
    issued = np.bincount(place[columns["issued"] == 1], minlength=len(numbers))
    with_mask = columns["lanes"] >= 0
    lanes = np.bincount(place[with_mask], weights=columns["lanes"][with_mask], minlength=len(numbers))
    masks = np.bincount(place[with_mask], minlength=len(numbers))
    instructions = [
        SampledInstruction(
            text=keys[number].text,
            source=keys[number].source,
            code_object=keys[number].code_object,
            address=keys[number].address,
            samples=int(samples[row]),
            issued=int(issued[row]),
            reasons=_named(by_reason[row]),
            exposed=_named(exposed[row]) if exposed is not None else None,
            active_lanes=float(lanes[row] / masks[row]) if masks[row] else None,
        )
        for row, number in enumerate(numbers.tolist())
    ]
    waves, counts = np.unique(columns["waves"][columns["waves"] > 0], return_counts=True)
    return SampledKernel(
        name,
        len(np.unique(columns["dispatch"])),
        in_code_order(instructions),
        dict(zip(waves.tolist(), counts.tolist(), strict=True)),
        arbiter,
    )


def in_code_order(instructions: list[SampledInstruction]) -> tuple[SampledInstruction, ...]:
    """Sort by code object and address; instructions without address follow by descending samples."""
    return tuple(
        sorted(
            instructions,
            key=lambda one: (
                one.address is None,
                one.code_object or 0,
                one.address or 0,
                -one.samples if one.address is None else 0,
                one.text,
                one.source,
            ),
        )
    )


def _table(rows: Integers, reasons: Integers, height: int) -> Integers:
    width = len(StallReason)
    table: Integers = np.bincount(rows * width + reasons, minlength=height * width).reshape(height, width)
    return table


def _named(counts: Integers) -> dict[StallReason, int]:
    return {StallReason(number): count for number, count in enumerate(counts.tolist()) if count}


def _arbiter(columns: Mapping[str, Integers]) -> ArbiterState | None:
    known = columns["accepted"] >= 0
    if not known.any():
        return None
    accepted, refused = columns["accepted"][known], np.maximum(columns["refused"][known], 0)
    return ArbiterState(
        samples=int(known.sum()),
        progressed=int(np.count_nonzero(accepted)),
        overhead=int(np.count_nonzero((accepted != 0) & ((accepted & ~_OVERHEAD) == 0))),
        issued=_by_pipe(accepted),
        refused=_by_pipe(refused),
    )


def _by_pipe(bits: Integers) -> dict[Pipe, int]:
    counts = {pipe: int(np.count_nonzero(bits >> number & 1)) for number, pipe in enumerate(_PIPES)}
    return {pipe: count for pipe, count in counts.items() if count}
