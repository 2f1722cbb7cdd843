"""Current clocks of a GPU, read from the amdgpu driver in sysfs (hwmon: freq1_input shader, freq2_input memory, in Hz)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_DEVICES = Path("/sys/bus/pci/devices")
_FILES = {"shader": "freq1_input", "memory": "freq2_input"}


def read_clocks(domain: int, bdf: int, devices: Path = _DEVICES) -> dict[str, float]:
    """Return clocks in MHz by name, without those that the driver does not report.

    Args:
        domain: PCI domain.
        bdf: Bus (8 bits), device (5 bits), function (3 bits).
        devices: Directory of PCI devices.
    """
    place = f"{domain:04x}:{bdf >> 8 & 0xFF:02x}:{bdf >> 3 & 0x1F:02x}.{bdf & 7}"
    found: dict[str, float] = {}
    for directory in sorted((devices / place / "hwmon").glob("hwmon*")):
        for name, file in _FILES.items():
            with suppress(OSError, ValueError):
                found[name] = int((directory / file).read_text()) / 1e6
    return found
