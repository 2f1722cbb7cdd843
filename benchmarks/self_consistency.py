"""Self-consistency of the timing model: `python -m benchmarks.self_consistency [--quick]`.

Each kernel of `benchmarks/kernels/self_consistency.hip` is limited by one resource. Its emulated time is compared with the
value in `conf/target/mi300x.yaml` that the model uses for this resource. Agreement shows that the model reproduces its own
inputs, not that it agrees with a GPU.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.figures import Publisher
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.device.protocol import BufferValue, Launch, ScalarValue
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.toolchain.build import CompileRequest, compile_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocm_perf_lab.toolchain.code_object import CodeObject

SOURCE = Path(__file__).with_name("kernels") / "self_consistency.hip"
LINE_BYTES = 128
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
LOOP_CYCLES = 24
"""Clocks of a step of a chain of loads beside the latency: address pipe, wait, address calculation and its gap to the load."""


@dataclass(frozen=True)
class Row:
    """Comparison of one emulated value with the target's value.

    Args:
        name: Description of the kernel.
        stated: Value in the target.
        emulated: Value derived from the emulated time.
        unit: Unit of both values.
        bound: Largest accepted relative error.
    """

    name: str
    stated: float
    emulated: float
    unit: str
    bound: float

    @property
    def error(self) -> float:
        """Return the signed relative error."""
        return self.emulated / self.stated - 1


def main(arguments: list[str] | None = None) -> None:
    """Run, print and write the comparisons."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.self_consistency", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a copy of 64 MiB instead of 1 GiB")
    publisher = Publisher("self_consistency", parser, arguments)
    rows = list(comparisons(copy_bytes=64 * MIB if publisher.options.quick else GIB))
    publisher.publish(
        "timing model against its own inputs",
        ("kernel", "target", "emulated", "error", "bound"),
        {row.name: _cells(row) for row in rows},
        [asdict(row) | {"error": row.error} for row in rows],
    )


def comparisons(*, copy_bytes: int = GIB) -> Iterator[Row]:
    """Run every kernel and compare it with the target."""
    bench = ModelProbe()
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
        yield Row(f"dependent loads, {level}", stated + LOOP_CYCLES, bench.load_cycles(footprint), "clocks", 0.15)
    clock, units = target.max_clock_mhz * 1e6, target.compute_units
    vector = target.peaks.vector_flops_per_cu_clock["f32_packed"] * units * clock / 1e12
    yield Row("FMA only, packed f32", vector, bench.flops_per_s("fma_only", 2 * 8 * 2000 * 64) / 1e12, "TFLOP/s", 0.10)
    matrix = target.peaks.matrix_flops_per_cu_clock["f16"] * units * clock / 1e12
    yield Row("MFMA only, f16", matrix, bench.flops_per_s("mfma_only", 4 * 1000 * 2 * 32 * 32 * 8) / 1e12, "TFLOP/s", 0.10)
    for stride in (2, 4, 32):
        # 32 lanes access 32 banks at once: `stride` dwords apart they need `stride` clocks instead of one.
        ratio = bench.lds_ns(stride) / bench.lds_ns(1)
        yield Row(f"LDS reads {stride} dwords apart, relative to adjacent ones", float(stride), ratio, "x", 0.10)


class ModelProbe:
    """The compiled kernels and an emulator that runs them."""

    def __init__(self) -> None:
        self._code = compile_source(CompileRequest(source=SOURCE, architecture="gfx942")).code_object
        self._target = load_target("mi300x")
        self._device = EmulatorDevice(target=self._target, cache="cold")
        timing = self._target.timing
        self._overhead_ns = timing.launch_overhead_ns + timing.dispatch_record_ns if timing else 0

    def copy_gb_per_s(self, nbytes: int) -> float:
        """Return the bandwidth of a copy, reads and writes together."""
        values = np.zeros(nbytes // 4, np.float32)
        buffers = (BufferValue("in", values, False), BufferValue("out", values, True))
        return 2 * nbytes / self._ns("copy", nbytes // 16 // 256, 256, buffers)

    def load_cycles(self, footprint: int) -> float:
        """Return the clocks of one load in a ring over `footprint` bytes.

        Every line has been visited before, except for rings of 1 GiB and more, which are not traversed completely.
        """
        lines = footprint // LINE_BYTES
        ring = _ring(lines)
        once = lines if footprint < GIB else 0
        more = min(lines, 20_000)
        first, second = (self._chase_ns(ring, steps) for steps in (once + more, once + 2 * more))
        return (second - first) / more * self._target.max_clock_mhz / 1000

    def flops_per_s(self, kernel: str, per_wave: int) -> float:
        """Return the rate with every SIMD full of wavefronts, each of `per_wave` operations."""
        groups, block = self._target.compute_units * 8, 256
        out = BufferValue("out", np.zeros(groups * block, np.float32), True)
        x = ScalarValue("x", np.float32(0.5).tobytes())
        return per_wave * groups * block / 64 / self._ns(kernel, groups, block, (out, x)) * 1e9

    def lds_ns(self, stride: int) -> float:
        """Return the time with every compute unit full of wavefronts, so that LDS limits them."""
        groups = self._target.compute_units * 8
        out = BufferValue("out", np.zeros(groups * 256, np.float32), True)
        return self._ns("lds_reads", groups, 256, (out, ScalarValue("stride", np.int32(stride).tobytes())))

    def _chase_ns(self, ring: np.ndarray[tuple[int], np.dtype[np.uint32]], steps: int) -> float:
        buffers = (BufferValue("next", ring, False), BufferValue("out", np.zeros(1, np.uint32), True))
        return self._ns("chase", 1, 1, (*buffers, ScalarValue("steps", np.int32(steps).tobytes())))

    def _ns(self, kernel: str, groups: int, block: int, arguments: tuple[BufferValue | ScalarValue, ...]) -> float:
        launch = Launch(self._code, _symbol(self._code, kernel), (groups, 1, 1), (block, 1, 1), 0, arguments)
        with tempfile.TemporaryDirectory() as directory:
            run = self._device.run(launch, database=Path(directory) / "run_results.db", runs=1, counters=())
            return float(read_database(run.database).dispatches.duration_ns[0]) - self._overhead_ns


def _ring(lines: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """Return dword indices: the first dword of each line holds the index of the next line, in random order."""
    order = np.random.default_rng(1).permutation(lines).astype(np.uint32)
    ring = np.zeros(lines * (LINE_BYTES // 4), np.uint32)
    ring[order * (LINE_BYTES // 4)] = np.roll(order, -1) * (LINE_BYTES // 4)
    return ring


def _symbol(code: CodeObject, name: str) -> str:
    return next(kernel.symbol for kernel in code.kernels if kernel.symbol.removesuffix(".kd") == name)


def _cells(row: Row) -> tuple[str, ...]:
    bound = f"{row.bound:.0%}" if abs(row.error) <= row.bound else f"exceeds {row.bound:.0%}"
    return row.name, f"{row.stated:,.4g} {row.unit}", f"{row.emulated:,.4g}", f"{row.error:+.1%}", bound


if __name__ == "__main__":
    main()
