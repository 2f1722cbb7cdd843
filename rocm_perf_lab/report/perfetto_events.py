"""Events of a Perfetto trace, encoded in bulk: a million events in less than a second.

Events of one kind with details of equal length and equally many arrows have the same layout, because numbers have a fixed width:
a varint may be longer than necessary. They are encoded as rows of a matrix and then sorted by time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.report.protobuf import Message, padded_varints, varint_width

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Bytes = NDArray[np.uint8]

BEGIN, END, COUNTER = 1, 2, 4
NO_FLOW = -1
_PACKET, _TIME, _EVENT = b"\x0a", b"\x40", b"\x5a"
_SEQUENCE_AND_FLAGS = b"\x50\x01\x68\x02"
"""Packet sequence 1, which depends on its interned names."""
_NAME, _FLOW, _VALUE, _ANNOTATION = b"\x50", b"\xf9\x02", b"\xe1\x02", b"\x22"
_ROWS_AT_ONCE = 1 << 14
_LENGTH_BYTES = 2
"""Width of length fields in bytes; two bytes encode lengths up to 16,383."""


@dataclass(frozen=True, eq=False)
class Events:
    """Events of one track, in order of time; all arrays have one entry per event.

    `detail` indexes `details`, encoded annotations. `flows` has shape (n, columns): ids of arrows, or NO_FLOW. `numbers` are
    further annotations of begins, by name; `value` is the value of counters.
    """

    track: int
    kind: Integers
    time: Integers
    name: Integers
    detail: Integers
    details: Sequence[bytes] = (b"",)
    flows: Integers = field(default_factory=lambda: np.empty((0, 0), np.int64))
    numbers: Mapping[str, Integers] = field(default_factory=dict)
    value: NDArray[np.float64] | None = None


def slices(
    track: int,
    start: Integers,
    end: Integers,
    name: Integers,
    *,
    detail: Integers | None = None,
    details: Sequence[bytes] = (b"",),
    flows: Integers | None = None,
    numbers: Mapping[str, Integers] | None = None,
) -> Events:
    """Return the events of slices that do not overlap: begin and end alternate."""
    count = len(start)
    twice = np.repeat(np.arange(count), 2)
    return Events(
        track,
        kind=np.tile(np.array([BEGIN, END], np.int64), count),
        time=np.stack([start, end], axis=1).ravel(),
        name=name[twice],
        detail=(detail if detail is not None else np.zeros(count, np.int64))[twice],
        details=details,
        flows=(flows if flows is not None else np.empty((count, 0), np.int64))[twice],
        numbers={key: values[twice] for key, values in (numbers or {}).items()},
    )


def encoded(events: Events) -> bytes:
    """Return the packets of the events, in their order."""
    if not len(events.kind):
        return b""
    layout = _Layout.of(events)
    shape = np.where(events.kind == BEGIN, 8 + layout.arrows + (layout.sizes[events.detail] << 4), events.kind)
    order = np.argsort(shape, kind="stable")
    bounds = np.flatnonzero(np.diff(shape[order], prepend=-1))
    lengths = np.zeros(len(shape), np.int64)
    parts: list[tuple[Integers, Bytes]] = []
    for rows in np.split(order, bounds[1:]):
        for at in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[at : at + _ROWS_AT_ONCE]
            matrix = _matrix(events, some, layout)
            lengths[some] = matrix.shape[1]
            parts.append((some, matrix))
    offsets = np.cumsum(lengths) - lengths
    target = np.empty(int(lengths.sum()), np.uint8)
    for rows, matrix in parts:
        target[offsets[rows][:, None] + np.arange(matrix.shape[1])] = matrix
    return target.tobytes()


@dataclass(frozen=True, eq=False)
class _Layout:
    """Bytes of the numbers, equal for all events of a track, and of each detail; number of arrows of each event."""

    time: int
    name: int
    numbers: Mapping[str, int]
    sizes: Integers
    offsets: Integers
    joined: Bytes
    """All details one after the other, beginning at `offsets`."""
    arrows: Integers

    @classmethod
    def of(cls, events: Events) -> _Layout:
        sizes = np.array([len(detail) for detail in events.details], np.int64)
        return cls(
            varint_width(events.time),
            varint_width(events.name),
            {key: varint_width(values) for key, values in events.numbers.items()},
            sizes,
            np.cumsum(sizes) - sizes,
            np.frombuffer(b"".join(events.details), np.uint8),
            (events.flows != NO_FLOW).sum(axis=1) if events.flows.size else np.zeros(len(events.kind), np.int64),
        )


def _matrix(events: Events, rows: Integers, layout: _Layout) -> Bytes:
    """Return the packets of events of equal layout, shape (n_rows, n_bytes)."""
    columns = list(_event_columns(events, rows, layout))
    event = [_constant(_EVENT), _length(columns), *columns]
    packet = [_constant(_TIME), padded_varints(events.time[rows], layout.time), _constant(_SEQUENCE_AND_FLAGS), *event]
    whole = [_constant(_PACKET), _length(packet), *packet]
    return np.concatenate([np.broadcast_to(column, (len(rows), column.shape[1])) for column in whole], axis=1)


def _event_columns(events: Events, rows: Integers, layout: _Layout) -> Iterator[Bytes]:
    kind = int(events.kind[rows[0]])
    yield _constant(Message().integer(9, kind).integer(11, events.track).content)
    if kind == COUNTER and events.value is not None:
        yield _constant(_VALUE)
        yield _as_bytes(events.value[rows].astype("<f8"))
    if kind != BEGIN:
        return
    yield _constant(_NAME)
    yield padded_varints(events.name[rows], layout.name)
    if events.flows.size:
        present = np.sort(events.flows[rows], axis=1)[:, ::-1]  # existing arrows first
        for column in present[:, : layout.arrows[rows[0]]].T:
            yield _constant(_FLOW)
            yield _as_bytes(column.astype("<u8"))
    for key, width in layout.numbers.items():
        annotation = [_constant(Message().text(10, key).content + b"\x20"), padded_varints(events.numbers[key][rows], width)]
        yield from (_constant(_ANNOTATION), _length(annotation), *annotation)
    detail = events.detail[rows]
    yield layout.joined[layout.offsets[detail][:, None] + np.arange(layout.sizes[detail[0]])]


def _constant(content: bytes) -> Bytes:
    return np.frombuffer(content, np.uint8).reshape(1, -1)


def _length(columns: Iterable[Bytes]) -> Bytes:
    return padded_varints(np.array([sum(column.shape[1] for column in columns)]), _LENGTH_BYTES)


def _as_bytes(values: NDArray[Any]) -> Bytes:
    return np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
