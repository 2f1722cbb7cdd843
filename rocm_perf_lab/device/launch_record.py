"""Record the dispatches of a launch whose durations the device itself measured or estimated."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rocm_perf_lab.rocprof.recording import (
    AgentRecord,
    CodeObjectRecord,
    DispatchRecord,
    KernelSymbolRecord,
    ProcessRecord,
    RecordedRun,
)
from rocm_perf_lab.rocprof.registers import reported_registers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.device.protocol import DeviceIdentity, Launch
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.code_object import KernelMetadata

_GAP_NS = 1000
"""Gap between two dispatches of one run; host time is not modelled."""


def launch_record(
    target: Target,
    identity: DeviceIdentity,
    launch: Launch,
    durations_ns: Sequence[int],
    counters: Mapping[str, float],
    sample_seed: int | None = None,
) -> RecordedRun:
    """Return one dispatch per duration, one after another, all with the same counters.

    All stamps are zero, as in recordings without times, if the device has no times. `sample_seed` chose the workgroups from which
    the durations were estimated.
    """
    code_object = launch.code_object
    kernel = next(k for k in code_object.kernels if k.symbol == launch.symbol)
    symbol = symbol_record(code_object.architecture, kernel)
    dispatches = []
    start_ns = time.monotonic_ns()
    for duration_ns in durations_ns:
        dispatches.append(
            DispatchRecord(
                kernel_id=symbol.id,
                start_ns=start_ns if identity.has_times else 0,
                end_ns=start_ns + duration_ns if identity.has_times else 0,
                grid=launch.geometry.work_items,
                workgroup=launch.block,
                lds_bytes=kernel.lds_bytes + launch.dynamic_lds_bytes,
                scratch_bytes=kernel.scratch_bytes,
                counters=counters,
            )
        )
        start_ns += duration_ns + _GAP_NS
    return RecordedRun(
        agent=AgentRecord.from_target(
            target,
            device=identity.name,
            emulated=identity.emulated,
            versions=identity.versions,
            sample_seed=sample_seed,
            has_times=identity.has_times,
        ),
        process=ProcessRecord(f"rocm-perf-lab {identity.name}: {kernel.name}"),
        code_objects=(CodeObjectRecord(1, "memory://code_object", len(code_object.data), code_object.sha256),),
        kernels=(symbol,),
        dispatches=tuple(dispatches),
    )


def symbol_record(architecture: str, kernel: KernelMetadata, *, number: int = 1, code_object: int = 1) -> KernelSymbolRecord:
    """Return the record of a kernel.

    Args:
        architecture: Architecture of the code object.
        kernel: Metadata of the kernel.
        number: Id of the kernel in the database.
        code_object: Id of its code object.
    """
    registers = reported_registers(
        architecture,
        compute_pgm_rsrc1=kernel.descriptor.compute_pgm_rsrc1,
        compute_pgm_rsrc3=kernel.descriptor.compute_pgm_rsrc3,
        wavefront_size=kernel.wavefront_size,
    )
    return KernelSymbolRecord(
        id=number,
        code_object_id=code_object,
        mangled_name=kernel.symbol,
        display_name=kernel.name,
        arch_vgpr_count=registers.arch_vgprs,
        accum_vgpr_count=registers.accum_vgprs,
        sgpr_count=registers.sgprs,
        static_lds_bytes=kernel.lds_bytes,
        static_scratch_bytes=kernel.scratch_bytes,
        kernarg_bytes=kernel.kernarg_bytes,
        kernarg_alignment=kernel.kernarg_alignment,
    )
