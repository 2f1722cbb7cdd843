"""Typical kernels, compiled at several optimisation levels, against NumPy."""

from __future__ import annotations

import zlib
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.builders.emulation import EmulatorBench
from tests.builders.kernels import build_hip
from tests.emulator.corpus.case import Case, cases_of, check

if TYPE_CHECKING:
    from rocm_perf_lab.toolchain.code_object import CodeObject

CORPUS = Path(__file__).parent / "corpus"
THEMES = sorted(source.stem for source in CORPUS.glob("*.hip"))
CASES = [case for theme in THEMES for case in cases_of(import_module(f"tests.emulator.corpus.{theme}"))]


@cache
def code_object(theme: str, optimisation: str) -> CodeObject:
    """Compile a source of the corpus once."""
    with TemporaryDirectory() as directory:
        source = (CORPUS / f"{theme}.hip").read_text()
        return build_hip(source, Path(directory), optimisation=optimisation).code_object


@pytest.mark.parametrize("optimisation", [*(pytest.param(level, marks=pytest.mark.slow) for level in ("-O1", "-O2")), "-O3"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.theme}-{case.kernel}")
def test_a_kernel_agrees_with_its_reference(case: Case, optimisation: str) -> None:
    run = case.make(np.random.default_rng(zlib.crc32(case.kernel.encode())))

    with EmulatorBench(code_object(case.theme, optimisation)) as bench:
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
        kernels = {kernel.symbol.removesuffix(".kd") for kernel in code_object(theme, "-O3").kernels}
        assert kernels == {case.kernel for case in CASES if case.theme == theme}
