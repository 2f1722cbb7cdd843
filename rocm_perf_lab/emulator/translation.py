"""Translates kernels of a loaded code object to native code, each once per emulated GPU."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.call_graph import callable_functions
from rocm_perf_lab.emulator.errors import IllegalInstruction, UnsupportedInstruction
from rocm_perf_lab.emulator.initial_state import initial_mode
from rocm_perf_lab.emulator.isa.instruction_set import instruction_set
from rocm_perf_lab.emulator.program import Program, decode_program, unreached_entries, without_instruction
from rocm_perf_lab.emulator.tiers import TieredCode
from rocm_perf_lab.emulator.translate.function import resume_id, resume_ids_of_missing_code
from rocm_perf_lab.toolchain.version2 import STT_AMDGPU_HSA_KERNEL

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.build import Runtime
    from rocm_perf_lab.emulator.loader import LoadedCodeObject
    from rocm_perf_lab.toolchain.code_object import KernelMetadata
    from rocm_perf_lab.toolchain.elf_file import ElfFile

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
            self._known[key] = self._translated(_decode(loaded, kernel))
        return self._known[key]

    def _translated(self, program: Program) -> TranslatedKernel:
        """Return native code in which an unsupported instruction is an error only if it is reached, unless that is certain."""
        while True:
            try:
                return TranslatedKernel(program, TieredCode(program, self.runtime.helpers))
            except UnsupportedInstruction as error:
                if error.address not in program.doubtful:
                    raise
                program = without_instruction(program, error.address, error.what)


def _decode(loaded: LoadedCodeObject, kernel: KernelMetadata) -> Program:
    elf = loaded.elf
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
    isa, mode = instruction_set(loaded.code_object.architecture, kernel.wavefront_size), initial_mode(kernel.descriptor)
    code, others = elf.content(section), _kernel_addresses(loaded)
    in_section = range(section.address, section.address + section.size)
    ends = _ends_of_functions(elf, in_section)
    program = decode_program(kernel.symbol, code, section.address, (entry,), isa, mode, ends)
    if not program.has_indirect_jumps:
        return program
    symbols = {s.address: s.size for s in elf.symbols.values() if s.address in in_section and s.size}
    stored = tuple(address for address in loaded.stored_addresses if address in in_section and address not in others)
    kernels = {k.entry_address: k.code_bytes for k in loaded.code_object.kernels if k.entry_address in in_section}
    callable_ = callable_functions(code, section.address, symbols | kernels, [*kernels, *stored], isa.getpc_opcode) - others
    functions = tuple(address for address in symbols if address in callable_)
    entries = tuple(dict.fromkeys((entry, *functions, *stored)))
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


def _kernel_addresses(loaded: LoadedCodeObject) -> set[int]:
    """Return the addresses of kernels, and of their descriptors, which symbols of version 2 point to within the code."""
    return {address for k in loaded.code_object.kernels for address in (k.entry_address, k.descriptor_address)}
