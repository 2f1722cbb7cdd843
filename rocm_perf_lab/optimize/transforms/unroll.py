"""Loop unrolling with `#pragma unroll N`.

Loops with barriers, atomics, dynamic shared memory, inline assembly or early exits are not changed, nor are loops other than
`for` loops. The closed loop discards a pragma that does not change the machine code as a duplicate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.optimize.loops import loops_of
from rocm_perf_lab.optimize.transforms.base import Rejection, Rewrite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.optimize.loops import Loop
    from rocm_perf_lab.optimize.source_tree import SourceUnit

_SMALLEST, _LARGEST = 2, 8


class UnrollLoops:
    """Unrolls each loop by each factor, then all loops together.

    Args:
        factors: Unroll factors, from 2 to 8.

    Raises:
        LabError: No factor is set, or one is out of range.
    """

    name = "unroll"

    def __init__(self, *, factors: Sequence[int] = (2, 4, 8)) -> None:
        outside = [f for f in factors if not isinstance(f, int) or not _SMALLEST <= f <= _LARGEST]
        if outside or not factors:
            raise LabError(
                f"unroll factors must be integers from {_SMALLEST} to {_LARGEST}, not {outside}",
                where="optimizer.transforms: factors",
                hint="for example factors: [2, 4, 8]",
            )
        self._factors = tuple(sorted(set(factors)))

    def propose(self, unit: SourceUnit) -> tuple[Rewrite, ...]:
        """Return one rewrite per loop and factor, and one per factor for all loops."""
        free = [loop for loop in loops_of(unit) if loop.obstacle is None]
        groups = [[loop] for loop in free] + ([free] if len(free) > 1 else [])
        rewrites = []
        for group in groups:
            for factor in self._factors:
                content = _unrolled(unit.content, group, factor)
                if content != unit.content:
                    rewrites.append(Rewrite(_describe(group, factor), content.decode()))
        return tuple(rewrites)

    def rejections(self, unit: SourceUnit) -> tuple[Rejection, ...]:
        """Return loops that cannot be unrolled."""
        return tuple(Rejection(loop.line, loop.obstacle) for loop in loops_of(unit) if loop.obstacle is not None)


def _describe(loops: Sequence[Loop], factor: int) -> str:
    lines = ", ".join(str(loop.line) for loop in loops)
    return f"unroll by {factor} the loop{'s' if len(loops) > 1 else ''} at line {lines}"


def _unrolled(content: bytes, loops: Sequence[Loop], factor: int) -> bytes:
    """Insert pragmas, starting with the last loop so that earlier offsets stay valid."""
    newline = b"\r\n" if b"\r\n" in content else b"\n"
    pragma = f"#pragma unroll {factor}".encode()
    for loop in sorted(loops, key=lambda loop: -loop.start):
        line_start = content.rfind(b"\n", 0, loop.start) + 1
        before_loop = content[line_start : loop.start]
        if loop.pragma is not None:
            start, end = loop.pragma
            line = content[start:end]
            indent = line[: len(line) - len(line.lstrip())]
            content = content[:start] + indent + pragma + newline + content[end:]
        elif before_loop.strip():  # other code precedes the loop on its line
            content = content[: loop.start] + newline + pragma + newline + content[loop.start :]
        else:
            content = content[:line_start] + before_loop + pragma + newline + content[line_start:]
    return content
