"""Check the input files of a run before its directory, its tracking run or any result is written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocm_perf_lab.config.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocm_perf_lab.config.run import RunConfig
    from rocm_perf_lab.languages.description import KernelDescription

_REFERENCE_FUNCTION = re.compile(r"([\w./-]+\.py):\w+")


def require_inputs(settings: RunConfig) -> None:
    """Check that every file that the configuration names can be read.

    Raises:
        RooflineCsvError: The measured peaks cannot be read.
        CompileError: The kernel's source file does not exist.
        ConfigError: A file of a reference or of an initial value does not exist.
    """
    if settings.passes.roofline_csv is not None:
        from rocm_perf_lab.rocprof.roofline_csv import read_roofline_csv

        read_roofline_csv(settings.passes.roofline_csv)
    kernel: KernelDescription | None = getattr(settings, "kernel", None)
    if kernel is None:  # An application has no kernel.
        return
    from rocm_perf_lab.toolchain.build import require_source

    require_source(kernel.source_path)
    for key, path in (*_references(kernel), *_initial_values(kernel)):
        if not path.is_file():
            raise ConfigError(f"{key}: the file does not exist", where=str(path), hint="paths are relative to the kernel.yaml")


def _references(kernel: KernelDescription) -> Iterator[tuple[str, Path]]:
    rows = kernel.reference if isinstance(kernel.reference, dict) else {"": kernel.reference}
    for output, reference in rows.items():
        match = _REFERENCE_FUNCTION.fullmatch(reference)
        if match is not None:
            yield f"kernel.reference{'.' if output else ''}{output}", kernel.directory / match[1]


def _initial_values(kernel: KernelDescription) -> Iterator[tuple[str, Path]]:
    for group, rows in (("arguments", kernel.arguments), ("variables", kernel.variables)):
        for row in rows:
            path: Path | None = getattr(getattr(row, "init", None), "path", None)
            if path is not None:
                yield f"kernel.{group} {row.name}.init", kernel.directory / path
