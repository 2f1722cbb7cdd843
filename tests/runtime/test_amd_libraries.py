"""AMD's libraries on the emulated GPU: rocPRIM's algorithms against the standard library, hipFFT against NumPy, OpenCL."""

import pytest

from tests.builders.rocm_programs import SOURCES, CheckResults, RocmPrograms, checks_of

_TIMEOUT_S = 900


@pytest.mark.corpus  # its compilation takes minutes
def test_algorithms_of_rocprim(rocm_programs: RocmPrograms) -> None:
    program = rocm_programs.compile("rocprim_algorithms")

    results = CheckResults.of(rocm_programs.run([program], timeout=_TIMEOUT_S))

    assert results.failed == {}
    assert sorted(results.passed) == sorted(checks_of("rocprim_algorithms"))


@pytest.mark.corpus  # rocFFT compiles its kernels at run time
def test_fourier_transforms_equal_those_of_numpy(rocm_programs: RocmPrograms) -> None:
    results = CheckResults.of(rocm_programs.run(["python3", "fourier.py"], working_directory=SOURCES, timeout=_TIMEOUT_S))

    assert results.failed == {}
    assert len(results.passed) == 28
    assert results.process.returncode == 0


@pytest.mark.slow
def test_opencl(rocm_programs: RocmPrograms) -> None:
    results = CheckResults.of(rocm_programs.run(["python3", "opencl.py"], working_directory=SOURCES, timeout=_TIMEOUT_S))

    assert results.failed == {}
    assert len(results.passed) == 9
    assert results.process.returncode == 0
