"""PC samples in the files of AMD's trace viewer: columns `PC_Issued`, `PC_Stalled` and `Stall_Reasons` of code.json.

The file lists the whole code with sums per instruction. Kernels are those of its labels; single samples, execution masks and the
state of the arbiter are not part of it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from rocm_perf_lab.rocprof.att.reader import read_directory
from rocm_perf_lab.rocprof.pc_samples import (
    PcSampling,
    SampledInstruction,
    SampledKernel,
    SamplingMethod,
    StallReason,
    no_samples,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocm_perf_lab.rocprof.att.model import AttTrace, InstructionRow


def read_view(directory: Path) -> PcSampling:
    """Return the samples of a directory with code.json.

    Raises:
        AttError: The directory does not exist, or its code is unreadable.
        PcSamplesError: The code has no samples.
    """
    return samples_of_view(read_directory(directory, curves=False), directory)


def samples_of_view(trace: AttTrace, directory: Path) -> PcSampling:
    """Return the samples in the rows of a trace that was read already.

    Raises:
        PcSamplesError: The rows have no samples.
    """
    rows = [row for row in trace.rows if row.samples is not None]
    if not any(row.samples and (row.samples.issued or row.samples.stalled) for row in rows):
        raise no_samples(directory)
    has_reasons = any(row.samples and any(row.samples.reasons) for row in rows)
    # filenames.json of some releases says `is_pcs_stochastic: false` for samples with reasons, so the reasons decide.
    method = SamplingMethod.STOCHASTIC if has_reasons else SamplingMethod.HOST_TRAP
    bounds = [label.line for label in trace.kernels]
    kernels = []
    for first, last in pairwise([rows[0].line if not bounds or rows[0].line < bounds[0] else None, *bounds, None]):
        if first is None:
            continue
        own = [row for row in rows if first <= row.line and (last is None or row.line < last)]
        label = trace.kernel_of(first)
        kernels.append(_kernel(label.mangled_name if label else "", own, has_reasons))
    sampled = tuple(kernel for kernel in kernels if kernel.samples)
    order = sorted(sampled, key=lambda kernel: (-kernel.samples, kernel.name))
    return PcSampling(directory, method, tuple(order), gfxip=trace.provenance.gfxip)


def _kernel(name: str, rows: Sequence[InstructionRow], has_reasons: bool) -> SampledKernel:
    return SampledKernel(name.removesuffix(".kd"), 0, tuple(_instruction(row, has_reasons) for row in rows))


def _instruction(row: InstructionRow, has_reasons: bool) -> SampledInstruction:
    samples = row.samples
    issued, stalled = (max(samples.issued, 0), max(samples.stalled, 0)) if samples else (0, 0)
    reasons: dict[StallReason, int] = {}
    for number, count in enumerate(samples.reasons if samples else ()):
        reason = StallReason(number) if number < len(StallReason) else StallReason.OTHER_WAIT
        if count > 0:
            reasons[reason] = reasons.get(reason, 0) + count
    if has_reasons and stalled > (known := sum(reasons.values())):
        reasons[StallReason.NONE] = reasons.get(StallReason.NONE, 0) + stalled - known
    return SampledInstruction(
        text=row.text,
        source=row.source,
        code_object=row.code_object,
        address=row.address,
        samples=issued + stalled,
        issued=issued if has_reasons else 0,
        reasons=reasons,
    )
