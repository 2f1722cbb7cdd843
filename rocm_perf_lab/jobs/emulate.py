"""`rocm-perf emulate`: one launch of a code object on the emulator, arguments from the command line, no YAML.

Takes an :class:`EmulateRequest`, gives an :class:`Emulation`: outputs, counters, emulated time, counts per instruction.
`emulation_document` is what `--json` prints, `show_emulation` the table for people.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import tempfile
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table
from rich.text import Text

from rocm_perf_lab.device.argument_text import format_argument, parse_argument, parse_dim3
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.device.instruction_counts import COUNTS_NAME, counts_document
from rocm_perf_lab.device.kernel import BufferArgument, KernelDescription
from rocm_perf_lab.device.launch import DTYPES, build_launch
from rocm_perf_lab.device.protocol import BufferValue, ScalarValue
from rocm_perf_lab.emulator.kernarg import Geometry
from rocm_perf_lab.errors import LabError
from rocm_perf_lab.files import write_bytes, write_text
from rocm_perf_lab.jobs.show import time_text
from rocm_perf_lab.profiling.passes import DATABASE_NAME
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.target.occupancy import launch_occupancy
from rocm_perf_lab.toolchain.code_object import CodeObject, KernelArgument, KernelMetadata
from rocm_perf_lab.toolchain.kernel_file import choose_kernel, read_kernel_file
from rocm_perf_lab.toolchain.kernel_occupancy import occupancy_request

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from rich.console import Console

    from rocm_perf_lab.device.argument_text import TextArgument
    from rocm_perf_lab.device.instruction_counts import InstructionCount
    from rocm_perf_lab.device.protocol import DeviceIdentity, Finding, Launch
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.target.occupancy import Occupancy

DOCUMENT_NAME = "emulation.json"
_FIRST_VALUES = 8
_LARGEST_WORK_ITEMS = 2**32 - 1
_COPIES = 3
"""Of every buffer: as it was, in device memory, as it came back."""
_CLASSES = {
    "all": "SQ_INSTS", "VALU": "SQ_INSTS_VALU", "MFMA": "SQ_INSTS_MFMA", "SALU": "SQ_INSTS_SALU", "SMEM": "SQ_INSTS_SMEM",
    "VMEM reads": "SQ_INSTS_VMEM_RD", "VMEM writes": "SQ_INSTS_VMEM_WR", "FLAT": "SQ_INSTS_FLAT", "LDS": "SQ_INSTS_LDS",
    "branches": "SQ_INSTS_BRANCH", "messages": "SQ_INSTS_SENDMSG", "LDS bank conflicts (cycles)": "SQ_LDS_BANK_CONFLICT",
}  # fmt: skip


@dataclass(frozen=True)
class EmulateRequest:
    """The words of the command line."""

    file: Path
    grid: str | None
    block: str
    work_items: str | None = None
    cooperative: bool = False
    arguments: tuple[str, ...] = ()
    kernel: str | None = None
    dynamic_lds_bytes: int = 0
    target: str = "mi300x"
    check: str = "none"
    max_instructions: int | None = None


@dataclass(frozen=True)
class Emulation:
    """One launch and what came of it. `exact` names the counters that were counted; the others are estimates."""

    kernel: KernelMetadata
    launch: Launch
    target: Target
    arguments: tuple[TextArgument, ...]
    occupancy: Occupancy
    outputs: Mapping[str, NDArray[Any]]
    counters: Mapping[str, float]
    exact: frozenset[str]
    duration_ns: int
    instruction_counts: tuple[InstructionCount, ...]
    identity: DeviceIdentity
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class OutputSummary:
    """One buffer after the launch; smallest, largest and mean of the values that are no NaN, None where there are none."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    smallest: float | None
    largest: float | None
    mean: float | None
    nan_count: int
    first: tuple[float, ...]


def emulate(request: EmulateRequest, *, database: Path) -> Emulation:
    """Run it; the rocpd database is left at `database`.

    Raises:
        LabError: The words make no launch, or the kernel did what it must not do.
    """
    target = load_target(request.target)
    geometry = _geometry(request)
    block = geometry.block
    code_object, kernel = choose_kernel(read_kernel_file(request.file), request.kernel)
    _require_emulated(code_object, target, request.file)
    names = argument_names(kernel, len(request.arguments))
    arguments = tuple(parse_argument(text, name) for text, name in zip(request.arguments, names, strict=True))
    code_object, kernel = _with_argument_layout(code_object, kernel, arguments)
    _require_size(kernel, geometry, arguments)
    asked = occupancy_request(kernel, workgroup_size=prod(block), dynamic_lds_bytes=request.dynamic_lds_bytes)
    occupancy = launch_occupancy(target, asked)
    launch = _launch(request, code_object, kernel, arguments, geometry)
    device = _device(request, target)
    exact, estimated = device.exact_counters, device.estimated_counters
    run = device.run(launch, database=database, runs=1, counters=[*exact, *estimated])
    trace = read_database(run.database)
    return Emulation(
        kernel=kernel,
        launch=launch,
        target=target,
        arguments=arguments,
        occupancy=occupancy,
        outputs=run.outputs,
        counters=dict(sorted(trace.counters_of(0).items())),
        exact=frozenset(exact),
        duration_ns=int(trace.dispatches.duration_ns[0]),
        instruction_counts=run.instruction_counts,
        identity=device.identity,
        findings=run.findings,
    )


def run_emulate(request: EmulateRequest, console: Console, *, output: Path | None, as_json: bool) -> None:
    """Run it, print it, and leave its files in `output` where one is given.

    Raises:
        LabError: As :func:`emulate`; the folder cannot be written; or, after everything was shown, a check found a defect.
    """
    if output is None:
        with tempfile.TemporaryDirectory() as folder:
            emulation = emulate(request, database=Path(folder) / DATABASE_NAME)
        files: dict[str, str] = {}
    else:
        try:
            output.mkdir(parents=True, exist_ok=True)
            emulation = emulate(request, database=output / DATABASE_NAME)
            files = _write_files(emulation, request, output)
        except OSError as error:
            raise LabError(
                f"cannot write the output: {error.strerror or error}",
                where=str(error.filename or output),
                remedy="give --output a folder that can be written",
            ) from error
    if as_json:
        print(emulation_document(emulation, request, files), end="")
    else:
        show_emulation(console, emulation)
        if output is not None:
            console.print(Text(f"files  {output}"), soft_wrap=True)
    _require_clean(emulation)


def argument_names(kernel: KernelMetadata, count: int) -> tuple[str, ...]:
    """One name each: the compiler's where it gave one to that argument alone, else `arg0`, `arg1`, ..."""
    given = [argument.name for argument in explicit_arguments(kernel)]
    names = []
    for position in range(count):
        name = given[position] if position < len(given) else ""
        if given.count(name) != 1 or not name:
            name = f"arg{position}"
            while name in given:
                name += "_"
        names.append(name)
    return tuple(names)


def explicit_arguments(kernel: KernelMetadata) -> tuple[KernelArgument, ...]:
    """Those that the caller gives, in the kernel's order."""
    return tuple(argument for argument in kernel.arguments if not argument.value_kind.startswith("hidden_"))


def summarise_output(name: str, values: NDArray[Any]) -> OutputSummary:
    """What a reader wants to know first of a buffer."""
    dtype = next(word for word, known in DTYPES.items() if known == values.dtype)
    is_float = DTYPES[dtype].kind not in "iu"
    flat = values.reshape(-1)
    wide = flat.astype(np.float64) if is_float else flat
    numbers = wide[~np.isnan(wide)] if is_float else wide
    as_number = float if is_float else int
    with np.errstate(invalid="ignore", over="ignore"):
        mean = float(numbers.mean(dtype=np.float64)) if numbers.size else None
    return OutputSummary(
        name=name,
        dtype=dtype,
        shape=values.shape,
        smallest=as_number(numbers.min()) if numbers.size else None,
        largest=as_number(numbers.max()) if numbers.size else None,
        mean=mean,
        nan_count=int(wide.size - numbers.size),
        first=tuple(as_number(value) for value in wide[:_FIRST_VALUES]),
    )


def emulation_document(emulation: Emulation, request: EmulateRequest, files: Mapping[str, str]) -> str:
    """One JSON document; numbers that JSON does not have are the strings NaN, Infinity and -Infinity."""
    kernel, launch, occupancy = emulation.kernel, emulation.launch, emulation.occupancy
    document = {
        "schema_version": "1.0",
        "kernel": kernel.name,
        "symbol": kernel.symbol,
        "grid": list(launch.grid),
        "block": list(launch.block),
        "work_items": list(launch.geometry.work_items),
        "dynamic_lds_bytes": launch.dynamic_lds_bytes,
        "arguments": [{"name": argument.name, "text": format_argument(argument)} for argument in emulation.arguments],
        "resources": {
            "vgpr": kernel.vgpr_count - kernel.agpr_count,
            "agpr": kernel.agpr_count,
            "sgpr": kernel.sgpr_count,
            "lds_bytes": kernel.lds_bytes,
            "scratch_bytes": kernel.scratch_bytes,
        },
        "occupancy": {
            "waves_per_simd": occupancy.waves_per_simd,
            "max_waves_per_simd": occupancy.max_waves_per_simd,
            "limiter": occupancy.limiter,
        },
        "counters": {name: _whole(value) for name, value in emulation.counters.items()},
        "estimated_counters": [name for name in emulation.counters if name not in emulation.exact],
        "time_us_emulated": emulation.duration_ns / 1000,
        "outputs": [_output_row(name, values, files) for name, values in emulation.outputs.items()],
        "findings": [vars(finding) for finding in emulation.findings],
        "provenance": {
            "device": emulation.identity.name,
            "emulated": emulation.identity.emulated,
            "versions": dict(emulation.identity.versions),
            "target": emulation.target.name,
            "architecture": launch.code_object.architecture,
            "code_object": str(request.file),
            "code_object_sha256": launch.code_object.sha256,
            "check": request.check,
        },
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def show_emulation(console: Console, emulation: Emulation) -> None:
    """The launch as a table of 80 columns."""
    kernel, launch, occupancy = emulation.kernel, emulation.launch, emulation.occupancy
    table = Table(show_header=False, expand=False)
    table.add_column(style="bold", overflow="fold", max_width=24)
    table.add_column(overflow="fold")
    waves = emulation.counters.get("SQ_WAVES", 0)
    table.add_row("kernel", Text(kernel.name))
    of_all = f", {_by(launch.geometry.work_items)} in all" if any(launch.remainder) else ""
    table.add_row("grid", f"{_by(launch.grid)} workgroups of {_by(launch.block)} work-items{of_all}: {waves:,.0f} wavefronts")
    table.add_row("target", f"{emulation.target.name} ({launch.code_object.architecture}), {emulation.identity.name}")
    vgprs = kernel.vgpr_count - kernel.agpr_count
    table.add_row("registers", f"{vgprs} VGPR, {kernel.agpr_count} AGPR, {kernel.sgpr_count} SGPR")
    dynamic = f" + {launch.dynamic_lds_bytes:,} dynamic" if launch.dynamic_lds_bytes else ""
    table.add_row("memory", f"{kernel.lds_bytes:,}{dynamic} B LDS, {kernel.scratch_bytes:,} B scratch per work-item")
    what_if = f"; {occupancy.what_if[0]}" if occupancy.what_if else ""
    table.add_row(
        "occupancy",
        f"{occupancy.waves_per_simd:g} of {occupancy.max_waves_per_simd} waves per SIMD, limited by {occupancy.limiter}{what_if}",
    )
    table.add_row("time", time_text(emulation.duration_ns, emulation.identity.time_word))
    for finding in emulation.findings:
        table.add_row(finding.check.replace("_", " "), Text(finding.message))
    console.print(table)
    console.print(_instruction_table(emulation.counters, waves))
    if emulation.outputs:
        console.print(_output_table(emulation.outputs))


def _instruction_table(counters: Mapping[str, float], waves: float) -> Table:
    table = Table(title="instructions", title_justify="left")
    table.add_column("class")
    table.add_column("wavefronts' total", justify="right")
    table.add_column("per wavefront", justify="right")
    for label, name in _CLASSES.items():
        value = counters.get(name)
        if value:
            table.add_row(label, f"{value:,.0f}", f"{value / waves:,.5g}" if waves else "-")
    return table


def _output_table(outputs: Mapping[str, NDArray[Any]]) -> Table:
    table = Table(title="outputs", title_justify="left", show_lines=True)
    table.add_column("buffer", overflow="fold", max_width=22)
    table.add_column("values", overflow="fold")
    for name, values in outputs.items():
        row = summarise_output(name, values)
        label = f"{row.name}\n{row.dtype}[{'x'.join(map(str, row.shape))}]"
        limits = f"min {_number(row.smallest)}, max {_number(row.largest)}, mean {_number(row.mean)}, {row.nan_count:,} NaN"
        more = " ..." if values.size > len(row.first) else ""
        table.add_row(Text(label), Text(f"{limits}\nfirst {' '.join(_number(value) for value in row.first)}{more}"))
    return table


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def _by(sizes: Sequence[int]) -> str:
    """`64 x 16`: trailing ones left out."""
    shown = list(sizes)
    while len(shown) > 1 and shown[-1] == 1:
        shown.pop()
    return " x ".join(f"{size:,}" for size in shown)


def _whole(value: float) -> float:
    return int(value) if value == int(value) else value


def _output_row(name: str, values: NDArray[Any], files: Mapping[str, str]) -> dict[str, Any]:
    row = summarise_output(name, values)
    return {
        "name": row.name,
        "dtype": row.dtype,
        "shape": list(row.shape),
        "min": _json_number(row.smallest),
        "max": _json_number(row.largest),
        "mean": _json_number(row.mean),
        "nan_count": row.nan_count,
        "first": [_json_number(value) for value in row.first],
        "file": files.get(name),
    }


def _json_number(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _write_files(emulation: Emulation, request: EmulateRequest, output: Path) -> dict[str, str]:
    """Outputs, counts and document beside the database; the outputs' file names by argument."""
    files: dict[str, str] = {}
    for name, values in emulation.outputs.items():
        stem = re.sub(r"[^\w.-]", "_", name).lstrip(".")[:100] or "output"
        while f"{stem}.npy" in files.values():
            stem += "_"
        files[name] = f"{stem}.npy"
        sink = io.BytesIO()
        np.save(sink, _storable(values), allow_pickle=False)
        write_bytes(output / files[name], sink.getvalue())
    code_object = emulation.launch.code_object
    write_text(output / COUNTS_NAME, counts_document(emulation.kernel.symbol, code_object.sha256, emulation.instruction_counts))
    write_text(output / DOCUMENT_NAME, emulation_document(emulation, request, files))
    return files


def _storable(values: NDArray[Any]) -> NDArray[Any]:
    """bf16 and 8-bit floats, which `.npy` does not know, as the same values in f32."""
    return values if values.dtype.kind in "iuf" and values.dtype.isbuiltin == 1 else values.astype(np.float32)


def _require_emulated(code_object: CodeObject, target: Target, file: Path) -> None:
    if code_object.architecture != target.architecture:
        raise LabError(
            f"the code object is for {code_object.architecture}, {target.name} is {target.architecture}",
            where=str(file),
            remedy=f"compile it with --offload-arch={target.architecture}, or choose another --target",
        )


def _geometry(request: EmulateRequest) -> Geometry:
    block = parse_dim3(request.block, "--block")
    if (request.grid is None) == (request.work_items is None):
        raise LabError(
            "one of --grid and --work-items is needed",
            where=f"--grid {request.grid} --work-items {request.work_items}" if request.grid else "neither is there",
            remedy="--grid counts workgroups; --work-items counts work-items, and the last workgroup may be partial",
        )
    if request.work_items is not None:
        return Geometry.of_work_items(parse_dim3(request.work_items, "--work-items"), block, request.dynamic_lds_bytes)
    return Geometry(parse_dim3(request.grid or "", "--grid"), block, request.dynamic_lds_bytes)


def _require_size(kernel: KernelMetadata, geometry: Geometry, arguments: Sequence[TextArgument]) -> None:
    """What the dispatch packet and this machine can hold."""
    if max(geometry.work_items) > _LARGEST_WORK_ITEMS:
        raise LabError(
            f"{_by(geometry.grid)} workgroups of {_by(geometry.block)} work-items: "
            f"a dispatch holds {_LARGEST_WORK_ITEMS:,} per dimension",
            where=f"kernel {kernel.name}, --grid",
            remedy="--grid counts workgroups, not work-items",
        )
    needed = sum(_buffer_bytes(argument) for argument in arguments)
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if _COPIES * needed > available:
        raise LabError(
            f"the buffers have {needed:,} bytes; with copies that is more than the {available:,} of this machine",
            where="--arg",
            remedy="use smaller buffers",
        )


def _buffer_bytes(argument: TextArgument) -> int:
    if not isinstance(argument, BufferArgument):
        return 0
    return prod(int(size) for size in argument.shape) * DTYPES[argument.dtype].itemsize


def _with_argument_layout(
    code_object: CodeObject, kernel: KernelMetadata, arguments: Sequence[TextArgument]
) -> tuple[CodeObject, KernelMetadata]:
    """A kernel without metadata takes the arguments as given, each at its natural alignment.

    Raises:
        LabError: They are larger than the kernel's argument segment.
    """
    if kernel.arguments or not arguments:
        return code_object, kernel
    laid_out: list[KernelArgument] = []
    end = 0
    for argument in arguments:
        size, kind = _size_and_kind(argument)
        alignment = math.gcd(size, 8)
        offset = -(-end // alignment) * alignment
        laid_out.append(KernelArgument(argument.name, offset, size, kind))
        end = offset + size
    if end > kernel.kernarg_bytes:
        raise LabError(
            f"kernel {kernel.name} takes {kernel.kernarg_bytes} bytes of arguments, those given have {end}",
            where=f"its metadata names no arguments; given: {', '.join(map(format_argument, arguments))}",
            remedy="give the arguments that it takes; hand-written assembly needs .amdhsa_kernarg_size and .args",
        )
    described = replace(kernel, arguments=tuple(laid_out))
    kernels = tuple(described if other is kernel else other for other in code_object.kernels)
    return replace(code_object, kernels=kernels), described


def _size_and_kind(argument: TextArgument) -> tuple[int, str]:
    if isinstance(argument, BufferArgument):
        return 8, "global_buffer"
    return (len(argument.encoded) if isinstance(argument, ScalarValue) else DTYPES[argument.dtype].itemsize), "by_value"


def _launch(
    request: EmulateRequest,
    code_object: CodeObject,
    kernel: KernelMetadata,
    arguments: tuple[TextArgument, ...],
    geometry: Geometry,
) -> Launch:
    """Through a kernel description, as every launch of the lab; raw bytes are put in their places."""
    description = KernelDescription(
        name=kernel.name,
        source=request.file,
        entry=kernel.symbol,
        arguments=tuple(argument for argument in arguments if not isinstance(argument, ScalarValue)),
        work_items=geometry.work_items,
        block=geometry.block,
        dynamic_lds_bytes=request.dynamic_lds_bytes,
        cooperative=request.cooperative,
    )
    with np.errstate(all="ignore"):  # values beyond the range of a small float become infinite, as on the device
        launch = build_launch(description, code_object, kernel.symbol)
    built: Mapping[str, BufferValue | ScalarValue] = {value.name: value for value in launch.arguments}
    values = tuple(built.get(a.name, a) if isinstance(a, ScalarValue) else built[a.name] for a in arguments)
    return replace(launch, arguments=values)


def _device(request: EmulateRequest, target: Target) -> EmulatorDevice:
    options: dict[str, Any] = {}
    if request.max_instructions is not None:
        options["max_instructions"] = request.max_instructions
    try:
        return EmulatorDevice(target=target, check=request.check, **options)
    except LabError as error:
        raise LabError(error.what, where=f"--check {request.check}", remedy=error.remedy) from error


def _require_clean(emulation: Emulation) -> None:
    count = len(emulation.findings)
    if count:
        raise LabError(
            f"the checks found {count} defect{'s' if count > 1 else ''} in kernel {emulation.kernel.name}",
            where="\n         ".join(finding.message for finding in emulation.findings),
            remedy="correct the kernel, or choose other checks with --check",
        )
