"""Small kernels from text: description, rewrites by a transform, and outputs on the emulator at the launch of the source."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.device.launch import build_launch
from rocm_perf_lab.languages.compilation import compile_description
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.languages.source_launch import with_source_launch
from rocm_perf_lab.optimize.source_tree import parse_source
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from rocm_perf_lab.device.protocol import Launch
    from rocm_perf_lab.optimize.transforms.base import Rewrite, Transform


def kernel_of(arguments: list[dict[str, Any]], *, grid: list[str], block: list[int], **params: int) -> KernelDescription:
    """Return the description of a kernel `f` in `f.hip`."""
    row = {"name": "f", "source": "f.hip", "entry": "f", "params": params, "arguments": arguments, "grid": grid, "block": block}
    return KernelDescription.model_validate(row)


def buffer(name: str, dtype: str, *shape: str, access: str = "in", seed: int = 1) -> dict[str, Any]:
    """Return a buffer; inputs are normal."""
    init = {"init": {"kind": "normal", "seed": seed}} if access == "in" else {}
    return {"name": name, "kind": "buffer", "dtype": dtype, "shape": list(shape), "access": access, **init}


def size(name: str) -> dict[str, Any]:
    """Return a scalar argument with the value of a param."""
    return {"name": name, "kind": "scalar", "dtype": "i32", "value": name}


def rewrites_of(transform: Transform, text: str) -> tuple[Rewrite, ...]:
    """Return the rewrites of a source with the kernel `f`."""
    return transform.propose(parse_source(text.encode(), "f"))


def reason_of(transform: Transform, text: str) -> str:
    """Return why a transform does not rewrite the kernel `f`."""
    unit = parse_source(text.encode(), "f")
    assert transform.propose(unit) == ()
    return "; ".join(rejection.reason for rejection in transform.rejections(unit))


def emulated(description: KernelDescription, text: str) -> tuple[Launch, Mapping[str, NDArray[Any]]]:
    """Run a source on the emulator with all checks, and return its launch and outputs; findings fail the test."""
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "f.hip"
        source.write_text(text)
        own = with_source_launch(description, source)
        built = compile_description(own, source, architecture="gfx942", compiler=find_compiler)
        launch = build_launch(own, built.code_object, find_kernel(built.code_object, own.entry).symbol, built.contract)
        device = EmulatorDevice(target=load_target("mi300x"), check="all")
        run = device.run(launch, database=Path(directory) / "run_results.db", runs=1, counters=())
        assert run.findings == ()
        return launch, run.outputs
