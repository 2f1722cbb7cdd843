"""Output of the preprocessor: which lines are the user's, and which line of which file each of them comes from."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rocm_perf_lab.toolchain.host_repairs import HostRepair

_MARKER = re.compile(r'^# (?P<line>\d+) "(?P<file>(?:\\.|[^"\\])*)"(?P<flags>(?: \d)*)$', re.MULTILINE)
_SYSTEM_HEADER = "3"


@dataclass(frozen=True)
class _Segment:
    """Text between two line markers; `first_line` counts lines of the whole output from 1."""

    marker: str
    text: str
    file: str
    line: int
    first_line: int
    is_user: bool


class PreprocessedText:
    """Preprocessed source whose host code can be edited; edits keep every line where it is."""

    def __init__(self, segments: tuple[_Segment, ...]) -> None:
        self._segments = segments
        self._lines = [segment.first_line for segment in segments]
        self._user = [segment for segment in segments if segment.is_user]
        self._offsets = list(accumulate((len(segment.text) for segment in self._user), initial=0))

    @classmethod
    def parse(cls, output: str) -> PreprocessedText:
        """Return the text of a preprocessor's output with line markers."""
        return cls(tuple(_segments(output)))

    @property
    def output(self) -> str:
        """The whole text, for the compiler."""
        return "".join(segment.marker + segment.text for segment in self._segments)

    def split(self) -> tuple[str, str]:
        """Return the system headers before the user's first declaration, and the rest after as many empty lines."""
        first = next(
            (i for i, segment in enumerate(self._segments) if segment.is_user and segment.text.strip()), len(self._segments)
        )
        leading = "".join(segment.marker + segment.text for segment in self._segments[:first])
        rest = "".join(segment.marker + segment.text for segment in self._segments[first:])
        return leading, "\n" * leading.count("\n") + rest

    @property
    def user_text(self) -> str:
        """The text of the source and of headers that are not system headers, without line markers."""
        return "".join(segment.text for segment in self._user)

    def user_offset(self, line: int, column: int) -> int | None:
        """Return the offset in `user_text` of a line and column of the output; None in a system header."""
        segment = self._segment(line)
        if segment is None or not segment.is_user:
            return None
        lines = segment.text.split("\n")
        before = sum(len(text) + 1 for text in lines[: line - segment.first_line])
        start = self._offsets[next(i for i, user in enumerate(self._user) if user is segment)]
        return min(start + before + column - 1, start + len(segment.text))

    def origin(self, line: int) -> str:
        """Return file and line that a line of the output comes from, as `file:line`."""
        segment = self._segment(line)
        return f"{segment.file}:{segment.line + line - segment.first_line}" if segment is not None else "?"

    def edited(self, repairs: Iterable[HostRepair]) -> PreprocessedText:
        """Return the text after replacements of ranges of `user_text` that do not overlap."""
        changed = {id(segment): segment.text for segment in self._user}
        for repair in sorted(repairs, key=lambda repair: -repair.start):
            replacement = repair.replacement
            for segment, start in zip(self._user, self._offsets, strict=False):
                first, last = max(repair.start - start, 0), min(repair.end - start, len(segment.text))
                if first > last or (first == last and repair.start != repair.end) or first > len(segment.text):
                    continue
                text = changed[id(segment)]
                changed[id(segment)] = text[:first] + replacement + "\n" * text[first:last].count("\n") + text[last:]
                replacement = ""
        return PreprocessedText(
            tuple(_Segment(s.marker, changed.get(id(s), s.text), s.file, s.line, s.first_line, s.is_user) for s in self._segments)
        )

    def _segment(self, line: int) -> _Segment | None:
        index = bisect_right(self._lines, line) - 1
        return self._segments[index] if index >= 0 else None


def _segments(output: str) -> Iterator[_Segment]:
    markers = list(_MARKER.finditer(output))
    line = 1
    for marker, following in zip(markers, [*markers[1:], None], strict=True):
        begin = marker.end() + 1
        text = output[begin : following.start() if following else len(output)]
        file = re.sub(r"\\(.)", r"\1", marker["file"])
        is_user = _SYSTEM_HEADER not in marker["flags"].split() and not file.startswith("<")
        yield _Segment(output[marker.start() : begin], text, file, int(marker["line"]), line + 1, is_user)
        line += 1 + text.count("\n")
