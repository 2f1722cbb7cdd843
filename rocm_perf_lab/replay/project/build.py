"""Compile the description of a project: `build_description(description, architecture) -> BuildResult`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml
from pydantic import ValidationError

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.languages.compilation import compile_description
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.toolchain.compilers import find_compiler

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.toolchain.build import BuildResult


def read_description(path: Path) -> KernelDescription:
    """Read a `kernel.yaml`, with paths relative to its directory.

    Raises:
        LabError: The file cannot be read or is invalid.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        return KernelDescription.model_validate({**content, "directory": path.parent})
    except OSError as error:
        raise LabError(f"cannot read the description: {error.strerror or error}", where=str(path)) from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise LabError(f"{key}: {first['msg']}" if key else first["msg"], where=str(path)) from error
    except (yaml.YAMLError, TypeError, UnicodeDecodeError) as error:
        raise LabError(f"this is not a kernel description: {error}", where=str(path)) from error


def build_description(description: KernelDescription, architecture: str) -> BuildResult:
    """Compile a description for a processor.

    Raises:
        CompileError: The source does not compile.
        CompilerNotFound: No compiler is usable.
    """
    return compile_description(description, description.source_path, architecture=architecture, compiler=lambda: find_compiler())
