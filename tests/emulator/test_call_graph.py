"""Functions that a kernel may call, found by the addresses that code computes."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from rocm_perf_lab.emulator.call_graph import callable_functions
from tests.builders.emulation import EmulatorBench
from tests.builders.kernels import build_hip

BASE = 0x1000
SIZE = 32
GETPC_S4, ADD_S4_LITERAL, ADDC_S5_0, ENDPGM = 0xBE841C00, 0x8004FF04, 0x82058005, 0xBF810000


def function(*targets: int, number: int, add: int = ADD_S4_LITERAL) -> bytes:
    """Return 32 bytes of code of a function that computes the address of each target."""
    words: list[int] = []
    for target in targets:
        here = BASE + number * SIZE + 4 * len(words) + 4
        words += [GETPC_S4, add, (BASE + target * SIZE - here) & 0xFFFF_FFFF, ADDC_S5_0]
    words += [ENDPGM] * (SIZE // 4 - len(words))
    return struct.pack("<8I", *words)


def reached(code: bytes, *roots: int) -> set[int]:
    """Return the numbers of the functions that may run."""
    places = {BASE + SIZE * number: SIZE for number in range(len(code) // SIZE)}
    found = callable_functions(code, BASE, places, [BASE + SIZE * root for root in roots])
    return {(address - BASE) // SIZE for address in found}


def test_functions_are_followed_forwards_backwards_and_in_circles() -> None:
    code = function(2, number=0) + function(3, number=1) + function(0, 2, number=2) + function(1, number=3)

    assert reached(code, 0) == {0, 2}
    assert reached(code, 1) == {1, 3}
    assert reached(code, 0, 3) == {0, 1, 2, 3}


def test_an_address_computed_in_another_way_may_be_that_of_any_function() -> None:
    add_of_a_register = 0x80040604
    code = function(1, number=0, add=add_of_a_register) + function(number=1) + function(number=2)

    assert reached(code, 0) == {0, 1, 2}


SOURCE = r"""
#include <hip/hip_runtime.h>
#define KEPT __device__ __attribute__((noinline, used))
KEPT float twice(float x) { return x + x; }
KEPT float unused(float x) { return sinf(x) * lgammaf(x); }
KEPT float halved(float x) { return x * 0.5f; }
__device__ float (*stored)(float) = halved;
extern "C" __global__ void calls(float* x) { x[threadIdx.x] = twice(x[threadIdx.x]); }
extern "C" __global__ void calls_stored(float* x) { x[threadIdx.x] = stored(x[threadIdx.x]); }
extern "C" __global__ void leaves(float (**f)(float)) { *f = twice; }
extern "C" __global__ void takes(float (**f)(float), float* x) { x[threadIdx.x] = (*f)(x[threadIdx.x]); }
"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> EmulatorBench:
    return EmulatorBench(build_hip(SOURCE, tmp_path_factory.mktemp("calls")).code_object)


@pytest.mark.parametrize(("kernel", "factor"), [("calls", 2.0), ("calls_stored", 0.5)])
def test_called_and_stored_functions_run_and_others_are_not_translated(bench: EmulatorBench, kernel: str, factor: float) -> None:
    x = bench.buffer(np.arange(64, dtype=np.float32))
    result = bench.launch(kernel, 1, 64, x)
    unused = next(s for s in bench.loaded.elf.symbols.values() if "unused" in s.name)

    assert list(bench.read(x, np.float32)) == list(factor * np.arange(64, dtype=np.float32))
    assert not any(unused.address <= i.address < unused.address + unused.size for i in result.program.instructions)


def test_a_function_pointer_travels_from_one_kernel_to_another(bench: EmulatorBench) -> None:
    pointer, x = bench.buffer(np.zeros(1, np.uint64)), bench.buffer(np.ones(64, np.float32))
    bench.launch("leaves", 1, 1, pointer)
    bench.launch("takes", 1, 64, pointer, x)

    assert list(bench.read(x, np.float32)) == [2.0] * 64
