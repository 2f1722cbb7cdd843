"""Guards on the code object: capabilities of the machine code, independent of the source."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.guards import GuardResult
from rocm_perf_lab.optimize.guards_syntax import own_declarations
from rocm_perf_lab.optimize.private_volatiles import has_only_private_volatiles
from rocm_perf_lab.toolchain.disassembly import disassemble
from rocm_perf_lab.toolchain.elf_file import parse_elf

if TYPE_CHECKING:
    from rocm_perf_lab.optimize.inspection import CandidateSource
    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata

_INSTRUCTIONS = re.compile(
    r"s_mem(?:real)?time|s_getreg\w*|s_sendmsg\w*|s_sethalt|s_sleep|s_rfe\w*|s_icache\w*|s_dcache\w*|s_ttrace\w*"
    r"|s_swappc\w*|s_setpc\w*|s_call\w*|s_atc\w*|s_setkill|s_incperflevel|s_decperflevel|ds_gws\w*|ds_append|ds_consume"
)
_SERVICES = re.compile(
    r"hidden_(?:hostcall_buffer|printf_buffer|heap_v1|queue_ptr|multigrid_sync_arg|default_queue|completion_action)"
)
_COMPILER_SYMBOLS = re.compile(r".*\.kd|__hip_cuid_\w*|__oclc_\w*|_DYNAMIC")
_ADDRESS_SPAN = 6
"""Number of instructions after `s_getpc_b64` within which its result becomes an address."""
_BRANCH_TARGET = re.compile(r"\s*(?://.*|<[^>]*>)")
_COHERENT_STORES = {"global_store": (16, 25), "flat_store": (16, 25), "buffer_store": (14, 15)}
"""Bits SC0 and SC1 of the encoding, set for volatile and atomic stores (LLVM, AMDGPU memory model gfx942)."""
_STT_OBJECT = 1
_SHF_WRITE = 1


class SameCodeObject:
    """The code object has the same kernels, and no new instructions that reach outside the launch, runtime services, memory
    that outlives the launch, or volatile stores."""

    def check(self, baseline: CandidateSource, candidate: CandidateSource) -> GuardResult:
        """Compare symbols, sections, hidden arguments and instructions."""
        before, after = baseline.inspected.code_object, candidate.inspected.code_object
        kernels = {k.symbol for k in after.kernels} ^ {k.symbol for k in before.kernels}
        if kernels:
            return GuardResult("code object", False, f"kernels appear or disappear: {', '.join(sorted(kernels))}")
        others = _changed_kernels(baseline, candidate)
        if others:
            template = baseline.kernel.name.partition("<")[0]
            if any(other.partition("<")[0] == template for other in others):
                why = "it is an instance of the same template; optimize a source that instantiates this kernel only"
            else:
                why = "do not change device functions that other kernels call, add new ones"
            return GuardResult("code object", False, f"changes {', '.join(others)} as well: {why}")
        services = _services(candidate) - _services(baseline)
        if services:
            return GuardResult("code object", False, f"requires the runtime service {', '.join(sorted(services))}")
        state = _writable(after) - _writable(before)
        if state:
            return GuardResult("code object", False, f"has memory that outlives a launch: {', '.join(sorted(state))}")
        new = _instructions(candidate) - _instructions(baseline)
        if new:
            return GuardResult("code object", False, f"executes {', '.join(sorted(new))}, which the unmodified kernel does not")
        if _may_lose_updates(candidate) and not _coherent_stores(baseline):
            why = "has volatile or atomic stores, which the unmodified kernel does not: updates by other workgroups may be lost"
            return GuardResult("code object", False, f"{why}; use atomics such as atomicAdd in memory, __syncthreads in LDS")
        return GuardResult("code object", True, "no new capability")


def _changed_kernels(baseline: CandidateSource, candidate: CandidateSource) -> list[str]:
    """Return the names of other kernels whose instructions or memory changed."""
    before, after = baseline.inspected.code_object, candidate.inspected.code_object
    now = {kernel.symbol: kernel for kernel in after.kernels}
    return [
        kernel.name
        for kernel in before.kernels
        if kernel.symbol != baseline.kernel.symbol
        and kernel.symbol in now
        and _behaviour(before, kernel) != _behaviour(after, now[kernel.symbol])
    ]


def _behaviour(code_object: CodeObject, kernel: KernelMetadata) -> tuple[object, ...]:
    """Return the instructions of a kernel without distances to other parts of the code object, and its memory use."""
    texts: list[str] = []
    since_base = _ADDRESS_SPAN
    for line in disassemble(code_object, kernel.symbol):
        since_base = 0 if line.mnemonic == "s_getpc_b64" else since_base + 1
        is_offset = since_base < _ADDRESS_SPAN and line.mnemonic in (
            "s_add_u32",
            "s_addc_u32",
            "s_add_co_u32",
            "s_add_co_ci_u32",
        )
        texts.append(line.text.rpartition(",")[0] if is_offset else _BRANCH_TARGET.sub("", line.text))
    return (*texts, kernel.lds_bytes, kernel.scratch_bytes, kernel.max_flat_workgroup_size)


def _services(candidate: CandidateSource) -> set[str]:
    return {a.value_kind for a in candidate.kernel.arguments if _SERVICES.fullmatch(a.value_kind)}


def _writable(code_object: CodeObject) -> set[str]:
    """Return the writable sections with their size, and the objects in them."""
    elf = parse_elf(code_object.data)
    sections = [s for s in elf.sections if s.flags & _SHF_WRITE and s.size and s.name not in (".dynamic", ".relro_padding")]
    names = {
        symbol.name
        for symbol in elf.symbols.values()
        if symbol.kind == _STT_OBJECT
        and not _COMPILER_SYMBOLS.fullmatch(symbol.name)
        and any(s.address <= symbol.address < s.address + s.size for s in sections)
    }
    return names | {f"{section.name} ({section.size} bytes)" for section in sections if section.name in (".data", ".bss")}


def _may_lose_updates(candidate: CandidateSource) -> bool:
    """Return whether workgroups may overwrite each other's results, which sequential execution does not reveal.

    Volatile local variables are stored with flat instructions, because compilers do not infer the address space of volatile
    accesses.
    """
    families = _coherent_stores(candidate)
    if families == {"flat_store"}:
        return not has_only_private_volatiles(own_declarations(candidate.inspected))
    return bool(families)


def _coherent_stores(candidate: CandidateSource) -> set[str]:
    """Return the types of store instructions that are marked as coherent with other workgroups."""
    lines = disassemble(candidate.inspected.code_object, candidate.kernel.symbol)
    return {
        family
        for line in lines
        for family, bits in _COHERENT_STORES.items()
        if line.mnemonic.startswith(family) and any(int.from_bytes(line.encoding, "little") >> bit & 1 for bit in bits)
    }


def _instructions(candidate: CandidateSource) -> set[str]:
    lines = disassemble(candidate.inspected.code_object, candidate.kernel.symbol)
    return {line.mnemonic for line in lines if _INSTRUCTIONS.fullmatch(line.mnemonic)}
