"""`rocm-perf doctor`: print the checks of this machine, as a table or as JSON."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from rocm_perf_lab.device.machine import Machine
from rocm_perf_lab.jobs.doctor.checks import INSTALL_EMULATOR, LabDirectories, check_machine

if TYPE_CHECKING:
    from rich.console import Console

    from rocm_perf_lab.jobs.doctor.checks import MachineCheck, MachineReport

_COLOURS = {"ok": "green", "missing": "yellow", "broken": "red"}


def run_doctor(console: Console, *, as_json: bool) -> bool:
    """Print all checks; return whether a device can be used."""
    from platformdirs import user_cache_path

    named = os.environ.get("ROCM_PERF_LAB_CACHE")
    found = check_machine(Machine(), LabDirectories(Path(named) if named else user_cache_path("rocm-perf-lab")))
    if as_json:
        document = {"schema_version": "1.0", "can_run": list(found.can_run), "checks": [_plain(check) for check in found.checks]}
        print(json.dumps(document, indent=2))
    else:
        show_report(console, found)
    return bool(found.can_run)


def remove_leftovers_of_captures(console: Console) -> None:
    """Remove the work directories of captures whose processes were killed; sealed captures are moved to their output."""
    from rocm_perf_lab.replay.capture_work import leftovers

    for leftover in leftovers():
        for capture in leftover.remove():
            console.print(Text(f"kept     {capture}"), soft_wrap=True)
        console.print(Text(f"removed  {leftover.work}"), soft_wrap=True)


def _plain(check: MachineCheck) -> dict[str, str | None]:
    """Return the JSON object of a check; its key `remedy` is the deprecated name of the hint."""
    plain = asdict(check)
    return {**{name: value for name, value in plain.items() if name != "hint"}, "remedy": check.hint}


def show_report(console: Console, found: MachineReport) -> None:
    """Print one row per check, grouped by area, with the hint below a failed check."""
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
        console.print(Text(f"usable devices: device={', device='.join(found.can_run)}"))
    else:
        console.print(Text(f"no device can be used here; the emulator needs only: {INSTALL_EMULATOR}", style="red"))
