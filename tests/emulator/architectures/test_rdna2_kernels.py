"""Kernels on RDNA2 in wavefronts of 32 and 64 lanes, in CU and WGP mode and at three optimisation levels, against NumPy."""

from __future__ import annotations

import zlib
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.builders.emulation import EmulatorBench
from tests.builders.kernels import build_hip
from tests.builders.rdna2 import ARCHITECTURE
from tests.emulator import test_corpus
from tests.emulator.corpus.case import Case, cases_of, check
from tests.emulator.corpus.rdna2 import lanes

if TYPE_CHECKING:
    from rocm_perf_lab.toolchain.code_object import CodeObject

OWN = cases_of(lanes)
SHARED = [case for case in test_corpus.CASES if case.theme != "matrices" and all(map(case.runs_on, test_corpus.ARCHITECTURES))]
MODES = {"wave32": (), "wave32-cu": ("-mcumode",), "wave64": ("-mwavefrontsize64",)}
NEEDS_64_LANES = {"returned_values"}
"""Its work-items take turns within one wavefront."""
NOT_FOR_GFX10 = {"packed_floats", "reduce_dpp", "dpp_patterns", "reduce_shuffles", "votes", "waterfall", "permutes",
                 "eight_bit_floats"}  # fmt: skip
"""Kernels of the shared corpus that need instructions of CDNA, or wavefronts of 64 lanes by their source."""
SAMPLE = 6
ALL_SHARED = [
    case
    for case in SHARED
    if case.kernel not in NEEDS_64_LANES and not (case.theme in ("waves", "atomics", "packed") and case.kernel in NOT_FOR_GFX10)
]


@cache
def code_object(theme: str, optimisation: str, mode: str) -> CodeObject:
    """Compile a source of the corpus once."""
    folder = test_corpus.CORPUS / ("rdna2" if theme == "lanes" else "")
    with TemporaryDirectory() as directory:
        source = (folder / f"{theme}.hip").read_text()
        built = build_hip(source, Path(directory), optimisation=optimisation, architecture=ARCHITECTURE, flags=MODES[mode])
        return built.code_object


def run_case(case: Case, optimisation: str, mode: str) -> None:
    compiled = code_object(case.theme, optimisation, mode)
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
                check(result, run.expected.get(position, before), run, f"{case.kernel} argument {position}")


@pytest.mark.parametrize("mode", ["wave32", "wave64"])
@pytest.mark.parametrize("case", OWN, ids=lambda case: case.kernel)
def test_a_kernel_for_either_wave_size_agrees_with_its_reference(case: Case, mode: str) -> None:
    run_case(case, "-O3", mode)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(SAMPLE))
def test_a_sample_of_the_corpus_agrees_with_its_references(number: int) -> None:
    mode = list(MODES)[number % len(MODES)]
    level = test_corpus.LEVELS[number // 2 % len(test_corpus.LEVELS)]
    theme = ("control", "packed", "integers", "atomics", "waves", "elementwise")[number]
    cases = [case for case in ALL_SHARED if case.theme == theme]

    for case in cases:
        run_case(case, level, mode)

    assert len(cases) >= 5


@pytest.mark.corpus
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("level", test_corpus.LEVELS)
@pytest.mark.parametrize("case", [*OWN, *ALL_SHARED], ids=lambda case: f"{case.theme}-{case.kernel}")
def test_the_whole_corpus_agrees_with_its_references(case: Case, level: str, mode: str) -> None:
    run_case(case, level, mode)


def test_the_corpus_has_enough_kernels() -> None:
    assert len({(case.theme, case.kernel) for case in [*OWN, *ALL_SHARED]}) >= 60
