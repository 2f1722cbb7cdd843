"""Lines and addresses of sampled instructions, samples by line, and confidence intervals of shares."""

from __future__ import annotations

from collections import defaultdict
from math import sqrt
from typing import TYPE_CHECKING

from rocm_perf_lab.rocprof.att.model import INLINED

if TYPE_CHECKING:
    from rocm_perf_lab.rocprof.pc_samples import SampledInstruction, SampledKernel

_DEVIATIONS = 1.959963984540054
"""Standard deviations of a two-sided 95 % interval. Importing scipy.stats would take longer than reading the samples."""
_TOOLCHAIN = ("include/hip/", "lib/clang/", "libcxx/include/", "toolchain/headers/", "triton/language/")


def line_of(source: str) -> str | None:
    """Return the line of the user's code as `file.hip:12`: the innermost frame outside headers of HIP and the compiler."""
    frames = [frame.strip() for frame in source.split(INLINED) if frame.strip()]
    own = [frame for frame in frames if not any(part in frame for part in _TOOLCHAIN)]
    if not frames:
        return None
    return (own or frames)[0].rpartition("/")[2]


def location_of(one: SampledInstruction) -> str | None:
    """Return the source line of an instruction, or its address and mnemonic, or its text."""
    if line := line_of(one.source):
        return line
    if one.address is not None:
        return f"{one.address:#x} {one.mnemonic}".strip()
    return one.text or None


def samples_by_line(kernel: SampledKernel) -> dict[str, int]:
    """Return samples by location, largest first; instructions without samples are omitted."""
    lines: dict[str, int] = defaultdict(int)
    for one in kernel.instructions:
        if one.samples:
            lines[location_of(one) or "(unknown instruction)"] += one.samples
    return dict(sorted(lines.items(), key=lambda item: (-item[1], item[0])))


def interval(samples: int, total: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of the share `samples / total`."""
    share, spread = min(samples, total) / total, _DEVIATIONS**2 / total
    centre = (share + spread / 2) / (1 + spread)
    half = sqrt(spread * (share * (1 - share) + spread / 4)) / (1 + spread)
    return max(0.0, centre - half), min(1.0, centre + half)
