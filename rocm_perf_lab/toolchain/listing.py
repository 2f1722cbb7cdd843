"""Listing of a kernel: instructions with labels at branch targets, and the source line of each instruction.

`list_kernel(code_object, kernel) -> Listing`. Branch distances of all GCN, CDNA and RDNA processors count dwords from the
next instruction (AMD's ISA guides, SOPP and SOPK).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.toolchain.disassembly import disassemble
from rocm_perf_lab.toolchain.source_lines import line_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata
    from rocm_perf_lab.toolchain.disassembly import AssemblyLine
    from rocm_perf_lab.toolchain.source_lines import SourceLine

_WORD = 4
_INDIRECT = ("s_cbranch_g_fork", "s_cbranch_join")


@dataclass(frozen=True)
class ListedInstruction:
    """One instruction; `label` is set if it is a branch target, `target` if it is a branch."""

    address: int
    encoding: bytes
    text: str
    label: str | None
    target: int | None
    source: SourceLine | None


@dataclass(frozen=True)
class Listing:
    """A kernel and its instructions in address order."""

    kernel: KernelMetadata
    instructions: tuple[ListedInstruction, ...]


def list_kernel(code_object: CodeObject, kernel: KernelMetadata, *, with_source: bool) -> Listing:
    """Disassemble a kernel and label its branch targets `L0`, `L1`, ... in address order.

    Args:
        code_object: Code object with the kernel.
        kernel: One of its kernels.
        with_source: Whether to look up source lines, which needs debug information.

    Raises:
        DisassemblyError: No installed disassembler supports the processor.
        CodeObjectError: The debug information is damaged.
    """
    lines = disassemble(code_object, kernel.symbol)
    targets = {line.address: branch_target(line) for line in lines}
    present = {line.address for line in lines}
    labels = {address: f"L{number}" for number, address in enumerate(sorted({t for t in targets.values() if t in present}))}
    source_of = line_table(code_object) if with_source else lambda _: None
    instructions = tuple(
        ListedInstruction(
            address=line.address,
            encoding=line.encoding,
            text=_with_label(line, targets[line.address], labels),
            label=labels.get(line.address),
            target=targets[line.address],
            source=source_of(line.address),
        )
        for line in lines
    )
    return Listing(kernel, instructions)


def branch_target(line: AssemblyLine) -> int | None:
    """Return the target address of a direct branch or call; None for any other instruction."""
    name = line.mnemonic
    is_branch = name == "s_branch" or name.startswith(("s_cbranch_", "s_call_b64"))
    if not is_branch or name in _INDIRECT or len(line.encoding) < _WORD:
        return None
    words = int.from_bytes(line.encoding[:2], "little", signed=True)
    return line.address + _WORD + _WORD * words


def _with_label(line: AssemblyLine, target: int | None, labels: Mapping[int, str]) -> str:
    """Replace the last operand, the branch distance, by a label; by an address if the target is outside the kernel."""
    if target is None:
        return line.text
    name, _, operands = line.text.partition(" ")
    others = operands.split(",")[:-1]
    return f"{name} {', '.join([*(other.strip() for other in others), labels.get(target, f'{target:#x}')])}"
