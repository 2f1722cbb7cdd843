"""Calls from translated code to runtime functions, declared in `runtime/wave.h`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.pcode.llvm_text import type_text

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.isa.instruction import Instruction
    from rocm_perf_lab.emulator.pcode.values import Value
    from rocm_perf_lab.emulator.translate.state import BlockState


def call_runtime(state: BlockState, function: str, instruction: Instruction, *arguments: int | Value) -> None:
    """Call `function(wave, instruction index, arguments...)`; a fault ends the kernel.

    Integers are passed as i32, values in their own width. Registers are in memory during the call.
    """
    state.close_group()
    builder = state.scalar_builder
    typed = [("i32", str(a)) if isinstance(a, int) else (type_text(a.kind, a.bits, False), builder.text(a)) for a in arguments]
    state.store_scalars()
    kinds = ", ".join(["ptr", "i32", *(kind for kind, _ in typed)])
    state.names.declare(f"declare i32 @{function}({kinds})")
    given = ", ".join(["ptr %wave", f"i32 {instruction.index}", *(f"{kind} {text}" for kind, text in typed)])
    result, failed = state.names.fresh(), state.names.fresh()
    label = result.lstrip("%")
    state.lines += [
        f"{result} = call i32 @{function}({given})",
        f"{failed} = icmp ne i32 {result}, 0",
        f"br i1 {failed}, label %fault, label %{label}_ok, !prof !0",
        f"{label}_ok:",
    ]
