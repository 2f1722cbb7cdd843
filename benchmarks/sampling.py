"""Cost and stability of sampled timing: `python -m benchmarks.sampling [--seeds N]`.

Runs kernels on the emulator without timing and with the default sample, and prints the processor time of both and the spread of
the emulated time over seeds. Kernels whose workgroups at predictable positions return immediately must not appear faster.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.figures import Publisher
from rocm_perf_lab.device.emulated_time import estimate_launch
from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.emulator.sampling import DEFAULT_SAMPLE, SamplePolicy
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.toolchain.build import CompileRequest, compile_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.launching import LaunchResult
    from rocm_perf_lab.emulator.memory import Allocation

SOURCE = Path(__file__).with_name("kernels") / "sampling.hip"
BLOCK = 256
MIB = 1 << 20
_REPEATS = 3
_GOLDEN_RATIO = 0.6180339887498949


@dataclass(frozen=True)
class Case:
    """One launch with workgroups of 256 work-items; arrays are buffers, integers are `int` arguments."""

    name: str
    kernel: str
    workgroups: int
    arguments: tuple[NDArray[np.generic] | int, ...]


@dataclass(frozen=True)
class Row:
    """Result of one case: processor seconds, and emulated nanoseconds by seed."""

    name: str
    workgroups: int
    plain_s: float
    traced_s: float
    """Launch with the default sample."""
    timed_s: float
    """The same with the estimate of the time."""
    emulated_ns: tuple[int, ...]

    @property
    def cost(self) -> float:
        """Processor time with timing relative to plain emulation."""
        return self.timed_s / self.plain_s

    @property
    def spread(self) -> float:
        """Range of the emulated times relative to their mean."""
        return (max(self.emulated_ns) - min(self.emulated_ns)) / float(np.mean(self.emulated_ns))


def main(arguments: list[str] | None = None) -> None:
    """Run, print and write the measurements."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sampling", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=6, help="number of seeds (default: 6)")
    parser.add_argument("--only", nargs="*", default=[], help="words in the names of the cases to run")
    publisher = Publisher("sampling", parser, arguments)
    options = publisher.options
    bench = SamplingBench()
    chosen = [case for case in cases() if not options.only or any(word in case.name for word in options.only)]
    rows = [bench.measure(case, options.seeds) for case in chosen]
    publisher.publish(
        "cost of timing and spread over seeds",
        ("launch", "workgroups", "plain, s", "with traces", "with timing", "emulated, us", "spread over seeds"),
        {row.name: _cells(row) for row in rows},
        [asdict(row) | {"cost": row.cost, "spread": row.spread} for row in rows],
        width=140,
    )


def cases() -> Iterator[Case]:
    """Yield the launches; all inputs are reproducible."""
    random = np.random.default_rng(1)
    table = np.ones(MIB, np.float32)
    out = np.zeros(4 * MIB, np.float32)
    yield Case("copy of 128 MiB", "copy", 8 * MIB // BLOCK, (np.ones(32 * MIB, np.float32), np.full(32 * MIB, -1, np.float32)))
    yield Case("uniform, loads", "rows", 4096, (table, out, MIB, 100))
    yield Case("uniform, arithmetic", "arithmetic", 4096, (out, 400))
    yield Case("ragged (Pareto)", "ragged", 4096, (_pareto(random, 4096), table, out, MIB))
    yield Case("64 long workgroups, loads", "rows", 64, (table, out, MIB, 5000))
    yield Case("16 long workgroups, loads", "rows", 16, (table, out, MIB, 20_000))
    yield Case("16 long workgroups, arithmetic", "arithmetic", 16, (out, 60_000))
    yield Case("queue of tiles", "queue", 304, (np.zeros(1, np.int32), out, out, 8192))
    works = np.ones(4096, np.int32)
    yield Case("all workgroups work", "lazy", 4096, (works, out, 400))
    yield Case("idle at 16 predictable positions", "lazy", 4096, (_idle(works, _predictable(4096, 16)), out, 400))
    yield Case("idle in every 16th workgroup", "lazy", 4096, (_idle(works, np.arange(0, 4096, 16)), out, 400))
    yield Case("1 of 4096 works", "lazy", 4096, (_idle(works, np.delete(np.arange(4096), 2741)), out, 400))


def _pareto(random: np.random.Generator, count: int) -> NDArray[np.int32]:
    return np.minimum(random.pareto(1.2, count) * 2000, 400_000).astype(np.int32)


def _predictable(total: int, wanted: int) -> NDArray[np.int64]:
    """Return the positions of the former sample: the golden ratio in each of `wanted` equal parts."""
    borders = [n * total // wanted for n in range(wanted + 1)]
    places = [first + int((n + 1) * _GOLDEN_RATIO % 1 * (end - first)) for n, (first, end) in enumerate(pairwise(borders))]
    return np.array(places, np.int64)


def _idle(works: NDArray[np.int32], positions: NDArray[np.int64]) -> NDArray[np.int32]:
    changed = works.copy()
    changed[positions] = 0
    return changed


class SamplingBench:
    """The compiled kernels and emulators that run them."""

    def __init__(self) -> None:
        self._code = compile_source(CompileRequest(source=SOURCE, architecture="gfx942")).code_object
        self._target = load_target("mi300x")

    def measure(self, case: Case, seeds: int) -> Row:
        """Run a case without and with timing, and once for each seed."""
        self._run(case, DEFAULT_SAMPLE)  # translates the kernel
        plain = min(self._run(case, None)[0] for _ in range(_REPEATS))
        timed = [self._run(case, DEFAULT_SAMPLE) for _ in range(_REPEATS)]
        emulated = tuple(self._run(case, SamplePolicy(DEFAULT_SAMPLE.workgroups, seed))[2] for seed in range(seeds))
        return Row(
            case.name, case.workgroups, plain, min(run[0] for run in timed), min(run[0] + run[1] for run in timed), emulated
        )

    def _run(self, case: Case, policy: SamplePolicy | None) -> tuple[float, float, int]:
        """Return processor seconds of launch and estimate, and the emulated nanoseconds (0 without a policy)."""
        with EmulatedGpu(self._target, max_instructions=10**11, threads=2, sample=policy) as machine:
            loaded = machine.load(self._code)
            arguments = [self._argument(machine, value) for value in case.arguments]
            start = time.process_time()
            result = machine.launch(loaded, case.kernel, (case.workgroups, 1, 1), (BLOCK, 1, 1), arguments)
            launched = time.process_time()
            if policy is None:
                return launched - start, 0.0, 0
            buffers = [value for value in arguments if not isinstance(value, bytes)]
            duration = self._estimate(case, result, buffers)
            return launched - start, time.process_time() - launched, duration

    def _estimate(self, case: Case, result: LaunchResult, buffers: list[Allocation]) -> int:
        kernel = next(kernel for kernel in self._code.kernels if kernel.symbol == case.kernel)
        estimate = estimate_launch(self._target, kernel, result, block=(BLOCK, 1, 1), dynamic_lds_bytes=0, buffers=buffers)
        return estimate.duration_ns

    @staticmethod
    def _argument(machine: EmulatedGpu, value: NDArray[np.generic] | int) -> Allocation | bytes:
        if isinstance(value, int):
            return np.int32(value).tobytes()
        allocation = machine.allocate("buffer", value.nbytes)
        machine.write(allocation, value)
        machine.memory.set_image(allocation, value)
        return allocation


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.name,
        f"{row.workgroups:,}",
        f"{row.plain_s:.3f}",
        f"{row.traced_s / row.plain_s:.2f} x",
        f"{row.cost:.2f} x",
        f"{float(np.mean(row.emulated_ns)) / 1000:,.1f}",
        f"{row.spread:.1%}",
    )


if __name__ == "__main__":
    main()
