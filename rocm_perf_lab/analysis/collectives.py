"""Kernels that exchange data between GPUs, recognised by name."""

from __future__ import annotations

import re

_COMMUNICATION = re.compile(
    r"nccl|rccl|msccl|shmem|cross_device_reduce|deep_?ep|(?:one|two)_?shot_?(?:all_?)?reduce"
    r"|(?<![a-z])all_?(?:reduce|gather|to_?all)|reduce_?scatter|(?<![a-z])all2all",
    re.IGNORECASE,
)


def is_communication(name: str) -> bool:
    """Return whether a kernel is a collective or another exchange between GPUs: of RCCL, MSCCL, or a common framework.

    Such a kernel waits for its peers, so its times differ by nature.

    Args:
        name: Demangled or mangled name; parameters are ignored.
    """
    function = name.replace("(anonymous namespace)::", "").partition("(")[0]
    return _COMMUNICATION.search(function) is not None
