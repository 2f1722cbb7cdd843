"""Resolution of ids in rows of a rocpd database to positions and texts.

Ids are unique within one process only, so lookups use guid and id. Ids may be sparse and unsorted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.rocprof.dialects import DatabaseError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from rocm_perf_lab.rocprof.columns import Tables

    Integers = NDArray[np.int64]

UNKNOWN = -1
"""Result of a reference to nothing."""
_NONE = np.empty(0, np.int64)


class Index:
    """Position in the trace of each row of a small table, by (guid, id)."""

    def __init__(self, path: Path, keys: Sequence[tuple[str, int]]) -> None:
        self._path = path
        self._of_guid: dict[str, tuple[Integers, Integers]] = {}
        rows: dict[str, list[tuple[int, int]]] = {}
        for position, (guid, row_id) in enumerate(keys):
            rows.setdefault(guid, []).append((row_id, position))
        for guid, pairs in rows.items():
            table = np.array(sorted(pairs), np.int64)
            self._of_guid[guid] = (table[:, 0].copy(), table[:, 1].copy())

    def find(self, guid: str, ids: Integers, *, optional: bool = False) -> Integers:
        """Return the positions of `ids`; a missing id is an error, or -1 if `optional`.

        Raises:
            DatabaseError: An id is missing.
        """
        found = looked_up(*self._of_guid.get(guid, (_NONE, _NONE)), ids)
        if not optional and (found == UNKNOWN).any():
            row_id = int(ids[found == UNKNOWN][0])
            raise DatabaseError(
                f"the rocpd database is inconsistent: row {row_id} of process {guid} is referenced but missing",
                where=str(self._path),
                hint="collect it again",
            )
        return found

    def find_one(self, guid: str, row_id: int) -> int:
        """Return the position of one row.

        Raises:
            DatabaseError: The row is missing.
        """
        return int(self.find(guid, np.array([row_id], np.int64))[0])


class Names:
    """Numbers of the texts that rows refer to, over all processes."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._number: dict[str, int] = {}

    @property
    def texts(self) -> tuple[str, ...]:
        """Text of each number."""
        return tuple(self._number)

    def number(self, guid: str, ids: Integers) -> Integers:
        """Return a number for each string id of a process; a missing string is the empty text."""
        used, at = np.unique(ids, return_inverse=True)
        texts = [self._tables.text("rocpd_string", "string", guid, string_id) for string_id in used.tolist()]
        return np.array([self.number_of(text) for text in texts], np.int64)[at.ravel()]

    def number_of(self, text: str) -> int:
        """Return the number of a text."""
        return self._number.setdefault(text, len(self._number))


def looked_up(ids: Integers, values: Integers, wanted: Integers) -> Integers:
    """Return the value of each wanted id (`ids` sorted), or -1 if it is missing."""
    if len(ids) == 0:
        return np.full(len(wanted), UNKNOWN, np.int64)
    if int(ids[-1]) - int(ids[0]) == len(ids) - 1:  # without gaps, as autoincremented ids are
        at = np.clip(wanted - ids[0], 0, len(ids) - 1)
    else:
        at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    return np.where(ids[at] == wanted, values[at], UNKNOWN)
