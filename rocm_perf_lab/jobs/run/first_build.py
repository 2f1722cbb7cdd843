"""Concurrent build of the libraries for the first application on this computer: HIP runtime, driver and C++ library."""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.core.slow_work import slow_work
from rocm_perf_lab.runtime.driver_build import build_driver
from rocm_perf_lab.runtime.hip_build import build_hip_runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def first_build(*, of_program: bool) -> None:
    """Build the libraries that are not in the cache. Without this function, each is built on demand.

    Args:
        of_program: Whether a program will be linked, which requires the C++ library.

    Raises:
        LabError: A library cannot be built.
    """
    parts: list[tuple[str, str, Callable[[], object]]] = [
        ("hip", "the HIP runtime", build_hip_runtime),
        ("driver", "the emulated driver", build_driver),
    ]
    if of_program:
        parts.append(("programs", "the C++ library", _build_cpp_library))
    cache = cache_dir()
    missing = [(name, build) for directory, name, build in parts if not (cache / directory).is_dir()]
    if len(missing) > 1:
        with slow_work(f"building {_listed([name for name, _ in missing])} (once, a minute or two)"):
            build_at_once([build for _, build in missing])


def build_at_once(builds: Sequence[Callable[[], object]]) -> None:
    """Call functions concurrently.

    Raises:
        LabError: A function failed; the others have completed.
    """
    with ThreadPoolExecutor(len(builds)) as pool:
        futures = [pool.submit(build) for build in builds]
    for future in futures:
        future.result()


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _build_cpp_library() -> None:
    from rocm_perf_lab.toolchain.hip_program import build_cpp_library

    with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-first-") as name:
        build_cpp_library(Path(name))
