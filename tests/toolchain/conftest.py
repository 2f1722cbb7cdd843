"""One real code object for the whole folder: it is only read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.builders.kernels import VEC_COPY, build_hip

if TYPE_CHECKING:
    from rocm_perf_lab.toolchain.code_object import CodeObject


@pytest.fixture(scope="session")
def vec_copy(tmp_path_factory: pytest.TempPathFactory) -> CodeObject:
    """The vecCopy kernel for gfx942, with line tables."""
    return build_hip(VEC_COPY, tmp_path_factory.mktemp("vec_copy")).code_object
