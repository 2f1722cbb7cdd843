"""Guards on the compiler's syntax tree: no assembly, clocks, input or output, state, or 32-lane assumptions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.guards import GuardResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocm_perf_lab.optimize.inspection import CandidateSource
    from rocm_perf_lab.toolchain.syntax import SyntaxNode

_STATEMENTS = {
    "GCCAsmStmt": "inline assembly",
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
    r"(?:wall_)?clock(?:64)?|__clock\w*|__builtin_read(?:cycle|steady)counter|__builtin_amdgcn_s_mem(?:real)?time|\w*_realtime"
    r"|__builtin_amdgcn_s_(?:get|set)reg|__builtin_amdgcn_s_(?:sleep|sendmsg|sethalt|setprio|dcache|icache|ttrace)\w*|__nanosleep"
    r"|__builtin_(?:trap|debugtrap|unreachable|assume|alloca\w*|frame_address|return_address|longjmp|setjmp)|alloca"
    r"|abort|exit|_exit|__assert\w*|__hip_assert|v?f?s?n?printf|puts|putchar|fputs|fwrite"
    r"|malloc|calloc|realloc|free|__hip_(?:malloc|free)|device_(?:malloc|free)"
    r"|__builtin_amdgcn_(?:dispatch|queue|implicitarg|kernarg_segment)_ptr|__builtin_amdgcn_dispatch_id|__ockl_\w+"
    r"|hip[A-Z]\w*|hsa_\w+|system|popen|getenv|setenv|f?open(?:at)?|fread|read|write|close|remove|unlink|rename|syscall|mmap"
    r"|fork|v?fork|exec[lv]\w*|kill|raise|signal|time|gettimeofday|clock_gettime|usleep|sleep|rand|srand|random"
)
_FREE_ATTRIBUTES = frozenset(
    {"CUDAGlobalAttr", "CUDADeviceAttr", "CUDASharedAttr", "CUDAConstantAttr", "CUDALaunchBoundsAttr", "AMDGPUWavesPerEUAttr",
     "AMDGPUFlatWorkGroupSizeAttr", "AlwaysInlineAttr", "AlignedAttr", "UnusedAttr", "LoopHintAttr", "LikelyAttr",
     "UnlikelyAttr", "FallThroughAttr", "ExtVectorTypeAttr", "RestrictAttr"}
)  # fmt: skip
_SHUFFLES = re.compile(r"__shfl\w*")
_MASKED = re.compile(r"__(?:shfl|ballot|any|all|match|activemask|reduce)\w*_sync|__(?:reduce|match)\w*")
_BALLOTS = re.compile(r"__ballot(?:64)?|__activemask|__builtin_amdgcn_ballot_w64|__builtin_amdgcn_read_exec")
_CROSS_LANE = re.compile(
    r"__shfl\w*|__ballot\w*|__any\w*|__all\w*|__builtin_amdgcn_(?:ds_b?permute|ds_swizzle|(?:mov_|update_)dpp|ballot\w*)"
)


class NoForbiddenCode:
    """No new assembly, clocks, input or output, heap, traps, launches or attributes."""

    def check(self, baseline: CandidateSource, candidate: CandidateSource) -> GuardResult:
        """Compare the constructs in both trees."""
        known = {what for what, _ in _forbidden(baseline.inspected.syntax)}
        new = [f"{what} (line {line})" for what, line in _forbidden(candidate.inspected.syntax) if what not in known]
        return GuardResult("code", not new, "; ".join(dict.fromkeys(new[:3])) or "no forbidden code")


class NoDeviceState:
    """No new variable outlives a launch, so that launches cannot pass results on."""

    def check(self, baseline: CandidateSource, candidate: CandidateSource) -> GuardResult:
        """Compare variables with static storage that are neither constant nor LDS."""
        known = {name for name, _ in _state(baseline.inspected.syntax)}
        new = [f"{name} (line {line})" for name, line in _state(candidate.inspected.syntax) if name not in known]
        return GuardResult("state", not new, f"keeps state: {', '.join(new)}" if new else "none")


class Wave64Safe:
    """No new code assumes 32-lane wavefronts."""

    def check(self, baseline: CandidateSource, candidate: CandidateSource) -> GuardResult:
        """Compare the places that assume 32 lanes."""
        known = {what for what, _ in _narrow(baseline.inspected.syntax)}
        new = [f"{what} (line {line})" for what, line in _narrow(candidate.inspected.syntax) if what not in known]
        return GuardResult("wave64", not new, "; ".join(dict.fromkeys(new)) or "no 32-lane assumption")


def _forbidden(root: SyntaxNode) -> Iterator[tuple[str, int]]:
    """Yield constructs that are rejected if new, with their lines."""
    for node in root.walk():
        if node.kind in _STATEMENTS:
            yield _STATEMENTS[node.kind], node.line
        elif node.cast == "IntegralToPointer":
            yield "a pointer made from a number", node.line
        elif node.kind in ("DeclRefExpr", "MemberExpr", "UnresolvedLookupExpr", "UnresolvedMemberExpr"):
            name = (node.referenced or node.name).removeprefix("->").removeprefix(".")
            if _FORBIDDEN_CALLS.fullmatch(name) and node.referenced_kind in ("", "FunctionDecl", "CXXMethodDecl"):
                yield f"a call of {name}", node.line
        elif node.kind.endswith("Attr") and not node.implicit and node.kind not in _FREE_ATTRIBUTES:
            yield f"the attribute {node.kind.removesuffix('Attr')}", node.line


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
