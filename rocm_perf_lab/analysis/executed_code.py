"""Instructions of a kernel with the number of their executions: widths of memory accesses, scratch accesses, unneeded work.

Work is overhead if it only computes addresses and loop conditions. An instruction is useful if its result
reaches stored data, atomics, LDS data or a matrix instruction through registers. The backward search follows the
nearest definitions in the order of the code, and those that a loop brings back.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from rocm_perf_lab.toolchain.static_features import instruction_class

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.rocprof.att.model import AttTrace

_VECTOR_MEMORY = re.compile(r"^(?:global|flat|t?buffer|scratch)_(?P<kind>load|store|atomic)_?(?P<rest>\w*)")
_WIDTHS = (
    ("dwordx4", 16), ("dwordx3", 12), ("dwordx2", 8), ("dword", 4), ("b128", 16), ("b96", 12), ("b64", 8), ("b32", 4),
    ("x2", 8), ("u64", 8), ("f64", 8), ("xyzw", 16), ("xyz", 12), ("xy", 8), ("ubyte", 1), ("sbyte", 1), ("byte", 1),
    ("ushort", 2), ("sshort", 2), ("short", 2), ("u16", 2), ("i16", 2), ("b16", 2), ("u8", 1), ("i8", 1), ("b8", 1),
)  # fmt: skip
"""Bytes per lane by a part of the mnemonic; the first match decides."""
_REGISTER = re.compile(r"\b([vsa])(?:\[(\d+):(\d+)\]|(\d+)(?![\w.\[]))|\b(vcc|exec|scc|m0)(?:_lo|_hi)?\b")
_STORED_SECOND = ("global_store", "flat_store", "scratch_store", "global_atomic", "flat_atomic", "ds_write", "ds_store", "ds_add")
_NO_DESTINATION = ("global_store", "flat_store", "scratch_store", "buffer_store", "tbuffer_store", "ds_write", "ds_store",
                   "s_cmp", "s_bitcmp", "s_waitcnt", "s_barrier", "s_branch", "s_cbranch", "s_endpgm", "s_nop")  # fmt: skip

_READS_SCC = ("s_cselect", "s_cmov", "s_addc", "s_subb")
_KEEPS_SCC = ("s_mul_", "s_mov", "s_cselect", "s_cmov", "s_sext", "s_brev", "s_ff", "s_flbit", "s_pack", "s_getreg", "s_setreg")
_READS_DESTINATION = ("fmac", "_mac_", "dot2c", "atomic", "writelane")
_LONGEST_CODE = 20_000
_MOST_LOOPS = 6
"""Maximum number of nested loops around a use through which a definition may reach it."""
_MOST_DEFINITIONS = 6
"""Maximum number of definitions of a register in earlier blocks that may reach a use, since branches and inactive lanes keep
older values."""


@dataclass(frozen=True)
class ExecutedInstruction:
    """Instruction, and the number of its executions by wavefronts."""

    text: str
    executions: int
    address: int = 0

    @property
    def mnemonic(self) -> str:
        """First word of the text."""
        return self.text.split(maxsplit=1)[0] if self.text.strip() else ""


@dataclass(frozen=True)
class ExecutedCode:
    """Instructions in the order of their addresses."""

    instructions: tuple[ExecutedInstruction, ...]

    @classmethod
    def of_trace(cls, trace: AttTrace) -> ExecutedCode | None:
        """Return the traced instructions; None if the trace has none."""
        rows = sorted((row for row in trace.rows if row.hits), key=lambda row: row.line)
        return cls(tuple(ExecutedInstruction(row.text, row.hits, row.address) for row in rows)) if rows else None

    @cached_property
    def lane_bytes(self) -> float | None:
        """Mean bytes per lane of vector memory instructions, weighted by executions; None without any."""
        found = [(width, one.executions) for one in self.instructions if (width := access_bytes(one.mnemonic)) is not None]
        count = sum(times for _, times in found)
        return sum(width * times for width, times in found) / count if count else None

    @cached_property
    def scratch_share(self) -> float:
        """Share of the executed vector memory instructions that access scratch memory."""
        accesses = [one for one in self.instructions if _VECTOR_MEMORY.match(one.mnemonic)]
        whole = sum(one.executions for one in accesses)
        scratch = sum(one.executions for one in accesses if one.mnemonic.startswith("scratch_"))
        return scratch / whole if whole else 0.0

    @cached_property
    def scratch_bytes_share(self) -> float:
        """Share of the bytes of the executed vector memory instructions that access scratch memory."""
        sizes = [(one, (access_bytes(one.mnemonic) or 0) * one.executions) for one in self.instructions]
        whole = sum(size for _, size in sizes)
        return sum(size for one, size in sizes if one.mnemonic.startswith("scratch_")) / whole if whole else 0.0

    @cached_property
    def overhead(self) -> dict[str, float]:
        """Share of the executed `valu` and `salu` instructions whose results reach only addresses and conditions.

        Empty for code that is too long to search.
        """
        if len(self.instructions) > _LONGEST_CODE:
            return {}
        useful = _useful(self.instructions)
        shares = {}
        for kind in ("valu", "salu"):
            own = [(one.executions, known) for one, known in zip(self.instructions, useful, strict=True) if _is(one, kind)]
            whole = sum(times for times, _ in own)
            if whole:
                shares[kind] = sum(times for times, known in own if not known) / whole
        return shares


def access_bytes(mnemonic: str) -> int | None:
    """Return the bytes per lane of a vector memory instruction; None for other instructions."""
    found = _VECTOR_MEMORY.match(mnemonic)
    if found is None:
        return None
    rest = found["rest"]
    return next((width for part, width in _WIDTHS if part in rest), 4)


def _is(instruction: ExecutedInstruction, kind: str) -> bool:
    found = instruction_class(instruction.mnemonic)
    return found == kind or (kind == "salu" and found in ("branch", "smem"))


def _useful(code: Sequence[ExecutedInstruction]) -> list[bool]:
    """Return for each instruction whether its result reaches data: a search from data operands to their definitions."""
    if not code:
        return []
    written, read, data = zip(*(_operands(one.text) for one in code), strict=True)
    flow = _Flow.of(code, written)
    useful = [bool(registers) for registers in data]
    queue = [(number, register) for number, registers in enumerate(data) for register in registers]
    seen = set(queue)
    while queue:
        number, register = queue.pop()
        for source in flow.reaching(register, number):
            useful[source] = True
            for further in read[source]:
                if (source, further) not in seen:
                    seen.add((source, further))
                    queue.append((source, further))
    return useful


@dataclass(frozen=True)
class _Flow:
    """Definitions of every register, blocks and loops of a code."""

    definitions: Mapping[str, Sequence[int]]
    blocks: Sequence[int]
    loops: Sequence[tuple[int, int]]
    """First and last instruction of each loop."""
    _loops_around: dict[int, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, code: Sequence[ExecutedInstruction], written: Sequence[frozenset[str]]) -> _Flow:
        definitions: dict[str, list[int]] = {}
        for number, registers in enumerate(written):
            for register in registers:
                definitions.setdefault(register, []).append(number)
        places = [one.address for one in code]
        starts, loops = {0}, []
        for number, one in enumerate(code):
            if instruction_class(one.mnemonic) != "branch":
                continue
            starts.add(number + 1)
            target = _target(one)
            first = bisect_left(places, target) if target is not None else 0
            starts.add(first)
            if first <= number:
                loops.append((first, number))
        ordered = sorted(starts)
        return cls(definitions, [bisect_right(ordered, number) for number in range(len(code))], loops)

    def reaching(self, register: str, user: int) -> list[int]:
        """Return definitions that may reach a user: the nearest ones before it, and the last ones of the loops around it."""
        places = self.definitions.get(register, ())
        found = []
        before = bisect_left(places, user)
        for place in reversed(places[max(0, before - _MOST_DEFINITIONS) : before]):
            found.append(place)
            if self.blocks[place] == self.blocks[user]:
                return found
        for last in self._ends_of_loops(user):
            latest = bisect_right(places, last) - 1
            found += [places[latest]] if latest >= before else []
        return found

    def _ends_of_loops(self, user: int) -> tuple[int, ...]:
        """Return the last instructions of the innermost loops around an instruction."""
        if user not in self._loops_around:
            around = sorted((last - first, last) for first, last in self.loops if first <= user <= last)
            self._loops_around[user] = tuple(last for _, last in around[:_MOST_LOOPS])
        return self._loops_around[user]


def _target(branch: ExecutedInstruction) -> int | None:
    """Return the address of a branch's target; None if the text does not state its offset in dwords."""
    words = branch.text.split()
    if len(words) < 2 or not words[1].lstrip("-").isdigit():
        return None
    offset = int(words[1])
    return branch.address + 4 + 4 * (offset - (1 << 16) if offset >= 1 << 15 else offset)


@dataclass(frozen=True)
class Registers:
    """Registers that an instruction reads, with those of addresses, masks and conditions, and that it writes."""

    read: frozenset[str]
    written: frozenset[str]


def registers_of(text: str) -> Registers:
    """Return the registers of an instruction in assembly text."""
    mnemonic, _, rest = text.strip().lower().partition(" ")
    parts = [_registers(part) for part in rest.split(",")] if rest else []
    kind = instruction_class(mnemonic)
    read: frozenset[str] = frozenset().union(*parts[1:])
    written = parts[0] if parts else frozenset()
    if mnemonic.startswith(_NO_DESTINATION):
        read, written = read | written, frozenset()
    elif any(part in mnemonic for part in _READS_DESTINATION):
        read |= written
    if "_co_" in mnemonic and len(parts) > 1:
        written |= parts[1]
    if mnemonic.startswith("v_cmpx") or "saveexec" in mnemonic:
        written |= {"exec"}
    if kind in ("valu", "vmem", "lds") or "saveexec" in mnemonic or "exec" in mnemonic:
        read |= {"exec"}
    if kind == "salu" and not mnemonic.startswith(_KEEPS_SCC):
        written |= {"scc"}
    if mnemonic.startswith(_READS_SCC) or "_scc" in mnemonic:
        read |= {"scc"}
    if "_vcc" in mnemonic or mnemonic.startswith("v_div_fmas"):
        read |= {"vcc"}
    return Registers(read, written)


def _operands(text: str) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Return registers that an instruction writes, those from which its result follows, and those that it uses as data.

    A load's result follows from memory, not from its address; a comparison's from its operands.
    """
    mnemonic, _, rest = text.partition(" ")
    parts = [_registers(part) for part in rest.split(",")]
    kind = instruction_class(mnemonic)
    nothing: frozenset[str] = frozenset()
    everything = frozenset().union(*parts) if parts else nothing
    if kind in ("vmem", "lds"):
        if mnemonic.startswith(("buffer_store", "tbuffer_store", "buffer_atomic")):
            return nothing, nothing, parts[0] if parts else nothing
        if mnemonic.startswith(_STORED_SECOND):
            return nothing, nothing, frozenset().union(*parts[1:]) if len(parts) > 1 else nothing
        if mnemonic.startswith(("ds_bpermute", "ds_permute", "ds_swizzle")):
            return parts[0], everything - parts[0], nothing
        return (parts[0] if parts else nothing), nothing, nothing
    if kind == "smem":
        return (parts[0] if parts else nothing), nothing, nothing
    if kind == "mfma":
        sources = frozenset().union(*parts[1:]) if len(parts) > 1 else nothing
        return parts[0], sources, sources
    if mnemonic.startswith(_NO_DESTINATION) or not parts:
        return (
            (frozenset({"scc"}), everything, nothing)
            if mnemonic.startswith(("s_cmp", "s_bitcmp"))
            else (nothing, nothing, nothing)
        )
    sources = frozenset().union(*parts[1:]) if len(parts) > 1 else nothing
    if "accumulate" in mnemonic or "fmac" in mnemonic or "_mac_" in mnemonic or "dot2c" in mnemonic:
        sources |= parts[0]
    if mnemonic.startswith(_READS_SCC):
        sources |= {"scc"}
    return (
        parts[0] | (frozenset({"scc"}) if kind == "salu" and not mnemonic.startswith(_KEEPS_SCC) else nothing),
        sources,
        nothing,
    )


def _registers(text: str) -> frozenset[str]:
    found = set()
    for kind, first, last, single, special in _REGISTER.findall(text):
        if special:
            found.add(special)
        else:
            numbers = range(int(first), int(last) + 1) if first else (int(single),)
            found.update(f"{kind}{number}" for number in numbers)
    return frozenset(found)
