"""Addresses of traces: renamed by buffer and offset, private outside, marked where workgroups share lines."""

from __future__ import annotations

import numpy as np

from rocm_perf_lab.emulator.timing.stable_traces import stabilise

BUFFER_SHIFT = 36


def record(*addresses: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array([2 << 56 | len(addresses) << 32, *addresses], dtype=np.uint64)


def test_an_address_becomes_its_buffer_and_offset() -> None:
    buffers = [(0x9000, 0x1000), (0x4000, 0x1000)]  # in the order of allocation, not of addresses

    ((words,),) = stabilise([[record(0x4080, 0x9100)]], buffers)

    assert words[1:].tolist() == [(2 << BUFFER_SHIFT) + 0x80, (1 << BUFFER_SHIFT) + 0x100]
    assert words[0] == record(0, 0)[0]


def test_addresses_outside_buffers_are_numbered_by_first_access() -> None:
    ((words,),) = stabilise([[record(0x70000, 0x10000, 0x70000)]], [(0x4000, 0x1000)])

    assert words[1:].tolist() == [(2 << BUFFER_SHIFT) + offset for offset in (0, 128, 0)]


def test_scratch_of_two_workgroups_is_not_shared_though_they_ran_on_one_thread() -> None:
    (first,), (second,) = stabilise([[record(0x70000)], [record(0x70000)]], [(0x4000, 0x1000)])

    assert first[1] != second[1]
    assert not (first[1] & np.uint64(1)) and not (second[1] & np.uint64(1))


def test_a_line_that_two_workgroups_touch_is_marked_in_both() -> None:
    (first,), (second,) = stabilise([[record(0x4000, 0x4100)], [record(0x4004)]], [(0x4000, 0x1000)])

    assert [int(word) & 1 for word in (*first[1:], *second[1:])] == [1, 0, 1]  # bit 1 and higher describe the access


def test_waves_without_memory_and_launches_without_buffers() -> None:
    block = np.array([1 << 56], dtype=np.uint64)

    assert [w.tolist() for w in stabilise([[block, block]], [])[0]] == [[1 << 56]] * 2
