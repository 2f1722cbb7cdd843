"""Whole programs from their sources on the runtime of this package: right results, AMD's output, no false finding."""

from pathlib import Path

import pytest

from benchmarks.applications.measures import Run
from benchmarks.applications.outputs import recorded_outputs
from benchmarks.applications.programs import SOURCES, Program
from tests.builders.program_cases import program_cases

_IN_SLOW_SUITE = (
    "atomics", "device_printf", "device_symbols", "fft", "gemm_mfma_bf16", "graph_capture", "graph_explicit", "grid_sync",
    "ipc_processes", "managed_memory", "producer_consumer", "rtc_module", "scan_lookback", "softmax", "spin_lock",
    "streams_events", "two_gpus",
)  # fmt: skip
"""One program of each kind."""


@pytest.mark.parametrize("source", program_cases(sorted(SOURCES.glob("*.hip")), _IN_SLOW_SUITE))
def test_program_passes_all_checks_with_the_output_of_amds_runtime(source: Path) -> None:
    program = Program(source)
    run = Run.of(program.lab_command(["--check", "all"]))
    assert run.exit_code == 0, f"{run.output[-2000:]}\n{run.errors[-4000:]}"
    assert run.output == recorded_outputs()[program.name]
