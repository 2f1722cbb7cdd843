"""Choice of the basic blocks to optimise: all of a small kernel, else those that have run often.

The choice for a large kernel is kept on disk for later processes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from rocm_perf_lab.core.files import read_sealed, write_sealed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

SMALL_PROGRAM = 700
"""Maximum number of instructions of a kernel that is optimised immediately, in less than a second."""
HOT_EXECUTIONS = 50_000
"""Executions of a block that cost as much time as to optimise it: 1.5 ms an instruction, which saves about 20 ns each time."""
_WARM_FRACTION = 10
"""Blocks with this part of the executions of hot ones are optimised with them."""


def blocks_to_optimise(counts: NDArray[np.uint64], lengths: Sequence[int], optimised: frozenset[int]) -> frozenset[int] | None:
    """Return the blocks to optimise, or None if the present choice is good enough.

    Args:
        counts: Executions of each block so far.
        lengths: Instructions of each block.
        optimised: Indices of the blocks that are optimised already.
    """
    import numpy as np

    sizes = np.asarray(lengths, dtype=np.uint64)
    is_warm = counts >= HOT_EXECUTIONS // _WARM_FRACTION
    is_warm[list(optimised)] = True
    is_new = counts >= HOT_EXECUTIONS
    is_new[list(optimised)] = False
    executed = counts * sizes
    if not is_new.any() or executed[is_new].sum() < HOT_EXECUTIONS * sizes[is_warm].sum():
        return None
    return frozenset(np.flatnonzero(is_warm).tolist())


def read_choice(path: Path) -> frozenset[int]:
    """Return the blocks that :func:`write_choice` stored; none if the file is missing or damaged."""
    stored = read_sealed(path) or b""
    return frozenset(struct.unpack(f"<{len(stored) // 4}I", stored))


def write_choice(path: Path, chosen: frozenset[int]) -> None:
    """Store a choice of blocks."""
    write_sealed(path, struct.pack(f"<{len(chosen)}I", *sorted(chosen)))
