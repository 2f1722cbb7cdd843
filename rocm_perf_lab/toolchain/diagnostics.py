"""Compiler output without anything outside the candidate: `redacted(log, source) -> str`.

Compilers quote the files that they read, and name their paths. The output for a candidate is stored and may be sent to a model:
only diagnostics in the candidate keep their source lines. Those in headers keep file name, line and message; others are
replaced by one line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_DIAGNOSTIC = re.compile(
    r"(?P<file>(?:<[\w ]+>|[^\s:<>][^:\n]*)):(?P<line>\d+):(?P<column>\d+): "
    r"(?P<kind>fatal error|error|warning|note|remark): (?P<text>.*)"
)
_SNIPPET = re.compile(r"\s*\d*\s*\| ?.*|[ \t]+[\^~].*|\s+")
_TOOL = re.compile(
    r"(?:ld\.lld|lld|clang[\w+.-]*|zig|error|fatal error|warning)(?:: (?:error|warning|fatal error))?: (?P<text>.*)"
)
_COUNT = re.compile(r"\d+ (?:error|warning)s?(?: and \d+ (?:error|warning)s?)? generated.*")
_PATH = re.compile(r"(?<![\w.)\]])(?:~|\.{1,2})?(?:/[^\s/:'\"`,;()<>|]+)+/?")
_HEADER_DIRECTORIES = re.compile(r"/(?:include|headers|clang/\d+|libcxx)(?:/|$)|hip/")
_LEFT_OUT = "[output about files outside the source was omitted]"


def redacted(log: str, source: Path) -> str:
    """Return a log with the diagnostics of a source and of headers, without paths and contents of other files.

    Args:
        log: Compiler output.
        source: The candidate; clang may name it by path or relative to its directory.
    """
    lines = list(_kept(log.splitlines(), source))
    once = [line for index, line in enumerate(lines) if line != _LEFT_OUT or _LEFT_OUT not in lines[:index]]
    return "\n".join(once) + ("\n" if once else "")


def _kept(lines: list[str], source: Path) -> Iterator[str]:
    names = {source.name, str(source), str(source.absolute()), f"./{source.name}", f"/{source.name}"}
    is_own = False
    for line in lines:
        diagnostic = _DIAGNOSTIC.fullmatch(line)
        if diagnostic is not None:
            is_own = diagnostic["file"] in names
            yield _diagnostic(diagnostic, source, is_own=is_own)
        elif is_own and _SNIPPET.fullmatch(line):
            yield line
        elif _COUNT.fullmatch(line):
            is_own = False
            yield line
        elif not _SNIPPET.fullmatch(line) and not line.startswith(("In file included from", "                 from")):
            is_own = False
            tool = _TOOL.fullmatch(line)
            yield without_paths(line, source) if tool is not None else _LEFT_OUT


def _diagnostic(found: re.Match[str], source: Path, *, is_own: bool) -> str:
    if is_own:
        place = f"{source.name}:{found['line']}:{found['column']}"
    elif found["file"].startswith("<") or _HEADER_DIRECTORIES.search(found["file"]):
        place = f"{found['file'].rpartition('/')[2]}:{found['line']}:{found['column']}"
    else:
        return _LEFT_OUT
    return f"{place}: {found['kind']}: {without_paths(found['text'], source)}"


def without_paths(text: str, source: Path) -> str:
    """Return a message with the last component of each path only."""
    text = text.replace(f"{source.parent}/", "") if str(source.parent) not in (".", "/") else text
    return _PATH.sub(lambda match: match[0].rstrip("/").rpartition("/")[2], text)
