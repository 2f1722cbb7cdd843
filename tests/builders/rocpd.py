"""Recorded runs of two small kernels, to be written as databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.rocprof.recording import (
    AgentRecord,
    CodeObjectRecord,
    DispatchRecord,
    HostRecord,
    KernelSymbolRecord,
    ProcessRecord,
    RecordedRun,
)
from rocm_perf_lab.rocprof.schema import make_guid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.target.model import Target

HOST = HostRecord("Linux", "lab", "6.1", "#1", "x86_64")
GUID = make_guid(1_700_000_000_000, "tests")
VEC_COPY = KernelSymbolRecord(
    id=1,
    code_object_id=1,
    mangled_name="_Z7vecCopyPdS_S_ii",
    display_name="vecCopy(double*, double*, double*, int, int)",
    arch_vgpr_count=4,
    accum_vgpr_count=4,
    sgpr_count=16,
    static_lds_bytes=0,
    static_scratch_bytes=0,
)
REDUCE = KernelSymbolRecord(
    id=2,
    code_object_id=1,
    mangled_name="reduce",
    display_name="reduce",
    arch_vgpr_count=32,
    accum_vgpr_count=0,
    sgpr_count=32,
    static_lds_bytes=1024,
    static_scratch_bytes=16,
)


def dispatch(
    start_ns: int,
    end_ns: int,
    *,
    kernel: KernelSymbolRecord = VEC_COPY,
    queue: int = 0,
    counters: Mapping[str, float] | None = None,
) -> DispatchRecord:
    """One dispatch of 4096 workgroups of 256 work-items."""
    return DispatchRecord(
        kernel_id=kernel.id,
        start_ns=start_ns,
        end_ns=end_ns,
        grid=(4096 * 256, 1, 1),
        workgroup=(256, 1, 1),
        lds_bytes=kernel.static_lds_bytes,
        scratch_bytes=kernel.static_scratch_bytes,
        queue=queue,
        counters=counters or {},
    )


def recorded_run(
    target: Target,
    dispatches: Sequence[DispatchRecord],
    *,
    emulated: bool = True,
    kernels: tuple[KernelSymbolRecord, ...] = (VEC_COPY, REDUCE),
    guid: str = GUID,
) -> RecordedRun:
    """A run on `target` whose device is emulated by default."""
    device = "emulator" if emulated else "rocm"
    return RecordedRun(
        agent=AgentRecord.from_target(target, device=device, emulated=emulated, versions={"lab": "test"}),
        process=ProcessRecord("./app --n 4096", pid=4242, parent_pid=1),
        code_objects=(CodeObjectRecord(1, "memory://app", 4096, "0" * 64),),
        kernels=kernels,
        dispatches=tuple(dispatches),
        guid=guid,
        host=HOST,
    )
