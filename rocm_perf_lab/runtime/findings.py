"""Findings of `rocm-perf run --check`, read from files written by the drivers in an application's processes (findings.h).

Adds kernels and source lines, merges equal findings of several processes, and creates the messages for the user.
"""

from __future__ import annotations

import ctypes
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.toolchain.demangle import demangle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rocm_perf_lab.emulator.program import Program
    from rocm_perf_lab.runtime.call_sites import CallSites
    from rocm_perf_lab.runtime.check_jobs import DeviceText
    from rocm_perf_lab.runtime.kernel_store import ServedKernel

CHECKS = {"races": 1, "bounds": 2, "uninitialised": 4, "barriers": 8, "misaligned": 16, "leaks": 32, "host": 64}
"""Names of `--check` with their bits (enum drv_check)."""
_PROTOCOL = 1
_MOST_FINDINGS, _MOST_SITES = 4000, 4
_SITE = re.compile(r"\{(\d)\}")
_SYMBOL = re.compile(r"`(_Z\w+)`")
_ALIGNMENT = 8
_TEXTS = 2 + _MOST_SITES
UNKNOWN_SITE = "an unknown line"
_SAME_DEFECT = {"memory_fault": "out_of_bounds"}
"""Kinds that indicate one defect if kernel and line are equal: a wrong index far from any allocation causes a fault."""


class _Header(ctypes.LittleEndianStructure):
    """struct rpl_findings_header."""

    _fields_ = (
        ("protocol", ctypes.c_uint32),
        ("pid", ctypes.c_uint32),
        ("dropped", ctypes.c_uint64),
        ("counts", ctypes.c_uint64 * _MOST_FINDINGS),
    )


class _Entry(ctypes.LittleEndianStructure):
    """struct rpl_finding_entry."""

    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("bytes", "number", "check", "kernel", "detail_bytes", "reserved")),
        ("offsets", ctypes.c_uint64 * _MOST_SITES),
    )


@dataclass(frozen=True)
class RecordedSite:
    """Return address in the application: a file and the address at link time; no path if unknown."""

    path: str
    offset: int


@dataclass(frozen=True)
class RecordedFinding:
    """Finding in a driver's file."""

    check: str
    kind: str
    message: str
    kernel: int | None
    """Number of the kernel in the translation service."""
    detail: bytes
    sites: tuple[RecordedSite, ...]
    count: int


@dataclass(frozen=True)
class ApplicationFinding:
    """Problem in an application, found by a check."""

    check: str
    kind: str
    message: str
    count: int = 1
    kernel: str | None = None
    source: str | None = None
    """File and line in the kernel."""
    instruction: str | None = None
    call_site: str | None = None
    """File and line of the call in host code; for a kernel, of its launch."""

    def lines(self) -> tuple[str, ...]:
        """Return the text for the user."""
        where = self.source or (self.call_site if self.kernel is None else None)
        head = f"{self.kind.replace('_', ' ')}: {self.message}"
        lines = [head]
        if self.kernel is not None:
            instruction = f", `{self.instruction}`" if self.instruction else ""
            lines.append(f"   at: {f'{where}, ' if where else ''}kernel {self.kernel}{instruction}")
            if self.call_site:
                lines.append(f"   launched at: {self.call_site}")
        elif where:
            lines.append(f"   at: {where}")
        if self.count > 1:
            lines.append(f"   {self.count:,} times")
        return tuple(lines)


def parse_run_checks(text: str) -> int:
    """Return the bits of a list such as `races,bounds`, of `all`, or of `none`.

    Raises:
        LabError: A name is unknown.
    """
    bits = 0
    for name in filter(None, (part.strip() for part in text.split(","))):
        if name == "all":
            bits |= sum(CHECKS.values())
        elif name in CHECKS:
            bits |= CHECKS[name]
        elif name != "none":
            raise LabError(f"unknown check {name!r}", where="--check", hint=f"Use all, or some of: {', '.join(CHECKS)}.")
    return bits


def read_findings(session: Path) -> Iterator[RecordedFinding]:
    """Yield the findings of all processes of a session."""
    for path in sorted(session.glob("findings.*")):
        yield from _read(path.read_bytes())


def _read(content: bytes) -> Iterator[RecordedFinding]:
    if len(content) < ctypes.sizeof(_Header):
        return
    header = _Header.from_buffer_copy(content)
    at, names = ctypes.sizeof(_Header), {bit: name for name, bit in CHECKS.items()}
    while header.protocol == _PROTOCOL and at + ctypes.sizeof(_Entry) <= len(content):
        entry = _Entry.from_buffer_copy(content, at)
        body = content[at + ctypes.sizeof(_Entry) : at + entry.bytes]
        padded = -(-entry.detail_bytes // _ALIGNMENT) * _ALIGNMENT
        texts = [part.decode("utf-8", "replace") for part in body[padded:].split(b"\0", _TEXTS)[:_TEXTS]]
        if at + entry.bytes > len(content) or len(texts) < _TEXTS or entry.number >= _MOST_FINDINGS:
            return  # The process was killed while writing.
        yield RecordedFinding(
            check=names.get(entry.check, "host"),
            kind=texts[0],
            message=texts[1],
            kernel=entry.kernel - 1 if entry.kernel else None,
            detail=body[: entry.detail_bytes],
            sites=tuple(map(RecordedSite, texts[2:], entry.offsets)),
            count=max(1, header.counts[entry.number]),
        )
        at += entry.bytes


def complete_findings(session: Path, kernels: Sequence[ServedKernel], sites: CallSites) -> tuple[ApplicationFinding, ...]:
    """Return the findings of a session with names and lines; findings with equal lines are merged.

    Args:
        session: Directory of the session.
        kernels: Kernels that the service translated.
        sites: Lines of the host's code.
    """
    by_number = {kernel.number: kernel for kernel in kernels}
    merged: dict[tuple[object, ...], ApplicationFinding] = {}
    for recorded in read_findings(session):
        kernel = by_number.get(recorded.kernel) if recorded.kernel is not None else None
        finding, key = _completed(recorded, kernel, sites)
        before = merged.get(key)
        merged[key] = finding if before is None else replace(before, count=before.count + finding.count)
    return tuple(merged.values())


def _completed(
    recorded: RecordedFinding, kernel: ServedKernel | None, sites: CallSites
) -> tuple[ApplicationFinding, tuple[object, ...]]:
    lines = [_shortened(sites.line_of(site.path, site.offset)) for site in recorded.sites]
    message = _SITE.sub(lambda match: lines[int(match[1])] or UNKNOWN_SITE, recorded.message)
    message = _SYMBOL.sub(lambda match: f"`{demangle(match[1])}`", message)
    finding = ApplicationFinding(recorded.check, recorded.kind, message, recorded.count, call_site=lines[0])
    if kernel is None:
        return finding, (recorded.kind, message, lines[0])
    if not recorded.detail:
        source = _kernel_line(kernel) if recorded.check == "races" else None
        return replace(finding, kernel=kernel.facts.name, source=source), (recorded.kind, message, kernel.facts.name, lines[0])
    text = _device_text(recorded, message, kernel)
    places = frozenset((text.source or text.instruction, text.other_source))
    freed = tuple(lines[1:]) if recorded.kind == "use_after_free" else ()  # a defect in host code, possibly at several lines
    return (
        replace(finding, message=text.message, kernel=kernel.facts.name, source=text.source, instruction=text.instruction),
        (_SAME_DEFECT.get(recorded.kind, recorded.kind), kernel.facts.name, places, freed),
    )


def _kernel_line(kernel: ServedKernel) -> str | None:
    """Return the line at which a kernel begins."""
    program, line_of = _code_of(kernel)
    return next((line for one in program.instructions if (line := line_of(one.address)) is not None), None)


def _code_of(kernel: ServedKernel) -> tuple[Program, Callable[[int], str | None]]:
    """Return the instructions of a kernel, and the function that returns the line of an address; None for unknown lines."""
    from rocm_perf_lab.runtime.translation_jobs import decoded, source_lines_of

    described, program = decoded(kernel.image, kernel.architecture, kernel.facts.unsupported)
    known = source_lines_of(described)
    return program, lambda address: _shortened(known(address)) if known is not None else None


def _device_text(recorded: RecordedFinding, place: str, kernel: ServedKernel) -> DeviceText:
    from rocm_perf_lab.runtime.check_jobs import describe_finding

    program, line_of = _code_of(kernel)
    return describe_finding(recorded.kind, place, recorded.detail, program, line_of)


def _shortened(place: str | None) -> str | None:
    """Return a location with a normalised path, relative if the file is below the current directory."""
    file, colon, line = (place or "").rpartition(":")
    if not file or not line.isdigit():
        return place
    path = Path(os.path.normpath(file))
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return f"{path}{colon}{line}"
