"""How long the memory behind one address is busy with atomics: `contention_cycles(...) -> float`.

Compute units are replayed one at a time, so that none sees the requests of another. Read-modify-writes of one segment follow
one another wherever they come from: a launch takes at least as long as all of them to the segment that gets most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.program import Program

_TAG_SHIFT, _VMEM_TAG = np.uint64(56), np.uint64(2)
_INSTRUCTION = np.uint64(0xFFFFFFFF)
_SHARED = np.uint64(1)


def contention_cycles(
    program: Program, traces: Sequence[Sequence[NDArray[np.uint64]]], *, workgroups: int, cycles_per_request: int
) -> float:
    """Clocks that the busiest segment of 64 bytes needs for its atomics.

    Args:
        program: Whose instructions the records name.
        traces: Stable ones, [sampled workgroup][wave] -> (n_words); bit 0 of an address says that workgroups share its line.
        workgroups: Of the launch: shared segments get as many requests from each as from the sampled ones on average.
        cycles_per_request: For what one instruction of a wavefront does to one segment.
    """
    is_atomic = np.array(["ATOMIC" in i.mnemonic and i.encoding != "DS" for i in program.instructions], dtype=bool)
    words = np.concatenate([np.zeros(0, np.uint64), *(wave for group in traces for wave in group)])
    if cycles_per_request == 0 or not is_atomic.any() or not len(words):
        return 0.0
    tags = words >> _TAG_SHIFT
    record = np.maximum.accumulate(np.where(tags != 0, np.arange(len(words)), 0))
    named = np.minimum(words[record] & _INSTRUCTION, np.uint64(len(is_atomic) - 1)).astype(np.int64)
    of_atomics = (tags == 0) & (tags[record] == _VMEM_TAG) & is_atomic[named]
    segments, requests = np.unique(words[of_atomics], return_counts=True)
    if not len(segments):
        return 0.0
    scale = np.where(segments & _SHARED, workgroups / len(traces), 1.0)
    return float((requests * scale).max()) * cycles_per_request
