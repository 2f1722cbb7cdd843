"""Typical kernels, compiled at several optimisation levels for each emulated architecture, against NumPy."""

from __future__ import annotations

import zlib
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.arch.registry import emulated_architectures
from tests.builders.emulation import EmulatorBench
from tests.builders.kernels import build_hip
from tests.emulator.corpus.case import Case, cases_of, check

if TYPE_CHECKING:
    from rocm_perf_lab.toolchain.code_object import CodeObject

CORPUS = Path(__file__).parent / "corpus"
THEMES = sorted(source.stem for source in CORPUS.glob("*.hip"))
CASES = [case for theme in THEMES for case in cases_of(import_module(f"tests.emulator.corpus.{theme}"))]


FULLY_TESTED = "gfx942"
LEVELS = ("-O1", "-O2", "-O3")
BUILDS = [
    pytest.param(architecture, level, marks=() if level == "-O3" and architecture == FULLY_TESTED else pytest.mark.slow)
    for architecture in emulated_architectures()
    for level in LEVELS
]


@cache
def code_object(theme: str, optimisation: str, architecture: str) -> CodeObject:
    """Compile a source of the corpus once."""
    with TemporaryDirectory() as directory:
        source = (CORPUS / f"{theme}.hip").read_text()
        return build_hip(source, Path(directory), optimisation=optimisation, architecture=architecture).code_object


@pytest.mark.parametrize(("architecture", "optimisation"), BUILDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.theme}-{case.kernel}")
def test_a_kernel_agrees_with_its_reference(case: Case, architecture: str, optimisation: str) -> None:
    compiled = code_object(case.theme, optimisation, architecture)
    if case.kernel not in _kernels(compiled):
        pytest.skip(f"{architecture} does not have the instruction of this kernel")
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
                check(result, run.expected.get(position, before), run, f"argument {position}")


def test_every_kernel_of_the_corpus_has_a_case() -> None:
    for theme in THEMES:
        assert _kernels(code_object(theme, "-O3", FULLY_TESTED)) == {case.kernel for case in CASES if case.theme == theme}


def _kernels(compiled: CodeObject) -> set[str]:
    return {kernel.symbol.removesuffix(".kd") for kernel in compiled.kernels}
