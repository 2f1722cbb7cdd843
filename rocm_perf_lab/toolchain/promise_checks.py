"""Checks of promises that a source makes the compiler, inserted into LLVM IR before optimisation (`with_promise_checks`).

The promises are alignments of accesses, conditions (`__builtin_assume`, `[[assume]]`) and places that are never reached
(`__builtin_unreachable`, the end of a function without `return`). Before optimisation, the alignment of a load or store is that
of the type, or of an attribute, in the source. Later passes merge accesses, prove alignments and drop conditions, so machine
code does not show the promises. UBSan (`-fsanitize=alignment`) has no checks of copies of structures such as `float4`.
Accesses trap if their address is not a multiple of their alignment. Conditions and unreachable places have other trap numbers.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NAME = r'%(?:[\w.$-]+|"[^"]*")'
_SPACE = r"(?: addrspace\((\d+)\))?"
_ACCESS = re.compile(rf"^\s+(?:{_NAME} = load|store) .*, ptr{_SPACE} ({_NAME})(?: [^,]*)?, align (\d+)")
_PARAMETER = re.compile(rf"ptr{_SPACE} (?:[a-z]+ )*?align (\d+) ({_NAME})")
_ASSUMED = re.compile(rf'"align"\(ptr{_SPACE} ({_NAME}), i64 (\d+)\)')
_LOCAL = re.compile(
    rf"^\s+({_NAME}) = (?:alloca |(?:addrspacecast|getelementptr(?: \w+)*) (?:[^@]*?, )?ptr(?: addrspace\(\d+\))? ({_NAME}))"
)
_FACT = re.compile(r"\b(nonnull|noundef) align \d+|, !align !\d+")
"""Conclusions of the compiler from references and attributes: it would remove checks of the accesses."""
_VALUE = re.compile(rf"ptr{_SPACE} noundef align (\d+) ({_NAME})")
"""Parameter with the attribute `align_value`."""
_CONDITION = re.compile(r"^\s+call void @llvm\.assume\(i1 (?:noundef )?([^\s)]+)\)(?! \[)")
_UNREACHABLE = re.compile(r"^\s+unreachable\b")
_INCOMING = re.compile(rf"\[ ({_NAME}), ")
_DEFINED = re.compile(rf"^\s+({_NAME}) = ")
_DEBUG = re.compile(r"!dbg (!\d+)")
_PRIVATE, _CONSTANT = 5, 4
"""Address spaces of local variables and of kernel arguments, whose alignment the compiler determines."""
ASSUMPTION_TRAP = 0x41
"""Number of the trap of a false condition of `__builtin_assume`."""
UNREACHABLE_TRAP = 0x42
"""Number of the trap of a reached place that the source declares unreachable."""


def checks_identity() -> str:
    """Return a hash of this module, for keys of cached builds."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


def with_promise_checks(ir: str) -> str:
    """Return textual LLVM IR that traps if an access of global memory or LDS is misaligned or an assumption is false.

    Only functions with debug information are changed: the others are libraries.

    Args:
        ir: Module as the compiler front end writes it, without optimisation.
    """
    lines: list[str] = []
    spaces: set[int] = set()
    conditions: list[str] = []
    function: list[str] = []
    inside = False
    for line in ir.split("\n"):
        if line.startswith("define "):
            inside, function = "!dbg" in line, []
        if not inside:
            lines.append(line)
            continue
        function.append(line)
        if line == "}":
            lines += _with_assumptions(_checked(function, spaces), conditions)
            inside = False
    if spaces and not any(line.startswith("declare void @llvm.trap(") for line in lines):
        lines.append("declare void @llvm.trap()")
    return "\n".join([*lines, *(_check(space) for space in sorted(spaces)), *conditions])


def _with_assumptions(function: Iterable[str], conditions: list[str]) -> Iterator[str]:
    """Yield the lines of a function with traps for conditions and unreachable places, and add one function per condition.

    A condition is checked at the line of its expression: the attribute `assume` has the line of the statement before it.
    """
    places: dict[str, str] = {}
    for line in function:
        debug = _DEBUG.search(line)
        place = f", !dbg {debug[1]}" if debug else ""
        defined = _DEFINED.match(line)
        if defined is not None:
            parts = [places[name] for name in _INCOMING.findall(line) if name in places] if " = phi " in line else []
            places[defined[1]] = parts[-1] if parts else place  # a join of `a && b` has no line
        condition = _CONDITION.match(line)
        if condition is not None:
            name = f"rocm_perf_lab.assumed.{len(conditions)}"
            conditions.append(_condition_check(name, len(conditions)))
            yield f"  call void @{name}(i1 {condition[1]}){places.get(condition[1]) or place}"
            continue
        if _UNREACHABLE.match(line):
            yield f"  {_trap(UNREACHABLE_TRAP, f'unreachable{place}')}{place}"
        yield line


def _checked(function: list[str], spaces: set[int]) -> Iterator[str]:
    """Yield the lines of a function with a check before each access, and add the address spaces of the accesses."""
    local: set[str] = set()
    arguments = [(int(space or 0), pointer, int(alignment)) for space, alignment, pointer in _VALUE.findall(function[0])]
    for line in function:
        made = _LOCAL.match(line)
        if made is not None and (made[2] is None or made[2] in local):
            local.add(made[1])
        debug = _DEBUG.search(line)
        claims = [*_claims(line)]
        if arguments and line.startswith("  store "):  # behind the local variables
            claims, arguments = [*arguments, *claims], []
        for space, pointer, alignment in claims:
            if alignment > 1 and pointer not in local and space not in (_PRIVATE, _CONSTANT):
                spaces.add(space)
                place = f", !dbg {debug[1]}" if debug else ""
                yield f"  call void @{_name(space)}({_pointer(space)} {pointer}, i64 {alignment - 1}){place}"
        yield line if "@llvm." in line else _FACT.sub(lambda fact: fact[1] or "", line)


def _claims(line: str) -> Iterator[tuple[int, str, int]]:
    """Yield address space, pointer and alignment in bytes of each alignment that an instruction claims."""
    access = _ACCESS.match(line)
    if access is not None:
        yield int(access[1] or 0), access[2], int(access[3])
    if "@llvm.mem" in line or "@llvm.masked." in line:
        for space, alignment, pointer in _PARAMETER.findall(line):
            yield int(space or 0), pointer, int(alignment)
    if "@llvm.assume" in line:
        for space, pointer, alignment in _ASSUMED.findall(line):
            yield int(space or 0), pointer, int(alignment)


def _name(space: int) -> str:
    return f"rocm_perf_lab.aligned.{space}"


def _pointer(space: int) -> str:
    return f"ptr addrspace({space})" if space else "ptr"


def _trap(number: int, comment: str) -> str:
    """Return a call that traps; the comment keeps the compiler from merging traps of different lines."""
    return f'call void asm sideeffect "s_trap {number} ; {comment}\\0As_endpgm", ""()'


def _condition_check(name: str, number: int) -> str:
    """Return a function that traps if its argument is false."""
    return (
        f"define internal void @{name}(i1 %condition) alwaysinline {{\n"
        "  br i1 %condition, label %pass, label %fail\n"
        "fail:\n"
        f"  {_trap(ASSUMPTION_TRAP, f'assumption {number}')}\n"
        "  unreachable\n"
        "pass:\n"
        "  ret void\n"
        "}\n"
    )


def _check(space: int) -> str:
    """Return a function that traps unless the masked bits of a pointer are zero."""
    return (
        f"define internal void @{_name(space)}({_pointer(space)} %pointer, i64 %mask) alwaysinline nounwind {{\n"
        f"  %address = ptrtoint {_pointer(space)} %pointer to i64\n"
        "  %rest = and i64 %address, %mask\n"
        "  %aligned = icmp eq i64 %rest, 0\n"
        "  br i1 %aligned, label %pass, label %fail\n"
        "fail:\n"
        "  call void @llvm.trap()\n"
        "  unreachable\n"
        "pass:\n"
        "  ret void\n"
        "}\n"
    )
