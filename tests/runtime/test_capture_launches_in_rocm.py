"""Captures of launches of every kind inside AMD's runtime; each replays with equal bytes through ROCm and on the emulator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.builders.rocm_captures import Captures

if TYPE_CHECKING:
    from pathlib import Path

    from tests.builders.rocm_programs import RocmPrograms

pytestmark = pytest.mark.slow

LAUNCHES = {
    "streams and events": ("execution", "event_order", "scale", 50),
    "managed memory": ("memory", "managed", "scale", 0),
    "graph": ("execution", "graph", "scale", 6),
    "cooperative": ("execution", "cooperative", "neighbours", 0),
    "printf": ("execution", "device_printf", "say", 0),
    "malloc": ("execution", "device_heap", "device_malloc", 0),
    "kernel of HIP": ("capture_states", "chunks", "__amd_rocclr_copyBuffer", 0),
    "module": ("execution", "run_time_compiler", "add", 0),
}


def require_equal_replays(captures: Captures, name: str) -> None:
    for replay in captures.replays(name):
        assert replay["verification"]["passed"]
        assert replay["verification"]["exact"]


@pytest.mark.parametrize(("program", "check", "kernel", "dispatch"), LAUNCHES.values(), ids=LAUNCHES)
def test_a_launch_is_captured(
    rocm_programs: RocmPrograms, tmp_path: Path, program: str, check: str, kernel: str, dispatch: int
) -> None:
    captures = Captures(rocm_programs, tmp_path, program)

    require_equal_replays(captures, captures.make("capture", kernel, check, "--dispatch", str(dispatch)))


def test_every_process_that_dispatches_the_kernel_is_captured(rocm_programs: RocmPrograms, tmp_path: Path) -> None:
    captures = Captures(rocm_programs, tmp_path, "processes")

    captures.make("capture", "add", "memory_handles")

    found = sorted(path.name for path in (tmp_path / "capture").iterdir())
    assert [name.rpartition("-pid")[0] for name in found] == ["_Z3addPii-0", "_Z3addPii-0"]
    kinds = [
        {region["kind"] for region in captures.content(f"capture/{name}", "memory_regions.json")["regions"]} for name in found
    ]
    assert any("ipc" in of_process for of_process in kinds)
    for name in found:
        require_equal_replays(captures, f"capture/{name}")
