"""The GPUs of this machine, by the numbers used in HIP_VISIBLE_DEVICES."""

from __future__ import annotations

import os
import re
from pathlib import Path

VISIBLE = "HIP_VISIBLE_DEVICES"
_NODES = Path("/sys/class/kfd/kfd/topology/nodes")


def gpu_ids(nodes: Path = _NODES) -> tuple[str, ...]:
    """Return the GPUs in HIP_VISIBLE_DEVICES, or all GPUs if it is not set.

    Args:
        nodes: Topology of the driver; nodes without SIMDs are CPUs.
    """
    allowed = os.environ.get(VISIBLE)
    if allowed is not None:
        return tuple(number.strip() for number in allowed.split(",") if number.strip())
    described = [path.read_text(encoding="utf-8") for path in nodes.glob("*/properties")]
    return tuple(str(number) for number in range(sum(_simds(text) > 0 for text in described)))


def _simds(properties: str) -> int:
    found = re.search(r"^simd_count (\d+)$", properties, flags=re.MULTILINE)
    return int(found[1]) if found else 0
