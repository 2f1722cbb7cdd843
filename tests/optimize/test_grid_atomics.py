"""Atomics that are collected per workgroup: results at odd sizes, and the kernels that are refused."""

from __future__ import annotations

import numpy as np
import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.optimize.transforms.grid_atomics import GridAtomics
from tests.builders.rewritten_kernels import emulated, kernel_of, reason_of, rewrites_of, size

COUNT, BINS = 1003, 7
HEAD = "#include <hip/hip_runtime.h>\n"
INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
KEYS = {"name": "keys", "kind": "buffer", "dtype": "i32", "shape": ["n"], "init": {"kind": "integers", "low": 0, "high": 999}}
FOUND = {"name": "found", "kind": "buffer", "dtype": "i32", "shape": ["bins"], "access": "inout"}


def description(**result: object):  # type: ignore[no-untyped-def]
    found = {**FOUND, "init": {"kind": "constant", "value": 5}, **result}
    return kernel_of([KEYS, found, size("n"), size("bins")], grid=["ceil_div(n, 64)"], block=[64], n=COUNT, bins=BINS)


KERNEL = description()


def source(body: str) -> str:
    """Return a kernel over `n` keys with `bins` results."""
    return f'{HEAD}extern "C" __global__ void f(const int* keys, int* found, int n, int bins) {{\n{body}\n}}\n'


def outcome(text: str) -> tuple[np.ndarray, np.ndarray]:
    """Return keys and results of the last rewrite."""
    rewrites = rewrites_of(GridAtomics(kernel=KERNEL, items=[4], groups=[304, 2]), text)
    launch, outputs = emulated(KERNEL, rewrites[-1].text)
    return launch.arguments[0].data, outputs["found"]  # type: ignore[union-attr]


def test_a_histogram_is_collected_in_lds() -> None:
    keys, found = outcome(source(f"{INDEX} if (i < n) atomicAdd(&found[keys[i] % bins], 1);"))

    np.testing.assert_array_equal(found, 5 + np.bincount(keys % BINS, minlength=BINS))


def test_conditions_stay() -> None:
    body = f"{INDEX} if (i >= n) return; int key = keys[i]; if (key > 500) {{ atomicAdd(found + key % bins, key); }}"

    keys, found = outcome(source(body))

    kept = keys[keys > 500]
    np.testing.assert_array_equal(found, 5 + np.bincount(kept % BINS, weights=kept, minlength=BINS).astype(int))


@pytest.mark.parametrize(
    ("atomic", "expected"),
    [
        ("atomicAdd(found, keys[i])", lambda keys: 5 + keys.sum()),
        ("atomicMax(&found[0], keys[i] - 2000)", lambda keys: 5),
        ("atomicMin(found, keys[i] - 2000)", lambda keys: keys.min() - 2000),
        ("atomicOr(found, keys[i])", lambda keys: 5 | np.bitwise_or.reduce(keys)),
        ("atomicAnd(found, keys[i] | 4)", lambda keys: 5 & np.bitwise_and.reduce(keys | 4)),
    ],
)
def test_one_address_is_collected_in_registers(atomic: str, expected) -> None:  # type: ignore[no-untyped-def]
    keys, found = outcome(source(f"const int i = threadIdx.x + blockDim.x * blockIdx.x;\nif (i < n) {atomic};"))

    assert found[0] == expected(keys)
    assert (found[1:] == 5).all()


def test_the_launch_is_limited_and_has_the_lds_of_all_bins() -> None:
    rewrites = rewrites_of(
        GridAtomics(kernel=KERNEL, items=[1], groups=[2, 304]),
        source(f"{INDEX} if (i < n) atomicAdd(&found[keys[i] % bins], 1);"),
    )

    launches = [emulated(KERNEL, rewrite.text)[0] for rewrite in rewrites]
    assert [(x.grid[0], x.dynamic_lds_bytes) for x in launches] == [(2, 4 * BINS), (4, 4 * BINS)]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (f"{INDEX} if (i < n) keys[atomicAdd(found, 1)];", "result of an atomic is used"),
        (f"{INDEX} if (i < n) atomicAdd(&found[0], found[1]);", "accesses found[1]"),
        (f"{INDEX} if (i < n) {{ atomicAdd(found, 1); found[1] = 3; }}", "accesses found[1]"),
        (f"{INDEX} if (i < n) {{ atomicAdd(found, 1); atomicMax(found, 1); }}", "several kinds of atomics"),
        (f"{INDEX} if (i < n) {{ n -= 1; atomicAdd(found, n); }}", "not known to cover n"),
        (f"{INDEX} if (i < n) {{ __threadfence(); atomicAdd(found, 1); }}", "calls __threadfence"),
        (f"{INDEX} if (i < bins * 3000) atomicAdd(found, 1);", "not known to cover (bins * 3000)"),
        (f"{INDEX} if (i < n) atomicAdd(found + (threadIdx.x & 1), 1);", "uses threadIdx.x"),
        (f"__shared__ int s; {INDEX} if (i < n) atomicAdd(found, s);", "uses __shared__"),
        (f"{INDEX} if (i < n) {{ if (keys[i] > 3) return; atomicAdd(found, 1); }}", "return"),
        (f"{INDEX} if (i < n) found[0] = 1;", "has no atomics"),
    ],
)
def test_other_kernels_are_refused(body: str, reason: str) -> None:
    assert reason in reason_of(GridAtomics(kernel=KERNEL), source(body))


def test_a_launch_that_covers_only_a_part_is_refused() -> None:
    """Work-items of a loop over the grid would also process the elements beyond the launch."""
    part = kernel_of(
        [KEYS, {**FOUND, "init": {"kind": "constant", "value": 0}}, size("n"), size("bins")],
        grid=["3"],
        block=[64],
        n=COUNT,
        bins=BINS,
    )

    assert "cover" in reason_of(GridAtomics(kernel=part), source(f"{INDEX} if (i < n) atomicAdd(found, 1);"))


def test_too_many_bins_are_refused() -> None:
    large = kernel_of(
        [KEYS, {**FOUND, "init": {"kind": "constant", "value": 0}}, size("n"), size("bins")],
        grid=["ceil_div(n, 64)"],
        block=[64],
        n=COUNT,
        bins=9000,
    )

    text = source(f"{INDEX} if (i < n) atomicAdd(&found[keys[i]], 1);")
    assert "exceeds 32768 bytes" in reason_of(GridAtomics(kernel=large), text)


def test_sizes_must_be_positive() -> None:
    with pytest.raises(LabError, match="items and groups must be positive"):
        GridAtomics(kernel=KERNEL, items=[0])
