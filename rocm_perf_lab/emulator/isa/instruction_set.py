"""Instruction set of an emulated architecture: its differences from the decoder's tables, as its YAML file states them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from rocm_perf_lab.arch.registry import emulated_architectures, load_architecture
from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from rocm_perf_lab.arch.model import HardwareRegister, InstructionDecoder, OwnOpcode


@dataclass(frozen=True)
class InstructionSet:
    """Instruction set of one architecture; see :class:`~rocm_perf_lab.arch.model.EmulatorParameters`."""

    architecture: str
    absent: str
    own_opcodes: tuple[OwnOpcode, ...] = field(hash=False)
    float8: Literal["fnuz", "ocp"] | None
    lds_load_address_bits: int
    architected_scratch: bool
    marks_atomic_stores: bool
    clamps_sparse_products: bool
    flushes_half_products: bool
    negates_f64_products: bool
    clears_unused_halves: bool
    """Whether loads of 16 bits clear the other half of the register, as memories with error correction do (LLVM, `sramecc`)."""
    counters: str
    names: tuple[tuple[str, str], ...] = field(hash=False)
    packed_work_item_ids: bool
    keeps_upper_halves: bool
    compares_into_exec_only: bool
    selects_range_check: bool
    flat_offset_bits: int
    no_address_register: tuple[int, ...]
    lanes_per_permutation: int
    getpc_opcode: int
    absent_dpp: tuple[int, ...]
    hardware_registers: tuple[tuple[int, HardwareRegister], ...]
    wave_size: int
    decoder: InstructionDecoder = field(repr=False, compare=False)
    counter_set: str
    """Hardware counters of the architecture; a key of `counter_rules.yaml`."""
    matrix_passes: tuple[tuple[str, int], ...] = field(repr=False)
    """Patterns of lower-case texts and passes; the first match applies."""

    def passes(self, text: str) -> int | None:
        """Return the passes (of four clocks) of a matrix instruction, or None if it is not listed."""
        return _passes(self.matrix_passes, text)

    def operation(self, mnemonic: str) -> str:
        """Return the emulator's name of an operation: that of CDNA if CDNA has it."""
        return _operation(self.names, mnemonic)

    def counts(self, counter: str) -> bool:
        """Return whether the emulator has an exact counter for the architecture."""
        return _matches(self.counters, counter)

    def has(self, mnemonic: str) -> bool:
        """Return whether the architecture has an instruction of the decoder's tables."""
        return not _matches(self.absent, mnemonic)


def instruction_set(architecture: str, wave_size: int | None = None) -> InstructionSet:
    """Return the instruction set of an architecture.

    Args:
        architecture: Name: gfx942.
        wave_size: Lanes of a wavefront; by default that of the compiler.

    Raises:
        LabError: The emulator does not execute this architecture.
    """
    found = load_architecture(architecture)
    if found.emulator is None or found.decoder is None:
        raise LabError(
            f"the emulator does not execute {architecture}", hint=f"It executes {', '.join(emulated_architectures())}."
        )
    return InstructionSet(
        architecture=found.name,
        absent=found.emulator.absent,
        own_opcodes=found.emulator.own_opcodes,
        float8=found.float8,
        lds_load_address_bits=found.emulator.lds_load_address_bits,
        architected_scratch=found.emulator.architected_scratch,
        marks_atomic_stores=found.emulator.marks_atomic_stores,
        clamps_sparse_products=found.emulator.clamps_sparse_products,
        flushes_half_products=found.emulator.flushes_half_products,
        negates_f64_products=found.emulator.negates_f64_products,
        clears_unused_halves=found.fixed_settings.get("sramecc", False),
        counters=found.emulator.counters,
        names=tuple((row.pattern, row.name) for row in found.emulator.names),
        packed_work_item_ids=found.emulator.packed_work_item_ids,
        keeps_upper_halves=found.emulator.keeps_upper_halves,
        compares_into_exec_only=found.emulator.compares_into_exec_only,
        selects_range_check=found.emulator.selects_range_check,
        flat_offset_bits=found.emulator.flat_offset_bits,
        no_address_register=found.emulator.no_address_register,
        lanes_per_permutation=found.emulator.lanes_per_permutation,
        getpc_opcode=found.emulator.getpc_opcode,
        absent_dpp=found.emulator.absent_dpp,
        hardware_registers=tuple(found.emulator.hardware_registers.items()),
        wave_size=wave_size or found.wave_sizes[0],
        decoder=found.decoder,
        counter_set=found.counter_set,
        matrix_passes=tuple((row.pattern, row.passes) for row in found.matrix_passes),
    )


@lru_cache(maxsize=1 << 10)
def _passes(rows: tuple[tuple[str, int], ...], text: str) -> int | None:
    return next((passes for pattern, passes in rows if re.search(pattern, text)), None)


@lru_cache(maxsize=1 << 13)
def _operation(names: tuple[tuple[str, str], ...], mnemonic: str) -> str:
    for pattern, name in names:
        match = re.fullmatch(pattern, mnemonic)
        if match is not None:
            return match.expand(name)
    return mnemonic


@lru_cache(maxsize=1 << 13)
def _matches(pattern: str, mnemonic: str) -> bool:
    return re.fullmatch(pattern, mnemonic) is not None
