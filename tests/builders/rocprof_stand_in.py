"""A stand-in for rocprofv3: it checks its arguments like the original and writes databases of emulated dispatches.

The profiled program writes its "launches" as JSON lines in the file that STAND_IN_DISPATCHES names; see `launch`.
STAND_IN_VERSION, STAND_IN_FAULT and STAND_IN_DECODER choose how the profiler behaves.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.rocprof.recording import DispatchRecord, KernelSymbolRecord

SLOTS = {"SQ": 8, "SQC": 8, "TA": 2, "TD": 2, "TCP": 4, "TCC": 4, "CPC": 2, "CPF": 2, "SPI": 6, "GRBM": 2, "GDS": 4}
DISPATCHES = "STAND_IN_DISPATCHES"
FLAGS = {"--kernel-trace", "--memory-copy-trace", "-M", "--att", "--kernel-replay-beta-enabled"}
VALUES = {"-d", "-o", "--kernel-include-regex", "--att-target-cu", "--att-shader-engine-mask", "--replay-mode"}
GAP_NS = 2000


def launch(kernel: str, queue: int = 0, source: str | None = None, **params: int) -> None:
    """Record the launch of an experiment's kernel with params, or of another source of it."""
    with Path(os.environ[DISPATCHES]).open("a") as sink:
        sink.write(json.dumps({"kernel": kernel, "queue": queue, "source": source, "params": params}) + "\n")


class CommandLine:
    """Parsed command line; arguments that the original refuses end this program with the same message."""

    def __init__(self, words: Sequence[str]) -> None:
        if "--" not in words or words[-1] == "--":
            fatal("No application provided")
        split = list(words).index("--")
        self.application = list(words[split + 1 :])
        self.flags: set[str] = set()
        self.values: dict[str, str] = {}
        self.groups: list[list[str]] = []
        self.formats: list[str] = []
        self._options(list(words[:split]))

    def _options(self, options: list[str]) -> None:
        while options:
            word = options.pop(0)
            if word in FLAGS:
                self.flags.add(word)
            elif word in VALUES:
                self.values[word] = options.pop(0)
            elif word == "-f":
                while options and not options[0].startswith("-"):
                    self.formats.append(options.pop(0))
            elif word == "--pmc":
                self.groups.append([])
                while options and not options[0].startswith("-"):
                    self.groups[-1] += re.split(r"[ ,]+", options.pop(0))
            else:
                print(f"rocprofv3: error: unrecognized arguments: {word}", file=sys.stderr)
                sys.exit(2)


def main(words: Sequence[str]) -> int:
    """Behave like rocprofv3."""
    version = os.environ.get("STAND_IN_VERSION", "1.1.0")
    if list(words) == ["--version"]:
        print(f"{'version':>15}: {version}\n{'git_revision':>15}: 0000000")
        return 0
    asked = CommandLine(words)
    check(asked, version)
    with tempfile.TemporaryDirectory() as directory:
        dispatches = Path(directory) / "dispatches.jsonl"
        dispatches.touch()
        code = subprocess.run(asked.application, env=os.environ | {DISPATCHES: str(dispatches)}, check=False).returncode
        if code:
            return code
        rows = [json.loads(line) for line in dispatches.read_text().splitlines()]
        write(asked, rows, Path(directory))
    return 0


def check(asked: CommandLine, version: str) -> None:
    """Fail as rocprofv3 does before the application starts."""
    if "--att" in asked.flags and os.environ.get("STAND_IN_DECODER") == "missing":
        fatal("rocprof-trace-decoder library path not found in ['/opt/rocm/lib']")
    if "--replay-mode" in asked.values and tuple(map(int, version.split("."))) < (1, 4, 1):
        print("rocprofv3: error: unrecognized arguments: --replay-mode", file=sys.stderr)
        sys.exit(2)
    if os.environ.get("STAND_IN_FAULT") == "counters" and asked.groups:
        print("Required permission (CAP_PERFMON) is not set, permission denied", file=sys.stderr)
        sys.exit(1)
    if os.environ.get("STAND_IN_FAULT") == "replay" and "--replay-mode" in asked.values:
        fatal("kernel replay is not supported for this application")
    for group in asked.groups:
        used = Counter("SQ" if name.startswith("SQ") else name.partition("_")[0] for name in group)
        if any(count > SLOTS.get(block, 0) for block, count in used.items() if block in SLOTS):
            print("Could not construct profile cfg: Request exceeds the capabilities of the hardware to collect", file=sys.stderr)
            sys.stderr.flush()
            os.abort()


def fatal(text: str) -> None:
    """Exit with an error of rocprofv3.py."""
    print(f"Fatal error: {text}", file=sys.stderr)
    sys.exit(1)


def write(asked: CommandLine, rows: list[dict[str, Any]], scratch: Path) -> None:
    """Write one database for the process, and a decoded thread trace if requested."""
    output = Path(asked.values["-d"])
    if not rows:
        return
    counters = [name for group in asked.groups for name in group]
    included = re.compile(asked.values.get("--kernel-include-regex", ""))
    recorded = Recording(counters, included)
    for row in rows:
        recorded.add(row, scratch, output if "--att" in asked.flags else None)
    output.mkdir(parents=True, exist_ok=True)
    recorded.write(output / asked.values["-o"], asked.formats, asked.groups)
    unknown = sorted(set(counters) - recorded.collected)
    if unknown:
        print(f"W Unable to find all counters for agent 4 (gpu-0, gfx942) in {counters}. Missing: {unknown}", file=sys.stderr)


class Recording:
    """Emulated dispatches of several kernels, one after another on the clock of one process."""

    def __init__(self, counters: list[str], included: re.Pattern[str]) -> None:

        self._counters = counters
        self._included = included
        self._kernels: dict[str, KernelSymbolRecord] = {}
        self._dispatches: list[DispatchRecord] = []
        self._now = 1_000_000
        self.collected: set[str] = set()

    def add(self, row: dict[str, Any], scratch: Path, att: Path | None) -> None:
        """Emulate one dispatch."""
        from rocm_perf_lab.device.emulator import EmulatorDevice
        from rocm_perf_lab.rocprof.reader import read_database
        from rocm_perf_lab.rocprof.recording import DispatchRecord, KernelSymbolRecord
        from rocm_perf_lab.target.catalog import load_target

        launch, symbol = described(row["kernel"], row["params"], row["source"])
        wanted = self._counters if self._included.search(symbol.removesuffix(".kd")) else []
        directory = scratch / f"{len(self._dispatches)}"
        directory.mkdir()
        traced = att / f"ui_output_agent_1_dispatch_{len(self._dispatches) + 1}" if att is not None else None
        if traced is not None and not self._included.search(symbol.removesuffix(".kd")):
            traced = None
        device = EmulatorDevice(target=load_target("mi300x"))
        run = device.run(
            launch, database=directory / "run_results.db", runs=1, counters=wanted, att=directory / "att" if traced else None
        )
        if traced is not None:
            (found,) = [path.parent for path in (directory / "att").rglob("code.json")]
            traced.parent.mkdir(parents=True, exist_ok=True)
            found.rename(traced)
        trace = read_database(run.database)
        kernel, columns = trace.kernels[0], trace.dispatches
        record = self._kernels.setdefault(
            kernel.mangled_name,
            KernelSymbolRecord(
                id=len(self._kernels) + 1,
                code_object_id=1,
                mangled_name=kernel.mangled_name,
                display_name=kernel.name,
                arch_vgpr_count=kernel.arch_vgpr_count,
                accum_vgpr_count=kernel.accum_vgpr_count,
                sgpr_count=kernel.sgpr_count,
                static_lds_bytes=kernel.static_lds_bytes,
                static_scratch_bytes=kernel.static_scratch_bytes,
            ),
        )
        duration = int(columns.duration_ns[0])
        counted = trace.counters_of(0)
        self.collected |= set(counted)
        self._dispatches.append(
            DispatchRecord(
                kernel_id=record.id,
                start_ns=self._now,
                end_ns=self._now + duration,
                grid=tuple(columns.grid[0].tolist()),
                workgroup=tuple(columns.workgroup[0].tolist()),
                lds_bytes=int(columns.lds_bytes[0]),
                scratch_bytes=int(columns.scratch_bytes[0]),
                queue=row["queue"],
                counters=counted,
            )
        )
        self._now += duration + GAP_NS

    def write(self, prefix: Path, formats: Sequence[str], groups: Sequence[Sequence[str]]) -> None:
        """Write the output files. Only JSON separates the passes of kernel replay; a database has all values of all passes."""
        from rocm_perf_lab.rocprof.recording import AgentRecord, CodeObjectRecord, ProcessRecord, RecordedRun
        from rocm_perf_lab.rocprof.writer import write_database
        from rocm_perf_lab.target.catalog import load_target
        from tests.builders.rocprof_json import process_of, write_json

        agent = AgentRecord.from_target(load_target("mi300x"), device="emulator", emulated=True, versions={})
        code_objects = (CodeObjectRecord(1, "file:///app", 4096, "0" * 64),)
        run = RecordedRun(agent, ProcessRecord("app"), code_objects, tuple(self._kernels.values()), tuple(self._dispatches))
        if "json" in formats:
            write_json(Path(f"{prefix}_results.json"), process_of(run, groups=groups, kernel_trace=not groups))
        if "rocpd" in formats:
            write_database(Path(f"{prefix}_results.db"), run)


def described(kernel: str, params: dict[str, int], source: str | None = None) -> Any:
    """Return launch and symbol of an experiment."""
    import yaml

    from rocm_perf_lab.core.resources import resource_dir
    from rocm_perf_lab.device.launch import build_launch
    from rocm_perf_lab.languages.compilation import compile_description
    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.toolchain.compilers import find_compiler
    from rocm_perf_lab.toolchain.kernel_lookup import find_kernel

    directory = resource_dir("experiments") / kernel
    row = yaml.safe_load((directory / "kernel.yaml").read_text())
    description = KernelDescription.model_validate(row | {"directory": directory, "params": row["params"] | params})
    built = compile_description(
        description,
        Path(source) if source else description.source_path,
        architecture="gfx942",
        compiler=lambda: find_compiler(("hipcc", "clang", "pip")),
    )
    symbol = find_kernel(built.code_object, description.entry).symbol
    return build_launch(description, built.code_object, symbol, built.contract), symbol


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
