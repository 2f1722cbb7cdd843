"""Guards on the compiler's syntax tree: no clocks, messages, input or output, state, or 32-lane assumptions."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.guards import GuardResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocm_perf_lab.optimize.guards import Severity
    from rocm_perf_lab.optimize.inspection import CandidateSource, Inspection
    from rocm_perf_lab.toolchain.syntax import SyntaxNode

_FUNCTIONS = frozenset({"FunctionDecl", "CXXMethodDecl"})
_STATEMENTS = {
    "MSAsmStmt": "inline assembly",
    "FileScopeAsmDecl": "assembly",
    "CXXNewExpr": "new",
    "CXXDeleteExpr": "delete",
    "CXXTryStmt": "exceptions",
    "CXXThrowExpr": "exceptions",
    "IndirectGotoStmt": "a computed goto",
    "AddrLabelExpr": "the address of a label",
    "CUDAKernelCallExpr": "a kernel launch",
    "VAArgExpr": "variable arguments",
    "SourceLocExpr": "a builtin for file or line",
}
_FORBIDDEN_CALLS = re.compile(
    r"(?:wall_)?clock(?:64)?|__clock\w*|__builtin_read\w*counter|__builtin_amdgcn_s_mem(?:real)?time|\w*_realtime|__nanosleep"
    r"|__builtin_amdgcn_s_(?:(?:get|set)reg\w*|getpc)|__builtin_amdgcn_s_(?:sleep|sendmsg|sethalt|dcache|icache|ttrace|incperf|decperf)\w*"
    r"|__builtin_amdgcn_(?:dispatch|queue|implicitarg|kernarg_segment)_ptr|__builtin_amdgcn_(?:dispatch_id|endpgm|init_whole\w*)"
    r"|__builtin_amdgcn_(?:ds_gws\w*|ds_append|ds_consume|cs_\w+|kill|reloc_constant|get_fpenv|set_fpenv|ds_ordered\w*)"
    r"|__builtin_(?:trap|debugtrap|verbose_trap|alloca\w*|frame_address|return_address|extract_return\w*|longjmp)"
    r"|__builtin_(?:setjmp|eh_\w+|dwarf\w*)"
    r"|__builtin_(?:printf|puts|putchar|malloc|calloc|free|abort|exit|operator_new|operator_delete|v?s?n?printf|get_device_side\w*)"
    r"|__builtin_(?:prefetch_inst|clear_cache|___clear_cache|os_log\w*|dump_struct|call_with_static_chain|apply\w*)"
    r"|alloca|abort|exit|_exit|__assert\w*|__hip_assert|v?f?s?n?printf|puts|putchar|fputs|fwrite"
    r"|malloc|calloc|realloc|free|__hip_(?:malloc|free)|device_(?:malloc|free)"
    r"|__ockl_(?:hostcall|call_host|printf|fprintf|steady|cycle|dm_|devmem|gws|grid_sync|multi_grid|get_\w*ptr|sanitizer|hsa)\w*"
    r"|__ockl_fprintf\w*|hip(?!(?:C(?:add|sub|mul|div|real|imag|abs|sqabs|fma|onj|omplex)|Conj|Thread|Block|Grid|Float|Double))[A-Z]\w*"
    r"|hsa_\w+|system|popen|getenv|setenv|f?open(?:at)?|fread|read|write|close|remove|unlink|rename|syscall|mmap"
    r"|v?fork|exec[lv]\w*|kill|raise|signal|time|gettimeofday|clock_gettime|usleep|sleep|rand|srand|random"
)
"""Calls with an effect outside the launch, or with a result that the launch does not determine. Other builtins only compute,
order instructions, exchange values between lanes or access memory. The code object is checked, too.
"""
_FREE_ATTRIBUTES = frozenset(
    {"CUDAGlobalAttr", "CUDADeviceAttr", "CUDAHostAttr", "CUDASharedAttr", "CUDAConstantAttr", "CUDALaunchBoundsAttr",
     "AMDGPUWavesPerEUAttr", "AMDGPUFlatWorkGroupSizeAttr", "AMDGPUNumVGPRAttr", "AMDGPUNumSGPRAttr",
     "AMDGPUMaxNumWorkGroupsAttr",
     "AlwaysInlineAttr", "NoInlineAttr", "AlignedAttr", "AlignValueAttr", "AssumeAlignedAttr", "UnusedAttr", "LoopHintAttr",
     "LikelyAttr", "UnlikelyAttr", "FallThroughAttr", "ExtVectorTypeAttr", "VectorSizeAttr", "RestrictAttr", "ConstAttr",
     "PureAttr",
     "NoThrowAttr", "NoEscapeAttr", "NoDerefAttr", "NoAliasAttr", "NonNullAttr", "ReturnsNonNullAttr",
     "WarnUnusedResultAttr",
     "DeprecatedAttr", "PackedAttr", "MayAliasAttr", "ColdAttr", "HotAttr", "FlattenAttr", "ConvergentAttr", "NoConvergentAttr",
     "CXXAssumeAttr", "AssumptionAttr", "AnnotateAttr", "MustTailAttr", "NoMergeAttr", "NoDebugAttr", "CodeAlignAttr",
     "FinalAttr",
     "OverrideAttr", "OverloadableAttr", "NoUniqueAddressAttr", "TrivialABIAttr", "CXX11NoReturnAttr", "MinVectorWidthAttr",
     "NoBuiltinAttr", "NoStackProtectorAttr", "OpenCLUnrollHintAttr", "DiagnoseIfAttr", "EnableIfAttr", "StandaloneDebugAttr"}
)  # fmt: skip
_RESERVED = re.compile(r"_[_A-Z]\w*|llvm\.\w.*")
_SHUFFLES = re.compile(r"__shfl\w*")
_MASKED = re.compile(r"__(?:shfl|ballot|any|all|match|activemask|reduce)\w*_sync|__(?:reduce|match)\w*")
_BALLOTS = re.compile(r"__ballot(?:64)?|__activemask|__builtin_amdgcn_ballot_w64|__builtin_amdgcn_read_exec")
_CROSS_LANE = re.compile(
    r"__shfl\w*|__ballot\w*|__any\w*|__all\w*|__builtin_amdgcn_(?:ds_b?permute|ds_swizzle|(?:mov_|update_)dpp|ballot\w*)"
)


class NoForbiddenCode:
    """No new clocks, messages, hardware registers, input or output, heap, traps, launches, or attributes that change symbols,
    sections or host code. Other compiler builtins are allowed."""

    def check(self, baseline: CandidateSource, candidate: CandidateSource) -> GuardResult:
        """Compare the constructs in both trees."""
        known = {what for what, _ in _forbidden(own_declarations(baseline.inspected))}
        new = [f"{what} (line {line})" for what, line in _forbidden(own_declarations(candidate.inspected)) if what not in known]
        return GuardResult("code", not new, "; ".join(dict.fromkeys(new[:3])) or "no forbidden code")


class NoDeviceState:
    """No new variable outlives a launch, so that launches cannot pass results on."""

    def check(self, baseline: CandidateSource, candidate: CandidateSource) -> GuardResult:
        """Compare variables with static storage that are neither constant nor LDS."""
        known = {name for name, _ in _state(own_declarations(baseline.inspected))}
        new = [f"{name} (line {line})" for name, line in _state(own_declarations(candidate.inspected)) if name not in known]
        return GuardResult("state", not new, f"keeps state: {', '.join(new)}" if new else "none")


class Wave64Safe:
    """No new code assumes 32-lane wavefronts.

    Args:
        severity: `warning` leaves the decision to the trials; use `error` without the emulator.
    """

    def __init__(self, *, severity: Severity = "warning") -> None:
        self._severity = severity
        self.rule = "Wavefronts have 64 lanes: shuffles over 32 lanes, 32-bit masks and 5-bit lane numbers are reported."

    def check(self, baseline: CandidateSource, candidate: CandidateSource) -> GuardResult:
        """Compare the places that assume 32 lanes."""
        known = {what for what, _ in _narrow(own_declarations(baseline.inspected))}
        new = [f"{what} (line {line})" for what, line in _narrow(own_declarations(candidate.inspected)) if what not in known]
        return GuardResult("wave64", not new, "; ".join(dict.fromkeys(new)) or "no 32-lane assumption", self._severity)


def own_declarations(inspection: Inspection) -> SyntaxNode:
    """Return the tree without declarations from headers, which it contains if code precedes an include."""
    kept = tuple(child for child in inspection.syntax.children if child.file == inspection.file)
    return replace(inspection.syntax, children=kept) if kept else inspection.syntax


def _forbidden(root: SyntaxNode) -> Iterator[tuple[str, int]]:
    """Yield constructs that are rejected if new, with their lines."""
    own = {node.name for node in root.walk() if node.kind in _FUNCTIONS and _is_defined(node)}
    for node in root.walk():
        if node.kind in _STATEMENTS:
            yield _STATEMENTS[node.kind], node.line
        elif node.kind in _FUNCTIONS and _RESERVED.fullmatch(node.name) and _is_defined(node):
            yield f"a definition of {node.name}, a name of the implementation", node.line
        elif node.cast == "IntegralToPointer" and not any(inner.cast == "PointerToIntegral" for inner in node.walk()):
            yield "a pointer made from a number", node.line
        elif node.kind in ("DeclRefExpr", "MemberExpr", "UnresolvedLookupExpr", "UnresolvedMemberExpr"):
            name = (node.referenced or node.name).removeprefix("->").removeprefix(".")
            if (
                _FORBIDDEN_CALLS.fullmatch(name)
                and name not in own
                and node.referenced_kind in ("", "FunctionDecl", "CXXMethodDecl")
            ):
                yield f"a call of {name}", node.line
        elif node.kind.endswith("Attr") and not node.implicit and node.kind not in _FREE_ATTRIBUTES:
            yield f"the attribute {node.kind.removesuffix('Attr')}", node.line


def _is_defined(function: SyntaxNode) -> bool:
    return not function.implicit and any(child.kind == "CompoundStmt" for child in function.children)


def _state(root: SyntaxNode) -> Iterator[tuple[str, int]]:
    for node in root.walk():
        if node.kind != "VarDecl" or node.constexpr:
            continue
        attributes = {child.kind for child in node.children}
        is_static = node.storage in ("static", "extern") or bool(attributes & {"CUDADeviceAttr", "HIPManagedAttr"})
        is_fixed = bool(attributes & {"CUDASharedAttr", "CUDAConstantAttr"}) or _is_constant(node.type)
        if is_static and not is_fixed:
            yield node.name, node.line


def _is_constant(type_name: str) -> bool:
    return type_name.startswith("const ") and "*" not in type_name


def _narrow(root: SyntaxNode) -> Iterator[tuple[str, int]]:
    """Yield places that assume 32-lane wavefronts, with their lines."""
    crosses_lanes = any(_CROSS_LANE.fullmatch(node.referenced) for node in root.walk())
    for node in root.walk():
        if node.kind == "CallExpr":
            name = _callee(node)
            width = _literal(node.children[-1]) if len(node.children) > 3 else None  # callee, value, lane, width
            if _SHUFFLES.fullmatch(name) and width in ("32", "16"):
                yield f"{name} over {width} lanes", node.line
            if _MASKED.fullmatch(name) and node.children[1:] and _literal(node.children[1]) == str(0xFFFFFFFF):
                yield f"{name} with a mask of 32 lanes", node.line
        elif node.cast == "IntegralCast" and _bits_of(node.type) <= 32:
            inner = _stripped(node)
            if inner.kind == "CallExpr" and _BALLOTS.fullmatch(_callee(inner)):
                yield f"{_callee(inner)} cut to 32 lanes", node.line
        elif crosses_lanes and node.kind == "BinaryOperator" and _splits_by_32(node):
            yield f"a lane number from {node.opcode} {_literal(node.children[1])}", node.line


def _splits_by_32(node: SyntaxNode) -> bool:
    literal = _literal(node.children[1]) if len(node.children) == 2 else None
    wanted = {"&": {"31"}, "%": {"32"}, "/": {"32"}, ">>": {"5"}}.get(node.opcode, set())
    return literal in wanted and any(inner.referenced == "threadIdx" for inner in node.children[0].walk())


def _callee(call: SyntaxNode) -> str:
    return next((node.referenced for node in call.children[0].walk() if node.referenced), "") if call.children else ""


def _literal(node: SyntaxNode) -> str | None:
    inner = _stripped(node)
    return inner.value if inner.kind in ("IntegerLiteral", "ConstantExpr") else None


def _stripped(node: SyntaxNode) -> SyntaxNode:
    """Return the expression inside casts and parentheses."""
    while node.children and (node.cast or node.kind in ("ParenExpr", "ExprWithCleanups")):
        node = node.children[0]
    return node


def _bits_of(type_name: str) -> int:
    return 64 if any(word in type_name for word in ("long", "64", "128", "size_t")) else 32
