"""Syntax tree of a source, as parsed by the compiler: `read_syntax(CompileRequest(...)) -> SyntaxNode`.

The headers at the top of the source are precompiled once and cached, so that clang dumps only the declarations of the source
itself, in a tenth of the time. Macros, includes and templates are resolved as in the build.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.resources import cache_dir as default_cache_dir
from rocm_perf_lab.toolchain.build import CompileError, compile_source
from rocm_perf_lab.toolchain.compile_request import request_flags
from rocm_perf_lab.toolchain.compiler_run import front_end
from rocm_perf_lab.toolchain.device_code import language_flags
from rocm_perf_lab.toolchain.diagnostics import redacted
from rocm_perf_lab.toolchain.missing_headers import stand_in_directory
from rocm_perf_lab.toolchain.precompiled_headers import header_text, includes, leading_includes, precompile, precompiled_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rocm_perf_lab.toolchain.compile_request import CompileRequest
    from rocm_perf_lab.toolchain.compilers import Compiler
    from rocm_perf_lab.toolchain.sandbox import Sandbox

_LAB = Path(__file__).parent
_TIMEOUT_S = 600
"""Limit for sources of the user, which a busy machine must not exceed; sources of others have the limits of the sandbox."""
_MAX_BYTES = 1 << 28
_UNINDENTED = 'exec 3>&1; code=$({ { "$@" 3>&- 4>&-; echo $? >&4; } | LC_ALL=C sed "s/^ *//" >&3; } 4>&1); exit "$code"'
"""Shell command that runs its arguments and removes the indentation of their output, which for deep trees is most of it."""


class SyntaxTreeError(LabError):
    """Source for which the compiler produces no syntax tree."""


@dataclass(frozen=True)
class SyntaxNode:
    """One node of clang's tree; `kind` as clang names it (FunctionDecl, GCCAsmStmt, CUDAGlobalAttr).

    `type` is the qualified type without aliases; `value` and `opcode` are those of literals and operators; `referenced` is the
    name of the declaration that an expression refers to, `referenced_kind` its kind; `cast` is the kind of a cast. `line`
    counts from 1 in `file`; both are inherited from the enclosing node if clang records none. `implicit`: not in the source.
    """

    kind: str
    name: str
    type: str
    line: int
    file: str
    value: str
    opcode: str
    referenced: str
    referenced_kind: str
    cast: str
    storage: str
    constexpr: bool
    implicit: bool
    children: tuple[SyntaxNode, ...]

    def walk(self) -> Iterator[SyntaxNode]:
        """Yield this node and its descendants in source order."""
        pending = [self]
        while pending:
            node = pending.pop()
            yield node
            pending.extend(reversed(node.children))

    def attributes(self) -> tuple[str, ...]:
        """Return the kinds of the attributes in the source of this declaration."""
        return tuple(child.kind for child in self.children if child.kind.endswith("Attr") and not child.implicit)


@dataclass(frozen=True)
class _Runner:
    """Runs the compiler with a cache directory, and in the sandbox if there is one."""

    cache_dir: Path
    readable: tuple[Path, ...]
    sandbox: Sandbox | None

    @property
    def directory(self) -> Path:
        return self.cache_dir / "syntax"

    def run(self, command: Sequence[str], private: Path) -> tuple[int, str, str]:
        """Return exit code, output and messages of a command that may write to `private`."""
        if self.sandbox is None:
            try:
                run = subprocess.run(command, capture_output=True, check=False, timeout=_TIMEOUT_S)
            except subprocess.TimeoutExpired as error:
                raise SyntaxTreeError(
                    f"the compiler took longer than {_TIMEOUT_S} s to parse the source",
                    where=shlex.join(command[:1]),
                    hint="run again when the machine is less busy, or check the templates and macros of the source",
                ) from error
            code, output, said = run.returncode, run.stdout.decode(errors="replace"), run.stderr.decode(errors="replace")
        else:
            ended = self.sandbox.run(command, private, readable=self.readable, longest_output=_MAX_BYTES + 1)
            if ended.reason is not None:
                raise SyntaxTreeError(f"the compiler was stopped while it parsed the source: it {ended.reason}")
            code, output, said = ended.returncode, ended.stdout, ended.stderr
        if len(output) > _MAX_BYTES:
            raise SyntaxTreeError(f"the syntax tree has more than {_MAX_BYTES:,} bytes")
        return code, output, said


def read_syntax(
    request: CompileRequest, *, compiler: Compiler, cache_dir: Path | None = None, sandbox: Sandbox | None = None
) -> SyntaxNode:
    """Return the declarations of a source as a tree whose root is the translation unit.

    Args:
        request: Source, macros and flags, as for a build.
        compiler: A clang.
        cache_dir: Directory for precompiled headers; default: the user's cache.
        sandbox: Sandbox for untrusted sources.

    Raises:
        SyntaxTreeError: The source does not compile, or the compiler exceeds its time limit.
    """
    cache_dir = cache_dir or default_cache_dir()
    readable = (request.source.parent, *request.include_dirs, cache_dir, _LAB, Path(compiler.command[0]).parent)
    runner = _Runner(cache_dir, readable, sandbox)
    runner.directory.mkdir(parents=True, exist_ok=True)
    flags = (*compiler.hip_flags(cache_dir), "-fuse-cuid=none", *language_flags(request), *request_flags(request))
    base = (*compiler.command, "-x", "hip", "--cuda-device-only", *flags)
    try:
        return _read(request, base, compiler, runner, with_errors=False)
    except SyntaxTreeError:
        stand_ins = _stand_ins(request, compiler, cache_dir, sandbox)
        if stand_ins is None:
            raise
        return _read(request, (*base, *stand_ins), compiler, runner, with_errors=True)


def _read(
    request: CompileRequest, base: tuple[str, ...], compiler: Compiler, runner: _Runner, *, with_errors: bool
) -> SyntaxNode:
    """Return the tree of a source; with errors that of a source whose host code does not compile."""
    includes = leading_includes(request.source.read_bytes())
    system_headers = tuple(name for name in includes if name.startswith("<"))
    said = ""
    for headers in dict.fromkeys((includes, system_headers)):  # a header of the user may fail if it is included twice
        header = _precompiled(headers, base, compiler, runner)
        for attempt in (1, 2):
            dump = front_end("-include-pch", str(header), "-ast-dump=json")
            with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-") as private:
                command = (*base, "-fsyntax-only", *dump, str(request.source))
                code, output, said = runner.run(("/bin/sh", "-c", _UNINDENTED, "sh", *command), Path(private))
            if code == 0 or (with_errors and output.rstrip().endswith("}")):
                return _tree(output)
            if attempt == 1:  # clang rejects a precompiled header whose headers have changed: compile it again
                header.unlink(missing_ok=True)
                header = _precompiled(headers, base, compiler, runner)
    shown = said if runner.sandbox is None else redacted(said, request.source)
    raise SyntaxTreeError(f"the compiler produces no syntax tree: {shown.strip()[:500]}", where=str(request.source))


def _stand_ins(request: CompileRequest, compiler: Compiler, cache_dir: Path, sandbox: Sandbox | None) -> tuple[str, ...] | None:
    """Return the flags for stand-ins of headers that are not installed; None if the source compiles only as it is, or not."""
    try:
        build = compile_source(request, compiler=compiler, cache_dir=cache_dir, sandbox=sandbox)
    except CompileError:
        return None
    directory = f"-idirafter{stand_in_directory(cache_dir)}"
    return tuple(word for word in build.command if word.startswith(directory)) if build.notes else None


def _precompiled(headers: Sequence[str], base: Sequence[str], compiler: Compiler, runner: _Runner) -> Path:
    """Return the precompiled header of the leading includes; it is created if it does not exist."""
    text = includes(headers)
    finished = runner.directory / f"{precompiled_key(compiler, base, text)}.pch"
    if finished.is_file():
        return finished
    said = ""

    def run(command: Sequence[str], directory: Path) -> bool:
        nonlocal said
        code, _, said = runner.run(command, directory)
        return code == 0

    if not precompile(finished, text, base, run):
        shown = said if runner.sandbox is None else redacted(said, header_text(finished))
        raise SyntaxTreeError(f"the headers do not compile: {shown.strip()[:500]}", where=str(header_text(finished)))
    return finished


def _tree(dump: str) -> SyntaxNode:
    try:
        raw = json.loads(dump)
    except RecursionError:  # an expression of hundreds of terms is a tree of that depth
        raw = _parsed_by_line(dump)
    return _Reader().tree(raw)


class _OpenNode:
    """Incomplete node of the dump: the lines of its entries, and its children so far."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.children: list[Mapping[str, Any]] = []
        self.nesting = 0
        self.in_children = False

    def closed(self) -> Mapping[str, Any]:
        """Return the node with its children."""
        own: dict[str, Any] = json.loads("{" + "".join(self.lines).rstrip(",") + "}")
        return {**own, "inner": self.children}

    def add(self, line: str) -> None:
        """Add a line of the node's own entries, or begin its children."""
        if line == '"inner": [' and not self.nesting:
            self.in_children = True
            return
        self.nesting += line.endswith(("{", "[")) - line.startswith(("}", "]"))
        self.lines.append(line)


def _parsed_by_line(dump: str) -> Mapping[str, Any]:
    """Return the root of a dump of any depth. Clang prints an entry or bracket per line, and strings contain no line breaks."""
    top = _OpenNode()
    top.in_children = True
    stack = [top]
    for line in dump.split("\n"):  # not splitlines(): strings may contain other separators
        node = stack[-1]
        if node.in_children and line.startswith("{}"):
            node.children.append({})
        elif node.in_children and line == "{":
            stack.append(_OpenNode())
        elif node.in_children and line.startswith("]"):
            node.in_children = False
            node.lines.append(",")
        elif not node.nesting and line.startswith("}"):
            stack.pop()
            stack[-1].children.append(node.closed())
        else:
            node.add(line)
    return top.children[0]


class _Reader:
    """Reader of clang's JSON; nodes must be read in order, because clang omits file and line if they have not changed."""

    def __init__(self) -> None:
        self._file, self._line = "", 0

    def _location(self, place: Mapping[str, Any]) -> tuple[str, int]:
        """Return file and line; for a macro those of its expansion."""
        found = (self._file, self._line)
        for part in (place.get("spellingLoc", {}), place.get("expansionLoc", {})) if "expansionLoc" in place else (place,):
            self._file, self._line = part.get("file", self._file), part.get("line", self._line)
            found = (self._file, self._line)
        return found

    def tree(self, raw: Mapping[str, Any]) -> SyntaxNode:
        """Return a node with its descendants, without recursion: expressions may be of any depth."""
        stack = [self._begun(raw)]
        while True:
            node, rest, children = stack[-1]
            child = next(rest, None)
            if child is not None:
                stack.append(self._begun(child))
                continue
            stack.pop()
            finished = replace(node, children=tuple(children))
            if not stack:
                return finished
            stack[-1][2].append(finished)

    def _begun(self, raw: Mapping[str, Any]) -> tuple[SyntaxNode, Iterator[Mapping[str, Any]], list[SyntaxNode]]:
        """Return a node, its children that are still to read, and a list for those that are read."""
        return self._node(raw), iter(raw.get("inner", ())), []

    def _node(self, raw: Mapping[str, Any]) -> SyntaxNode:
        """Return a node without its children."""
        location = self._location(raw.get("loc", {}))
        span = raw.get("range", {})
        begin = self._location(span.get("begin", {}))
        self._location(span.get("end", {}))
        file, line = location if raw.get("loc") else begin
        referenced, kind_of = raw.get("referencedDecl", {}), raw.get("type", {})
        return SyntaxNode(
            kind=raw.get("kind", ""),
            name=raw.get("name", ""),
            type=kind_of.get("desugaredQualType", kind_of.get("qualType", "")),
            line=line,
            file=file,
            value=str(raw.get("value", "")),
            opcode=raw.get("opcode", ""),
            referenced=referenced.get("name", ""),
            referenced_kind=referenced.get("kind", ""),
            cast=raw.get("castKind", ""),
            storage=raw.get("storageClass", ""),
            constexpr=bool(raw.get("constexpr", False)),
            implicit=bool(raw.get("implicit", False)) or bool(raw.get("isImplicit", False)),
            children=(),
        )
