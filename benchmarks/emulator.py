"""Speed of the emulator: `python -m benchmarks.emulator`.

Speed is wavefront instructions (SQ_INSTS) per second of processor time of the fastest warm launch, of the same kernels on every
architecture; launches of different architectures alternate. Timed launches do not compile or translate code, except in the
figures about translation. The complete problems include the timing model, the database and the comparison with NumPy; they, the
scaling and the checks are those of gfx942.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from benchmarks.figures import Figure, Publisher
from rocm_perf_lab.arch.registry import emulated_architectures, load_architecture
from rocm_perf_lab.core.resources import cache_dir, resource_dir
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.device.launch import build_launch
from rocm_perf_lab.device.protocol import BufferValue
from rocm_perf_lab.emulator.isa.decode import LONGEST_INSTRUCTION, decode_one
from rocm_perf_lab.emulator.isa.instruction_set import instruction_set
from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.emulator.sampling import SamplePolicy
from rocm_perf_lab.languages.compilation import compile_description
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.toolchain.elf_file import parse_elf
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel
from rocm_perf_lab.verify.outputs import verify_outputs
from rocm_perf_lab.verify.reference import expected_outputs
from rocm_perf_lab.verify.tolerances import kernel_tolerances

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rocm_perf_lab.device.protocol import Launch
    from rocm_perf_lab.emulator.memory import Allocation
    from rocm_perf_lab.toolchain.code_object import CodeObject

Rates = dict[str, dict[str, list[float]]]
"""Instructions per second of processor time of every round, by kernel and architecture."""
KERNELS = Path(__file__).with_name("kernels")
REPEATS = 3
ROUNDS, DECODING_ROUNDS = 5, 25
"""Launches of each architecture, in turn; and of decoding."""
GOALS = {"softmax": 100, "math": 100, "gemm_hip": 60, "vec_copy": 50, "gemm_bf16": 30, "thomas": 60}
"""Million wavefront instructions per second on one core."""
TRACED = 16
SIZES = {
    "softmax": {"rows": 8192},
    "math": {"n": 1 << 19},
    "gemm_hip": {"m": 1024, "n": 1024, "k": 1024},
    "vec_copy": {"n": 1 << 25},
    "gemm_bf16": {"n": 1024, "k": 1024},
    "thomas": {"n": 64, "systems": 1 << 17},
}
"""Sizes for launches of several tenths of a second."""
MILLION = 1e6
BUFFER = {"kind": "buffer", "dtype": "f32", "shape": ["n"]}
ARCHITECTURE = "gfx942"
SLOWEST_RATIO = 0.9
"""Speed of each architecture relative to that of `ARCHITECTURE`."""
LARGE = ("straight", "doubles", "accesses", "branches")
"""Kernels of `large.hip`."""


def main(arguments: list[str] | None = None) -> None:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.emulator", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--architectures", action="store_true", help="only compare the architectures")
    publisher = Publisher("emulator", parser, arguments)
    rates = measured_rates()
    columns = ("emulated instructions per second, one core", *emulated_architectures(), f"goal, of {ARCHITECTURE}")
    publisher.publish("emulator, by architecture", columns, comparison(rates), rates, suffix="_architectures")
    if not publisher.options.architectures:
        figures = [*speeds(rates), *scaling(), *whole_problems(), *translations(), checked(), memory()]
        publisher.publish_figures("emulator", figures)


# ---- figures ----


def speeds(rates: Rates) -> Iterable[Figure]:
    """Return million wavefront instructions per second on one core."""
    for name, goal in GOALS.items():
        rate = f"{max(rates[name][ARCHITECTURE]) / MILLION:.0f} M/s"
        yield Figure(name, f"emulated wavefront instructions, {name}, one core", rate, f">= {goal} M/s")


def comparison(rates: Rates) -> dict[str, tuple[str, ...]]:
    """Return the speeds of the architectures, in parentheses relative to `ARCHITECTURE`, by kernel and for decoding."""
    rows = {}
    for name, found in rates.items():
        cells = [_compared(found, one) if one in found else "" for one in emulated_architectures()]
        rows[name] = (f"{name}, M/s", *cells, f">= {SLOWEST_RATIO}")
    return rows


def _compared(rates: dict[str, list[float]], architecture: str) -> str:
    fastest = max(rates[architecture])
    return f"{fastest / MILLION:.3g} ({fastest / max(rates[ARCHITECTURE]):.2f})"


def measured_rates() -> Rates:
    """Measure kernels, and the decoder in decoded instructions, on one core: rates of every round by name and architecture."""
    codes = {one: _code(_launch(_description("gemm_hip"), one).code_object) for one in emulated_architectures()}
    decoded = _alternated({one: partial(_decode, code, one) for one, code in codes.items()}, rounds=DECODING_ROUNDS)
    return {**{name: _rates(name) for name in GOALS}, "decoding": dict(decoded)}


def scaling() -> Iterable[Figure]:
    """Measure the speed-up of two cores over one."""
    for name in ("softmax", "math", "gemm_hip"):
        factor = _rate(name, threads=2) / _rate(name, threads=1)
        yield Figure(f"{name}_scaling", f"{name}, two cores relative to one", f"{factor:.2f}x", ">= 1.7x")


def whole_problems() -> Iterable[Figure]:
    """Measure 1024 x 1024 x 1024 matrix products: executed, timed, recorded and compared with NumPy."""
    for name, goal in (("gemm_hip", 4), ("gemm_triton", 3)):
        description = _description(name, m=1024, n=1024, k=1024)
        launch = _launch(description)
        seconds = _best(partial(_run_and_check, description, launch), repeats=2)
        title = f"{name} 1024 x 1024 x 1024 with its result checked, two cores"
        yield Figure(f"{name}_problem", title, f"{seconds:.1f} s", f"< {goal} s")


def translations() -> Iterable[Figure]:
    """Measure the first launch of softmax in a new process minus a later launch, with an empty and a filled disk cache."""
    with tempfile.TemporaryDirectory() as directory:
        first = _translation_seconds(Path(directory))
        again = _translation_seconds(Path(directory))
    yield Figure("translation", "translation of softmax, decoder and LLVM loaded", f"{first:.2f} s", "< 0.6 s")
    yield Figure("cached_translation", "translation of softmax from the disk cache", f"{again:.3f} s", "< 0.1 s")
    for name in LARGE:
        with tempfile.TemporaryDirectory() as directory:
            instructions, seconds = _large_translation(Path(directory), name)
        title = f"processor time of the first launch of {name}, {instructions:,} instructions"
        yield Figure(f"translation_{name}", title, f"{seconds:.1f} s", "< 2 s")


def checked() -> Figure:
    """Measure the slowdown with all memory checks."""
    launch = _launch(_description("gemm_hip", m=256, n=256, k=256))
    plain = _best(lambda: _run(launch, threads=2))
    slow = _best(lambda: _run(launch, threads=2, check="all"), repeats=2)
    other = _launch(_description("softmax"))
    softmax = _best(lambda: _run(other, threads=2, check="all"), repeats=2) / _best(lambda: _run(other, threads=2))
    return Figure("checks", "slowdown by all checks: gemm_hip, softmax", f"{slow / plain:.1f}x, {softmax:.1f}x", "<= 5x")


def memory() -> Figure:
    """Measure the peak memory of a new process that launches a softmax, without the buffers of host and device."""
    # VmHWM, because ru_maxrss of a child starts with the peak of its parent.
    program = (
        "import pathlib, re; from benchmarks.emulator import _description, _launch, _rate, SIZES, buffer_bytes;"
        "_rate('softmax', threads=2); status = pathlib.Path('/proc/self/status').read_text();"
        "peak = int(re.search(r'VmHWM:\\s+(\\d+) kB', status)[1]) * 1024;"
        "print(peak - 2 * buffer_bytes(_launch(_description('softmax', **SIZES['softmax']))))"
    )
    answer = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return Figure("memory", "peak memory without the buffers of the launch", f"{int(answer.stdout) / 2**20:.0f} MiB", "< 300 MiB")


# ---- measurements ----


def buffer_bytes(launch: Launch) -> int:
    """Return the bytes of all buffers of a launch."""
    return sum(a.data.nbytes for a in launch.arguments if isinstance(a, BufferValue))


def _rate(name: str, *, threads: int) -> float:
    """Return instructions per second of a launch whose memory is filled and whose code is translated."""
    with _warm_launch(name, ARCHITECTURE, threads=threads) as run_once:
        counted = run_once()
        return counted / _best(run_once)


def _rates(name: str) -> dict[str, list[float]]:
    """Return instructions per second of processor time of every round by architecture; their launches alternate."""
    with ExitStack() as machines:
        runs = {one: machines.enter_context(_warm_launch(name, one, threads=1)) for one in _architectures(name)}
        counted = {one: run() for one, run in runs.items()}

        def seconds_of(run: Callable[[], int]) -> float:
            start = time.process_time()
            run()
            return time.process_time() - start

        times = _alternated({one: partial(seconds_of, run) for one, run in runs.items()})
        return {one: [counted[one] / seconds for seconds in column] for one, column in times}


def _alternated(measures: dict[str, Callable[[], float]], rounds: int = ROUNDS) -> Iterable[tuple[str, list[float]]]:
    """Return the values of several measures, one of each in turn."""
    found = [{one: measure() for one, measure in measures.items()} for _ in range(rounds)]
    return [(one, [values[one] for values in found]) for one in measures]


def _architectures(name: str) -> tuple[str, ...]:
    """Return the emulated architectures that can execute a kernel."""
    has_matrix_cores = {one: bool(load_architecture(one).matrix_passes) for one in emulated_architectures()}
    return tuple(one for one in emulated_architectures() if has_matrix_cores[one] or name != "gemm_bf16")


@contextmanager
def _warm_launch(name: str, architecture: str, *, threads: int) -> Iterator[Callable[[], int]]:
    """Yield a function that launches a kernel, whose memory is filled, and returns its instructions."""
    launched = _launch(_description(name, **SIZES[name]), architecture)
    target = load_target(architecture)
    with EmulatedGpu(target, max_instructions=10**12, threads=threads, sample=SamplePolicy(TRACED)) as machine:
        values = _arguments(machine, launched)
        loaded = machine.load(launched.code_object)

        def run_once() -> int:
            result = machine.launch(loaded, launched.symbol, launched.grid, launched.block, values, launched.dynamic_lds_bytes)
            return result.counters["SQ_INSTS"]

        yield run_once


def _code(code_object: CodeObject) -> bytes:
    """Return the machine code of a code object."""
    elf = parse_elf(code_object.data)
    section = elf.section(".text")
    assert section is not None
    return bytes(elf.content(section))


def _decode(code: bytes, architecture: str) -> float:
    """Decode machine code up to the padding behind it; return the instructions per second."""
    isa, address, count = instruction_set(architecture), 0, 0
    start = time.process_time()
    while address < len(code):
        address += decode_one(code[address : address + LONGEST_INSTRUCTION], address, isa).size
        count += 1
    return count / (time.process_time() - start)


def _arguments(machine: EmulatedGpu, launch: Launch) -> list[bytes | Allocation]:
    """Return the arguments of a launch, with filled buffers."""
    values: list[bytes | Allocation] = []
    for argument in launch.arguments:
        if isinstance(argument, BufferValue):
            buffer = machine.allocate(argument.name, argument.data.nbytes)
            machine.write(buffer, argument.data)
            values.append(buffer)
        else:
            values.append(argument.encoded)
    return values


def _run(launch: Launch, *, threads: int, check: str = "none") -> None:
    with tempfile.TemporaryDirectory() as directory:
        _device(threads, check).run(launch, database=Path(directory) / "run_results.db", runs=1, counters=["SQ_INSTS"])


def _run_and_check(description: KernelDescription, launch: Launch) -> None:
    with tempfile.TemporaryDirectory() as directory:
        run = _device(2).run(launch, database=Path(directory) / "run_results.db", runs=1, counters=["SQ_INSTS"])
    expected = expected_outputs(description, launch)
    assert expected is not None
    verdict = verify_outputs(run.outputs, expected, kernel_tolerances(description, launch, expected))
    assert verdict.passed, str(verdict)


def _translation_seconds(cache: Path) -> float:
    """Measure the first launch minus the fastest later one, in a separate process with its own translation cache.

    Another kernel is launched before, so that loading the decoder and LLVM is not counted.
    """
    return float(_in_new_process(cache, (
        "import time; from benchmarks.emulator import _description, _launch, _run;"
        "_run(_launch(_description('vec_copy', n=256)), threads=1);"
        "launch = _launch(_description('softmax', rows=1)); times = [];\n"
        "for _ in range(4):\n start = time.perf_counter(); _run(launch, threads=1); times.append(time.perf_counter() - start)\n"
        "print(times[0] - min(times[1:]))"
    )))  # fmt: skip


def _large_translation(cache: Path, name: str) -> tuple[int, float]:
    """Return the instructions of a kernel, and the processor time of its first launch without cached translations."""
    instructions, seconds = _in_new_process(cache, (
        "import time; from benchmarks.emulator import _description, _first_launch, _launch, _run;"
        "_run(_launch(_description('vec_copy', n=256)), threads=1);"
        f"print(*_first_launch(_launch(_description({name!r}))))"
    )).split()  # fmt: skip
    return int(instructions), float(seconds)


def _first_launch(launch: Launch) -> tuple[int, float]:
    """Return the number of instructions of a kernel, and the processor time of loading and launching it."""
    with EmulatedGpu(load_target("mi300x"), max_instructions=10**9) as machine:
        values = _arguments(machine, launch)
        start = time.process_time()
        loaded = machine.load(launch.code_object)
        result = machine.launch(loaded, launch.symbol, launch.grid, launch.block, values, launch.dynamic_lds_bytes)
        return len(result.program.instructions), time.process_time() - start


def _in_new_process(cache: Path, program: str) -> str:
    """Return the output of a Python program whose cache has the runtime and compiled kernels, but no translations."""
    for part in ("runtime", "builds", "rocm"):
        if (cache_dir() / part).exists() and not (cache / part).exists():
            shutil.copytree(cache_dir() / part, cache / part, symlinks=True)
    environment = os.environ | {"ROCM_PERF_LAB_CACHE": str(cache)}
    answer = subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True)
    return answer.stdout


def _device(threads: int, check: str = "none") -> EmulatorDevice:
    return EmulatorDevice(target=load_target("mi300x"), threads=threads, check=check)


def _best(action: Callable[[], object], repeats: int = REPEATS) -> float:
    action()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def _launch(description: KernelDescription, architecture: str = ARCHITECTURE) -> Launch:
    built = compile_description(
        description, description.source_path, architecture=architecture, compiler=lambda: find_compiler(("hipcc", "clang", "pip"))
    )
    return build_launch(description, built.code_object, find_kernel(built.code_object, description.entry).symbol, built.contract)


def _description(name: str, **params: int) -> KernelDescription:
    rows: dict[str, Callable[[], dict[str, Any]]] = {
        "math": _math, "vec_copy": _vec_copy, "thomas": _thomas, "gemm_bf16": _gemm_bf16,
        **{large: partial(_large, large) for large in LARGE},
    }  # fmt: skip
    directory = resource_dir("experiments") / name
    row = rows[name]() if name in rows else yaml.safe_load((directory / "kernel.yaml").read_text()) | {"directory": directory}
    return KernelDescription.model_validate(row | {"params": row["params"] | params})


def _math() -> dict[str, Any]:
    return _row("math", {"n": 65536, "block": 256, "rounds": 50}, [
        {"name": "x", **BUFFER, "init": {"kind": "normal", "seed": 1}},
        {"name": "y", **BUFFER, "access": "out"},
        {"name": "rounds", "kind": "scalar", "dtype": "i32", "value": "rounds"},
    ])  # fmt: skip


def _vec_copy() -> dict[str, Any]:
    doubles = BUFFER | {"dtype": "f64"}
    return _row("vec_copy", {"n": 1 << 22, "block": 256}, [
        {"name": "a", **doubles, "init": {"kind": "normal", "seed": 1}},
        {"name": "b", **doubles, "access": "out"},
        {"name": "n", "kind": "scalar", "dtype": "i32", "value": "n"},
    ])  # fmt: skip


def _thomas() -> dict[str, Any]:
    system = {"kind": "buffer", "dtype": "f64", "shape": ["n", "systems"]}
    random = [{"name": name, **system, "init": {"kind": "uniform", "seed": seed}} for seed, name in enumerate("ac")]
    return _row("thomas", {"n": 16, "systems": 1024, "block": 256}, [
        random[0],
        {"name": "b", **system, "init": {"kind": "uniform", "seed": 3, "low": 3.0, "high": 4.0}},
        random[1],
        {"name": "d", **system, "access": "inout", "init": {"kind": "normal", "seed": 4}},
        {"name": "w", **system, "access": "out"},
        {"name": "n", "kind": "scalar", "dtype": "i32", "value": "n"},
        {"name": "systems", "kind": "scalar", "dtype": "i32", "value": "systems"},
    ]) | {"grid": ["ceil_div(systems, block)"]}  # fmt: skip


def _gemm_bf16() -> dict[str, Any]:
    halves = {"kind": "buffer", "dtype": "bf16", "shape": ["n", "k"]}
    return _row("gemm_bf16", {"n": 256, "k": 64, "block": 256}, [
        {"name": "a", **halves, "init": {"kind": "normal", "seed": 1}},
        {"name": "b", **halves, "init": {"kind": "normal", "seed": 2}},
        {"name": "c", "kind": "buffer", "dtype": "f32", "shape": ["n", "n"], "access": "out"},
        {"name": "n", "kind": "scalar", "dtype": "i32", "value": "n"},
        {"name": "k", "kind": "scalar", "dtype": "i32", "value": "k"},
    ]) | {"grid": ["n / 64", "n / 256"]}  # fmt: skip


def _large(name: str) -> dict[str, Any]:
    """Return a kernel of `large.hip` on two workgroups."""
    elements = (
        BUFFER | {"dtype": "f64"} if name == "doubles" else BUFFER | {"shape": ["128 * n"]} if name == "straight" else BUFFER
    )
    table = [{"name": "t", **BUFFER, "shape": [2048], "init": {"kind": "normal", "seed": 2}}] if name == "branches" else []
    return _row(name, {"n": 512, "block": 256}, [
        {"name": "x", **elements, "init": {"kind": "normal", "seed": 1}},
        {"name": "y", **elements, "access": "out"},
        *table,
        {"name": "n", "kind": "scalar", "dtype": "i32", "value": "n"},
    ]) | {"source": "large.hip"}  # fmt: skip


def _row(name: str, params: dict[str, int], arguments: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": name, "language": "hip", "source": f"{name}.hip", "entry": name, "directory": KERNELS, "params": params,
        "arguments": arguments, "grid": ["ceil_div(n, block)"], "block": ["block"],
    }  # fmt: skip


if __name__ == "__main__":
    main()
