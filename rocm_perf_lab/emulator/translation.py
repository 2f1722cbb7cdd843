"""Translates kernels of a loaded code object to native code, each once per emulated GPU."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, TypeVar

from rocm_perf_lab.emulator.call_graph import callable_functions, computed_addresses
from rocm_perf_lab.emulator.errors import IllegalInstruction, UnsupportedInstruction
from rocm_perf_lab.emulator.initial_state import initial_mode
from rocm_perf_lab.emulator.isa.instruction_set import instruction_set
from rocm_perf_lab.emulator.program import Program, decode_program, unreached_entries, without_instruction
from rocm_perf_lab.emulator.tiers import TieredCode
from rocm_perf_lab.emulator.translate.function import resume_id, resume_ids_of_missing_code
from rocm_perf_lab.toolchain.version2 import STT_AMDGPU_HSA_KERNEL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rocm_perf_lab.emulator.build import Runtime
    from rocm_perf_lab.emulator.loader import LoadedCodeObject
    from rocm_perf_lab.toolchain.code_object import KernelMetadata
    from rocm_perf_lab.toolchain.elf_file import ElfFile

_Code = TypeVar("_Code")
_PRELOAD_PROLOGUE_BYTES = 256
"""Kernels with preloaded arguments start with code for firmware without preloading; other firmware enters after it."""
_PRELOAD_LENGTH_MASK = 0x7F
_FUNCTION_KINDS = (2, STT_AMDGPU_HSA_KERNEL)
"""STT_FUNC, and kernels of version 2."""


@dataclass(frozen=True)
class TranslatedKernel:
    """Kernel in native code."""

    program: Program
    code: TieredCode

    @cached_property
    def _resume_addresses(self) -> dict[int, int]:
        blocks = {resume_id(block): block.address for block in self.program.blocks}
        return {0: self.program.entry} | blocks | resume_ids_of_missing_code(self.program)

    def resume_address(self, resume: int) -> int | None:
        """Return the address in the code object at which a stopped wavefront continues."""
        return self._resume_addresses.get(resume)


class KernelTranslator:
    """Translator that keeps its results."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._known: dict[tuple[str, str], TranslatedKernel] = {}

    def translate(self, loaded: LoadedCodeObject, kernel: KernelMetadata) -> TranslatedKernel:
        """Return the native code of a kernel.

        Raises:
            EmulationError: Bytes do not encode an instruction, or the emulator does not implement an instruction.
        """
        key = (loaded.code_object.sha256, kernel.symbol)
        if key not in self._known:
            kernels = loaded.code_object.kernels
            program = decode_kernel(loaded.elf, loaded.stored_addresses, kernels, kernel, loaded.code_object.architecture)
            self._known[key] = TranslatedKernel(*compiled(program, lambda one: TieredCode(one, self.runtime.helpers)))
        return self._known[key]


def compiled(program: Program, compile_one: Callable[[Program], _Code]) -> tuple[Program, _Code]:
    """Compile a program, in which an unsupported instruction is an error only if it is reached, unless that is certain.

    Args:
        program: Program of a kernel.
        compile_one: Returns the native code of a program, or raises `UnsupportedInstruction`.

    Returns:
        The program, without unsupported instructions, and its code.

    Raises:
        UnsupportedInstruction: An instruction that is certainly reached is not supported.
    """
    while True:
        try:
            return program, compile_one(program)
        except UnsupportedInstruction as error:
            if error.address not in program.doubtful:
                raise
            program = without_instruction(program, error.address, error.what)


def decode_kernel(
    elf: ElfFile, stored: Sequence[int], kernels: Sequence[KernelMetadata], kernel: KernelMetadata, architecture: str
) -> Program:
    """Decode a kernel and the functions that it may call.

    Args:
        elf: Sections and symbols of the code object.
        stored: Addresses of the code object that its data contain.
        kernels: All kernels of the code object.
        kernel: Kernel to decode.
        architecture: Processor that executes it.

    Raises:
        IllegalInstruction: Bytes that are certainly reached do not encode an instruction.
        CodeObjectError: The kernel's entry is outside of the code.
    """
    section = next(
        s for s in elf.sections if s.is_code and s.is_loaded and s.address <= kernel.entry_address < s.address + s.size
    )
    preloads = kernel.descriptor.kernarg_preload & _PRELOAD_LENGTH_MASK
    entry = kernel.entry_address + (_PRELOAD_PROLOGUE_BYTES if preloads else 0)
    if entry >= section.address + section.size:
        raise IllegalInstruction(
            f"kernel {kernel.symbol} has no code at its entry: with preloaded arguments the entry is "
            f"{_PRELOAD_PROLOGUE_BYTES} bytes behind the symbol of the kernel",
            where=f"address {entry:#x}",
            hint="Put code for firmware without preloading before it and pad it to that size, as compilers do.",
        )
    isa, mode = instruction_set(architecture, kernel.wavefront_size), initial_mode(kernel.descriptor)
    code, others = elf.content(section), {address for k in kernels for address in (k.entry_address, k.descriptor_address)}
    in_section = range(section.address, section.address + section.size)
    ends = _ends_of_functions(elf, in_section)
    program = decode_program(kernel.symbol, code, section.address, (entry,), isa, mode, ends)
    if not program.has_indirect_jumps:
        return program
    symbols = {s.address: s.size for s in elf.symbols.values() if s.address in in_section and s.size}
    inside = tuple(address for address in stored if address in in_section and address not in others)
    sizes = {k.entry_address: k.code_bytes for k in kernels if k.entry_address in in_section}
    callable_ = callable_functions(code, section.address, symbols | sizes, [*sizes, *inside], isa.getpc_opcode) - others
    functions = tuple(address for address in symbols if address in callable_)
    entries = tuple(dict.fromkeys((entry, *functions, *inside)))
    program = decode_program(kernel.symbol, code, section.address, entries, isa, mode, ends)
    while unnamed := _unnamed_functions(program, symbols | sizes, in_section):
        entries += unnamed
        program = decode_program(kernel.symbol, code, section.address, entries, isa, mode, ends)
    end = kernel.entry_address + kernel.code_bytes
    entries += unreached_entries(program, code, section.address, end)
    return decode_program(kernel.symbol, code, section.address, entries, isa, mode, ends)


def _ends_of_functions(elf: ElfFile, section: range) -> tuple[tuple[int, str], ...]:
    """Return the addresses behind functions with a size, and their names; not those inside of another function."""
    sized = [s for s in elf.symbols.values() if s.address in section and s.size and s.kind in _FUNCTION_KINDS]
    sized.sort(key=lambda s: s.address)
    starts = [s.address for s in sized]
    furthest = list(accumulate((s.address + s.size for s in sized), max))
    names = {s.address + s.size: s.name for s in sized}
    return tuple((end, name) for end, name in sorted(names.items()) if furthest[bisect_left(starts, end) - 1] <= end)


def _unnamed_functions(program: Program, symbols: Mapping[int, int], section: range) -> tuple[int, ...]:
    """Return addresses that a program computes, outside of everything with a symbol: functions of a stripped code object."""
    starts = sorted(symbols)
    found = []
    for address in computed_addresses(program.instructions):
        before = bisect_right(starts, address) - 1
        is_named = before >= 0 and address < starts[before] + symbols[starts[before]]
        if address in section and not is_named and address not in program.block_at and address not in program.missing_at:
            found.append(address)
    return tuple(found)
