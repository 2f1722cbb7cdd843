"""Calls from translated code to the memory runtime (`runtime/wave.h`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.pcode.ir import Value, type_text
from rocm_perf_lab.emulator.wave import Status, offset_of

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.isa.instruction import Instruction
    from rocm_perf_lab.emulator.translate.state import BlockState


def call_helper(state: BlockState, helper: str, instruction: Instruction, *arguments: int | Value) -> None:
    """Call `helper(wave, instruction index, arguments...)`; a fault ends the kernel.

    Plain integers are passed as i32, values in their own width. Registers are in memory while the helper runs.
    """
    state.close_group()
    builder = state.scalar_builder
    typed = [("i32", str(a)) if isinstance(a, int) else (type_text(a.kind, a.bits, False), builder.text(a)) for a in arguments]
    state.store_scalars()
    kinds = ", ".join(["ptr", "i32", *(kind for kind, _ in typed)])
    state.names.declare(f"declare i32 @{helper}({kinds})")
    given = ", ".join(["ptr %wave", f"i32 {instruction.index}", *(f"{kind} {text}" for kind, text in typed)])
    result, failed = state.names.fresh(), state.names.fresh()
    label = result.lstrip("%")
    state.lines += [
        f"{result} = call i32 @{helper}({given})",
        f"{failed} = icmp ne i32 {result}, 0",
        f"br i1 {failed}, label %fault, label %{label}_ok, !prof !0",
        f"{label}_ok:",
    ]


def return_status(lines: list[str], status: Status, resume: int, names: tuple[str, str]) -> None:
    """Store why the wavefront stops and where it goes on, and return."""
    status_pointer, resume_pointer = names
    lines += [
        f"{status_pointer} = getelementptr i8, ptr %wave, i64 {offset_of('status')}",
        f"store i32 {int(status)}, ptr {status_pointer}",
        f"{resume_pointer} = getelementptr i8, ptr %wave, i64 {offset_of('resume')}",
        f"store i32 {resume}, ptr {resume_pointer}",
        "ret void",
    ]
