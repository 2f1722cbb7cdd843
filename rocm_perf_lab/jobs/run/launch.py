"""Launch of an application: its command line, the HIP runtime that it loads, and its root directory."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rocm_perf_lab.arch.registry import processors_of_generic_target
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.core.slow_work import slow_work
from rocm_perf_lab.device.machine import Machine
from rocm_perf_lab.device.process_group import check_program
from rocm_perf_lab.jobs.run.first_build import first_build
from rocm_perf_lab.runtime.application import check_root
from rocm_perf_lab.runtime.executable import read_executable
from rocm_perf_lab.runtime.hip_build import build_hip_runtime
from rocm_perf_lab.runtime.installation import HOW_TO_INSTALL, find_runtime
from rocm_perf_lab.runtime.rocm_root import check_program_in_root, is_complete, is_program_in_root, rocm_root_dir
from rocm_perf_lab.target.catalog import load_target, target_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.runtime.executable import Executable
    from rocm_perf_lab.runtime.installation import RocmRuntime
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.hip_program import BuiltProgram

RuntimeName = Literal["auto", "rocm", "lab"]
LIBRARY_PATH = "LD_LIBRARY_PATH"
_HIP_LIBRARY = re.compile(r"lib(?:amdhip64|hiprtc)\.so(?:\.(\d+))?")
_NEWEST_HIP = 7
_PORTABLE = ("spirv64", "amdgcnspirv")
"""Code that AMD's runtime can compile for any GPU."""


@dataclass(frozen=True)
class ApplicationLaunch:
    """Command that is ready to start."""

    command: tuple[str, ...]
    runtime: Literal["rocm", "lab"]
    root: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """Notes, to be printed to standard error."""
    compiled: int = 0
    """Parts of sources that were compiled for the command."""


def prepare_launch(command: tuple[str, ...], target: Target, runtime: RuntimeName, root: Path | None) -> ApplicationLaunch:
    """Check an application, and choose the runtime that it loads.

    Args:
        command: Program and arguments.
        target: The emulated GPU.
        runtime: `rocm` for an installed ROCm, `lab` for rocm-perf-lab's HIP runtime, `auto` for the first of them that exists.
        root: ROCm directory tree in which the application runs, if any.

    Raises:
        LabError: The application cannot run; the message names the missing file, library or architecture.
    """
    if root is not None:
        root = check_root(root)
        check_program_in_root(root, command[0], Path.cwd())
        return _in_root(ApplicationLaunch(command, "rocm", root), runtime)
    if runtime == "auto" and _is_only_in_tree(command[0]):
        return _in_tree(command, command[0])
    check_program(command)
    program = read_executable(Path(shutil.which(command[0]) or command[0]))
    _check_architecture(program, target)
    launch = with_runtime(ApplicationLaunch(command, "rocm"), runtime)
    if program.kind != "dynamic":
        return launch
    if runtime == "auto" and any(_HIP_LIBRARY.fullmatch(name) for name in program.libraries(os.environ).found):
        return ApplicationLaunch(command, "rocm")  # The application includes AMD's runtime.
    missing = program.libraries({**os.environ, **launch.variables}).missing
    return _with_libraries(launch, program, missing, runtime) if missing else launch


def with_runtime(launch: ApplicationLaunch, runtime: RuntimeName) -> ApplicationLaunch:
    """Return a launch whose environment variables select the application's HIP runtime.

    Raises:
        LabError: There is no ROCm installation that can be used.
    """
    if chosen_installation(runtime) is not None:
        return replace(launch, runtime="rocm")
    directory = str(_built_hip_runtime())
    before = os.environ.get(LIBRARY_PATH, "")
    # For `auto`, the user's directories take precedence: they may contain another runtime.
    parts = [directory, before] if runtime == "lab" else [before, directory]
    return replace(launch, runtime="lab", variables={**launch.variables, LIBRARY_PATH: ":".join(filter(None, parts))})


def chosen_installation(runtime: RuntimeName) -> RocmRuntime | None:
    """Return the ROCm installation that applications use, or None for rocm-perf-lab's runtime.

    Raises:
        LabError: `rocm` was requested, and there is no installation that can be used.
    """
    if runtime == "lab":
        return None
    found = find_runtime(Machine())
    if found is not None and found.hip is not None and found.problem is None:
        return found
    if runtime == "auto":
        return None
    reason = "no ROCm was found" if found is None else found.problem or "the ROCm installation has no HIP runtime"
    raise LabError(reason, where="--runtime rocm", hint=HOW_TO_INSTALL)


def _in_root(launch: ApplicationLaunch, runtime: RuntimeName) -> ApplicationLaunch:
    if runtime != "lab":
        return launch
    directory = str(_built_hip_runtime())
    return replace(launch, runtime="lab", variables={LIBRARY_PATH: directory})


def _built_hip_runtime(*, of_program: bool = False) -> Path:
    first_build(of_program=of_program)
    with slow_work("building the HIP runtime (once)"):
        return build_hip_runtime()


def _check_architecture(program: Executable, target: Target) -> None:
    present = program.architectures()
    fits = [
        name
        for name in present
        if name == target.architecture or target.architecture in processors_of_generic_target(name) or name in _PORTABLE
    ]
    if not present or fits:
        return
    others = [name for name in target_names() if load_target(name).architecture in present]
    other = f", or emulate another GPU: --target {' or '.join(others)}" if others else ""
    raise LabError(
        f"the program has code for {', '.join(present)}, the emulated GPU is {target.architecture} ({target.product_name})",
        where=str(program.path),
        hint=f"compile it with --offload-arch={target.architecture}{other}",
    )


def _with_libraries(
    launch: ApplicationLaunch, program: Executable, missing: tuple[str, ...], runtime: RuntimeName
) -> ApplicationLaunch:
    """Return a launch in the cached ROCm tree if that has the missing libraries.

    Raises:
        LabError: The tree does not have them, or another runtime was requested.
    """
    for name in missing:
        version = _HIP_LIBRARY.fullmatch(name)
        if version is not None and int(version[1] or 0) > _NEWEST_HIP:
            raise LabError(
                f"the program needs {name}, the HIP runtime of ROCm {version[1]}",
                where=str(program.path),
                hint=f"rocm-perf-lab's HIP runtime is that of ROCm 5 to {_NEWEST_HIP}: install ROCm {version[1]}",
            )
    root = rocm_root_dir()
    names = ", ".join(missing)
    if runtime == "auto" and is_complete(root) and all(any(root.glob(f"usr/lib/*/{name}")) for name in missing):
        return _in_tree(launch.command, names)
    plural = "libraries were" if len(missing) > 1 else "library was"
    raise LabError(
        f"the shared {plural} not found: {names}",
        where=str(program.path),
        hint="install it, or add its directory to LD_LIBRARY_PATH; `make rocm-root` sets up libraries of ROCm",
    )


def _is_only_in_tree(program: str) -> bool:
    """Return whether a program such as rocminfo is in the cached ROCm tree but not on PATH."""
    root = rocm_root_dir()
    return os.sep not in program and shutil.which(program) is None and is_complete(root) and is_program_in_root(root, program)


def _in_tree(command: tuple[str, ...], missing: str) -> ApplicationLaunch:
    """Return a launch in the cached ROCm tree, with a note about it."""
    root = rocm_root_dir()
    note = f"{missing} is not installed: using the ROCm directory tree in {root} (as with --root)"
    return ApplicationLaunch(command, "rocm", root, notes=(note,))


def hip_library(runtime: RuntimeName, root: Path | None) -> Path:
    """Return the HIP library to link programs with.

    Args:
        runtime: Runtime that the program will use.
        root: ROCm directory tree in which the program will run, if any.

    Raises:
        LabError: There is no ROCm installation that can be used.
    """
    installation = chosen_installation(runtime) if root is None or runtime == "lab" else _installation_in(root)
    if installation is not None:
        return sorted(installation.library.parent.glob("libamdhip64.so*"))[0]
    return _built_hip_runtime(of_program=True) / "libamdhip64.so"


def _installation_in(root: Path) -> RocmRuntime:
    found = find_runtime(Machine(root=root.absolute(), environment={}))
    if found is None or found.hip is None:
        raise LabError(
            "the directory tree contains no HIP runtime", where=f"--root {root}", hint="set it up again: make rocm-root"
        )
    return found


def compile_sources(
    sources: tuple[Path, ...],
    target: Target,
    build_arguments: str,
    runtime: RuntimeName,
    root: Path | None,
    *,
    where: str = "--build-args",
    architectures: tuple[str, ...] = (),
) -> BuiltProgram:
    """Build the executable from sources, or from objects among the arguments; its warnings include notes about the arguments.

    Raises:
        LabError: The sources do not compile.
    """
    from rocm_perf_lab.toolchain.build_arguments import BuildArguments
    from rocm_perf_lab.toolchain.hip_program import HipProgram, build_program

    arguments = BuildArguments.parse(build_arguments, where)
    program = HipProgram(sources, architectures or (target.architecture,), arguments)
    program.check()
    built = build_program(program, lambda: hip_library(runtime, root), cache_dir())
    notes = "".join(f"rocm-perf: {note}\n" for note in arguments.notes)
    return replace(built, warnings=f"{notes}{built.warnings}")
