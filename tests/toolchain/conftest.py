"""Shared read-only fixtures: one compiled code object, and the ROCm directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.core.resources import cache_dir as user_cache_dir
from tests.builders.kernels import VEC_COPY, build_hip

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.toolchain.code_object import CodeObject


@pytest.fixture(scope="session")
def vec_copy(tmp_path_factory: pytest.TempPathFactory) -> CodeObject:
    """Return the vecCopy kernel for gfx942, with line tables."""
    return build_hip(VEC_COPY, tmp_path_factory.mktemp("vec_copy")).code_object


@pytest.fixture
def cache_dir(tmp_path: Path) -> Path:
    """Return a cache without builds that shares the ROCm directory of the user, which is slow to create."""
    shared = user_cache_dir() / "rocm"
    shared.mkdir(exist_ok=True)
    directory = tmp_path / "cache"
    directory.mkdir()
    (directory / "rocm").symlink_to(shared)
    return directory
