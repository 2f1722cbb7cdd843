"""Assembly source of a compiled kernel, which assembles to the same machine code: `assembly_source(...) -> AssemblySource`.

Instructions whose text assembles to other bytes (other encodings of one instruction, instructions that the assembler does not
know) are written as words, with the text in a comment. The result is assembled and compared before it is returned.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.languages.assembly import AssemblyLanguage
from rocm_perf_lab.languages.language import CompileSettings
from rocm_perf_lab.languages.spec import KernelSpec
from rocm_perf_lab.toolchain.compiler_run import CompileError
from rocm_perf_lab.toolchain.descriptor import DESCRIPTOR_BYTES
from rocm_perf_lab.toolchain.descriptor_directives import PRIVATE_SEGMENT_DIRECTIVES, descriptor_directives
from rocm_perf_lab.toolchain.elf_file import parse_elf
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel
from rocm_perf_lab.toolchain.listing import branch_target
from rocm_perf_lab.toolchain.metadata import raw_kernel_metadata
from rocm_perf_lab.toolchain.relocatable_code import CodeParts, quoted, reachable_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata
    from rocm_perf_lab.toolchain.compilers import Compiler
    from rocm_perf_lab.toolchain.disassembly import AssemblyLine
    from rocm_perf_lab.toolchain.relocatable_code import CodePart, DataPart

_SLOT = 32
"""Bytes between instructions in the trial assembly; no instruction is longer."""
_MOST_ATTEMPTS = 6
_ABI_VERSION_OF_V2 = -2
_ENTRY_OFFSET = slice(16, 24)
_ERROR = re.compile(r":(\d+):\d+: error: ")
_WORD = 4


@dataclass(frozen=True)
class AssemblySource:
    """Assembly and the compiler flags that it needs. `words` counts instructions that are written as words.

    `is_identical`: the code of the kernel and its descriptor are equal, byte for byte, relocated distances included; otherwise
    only distances to data or functions differ, whose place in the file the linker chooses.
    """

    text: str
    flags: tuple[str, ...]
    words: int
    instructions: int
    is_identical: bool
    notes: tuple[str, ...]


def assembly_source(
    code_object: CodeObject, kernel: KernelMetadata, find_compiler: Callable[[], Compiler], *, header: str = ""
) -> AssemblySource:
    """Disassemble a kernel with the functions and data that it refers to.

    Args:
        code_object: Code object with the kernel, version 3 or later.
        kernel: One of its kernels.
        find_compiler: Returns the compiler whose assembler is used.
        header: Comment at the beginning, without comment signs.

    Raises:
        LabError: The code object has no metadata, or the assembler cannot reproduce the kernel.
        DisassemblyError: No installed disassembler supports the processor.
        CompileError: The assembler fails.
    """
    if not kernel.has_metadata:
        raise LabError(
            f"{kernel.symbol} has no metadata of code object version 3 or later",
            where="its code object",
            hint="Only its disassembly can be read: rocm-perf disassemble",
        )
    return _Writer(code_object, kernel, find_compiler, header).source()


@dataclass
class _Writer:
    code_object: CodeObject
    kernel: KernelMetadata
    find_compiler: Callable[[], Compiler]
    header: str
    words: set[int] = field(default_factory=set)
    """Addresses of instructions that are written as words."""
    private_segment: str = PRIVATE_SEGMENT_DIRECTIVES[0]
    raw_descriptor: bool = False

    def __post_init__(self) -> None:
        self.parts: CodeParts = reachable_parts(self.code_object, self.kernel)
        self.original = parse_elf(self.code_object.data)

    @property
    def flags(self) -> tuple[str, ...]:
        target = self.code_object.target_id
        return (f"-mcpu={target}",) if target != self.code_object.architecture else ()

    def source(self) -> AssemblySource:
        self._try_instructions()
        for _ in range(_MOST_ATTEMPTS):
            text = self.text()
            try:
                built = self._compiled(text, self.kernel.symbol)
            except CompileError as error:
                if not self._adapt_descriptor(error, text):
                    raise
                continue
            if not self._differences(built):
                identical = self._code(built) == self._code(self.code_object)
                instructions = sum(len(part.lines) for part in self.parts.code)
                return AssemblySource(text, self.flags, len(self.words), instructions, identical, self.parts.notes)
        raise LabError(
            f"the assembler does not reproduce {self.kernel.symbol}",
            where="the code or the descriptor differs",
            hint="Its disassembly can be read: rocm-perf disassemble",
        )

    # trial assemblies

    def _try_instructions(self) -> None:
        """Assemble every instruction alone, and mark those that assemble to other bytes."""
        lines = [line for part in self.parts.code for line in part.lines]
        refused: set[int] = set()
        referring = {address for part in self.parts.code for address in part.references}
        for _ in range(_MOST_ATTEMPTS):
            slots = [f".org {_SLOT * n}\n{'s_nop 0' if n in refused else _with_target(line)}" for n, line in enumerate(lines)]
            text = f"{self._target_lines()}.text\n.globl trial\n.type trial,@function\n.p2align 8\ntrial:\n"
            first = text.count("\n") + 1
            text += "\n".join(slots) + f"\n.org {_SLOT * len(lines)}\n.size trial, .-trial\n" + self._descriptor_lines("trial")
            try:
                built = self._compiled(text, "trial")
            except CompileError as error:
                if self._adapt_descriptor(error, text):
                    continue
                found = {(int(number) - first) // 2 for number in _ERROR.findall(error.log)}
                found = {number for number in found if 0 <= number < len(lines)} - refused
                if not found:
                    raise
                refused |= found
                continue
            trial = find_kernel(built, "trial")
            code = parse_elf(built.data).read(trial.entry_address, _SLOT * len(lines))
            for number, line in enumerate(lines):
                slot = code[_SLOT * number : _SLOT * (number + 1)]
                if line.address in referring:
                    continue
                if number in refused or slot[: len(line.encoding)] != line.encoding or any(slot[len(line.encoding) :]):
                    self.words.add(line.address)
            return
        raise LabError("the assembler rejects the disassembly", where=self.kernel.symbol)

    def _adapt_descriptor(self, error: CompileError, text: str) -> bool:
        """Choose another way to write the descriptor if the assembler rejects a directive; return whether it does."""
        lines = text.splitlines()
        wrong = [lines[int(n) - 1] for n in _ERROR.findall(error.log) if 0 < int(n) <= len(lines)]
        directives = [line for line in wrong if "amdhsa_" in line]
        if not directives or self.raw_descriptor:
            return False
        if self.private_segment == PRIVATE_SEGMENT_DIRECTIVES[0] and any(self.private_segment in line for line in directives):
            self.private_segment = PRIVATE_SEGMENT_DIRECTIVES[1]
        else:
            self.raw_descriptor = True
        return True

    def _differences(self, built: CodeObject) -> bool:
        """Return whether code or descriptor differ in more than distances; mark instructions that do."""
        kernel = find_kernel(built, self.kernel.symbol)
        elf = parse_elf(built.data)
        wrong = False
        for part in self.parts.code:
            address = kernel.entry_address if part.symbol == self.kernel.symbol else elf.symbols[part.symbol].address
            code = elf.read(address, sum(len(line.encoding) for line in part.lines))
            for line in part.lines:
                start = line.address - part.address
                got = code[start : start + len(line.encoding)]
                compared = _WORD if line.address in part.references else len(line.encoding)
                if got[:compared] != line.encoding[:compared] and line.address not in self.words:
                    self.words.add(line.address)
                    wrong = True
        old, new = (
            self.original.read(self.kernel.descriptor_address, DESCRIPTOR_BYTES),
            elf.read(kernel.descriptor_address, DESCRIPTOR_BYTES),
        )
        if _without_entry(old) != _without_entry(new):
            wrong = self.raw_descriptor = True
        return wrong

    def _code(self, code_object: CodeObject) -> bytes:
        kernel = find_kernel(code_object, self.kernel.symbol)
        return parse_elf(code_object.data).read(kernel.entry_address, self.kernel.code_bytes)

    def _compiled(self, text: str, entry: str) -> CodeObject:
        with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-assembly-") as directory:
            source = Path(directory) / "kernel.s"
            source.write_text(text, encoding="utf-8")
            spec = KernelSpec(
                name=entry, language="assembly", source=source, entry=entry, arguments=(), flags=self.flags, grid=(1,), block=(1,)
            )
            settings = CompileSettings(self.code_object.architecture, self.find_compiler, cache_dir=Path(directory) / "cache")
            return AssemblyLanguage().compile(spec, source, settings).code_object

    # text

    def text(self) -> str:
        """Return the whole source."""
        parts: list[str] = [f"// {line}".rstrip() + "\n" for line in self.header.splitlines()]
        parts += [self._target_lines(), "\n.text\n"]
        parts += [self._function(part) for part in self.parts.code]
        parts += [_data(part) for part in self.parts.data]
        parts += [self._descriptor_lines(self.kernel.symbol), self._metadata()]
        return "".join(parts)

    def _target_lines(self) -> str:
        version = self.original.abi_version - _ABI_VERSION_OF_V2
        return f'.amdgcn_target "amdgcn-amd-amdhsa--{self.code_object.target_id}"\n.amdhsa_code_object_version {version}\n'

    def _function(self, part: CodePart) -> str:
        name = quoted(part.symbol)
        is_kernel = part.symbol == self.kernel.symbol
        visibility = f".globl {name}\n.protected {name}\n" if is_kernel else ""
        head = f"{visibility}.p2align 8\n.type {name},@function\n{name}:\n"
        return f"{head}{''.join(self._instructions(part))}.size {name}, .-{name}\n\n"

    def _instructions(self, part: CodePart) -> Iterator[str]:
        present = {line.address for line in part.lines}
        targets = sorted({t for line in part.lines if (t := branch_target(line)) in present and t is not None})
        prefix = ".L" if part.symbol == self.kernel.symbol else f".L{_identifier(part.symbol)}_"
        labels = {address: f"{prefix}{number}" for number, address in enumerate(targets)}
        for line in part.lines:
            if line.address in labels:
                yield f"{labels[line.address]}:\n"
            yield f"  {self._instruction(line, part, labels)}\n"

    def _instruction(self, line: AssemblyLine, part: CodePart, labels: Mapping[int, str]) -> str:
        reference = part.references.get(line.address)
        if reference is not None:
            return f"{line.text.rpartition(', ')[0]}, {reference.operand}"
        if line.address in self.words:
            return f".long {', '.join(_words(line.encoding))}  // {line.text}"
        return _with_target(line, labels.get(branch_target(line) or -1))

    def _descriptor_lines(self, symbol: str) -> str:
        name = quoted(symbol)
        if not self.raw_descriptor:
            directives = descriptor_directives(self.kernel, self.code_object.architecture, self.private_segment)
            lines = "".join(f"  {directive}\n" for directive in directives)
            return f".rodata\n.p2align 6\n.amdhsa_kernel {name}\n{lines}.end_amdhsa_kernel\n\n"
        content = self.original.read(self.kernel.descriptor_address, DESCRIPTOR_BYTES)
        kd = quoted(f"{symbol}.kd")
        words = [f"  .long {word}\n" for word in _words(content)]
        words[4:6] = [f"  .quad {name}-{kd}\n"]
        head = f".rodata\n.p2align 6\n.globl {kd}\n.protected {kd}\n.type {kd},@object\n.size {kd}, {DESCRIPTOR_BYTES}\n{kd}:\n"
        return f"// kernel descriptor; fields: LLVM, User Guide for AMDGPU Backend\n{head}{''.join(words)}\n"

    def _metadata(self) -> str:
        text = yaml.safe_dump(self._metadata_document, sort_keys=False, default_flow_style=None, width=120)
        return f".amdgpu_metadata\n---\n{text}...\n.end_amdgpu_metadata\n"

    @cached_property
    def _metadata_document(self) -> dict[str, Any]:
        return raw_kernel_metadata(self.original, self.kernel.symbol)


def _data(part: DataPart) -> str:
    name = quoted(part.symbol)
    visibility = f".globl {name}\n.protected {name}\n" if part.is_global else ""
    flags = "a" if part.section.startswith(".rodata") else "aw"
    kind = "@progbits" if part.content else "@nobits"
    head = f'.section {part.section},"{flags}",{kind}\n.p2align {part.alignment.bit_length() - 1}\n'
    head += f"{visibility}.type {name},@object\n{name}:\n"
    if not part.content:
        return f"{head}  .zero {part.size}\n.size {name}, {part.size}\n\n"
    lines, place = [], 0
    while place < len(part.content):
        target = part.pointers.get(place)
        if target is not None:
            lines.append(f"  .quad {quoted(target[0])}+{target[1]}\n")
            place += 8
            continue
        following = min([place + 16, len(part.content), *(p for p in part.pointers if p > place)])
        lines.append(f"  .byte {', '.join(f'{byte:#04x}' for byte in part.content[place:following])}\n")
        place = following
    return f"{head}{''.join(lines)}.size {name}, {part.size}\n\n"


def _with_target(line: AssemblyLine, label: str | None = None) -> str:
    """Return an instruction with its target as a label, or as a distance in words; disassemblers write either or a symbol."""
    if branch_target(line) is None:
        return line.text
    name, _, operands = line.text.partition(" ")
    others = [other.strip() for other in operands.split(",")[:-1]]
    return f"{name} {', '.join([*others, label or str(int.from_bytes(line.encoding[:2], 'little'))])}"


def _words(content: bytes) -> list[str]:
    return [f"{int.from_bytes(content[n : n + _WORD], 'little'):#010x}" for n in range(0, len(content), _WORD)]


def _identifier(symbol: str) -> str:
    return re.sub(r"\W", "_", symbol)


def _without_entry(content: bytes) -> bytes:
    """Return a descriptor without the distance to the code, which the linker chooses."""
    return content[: _ENTRY_OFFSET.start] + content[_ENTRY_OFFSET.stop :]
