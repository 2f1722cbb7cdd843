"""`rocm-perf emulate`: one launch of a code object on the emulator, with arguments from the command line."""

from __future__ import annotations

import io
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.text import Text

from rocm_perf_lab.core.errors import LabError, NegativeResult
from rocm_perf_lab.core.files import write_bytes, write_text
from rocm_perf_lab.core.printed import PRINTED_NAME, text_of
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.device.instruction_counts import COUNTS_NAME, counts_document
from rocm_perf_lab.emulator.errors import EmulationError
from rocm_perf_lab.jobs.emulate.document import emulation_document
from rocm_perf_lab.jobs.emulate.launch import requested_launch
from rocm_perf_lab.jobs.emulate.request import EmulateRequest, Emulation
from rocm_perf_lab.jobs.emulate.show import show_emulation
from rocm_perf_lab.jobs.show import show_printed
from rocm_perf_lab.profiling.passes import DATABASE_NAME
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.target.catalog import load_target

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import Console

    from rocm_perf_lab.target.model import Target

DOCUMENT_NAME = "emulation.json"


def emulate(request: EmulateRequest, *, database: Path) -> Emulation:
    """Run the launch, and write its rocpd database.

    Raises:
        LabError: The arguments are invalid, or the kernel faulted.
    """
    requested = requested_launch(request, load_target(request.target) if request.target is not None else None)
    target = requested.target
    device = _device(request, target)
    run = device.run(requested.launch, database=database, runs=1, counters=[*device.exact_counters, *device.estimated_counters])
    trace = read_database(run.database)
    return Emulation(
        kernel=requested.kernel,
        launch=requested.launch,
        target=target,
        arguments=requested.arguments,
        occupancy=requested.occupancy,
        outputs=run.outputs,
        counters=dict(sorted(trace.counters_of(0).items())),
        duration_ns=int(trace.dispatches.duration_ns[0]),
        instruction_counts=run.instruction_counts,
        identity=device.identity,
        findings=run.findings,
        printed=run.printed,
        host_calls=run.host_calls,
        notes=run.notes,
        sample_seed=trace.provenance.sample_seed,
    )


def run_emulate(request: EmulateRequest, console: Console, *, output: Path | None, as_json: bool) -> None:
    """Run the launch, print its results, and write its files to `output`, if set.

    Raises:
        LabError: The arguments are invalid, the kernel faulted, or the directory cannot be written.
        NegativeResult: A check found a defect; the results are printed first.
    """
    try:
        emulation, files = _emulate_into(request, output)
    except EmulationError as error:
        if not as_json:
            show_printed(console, error.printed)
            error.printed = ()
        raise
    if as_json:
        print(emulation_document(emulation, request, files), end="")
    else:
        show_emulation(console, emulation)
        show_printed(console, emulation.printed)
        if output is not None:
            console.print(Text(f"files  {output}"), soft_wrap=True)
    _require_clean(emulation)


def _emulate_into(request: EmulateRequest, output: Path | None) -> tuple[Emulation, dict[str, str]]:
    """Return the emulation, and the files of its outputs by argument."""
    if output is None:
        with tempfile.TemporaryDirectory() as directory:
            return emulate(request, database=Path(directory) / DATABASE_NAME), {}
    try:
        output.mkdir(parents=True, exist_ok=True)
        emulation = emulate(request, database=output / DATABASE_NAME)
        return emulation, _write_files(emulation, request, output)
    except OSError as error:
        raise LabError(
            f"cannot write the output: {error.strerror or error}",
            where=str(error.filename or output),
            hint="use a writable directory for --output",
        ) from error


def _device(request: EmulateRequest, target: Target) -> EmulatorDevice:
    options: dict[str, Any] = {}
    if request.max_instructions is not None:
        options["max_instructions"] = request.max_instructions
    try:
        return EmulatorDevice(target=target, check=request.check, **options)
    except LabError as error:
        raise LabError(error.what, where=f"--check {request.check}", hint=error.hint) from error


def _write_files(emulation: Emulation, request: EmulateRequest, output: Path) -> dict[str, str]:
    """Write outputs, counts and document; return the file names of the outputs by argument."""
    files: dict[str, str] = {}
    for name, values in emulation.outputs.items():
        stem = re.sub(r"[^\w.-]", "_", name).lstrip(".")[:100] or "output"
        while f"{stem}.npy" in files.values():
            stem += "_"
        files[name] = f"{stem}.npy"
        sink = io.BytesIO()
        np.save(sink, _storable(values), allow_pickle=False)
        write_bytes(output / files[name], sink.getvalue())
    if emulation.printed:
        write_text(output / PRINTED_NAME, text_of(emulation.printed))
    code_object = emulation.launch.code_object
    write_text(output / COUNTS_NAME, counts_document(emulation.kernel.symbol, code_object.sha256, emulation.instruction_counts))
    write_text(output / DOCUMENT_NAME, emulation_document(emulation, request, files))
    return files


def _storable(values: NDArray[Any]) -> NDArray[Any]:
    """Convert types that `.npy` does not support (bf16, 8-bit floats) to f32."""
    return values if values.dtype.kind in "iuf" and values.dtype.isbuiltin == 1 else values.astype(np.float32)


def _require_clean(emulation: Emulation) -> None:
    count = len(emulation.findings)
    if count:
        raise NegativeResult(
            f"the checks found {count} defect{'s' if count > 1 else ''} in kernel {emulation.kernel.name}",
            where="\n".join(finding.message for finding in emulation.findings),
            hint="correct the kernel, or choose other checks with --check",
        )
