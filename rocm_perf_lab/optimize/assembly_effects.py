"""Effects of inline assembly, from the decoded instructions: `AssemblyEffects("gfx942").problems(statement, types)`.

Each operand gets concrete registers, the template is assembled alone, and the emulator's decoder names the registers that it
writes. The compiler does not analyse templates: it does not wait for memory accesses in them and inserts no wait states, so that
a template must wait for its accesses.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.arch.registry import find_processor
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.toolchain.elf_file import parse_elf
from rocm_perf_lab.toolchain.sandbox import Sandbox

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocm_perf_lab.emulator.isa.instruction import Instruction
    from rocm_perf_lab.optimize.assembly_statements import AssemblyOperand, AssemblyStatement

_DIRECTIVE = re.compile(r"(?:^|[\s:;])\.[A-Za-z_]\w*|^\s*[\w.$]+:\s|^\s*#", re.MULTILINE)
_REFERENCE = re.compile(r"%(?:%|(?P<number>\d+)|\[(?P<name>\w+)\])")
_REGISTER = re.compile(r"(?P<file>[vsa])(?:(?P<first>\d+)|\[(?P<low>\d+):(?P<high>\d+)\])")
_VECTOR = re.compile(r"(?:ext_vector_type|vector_size__?)\s*\(?\(?\s*(?P<count>\d+)")
_FIRST = {"v": 32, "s": 16, "a": 32}
_SCALARS = {106: "vcc", 107: "vcc", 124: "m0", 126: "exec", 127: "exec"}
_FIRST_VGPR, _DWORD = 256, 32
_FORBIDDEN = re.compile(
    r"S_MEM(?:REAL)?TIME|S_[GS]ETREG\w*|S_SENDMSG\w*|S_SETHALT|S_TRAP|S_SLEEP|S_RFE\w*|S_[ID]CACHE\w*|S_TTRACE\w*|S_ENDPGM\w*|S_BARRIER"
    r"|S_C?BRANCH\w*|S_SWAPPC\w*|S_SETPC\w*|S_GETPC\w*|S_CALL\w*|S_ATC\w*|S_SETKILL|S_\w*PERFLEVEL|DS_GWS\w*|DS_APPEND|DS_CONSUME"
    r"|S_SET_GPR_IDX\w*|S_MOVREL\w*|S_\w*SAVEEXEC\w*|S_\w*WREXEC\w*|S_CBRANCH\w*|S_SETVSKIP|S_SET_VALU\w*"
)
_SPECIAL = {name: re.compile(rf"\b{name.upper()}(?:\.\w+)?(?:\[[^\]]*\])?\s*=[^=]") for name in ("scc", "vcc", "exec", "m0")}


@dataclass
class _Registers:
    """Registers of the operands, and those that the statement may write."""

    texts: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    writable: set[str] = field(default_factory=set)
    shared: set[str] = field(default_factory=set)
    """Registers of outputs that the compiler may also use for an input, because their constraint has no `&`."""
    inputs: set[str] = field(default_factory=set)
    next_free: dict[str, int] = field(default_factory=lambda: dict(_FIRST))


@dataclass(frozen=True)
class AssemblyEffects:
    """Checker of statements for one architecture."""

    architecture: str

    def problems(self, statement: AssemblyStatement, types: tuple[str, ...]) -> Iterator[str]:
        """Yield the undeclared and forbidden effects of a statement.

        Args:
            statement: Statement in the source.
            types: Types of its operands in the compiler's notation, outputs first.
        """
        place = f"inline assembly (line {statement.line})"
        processor = find_processor(self.architecture)
        if processor is None or processor.decoder is None:
            yield f"{place} cannot be checked for {self.architecture}"
            return
        if statement.template is None or len(types) != len(statement.outputs) + len(statement.inputs):
            yield f"{place} cannot be checked: its operands are not plain, or a macro contains it"
            return
        if _DIRECTIVE.search(statement.template):
            yield f"{place} contains a directive or a label"
            return
        try:
            registers = _registers(statement, types)
            text = _substituted(statement.template, registers)
            instructions = self._instructions(text)
        except LabError as error:
            yield f"{place} cannot be checked: {error.what}"
            return
        yield from (f"{place} {problem}" for problem in _problems(instructions, registers, statement.clobbers))
        yield from (f"{place} {problem}" for problem in _early_writes(text, instructions, registers))

    def _instructions(self, text: str) -> list[Instruction]:
        """Assemble a text and decode it.

        Raises:
            LabError: The text cannot be assembled, or an instruction is unknown.
        """
        from rocm_perf_lab.emulator.isa.decode import decode_one
        from rocm_perf_lab.emulator.isa.instruction_set import instruction_set

        compiler = find_compiler()
        command = (*compiler.command, *(flag for flag in compiler.flags if flag.startswith("-B")))
        with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-") as directory:
            source, output = Path(directory) / "statement.s", Path(directory) / "statement.o"
            source.write_text(f".text\n{text}\n")
            flags = (
                "--target=amdgcn-amd-amdhsa",
                f"-mcpu={self.architecture}",
                "-x",
                "assembler",
                "-c",
                str(source),
                "-o",
                str(output),
            )
            ended = Sandbox().run([*command, *flags], Path(directory))
            if ended.returncode != 0 or not output.is_file():
                said = re.search(r"error: ([^\n]+)", ended.stderr)
                raise LabError(f"it does not assemble: {said[1] if said else 'the assembler failed'}")
            elf = parse_elf(output.read_bytes())
            section = elf.section(".text")
            code = elf.content(section) if section is not None else b""
        isa = instruction_set(self.architecture)
        found: list[Instruction] = []
        while (address := sum(i.size for i in found)) < len(code):
            found.append(decode_one(code[address:], address, isa, len(found)))
        return found


def _registers(statement: AssemblyStatement, types: tuple[str, ...]) -> _Registers:
    registers = _Registers()
    outputs = len(statement.outputs)
    for index, (operand, type_name) in enumerate(zip((*statement.outputs, *statement.inputs), types, strict=True)):
        text = _register_of(operand, type_name, registers)
        registers.texts.append(text)
        if operand.name:
            registers.names[operand.name] = text
        if index < outputs:
            registers.writable |= set(_expanded(text))
            registers.shared |= set() if {"&", "+"} & set(operand.constraint) else set(_expanded(text))
        else:
            registers.inputs |= set(_expanded(text)) - registers.writable
    for clobber in statement.clobbers:
        registers.writable |= set(_expanded(clobber)) or {clobber}
    return registers


def _register_of(operand: AssemblyOperand, type_name: str, registers: _Registers) -> str:
    constraint = operand.constraint.lstrip("=&+%")
    if constraint.isdigit() and int(constraint) < len(registers.texts):
        return registers.texts[int(constraint)]
    if constraint.startswith("{") and constraint.endswith("}"):
        return constraint[1:-1]
    if constraint in _FIRST:
        count = max(1, _bits(type_name) // _DWORD)
        first = registers.next_free[constraint]
        first += first % 2 if count > 1 else 0
        if constraint == "s" and count > 2:
            first = -(-first // 4) * 4
        registers.next_free[constraint] = first + count
        return f"{constraint}{first}" if count == 1 else f"{constraint}[{first}:{first + count - 1}]"
    if constraint in ("i", "n", "I", "J", "A", "B", "C", "DA", "DB"):
        return operand.expression if re.fullmatch(r"-?\d+|0x[0-9a-fA-F]+", operand.expression) else "1"
    raise LabError(f"the constraint {operand.constraint!r} is not known")


def _bits(type_name: str) -> int:
    vector = _VECTOR.search(type_name)
    element = (
        64 if re.search(r"\b(?:double|long)\b|\*", type_name) else 16 if re.search(r"_Float16|short|__bf16", type_name) else 32
    )
    return element * (int(vector["count"]) if vector is not None else 1)


def _substituted(template: str, registers: _Registers) -> str:
    def text(match: re.Match[str]) -> str:
        if match["number"] is not None:
            number = int(match["number"])
            if number >= len(registers.texts):
                raise LabError(f"there is no operand {match[0]}")
            return registers.texts[number]
        if match["name"] is not None:
            if match["name"] not in registers.names:
                raise LabError(f"there is no operand {match[0]}")
            return registers.names[match["name"]]
        return "%"

    return _REFERENCE.sub(text, template)


def _expanded(text: str) -> Iterator[str]:
    """Yield the single registers of `v[4:5]`."""
    match = _REGISTER.fullmatch(text)
    if match is not None:
        first = int(match["first"] or match["low"])
        for number in range(first, int(match["high"] or first) + 1):
            yield f"{match['file']}{number}"


def _problems(instructions: list[Instruction], registers: _Registers, clobbers: tuple[str, ...]) -> Iterator[str]:
    from rocm_perf_lab.emulator.timing.instruction_table import unit_of, wait_counts
    from rocm_perf_lab.emulator.timing.structures import ExecutionUnit

    waiting = {"vmcnt": "", "lgkmcnt": ""}
    settled = False
    for instruction in instructions:
        name, unit = instruction.mnemonic.lower(), unit_of(instruction)
        if _FORBIDDEN.fullmatch(instruction.mnemonic) or unit in (ExecutionUnit.BRANCH, ExecutionUnit.END):
            yield f"executes {name}"
        if instruction.is_matrix:
            yield f"executes {name}, whose result needs wait states that the compiler does not insert; use the builtin"
        if "DPP" in instruction.variant and not settled:
            yield f"executes {name} with DPP before s_nop 1, which older writes of its source need"
        settled = settled or (instruction.mnemonic == "S_NOP" and instruction.fields["simm16"] >= 1)
        missing = sorted(_written(instruction) - registers.writable)
        if "exec" in _written(instruction):
            yield f"writes exec with {name}, for which compilers have no clobber"
        elif missing:
            yield f"writes {', '.join(missing)} with {name}, which is neither an output nor a clobber"
        if unit in (ExecutionUnit.STORE, ExecutionUnit.ATOMIC, ExecutionUnit.LDS) and "memory" not in clobbers:
            yield f"accesses memory with {name} without the clobber memory"
        if unit in (ExecutionUnit.LOAD, ExecutionUnit.STORE, ExecutionUnit.ATOMIC):
            waiting["vmcnt"] = name
        if unit in (ExecutionUnit.LDS, ExecutionUnit.SMEM) or instruction.encoding == "FLAT":
            waiting["lgkmcnt"] = name
        vmcnt, lgkmcnt = wait_counts(instruction)
        waiting["vmcnt"] = "" if vmcnt == 0 else waiting["vmcnt"]
        waiting["lgkmcnt"] = "" if lgkmcnt == 0 else waiting["lgkmcnt"]
    yield from (f"does not wait for {name}: add s_waitcnt {counter}(0)" for counter, name in waiting.items() if name)


def _early_writes(text: str, instructions: list[Instruction], registers: _Registers) -> Iterator[str]:
    """Yield inputs that are read after a write to an output: the compiler may use one register for both."""
    lines = [line for line in re.sub(r"/\*.*?\*/|(?://|;)[^\n]*", "", text, flags=re.DOTALL).split("\n") if line.strip()]
    written: set[str] = set()
    for line, instruction in zip(lines, instructions, strict=False):
        files = {register[0] for register in written}
        named = {register for match in _REGISTER.finditer(line) for register in _expanded(match[0])}
        read = sorted(register for register in named & registers.inputs if register[0] in files)
        if read:
            yield f"reads an input with {instruction.mnemonic.lower()} after writing an output whose constraint has no &"
        written |= _written(instruction) & registers.shared


def _written(instruction: Instruction) -> set[str]:
    """Return the registers that an instruction writes: `v4`, `s2`, `a0`, `vcc`, `scc`, `exec`, `m0`."""
    fields, mnemonic = instruction.fields, instruction.mnemonic
    names = ["vdst", "sdst"]
    if "LOAD" in mnemonic or (instruction.encoding == "MUBUF" and "ATOMIC" in mnemonic and fields.get("sc0")):
        names += ["vdata", "sdata"]
    if "STORE" in mnemonic or ("ATOMIC" in mnemonic and not fields.get("sc0")) or "LDS_LOAD" in mnemonic:
        names.remove("vdst")
    written = {register for name in names if name in instruction.operands for register in _of_field(instruction, name)}
    text = instruction.pseudocode or ""
    written |= {name for name, pattern in _SPECIAL.items() if pattern.search(text) and not (name == "vcc" and "sdst" in fields)}
    if mnemonic == "V_SWAP_B32":
        written |= set(_of_field(instruction, "src0"))
    if instruction.encoding == "VOPC":
        written.add("vcc")
    if mnemonic.startswith("V_CMPX"):
        written.add("exec")
    return written


def _of_field(instruction: Instruction, name: str) -> Iterator[str]:
    number, bits = instruction.fields[name], instruction.operands[name].bits
    if instruction.encoding == "VOP3" and instruction.mnemonic.startswith("V_CMP"):
        bits = 64
    for offset in range(max(1, bits // _DWORD)):
        register = number + offset
        if instruction.mnemonic in ("V_READFIRSTLANE_B32", "V_READLANE_B32") and name == "vdst":
            register -= _FIRST_VGPR  # an SGPR in the field of VGPRs
        if register >= _FIRST_VGPR:
            accumulation = instruction.fields.get("acc") or instruction.mnemonic.startswith("V_ACCVGPR_WRITE")
            yield f"{'a' if accumulation else 'v'}{register - _FIRST_VGPR}"
        else:
            yield _SCALARS.get(register, f"s{register}")
