"""What this machine has of a GPU: devices, driver, ROCm, access; read from files, no GPU library is loaded.

Takes a :class:`Machine` (where to look), gives facts. Linux's KFD topology: Documentation of the amdkfd driver,
`/sys/class/kfd/kfd/topology/nodes/<n>/properties`.
"""

from __future__ import annotations

import grp
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.arch.registry import architecture_name
from rocm_perf_lab.toolchain.compilers import ToolSearch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ACCESS_GROUPS = ("render", "video")
_DECODER = "librocprof-trace-decoder.so"


def _own_groups() -> frozenset[str]:
    names = set()
    for number in {*os.getgroups(), os.getegid()}:
        try:
            names.add(grp.getgrgid(number).gr_name)
        except KeyError:
            names.add(str(number))
    return frozenset(names)


@dataclass(frozen=True)
class Machine:
    """Where to look; the defaults are this machine and this process."""

    root: Path = Path("/")
    """Where `dev`, `sys`, `proc` and `opt` are."""
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    groups: frozenset[str] = field(default_factory=_own_groups)
    is_superuser: bool = field(default_factory=lambda: os.geteuid() == 0)
    packages: tuple[str, ...] | None = None
    """Directories with Python packages; None takes `sys.path`."""

    @property
    def kfd(self) -> Path:
        """The driver's door to compute."""
        return self.root / "dev" / "kfd"

    @property
    def executables(self) -> str:
        """`PATH`."""
        return self.environment.get("PATH", os.defpath)

    @property
    def tools(self) -> ToolSearch:
        """Where compilers are looked for."""
        roots = self.rocm_roots()
        return ToolSearch(self.executables, self.packages, roots[0] if roots else self.root / "opt" / "rocm")

    def rocm_roots(self) -> tuple[Path, ...]:
        """ROCm installations, the one that `ROCM_PATH` names first, then /opt/rocm, then the newest."""
        named = self.environment.get("ROCM_PATH")
        installed = sorted(self.root.glob("opt/rocm*"), key=lambda path: _numbers(path.name), reverse=True)
        installed.sort(key=lambda path: path.name != "rocm")
        found = [path for path in (*([Path(named)] if named else []), *installed) if path.is_dir()]
        return tuple({path.resolve(): path for path in reversed(found)}.values())[::-1]

    def text(self, path: str) -> str | None:
        """Content of a small file below the root, or None."""
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None


@dataclass(frozen=True)
class Gpu:
    """One GPU of the topology: `architecture` as compilers name it, `node` its number there."""

    node: int
    architecture: str
    compute_units: int
    xcds: int
    code_name: str


def gpus(machine: Machine) -> tuple[Gpu, ...]:
    """The GPUs that the driver shows, in its order; CPUs of the topology are left out."""
    nodes = machine.root / "sys" / "class" / "kfd" / "kfd" / "topology" / "nodes"
    found = []
    for directory in sorted(nodes.glob("[0-9]*"), key=lambda path: _numbers(path.name)):
        properties = _properties(machine.text(str((directory / "properties").relative_to(machine.root))) or "")
        if properties.get("simd_count", 0) <= 0 or not properties.get("gfx_target_version"):
            continue
        found.append(
            Gpu(
                node=int(directory.name),
                architecture=architecture_name(properties["gfx_target_version"]),
                compute_units=properties["simd_count"] // max(properties.get("simd_per_cu", 1), 1),
                xcds=max(properties.get("num_xcc", 1), 1),
                code_name=machine.text(str((directory / "name").relative_to(machine.root))) or "",
            )
        )
    return tuple(found)


def rocm_version(root: Path) -> str | None:
    """What an installation says of itself, for example 7.1.0-42."""
    for name in ("version", "version-rocm"):
        try:
            return (root / ".info" / name).read_text().strip() or None
        except OSError:
            continue
    return None


def find_library(machine: Machine, name: str) -> Path | None:
    """A shared library in `LD_LIBRARY_PATH` or ROCm's lib directories."""
    directories = [Path(entry) for entry in machine.environment.get("LD_LIBRARY_PATH", "").split(":") if entry]
    directories += [root / "lib" for root in machine.rocm_roots()]
    return next((path for directory in directories for path in sorted(directory.glob(f"{name}*"))), None)


def find_trace_decoder(machine: Machine) -> Path | None:
    """Where rocprofv3 would find the library that decodes thread traces."""
    named = machine.environment.get("ROCPROF_ATT_LIBRARY_PATH")
    inside = sorted(Path(named).rglob(f"*{_DECODER}*")) if named else []
    return inside[0] if inside else find_library(machine, _DECODER)


def _properties(text: str) -> dict[str, int]:
    return dict(_pairs(text))


def _pairs(text: str) -> Iterator[tuple[str, int]]:
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if value.strip().isdigit():
            yield name, int(value)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text))
