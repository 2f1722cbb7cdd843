"""Disassembly of kernels: `disassemble(code_object, symbol) -> tuple[AssemblyLine, ...]`.

llvm-objdump is used if it is installed and knows the processor; otherwise the instruction tables of architectures with a
`decoder` in `arch/*.yaml` are used.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.arch.registry import find_processor
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.toolchain.assembly_text import decode_instruction
from rocm_perf_lab.toolchain.compilers import ToolSearch
from rocm_perf_lab.toolchain.elf_file import parse_elf
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocm_perf_lab.arch.model import InstructionDecoder
    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata

_NEWEST_LLVM, _OLDEST_LLVM = 30, 18
_OBJDUMP_LINE = re.compile(r"^\s+(?P<text>\S.*?)\s*// (?P<address>[0-9A-F]{12}): (?P<words>[0-9A-F]{8}(?: [0-9A-F]{8})*)")


class DisassemblyError(LabError):
    """Missing disassembler for a processor."""


@dataclass(frozen=True)
class AssemblyLine:
    """One instruction at its address in the code object."""

    address: int
    encoding: bytes
    text: str

    @property
    def mnemonic(self) -> str:
        """`v_add_u32_e32` of `v_add_u32_e32 v0, s2, v0`."""
        return self.text.split(maxsplit=1)[0]


def disassemble(code_object: CodeObject, symbol: str, *, search: ToolSearch | None = None) -> tuple[AssemblyLine, ...]:
    """Return the instructions of a kernel in address order.

    Args:
        code_object: Code object with the kernel.
        symbol: Any name that :func:`find_kernel` accepts.
        search: Search paths for llvm-objdump.

    Raises:
        KernelNotFound: There is no such kernel.
        DisassemblyError: No installed tool supports the processor.
    """
    kernel = find_kernel(code_object, symbol)
    for objdump in _objdumps(search or ToolSearch()):
        lines = _run_objdump(objdump, code_object, kernel)
        if lines:
            return lines
    processor = find_processor(code_object.architecture)
    if processor is None or processor.decoder is None:
        raise DisassemblyError(
            f"no disassembler for {code_object.architecture} is installed",
            where=kernel.symbol,
            hint="Install ROCm or LLVM 18 or later (llvm-objdump).",
        )
    return tuple(_decode_all(code_object, kernel, processor.decoder))


def _objdumps(search: ToolSearch) -> Iterator[str]:
    if search.rocm_root is not None:
        in_rocm = search.rocm_root / "llvm" / "bin" / "llvm-objdump"
        if in_rocm.is_file():
            yield str(in_rocm)
    names = [f"llvm-objdump-{number}" for number in range(_NEWEST_LLVM, _OLDEST_LLVM - 1, -1)]
    yield from filter(None, map(search.which, [*names, "llvm-objdump"]))


def _run_objdump(objdump: str, code_object: CodeObject, kernel: KernelMetadata) -> tuple[AssemblyLine, ...]:
    """Return the output of llvm-objdump for one kernel; empty if it does not support the processor."""
    first, end = kernel.entry_address, kernel.entry_address + kernel.code_bytes
    with tempfile.NamedTemporaryFile(suffix=".hsaco") as file:
        file.write(code_object.data)
        file.flush()
        command = [objdump, "-d", f"--start-address={first}", f"--stop-address={end}", file.name]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    matches = filter(None, map(_OBJDUMP_LINE.match, run.stdout.splitlines()))
    lines = tuple(
        AssemblyLine(
            address=int(match["address"], 16),
            encoding=b"".join(int(word, 16).to_bytes(4, "little") for word in match["words"].split()),
            text=match["text"],
        )
        for match in matches
    )
    complete = sum(len(line.encoding) for line in lines) == kernel.code_bytes
    return lines if run.returncode == 0 and complete else ()


def _decode_all(code_object: CodeObject, kernel: KernelMetadata, decoder: InstructionDecoder) -> Iterator[AssemblyLine]:
    code = parse_elf(code_object.data).read(kernel.entry_address, kernel.code_bytes)
    position = 0
    while position < len(code):
        text, size = decode_instruction(code[position:], decoder, kernel.wavefront_size)
        yield AssemblyLine(kernel.entry_address + position, code[position : position + size], text)
        position += size
