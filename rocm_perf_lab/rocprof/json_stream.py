"""Streaming reader for a large JSON document, in as much memory as its largest value needs.

Objects and arrays are entered (`members`, `entries`, `values`); their values are decoded whole (`value`) or skipped (`skip`).
The reader tolerates deviations of rocprofv3: kernel names may contain invalid UTF-8 and control characters, and counters may
be NaN or Infinity, which RapidJSON writes although JSON does not define them.
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
"""Upper bound of the length of numbers and literals: an error further from the end of the buffer is a real error."""
_DAMAGED = "the JSON is damaged or truncated"


class JsonError(DatabaseError):
    """A file that cannot be read as JSON output of rocprofv3."""


class JsonStream:
    """Values of one document, in order. A value that was entered must be consumed before the next one."""

    def __init__(self, source: BinaryIO, path: Path) -> None:
        self._source = io.TextIOWrapper(source, encoding="utf-8-sig", errors="replace", newline="")
        self._path = path
        self._decoder = json.JSONDecoder(strict=False)
        self._text = ""
        self._at = 0
        self._passed = 0
        self._ended = False

    def peek(self) -> str:
        """Return the next non-space character; empty at the end."""
        while True:
            space = _SPACE.match(self._text, self._at)
            self._at = space.end() if space else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if self._ended:
                return ""
            self._read_on()

    def members(self) -> Iterator[str]:
        """Yield the keys of the next object. After each key its value must be consumed.

        Raises:
            JsonError: The next value is not an object, or is damaged.
        """
        for _ in self._inside("{", "}"):
            key = self.value()
            if not isinstance(key, str):
                raise self._error("a key is not text")
            self._expect(":")
            yield key

    def entries(self) -> Iterator[None]:
        """Yield once per entry of the next array; each entry must be consumed.

        Raises:
            JsonError: The next value is not an array, or is damaged.
        """
        yield from self._inside("[", "]")

    def values(self) -> Iterator[Any]:
        """Yield the values of the next array; nothing for `null`.

        Raises:
            JsonError: The next value is not an array, or is damaged.
        """
        if self.peek() == "n":
            self.value()
            return
        for _ in self._inside("[", "]"):
            yield self.value()

    def value(self) -> Any:
        """Return the next value, decoded whole.

        Raises:
            JsonError: The value is missing or damaged.
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
            # A number near the end of the buffer may continue: 1 of 1.5, or of 1e-9.
            if end + _LONGEST_WORD < len(self._text) or self._ended:
                self._at = end
                return value
            self._read_on()

    def skip(self) -> None:
        """Skip the next value."""
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
                raise self._error(f"{following or 'the end'} instead of , or {end}")

    def _expect(self, character: str) -> None:
        following = self.peek()
        if following != character:
            raise self._error(f"{following or 'the end'} instead of {character}")
        self._at += 1

    def _read_on(self) -> None:
        """Double the buffer at least, so that a large value is not parsed too often."""
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
