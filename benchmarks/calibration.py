"""How the timing model meets the target's own numbers: `python -m benchmarks.calibration [--json FILE] [--quick]`.

Each kernel of `benchmarks/kernels/calibration.hip` is bound by one thing; the emulated time is compared with what
`conf/target/mi300x.yaml` states of it. Nothing here was measured on a GPU.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.core.files import write_text
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.device.protocol import BufferValue, Launch, ScalarValue
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.toolchain.build import CompileRequest, compile_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocm_perf_lab.toolchain.code_object import CodeObject

SOURCE = Path(__file__).with_name("kernels") / "calibration.hip"
LINE_BYTES = 128
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


@dataclass(frozen=True)
class Row:
    """One comparison; `error` is relative to what the target states, `bound` what the project asks for."""

    name: str
    stated: float
    emulated: float
    unit: str
    bound: float

    @property
    def error(self) -> float:
        """Signed."""
        return self.emulated / self.stated - 1


def main() -> None:
    """Run, print, and write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    parser.add_argument("--quick", action="store_true", help="a copy of 64 MiB in place of 1 GiB")
    options = parser.parse_args()
    rows = list(calibration(copy_bytes=64 * MIB if options.quick else GIB))
    _print(rows)
    if options.json:
        write_text(options.json, json.dumps([asdict(row) | {"error": row.error} for row in rows], indent=2) + "\n")


def calibration(*, copy_bytes: int = GIB) -> Iterator[Row]:
    """Every comparison."""
    bench = Bench()
    target = load_target("mi300x")
    timing = target.timing
    assert timing is not None
    yield Row("copy, HBM bandwidth", timing.achievable_dram_gb_per_s, bench.copy_gb_per_s(copy_bytes), "GB/s", 0.15)
    for level, footprint, stated in (
        ("L1", 16 * KIB, timing.vector_l1_latency),
        ("L2", 2 * MIB, timing.l2_latency),
        ("MALL", 64 * MIB, timing.mall_latency),
        ("HBM", GIB, timing.dram_latency),
    ):
        yield Row(f"dependent loads, {level}", stated, bench.load_cycles(footprint), "clocks", 0.15)
    clock, units = target.max_clock_mhz * 1e6, target.compute_units
    vector = target.peaks.vector_flops_per_cu_clock["f32_packed"] * units * clock / 1e12
    yield Row("FMA only, packed f32", vector, bench.flops_per_s("fma_only", 2 * 8 * 2000 * 64) / 1e12, "TFLOP/s", 0.10)
    matrix = target.peaks.matrix_flops_per_cu_clock["f16"] * units * clock / 1e12
    yield Row("MFMA only, f16", matrix, bench.flops_per_s("mfma_only", 4 * 1000 * 2 * 32 * 32 * 8) / 1e12, "TFLOP/s", 0.10)
    for stride in (2, 4, 32):
        # 32 lanes pass at once through 32 banks: `stride` dwords apart they need `stride` clocks in place of one.
        ratio = bench.lds_ns(stride) / bench.lds_ns(1)
        yield Row(f"LDS reads {stride} dwords apart, against neighbours", float(stride), ratio, "x", 0.10)


class Bench:
    """The kernels, compiled, and the emulator."""

    def __init__(self) -> None:
        self._code = compile_source(CompileRequest(source=SOURCE, architecture="gfx942")).code_object
        self._target = load_target("mi300x")
        self._device = EmulatorDevice(target=self._target)
        timing = self._target.timing
        self._overhead_ns = timing.launch_overhead_ns if timing else 0

    def copy_gb_per_s(self, nbytes: int) -> float:
        """Bytes read and written."""
        values = np.zeros(nbytes // 4, np.float32)
        buffers = (BufferValue("in", values, False), BufferValue("out", values, True))
        return 2 * nbytes / self._ns("copy", nbytes // 16 // 256, 256, buffers)

    def load_cycles(self, footprint: int) -> float:
        """Clocks of one load in a ring over `footprint` bytes, once every line has been visited (or never, where the ring
        is too long to go round).
        """
        lines = footprint // LINE_BYTES
        ring = _ring(lines)
        once = lines if footprint < GIB else 0
        more = min(lines, 20_000)
        first, second = (self._chase_ns(ring, steps) for steps in (once + more, once + 2 * more))
        return (second - first) / more * self._target.max_clock_mhz / 1000

    def flops_per_s(self, kernel: str, per_wave: int) -> float:
        """With every SIMD full of wavefronts; `per_wave` operations of one wavefront."""
        groups, block = self._target.compute_units * 8, 256
        out = BufferValue("out", np.zeros(groups * block, np.float32), True)
        x = ScalarValue("x", np.float32(0.5).tobytes())
        return per_wave * groups * block / 64 / self._ns(kernel, groups, block, (out, x)) * 1e9

    def lds_ns(self, stride: int) -> float:
        """Every compute unit full of wavefronts, so that its LDS is what they wait for."""
        groups = self._target.compute_units * 8
        out = BufferValue("out", np.zeros(groups * 256, np.float32), True)
        return self._ns("lds_reads", groups, 256, (out, ScalarValue("stride", np.int32(stride).tobytes())))

    def _chase_ns(self, ring: np.ndarray[tuple[int], np.dtype[np.uint32]], steps: int) -> float:
        buffers = (BufferValue("next", ring, False), BufferValue("out", np.zeros(1, np.uint32), True))
        return self._ns("chase", 1, 1, (*buffers, ScalarValue("steps", np.int32(steps).tobytes())))

    def _ns(self, kernel: str, groups: int, block: int, arguments: tuple[BufferValue | ScalarValue, ...]) -> float:
        import tempfile

        launch = Launch(self._code, _symbol(self._code, kernel), (groups, 1, 1), (block, 1, 1), 0, arguments)
        with tempfile.TemporaryDirectory() as directory:
            run = self._device.run(launch, database=Path(directory) / "run_results.db", runs=1, counters=())
            return float(read_database(run.database).dispatches.duration_ns[0]) - self._overhead_ns


def _ring(lines: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """Dword indices: each line's first dword names the next line's, in an order without pattern."""
    order = np.random.default_rng(1).permutation(lines).astype(np.uint32)
    ring = np.zeros(lines * (LINE_BYTES // 4), np.uint32)
    ring[order * (LINE_BYTES // 4)] = np.roll(order, -1) * (LINE_BYTES // 4)
    return ring


def _symbol(code: CodeObject, name: str) -> str:
    return next(kernel.symbol for kernel in code.kernels if kernel.symbol.removesuffix(".kd") == name)


def _print(rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("what", "target states", "emulated", "off by", "within", title="timing model against its target")
    for row in rows:
        stated, emulated = f"{row.stated:,.4g} {row.unit}", f"{row.emulated:,.4g}"
        table.add_row(
            row.name, stated, emulated, f"{row.error:+.1%}", f"{row.bound:.0%}" if abs(row.error) <= row.bound else "NO"
        )
    Console().print(table)


if __name__ == "__main__":
    main()
