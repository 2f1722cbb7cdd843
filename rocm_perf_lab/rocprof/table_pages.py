"""Columns of an SQLite table as arrays, decoded from the pages of the file: no Python object per value.

The driver makes an object of every value, 3 s for the dispatches of a large trace; this takes a tenth. Takes the bytes of
a database file and the root page of a rowid table, gives columns. It decodes the common case of the documented file format
(https://www.sqlite.org/fileformat2.html) and raises :class:`Irregular` for anything else: then ask SQLite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]
    Integers = NDArray[np.int64]

_TABLE_INTERIOR, _TABLE_LEAF = 5, 13
_PAGES_AT_ONCE = 128
"""Their rows, decoded, stay in a core's cache."""
_MAX_DEPTH = 12
_ROLLBACK_JOURNAL = 1
_OVERREAD = 64
"""Bytes after the last page, so that a value may be read as eight bytes wherever it lies."""

_NULL, _REAL, _ZERO, _ONE, _FIRST_TEXT = 0, 7, 8, 9, 13
_BODY_BYTES = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0, *((t - 12) // 2 for t in range(12, 128))], np.int64)
"""Serial type of one byte -> bytes of its value."""
_SHIFT = np.array([0, 56, 48, 40, 32, 16, *[0] * 122], np.int64)
"""Serial type of an integer -> bits that eight bytes read from its place hold too many."""


class Irregular(Exception):
    """Pages that this module does not decode."""


class Pages:
    """The pages of one database file that nobody writes to."""

    def __init__(self, content: Bytes) -> None:
        header = content[:100].tobytes()
        size = int.from_bytes(header[16:18])
        self._page_bytes = 65536 if size == 1 else size
        self._usable_bytes = self._page_bytes - header[20]
        if len(header) < 100 or self._page_bytes < 512 or len(content) % self._page_bytes:
            raise Irregular("not a whole number of pages")
        if header[18] != _ROLLBACK_JOURNAL or int.from_bytes(header[56:60]) != 1:
            raise Irregular("a write-ahead log, or text that is not UTF-8")
        self._pages = content.reshape(-1, self._page_bytes)

    def read(
        self, root: int, columns: Mapping[int, type[int] | type[float]], *, key: int | None, constant: int
    ) -> tuple[dict[int, NDArray[Any]], bytes | None]:
        """Columns of a table, by position, and the text of one column that is the same in all rows.

        Args:
            root: Root page of the table.
            columns: Position -> type. Null is the least integer, or not a number.
            key: Position of the INTEGER PRIMARY KEY, which is stored as the row's id.
            constant: Position of the text column; None is given for a table without rows.
        """
        text: bytes | None = None
        leaves = self._leaves(root) - 1
        count = int((self._pages[leaves, 3].astype(np.int64) << 8 | self._pages[leaves, 4]).sum())
        # Filled in place: of a large table every further copy costs more than the decoding.
        found: dict[int, NDArray[Any]] = {
            position: np.empty(count, np.int64 if kind is int else np.float64) for position, kind in columns.items()
        }
        filled = 0
        try:
            for at in range(0, len(leaves), _PAGES_AT_ONCE):
                chunk = _Rows(self._pages[leaves[at : at + _PAGES_AT_ONCE]], self._usable_bytes)
                for position, values in chunk.columns(columns, key=key, constant=constant):
                    found[position][filled : filled + len(chunk)] = values
                filled += len(chunk)
                if chunk.text is not None and text is not None and chunk.text != text:
                    raise Irregular("several texts in a column of one")
                text = chunk.text if text is None else text
        except IndexError as error:
            raise Irregular(f"a value outside of its page: {error}") from error
        return found, text

    def _leaves(self, root: int) -> Integers:
        """Numbers of the table's leaf pages, in order of row ids."""
        level = np.array([root], np.int64)
        for _ in range(_MAX_DEPTH):
            if level.min() < 2 or level.max() > len(self._pages):
                raise Irregular("a page outside of the file")
            kinds = self._pages[level - 1, 0]
            if np.all(kinds == _TABLE_LEAF):
                return level
            if not np.all(kinds == _TABLE_INTERIOR):
                raise Irregular("not the tree of a rowid table")
            level = np.concatenate([self._children(int(page)) for page in level])
        raise Irregular("the tree is too deep")

    def _children(self, page: int) -> Integers:
        content = self._pages[page - 1]
        count = int.from_bytes(content[3:5].tobytes())
        cells = content[12 : 12 + 2 * count].view(">u2").astype(np.int64)
        if len(cells) != count or (count and int(cells.max()) + 4 > self._page_bytes):
            raise Irregular("a cell outside of its page")
        children = [content[cells + byte].astype(np.int64) << (24 - 8 * byte) for byte in range(4)]
        return np.append(sum(children[1:], children[0]), int.from_bytes(content[8:12].tobytes()))


class _Rows:
    """The rows of some leaf pages."""

    def __init__(self, pages: Bytes, usable_bytes: int) -> None:
        count_of_page = pages[:, 3].astype(np.int64) << 8 | pages[:, 4]
        page_bytes = pages.shape[1]
        if 8 + 2 * int(count_of_page.max()) > page_bytes:
            raise Irregular("more cells than a page can hold")
        self._bytes = np.concatenate([pages.reshape(-1), np.zeros(_OVERREAD, np.uint8)])
        self._words: NDArray[Any] = np.ndarray((len(self._bytes) - 7,), ">i8", self._bytes, strides=(1,))
        first = np.cumsum(count_of_page) - count_of_page
        page = np.repeat(np.arange(len(pages)) * page_bytes, count_of_page)
        pointer = page + 8 + 2 * (np.arange(len(page)) - np.repeat(first, count_of_page))
        cell = page + (self._bytes[pointer].astype(np.int64) << 8 | self._bytes[pointer + 1])
        payload_bytes, at = self._varint(cell)
        self._rowid, self._header = self._varint(at)
        if len(page) and int(payload_bytes.max()) > usable_bytes - 35:
            raise Irregular("a row with overflow pages")
        self.text: bytes | None = None

    def __len__(self) -> int:
        return len(self._header)

    def columns(
        self, wanted: Mapping[int, type[int] | type[float]], *, key: int | None, constant: int
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """Position and values of each wanted column; sets `text`."""
        if len(self._header) == 0:
            return
        header_bytes = self._bytes[self._header].astype(np.int64)
        last = max([*wanted, constant])
        if int(header_bytes.min()) < last + 2 or int(header_bytes.max()) > 127:
            raise Irregular("a row with fewer columns than the table, or with very many")
        at = self._header + header_bytes
        for position in range(last + 1):
            kind = self._bytes[self._header + 1 + position]
            low, high = int(kind.min()), int(kind.max())
            if high > 127:
                raise Irregular("a long text before the last wanted column")
            if position == constant:
                self.text = self._one_text(at, low, high)
            if position in wanted:
                if position == key:
                    yield position, self._rowid
                elif wanted[position] is float:
                    yield position, self._reals(at, kind, low, high)
                else:
                    yield position, self._integers(at, kind, low, high)
            at = at + (_BODY_BYTES[low] if low == high else _BODY_BYTES[kind])

    def _varint(self, at: Integers) -> tuple[Integers, Integers]:
        """The values there, and where each ends."""
        byte = self._bytes[at]
        value = (byte & 0x7F).astype(np.int64)
        at = at + 1
        more = byte > 127
        for _ in range(7):
            if not more.any():
                return value, at
            byte = self._bytes[at]
            value = np.where(more, value << 7 | (byte & 0x7F), value)
            at = at + more
            more = more & (byte > 127)
        raise Irregular("a negative row id")

    def _one_text(self, at: Integers, low: int, high: int) -> bytes:
        if low != high or low < _FIRST_TEXT or low % 2 == 0:
            raise Irregular("not one text in all rows")
        size = int(_BODY_BYTES[low])
        if size == 0 or int(at.max()) + size > len(self._bytes):
            raise Irregular("an empty text, or one outside of its page")
        texts: NDArray[Any] = np.ndarray((len(self._bytes) - size + 1,), f"V{size}", self._bytes, strides=(1,))
        found = texts[at]
        if not np.all(found == found[0]):
            raise Irregular("not one text in all rows")
        return bytes(found[0].tobytes())

    def _integers(self, at: Integers, kind: Bytes, low: int, high: int) -> Integers:
        if high > _ONE or np.any(kind == _REAL):
            raise Irregular("not a whole number")
        if low == high == _NULL:
            return np.full(len(at), np.iinfo(np.int64).min)
        if low == high and low in (_ZERO, _ONE):
            return np.full(len(at), low - _ZERO, np.int64)
        values: Integers = self._words[at].astype(np.int64) >> (_SHIFT[low] if low == high else _SHIFT[kind])
        if high >= _ZERO:
            values[kind == _ZERO], values[kind == _ONE] = 0, 1
        if low == _NULL:
            values[kind == _NULL] = np.iinfo(np.int64).min
        return values

    def _reals(self, at: Integers, kind: Bytes, low: int, high: int) -> NDArray[np.float64]:
        if high > _ONE:
            raise Irregular("not a number")
        words = self._words[at].astype(np.int64)
        if low == high == _REAL:
            return words.view(np.float64)
        values = (words >> _SHIFT[kind]).astype(np.float64)
        real = kind == _REAL
        values[real] = words[real].view(np.float64)
        values[kind == _ZERO], values[kind == _ONE], values[kind == _NULL] = 0.0, 1.0, np.nan
        return values


def positions(declared: Sequence[str], names: Sequence[str]) -> list[int]:
    """Where each name stands among the declared columns.

    Raises:
        Irregular: A name is not declared.
    """
    if not set(names) <= set(declared):
        raise Irregular("a column that is not there")
    return [declared.index(name) for name in names]
