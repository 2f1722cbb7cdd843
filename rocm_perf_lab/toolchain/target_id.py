"""Target ids: a processor and its settings, `gfx942:sramecc+:xnack-`, and which GPUs run the code of one.

Rules: LLVM "User Guide for AMDGPU Backend", Target ID and EF_AMDGPU_FEATURE_*; ROCr's loader (Isa::IsCompatible): an omitted
setting runs with both, and generic code runs on the processors that LLVM lists, if its version is not older than theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIRST_WITH_ANY = 2
"""ABI version in the ELF header of code objects of version 4; older ones have one bit for each setting."""
_FIRST_GENERIC = 4
"""ABI version of code objects of version 6."""
_SETTINGS = {"sramecc": (0x200, 10), "xnack": (0x100, 8)}
"""Bit in code objects of version 3, and position of two bits in later ones, in the order of a target id."""
_OFF, _ON = 2, 3
_GENERIC_VERSION_SHIFT = 24
OLDEST_GENERIC_VERSION = 1
"""Of all generic targets so far."""


@dataclass(frozen=True)
class TargetId:
    """Processor and the settings that its code requires: True is on, False is off, an omitted one may be either."""

    processor: str
    settings: tuple[tuple[str, bool], ...] = ()

    def __str__(self) -> str:
        return "".join([self.processor, *(f":{name}{'+' if on else '-'}" for name, on in self.settings)])

    def unmet(self, gpu: Mapping[str, bool]) -> tuple[str, ...]:
        """Return the required settings that a GPU does not have, such as `sramecc-`; `gpu` has its fixed settings."""
        return tuple(f"{name}{'+' if on else '-'}" for name, on in self.settings if gpu.get(name, on) != on)


def parse_target_id(text: str) -> TargetId:
    """Parse `gfx942:sramecc+:xnack-`; parts that are not settings are ignored."""
    processor, *parts = text.split(":")
    return TargetId(processor, tuple((part[:-1], part[-1] == "+") for part in parts if part[-1:] in ("+", "-")))


def target_id_of_flags(processor: str, flags: int, abi_version: int, possible: tuple[str, ...]) -> TargetId:
    """Return the target id that the ELF header of a code object of version 3 or later states.

    Args:
        processor: Name of the processor or generic target.
        flags: ELF flags.
        abi_version: ABI version of the ELF header.
        possible: Settings that the processor has.
    """
    settings = []
    for name, (bit, shift) in _SETTINGS.items():
        if name not in possible:
            continue
        if abi_version < _FIRST_WITH_ANY:
            settings.append((name, bool(flags & bit)))
        elif flags >> shift & 3 in (_OFF, _ON):
            settings.append((name, flags >> shift & 3 == _ON))
    return TargetId(processor, tuple(settings))


def generic_version(flags: int, abi_version: int) -> int:
    """Return the version of the generic target in the ELF flags; 0 if there is none, as before code objects of version 6."""
    return flags >> _GENERIC_VERSION_SHIFT if abi_version >= _FIRST_GENERIC else 0
