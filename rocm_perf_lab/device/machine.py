"""GPUs, driver, ROCm installations and access rights of this machine, read from files without loading a GPU library.

The GPUs are in the topology of the amdkfd driver: `/sys/class/kfd/kfd/topology/nodes/<n>/properties`.
"""

from __future__ import annotations

import grp
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.arch.registry import architecture_name
from rocm_perf_lab.toolchain.compilers import ToolSearch, is_tree_of_lab

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ACCESS_GROUPS = ("render", "video")
_DECODER = "librocprof-trace-decoder.so"
_THIS_TOPOLOGY = Path("/sys/class/kfd/kfd/topology/nodes")


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
    """Files, environment and user of a machine; the defaults are this machine and this process."""

    root: Path = Path("/")
    """Directory of `dev`, `sys`, `proc` and `opt`."""
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    groups: frozenset[str] = field(default_factory=_own_groups)
    is_superuser: bool = field(default_factory=lambda: os.geteuid() == 0)
    packages: tuple[str, ...] | None = None
    """Directories with Python packages; None means `sys.path`."""

    @property
    def kfd(self) -> Path:
        """Device file of the compute driver."""
        return self.root / "dev" / "kfd"

    @property
    def executables(self) -> str:
        """`PATH`."""
        return self.environment.get("PATH", os.defpath)

    @property
    def tools(self) -> ToolSearch:
        """Search path for compilers."""
        roots = self.rocm_roots()
        return ToolSearch(self.executables, self.packages, roots[0] if roots else self.root / "opt" / "rocm")

    def rocm_roots(self) -> tuple[Path, ...]:
        """Return the ROCm installations: `ROCM_PATH` first, then /opt/rocm, then the newest."""
        named = self.environment.get("ROCM_PATH")
        installed = sorted(self.root.glob("opt/rocm*"), key=lambda path: _numbers(path.name), reverse=True)
        installed.sort(key=lambda path: path.name != "rocm")
        found = [path for path in (*([Path(named)] if named else []), *installed) if path.is_dir() and not is_tree_of_lab(path)]
        return tuple({path.resolve(): path for path in reversed(found)}.values())[::-1]

    def text(self, path: str) -> str | None:
        """Return the content of a small file below the root, or None if it cannot be read."""
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None


@dataclass(frozen=True)
class Gpu:
    """GPU in the topology of the driver: `node` is its number there, `architecture` its name in compilers."""

    node: int
    architecture: str
    compute_units: int
    xcds: int
    code_name: str


def gpus(machine: Machine) -> tuple[Gpu, ...]:
    """Return the GPUs in the order of the driver, without the CPUs of the topology."""
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


def gpu_ids(nodes: Path = _THIS_TOPOLOGY) -> tuple[str, ...]:
    """Return the GPUs in HIP_VISIBLE_DEVICES, or all GPUs if it is not set.

    Args:
        nodes: Topology of the driver; nodes without SIMDs are CPUs.
    """
    allowed = os.environ.get("HIP_VISIBLE_DEVICES")
    if allowed is not None:
        return tuple(number.strip() for number in allowed.split(",") if number.strip())
    described = [path.read_text(encoding="utf-8") for path in nodes.glob("*/properties")]
    return tuple(str(number) for number in range(sum(_properties(text).get("simd_count", 0) > 0 for text in described)))


def rocm_version(root: Path) -> str | None:
    """Return the version of a ROCm installation, for example 7.1.0-42, or None if it is unknown."""
    for name in ("version", "version-rocm"):
        try:
            return (root / ".info" / name).read_text().strip() or None
        except OSError:
            continue
    return None


def find_library(machine: Machine, name: str) -> Path | None:
    """Return the path of a shared library in `LD_LIBRARY_PATH` or the lib directories of ROCm, or None."""
    directories = [Path(entry) for entry in machine.environment.get("LD_LIBRARY_PATH", "").split(":") if entry]
    directories += [root / "lib" for root in machine.rocm_roots()]
    return next((path for directory in directories for path in sorted(directory.glob(f"{name}*"))), None)


def find_trace_decoder(machine: Machine) -> Path | None:
    """Return the library with which rocprofv3 decodes thread traces, or None."""
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
