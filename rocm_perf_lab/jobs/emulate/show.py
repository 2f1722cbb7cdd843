"""Tables of an emulated launch, readable at 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from rocm_perf_lab.device.argument_text import format_dim3
from rocm_perf_lab.jobs.emulate.request import Emulation, summarise_output
from rocm_perf_lab.jobs.show import time_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from rich.console import Console

_CLASSES = {
    "all": "SQ_INSTS", "VALU": "SQ_INSTS_VALU", "MFMA": "SQ_INSTS_MFMA", "SALU": "SQ_INSTS_SALU", "SMEM": "SQ_INSTS_SMEM",
    "VMEM reads": "SQ_INSTS_VMEM_RD", "VMEM writes": "SQ_INSTS_VMEM_WR", "FLAT": "SQ_INSTS_FLAT", "LDS": "SQ_INSTS_LDS",
    "branches": "SQ_INSTS_BRANCH", "messages": "SQ_INSTS_SENDMSG", "LDS bank conflicts (cycles)": "SQ_LDS_BANK_CONFLICT",
}  # fmt: skip


def show_emulation(console: Console, emulation: Emulation) -> None:
    """Print launch, instructions and outputs."""
    kernel, launch, occupancy = emulation.kernel, emulation.launch, emulation.occupancy
    table = Table(show_header=False, expand=False)
    table.add_column(style="bold", overflow="fold", max_width=24)
    table.add_column(overflow="fold")
    waves = emulation.counters.get("SQ_WAVES", 0)
    table.add_row("kernel", Text(kernel.name))
    of_all = f", {format_dim3(launch.geometry.work_items)} in total" if any(launch.remainder) else ""
    table.add_row(
        "grid",
        f"{format_dim3(launch.grid)} workgroups of {format_dim3(launch.block)} work-items{of_all}: {waves:,.0f} wavefronts",
    )
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
    table.add_row("time", time_text(emulation.duration_ns, emulation.identity.time_word, emulation.target.timing_errors))
    for note in emulation.notes:
        table.add_row("note", Text(note))
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
