"""Captures by ROCm release: `python -m benchmarks.rocm_releases [--suite NAME]...`.

Each kind of application is captured inside AMD's runtime on the emulated GPU and replayed in new processes, through that
runtime and on the emulator; it counts if both replays yield the captured bytes. Releases are those of the directory trees
that `make rocm-root SUITE=NAME` sets up; rows of other releases are kept, and the file is written after each release.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.figures import Publisher
from rocm_perf_lab.device.machine import Machine
from rocm_perf_lab.runtime.installation import find_runtime
from rocm_perf_lab.runtime.rocm_releases import RELEASES
from rocm_perf_lab.runtime.rocm_root import is_complete
from tests.builders.rocm_captures import Captures
from tests.builders.rocm_programs import RocmPrograms

if TYPE_CHECKING:
    from rocm_perf_lab.runtime.rocm_releases import DebianRelease

_COLUMNS = ("ROCm", "packages", "captured and replayed with equal bytes", "failed")
_DIES = ("/bin/sh", "-c", '"$0" "$1" & sleep 10; kill -9 $!')
"""Prefix of an application that does not end by itself and is killed after the capture."""

_REFUSAL = "is older than ROCm 6.0, the oldest supported version"
_WITHOUT_GFX942 = ("bookworm",)
"""Suites whose compiler and runtime are older than gfx942."""


@dataclass(frozen=True)
class Kind:
    """Type of application: a check of a program, and the dispatch to capture."""

    program: str
    check: str
    kernel: str
    dispatch: int = 0
    before: tuple[str, ...] = ()


KINDS = {
    "plain": Kind("captured", "scale", "scale", 1),
    "streams and events": Kind("execution", "event_order", "scale", 50),
    "expandable segments": Kind("capture_states", "chunks", "add_chunks"),
    "IPC": Kind("processes", "memory_handles", "add"),
    "managed memory": Kind("memory", "managed", "scale"),
    "graph": Kind("execution", "graph", "scale", 6),
    "cooperative": Kind("execution", "cooperative", "neighbours"),
    "printf": Kind("execution", "device_printf", "say"),
    "module": Kind("execution", "run_time_compiler", "add"),
    "killed": Kind("capture_states", "serving", "triple", 2, _DIES),
}


def main(arguments: list[str] | None = None) -> None:
    """Capture in every tree, print and write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rocm_releases", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--suite", action="append", choices=list(RELEASES), metavar="NAME", help=f"one of: {', '.join(RELEASES)}")
    publisher = Publisher("rocm_releases", parser, arguments)
    path = publisher.options.json
    data: dict[str, Any] = dict(json.loads(path.read_text(encoding="utf-8"))["data"]) if path.exists() else {}
    for suite in publisher.options.suite or RELEASES:
        if is_complete(RELEASES[suite].root):
            data = {**data, suite: results_of(RELEASES[suite])}
            data = {key: data[key] for key in RELEASES if key in data}
            publisher.publish("captures by ROCm release", _COLUMNS, {key: row(key, one) for key, one in data.items()}, data)
        else:
            print(f"{suite} was not run: make rocm-root SUITE={suite}", file=sys.stderr)


def results_of(release: DebianRelease) -> dict[str, Any]:
    """Return the versions of a release and, by kind of application, the reason of the failure or an empty text."""
    runtime = find_runtime(Machine(root=release.root, environment={}))
    is_old = release.suite in _WITHOUT_GFX942
    programs = RocmPrograms(release.root, ("gfx90a",)) if is_old else RocmPrograms(release.root)
    options = ("--target", "mi250x") if is_old else ()
    kinds = {}
    for name, kind in KINDS.items():
        with tempfile.TemporaryDirectory(prefix="rpl-") as directory:
            kinds[name] = failure(Captures(programs, Path(directory), kind.program), kind, options)
        print(f"{release.suite}, {name}: {kinds[name] or 'passed'}", file=sys.stderr, flush=True)
        if _REFUSAL in kinds[name]:
            break
    versions = {"rocr": runtime.rocr, "hip": runtime.hip} if runtime is not None else {}
    return {**versions, "kinds": kinds}


def failure(captures: Captures, kind: Kind, options: tuple[str, ...]) -> str:
    """Capture and replay one application and return the reason of its failure, empty if the bytes are equal."""
    try:
        captures.make("capture", kind.kernel, kind.check, "--dispatch", str(kind.dispatch), *options, before=kind.before)
        found = sorted(
            path.parent.relative_to(captures.directory) for path in captures.directory.glob("capture/**/manifest.json")
        )
        replays = [replay for name in found for replay in captures.replays(str(name))]
    except AssertionError as error:  # A command failed.
        return reason_of(str(error))
    except subprocess.TimeoutExpired as error:
        return f"not complete after {error.timeout:.0f} s"
    is_equal = all(replay["verification"]["passed"] and replay["verification"]["exact"] for replay in replays)
    return "" if replays and is_equal else "the replay yields other bytes"


def reason_of(output: str) -> str:
    """Return the line of a failed command that has the reason: its first error, else its last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return next((line for line in lines if "error:" in line or line.startswith("FAIL")), lines[-1] if lines else "no output")


def row(suite: str, result: dict[str, Any]) -> tuple[str, ...]:
    """Return a row of the table; the reasons of failures are in the JSON document."""
    version, count = f"ROCr {result['rocr']}, HIP {result['hip']}", len(result["kinds"])
    if _REFUSAL in result["kinds"]["plain"]:
        return version, f"Debian {suite}", "refused", ""
    failed = [name for name, reason in result["kinds"].items() if reason]
    return version, f"Debian {suite}", f"{count - len(failed)} of {count}", ", ".join(failed)


if __name__ == "__main__":
    main()
