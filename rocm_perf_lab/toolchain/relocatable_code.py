"""Functions and data that a kernel refers to: `reachable_parts(code_object, kernel) -> CodeParts`.

Code refers to other symbols by `s_getpc_b64` and a 64-bit sum with the distance (LLVM: `symbol@rel32@lo+4`), directly or through
the global offset table. The distances are constants in the machine code; here they become references to symbols again.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rocm_perf_lab.toolchain.code_object import CodeObjectError
from rocm_perf_lab.toolchain.disassembly import disassemble
from rocm_perf_lab.toolchain.elf_file import Symbol, parse_elf

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata
    from rocm_perf_lab.toolchain.disassembly import AssemblyLine
    from rocm_perf_lab.toolchain.elf_file import ElfFile, Section

_GETPC = re.compile(r"s_getpc_b64 s\[(\d+):(\d+)\]")
_LONGEST_DISTANCE = 8
"""Instructions between s_getpc_b64 and the sum; the scheduler may put others in between."""
_LITERAL_BYTES = 4
_STT_OBJECT, _STT_FUNC = 1, 2
_RELATIVE64, _ABS64 = 13, 3


@dataclass(frozen=True)
class SymbolReference:
    """Operand of an instruction that stands for a symbol plus an offset; `modifier` is `rel32@lo+4`."""

    symbol: str
    offset: int
    modifier: str

    @property
    def operand(self) -> str:
        """The operand as assembly."""
        kind, _, addend = self.modifier.rpartition("+")
        return f"{quoted(self.symbol)}@{kind}+{int(addend) + self.offset}"


@dataclass(frozen=True)
class CodePart:
    """One function: its instructions, and the references to symbols by the address of the instruction."""

    symbol: str
    address: int
    lines: tuple[AssemblyLine, ...]
    references: Mapping[int, SymbolReference]


@dataclass(frozen=True)
class DataPart:
    """One data object. `pointers`: offset -> (symbol, offset) of words that hold addresses. In .bss there is no content."""

    symbol: str
    section: str
    alignment: int
    is_global: bool
    content: bytes
    size: int
    pointers: Mapping[int, tuple[str, int]]


@dataclass(frozen=True)
class CodeParts:
    """A kernel, the functions that it calls, and their data; `notes` are references that remain constants."""

    code: tuple[CodePart, ...]
    data: tuple[DataPart, ...]
    notes: tuple[str, ...] = ()


def quoted(symbol: str) -> str:
    """Return a symbol as assembly."""
    return symbol if re.fullmatch(r"[A-Za-z_.$][\w.$]*", symbol) else f'"{symbol}"'


def reachable_parts(code_object: CodeObject, kernel: KernelMetadata) -> CodeParts:
    """Return a kernel and everything that it refers to.

    Raises:
        DisassemblyError: No installed disassembler supports the processor.
        CodeObjectError: The file is damaged, or refers to memory outside of its sections.
    """
    return _Collector(code_object, kernel).collect()


@dataclass
class _Collector:
    code_object: CodeObject
    kernel: KernelMetadata
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.elf: ElfFile = parse_elf(self.code_object.data)
        self.relocations = _relocations(self.code_object.data)
        sized = (s for s in self.elf.symbols.values() if s.kind in (_STT_OBJECT, _STT_FUNC) and s.size)
        self.symbols: dict[str, Symbol] = {symbol.name: symbol for symbol in sized}
        self.dynamic = _dynamic_symbols(self.code_object.data)
        self.pending_data: list[str] = []

    def collect(self) -> CodeParts:
        code: dict[str, CodePart] = {}
        wanted = [self.kernel.symbol]
        while wanted:
            symbol = wanted.pop(0)
            if symbol in code:
                continue
            part = self._code(symbol)
            code[symbol] = part
            for reference in part.references.values():
                (wanted if self._is_code(reference.symbol) else self.pending_data).append(reference.symbol)
        data: dict[str, DataPart] = {}
        while self.pending_data:
            symbol = self.pending_data.pop(0)
            if symbol not in data:
                data[symbol] = self._data(symbol)
                targets = [name for name, _ in data[symbol].pointers.values()]
                for target in (name for name in targets if self._is_code(name) and name not in code):
                    code[target] = self._code(target)
                self.pending_data += [name for name in targets if not self._is_code(name)]
        return CodeParts(tuple(code.values()), tuple(data.values()), tuple(dict.fromkeys(self.notes)))

    def _is_code(self, name: str) -> bool:
        return self.symbols[name].kind == _STT_FUNC

    def _code(self, name: str) -> CodePart:
        if name == self.kernel.symbol:
            described = self.kernel
        else:
            symbol = self.symbols[name]
            described = replace(
                self.kernel, symbol=name, name=name, entry_address=symbol.address, code_bytes=symbol.size, arguments=()
            )
        others = tuple(k for k in self.code_object.kernels if k.symbol != name)
        lines = disassemble(replace(self.code_object, kernels=(*others, described)), name)
        return CodePart(name, described.entry_address, lines, self._references(lines))

    def _references(self, lines: Sequence[AssemblyLine]) -> dict[int, SymbolReference]:
        found: dict[int, SymbolReference] = {}
        for number, line in enumerate(lines):
            match = _GETPC.fullmatch(line.text)
            if match is None:
                continue
            low, high = match.groups()
            after = lines[number + 1 : number + 1 + _LONGEST_DISTANCE]
            add = next((one for one in after if one.text.startswith(f"s_add_u32 s{low}, s{low}, ")), None)
            carry = next((one for one in after if one.text.startswith(f"s_addc_u32 s{high}, s{high}, ")), None)
            pair = [one for one in (add, carry) if one is not None and len(one.encoding) == 2 * _LITERAL_BYTES]
            if add is None or carry is None or len(pair) < 2:
                self.notes.append(f"the use of the program counter at {line.address:#x} remains a constant")
                continue
            distance = int.from_bytes(add.encoding[4:] + carry.encoding[4:], "little", signed=True)
            place = self._place(line.address + len(line.encoding) + distance)
            if place is None:
                self.notes.append(f"the reference at {line.address:#x} is to no symbol and remains a constant")
                continue
            symbol, offset, kind = place
            base = line.address + len(line.encoding)
            for one, half in ((add, "lo"), (carry, "hi")):
                addend = one.address + len(one.encoding) - _LITERAL_BYTES - base
                found[one.address] = SymbolReference(symbol, offset, f"{kind}32@{half}+{addend}")
        return found

    def _place(self, address: int) -> tuple[str, int, str] | None:
        """Return symbol, offset and kind of a reference: `gotpcrel` to an entry of the global offset table, else `rel`."""
        section = self._section(address)
        if section is not None and section.name == ".got":
            target = self.relocations.get(address)
            return (target[0], 0, "gotpcrel") if target is not None and target[0] and not target[1] else None
        named = self._symbol_at(address)
        return (*named, "rel") if named is not None else None

    def _symbol_at(self, address: int) -> tuple[str, int] | None:
        holding = (s for s in self.symbols.values() if s.address <= address < s.address + s.size)
        symbol = next(holding, None) or self._unnamed(address)
        return (symbol.name, address - symbol.address) if symbol is not None else None

    def _unnamed(self, address: int) -> Symbol | None:
        """Return a local symbol for the bytes between two symbols, for example string literals; None for code."""
        section = self._section(address)
        if section is None or section.is_code:
            return None
        inside = [s for s in self.symbols.values() if section.address <= s.address < section.address + section.size]
        start = max([section.address, *(s.address + s.size for s in inside if s.address < address)])
        end = min([section.address + section.size, *(s.address for s in inside if s.address > address)])
        symbol = Symbol(f".Lunnamed_{start:x}", _STT_OBJECT, start, end - start)
        self.symbols[symbol.name] = symbol
        return symbol

    def _section(self, address: int) -> Section | None:
        loaded = (s for s in self.elf.sections if s.address and s.address <= address < s.address + s.size)
        return next(loaded, None)

    def _data(self, name: str) -> DataPart:
        symbol = self.symbols[name]
        section = self._section(symbol.address)
        if section is None:
            raise CodeObjectError(f"{name} is outside of the sections", where=f"{symbol.address:#x}", hint="Compile it again.")
        content = self.elf.read(symbol.address, symbol.size) if section.is_loaded else b""
        pointers: dict[int, tuple[str, int]] = {}
        for address, (target, addend) in self.relocations.items():
            if not symbol.address <= address < symbol.address + symbol.size:
                continue
            place = (target, addend) if target else self._symbol_at(addend)
            if place is None:
                self.notes.append(f"a pointer in {name} is to no symbol and remains a constant")
            else:
                pointers[address - symbol.address] = place
        alignment = min(256, symbol.address & -symbol.address) if symbol.address else 16
        return DataPart(name, section.name, alignment, name in self.dynamic, content, symbol.size, pointers)


def _relocations(data: bytes) -> dict[int, tuple[str, int]]:
    """Return the dynamic relocations: address -> (symbol, addend); without a symbol the addend is an address."""
    from elftools.elf.elffile import ELFFile
    from elftools.elf.relocation import RelocationSection
    from elftools.elf.sections import SymbolTableSection

    elf = ELFFile(io.BytesIO(data))
    found = {}
    for section in elf.iter_sections():
        if not isinstance(section, RelocationSection) or section.name != ".rela.dyn":
            continue
        symbols = elf.get_section(section["sh_link"])
        if not isinstance(symbols, SymbolTableSection):
            continue
        for relocation in section.iter_relocations():
            kind, addend = relocation["r_info_type"], relocation["r_addend"]
            if kind == _RELATIVE64:
                found[relocation["r_offset"]] = ("", addend)
            elif kind == _ABS64:
                found[relocation["r_offset"]] = (symbols.get_symbol(relocation["r_info_sym"]).name, addend)
    return found


def _dynamic_symbols(data: bytes) -> frozenset[str]:
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    table = ELFFile(io.BytesIO(data)).get_section_by_name(".dynsym")
    return frozenset(symbol.name for symbol in table.iter_symbols()) if isinstance(table, SymbolTableSection) else frozenset()
