"""Translated code contains no device address: one translation serves a code object wherever it is loaded."""

from pathlib import Path

import numpy as np
import pytest

from rocm_perf_lab.emulator.build import load_runtime
from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.emulator.translation import KernelTranslator
from rocm_perf_lab.toolchain.code_object import CodeObject
from tests.builders.kernels import build_hip
from tests.builders.targets import mi300x

# Calls through a table in memory and directly (S_SWAPPC_B64 both), and stores the address of a function and of a variable.
SOURCE = r"""
#include <hip/hip_runtime.h>
__device__ __attribute__((noinline)) int twice(int x) { return 2 * x; }
__device__ __attribute__((noinline)) int more(int x) { return x + 100; }
typedef int (*function)(int);
__device__ function table[2] = {twice, more};
__device__ int variable = 7;
extern "C" __global__ void calls(int* y, unsigned long long* addresses) {
  int t = threadIdx.x;
  y[t] = more(table[t & 1](t)) + variable;
  addresses[0] = (unsigned long long)table[0];
  addresses[1] = (unsigned long long)&variable;
  addresses[2] = (unsigned long long)&twice;
}
"""


@pytest.fixture(scope="module")
def code_object(tmp_path_factory: pytest.TempPathFactory) -> CodeObject:
    return build_hip(SOURCE, tmp_path_factory.mktemp("load_address")).code_object


def test_one_translation_serves_all_load_addresses(code_object: CodeObject) -> None:
    translator, native = KernelTranslator(load_runtime()), set()
    for place in (0x2345_0000_0000, 0x3456_0000_0000):
        with EmulatedGpu(mi300x(), max_instructions=10**6, translator=translator) as machine:
            y, addresses = machine.allocate("y", 256), machine.allocate("addresses", 24)
            loaded = machine.load(code_object, place)

            machine.launch(loaded, "calls", (1, 1, 1), (64, 1, 1), [y, addresses])

            native.add(translator.translate(loaded, code_object.kernels[0]).code.address)
            t = np.arange(64)
            np.testing.assert_array_equal(np.frombuffer(machine.read(y), np.int32), np.where(t & 1, t + 100, 2 * t) + 107)
            symbols = loaded.elf.symbols
            variable, twice = symbols["variable"].address, symbols["_Z5twicei"].address
            stored = np.frombuffer(machine.read(addresses), np.uint64).tolist()
            assert stored == [place + twice, place + variable, place + twice]
    assert len(native) == 1


def test_the_cache_has_one_object_for_two_load_addresses(
    code_object: CodeObject, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ROCM_PERF_LAB_CACHE", str(tmp_path))
    for place in (0x2345_0000_0000, 0x3456_0000_0000):
        with EmulatedGpu(mi300x(), max_instructions=10**6) as machine:
            y, addresses = machine.allocate("y", 256), machine.allocate("addresses", 24)
            machine.launch(machine.load(code_object, place), "calls", (1, 1, 1), (64, 1, 1), [y, addresses])

    assert len(list((tmp_path / "jit").glob("*.o"))) == 1
