"""Removal of host code that does not compile: `without_host_errors(text, check) -> HostCodeRemoval`.

A compilation for the GPU parses the host functions of a source, although it emits none of them. An error in them, such as a call
of a library that is not installed, must not hide the kernels: the erroneous parts are edited away until only errors in device
code remain. Kernel launches are kept, because they instantiate templates.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.toolchain.cpp_structure import CppStructure, UnbalancedBrackets
from rocm_perf_lab.toolchain.host_repairs import host_repairs, is_in_body

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rocm_perf_lab.toolchain.host_repairs import HostRepair
    from rocm_perf_lab.toolchain.preprocessed import PreprocessedText

_MOST_ROUNDS = 24
_DIAGNOSTIC = re.compile(
    r"^\S[^\n]*?:(?P<line>\d+):(?P<column>\d+): (?P<kind>(?:fatal )?error|warning|note): (?P<text>.*)$", re.MULTILINE
)
_REQUESTS = ("requested here", "in instantiation of", "in call to", "in evaluation of", "while substituting")
_DEVICE_ONLY_PRAGMA = "force_cuda_host_device"


@dataclass(frozen=True)
class HostError:
    """An error in host code: its place in the user's file and the message of the compiler."""

    place: str
    message: str
    in_function: bool = True


@dataclass(frozen=True)
class HostCodeRemoval:
    """A text without errors in host code, and the errors that were in it."""

    text: PreprocessedText
    errors: tuple[HostError, ...]
    changed_classes: frozenset[str] = frozenset()
    """Classes whose layout differs from that in the source."""

    @property
    def declarations(self) -> tuple[HostError, ...]:
        """Errors in declarations, which device code may use, and not only in the body of a host function."""
        return tuple(error for error in self.errors if not error.in_function)

    @property
    def note(self) -> str | None:
        """Message for the user; None if nothing was removed."""
        if not self.errors:
            return None
        lines = dict.fromkeys(error.place for error in self.errors)
        first = self.errors[0]
        also = f" and {len(lines) - 1} other {'line' if len(lines) == 2 else 'lines'}" if len(lines) > 1 else ""
        return f"host code that does not compile was omitted, device code is unchanged: {first.place} ({first.message}){also}"


@dataclass(frozen=True)
class _Found:
    """An error with the position in the user's text that causes it."""

    line: int
    offset: int
    message: str


def without_host_errors(text: PreprocessedText, check: Callable[[PreprocessedText], str]) -> HostCodeRemoval:
    """Return the text after removal of the host code that does not compile.

    Args:
        text: Preprocessed source.
        check: Compiles a text and returns the diagnostics, with lines of the text itself.
    """
    errors: list[HostError] = []
    classes: set[str] = set()
    for _ in range(_MOST_ROUNDS):
        if _DEVICE_ONLY_PRAGMA in text.user_text:
            break
        try:
            structure = CppStructure.of(text.user_text)
        except UnbalancedBrackets:
            break
        chosen: list[HostRepair] = []
        for found in _errors(check(text), text):
            index = structure.token_at(found.offset)
            repairs = host_repairs(structure, index) if index is not None else ()
            if index is not None and repairs:
                chosen.append(repairs[0])
                in_function = is_in_body(structure, index)
                errors.append(HostError(text.origin(found.line), found.message, in_function))
        if not chosen:
            break
        applied = _largest(chosen)
        classes.update(name for repair in applied for name in repair.changed_classes)
        text = text.edited(applied)
    return HostCodeRemoval(text, tuple(errors), frozenset(classes))


def _largest(repairs: Iterable[HostRepair]) -> list[HostRepair]:
    """Return repairs that do not overlap; of those that do, the larger ones."""
    kept: list[HostRepair] = []
    for repair in sorted(set(repairs), key=lambda repair: repair.start - repair.end):
        if all(repair.end <= other.start or other.end <= repair.start for other in kept):
            kept.append(repair)
    return kept


def _errors(log: str, text: PreprocessedText) -> list[_Found]:
    """Return the errors of a log that are in the user's text, or in a template that it instantiates."""
    found: list[_Found] = []
    pending: str | None = None
    for match in _DIAGNOSTIC.finditer(log):
        is_error = match["kind"].endswith("error")
        if match["kind"] != "note":
            pending = match["text"] if is_error else None
        if pending is None or (not is_error and not any(request in match["text"] for request in _REQUESTS)):
            continue
        offset = text.user_offset(int(match["line"]), int(match["column"]))
        if offset is not None:
            found.append(_Found(int(match["line"]), offset, pending))
            pending = None
    return found
