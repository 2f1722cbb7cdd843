"""Guard on inline assembly, which is rejected by default, or allowed with checks of its effects.

Statements of the unmodified source are allowed. Others are rejected before compilation, unless
`optimizer.inline_assembly=allowed`. Then each is assembled separately, with a register for each operand, and decoded.
Instructions that write a register which is neither an output nor a clobber, read a clock, end or halt the wavefront, or jump are
rejected.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from rocm_perf_lab.optimize.assembly_effects import AssemblyEffects
from rocm_perf_lab.optimize.assembly_statements import assembly_statements
from rocm_perf_lab.optimize.guards import GuardResult
from rocm_perf_lab.optimize.guards_syntax import own_declarations
from rocm_perf_lab.optimize.source_scan import scan_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocm_perf_lab.optimize.assembly_statements import AssemblyStatement
    from rocm_perf_lab.optimize.inspection import CandidateSource
    from rocm_perf_lab.optimize.source_tree import SourceUnit
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.syntax import SyntaxNode

InlineAssembly = Literal["refused", "allowed"]
_DIRECTIVE = re.compile(r"(?<![\w)\]])\.[A-Za-z_][^\n]*")
_UNKNOWN_ESCAPE = re.compile(r"\\")


class CheckedAssembly:
    """Inline assembly is that of the unmodified source.

    Args:
        target: GPU for which statements are assembled.
        inline_assembly: `refused`, or `allowed` for new statements whose outputs and clobbers name everything that they write.
    """

    def __init__(self, *, target: Target, inline_assembly: InlineAssembly = "refused") -> None:
        if inline_assembly not in ("refused", "allowed"):
            raise ValueError(f"inline_assembly is {inline_assembly!r}, not refused or allowed")
        self._allowed = inline_assembly == "allowed"
        self._effects = AssemblyEffects(target.architecture)
        self.rule = (
            "Inline assembly lists everything that it writes under outputs and clobbers; no clocks, messages, jumps, directives."
            if self._allowed
            else "No inline assembly, except that of the unmodified source."
        )

    def check_source(self, baseline: SourceUnit, candidate: SourceUnit) -> GuardResult:
        """Compare the statements in both texts, before compilation."""
        new = _new(baseline, candidate)
        why = [f"inline assembly (line {s.line}){self._problem(s)}" for s in new if not self._allowed or self._problem(s)]
        return GuardResult("assembly", not why, "; ".join(why[:3]) or ("checked" if new else "none new"))

    def check(self, baseline: CandidateSource, candidate: CandidateSource) -> GuardResult:
        """Check the registers that each new statement writes, and that the compiler found no other statements."""
        result = self.check_source(baseline.source, candidate.source)
        if not result.passed:
            return result
        found = _parsed(own_declarations(candidate.inspected))
        written = {s.line for s in assembly_statements(scan_source(candidate.source.content))}
        if found and not written:
            return GuardResult("assembly", False, f"inline assembly that a macro hides (line {found[0].line})")
        if len(found) > len(_parsed(own_declarations(baseline.inspected))) and not self._allowed:
            return GuardResult("assembly", False, f"more inline assembly than the unmodified source (line {found[-1].line})")
        problems = [p for s in _new(baseline.source, candidate.source) for p in self._effects.problems(s, _types(s, found))]
        return GuardResult("assembly", not problems, "; ".join(problems[:3]) or result.detail)

    def _problem(self, statement: AssemblyStatement) -> str:
        """Return the reason why a statement cannot be checked, before it is assembled."""
        if not self._allowed:
            return ""
        if statement.template is None:
            return " is not made of string literals, operands and clobbers"
        if _UNKNOWN_ESCAPE.search(statement.template):
            return " has escape sequences other than for new lines, tabs, quotes and backslashes"
        directive = _DIRECTIVE.search(statement.template)
        return f" contains the directive {directive[0].strip()}" if directive is not None else ""


def _new(baseline: SourceUnit, candidate: SourceUnit) -> list[AssemblyStatement]:
    known = {statement.text for statement in assembly_statements(scan_source(baseline.content))}
    return [s for s in assembly_statements(scan_source(candidate.content)) if s.text not in known]


def _parsed(root: SyntaxNode) -> list[SyntaxNode]:
    return list(_assembly_nodes(root))


def _assembly_nodes(root: SyntaxNode) -> Iterator[SyntaxNode]:
    """Yield each statement of the source once, although instances of a template repeat it."""
    seen: set[tuple[str, int, int]] = set()
    for node in root.walk():
        if node.kind == "GCCAsmStmt" and (key := (node.file, node.line, len(node.children))) not in seen:
            seen.add(key)
            yield node


def _types(statement: AssemblyStatement, found: list[SyntaxNode]) -> tuple[str, ...]:
    """Return the types of the operands of a statement; empty if the compiler's tree has no such statement."""
    count = len(statement.outputs) + len(statement.inputs)
    nodes = [node for node in found if node.line == statement.line and len(node.children) == count]
    return tuple(child.type for child in nodes[0].children) if nodes else ()
