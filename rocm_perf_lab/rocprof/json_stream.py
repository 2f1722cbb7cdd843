"""A large JSON document read once from its beginning to its end, in as much memory as its largest value takes.

Objects and arrays are entered (`members`, `entries`, `values`), what they hold is decoded whole (`value`) or left out (`skip`).
Forgiving where rocprofv3 is careless: names of kernels may hold bytes that are no UTF-8 and control characters, and values
of counters may be NaN or Infinity, which RapidJSON writes and JSON does not know.
"""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.rocprof.dialects import DatabaseError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

_CHARACTERS_AT_ONCE = 1 << 20
_SPACE = re.compile(r"[ \t\r\n]*")
_LONGEST_WORD = 16
"""No number or word of JSON that matters is longer: an error further from the end of what was read is one."""
_DAMAGED = "the JSON is damaged or cut short"


class JsonError(DatabaseError):
    """A file that cannot be read as JSON output of rocprofv3."""


class JsonStream:
    """The values of one document, in their order. What is entered has to be consumed before one goes on."""

    def __init__(self, source: BinaryIO, path: Path) -> None:
        self._source = io.TextIOWrapper(source, encoding="utf-8-sig", errors="replace", newline="")
        self._path = path
        self._decoder = json.JSONDecoder(strict=False)
        self._text = ""
        self._at = 0
        self._passed = 0
        self._ended = False

    def peek(self) -> str:
        """The next character that is no space; empty at the end."""
        while True:
            space = _SPACE.match(self._text, self._at)
            self._at = space.end() if space else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if self._ended:
                return ""
            self._read_on()

    def members(self) -> Iterator[str]:
        """The keys of the object that comes next. After each, its value has to be consumed.

        Raises:
            JsonError: There is no object, or it is damaged.
        """
        for _ in self._inside("{", "}"):
            key = self.value()
            if not isinstance(key, str):
                raise self._error("a key is no text")
            self._expect(":")
            yield key

    def entries(self) -> Iterator[None]:
        """The entries of the array that comes next, each to be consumed.

        Raises:
            JsonError: There is no array, or it is damaged.
        """
        yield from self._inside("[", "]")

    def values(self) -> Iterator[Any]:
        """The values of the array that comes next; of `null` none.

        Raises:
            JsonError: There is no array, or it is damaged.
        """
        if self.peek() == "n":
            self.value()
            return
        for _ in self._inside("[", "]"):
            yield self.value()

    def value(self) -> Any:
        """The value that comes next, whole.

        Raises:
            JsonError: It is damaged, or there is none.
        """
        self.peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except (ValueError, RecursionError) as error:
                if self._ended or not self._may_be_cut(error):
                    raise self._error(error) from error
                self._read_on()
                continue
            # A number near the end of what was read may go on: 1 of 1.5, or of 1e-9.
            if end + _LONGEST_WORD < len(self._text) or self._ended:
                self._at = end
                return value
            self._read_on()

    def skip(self) -> None:
        """Leave out the value that comes next."""
        following = self.peek()
        if following == "[":
            for _ in self.values():
                pass
        elif following == "{":
            for _ in self.members():
                self.skip()
        else:
            self.value()

    def _inside(self, begin: str, end: str) -> Iterator[None]:
        self._expect(begin)
        if self.peek() == end:
            self._at += 1
            return
        while True:
            yield
            following = self.peek()
            self._at += 1
            if following == end:
                return
            if following != ",":
                self._at -= 1
                raise self._error(f"{following or 'the end'} where , or {end} should be")

    def _expect(self, character: str) -> None:
        following = self.peek()
        if following != character:
            raise self._error(f"{following or 'the end'} where {character} should be")
        self._at += 1

    def _read_on(self) -> None:
        """At least as much again as is there, so that a large value is not tried too often."""
        rest = self._text[self._at :]
        more = self._source.read(max(_CHARACTERS_AT_ONCE, len(rest)))
        self._passed += self._at
        self._text, self._at, self._ended = rest + more, 0, not more

    def _may_be_cut(self, error: Exception) -> bool:
        if not isinstance(error, json.JSONDecodeError):
            return False
        return error.msg.startswith("Unterminated string") or error.pos > len(self._text) - _LONGEST_WORD

    def _error(self, why: object) -> JsonError:
        place = why.pos if isinstance(why, json.JSONDecodeError) else self._at
        what = why.msg if isinstance(why, json.JSONDecodeError) else str(why)
        return JsonError(
            f"{_DAMAGED}: {what[:80]}, at character {self._passed + place}",
            where=str(self._path),
            hint="copy it again, or collect it again",
        )
