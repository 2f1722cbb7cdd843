"""Labels checked without the judge: `python -m benchmarks.judge.oracle [--kernels NAME]... [--candidates NAME]...`.

Every source runs on the emulator with many shapes, scalars and inputs, and its outputs are compared with the reference of the
kernel in float64. The cases are exhaustive for small sizes, one size parameter at a time, and include sizes around powers of two.
A case counts only if the unmodified kernel agrees with the reference. No guard, trial or memory check of the judge is used, but
an access outside all buffers ends a run.

A legitimate candidate that disagrees is an error of the corpus. A wrong candidate that agrees in all cases is listed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from benchmarks.judge.corpus import TARGET, kernel_names, load_kernel, select_candidates
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.expressions import evaluate_integer
from rocm_perf_lab.device.emulator import launch_loaded
from rocm_perf_lab.device.launch import build_launch
from rocm_perf_lab.device.protocol import BufferValue
from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.languages.arguments import BufferArgument, ScalarArgument
from rocm_perf_lab.languages.compilation import compile_description
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel
from rocm_perf_lab.verify.reference import expected_outputs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.device.protocol import Launch
    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.toolchain.build import BuildResult

Params = Mapping[str, int | float | str]
Variant = Literal["as described", "negative", "constant", "sorted", "shifted", "sparse", "large", "repeated", "special"]
VARIANTS: tuple[Variant, ...] = ("negative", "constant", "sorted", "shifted", "sparse", "large", "repeated", "special")
_LARGE = 200.0
_SPECIALS = (np.nan, np.inf, -np.inf, 3.0e4, -3.0e4)
_EVERY_SIZE = (*range(1, 34), 47, *range(62, 68))
_LANDMARKS = (96, 100, 127, 128, 129, 255, 256, 257, 300, 511, 513, 1000, 1024, 1025, 1030, 2049, 4100)
_SMALL = (3, 5, 7, 2)
_MOST_ELEMENTS = 60_000
_SCALARS = (0.0, 1.0, -1.0, 0.25, -2.5)
_MARGIN = 8.0
"""Factor on the tolerance of the kernel above which a candidate is wrong beyond doubt; half of it for the unmodified kernel."""
_DEFAULT_TOLERANCE = (1e-5, 1e-6)
_BUDGET = 30_000_000


@dataclass(frozen=True)
class OracleCase:
    """Params and inputs of one run."""

    params: Params
    variant: Variant = "as described"

    def __str__(self) -> str:
        return f"{dict(self.params)}, inputs {self.variant}"


@dataclass(frozen=True)
class Disagreement:
    """Case in which a source differs from the reference, and how."""

    case: OracleCase
    what: str


class Oracle:
    """Comparison of sources of one kernel with its NumPy reference.

    Args:
        description: Kernel with a reference.
    """

    def __init__(self, description: KernelDescription) -> None:
        self._description = description
        self._target = load_target(TARGET)
        self._compiler = find_compiler()
        self._builds: dict[tuple[Path, tuple[tuple[str, str], ...]], BuildResult] = {}
        self._supported: dict[str, bool] = {}
        self.cases = tuple(case for case in _cases(description) if _elements(description, case.params) <= _MOST_ELEMENTS)

    def disagreement(self, source: Path, extra: Sequence[Params] = ()) -> Disagreement | None:
        """Return the first case in which the source is wrong, or None if it agrees in all.

        Args:
            source: Source of a candidate.
            extra: Params to try before all others.

        Raises:
            LabError: The source does not compile.
        """
        self._build(source, self._description)
        variants: tuple[Variant, ...] = ("as described", *VARIANTS)
        tried = [OracleCase({**self._description.params, **params}, variant) for params in extra for variant in variants]
        for case in (*tried, *self.cases):
            what = self._difference(source, case, _MARGIN)
            if what is not None and self._supports(case):
                return Disagreement(case, what)
        return None

    def _supports(self, case: OracleCase) -> bool:
        """Return whether the unmodified kernel agrees with the reference."""
        key = str(case)
        if key not in self._supported:
            self._supported[key] = self._difference(self._description.source_path, case, _MARGIN / 2) is None
        return self._supported[key]

    def _difference(self, source: Path, case: OracleCase, margin: float) -> str | None:
        description = self._description.model_copy(update={"params": dict(case.params)})
        try:
            build = self._build(source, description)
            symbol = find_kernel(build.code_object, description.entry).symbol
            launch = _with_inputs(build_launch(description, build.code_object, symbol, build.contract), description, case.variant)
            with np.errstate(all="ignore"):
                expected = expected_outputs(description, launch)
            assert expected is not None, "every kernel of the corpus has a reference"
            got = self._run(launch)
        except LabError as error:
            return error.what
        return next((text for n in expected if (text := _compared(n, got[n], expected[n], description, margin))), None)

    def _build(self, source: Path, description: KernelDescription) -> BuildResult:
        key = (source, tuple(sorted(description.compile_defines().items())))
        if key not in self._builds:
            self._builds[key] = compile_description(
                description, source, architecture=self._target.architecture, compiler=lambda: self._compiler
            )
        return self._builds[key]

    def _run(self, launch: Launch) -> dict[str, NDArray[Any]]:
        values = [a for a in launch.arguments if isinstance(a, BufferValue)]
        with EmulatedGpu(self._target, max_instructions=_BUDGET) as machine:
            loaded = machine.load(launch.code_object)
            buffers = {a.name: machine.allocate(a.name, a.data.nbytes) for a in values}
            for value in values:
                machine.write(buffers[value.name], value.data)
            launch_loaded(machine, loaded, launch, buffers)
            return {a.name: np.frombuffer(machine.read(buffers[a.name]), a.data.dtype).reshape(a.data.shape) for a in values}


def _cases(description: KernelDescription) -> Iterator[OracleCase]:
    """Yield the described params, every small size, landmarks, scalars, and other inputs, in order of cost."""
    given = dict(description.params)
    sizes = [name for name, value in given.items() if isinstance(value, int) and _is_size(description, name)]
    small = {name: min(int(given[name]), _SMALL[i % len(_SMALL)]) for i, name in enumerate(sizes)}
    medium = {name: min(int(given[name]), 37) for name in sizes}
    none: dict[str, int] = {}
    for name in sizes:
        for value in _EVERY_SIZE:
            yield OracleCase({**given, **small, name: value})
        for value in _LANDMARKS:
            yield OracleCase({**given, **small, name: value})
    for name, value in given.items():
        if isinstance(value, float):
            yield from (OracleCase({**given, **medium, name: other}) for other in _SCALARS)
    for variant in VARIANTS:
        yield from (OracleCase({**given, **sized}, variant) for sized in (small, medium, none))
    yield OracleCase(given)


def _elements(description: KernelDescription, params: Params) -> int:
    """Return the number of elements of the largest buffer."""
    buffers = [a for a in description.arguments if isinstance(a, BufferArgument)]
    return max(prod(evaluate_integer(e, params, where="shape") for e in buffer.shape) for buffer in buffers)


def _is_size(description: KernelDescription, name: str) -> bool:
    """Return whether a param occurs in the shape of a buffer or in a scalar argument, but not in the compiled code."""
    fixed = " ".join(map(str, (*description.defines.values(), *description.block)))
    shapes = " ".join(str(e) for a in description.arguments if isinstance(a, BufferArgument) for e in a.shape)
    values = " ".join(str(a.value) for a in description.arguments if isinstance(a, ScalarArgument))
    return name in _words(f"{shapes} {values}") and name not in _words(fixed)


def _words(text: str) -> set[str]:
    return set("".join(c if c.isalnum() or c == "_" else " " for c in text).split())


def _with_inputs(launch: Launch, description: KernelDescription, variant: Variant) -> Launch:
    kinds = {a.name: a for a in description.arguments if isinstance(a, BufferArgument)}
    arguments = tuple(
        replace(a, data=_varied(a.data, variant)) if isinstance(a, BufferValue) and _is_float_input(a, kinds) else a
        for a in launch.arguments
    )
    return replace(launch, arguments=arguments)


def _is_float_input(value: BufferValue, kinds: Mapping[str, BufferArgument]) -> bool:
    return value.name in kinds and value.is_set and value.data.dtype.kind not in "biu"


def _varied(data: NDArray[Any], variant: Variant) -> NDArray[Any]:
    values = data.astype(np.float64)
    match variant:
        case "negative":
            changed = -np.abs(values) - 1
        case "constant":
            changed = np.full_like(values, 0.75)
        case "sorted":
            changed = np.sort(values, axis=-1)
        case "shifted":
            changed = values + 3
        case "sparse":
            changed = np.where(np.arange(values.size).reshape(values.shape) % 5 == 0, values, 0)
        case "large":
            changed = -np.abs(values) * _LARGE - _LARGE
        case "repeated":
            changed = values.reshape(-1)[np.arange(values.size) % 3].reshape(values.shape)
        case "special":
            changed = values.copy().reshape(-1)
            changed[np.arange(0, values.size, 17)] = np.resize(_SPECIALS, -(-values.size // 17))
            changed = changed.reshape(values.shape)
        case _:
            changed = values
    result: NDArray[Any] = changed.astype(data.dtype)
    return result


def _compared(name: str, got: NDArray[Any], want: NDArray[Any], description: KernelDescription, margin: float) -> str | None:
    if want.dtype.kind in "biu":
        difference = np.abs(got.astype(np.float64) - want.astype(np.float64))
        limit = np.zeros(want.shape)
    else:
        given = description.tolerance.get(name)
        rtol, atol = (given.rtol, given.atol) if given is not None else _DEFAULT_TOLERANCE
        with np.errstate(invalid="ignore"):
            difference = np.abs(got.astype(np.float64) - want.astype(np.float64))
            limit = np.nan_to_num(margin * (atol + rtol * np.abs(want.astype(np.float64))), posinf=0.0)
    both_nan = np.isnan(got.astype(np.float64)) & np.isnan(want.astype(np.float64))
    wrong = ~((difference <= limit) | both_nan | (got == want))
    if not wrong.any():
        return None
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{name}{list(place)} is {got[place]} instead of {want[place]}, {int(wrong.sum())} of {wrong.size} elements differ"


def check_kernel(name: str, chosen: Sequence[str] = ()) -> list[str]:
    """Return one line per candidate of a kernel; lines of labels that are wrong or not shown start with a mark."""
    description = load_kernel(name)
    oracle = Oracle(description)
    lines = [f"{name}: {len(oracle.cases)} cases"]
    with TemporaryDirectory(prefix="oracle-") as directory:
        for candidate in load_chosen(name, chosen):
            entry = candidate.entry
            source = candidate.write(Path(directory), description.source.name)
            try:
                found = oracle.disagreement(source, (entry.witness,) if entry.witness else ())
            except LabError as error:
                mark, what = ("ok" if entry.refused else "DOES NOT COMPILE"), f"does not compile: {error.what[:300]}"
            else:
                mark, what = _mark(entry.verdict, found), f"{found.what} with {found.case}" if found else "agrees in all cases"
            lines.append(f"{mark:16} {name:16} {entry.verdict:10} {entry.name:30} {what}")
            print(lines[-1], file=sys.stderr, flush=True)
    return lines


def load_chosen(name: str, chosen: Sequence[str]) -> Sequence[Any]:
    """Return the candidates of a kernel, or those with the given names."""
    candidates = select_candidates([name]).get(name, ())
    return [c for c in candidates if not chosen or c.entry.name in chosen]


def _mark(verdict: str, found: Disagreement | None) -> str:
    if verdict == "legitimate":
        return "ok" if found is None else "NOT LEGITIMATE"
    return "ok" if found is not None else "not shown"


def main(arguments: list[str] | None = None) -> None:
    """Print the result per candidate; exit with 1 if a label is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judge.oracle", description="Check the labels of the corpus.")
    parser.add_argument("--kernels", nargs="+", choices=kernel_names(), default=list(kernel_names()), metavar="NAME")
    parser.add_argument("--candidates", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args(arguments)
    with ProcessPoolExecutor(options.processes) as pool:
        lines = [
            line
            for found in pool.map(check_kernel, options.kernels, [options.candidates] * len(options.kernels))
            for line in found
        ]
    print(*lines, sep="\n")
    if any(line.startswith(("NOT LEGITIMATE", "DOES NOT COMPILE")) for line in lines):
        sys.exit(1)


if __name__ == "__main__":
    main()
