"""Captures in the layouts of kerncap and the original rocm-perf-lab: decimal addresses, exact sizes, no manifest."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any, Literal

from rocm_perf_lab.replay.reader import open_capture
from tests.builders.captures import scale_capture

if TYPE_CHECKING:
    from pathlib import Path

ForeignTool = Literal["original rocm-perf-lab", "kerncap"]
COUNT = 1000
"""Floats of the captured `scale`."""


def foreign_capture(parent: Path, tool: ForeignTool) -> Path:
    """Write `parent`/foreign, converted from a capture in the same directory."""
    ours = open_capture(scale_capture(parent / "ours", n=COUNT))
    directory = parent / "foreign"
    (directory / "memory").mkdir(parents=True)
    shutil.copy(ours.directory / "kernel.hsaco", directory)
    shutil.copy(ours.directory / "kernarg.bin", directory)
    regions = []
    for region in ours.regions[:2]:
        block = region.requested[0]
        (directory / "memory" / f"region_{block.base:x}.bin").write_bytes(ours.image(region)[: block.size].tobytes())
        regions.append({"base": block.base, "size": block.size, "is_pool": True, "is_vmem": False, "handle": 0, "access": 0})
    packet = ours.dispatch.packet
    dispatch: dict[str, Any] = {
        "mangled_name": "scale",
        "demangled_name": "",
        "kernel_object": 1234567,
        "grid": list(packet.grid_size),
        "block": list(packet.workgroup_size),
        "group_segment_size": packet.group_segment_size,
        "private_segment_size": packet.private_segment_size,
        "kernarg_size": len(ours.kernarg),
        "dispatch_index": 0,
    }
    if tool == "kerncap":
        dispatch |= {
            "agent_name": "gfx942",
            "isa_name": "amdgcn-amd-amdhsa--gfx942",
            "wavefront_size": 64,
            "mangled_name": "scale.kd",
        }
        (directory / "metadata.json").write_text(json.dumps({"kernel_name": "scale"}))
        (directory / "module_variables.json").write_text(
            json.dumps({"variables": [{"name": "calls", "size": 4, "blob": "memory/variable_calls.bin"}]})
        )
        (directory / "memory" / "variable_calls.bin").write_bytes((77).to_bytes(4, "little"))
    (directory / "dispatch.json").write_text(json.dumps(dispatch))
    (directory / "memory_regions.json").write_text(json.dumps({"regions": regions}))
    return directory
