"""Thread traces of the emulator, written and read like those of a GPU: the budget names the limit of each kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from benchmarks.ledger.cases import KERNELS, Written
from benchmarks.ledger.development import DEVELOPMENT
from rocm_perf_lab.analysis.ledger import Cause, HardwareUnit
from rocm_perf_lab.analysis.thread_trace import ThreadTrace, analyse
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.device.protocol import BufferValue, Launch, ScalarValue
from rocm_perf_lab.profiling.passes import run_passes
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.toolchain.build import CompileRequest, compile_source
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel

if TYPE_CHECKING:
    from pathlib import Path

WORKGROUPS = 8
"""One workgroup for each of as many compute units."""


def traced(kernel: str, directory: Path) -> ThreadTrace:
    case = next(case for case in DEVELOPMENT if case.kernel == kernel)
    code = compile_source(CompileRequest(source=KERNELS / case.source, architecture="gfx942")).code_object
    arguments: list[BufferValue | ScalarValue] = []
    for number, value in enumerate(case.arguments()):
        if isinstance(value, Written):
            arguments.append(BufferValue(f"out{number}", value.data, written=True))
        elif isinstance(value, np.ndarray):
            arguments.append(BufferValue(f"in{number}", value, written=False))
        else:
            arguments.append(ScalarValue(f"value{number}", value.tobytes()))
    symbol = find_kernel(code, kernel).symbol
    launch = Launch(code, symbol, (WORKGROUPS, 1, 1), (case.block, 1, 1), 0, tuple(arguments))
    device = EmulatorDevice(target=load_target("mi300x"))
    passes = run_passes(device, launch, directory=directory, runs=1, counters=(), att=directory / "att")
    assert passes.att is not None
    assert passes.att.provenance.architecture == "gfx942"
    result = analyse(passes.att)
    assert isinstance(result, ThreadTrace)
    return result


@pytest.mark.parametrize(
    ("kernel", "cause"),
    [
        ("batched_lu", Cause.LDS_BANK_CONFLICTS),
        ("quantise_groups", Cause.BARRIER_IMBALANCE),
        ("cell_list_forces", Cause.SCALAR_LATENCY),
        ("median_49", Cause.REGISTER_SPILLS),
    ],
)
def test_the_largest_loss_is_the_one_that_the_kernel_was_written_for(kernel: str, cause: Cause, tmp_path: Path) -> None:
    budget = traced(kernel, tmp_path).budget

    assert budget is not None
    assert budget.binding is not None
    assert budget.lost[0].cause is cause
    assert budget.lost[0].share > 0.3
    assert budget.use[budget.binding] + sum(one.share for one in budget.lost) + budget.unexplained == pytest.approx(1)
    assert budget.unexplained < 0.01


def test_arithmetic_is_near_the_vector_unit(tmp_path: Path) -> None:
    result = traced("polynomials", tmp_path)

    assert result.budget is not None
    assert result.budget.binding is HardwareUnit.VALU
    assert result.budget.use[HardwareUnit.VALU] > 0.4
    # One wavefront per SIMD cannot issue two vector instructions at a time.
    assert result.budget.co_issue == 1
    assert (result.coverage.waves, result.coverage.compute_units, result.coverage.is_partial) == (4, 1, False)
