"""Typical kernels, compiled at several optimisation levels for each emulated architecture, against NumPy."""

from __future__ import annotations

import zlib
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rocm_perf_lab.arch.registry import emulated_architectures, load_architecture
from tests.builders.emulation import EmulatorBench
from tests.builders.kernels import build_hip
from tests.emulator.corpus.case import Case, cases_of, check

if TYPE_CHECKING:
    from rocm_perf_lab.toolchain.code_object import CodeObject

CORPUS = Path(__file__).parent / "corpus"
THEMES = sorted(source.stem for source in CORPUS.glob("*.hip"))
CASES = [case for theme in THEMES for case in cases_of(import_module(f"tests.emulator.corpus.{theme}"))]


ARCHITECTURES = [name for name in emulated_architectures() if load_architecture(name).wave_sizes == (64,)]
"""RDNA2 has its own selection, in tests/emulator/architectures."""
REFERENCE = "gfx942"
LEVELS = ("-O1", "-O2", "-O3")
SAMPLE = {
    "gfx90a": {"f32_32x32x2bf16", "gemm_pairs", "multiply_and_add", "unsafe_sums", "double_atomics", "attention", "accumulators"},
    "gfx950": {
        "f32_16x16x32_bf16", "scaled_16_fp6_bf6", "scaled_32_fp8_fp4", "large_lds", "large_dynamic_lds", "transposing_reads",
        "transposed_gemm", "wide_loads_to_lds", "lane_swaps", "tables_of_bits", "pair_atomics", "widened", "extremes",
        "sparse_i32_16x16x128_i8",
    },
}  # fmt: skip
"""Kernels at -O3 in the slow suite; those of the reference are all there. `make corpus` runs everything."""


def marks(case: Case, architecture: str, level: str) -> Any:
    """Return the suite of a run."""
    if level != "-O3":
        return pytest.mark.corpus
    if architecture == REFERENCE:
        return ()
    return pytest.mark.slow if case.kernel in SAMPLE[architecture] else pytest.mark.corpus


RUNS = [
    pytest.param(case, architecture, level, marks=marks(case, architecture, level))
    for architecture in ARCHITECTURES
    for level in LEVELS
    for case in CASES
    if case.runs_on(architecture)
]


def name(value: Case | str) -> str:
    """Return the part of a test's name for a parameter."""
    return f"{value.theme}-{value.kernel}" if isinstance(value, Case) else value


@cache
def code_object(theme: str, optimisation: str, architecture: str) -> CodeObject:
    """Compile a source of the corpus once."""
    with TemporaryDirectory() as directory:
        source = (CORPUS / f"{theme}.hip").read_text()
        return build_hip(source, Path(directory), optimisation=optimisation, architecture=architecture).code_object


@pytest.mark.parametrize(("case", "architecture", "optimisation"), RUNS, ids=name)
def test_a_kernel_agrees_with_its_reference(case: Case, architecture: str, optimisation: str) -> None:
    compiled = code_object(case.theme, optimisation, architecture)
    run = case.make(np.random.default_rng(zlib.crc32(case.kernel.encode())))

    with EmulatorBench(compiled) as bench:
        arguments = [
            bench.buffer(argument, f"argument {position}")
            if isinstance(argument, np.ndarray)
            else argument
            if isinstance(argument, bytes)
            else argument.tobytes()
            for position, argument in enumerate(run.arguments)
        ]
        bench.launch(case.kernel, case.grid, case.block, *arguments, lds=case.lds)

        for position, before in enumerate(run.arguments):
            if isinstance(before, np.ndarray):
                buffer = arguments[position]
                assert not isinstance(buffer, bytes)
                result = np.frombuffer(bench.machine.read(buffer), before.dtype).reshape(before.shape)
                if position in run.sorted_buffers:
                    result = np.sort(result)
                check(result, run.expected.get(position, before), run, f"argument {position}")


@pytest.mark.parametrize(
    "architecture", [pytest.param(name, marks=() if name == REFERENCE else pytest.mark.slow) for name in ARCHITECTURES]
)
def test_every_kernel_of_the_corpus_has_a_case(architecture: str) -> None:
    for theme in THEMES:
        kernels = {kernel.symbol.removesuffix(".kd") for kernel in code_object(theme, "-O3", architecture).kernels}
        assert kernels == {case.kernel for case in CASES if case.theme == theme and case.runs_on(architecture)}, theme


def test_every_architecture_has_sixty_kernels_and_the_sample_names_some_of_them() -> None:
    for architecture in ARCHITECTURES:
        kernels = [case.kernel for case in CASES if case.runs_on(architecture)]
        assert len(kernels) == len({(case.theme, case.kernel) for case in CASES if case.runs_on(architecture)}) >= 60
        assert SAMPLE.get(architecture, set()) <= set(kernels)
