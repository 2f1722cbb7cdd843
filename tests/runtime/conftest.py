"""Fixtures of AMD's runtime on the emulated driver."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.runtime.rocm_root import enter_root, is_complete, rocm_root_dir
from tests.builders.rocm_programs import RocmPrograms


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Return a directory with a short path, because addresses of sockets are limited to 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="rpl-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


@pytest.fixture(scope="session")
def rocm_root() -> Path:
    """Return the directory tree with AMD's runtime that `make rocm-root` sets up; tests do not download it."""
    root = rocm_root_dir()
    if not is_complete(root):
        pytest.skip(f"no ROCm packages in {root}: make rocm-root")
    try:
        enter_root(root, ["true"], shared=[], working_directory=Path("/"), environment={})
    except LabError as error:
        pytest.skip(error.what)
    return root


@pytest.fixture(scope="session")
def rocm_programs(rocm_root: Path) -> RocmPrograms:
    """Return the HIP programs of the tests."""
    return RocmPrograms(rocm_root)
