"""The GPUs of this machine, by the numbers that HIP_VISIBLE_DEVICES takes."""

from __future__ import annotations

import os
import re
from pathlib import Path

VISIBLE = "HIP_VISIBLE_DEVICES"
_NODES = Path("/sys/class/kfd/kfd/topology/nodes")


def gpu_ids(nodes: Path = _NODES) -> tuple[str, ...]:
    """Those that HIP_VISIBLE_DEVICES allows, else all; empty where there is none.

    Args:
        nodes: The driver's description of the machine; nodes without SIMDs are CPUs.
    """
    allowed = os.environ.get(VISIBLE)
    if allowed is not None:
        return tuple(word.strip() for word in allowed.split(",") if word.strip())
    described = [path.read_text(encoding="utf-8") for path in nodes.glob("*/properties")]
    return tuple(str(number) for number in range(sum(_simds(text) > 0 for text in described)))


def _simds(properties: str) -> int:
    found = re.search(r"^simd_count (\d+)$", properties, flags=re.MULTILINE)
    return int(found[1]) if found else 0
