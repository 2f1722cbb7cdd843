"""hipFFT against NumPy: prints PASS or FAIL for each transform. Runs inside the ROCm root."""

import ctypes
import sys

import numpy as np

HIP = ctypes.CDLL("libamdhip64.so.6")
FFT = ctypes.CDLL("libhipfft.so.0")
R2C, C2R, C2C, D2Z, Z2D, Z2Z = 0x2A, 0x2C, 0x29, 0x6A, 0x6C, 0x69
EXECUTE = {C2C: FFT.hipfftExecC2C, Z2Z: FFT.hipfftExecZ2Z, R2C: FFT.hipfftExecR2C, D2Z: FFT.hipfftExecD2Z}
CASES = [
    (kind, shape, batch)
    for kind in (C2C, Z2Z, R2C, D2Z)
    for shape, batch in (((16,), 5), ((256,), 4), ((1000,), 3), ((1009,), 1), ((4096,), 2), ((30, 21), 1), ((8, 12, 10), 2))
]


def on_device(nbytes: int) -> ctypes.c_void_p:
    pointer = ctypes.c_void_p()
    assert HIP.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(nbytes)) == 0
    return pointer


def error_of(kind: int, shape: tuple[int, ...], batch: int) -> float:
    """Return the largest difference to NumPy, relative to the largest value."""
    random = np.random.default_rng(len(shape) + shape[0])
    double, real = kind in (D2Z, Z2Z), kind in (R2C, D2Z)
    values = random.standard_normal((batch, *shape))
    values = values if real else values + 1j * random.standard_normal((batch, *shape))
    values = values.astype((np.float64 if double else np.float32) if real else (np.complex128 if double else np.complex64))
    axes = tuple(range(1, len(shape) + 1))
    expected = np.fft.rfftn(values, axes=axes) if real else np.fft.fftn(values, axes=axes)
    result = np.empty(expected.shape, np.complex128 if double else np.complex64)
    source, target, plan = on_device(values.nbytes), on_device(result.nbytes), ctypes.c_void_p()
    lengths = (ctypes.c_int * len(shape))(*shape)
    assert FFT.hipfftPlanMany(ctypes.byref(plan), len(shape), lengths, None, 1, 0, None, 1, 0, kind, batch) == 0
    assert HIP.hipMemcpy(source, values.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(values.nbytes), 1) == 0
    arguments = (plan, source, target) if real else (plan, source, target, -1)
    assert EXECUTE[kind](*arguments) == 0
    assert HIP.hipMemcpy(result.ctypes.data_as(ctypes.c_void_p), target, ctypes.c_size_t(result.nbytes), 2) == 0
    assert FFT.hipfftDestroy(plan) == 0
    return float(np.abs(result - expected).max() / np.abs(expected).max())


def main() -> int:
    failures = 0
    for kind, shape, batch in CASES:
        name = f"{ {C2C: 'c2c', Z2Z: 'z2z', R2C: 'r2c', D2Z: 'd2z'}[kind] }_{'x'.join(map(str, shape))}"
        error = error_of(kind, shape, batch)
        good = error < (1e-12 if kind in (D2Z, Z2Z) else 1e-5)
        failures += not good
        print("PASS" if good else "FAIL", name, f"{error:.1e}", flush=True)
    return failures


sys.exit(main())
